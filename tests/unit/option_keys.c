/* SPDX-License-Identifier: MIT */
/* option_keys.c - unit tests of what a file of options needs from base/option.c: which rows were
 * given already, and names and values that come from elsewhere. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "../../base/option.h"
#include "../../server/serve.h"

struct target {
    uint64_t number;
    bool flag;
    const char *text;
    struct option_list list;
    unsigned choice;
};

enum { NUMBER, FLAG, TEXT, LIST, CHOICE, ROWS };

#define ROW(field_, kind) .offset = offsetof(struct target, field_), .type = OPTION_##kind
static const struct option_row rows[ROWS] = {
    [NUMBER] = {ROW(number, NUMBER), .letter = 'n', .name = "some-number", .fallback = "7",
                .min = 5, .max = 2000, .group = "A", .help = "a number"},
    [FLAG] = {ROW(flag, FLAG), .name = "flag", .group = "A", .help = "a flag"},
    [TEXT] = {ROW(text, TEXT), .name = "text", .fallback = "-", .group = "A", .help = "a text"},
    [LIST] = {ROW(list, LIST), .letter = 'l', .name = "list", .fallback = "a,b", .group = "A",
              .help = "a list"},
    [CHOICE] = {ROW(choice, CHOICE), .name = "choice", .values = OPTION_WORDS("red", "green"),
                .fallback = "red", .group = "A", .help = "a choice"},
};
static const struct option_table table = {.command = "tool", .page = "tool", .row = rows,
                                          .rows = ROWS};

static struct target got;
static struct option_found found;

static void parse(const char *first, const char *second, const char *third)
{
    const char *argv[] = {"tool", first, second, third, NULL};

    got = (struct target){0};
    assert_int_equal(option_parse(&table, &got, (char **)(uintptr_t)argv, &found), OPTION_OK);
}

static void test_given(void **state)
{
    (void)state;
    setenv("RUNG_TEXT", "x", 1);
    setenv("RUNG_CHOICE", "", 1);
    parse("--no-flag", "-l", "z");
    unsetenv("RUNG_TEXT");
    unsetenv("RUNG_CHOICE");
    for (unsigned i = 0; i < ROWS; i++)
        assert_int_equal(found.given[i], i == FLAG || i == TEXT || i == LIST);
    parse(NULL, NULL, NULL);
    for (unsigned i = 0; i < ROWS; i++)
        assert_false(found.given[i]);
}

static void says(const char *words)
{
    if (!strstr(found.error, words))
        fail_msg("'%s' does not say '%s'", found.error, words);
}

static void test_keys(void **state)
{
    static const char *const more[] = {"extra", "place", NULL};

    (void)state;
    assert_ptr_equal(option_find(&table, "some-number"), &rows[NUMBER]);
    assert_null(option_find(&table, "some-numbe"));
    assert_null(option_find(&table, "n")); /* a letter is no name */
    assert_int_equal(option_unknown(&table, "sone-number", more, &found), -EINVAL);
    assert_string_equal(found.error, "sone-number: no such key; did you mean some-number?");
    option_unknown(&table, "plaec", more, &found);
    assert_string_equal(found.error, "plaec: no such key; did you mean place?");
    option_unknown(&table, "zzzzzz", more, &found);
    says("zzzzzz: no such key; tool --help lists the options");
    option_unknown(&serve_table, "gzip", more, &found);
    says("gzip: no such key; here it is compress");
}

static void test_assign(void **state)
{
    (void)state;
    parse(NULL, NULL, NULL);
    assert_int_equal(option_assign(&rows[NUMBER], &got, "2k", &found), 0);
    assert_int_equal(got.number, 2000);
    assert_int_equal(option_assign(&rows[NUMBER], &got, "2001", &found), -EINVAL);
    assert_string_equal(found.error, "some-number: 2001 is out of range; choose from 5 to 2000");
    assert_int_equal(option_assign(&rows[CHOICE], &got, "gren", &found), -EINVAL);
    says("choice: there is no 'gren'; did you mean green?");
    assert_int_equal(option_assign(&rows[LIST], &got, "c,d", &found), 0); /* one item, as typed */
    assert_int_equal(got.list.count, 3);
    assert_string_equal(got.list.item[2], "c,d");
    for (unsigned i = 3; i < OPTION_LIST_MAX; i++)
        assert_int_equal(option_assign(&rows[LIST], &got, "e", &found), 0);
    assert_int_equal(option_assign(&rows[LIST], &got, "f", &found), -EINVAL);
    says("list: at most 8 of them");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_given),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_assign),
    };
    clearenv(); /* RUNG_TEXT and the like are the caller's settings */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
