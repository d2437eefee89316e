/* SPDX-License-Identifier: MIT */
/* split.c - the same bytes, cut anywhere, written short anywhere, give the same output.
 *
 * Whole conversations with every kind of request and answer: fed in two pieces cut at every byte,
 * in pieces of every small size, and taken in sips of every small size, first sip of every size.
 * The output must be the same as with one feed and full sends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "world.h"

#define HOST " HTTP/1.1\r\nHost: h\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n"

/* Requests that keep the connection; the end is one of the endings. */
static const char conversation[] =
    "GET /p26" HOST "\r\n"
    "\r\nHEAD /f700" HOST "User-Agent: x\r\n\r\n"
    "GET /f700" HOST "\r\n"
    "GET /missing" HOST "Accept: text/html\r\n\r\n"
    "GET /m40" HOST "\r\n"
    "GET /m3/" HOST "TE: trailers\r\nConnection: TE\r\n\r\n"
    "GET /p26" HOST "If-None-Match: *\r\n\r\n"
    "GET /p26" HOST "Range: bytes=1-3\r\n\r\n"
    "GET /f700" HOST "Range: bytes=1-3,100-180,699-\r\n\r\n"
    "POST /p26" HOST "Content-Length: 40\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n\r\n0\r\n"
    "GET /w30" HOST "\r\n"
    "GET /w30" HOST CHUNKED "Expect: 100-continue\r\n\r\n"
    "5;x=\"y\"\r\nhello\r\n1\r\n\n\r\n0\r\nA: b\r\n\r\n"
    "GET /m2" HOST CHUNKED "\r\nA\r\n0123456789\r\n0\r\n\r\n"
    "GET /dir?a" HOST "\r\n"
    "OPTIONS *" HOST "\r\n"
    "BREW /%zz" HOST "\r\n"
    "GET /EMFILE" HOST "\r\n"
    "HEAD /m9" HOST "Content-Length: 1\r\n\r\nx"
    "GET /p0 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";

static const char *const endings[] = {
    "",
    "GET /p26" HOST "Connection: close\r\n\r\nGET /never" HOST "\r\n",
    "GET /m30 HTTP/1.0\r\n\r\n",
    "GET /p26" HOST "X : y\r\n\r\nGET /never" HOST "\r\n",
    "GET /p26" HOST CHUNKED "\r\n5\r\nhelloX\r\n0\r\n\r\n",
    "POST /" HOST "Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    "GET /" HOST "Content-Length: 99999999\r\n\r\nabc",
    "GET /p26" HOST "Content-Length: 5\r\n\r\n123", /* cut short */
    "GET /p26" HOST "X: y\r\n",
};

enum { ENDINGS = sizeof(endings) / sizeof(endings[0]), INPUT_MAX = 4096, OUTPUT_MAX = 1 << 16 };

static struct fake *fake;
static char input[INPUT_MAX], expected[OUTPUT_MAX];
static size_t input_len, expected_len;

static void input_set(const char *start, const char *ending)
{
    int n = snprintf(input, sizeof(input), "%s%s", start, ending);

    assert_in_range(n, 1, sizeof(input) - 1);
    input_len = (size_t)n;
}

/* Feed in two pieces, the first `first` bytes long, each cut further; take the first sip
 * separately, too. */
struct manner {
    size_t first, cut, first_sip, sip;
};

static void converse(struct drive *d, struct manner m)
{
    drive_open(d, fake);
    d->cut = m.cut;
    d->sip = m.first_sip ? m.first_sip : m.sip;
    if (m.first)
        drive_feed(d, input, m.first);
    if (m.first_sip && d->conn.want == CONN_RECV && m.first < input_len) {
        conn_feed(&d->conn, input + m.first, 1, d->now_ms);
        m.first++;
        if (d->conn.want == CONN_SEND)
            drive_send(d);
        d->sip = m.sip;
        drive_run(d);
    }
    d->sip = m.sip;
    drive_feed(d, input + m.first, input_len - m.first);
    drive_end(d);
    assert_int_equal(d->conn.want, CONN_CLOSE);
}

static void expect(void)
{
    struct drive d;

    fake = world_open();
    converse(&d, (struct manner){0});
    assert_in_range(d.len, 1, sizeof(expected));
    memcpy(expected, d.out, d.len);
    expected_len = d.len;
    drive_close(&d);
    fake_close(fake);
}

static void check(struct manner m)
{
    struct drive d;

    fake = world_open();
    converse(&d, m);
    if (d.len != expected_len || memcmp(d.out, expected, d.len) != 0) {
        d.out[d.len] = '\0';
        fail_msg("first %zu cut %zu first sip %zu sip %zu:\n%s", m.first, m.cut, m.first_sip, m.sip,
                 d.out);
    }
    drive_close(&d);
    fake_close(fake);
}

/* The output of one feed is right. */
static void test_reference(void **state)
{
    static const char *const in_order[] = {
        "200 OK", "200 OK", "200 OK", "404 Not", "200 OK", "200 OK", "304 Not", "206 Par",
        "206 Par", "405 Met", "200 OK", "100 Con", "200 OK", "200 OK", "301 Mov", "200 OK",
        "501 Not", "503 Ser", "200 OK", "200 OK", "400 Bad",
    };
    const char *at = expected;

    (void)state;
    input_set(conversation, endings[3]);
    expect();
    for (size_t i = 0; i < sizeof(in_order) / sizeof(in_order[0]); i++) {
        at = strstr(at, "HTTP/1.1 ");
        assert_non_null(at);
        assert_memory_equal(at + 9, in_order[i], strlen(in_order[i]));
        at++;
    }
    assert_null(strstr(at, "HTTP/1.1 "));
    assert_non_null(strstr(expected, "\r\nTrailer: X-Made\r\n"));
    assert_non_null(strstr(expected, "\r\n0\r\nX-Made: 3 pieces\r\n\r\n"));
    assert_null(strstr(expected, "smuggled"));
    assert_null(strstr(expected, "never"));
}

/* Feed in two pieces, cut at every byte. */
/* shows D07, H01, N23, S37 */
static void test_cut_at_every_byte(void **state)
{
    (void)state;
    for (int i = 0; i < ENDINGS; i++) {
        input_set(conversation, endings[i]);
        expect();
        for (size_t first = 1; first < input_len; first++)
            check((struct manner){.first = first});
    }
}

/* Feed in pieces of every size up to that of a request, and all endings byte by byte. */
static void test_cut_in_pieces(void **state)
{
    (void)state;
    for (int i = 0; i < ENDINGS; i++) {
        input_set(conversation, endings[i]);
        expect();
        for (size_t cut = 1; cut <= (i ? 3 : 120); cut++)
            check((struct manner){.cut = cut});
    }
}

/* Sends that take only some bytes: all of the same size, and the first one of every size. */
static void test_short_sends(void **state)
{
    (void)state;
    for (int i = 0; i < ENDINGS; i++) {
        input_set(conversation, endings[i]);
        expect();
        for (size_t sip = 1; sip <= (i ? 20 : 400); sip++)
            check((struct manner){.sip = sip});
    }
}

/* One answer at a time, its first send stopped at every byte. */
static void test_short_first_send(void **state)
{
    static const char *const requests[] = {
        "GET /p26" HOST "\r\n", "GET /f700" HOST "\r\n", "GET /m9" HOST "\r\n",
        "GET /m2/" HOST "TE: trailers\r\nConnection: TE\r\n\r\n",
        "GET /f700" HOST "Range: bytes=1-3,10-20,699-\r\n\r\n", "GET /missing" HOST "\r\n",
        "GET /w30 HTTP/1.0\r\n\r\n", "GET /p26 HTTP/1.1\r\n\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        input_set(requests[i], "");
        expect();
        for (size_t sip = 1; sip < expected_len; sip++)
            check((struct manner){.first = input_len - 1, .first_sip = sip});
    }
}

/* Cuts and short sends together, by a fixed sequence of odd numbers. */
static void test_both(void **state)
{
    uint32_t x = 12345;

    (void)state;
    input_set(conversation, endings[1]);
    expect();
    for (int i = 0; i < 500; i++) {
        x = x * 1664525 + 1013904223;
        check((struct manner){.first = x % input_len, .cut = 1 + (x >> 8) % 97,
                              .sip = 1 + (x >> 16) % 211});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_cut_at_every_byte),
        cmocka_unit_test(test_cut_in_pieces),
        cmocka_unit_test(test_short_sends),
        cmocka_unit_test(test_short_first_send),
        cmocka_unit_test(test_both),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
