/* SPDX-License-Identifier: MIT */
/* option.c - unit tests of base/option*.c: every type on both sides of each bound, the order of
 * precedence, the messages for mistakes, and that help, man page and completion name every row. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "../../base/option.h"
#include "../../server/serve.h"

struct target {
    bool flag, other, toggle;
    uint64_t number, size, time, open_ended;
    const char *text;
    struct option_list list;
    unsigned choice;
};

static const char *const colours[] = {"red", "green", "blue", NULL};

#define ROW(field_, kind) .offset = offsetof(struct target, field_), .type = OPTION_##kind
static const struct option_row rows[] = {
    {ROW(flag, FLAG), .letter = 'f', .name = "flag", .group = "A", .help = "a flag"},
    {ROW(other, FLAG), .letter = 'o', .name = "other", .fallback = "on", .group = "B",
     .help = "on"},
    {ROW(toggle, SWITCH), .name = "toggle", .fallback = "on", .group = "A", .help = "a switch"},
    {ROW(number, NUMBER), .letter = 'n', .name = "number", .fallback = "7", .min = 5, .max = 2000,
     .group = "A", .help = "a number"},
    {ROW(size, SIZE), .letter = 's', .name = "some-size", .fallback = "64k", .min = 1024,
     .max = 1048576, .group = "A", .help = "a size"},
    {ROW(time, TIME), .letter = 't', .name = "time", .fallback = "1500ms", .min = 100,
     .max = 3600000, .group = "A", .help = "a time"},
    {ROW(open_ended, NUMBER), .name = "open-ended", .min = 3, .group = "A", .help = "no maximum"},
    {ROW(text, TEXT), .name = "text", .value = "WORD", .fallback = "-", .group = "A", .rare = true,
     .help = "a text"},
    {ROW(list, LIST), .letter = 'l', .name = "list", .value = "ITEM", .fallback = "a,b",
     .group = "A", .help = "a list"},
    {ROW(choice, CHOICE), .letter = 'c', .name = "choice", .fallback = "green", .values = colours,
     .group = "A", .help = "a choice"},
};

static const char *const examples[] = {"tool -n 6", "six", NULL};
static const struct option_table table = {
    .command = "tool", .page = "tool", .nutshell = "a tool", .purpose = "Does nothing. Well.",
    .usage = "tool [OPTION]... [DIR]", .operand = "DIR", .examples = examples, .row = rows,
    .rows = sizeof(rows) / sizeof(rows[0]), .operands_max = 1, .notes = "That is all."};

static struct target got;
static struct option_found found;

/* Parse the words; the list ends with NULL. */
static int parse(const char *word, ...)
{
    const char *argv[40] = {"tool"};
    unsigned n = 1;
    va_list ap;
    va_start(ap, word);
    for (; word && n < 39; word = va_arg(ap, const char *))
        argv[n++] = word;
    va_end(ap);
    memset(&got, 0x55, sizeof(got)); /* every field must be set, not zero by chance */
    got.flag = got.other = got.toggle = false;
    got.list.count = 0;
    got.open_ended = 0;
    return option_parse(&table, &got, (char **)(uintptr_t)argv, &found);
}

static void assert_says(const char *part)
{
    if (!strstr(found.error, part))
        fail_msg("'%s' does not say '%s'", found.error, part);
}

/* --- Units ------------------------------------------------------------------------------------ */

static void test_numbers(void **state)
{
    static const struct {
        const char *text;
        int err;
        uint64_t n;
    } cases[] = {
        {"0", 0, 0}, {"007", 0, 7}, {"10k", 0, 10000}, {"10K", 0, 10000}, {"3m", 0, 3000000},
        {"1g", 0, 1000000000}, {"1.5k", 0, 1500}, {"0.001k", 0, 1},
        {"18446744073709551615", 0, UINT64_MAX}, {"18446744073709551616", -ERANGE, 0},
        {"18446744073709551615k", -ERANGE, 0}, {"99999999999999999999999", -ERANGE, 0},
        {"", -EINVAL, 0}, {"-1", -EINVAL, 0}, {"+1", -EINVAL, 0}, {" 1", -EINVAL, 0},
        {"1 ", -EINVAL, 0}, {"1.", -EINVAL, 0}, {".5", -EINVAL, 0}, {"1.5", -EINVAL, 0},
        {"0.0001k", -EINVAL, 0}, {"0x10", -EINVAL, 0}, {"1e3", -EINVAL, 0}, {"1kk", -EINVAL, 0},
        {"k", -EINVAL, 0}, {"1.0000001m", -EINVAL, 0}, {"1\n", -EINVAL, 0},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t n = 0;
        int err = option_number(cases[i].text, &n);
        if (err != cases[i].err || (!err && n != cases[i].n))
            fail_msg("'%s': %d, %llu", cases[i].text, err, (unsigned long long)n);
    }
}

static void test_sizes_and_times(void **state)
{
    uint64_t n;
    (void)state;
    assert_int_equal(option_size("64k", &n), 0);
    assert_int_equal(n, 65536);
    assert_int_equal(option_size("1.5M", &n), 0);
    assert_int_equal(n, 1572864);
    assert_int_equal(option_size("512b", &n), 0);
    assert_int_equal(n, 512);
    assert_int_equal(option_size("16777215t", &n), 0);
    assert_int_equal(n, 16777215ull << 40);
    assert_int_equal(option_size("16777216t", &n), -ERANGE);
    assert_int_equal(option_size("1s", &n), -EINVAL);
    assert_int_equal(option_time("2", &n), 0);
    assert_int_equal(n, 2000);
    assert_int_equal(option_time("0.25", &n), 0);
    assert_int_equal(n, 250);
    assert_int_equal(option_time("1ms", &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(option_time("2m", &n), 0);
    assert_int_equal(n, 120000);
    assert_int_equal(option_time("1.5h", &n), 0);
    assert_int_equal(n, 5400000);
    assert_int_equal(option_time("1d", &n), 0);
    assert_int_equal(n, 86400000);
    assert_int_equal(option_time("0.5ms", &n), -EINVAL);
    assert_int_equal(option_time("1k", &n), -EINVAL);
    assert_int_equal(option_time("18446744073709551615", &n), -ERANGE);
}

static void test_text_reads_back(void **state)
{
    static const uint64_t sample[] = {0, 1, 999, 1000, 1024, 1536, 5000, 60000, 65536, 90000,
                                      3600000, 86400000, 1048576, 1ull << 40, UINT64_MAX};
    char text[OPTION_VALUE_TEXT];
    uint64_t n;
    (void)state;
    for (unsigned i = 0; i < sizeof(sample) / sizeof(sample[0]); i++) {
        option_text(OPTION_NUMBER, sample[i], text);
        assert_int_equal(option_number(text, &n), 0);
        assert_int_equal(n, sample[i]);
        option_text(OPTION_SIZE, sample[i], text);
        assert_int_equal(option_size(text, &n), 0);
        assert_int_equal(n, sample[i]);
        option_text(OPTION_TIME, sample[i], text);
        assert_int_equal(option_time(text, &n), 0);
        assert_int_equal(n, sample[i]);
    }
    option_text(OPTION_TIME, 5000, text);
    assert_string_equal(text, "5s");
    option_text(OPTION_TIME, 1500, text);
    assert_string_equal(text, "1500ms");
    option_text(OPTION_SIZE, 4096, text);
    assert_string_equal(text, "4k");
    option_text(OPTION_SIZE, 1000, text);
    assert_string_equal(text, "1000");
    option_text(OPTION_NUMBER, 1000, text);
    assert_string_equal(text, "1000");
}

/* --- Parsing ---------------------------------------------------------------------------------- */

static void test_defaults(void **state)
{
    (void)state;
    assert_int_equal(parse(NULL), OPTION_OK);
    assert_false(got.flag);
    assert_true(got.other);
    assert_true(got.toggle);
    assert_int_equal(got.number, 7);
    assert_int_equal(got.size, 65536);
    assert_int_equal(got.time, 1500);
    assert_string_equal(got.text, "-");
    assert_int_equal(got.list.count, 2);
    assert_string_equal(got.list.item[1], "b");
    assert_int_equal(got.choice, 1);
    assert_int_equal(found.operands, 0);
}

static void test_forms(void **state)
{
    (void)state;
    assert_int_equal(parse("--number", "9", NULL), OPTION_OK);
    assert_int_equal(got.number, 9);
    assert_int_equal(parse("--number=10", NULL), OPTION_OK);
    assert_int_equal(got.number, 10);
    assert_int_equal(parse("-n11", NULL), OPTION_OK);
    assert_int_equal(got.number, 11);
    assert_int_equal(parse("-fn", "12", "here", NULL), OPTION_OK);
    assert_true(got.flag);
    assert_int_equal(got.number, 12);
    assert_int_equal(found.operands, 1);
    assert_string_equal(found.operand[0], "here");
    assert_int_equal(parse("here", "-n", "13", NULL), OPTION_OK);
    assert_int_equal(got.number, 13);
    assert_int_equal(parse("-n", "13", "--number", "14", NULL), OPTION_OK);
    assert_int_equal(got.number, 14);
    assert_int_equal(parse("--", "-n", NULL), OPTION_OK);
    assert_string_equal(found.operand[0], "-n");
    assert_int_equal(parse("-", NULL), OPTION_OK);
    assert_string_equal(found.operand[0], "-");
    assert_int_equal(parse("--no-other", "--toggle", "off", "--flag", NULL), OPTION_OK);
    assert_false(got.other);
    assert_false(got.toggle);
    assert_true(got.flag);
    assert_int_equal(parse("--flag", "--no-flag", NULL), OPTION_OK);
    assert_false(got.flag);
    assert_int_equal(parse("--text=", NULL), -EINVAL);
    assert_int_equal(parse("--text", "a=b", NULL), OPTION_OK);
    assert_string_equal(got.text, "a=b");
    assert_int_equal(parse("--text=--flag", NULL), OPTION_OK);
    assert_string_equal(got.text, "--flag");
    assert_false(got.flag);
}

static void test_lists(void **state)
{
    (void)state;
    assert_int_equal(parse("-l", "x", NULL), OPTION_OK);
    assert_int_equal(got.list.count, 1);
    assert_string_equal(got.list.item[0], "x");
    assert_int_equal(parse("-l1", "-l2", "-l3", "-l4", "-l5", "-l6", "-l7", "--list=8", NULL), 0);
    assert_int_equal(got.list.count, OPTION_LIST_MAX);
    assert_string_equal(got.list.item[7], "8");
    assert_int_equal(parse("-l1", "-l2", "-l3", "-l4", "-l5", "-l6", "-l7", "-l8", "-l9", NULL),
                     -EINVAL);
    assert_says("at most 8");
    /* no splitting: a path may hold commas */
    assert_int_equal(parse("-l", "a,b", NULL), OPTION_OK);
    assert_int_equal(got.list.count, 1);
}

static void test_environment(void **state)
{
    char longest[OPTION_LIST_TEXT + 1];
    (void)state;
    setenv("RUNG_SOME_SIZE", "2k", 1);
    setenv("RUNG_FLAG", "1", 1);
    setenv("RUNG_LIST", "p,q,r", 1);
    assert_int_equal(parse(NULL), OPTION_OK);
    assert_int_equal(got.size, 2048);
    assert_true(got.flag);
    assert_int_equal(got.list.count, 3);
    assert_string_equal(got.list.item[2], "r");
    assert_int_equal(parse("-s", "4k", "--no-flag", "-l", "x", NULL), OPTION_OK);
    assert_int_equal(got.size, 4096);
    assert_false(got.flag);
    assert_int_equal(got.list.count, 1);
    setenv("RUNG_SOME_SIZE", "", 1); /* empty: as if unset */
    assert_int_equal(parse(NULL), OPTION_OK);
    assert_int_equal(got.size, 65536);
    setenv("RUNG_SOME_SIZE", "huge", 1);
    assert_int_equal(parse(NULL), -EINVAL);
    assert_says("RUNG_SOME_SIZE");
    assert_int_equal(parse("--help", NULL), OPTION_HELP);
    unsetenv("RUNG_SOME_SIZE");
    memset(longest, 'x', sizeof(longest));
    longest[OPTION_LIST_TEXT - 1] = 0;
    setenv("RUNG_LIST", longest, 1);
    assert_int_equal(parse(NULL), OPTION_OK);
    longest[OPTION_LIST_TEXT - 1] = 'x';
    longest[OPTION_LIST_TEXT] = 0;
    setenv("RUNG_LIST", longest, 1);
    assert_int_equal(parse(NULL), -EINVAL);
    unsetenv("RUNG_LIST");
    unsetenv("RUNG_FLAG");
}

/* A program other than rung has variables of its own. */
static void test_own_variables(void **state)
{
    struct option_table own = table;
    char tool[] = "tool", *argv[] = {tool, NULL}, name[64];

    (void)state;
    own.variables = "TOOL_";
    setenv("RUNG_SOME_SIZE", "2k", 1);
    setenv("TOOL_SOME_SIZE", "3k", 1);
    assert_int_equal(option_parse(&own, &got, argv, &found), OPTION_OK);
    assert_int_equal(got.size, 3072);
    option_env(&own, &own.row[0], name, sizeof(name));
    assert_memory_equal(name, "TOOL_", 5);
    unsetenv("RUNG_SOME_SIZE");
    unsetenv("TOOL_SOME_SIZE");
}

static void test_ranges(void **state)
{
    static const struct {
        const char *arg;
        bool good;
    } cases[] = {
        {"-n5", true}, {"-n4", false}, {"-n2000", true}, {"-n2001", false}, {"-n2k", true},
        {"-s1024", true}, {"-s1k", true}, {"-s1023", false}, {"-s1m", true}, {"-s1048577", false},
        {"-t100ms", true}, {"-t99ms", false}, {"-t1h", true}, {"-t3600001ms", false},
        {"--open-ended=3", true}, {"--open-ended=2", false},
        {"--open-ended=18446744073709551615", true}, {"--open-ended=18446744073709551616", false},
        {"-cred", true}, {"-cblue", true}, {"-cpink", false}, {"-c", false}, {"-cRED", false},
        {"--toggle=on", true}, {"--toggle=maybe", false}, {"--toggle", false},
        {"--flag=on", false}, {"--no-flag=off", false}, {"--no-number", false},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int err = parse(cases[i].arg, NULL);
        if (err != (cases[i].good ? OPTION_OK : -EINVAL))
            fail_msg("%s: %d %s", cases[i].arg, err, found.error);
        if (!cases[i].good && !*found.error)
            fail_msg("%s: refused without a word", cases[i].arg);
    }
}

static void test_messages(void **state)
{
    (void)state;
    parse("--nubmer", "3", NULL);
    assert_says("did you mean --number?");
    parse("--some", "3", NULL);
    assert_says("did you mean --some-size?");
    parse("--xyzzyxyzzy", NULL);
    assert_says("tool --help lists them");
    parse("-number", "3", NULL);
    assert_says("write --number");
    parse("-n1", NULL);
    assert_says("-n: 1 is out of range; choose from 5 to 2000");
    parse("--some-size=1", NULL);
    assert_says("1k to 1m");
    parse("--time=1", "--time=2y", NULL);
    assert_says("'2y' is not a time");
    assert_says("100ms to 1h");
    parse("--choice=gren", NULL);
    assert_says("did you mean green?");
    parse("--choice=mauve", NULL);
    assert_says("choose from red, green, blue");
    parse("--number", NULL);
    assert_says("needs a value, N");
    parse("--no-toggle", NULL);
    assert_says("write --toggle off");
    parse("-z", NULL);
    assert_says("-z: no such option");
    parse("one", "two", NULL);
    assert_says("one DIR too many");
    parse("--halp", NULL);
    assert_says("did you mean --help?");
}

static void test_help_wins(void **state)
{
    (void)state;
    assert_int_equal(parse("--help", "--nonsense", NULL), OPTION_HELP);
    assert_int_equal(parse("-h", NULL), OPTION_HELP);
    assert_int_equal(parse("-fh", NULL), OPTION_HELP);
    assert_int_equal(parse("--help-all", NULL), OPTION_HELP_ALL);
    assert_int_equal(parse("--help=x", NULL), -EINVAL);
    assert_int_equal(parse("--", "--help", NULL), OPTION_OK);
}

static void test_nearest(void **state)
{
    static const char *const words[] = {"port", "public", "listing", "log", "log-file", NULL};
    static const char *const alike[] = {"pool", "poll", "epoll", NULL};
    (void)state;
    assert_string_equal(option_nearest("prot", words), "port");
    assert_string_equal(option_nearest("ports", words), "port");
    assert_string_equal(option_nearest("list", words), "listing");
    assert_string_equal(option_nearest("lgo", words), "log");
    assert_string_equal(option_nearest("logfile", words), "log-file");
    assert_string_equal(option_nearest("log", words), "log");
    assert_string_equal(option_nearest("eppol", alike), "epoll"); /* equally far from pool */
    assert_string_equal(option_nearest("ploo", alike), "pool");
    assert_null(option_nearest("zebra", words));
    assert_null(option_nearest("", words));
    assert_null(option_nearest("a-word-that-is-longer-than-any-option-could-ever-be", words));
}

/* --- Generated texts -------------------------------------------------------------------------- */

static char *printed(void (*print)(const struct option_table *, FILE *),
                     const struct option_table *t)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, &(size_t){0});
    assert_non_null(f);
    print(t, f);
    fclose(f);
    return text;
}

static void print_short(const struct option_table *t, FILE *out)
{
    option_help(t, false, out);
}

static void print_long(const struct option_table *t, FILE *out)
{
    option_help(t, true, out);
}

static void assert_names_all(const struct option_table *t,
                             void (*print)(const struct option_table *, FILE *), const char *dashes)
{
    char *text = printed(print, t);
    for (unsigned i = 0; i < t->rows; i++) {
        char name[64];
        const char *from = t->row[i].name;
        size_t n = (size_t)snprintf(name, sizeof(name), "%s", dashes);
        for (; *from; from++) /* roff writes every hyphen of a name as the dashes begin: \- */
            n += (size_t)snprintf(name + n, sizeof(name) - n, "%s%c",
                                  *from == '-' && dashes[0] == '\\' ? "\\" : "", *from);
        if (!strstr(text, name))
            fail_msg("%s is not in:\n%s", name, text);
    }
    free(text);
}

static void test_every_row_is_named(void **state)
{
    const struct option_table *const tables[] = {&table, &serve_table};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        assert_names_all(tables[i], print_short, "--");
        assert_names_all(tables[i], print_long, "--");
        assert_names_all(tables[i], option_man, "\\-");
        assert_names_all(tables[i], option_completion, "--");
        assert_names_all(tables[i], option_zsh, "--");
        assert_names_all(tables[i], option_fish, "-l ");
        assert_names_all(tables[i], option_markdown, "--");
    }
}

static void test_help_order(void **state)
{
    char *brief = printed(print_short, &table), *all = printed(print_long, &table);
    (void)state;
    assert_true(strstr(brief, "usage: tool") == brief);
    assert_true(strstr(brief, "tool -n 6") < strstr(brief, "--flag")); /* examples first */
    assert_non_null(strstr(brief, "[1500ms]"));
    assert_non_null(strstr(brief, "That is all."));
    assert_null(strstr(brief, "a text")); /* rare: named, not explained */
    assert_non_null(strstr(all, "a text"));
    free(brief);
    free(all);
}

/* A row that refuses its own default, or omits something it needs, would fail for every user. */
/* shows D20 */
static void test_serve_rows(void **state)
{
    char *argv[] = {NULL, NULL};
    struct serve_options opt = {0};
    (void)state;
    argv[0] = (char[]){"rung"};
    if (option_parse(&serve_table, &opt, argv, &found) != OPTION_OK)
        fail_msg("%s", found.error);
    assert_int_equal(opt.port, 8080);
    assert_int_equal(opt.bind.count, 2);
    assert_int_equal(opt.head_timeout, 5000);
    assert_int_equal(opt.idle_timeout, 15000);
    assert_int_equal(opt.send_timeout, 15000);
    assert_int_equal(opt.drain_timeout, 5000);
    assert_int_equal(opt.min_progress, 4096);
    assert_int_equal(opt.max_body, 1 << 20);
    assert_int_equal(opt.engine, 0);
    assert_int_equal(opt.log, LOG_OFF);
    for (unsigned i = 0; i < serve_table.rows; i++) {
        const struct option_row *row = &serve_table.row[i];
        assert_non_null(row->group);
        assert_non_null(row->help);
        assert_true(strlen(row->name) < 30);
        for (unsigned k = 0; k < i; k++) {
            assert_string_not_equal(row->name, serve_table.row[k].name);
            assert_true(!row->letter || row->letter != serve_table.row[k].letter);
        }
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_sizes_and_times),
        cmocka_unit_test(test_text_reads_back),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_own_variables),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_help_wins),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_every_row_is_named),
        cmocka_unit_test(test_help_order),
        cmocka_unit_test(test_serve_rows),
    };
    clearenv(); /* RUNG_ENGINE and the like are the caller's settings */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
