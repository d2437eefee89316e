/* SPDX-License-Identifier: MIT */
/* proxy_header.c - headers of the PROXY protocol, whole, cut at every byte and wrong at every
 * place; and the addresses and prefixes that they and --trust are made of. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../../base/proxy_header.h"
#include <cmocka.h>

/* --- Addresses -------------------------------------------------------------------------------- */

static const struct {
    const char *text, *canonical; /* NULL: it is none */
} addresses[] = {
    {"192.0.2.1", "192.0.2.1"},
    {"192.0.2.1:0", "192.0.2.1"},
    {"192.0.2.1:65535", "192.0.2.1"},
    {"192.0.2.1:65536", NULL},
    {"192.0.2.1:", NULL},
    {"192.0.2.1:1a", NULL},
    {"192.0.2.1:000080", NULL},
    {"192.0.2.256", NULL},
    {"192.0.2", NULL},
    {" 192.0.2.1", NULL},
    {"2001:db8::1", "2001:db8::1"},
    {"2001:DB8:0::1", "2001:db8::1"},
    {"[2001:db8::1]", "2001:db8::1"},
    {"[2001:db8::1]:80", "2001:db8::1"},
    {"[2001:db8::1]:", NULL},
    {"[2001:db8::1]80", NULL},
    {"[2001:db8::1", NULL},
    {"[192.0.2.1]", NULL},
    {"[]", NULL},
    {"[]:80", NULL},
    {"[", NULL},
    {"", NULL},
    {":", NULL},
    {":80", NULL},
    {"::", "::"},
    {"::ffff:192.0.2.1", "192.0.2.1"},
    {"::ffff:c000:201", "192.0.2.1"},
    {"fe80::1%eth0", NULL},
    {"unknown", NULL},
    {"_hidden", NULL},
    {"ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
    {"ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.2555", NULL},
};

static void test_addresses(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        char text[ADDRESS_TEXT] = "", *copy = strdup(addresses[i].text);
        struct address a = {0};
        bool good = address_parse(&a, copy, strlen(copy));

        if (good)
            address_text(&a, text);
        free(copy);
        if (good != (addresses[i].canonical != NULL) ||
            (good && strcmp(text, addresses[i].canonical) != 0))
            fail_msg("%s: %s", addresses[i].text, good ? text : "none");
    }
    assert_false(address_parse(&(struct address){0}, "1.2.3.4\0", 8));
}

static const struct {
    const char *prefix, *inside, *outside; /* inside NULL: it is none */
} prefixes[] = {
    {"10.0.0.0/8", "10.255.255.255", "11.0.0.0"},
    {"10.0.0.0/9", "10.127.255.255", "10.128.0.0"},
    {"192.0.2.128/25", "192.0.2.128", "192.0.2.127"},
    {"192.0.2.1", "192.0.2.1", "192.0.2.0"},
    {"192.0.2.1/32", "192.0.2.1", "192.0.2.2"},
    {"192.0.2.0/31", "192.0.2.1", "192.0.2.2"},
    {"0.0.0.0/0", "255.255.255.255", "::"},
    {"::/0", "2001:db8::", "192.0.2.1"},
    {"2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"},
    {"2001:db8::/127", "2001:db8::1", "2001:db8::2"},
    {"2001:db8::1", "2001:db8::1", "2001:db8::"},
    {"::1/128", "::1", "::"},
    {"::ffff:10.0.0.0/8", "10.1.1.1", "11.1.1.1"},
    {"10.0.0.0/33", NULL, NULL},
    {"::/129", NULL, NULL},
    {"10.0.0.0/", NULL, NULL},
    {"10.0.0.0/-1", NULL, NULL},
    {"10.0.0.0/8 ", NULL, NULL},
    {"10.0.0.0/0008", NULL, NULL},
    {"10.0.0.0:80/8", NULL, NULL},
    {"[::1]/128", NULL, NULL},
    {"10/8", NULL, NULL},
    {"", NULL, NULL},
    {"/8", NULL, NULL},
    {"localhost", NULL, NULL},
};

static bool has(const struct prefix *p, const char *text)
{
    struct address a;

    assert_true(address_parse(&a, text, strlen(text)));
    return prefix_has(p, &a);
}

static void test_prefixes(void **state)
{
    struct prefix p;

    (void)state;
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        if (prefix_parse(&p, prefixes[i].prefix) != (prefixes[i].inside != NULL))
            fail_msg("%s", prefixes[i].prefix);
        if (prefixes[i].inside && (!has(&p, prefixes[i].inside) || has(&p, prefixes[i].outside)))
            fail_msg("%s: the edge", prefixes[i].prefix);
    }
    assert_true(prefix_parse(&p, "unix"));
    assert_true(prefix_has(&p, &(struct address){.family = ADDRESS_UNIX}));
    assert_false(has(&p, "127.0.0.1"));
    assert_false(prefix_has(&p, &(struct address){.family = ADDRESS_NONE}));
}

/* --- Headers ---------------------------------------------------------------------------------- */

/* In memory of exactly n bytes, so that a sanitizer sees a look beyond them. */
static long parse(const char *bytes, size_t n, struct address *a)
{
    char *copy = malloc(n ? n : 1);
    long used;

    assert_non_null(copy);
    memcpy(copy, bytes, n);
    used = proxy_header_parse(copy, n, a);
    free(copy);
    return used;
}

/* A header with something behind it: its length; every shorter piece needs more. */
static void good(const char *bytes, size_t n, const char *source)
{
    char text[ADDRESS_TEXT], more[PROXY_V2_BYTES_MAX + 4];
    struct address a;

    for (size_t cut = 0; cut < n; cut++)
        if (parse(bytes, cut, &a) != 0)
            fail_msg("%zu of %zu bytes: %ld", cut, n, parse(bytes, cut, &a));
    assert_int_equal(parse(bytes, n, &a), n);
    address_text(&a, text);
    assert_string_equal(text, source);
    memcpy(more, bytes, n);
    memcpy(more + n, "GET ", 4);
    assert_int_equal(parse(more, n + 4, &a), n);
}

static void bad(const char *bytes, size_t n)
{
    struct address a;

    if (parse(bytes, n, &a) != -EPROTO)
        fail_msg("%.*s: %ld", (int)n, bytes, parse(bytes, n, &a));
}

static void test_lines(void **state)
{
    static const char *const goods[][2] = {
        {"PROXY TCP4 192.0.2.1 192.0.2.2 1 65535\r\n", "192.0.2.1"},
        {"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", "255.255.255.255"},
        {"PROXY TCP6 2001:db8::1 ::1 0 80\r\n", "2001:db8::1"},
        {"PROXY TCP6 ::ffff:192.0.2.1 ::ffff:192.0.2.2 1 2\r\n", "192.0.2.1"},
        {"PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
         "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
         "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
        {"PROXY UNKNOWN\r\n", "-"},
        {"PROXY UNKNOWN ffff::1 what ever\r\n", "-"},
    };
    static const char *const bads[] = {
        "GET / HTTP/1.1\r\n", "P ", "PROXY\r\n", "PROXY  TCP4 1.2.3.4 1.2.3.4 1 2\r\n", "proxy ",
        "PROXY TCP4\r\n", "PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n", "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 \r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n", "PROXY TCP4 1.2.3.4  1.2.3.4 1 2\r\n",
        "PROXY TCP5 1.2.3.4 1.2.3.4 1 2\r\n", "PROXY TCP 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n", "PROXY TCP4 ::1 ::1 1 2\r\n",
        "PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n", "PROXY TCP4 1.2.3.256 1.2.3.4 1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3 1 2\r\n", "PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n", "PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 -1 2\r\n", "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\r\n",
        "PROXY TCP6 [::1] ::1 1 2\r\n", "PROXY TCP4 1.2.3.4:1 1.2.3.4 1 2\r\n",
        "PROXY UNKNOWNS\r\n", "PROXY UNKNOW\r\n", "PROXY unknown\r\n", "PROXY \r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\rX"};
    char line[PROXY_V1_BYTES_MAX + 1];
    struct address a;

    (void)state;
    for (size_t i = 0; i < sizeof(goods) / sizeof(goods[0]); i++)
        good(goods[i][0], strlen(goods[i][0]), goods[i][1]);
    for (size_t i = 0; i < sizeof(bads) / sizeof(bads[0]); i++)
        bad(bads[i], strlen(bads[i]));
    /* the longest, and one byte more */
    memset(line, 'x', sizeof(line));
    memcpy(line, "PROXY UNKNOWN ", 14);
    memcpy(line + PROXY_V1_BYTES_MAX - 2, "\r\n", 2);
    good(line, PROXY_V1_BYTES_MAX, "-");
    memcpy(line + PROXY_V1_BYTES_MAX - 2, "x\r\n", 3);
    bad(line, PROXY_V1_BYTES_MAX + 1);
    bad(line, PROXY_V1_BYTES_MAX);
    assert_int_equal(parse(line, PROXY_V1_BYTES_MAX - 1, &a), 0);
}

struct binary {
    char bytes[PROXY_V2_BYTES_MAX + 8];
    size_t n;
};

static struct binary make(unsigned command, unsigned family, size_t len)
{
    static const char signature[] = "\r\n\r\n\0\r\nQUIT\n";
    struct binary b = {.n = 16 + len};

    memcpy(b.bytes, signature, 12);
    b.bytes[12] = (char)command;
    b.bytes[13] = (char)family;
    b.bytes[14] = (char)(len >> 8);
    b.bytes[15] = (char)len;
    for (size_t i = 0; i < len && i < sizeof(b.bytes) - 16; i++)
        b.bytes[16 + i] = (char)(i + 1);
    return b;
}

static void test_binary(void **state)
{
    static const struct {
        unsigned command, family;
        size_t len;
        const char *source; /* NULL: bad */
    } rows[] = {
        {0x21, 0x11, 12, "1.2.3.4"},
        {0x21, 0x11, 13, "1.2.3.4"}, /* with a remark */
        {0x21, 0x11, 11, NULL},
        {0x21, 0x21, 36, "102:304:506:708:90a:b0c:d0e:f10"},
        {0x21, 0x21, 35, NULL},
        {0x21, 0x31, 216, "-"}, /* unix */
        {0x21, 0x31, 215, NULL},
        {0x21, 0x12, 12, "-"}, /* UDP */
        {0x21, 0x22, 36, "-"},
        {0x21, 0x00, 0, "-"},
        {0x21, 0x00, 5, "-"},
        {0x20, 0x00, 0, "-"}, /* LOCAL */
        {0x20, 0x11, 12, "-"},
        {0x20, 0xff, 3, "-"}, /* ... of which the rest is not looked at */
        {0x22, 0x11, 12, NULL},
        {0x11, 0x11, 12, NULL},
        {0x31, 0x11, 12, NULL},
        {0x21, 0x41, 216, NULL},
        {0x21, 0x13, 12, NULL},
        {0x21, 0x11, PROXY_V2_BYTES_MAX - 16, "1.2.3.4"},
        {0x21, 0x11, PROXY_V2_BYTES_MAX - 15, NULL},
        {0x20, 0x00, 65535, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct binary b = make(rows[i].command, rows[i].family, rows[i].len);

        if (rows[i].source)
            good(b.bytes, b.n, rows[i].source);
        else
            bad(b.bytes, 16);
    }
}

/* Every byte of the signature, and of PROXY, wrong in turn: known as soon as it is there. */
static void test_a_wrong_byte_is_seen_at_once(void **state)
{
    struct binary b = make(0x21, 0x11, 12);
    char line[] = "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n";
    struct address a;

    (void)state;
    for (size_t i = 0; i < 12; i++) {
        b.bytes[i] ^= 1;
        bad(b.bytes, i + 1);
        b.bytes[i] ^= 1;
        assert_int_equal(parse(b.bytes, i + 1, &a), 0);
    }
    for (size_t i = 0; i < 6; i++) {
        line[i] ^= 1;
        bad(line, i + 1);
        line[i] ^= 1;
        assert_int_equal(parse(line, i + 1, &a), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_binary),
        cmocka_unit_test(test_a_wrong_byte_is_seen_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
