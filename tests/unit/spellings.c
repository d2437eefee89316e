/* SPDX-License-Identifier: MIT */
/* spellings.c - unit tests of server/spellings.def: every option that people know from other
 * servers is answered by an option that rung has, or by a sentence that is whole. */
#include <ctype.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "../../base/option.h"
#include "../../server/serve.h"

static struct option_found found;

static const struct option_row *row_of(const char *name, size_t len)
{
    for (unsigned i = 0; i < serve_table.rows; i++)
        if (strlen(serve_table.row[i].name) == len &&
            memcmp(serve_table.row[i].name, name, len) == 0)
            return &serve_table.row[i];
    return NULL;
}

static bool is_letter_of_rung(char letter)
{
    bool is = letter == 'h';

    for (unsigned i = 0; i < serve_table.rows; i++)
        is = is || serve_table.row[i].letter == letter;
    return is;
}

/* A row for an option that rung has would never be read: the parser takes the option. */
static void test_no_row_is_an_option_of_rung(void **state)
{
    (void)state;
    for (const struct option_spelling *s = serve_table.spellings; s->name; s++) {
        if (strcmp(s->name, "help") == 0 || row_of(s->name, strlen(s->name)) ||
            (!s->name[1] && is_letter_of_rung(s->name[0])))
            fail_msg("rung has '%s' itself: remove its row from server/spellings.def", s->name);
        for (const struct option_spelling *t = serve_table.spellings; t != s; t++)
            assert_string_not_equal(s->name, t->name);
    }
}

/* Options that an answer names: --listing off. */
static void assert_named_exist(const struct option_spelling *s)
{
    for (const char *at = s->answer; at && (at = strstr(at, "--")) != NULL;) {
        size_t len = 0;

        for (at += 2; islower((unsigned char)at[len]) || at[len] == '-'; len++)
            ;
        if (!row_of(at, len))
            fail_msg("%s: there is no option --%.*s", s->name, (int)len, at);
    }
}

static void test_every_answer_leads_somewhere(void **state)
{
    unsigned n = 0;
    (void)state;
    for (const struct option_spelling *s = serve_table.spellings; s->name; s++, n++) {
        assert_true(s->option || s->answer);
        if (s->option && !row_of(s->option, strlen(s->option)))
            fail_msg("%s: there is no option --%s", s->name, s->option);
        assert_named_exist(s);
    }
    assert_true(n > 150);
}

static void test_every_row_is_said_whole(void **state)
{
    (void)state;
    for (const struct option_spelling *s = serve_table.spellings; s->name; s++) {
        char typed[64], option[64] = "", *argv[] = {(char[]){"rung"}, typed, NULL};
        struct serve_options opt = {0};
        size_t len;

        snprintf(typed, sizeof(typed), "%s%s", s->name[1] ? "--" : "-", s->name);
        assert_int_equal(option_parse(&serve_table, &opt, argv, &found), -EINVAL);
        len = strlen(found.error);
        if (s->option)
            snprintf(option, sizeof(option), "; here it is --%s", s->option);
        if (strncmp(found.error, typed, strlen(typed)) != 0 || !strstr(found.error, option) ||
            (s->answer && (len < strlen(s->answer) ||
                           strcmp(found.error + len - strlen(s->answer), s->answer) != 0)))
            fail_msg("%s: %s", typed, found.error);
        assert_true(len < 160); /* two lines of a terminal */
    }
}

static void said(const char *typed, const char *expected)
{
    char word[64], *argv[] = {(char[]){"rung"}, word, NULL};
    struct serve_options opt = {0};

    snprintf(word, sizeof(word), "%s", typed);
    assert_int_equal(option_parse(&serve_table, &opt, argv, &found), -EINVAL);
    if (!strstr(found.error, expected))
        fail_msg("%s: %s", typed, found.error);
}

static void test_forms(void **state)
{
    (void)state;
    said("--directory=/srv", "--directory: no such option; the folder is a word of its own");
    said("--d", "--d: no such option; rung serve --help"); /* a letter has one dash */
    said("-qd", "-d: no such option; the folder is");
    said("--hots", "no such option"); /* a spelling is taken as it is */
    said("--certificate", "no such option; rung serve --help lists them");
    said("--prot", "did you mean --port?");
    said("-\x01", "-?: no such option; rung serve --help");
}

/* A table with fewer options does not name those that it lacks. */
static void test_row_that_is_not_in_the_table(void **state)
{
    static const struct option_spelling spellings[] = {
        {.name = "verbose", .option = "log", .answer = "it says nothing"}, {.name = NULL}};
    struct option_table few = serve_table;
    char *argv[] = {(char[]){"rung"}, (char[]){"--verbose"}, NULL};
    struct serve_options opt = {0};

    (void)state;
    few.spellings = spellings;
    few.rows = 1;
    assert_int_equal(option_parse(&few, &opt, argv, &found), -EINVAL);
    assert_string_equal(found.error, "--verbose: no such option; it says nothing");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_row_is_an_option_of_rung),
        cmocka_unit_test(test_every_answer_leads_somewhere),
        cmocka_unit_test(test_every_row_is_said_whole),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_row_that_is_not_in_the_table),
    };
    clearenv();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
