/* SPDX-License-Identifier: MIT */
/* slice.c - byte classes as the RFCs spell them out, runs of them, comparing, and walking lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "../../core/byte.h"
#include "../../core/http.h"
#include "../../core/skip.h"
#include "edge.h"

static bool in(const char *set, int c)
{
    return c != 0 && strchr(set, c) != NULL;
}

static void test_classes(void **state)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    int c;

    (void)state;
    for (c = 0; c < 256; c++) {
        bool digit = c >= '0' && c <= '9', alnum = digit || in(letters, c);

        assert_int_equal(byte_is((char)c, BYTE_DIGIT), digit);
        assert_int_equal(byte_is((char)c, BYTE_HEX), digit || in("abcdefABCDEF", c));
        assert_int_equal(byte_is((char)c, BYTE_TOKEN), alnum || in("!#$%&'*+-.^_`|~", c));
        assert_int_equal(byte_is((char)c, BYTE_VALUE), c == '\t' || (c >= 0x20 && c != 0x7f));
        assert_int_equal(byte_is((char)c, BYTE_TARGET), c > 0x20 && c < 0x7f && c != '#');
        assert_int_equal(byte_is((char)c, BYTE_UNRESERVED), alnum || in("-._~", c));
        assert_int_equal(byte_is((char)c, BYTE_HOST), alnum || in("-._~!$&'()*+,;=", c));
    }
    for (c = 0; c < 16; c++) {
        assert_int_equal(byte_hex("0123456789abcdef"[c]), c);
        assert_int_equal(byte_hex("0123456789ABCDEF"[c]), c);
    }
}

/* Each byte at each place of runs of some lengths: alone, before a byte that ends each run, and
 * behind a byte whose carry runs into it. */
static void check_skip(unsigned class, const char *run)
{
    char bytes[25];
    unsigned len, at, c, beside, want;
    const char *p;

    for (len = 1; len < sizeof(bytes); len++)
        for (at = 0; at < len; at++)
            for (c = 0; c < 256; c++)
                for (beside = 0; beside < 3; beside++) {
                    memcpy(bytes, run, len);
                    if (beside == 1 && at + 1 < len)
                        bytes[at + 1] = 0x7f;
                    if (beside == 2 && at > 0)
                        bytes[at - 1] = '\xff';
                    bytes[at] = (char)c;
                    for (want = 0; want < len && byte_is(bytes[want], class); want++)
                        ;
                    p = edge(bytes, len);
                    assert_int_equal(skip_run(p, p + len, class) - p, want);
                }
}

static void test_skip(void **state)
{
    static const char none[1];

    (void)state;
    check_skip(BYTE_TOKEN, "Accept-Encoding0_zZ!~X-y");
    check_skip(BYTE_TOKEN, "abcdefghijklmnopqrstuvwx");
    check_skip(BYTE_TARGET, "/index.html?a=%20~&c=!\"z");
    check_skip(BYTE_VALUE, "text/html, \t*/*;q=0.8 \xff!");
    assert_ptr_equal(skip_run(none, none, BYTE_TOKEN), none);
}

static struct slice slice(const char *text)
{
    struct slice s = {edge(text, strlen(text)), strlen(text)};

    return s;
}

static void test_compare(void **state)
{
    struct slice none = {NULL, 0};

    (void)state;
    assert_true(slice_is(slice("GET"), "GET"));
    assert_false(slice_is(slice("GET"), "get"));
    assert_false(slice_is(slice("GET"), "GE"));
    assert_false(slice_is(slice("GE"), "GET"));
    assert_true(slice_is(none, ""));
    assert_true(slice_is_nocase(none, ""));
    assert_false(slice_is(none, "a"));
    assert_true(slice_is_nocase(slice("cHuNkEd-09@[`{"), "ChUnKeD-09@[`{"));
    assert_true(slice_is_nocase(slice("abcdefghijklmnopqrstuvwxyz"), "ABCDEFGHIJKLMNOPQRSTUVWXYZ"));
    assert_false(slice_is_nocase(slice("a"), "b"));
    assert_false(slice_is_nocase(slice("a"), "aa"));
    assert_false(slice_is_nocase(slice("@"), "`")); /* 0x20 apart, but no letters */
    assert_false(slice_is_nocase(slice("["), "{"));
    assert_false(slice_is_nocase(slice("\xc4"), "\xe4"));
    assert_false(slice_is_nocase((struct slice){"a\0", 2}, "a"));
}

/* Elements are joined by '|' to be compared. */
static void test_list(void **state)
{
    static const struct {
        const char *text, *elements;
    } rows[] = {
        {"", ""}, {" ", ""}, {",", ""}, {" , ,\t,", ""}, {"a", "a|"}, {"a,b", "a|b|"},
        {" a , b ", "a|b|"},
        {"a,,b,", "a|b|"}, {",a", "a|"}, {"a b", "a b|"}, {"\ta\t,\tb\t", "a|b|"},
        {"\"a,b\",c", "\"a,b\"|c|"}, {"W/\"a,b\" , \"c\"", "W/\"a,b\"|\"c\"|"},
        {"\"a\\\",b\",c", "\"a\\\",b\"|c|"},
        {"\"a\\\\\",b", "\"a\\\\\"|b|"}, {"a\\,b", "a\\|b|"}, {"\"a,b", "\"a,b|"},
        {"\"a\\", "\"a\\|"}, {"\"", "\"|"},
        {"a;q=\"1,2\";x,b", "a;q=\"1,2\";x|b|"}, {"\"a \" ,b", "\"a \"|b|"},
    };
    struct slice rest, element;
    char got[128];
    unsigned i;
    size_t n;

    (void)state;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        rest = slice(rows[i].text);
        for (n = 0; http_list(&rest, &element); got[n++] = '|') {
            memcpy(got + n, element.ptr, element.len);
            n += element.len;
        }
        got[n] = '\0';
        assert_string_equal(got, rows[i].elements);
        assert_int_equal(rest.len, 0);
        assert_false(http_list(&rest, &element));
    }
}

static void test_authority(void **state)
{
    static const struct {
        const char *text;
        bool valid, with_port;
    } rows[] = {
        {"a", true, false}, {"a:1", true, true}, {"a:", true, false}, {"", false, false},
        {":1", false, false},
        {"a:65535", true, true}, {"a:65536", false, false}, {"a:0000000080", true, true},
        {"a:99999999999", false, false},
        {"a.b-c_d~e", true, false}, {"1.2.3.4:5", true, true}, {"999.1.1.1", true, false},
        {"a%20b", true, false},
        {"a%2", false, false}, {"a%", false, false}, {"a%2g:1", false, false},
        {"a%2:1", false, false},
        {"[::]", true, false}, {"[::1]:80", true, true}, {"[1::]", true, false},
        {"[1:2:3:4:5:6:7:8]", true, false},
        {"[1:2:3:4:5:6:7:8:9]", false, false}, {"[1:2:3:4:5:6:7]", false, false},
        {"[1:2:3:4:5:6:7::]", true, false},
        {"[::2:3:4:5:6:7:8]", true, false}, {"[1::2:3:4:5:6:7:8]", false, false},
        {"[1::2::3]", false, false},
        {"[:1]", false, false}, {"[1:]", false, false}, {"[:::]", false, false},
        {"[::12345]", false, false},
        {"[::g]", false, false}, {"[::ffff:1.2.3.4]", true, false},
        {"[1:2:3:4:5:6:1.2.3.4]", true, false},
        {"[1:2:3:4:5:6:7:1.2.3.4]", false, false}, {"[::1.2.3]", false, false},
        {"[::1.2.3.256]", false, false},
        {"[::01.2.3.4]", false, false}, {"[::1.2.3.4.5]", false, false},
        {"[::1.2.3.4:5]", false, false},
        {"[1.2.3.4]", false, false}, {"[::1", false, false}, {"[]", false, false},
        {"[", false, false}, {"[::1]x", false, false},
        {"[::1]:", true, false}, {"[fe80::1%25eth0]", false, false}, {"[v1.a]", false, false},
        {"::1", false, false},
        {"a@b", false, false}, {"a/b", false, false}, {"a b", false, false}, {"a:b", false, false},
        {"a:1:2", false, false},
        {"a:-1", false, false}, {"[::1.2.3.]", false, false}, {"[::1.2]", false, false},
        {"[::255.10.0.100]", true, false},
        {"[1:2:3:4:5:6:7:8:]", false, false}, {"[1-2:3:4:5:6:7:8]", false, false},
        {"a%20", true, false}, {"a%20@", false, false},
        {"[::1.2.3.4444]", false, false},
    };
    unsigned i;

    (void)state;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (authority_is_valid(slice(rows[i].text), false) != rows[i].valid)
            fail_msg("%s", rows[i].text);
        if (authority_is_valid(slice(rows[i].text), true) != rows[i].with_port)
            fail_msg("%s with a port", rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_skip),
        cmocka_unit_test(test_compare),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_authority),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
