/* SPDX-License-Identifier: MIT */
/* toml.c - unit tests of base/toml*.c: what TOML 1.0 says about the part that is read, each limit
 * on both sides, and that everything else is refused by its name and line. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "../../base/toml.h"

static struct toml toml;

static int read_text(const char *text)
{
    return toml_read(&toml, text, strlen(text));
}

static void good(const char *text)
{
    if (read_text(text))
        fail_msg("'%s': line %u: %s", text, toml.error_line, toml.error);
}

/* Refused in that line with a sentence that has these words. */
static void bad(const char *text, unsigned line, const char *words)
{
    if (read_text(text) != -EINVAL)
        fail_msg("'%s' was read", text);
    if (toml.error_line != line || !strstr(toml.error, words))
        fail_msg("'%s': line %u: '%s' does not say '%s' in line %u", text, toml.error_line,
                 toml.error, words, line);
}

static void is_string(unsigned i, const char *key, const char *text)
{
    assert_true(i < toml.items);
    assert_int_equal(toml.item[i].kind, TOML_STRING);
    if (key)
        assert_string_equal(toml.item[i].key, key);
    else
        assert_null(toml.item[i].key);
    assert_string_equal(toml.item[i].text, text);
}

static void is_number(unsigned i, enum toml_kind kind, long long number)
{
    assert_true(i < toml.items);
    assert_int_equal(toml.item[i].kind, kind);
    assert_true(toml.item[i].number == number);
}

/* --- What is read ----------------------------------------------------------------------------- */

static void test_nothing(void **state)
{
    static const char *const files[] = {"", "\n", "\r\n", " \t\n", "# only this",
                                        "#\n\n  # \xc3\xa9 \t x\r\n"};

    (void)state;
    for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        good(files[i]);
        assert_int_equal(toml.items, 0);
    }
}

static void test_keys(void **state)
{
    static const struct {
        const char *text, *key;
    } keys[] = {
        {"a=1", "a"}, {"  a\t =\t1  ", "a"}, {"bare_key-9 = 1", "bare_key-9"}, {"1234 = 1", "1234"},
        {"-_- = 1", "-_-"}, {"\"a b\" = 1", "a b"}, {"'a\\b' = 1", "a\\b"}, {"\"\" = 1", ""},
        {"'' = 1", ""}, {"\"\\u00e9.#=\" = 1", "\xc3\xa9.#="}, {"true = 1", "true"},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        good(keys[i].text);
        assert_int_equal(toml.items, 1);
        assert_string_equal(toml.item[0].key, keys[i].key);
    }
    bad("= 1", 1, "there is no key");
    bad("\xc3\xa9 = 1", 1, "there is no key");
    bad("a b = 1", 1, "no = after a");
    bad("a", 1, "no = after a");
    bad("\na\n= 1", 2, "no = after a");
    bad("a.b = 1", 1, "dotted key");
    bad("a . 'b' = 1", 1, "dotted key");
    bad("\"a\nb\" = 1", 1, "no \" at its end");
}

static void test_strings(void **state)
{
    (void)state;
    good("a = \"\"\nb = ''\nc = \"x # y\" # z\nd = 'C:\\n \"q\"'\ne = \"it's\"\n");
    is_string(0, "a", "");
    is_string(1, "b", "");
    is_string(2, "c", "x # y");
    is_string(3, "d", "C:\\n \"q\"");
    is_string(4, "e", "it's");
    good("a = \"\\b\\t\\n\\f\\r\\\"\\\\\\u0041\\u00e9\\u20ac\\U0001f600\\u007f\"");
    is_string(0, "a", "\b\t\n\f\r\"\\A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x7f");
    good("a = \"\\ud7ff\\ue000\\uFFFF\\U0010ffff\"");
    is_string(0, "a", "\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\xf4\x8f\xbf\xbf");
    bad("a = \"x", 1, "no \" at its end");
    bad("a = 'x\n'", 1, "no ' at its end");
    bad("a = \"\\", 1, "without a meaning");
    bad("a = \"\\x41\"", 1, "without a meaning");
    bad("a = \"\\u12g4\"", 1, "4 hexadecimal digits");
    bad("a = \"\\u123\"", 1, "4 hexadecimal digits");
    bad("a = \"\\U0010fff\"", 1, "8 hexadecimal digits");
    bad("a = \"\\u0000\"", 1, "NUL");
    bad("a = \"\\ud800\"", 1, "d800 is not a character");
    bad("a = \"\\udfff\"", 1, "dfff is not a character");
    bad("a = \"\\U00110000\"", 1, "110000 is not a character");
    bad("a = \"\"\"x\"\"\"", 1, "several lines (\"\"\")");
    bad("a = '''x'''", 1, "several lines (''')");
    bad("a = \"x\"\"y\"", 1, "something follows");
}

static void test_integers(void **state)
{
    static const struct {
        const char *text;
        long long number;
    } numbers[] = {
        {"0", 0}, {"+0", 0}, {"-0", 0}, {"42", 42}, {"+99", 99}, {"-17", -17}, {"1_000", 1000},
        {"5_349_221", 5349221}, {"1_2_3", 123}, {"0xDEADBEEF", 0xdeadbeef},
        {"0xdead_beef", 0xdeadbeef},
        {"0x0", 0}, {"0x00f", 15}, {"0o01234567", 01234567}, {"0b11010110", 0xd6},
        {"9223372036854775807", INT64_MAX}, {"-9223372036854775808", INT64_MIN},
        {"0x7fffffffffffffff", INT64_MAX},
    };
    static const char *const others[] = {"1_", "_1", "1__0", "0x", "0xg", "0b2", "0o8", "+0x1",
                                         "-0b1", "0X1", "0x_1", "1a", "--1", "+", "- 1", "5s"};
    char text[64];

    (void)state;
    for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        snprintf(text, sizeof(text), "a = %s # x", numbers[i].text);
        good(text);
        is_number(0, TOML_INTEGER, numbers[i].number);
    }
    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        snprintf(text, sizeof(text), "a = %s", others[i]);
        bad(text, 1, "is not a value");
    }
    bad("a = 007", 1, "no zeros in front");
    bad("a = -01", 1, "no zeros in front");
    bad("a = 9223372036854775808", 1, "does not fit");
    bad("a = -9223372036854775809", 1, "does not fit");
    bad("a = 0x8000000000000000", 1, "does not fit");
    bad("a = 99999999999999999999999", 1, "does not fit");
}

static void test_booleans(void **state)
{
    (void)state;
    good("a = true\nb=false#");
    is_number(0, TOML_BOOLEAN, 1);
    is_number(1, TOML_BOOLEAN, 0);
    bad("a = True", 1, "True is not a value; write text in quotes: \"True\"");
    bad("a = truely", 1, "is not a value");
    bad("a =", 1, "there is no value");
    bad("a = # true", 1, "there is no value");
}

static void test_arrays(void **state)
{
    (void)state;
    good("a = []\nb = [ ]\nc = [1,'x' , true,]\nd = [ # one\n\n 2 # two\n , # three\n ]\ne = 1");
    assert_int_equal(toml.items, 9);
    assert_int_equal(toml.item[0].count, 0);
    assert_int_equal(toml.item[1].count, 0);
    assert_int_equal(toml.item[2].count, 3);
    is_number(3, TOML_INTEGER, 1);
    is_string(4, NULL, "x");
    is_number(5, TOML_BOOLEAN, 1);
    assert_int_equal(toml.item[6].count, 1);
    assert_int_equal(toml.item[7].line, 6);
    assert_int_equal(toml.item[8].line, 9);
    bad("a = [1 2]", 1, "no comma");
    bad("a = [,]", 1, "there is no value");
    bad("a = [1,,2]", 1, "there is no value");
    bad("a = [1,\n2", 2, "line 1 has no ]");
    bad("a = [", 1, "line 1 has no ]");
    bad("a = [[1]]", 1, "within an array");
    bad("a = [1,\n [2]]", 2, "within an array");
    bad("a = [1]]", 1, "something follows");
}

static void test_tables(void **state)
{
    (void)state;
    good("x = 1\n[a]\nx = 2\n[ 'b c' ] # two\n[[d]]\nx = 3\n[[d]]\nx = 4\n[x1]");
    assert_int_equal(toml.items, 9);
    assert_int_equal(toml.item[1].kind, TOML_TABLE);
    assert_string_equal(toml.item[3].key, "b c");
    assert_int_equal(toml.item[4].kind, TOML_ELEMENT);
    assert_int_equal(toml.item[6].kind, TOML_ELEMENT);
    bad("a = 1\na = 2", 2, "a is given twice: line 1");
    bad("a = 1\n\"a\" = 2", 2, "a is given twice: line 1");
    bad("[t]\na = [1]\n\na = 2", 4, "a is given twice: line 2");
    bad("[[t]]\na = 1\na = 2", 3, "a is given twice: line 2");
    bad("[t]\n[t]", 2, "t is given twice: line 1");
    bad("[t]\n[[t]]", 2, "t is given twice: line 1");
    bad("[[t]]\n[t]", 2, "t is given twice: line 1");
    bad("t = 1\n[t]", 2, "t is given twice: line 1");
    bad("t = []\n[[t]]", 2, "t is given twice: line 1");
    bad("[]", 1, "there is no key");
    bad("[a", 1, "no ] after");
    bad("[a\n]", 1, "no ] after");
    bad("[[a]", 1, "no ]] after");
    bad("[[a] ]", 1, "no ]] after");
    bad("[ [a]]", 1, "there is no key");
    bad("[a]]", 1, "something follows");
    bad("[a] b = 1", 1, "something follows");
    bad("[a.b]", 1, "dotted key");
}

static void test_refused_by_name(void **state)
{
    static const char *const floats[] = {"1.0", "+3.1415", "-0.01", "5e+22", "1e06", "-2E-2",
                                         "6.626e-34", "inf", "+inf", "-inf", "nan", "-nan", "1.",
                                         ".5", "0.5", "1_0.5"};
    static const char *const dates[] = {"1979-05-27T07:32:00Z", "1979-05-27 07:32:00", "1979-05-27",
                                        "07:32:00", "00:32:00.999999"};
    char text[64];

    (void)state;
    for (unsigned i = 0; i < sizeof(floats) / sizeof(floats[0]); i++) {
        snprintf(text, sizeof(text), "\na = %s", floats[i]);
        bad(text, 2, "is a float, which is not read");
    }
    for (unsigned i = 0; i < sizeof(dates) / sizeof(dates[0]); i++) {
        snprintf(text, sizeof(text), "\na = %s", dates[i]);
        bad(text, 2, "is a date or a time of day");
    }
    bad("a = {}", 1, "inline table");
    bad("a = [{}]", 1, "inline table");
}

/* --- Bytes ------------------------------------------------------------------------------------ */

static void test_bytes(void **state)
{
    static const char *const wrong[] = {"\x80", "\xc0\xaf", "\xc1\xbf", "\xc3", "\xe0\x9f\xbf",
                                        "\xe2\x82", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                                        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3\x28"};
    static const char *const right[] = {"\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
                                        "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"};
    char text[64];

    (void)state;
    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        snprintf(text, sizeof(text), "\n# %s", wrong[i]);
        bad(text, 2, "not UTF-8");
        snprintf(text, sizeof(text), "a = '%s'", wrong[i]);
        bad(text, 1, "not UTF-8");
    }
    for (unsigned i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
        snprintf(text, sizeof(text), "a = '%s' # %s", right[i], right[i]);
        good(text);
        is_string(0, "a", right[i]);
    }
    for (char c = 1; c < ' '; c++) {
        if (c == '\n')
            continue;
        snprintf(text, sizeof(text), "# %c", c);
        if (c == '\t')
            good(text);
        else
            bad(text, 1, "control character");
        snprintf(text, sizeof(text), "\na = '%c'", c);
        if (c == '\t')
            good(text);
        else
            bad(text, 2, "control character");
    }
    bad("a = 1 # \x7f", 1, "control character 0x7f");
    bad("a = 1\r", 1, "control character 0x0d");
    bad("a = 1\rb = 2", 1, "control character 0x0d");
    good("a = 1\r\nb = 2\r\n");
    assert_int_equal(toml_read(&toml, "a = 'x\0y'", 9), -EINVAL);
    assert_non_null(strstr(toml.error, "control character 0x00"));
    bad("\xef\xbb\xbf" "a = 1", 1, "a byte order mark");
    bad("\xef\xbb\xbf", 1, "a byte order mark");
    bad("\xef\xbb", 1, "byte 0xef is not UTF-8");
}

/* The bytes end where the caller says, though more lie behind them. */
static void test_end(void **state)
{
    (void)state;
    assert_int_equal(toml_read(&toml, "a = 12345", 7), 0);
    is_number(0, TOML_INTEGER, 123);
    assert_int_equal(toml_read(&toml, "a = 1\nb", 6), 0);
    assert_int_equal(toml.items, 1);
}

/* --- Limits ----------------------------------------------------------------------------------- */

static void test_longest(void **state)
{
    char *text = malloc(TOML_BYTES_MAX + 1);

    (void)state;
    assert_non_null(text);
    memset(text, 'x', TOML_BYTES_MAX + 1);
    assert_int_equal(toml_read(&toml, text, TOML_BYTES_MAX), -EINVAL); /* a key without a value */
    assert_non_null(strstr(toml.error, "no = after x"));
    memcpy(text, "a = '", 5);
    text[TOML_BYTES_MAX - 1] = '\'';
    assert_int_equal(toml_read(&toml, text, TOML_BYTES_MAX), 0);
    assert_int_equal(strlen(toml.item[0].text), TOML_BYTES_MAX - 6);
    text[TOML_BYTES_MAX] = '\n';
    assert_int_equal(toml_read(&toml, text, TOML_BYTES_MAX + 1), -EINVAL);
    assert_non_null(strstr(toml.error, "more than 65536 bytes"));
    free(text);
}

static void test_most_items(void **state)
{
    static char text[TOML_BYTES_MAX];
    size_t n = 5;

    (void)state;
    memcpy(text, "a = [", 5);
    for (unsigned i = 0; i < TOML_ITEMS_MAX - 1; i++, n += 2)
        memcpy(text + n, "1,", 2);
    text[n] = ']';
    assert_int_equal(toml_read(&toml, text, n + 1), 0);
    assert_int_equal(toml.items, TOML_ITEMS_MAX);
    memcpy(text + n, "1]", 2);
    assert_int_equal(toml_read(&toml, text, n + 2), -EINVAL);
    assert_non_null(strstr(toml.error, "more than 4096 values"));
}

/* --- Writing ---------------------------------------------------------------------------------- */

static void test_quote(void **state)
{
    char out[64], cut[8], file[80], all[1024], text[256];

    (void)state;
    assert_int_equal(toml_quote(out, sizeof(out), "a\"b\\c\td\x01\x7f\xc3\xa9"), 26);
    assert_string_equal(out, "\"a\\\"b\\\\c\\td\\u0001\\u007f\xc3\xa9\"");
    snprintf(file, sizeof(file), "k = %s", out);
    good(file);
    is_string(0, "k", "a\"b\\c\td\x01\x7f\xc3\xa9");
    assert_int_equal(toml_quote(cut, sizeof(cut), "0123456789"), 12);
    assert_string_equal(cut, "\"012345");
    assert_int_equal(toml_quote(cut, sizeof(cut), "01234"), 7);
    assert_string_equal(cut, "\"01234\"");
    for (unsigned i = 0; i < 127; i++)
        text[i] = (char)(i + 1);
    text[127] = '\0';
    memcpy(all, "k=", 2);
    toml_quote(all + 2, sizeof(all) - 2, text);
    good(all);
    is_string(0, "k", text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing), cmocka_unit_test(test_keys),
        cmocka_unit_test(test_strings), cmocka_unit_test(test_integers),
        cmocka_unit_test(test_booleans), cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_tables), cmocka_unit_test(test_refused_by_name),
        cmocka_unit_test(test_bytes), cmocka_unit_test(test_end),
        cmocka_unit_test(test_longest), cmocka_unit_test(test_most_items),
        cmocka_unit_test(test_quote),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
