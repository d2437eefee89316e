/* SPDX-License-Identifier: MIT */
/* parse.c - http_parse_request(): which bytes are accepted, which are refused, with what status,
 * and that no cut changes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "../../core/http.h"
#include "edge.h"

enum { OK = 1 }; /* a whole, valid head: the answer is its length */
#define H "Host: a\r\n"
#define GET(fields) "GET / HTTP/1.1\r\n" H fields "\r\n"
#define GET10(fields) "GET / HTTP/1.0\r\n" fields "\r\n"
#define LINE(line) line "\r\n" H "\r\n"

struct row {
    long want;
    const char *text;
};

/* Request lines (RFC 9112 3). */
static const struct row lines[] = {
    {OK, LINE("GET / HTTP/1.1")}, {OK, LINE("\r\nGET / HTTP/1.1")},
    {-400, LINE("\r\n\r\nGET / HTTP/1.1")},
    {-400, LINE("\nGET / HTTP/1.1")}, {-400, LINE("\rGET / HTTP/1.1")},
    {-400, LINE(" GET / HTTP/1.1")},
    {-400, LINE("")}, {-400, LINE("GET")}, {-400, LINE("GET /")}, {-400, LINE("GET / ")},
    {-400, LINE("GET  / HTTP/1.1")}, {-400, LINE("GET /  HTTP/1.1")},
    {-400, LINE("GET / HTTP/1.1 ")},
    {-400, LINE("GET\t/ HTTP/1.1")}, {-400, LINE("GET /\tHTTP/1.1")},
    {-400, LINE("GET / a HTTP/1.1")},
    {-400, "GET / HTTP/1.1\n" H "\r\n"}, {-400, "GET /\n\r\n"}, {-400, "GET / HTTP/1.1\r" H "\r\n"},
    {-400, "GET /\r\n"}, {-400, "GE(T / HTTP/1.1\r\n"}, {-400, "G\xc3T / HTTP/1.1\r\n"},
    {OK, LINE("GET / HTTP/1.0")}, {OK, LINE("GET / HTTP/1.2")}, {OK, LINE("GET / HTTP/1.9")},
    {-505, LINE("GET / HTTP/2.0")}, {-505, LINE("GET / HTTP/0.9")}, {-505, LINE("GET / HTTP/9.9")},
    {-505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}, {-400, LINE("GET / HTTP/2")},
    {-400, LINE("GET / HTTP/1")}, {-400, LINE("GET / HTTP/1.")}, {-400, LINE("GET / HTTP/1.10")},
    {-400, LINE("GET / HTTP/11.1")}, {-400, LINE("GET / HTTP/1,1")}, {-400, LINE("GET / HTTP/a.1")},
    {-400, LINE("GET / HTTP/1.x")}, {-400, LINE("GET / http/1.1")}, {-400, LINE("GET / HTTPS/1.1")},
    {-400, LINE("GET / HTTP/-1.1")}, {-400, LINE("GET / HTTP/ 1.1")},
    {-400, LINE("GET / XTTP/1.1")},
    {OK, LINE("get / HTTP/1.1")}, {OK, LINE("BREW /pot HTTP/1.1")},
    {OK, LINE("!#$%&'*+-.^_`|~09aZ / HTTP/1.1")},
    {-400, "\x16\x03\x01\x02"}, /* TLS on a port without it */
};

/* Targets (RFC 9112 3.2): origin, absolute, authority and asterisk form. */
static const struct row targets[] = {
    {OK, LINE("GET /a/b?c=d&e HTTP/1.1")}, {OK, LINE("GET /?? HTTP/1.1")},
    {OK, LINE("GET // HTTP/1.1")},
    {OK, LINE("GET /%zz HTTP/1.1")}, {OK, LINE("GET /\"<>\\^`{|} HTTP/1.1")},
    {-400, LINE("GET /a#b HTTP/1.1")}, {-400, LINE("GET /a\x7f HTTP/1.1")},
    {-400, LINE("GET /\x80 HTTP/1.1")},
    {-400, LINE("GET /\xc3\xa4 HTTP/1.1")}, {-400, LINE("GET /\x01 HTTP/1.1")},
    {-400, LINE("GET /\x1f HTTP/1.1")},
    {-400, LINE("GET a HTTP/1.1")}, {-400, LINE("GET ?a HTTP/1.1")}, {-400, LINE("GET * HTTP/1.1")},
    {OK, LINE("OPTIONS * HTTP/1.1")}, {OK, LINE("OPTIONS / HTTP/1.1")},
    {-400, LINE("OPTIONS ** HTTP/1.1")},
    {-400, LINE("options * HTTP/1.1")}, {-400, LINE("POST * HTTP/1.1")},
    {OK, LINE("GET http://a HTTP/1.1")}, {OK, LINE("GET http://a/ HTTP/1.1")},
    {OK, LINE("GET HTTP://a?b HTTP/1.1")},
    {OK, LINE("GET http://a:80/x HTTP/1.1")}, {OK, LINE("GET http://a:/x HTTP/1.1")},
    {OK, LINE("GET http://[::1]:80/x HTTP/1.1")}, {OK, LINE("OPTIONS http://a HTTP/1.1")},
    {-400, LINE("GET http:///x HTTP/1.1")}, {-400, LINE("GET http:// HTTP/1.1")},
    {-400, LINE("GET http:/a HTTP/1.1")},
    {-400, LINE("GET http://u@a/ HTTP/1.1")}, {-400, LINE("GET http://u:p@a/ HTTP/1.1")},
    {-400, LINE("GET http://a:b/ HTTP/1.1")}, {-400, LINE("GET http://[a]/ HTTP/1.1")},
    {-400, LINE("GET https://a/ HTTP/1.1")}, {-400, LINE("GET ftp://a/ HTTP/1.1")},
    {-400, LINE("GET a:80 HTTP/1.1")},
    {-400, "GET http://a/ HTTP/1.1\r\n\r\n"}, {OK, "GET http://a/ HTTP/1.0\r\n\r\n"},
    {OK, LINE("CONNECT a:80 HTTP/1.1")}, {OK, LINE("CONNECT [::1]:443 HTTP/1.1")},
    {-400, LINE("CONNECT a HTTP/1.1")},
    {-400, LINE("CONNECT a: HTTP/1.1")}, {-400, LINE("CONNECT / HTTP/1.1")},
    {-400, LINE("CONNECT http://a:80 HTTP/1.1")},
    {-400, LINE("CONNECT a:65536 HTTP/1.1")}, {OK, LINE("CONNECT a:65535 HTTP/1.1")},
    {-400, LINE("CONNECT * HTTP/1.1")},
};

/* Field lines (RFC 9112 5), Host (7.2 of RFC 9110) and its syntax. */
static const struct row fields[] = {
    {OK, GET("")}, {OK, GET("A:b\r\n")}, {OK, GET("A: b\r\n")}, {OK, GET("A:\t b \t\r\n")},
    {OK, GET("A:\r\n")},
    {OK, GET("A: \t \r\n")}, {OK, GET("A: b\tc d\r\n")}, {OK, GET("A: \x80\xff:\x7e\r\n")},
    {OK, GET("A: b\tcdefghijklmnop\r\n")},
    {OK, GET("!#$%&'*+-.^_`|~09aZ: b\r\n")}, {OK, GET("A: b\r\nA: c\r\n")}, {OK, GET("A::\r\n")},
    {-400, GET("A : b\r\n")}, {-400, GET("A\t: b\r\n")}, {-400, GET(": b\r\n")},
    {-400, GET("A\r\n")}, {-400, GET("A b\r\n")},
    {-400, GET(" A: b\r\n")}, {-400, GET("A: b\r\n c\r\n")}, {-400, GET("A: b\r\n\tc\r\n")},
    {-400, GET("\xc3\xa4: b\r\n")},
    {-400, GET("A: b\n")}, {-400, GET("A: b\rc\r\n")}, {-400, GET("A: b\nc: d\r\n")},
    {-400, GET("A: b\r\r\n")},
    {-400, GET("A: \x01\r\n")}, {-400, GET("A: \x7f\r\n")}, {-400, GET("A: abcdefgh\x1f\r\n")},
    {-400, GET("A: abcdefg\x7fh\r\n")},
    {-400, GET("A: 1234567\b9\r\n")}, {-400, GET("A: 1234567\t9\x0b\r\n")},
    {-400, "GET / HTTP/1.1\r\n" H "\n"},
    {-400, "GET / HTTP/1.1\r\n" H "\r\r\n"}, {-400, GET("A(: b\r\n")}, {-400, GET("A\x7f: b\r\n")},
    {-400, "GET / HTTP/1.1\r\n\r\n"}, {OK, "GET / HTTP/1.0\r\n\r\n"}, {-400, GET("Host: a\r\n")},
    {-400, GET("hOST:\r\n")},
    {-400, GET10("Host: a\r\nHost: a\r\n")}, {OK, GET10(H)}, {-400, GET10("Host: a b\r\n")},
    {OK, "GET / HTTP/1.1\r\nHost:\r\n\r\n"}, {OK, "GET / HTTP/1.1\r\nHOST: A.example:8080\r\n\r\n"},
    {OK, "GET / HTTP/1.1\r\nHost: a:\r\n\r\n"}, {OK, "GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n"},
    {OK, "GET / HTTP/1.1\r\nHost: %41_~!$&'()*+,;=\r\n\r\n"},
    {-400, "GET / HTTP/1.1\r\nHost: a%4\r\n\r\n"},
    {-400, "GET / HTTP/1.1\r\nHost: a%gg\r\n\r\n"}, {-400, "GET / HTTP/1.1\r\nHost: :80\r\n\r\n"},
    {-400, "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"}, {-400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"},
    {-400, "GET / HTTP/1.1\r\nHost: a:8x\r\n\r\n"}, {-400, "GET / HTTP/1.1\r\nHost: a:+8\r\n\r\n"},
    {-400, "GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n"},
    {-400, "GET / HTTP/1.1\r\nHost: a:1:2\r\n\r\n"},
    {-400, "GET / HTTP/1.1\r\nHost: \"a\"\r\n\r\n"},
    {-400, "GET / HTTP/1.1\r\nHost: \xc3\xa4\r\n\r\n"},
    {-400, "GET / HTTP/1.1\r\nHost: ::1\r\n\r\n"}, {-400, "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n"},
    {-400, "GET / HTTP/1.1\r\nHost: [::1]a\r\n\r\n"}, {-400, "GET / HTTP/1.1\r\nHost: []\r\n\r\n"},
};

/* Framing (RFC 9112 6) and Expect (RFC 9110 10.1.1). */
static const struct row framings[] = {
    {OK, GET("Content-Length: 0\r\n")}, {OK, GET("CONTENT-LENGTH: 10\r\n")},
    {OK, GET("Content-Length: 007\r\n")},
    {OK, GET("Content-Length: 9223372036854775807\r\n")},
    {-400, GET("Content-Length: 9223372036854775808\r\n")},
    {-400, GET("Content-Length: 18446744073709551616\r\n")},
    {-400, GET("Content-Length: 18446744073709551617\r\n")},
    {-400, GET("Content-Length: 99999999999999999999999999\r\n")},
    {-400, GET("Content-Length:\r\n")},
    {OK, GET("Content-Length: 00000000000000000000000000000005\r\n")},
    {-400, GET("Content-Length: +1\r\n")},
    {-400, GET("Content-Length: -1\r\n")}, {-400, GET("Content-Length: 0x1\r\n")},
    {-400, GET("Content-Length: 1 1\r\n")},
    {-400, GET("Content-Length: 1,1\r\n")},
    {-400, GET("Content-Length: 1\r\nContent-Length: 1\r\n")},
    {-400, GET("Content-Length: 1\r\nA: b\r\ncontent-length: 2\r\n")},
    {-400, GET("Content-Length: 1a\r\n")},
    {-400, GET("Content-Length: 1.0\r\n")}, {-400, GET("Content-Length: \"1\"\r\n")},
    {OK, GET("Transfer-Encoding: chunked\r\n")}, {OK, GET("transfer-encoding:CHUNKED \r\n")},
    {-400, GET("Transfer-Encoding: chunked, chunked\r\n")},
    {-501, GET("Transfer-Encoding: gzip, chunked\r\n")},
    {-501, GET("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n")},
    {-501, GET("Transfer-Encoding: odd;a=b , chunked\r\n")},
    {-501, GET("Transfer-Encoding: odd\r\n")},
    {-501, GET("Transfer-Encoding: gzip, odd \t;a=b\r\n")},
    {-400, GET("Transfer-Encoding: odd, gzip\r\n")},
    {-400, GET("Transfer-Encoding: chunked, odd\r\n")},
    {-400, GET("Transfer-Encoding: odd, \"chunked\"\r\n")},
    {-400, GET("Transfer-Encoding: odd, ;chunked\r\n")}, {-400, GET("Transfer-Encoding: o d\r\n")},
    {-400, GET("Transfer-Encoding: odd, chunked;a=b\r\n")},
    {-400, GET("Transfer-Encoding: odd, chunked\r\nContent-Length: 1\r\n")},
    {-400, GET10("Transfer-Encoding: odd\r\n")},
    {-400, GET("Transfer-Encoding: gzip\r\n")}, {-400, GET("Transfer-Encoding: identity\r\n")},
    {-400, GET("Transfer-Encoding:\r\n")},
    {-400, GET("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n")},
    {-501, GET("Transfer-Encoding: xchunked\r\n")},
    {-400, GET("Transfer-Encoding: chunked;a=b\r\n")},
    {-400, GET("Transfer-Encoding: \"chunked\"\r\n")},
    {-400, GET("Transfer-Encoding: chunked,\r\n")},
    {-400, GET("Transfer-Encoding: \x0b" "chunked\r\n")},
    {-400, GET("Transfer-Encoding: chunked\r\nContent-Length: 1\r\n")},
    {-400, GET("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n")},
    {-400, GET10("Transfer-Encoding: chunked\r\n")}, {OK, GET10("Content-Length: 3\r\n")},
    {-400, "POST / HTTP/1.1\r\n" H "Content-Length: x\r\n\r\n"},
    {-400, "BREW / HTTP/1.1\r\n" H "Content-Length: x\r\n\r\n"},
    {OK, GET("Expect: 100-continue\r\n")}, {OK, GET("expect: 100-CONTINUE\r\n")},
    {-417, GET("Expect: 200-ok\r\n")},
    {-417, GET("Expect: 100-continue, x\r\n")},
    {-417, GET("Expect: 100-continue\r\nExpect: x\r\n")},
    {-417, GET("Expect: 100-continue=1\r\n")},
    {OK, GET10("Expect: x\r\n")}, {-400, GET("Expect: x\r\nContent-Length: y\r\n")},
    {-400, "GET / HTTP/1.1\r\nExpect: x\r\n\r\n"},
    {OK, GET("Expect:\r\n")},
};

static long parse_at(const char *text, size_t n)
{
    struct http_head head;

    return http_parse_request(edge(text, n), n, &head);
}

/* The result of every prefix is "more", and from some byte on that of the whole, whatever
 * follows. */
static void check_row(const struct row *row)
{
    static const char *const tails[] = {"",  "\r\n", "GET / HTTP/1.1\r\n",
                                        "\n", "x",    " HTTP/1.1\r\nHost: b\r\n\r\n"};
    size_t len = strlen(row->text), n;
    long want = row->want == OK ? (long)len : row->want, got, before = 0;
    char more[1024];
    unsigned i;

    for (n = 0; n <= len; n++) {
        got = parse_at(row->text, n);
        if ((before != 0 && got != before) || (got != 0 && got != want))
            fail_msg("%ld after %ld, not %ld, at byte %zu of: %s", got, before, want, n, row->text);
        before = got;
    }
    if (before != want)
        fail_msg("%ld, not %ld, for: %s", before, want, row->text);
    for (i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        snprintf(more, sizeof(more), "%s%s", row->text, tails[i]);
        assert_int_equal(parse_at(more, strlen(more)), want);
    }
}

static void check_rows(const struct row *row, size_t rows)
{
    size_t i;

    for (i = 0; i < rows; i++)
        check_row(&row[i]);
}
#define CHECK(rows) check_rows(rows, sizeof(rows) / sizeof((rows)[0]))

/* shows N23 */
static void test_lines(void **state)
{
    (void)state;
    CHECK(lines);
}

static void test_targets(void **state)
{
    (void)state;
    CHECK(targets);
}

static void test_fields(void **state)
{
    (void)state;
    CHECK(fields);
}

static void test_framings(void **state)
{
    (void)state;
    CHECK(framings);
}

/* Each byte in each place: only the RFCs' own sets are accepted; they are written out here. */
static void test_bytes(void **state)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char text[64];
    int c, n;

    (void)state;
    for (c = 0; c < 256; c++) {
        bool is_token = c != 0 && strchr(token, c), is_text = c == '\t' || (c >= 0x20 && c != 0x7f);
        long want;

        n = snprintf(text, sizeof(text), "G%cT / HTTP/1.1\r\n" H "\r\n", c);
        assert_int_equal(parse_at(text, (size_t)n), is_token ? n : -400);
        n = snprintf(text, sizeof(text), "GET /%c HTTP/1.1\r\n" H "\r\n", c);
        want = c == ' ' ? -400 : c > 0x20 && c < 0x7f && c != '#' ? n : -400;
        assert_int_equal(parse_at(text, (size_t)n), want);
        n = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" H "a%cb:c\r\n\r\n", c);
        assert_int_equal(parse_at(text, (size_t)n), is_token || c == ':' ? n : -400);
        n = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" H "a: 12345678%c1\r\n\r\n", c);
        assert_int_equal(parse_at(text, (size_t)n), is_text ? n : -400);
        n = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" H "a: 12%c45678901\r\n\r\n", c);
        assert_int_equal(parse_at(text, (size_t)n), is_text ? n : -400);
    }
}

/* A head is refused as early as that is certain: without waiting for the rest of the line. */
static void test_refused_early(void **state)
{
    static const struct row early[] = {
        {-400, "G\n"}, {-400, "GET / HTTP/1.1\n"}, {-400, "\r\n\r"}, {-400, "GET /\x80"},
        {-400, "GET /a\r"}, {-400, "GET / HTTP/1.1\r\n "},
        {-400, "GET / HTTP/1.1\r\nA: b\n"}, {-400, "GET / HTTP/1.1\r\nA: b\r\n\t"},
        {-400, "GET / HTTP/1.1\r\nA "}, {-400, "\x16"},
        {-505, "GET / HTTP/2.0\r"}, {-400, "GET / HTTP/x"},
    };
    unsigned i;

    (void)state;
    for (i = 0; i < sizeof(early) / sizeof(early[0]); i++) {
        assert_int_equal(parse_at(early[i].text, strlen(early[i].text)), early[i].want);
        assert_int_equal(parse_at(early[i].text, strlen(early[i].text) - 1), 0);
    }
}

/* Return format with its only %s replaced by n bytes 'a'. */
static char *stretch(const char *format, size_t n)
{
    static char text[4 * HEAD_BYTES_MAX], fill[3 * HEAD_BYTES_MAX];

    memset(fill, 'a', n);
    fill[n] = '\0';
    assert_in_range(n + strlen(format), 0, sizeof(text) - 1);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof(text), format, fill);
#pragma GCC diagnostic pop
    return text;
}

static long parse_text(const char *text)
{
    return parse_at(text, strlen(text));
}

static void test_limits(void **state)
{
    const char *method = "%s / HTTP/1.1\r\nHost: a\r\n\r\n";
    const char *target = "GET /%s HTTP/1.1\r\nHost: a\r\n\r\n";
    const char *many = "GET / HTTP/1.1\r\nHost: a\r\nA: %s\r\n\r\n";
    size_t fixed = strlen(many) - 2, n;
    char *text;

    (void)state;
    assert_true(parse_text(stretch(method, METHOD_BYTES_MAX)) > 0);
    assert_int_equal(parse_text(stretch(method, METHOD_BYTES_MAX + 1)), -501);
    assert_int_equal(parse_text(stretch("%s", METHOD_BYTES_MAX)), 0);
    assert_int_equal(parse_text(stretch("%s", METHOD_BYTES_MAX + 1)), -501);
    assert_true(parse_text(stretch(target, TARGET_BYTES_MAX - 1)) > 0);
    assert_int_equal(parse_text(stretch(target, TARGET_BYTES_MAX)), -414);
    assert_int_equal(parse_text(stretch("GET /%s", TARGET_BYTES_MAX - 1)), 0);
    assert_int_equal(parse_text(stretch("GET /%s", TARGET_BYTES_MAX)), -414);
    assert_int_equal(parse_text(stretch("GET /%s\x01", TARGET_BYTES_MAX - 1)), -400);
    assert_int_equal(parse_text(stretch("GET /%s\x01", TARGET_BYTES_MAX)), -414);
    /* The head, with its empty lines, and with the one before it. */
    assert_int_equal(parse_text(stretch(many, HEAD_BYTES_MAX - fixed)), HEAD_BYTES_MAX);
    assert_int_equal(parse_text(stretch(many, HEAD_BYTES_MAX - fixed + 1)), -431);
    text = stretch("\r\nGET / HTTP/1.1\r\nHost: a\r\nA: %s\r\n\r\n", HEAD_BYTES_MAX - fixed - 2);
    assert_int_equal(parse_text(text), HEAD_BYTES_MAX);
    text = stretch("\r\nGET / HTTP/1.1\r\nHost: a\r\nA: %s\r\n\r\n", HEAD_BYTES_MAX - fixed - 1);
    assert_int_equal(parse_text(text), -431);
    for (n = 0; n < HEAD_BYTES_MAX; n += n < HEAD_BYTES_MAX - 100 ? 97 : 1)
        assert_int_equal(parse_at(text, n), 0);
    assert_int_equal(parse_at(text, HEAD_BYTES_MAX), -431);
    /* An invalid byte before the limit is reported; beyond the limit, the excess length is. */
    text = stretch("GET / HTTP/1.1\r\nHost: a\r\nA: %s\x01\r\n\r\n", HEAD_BYTES_MAX - 40);
    assert_int_equal(parse_text(text), -400);
    text = stretch("GET / HTTP/1.1\r\nHost: a\r\nA: %s\x01\r\n\r\n", HEAD_BYTES_MAX);
    assert_int_equal(parse_text(text), -431);
}

static void test_field_limit(void **state)
{
    char text[HEAD_BYTES_MAX] = "GET / HTTP/1.1\r\nHost: a\r\n";
    unsigned i;

    (void)state;
    for (i = 1; i < HEAD_FIELDS_MAX; i++)
        strncat(text, "A: b\r\n", sizeof(text) - strlen(text) - 1);
    assert_int_equal(parse_text(text), 0);
    strncat(text, "A", sizeof(text) - strlen(text) - 1);
    assert_int_equal(parse_text(text), -431);
    text[strlen(text) - 1] = ' ';
    assert_int_equal(parse_text(text), -400);
    text[strlen(text) - 1] = '\r';
    strncat(text, "\n", sizeof(text) - strlen(text) - 1);
    assert_int_equal(parse_text(text), (long)strlen(text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_framings),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_refused_early),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_field_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
