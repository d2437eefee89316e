/* SPDX-License-Identifier: MIT */
/* body.c - the decoder of bodies: their end, their payload, and refusals; at any cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "../../core/http.h"
#include "edge.h"

enum { TEXT_MAX = 1 << 20 };

/* The result of a body: its payload, how many bytes it was, or why it was refused. */
struct result {
    char data[TEXT_MAX];
    size_t len, used;
    long status; /* 1 done, 0 more, < 0 refused */
};

/* Feed bytes in pieces that end after `cut` bytes and then every `step` bytes. */
static void decode(struct http_body *b, struct slice text, size_t cut, size_t step,
                   struct result *r)
{
    size_t end = cut, at = 0;
    struct slice data;
    const char *piece;
    long n;

    r->len = r->used = 0;
    r->status = 0;
    while (at < text.len && !http_body_done(b)) {
        while (end <= at)
            end += step;
        end = end < text.len ? end : text.len;
        piece = edge(text.ptr + at, end - at);
        n = http_body_next(b, piece, end - at, &data);
        if (n < 0) {
            r->status = n;
            assert_int_equal(http_body_next(b, "0", 1, &data), n); /* and stays refused */
            assert_false(http_body_done(b));
            return;
        }
        assert_in_range(n, 1, end - at);
        assert_in_range(data.len, 0, n);
        assert_in_range(data.ptr - piece, 0, n);
        assert_ptr_equal(data.len > 0 ? data.ptr + data.len : piece + n, piece + n);
        assert_in_range(r->len + data.len, 0, sizeof(r->data));
        memcpy(r->data + r->len, data.ptr, data.len);
        r->len += data.len;
        at += (size_t)n;
    }
    r->used = at;
    r->status = http_body_done(b);
}

struct row {
    const char *text, *data; /* data NULL: refused */
    long status;
};

static const struct row rows[] = {
    {"0\r\n\r\n", "", 1},
    {"5\r\nhello\r\n0\r\n\r\n", "hello", 1},
    {"5\r\nhello\r\n1\r\n!\r\n000\r\n\r\n", "hello!", 1},
    {"A\r\n0123456789\r\na\r\n\r\n0\r\n\r\n0\r\n\r\n0\r\n\r\n", "0123456789\r\n0\r\n\r\n0\r\n", 1},
    {"0000000000000002\r\nab\r\n0\r\n\r\n", "ab", 1},
    {"2;a\r\nab\r\n0;b=c;d=\"e f\"\r\n\r\n", "ab", 1},
    {"2;a;b=c;d=\"e;f=\\\"g\\\\\"\r\nab\r\n0\r\n\r\n", "ab", 1},
    {"2 ; a \t= b\t;\tc = \"\x80\t\" ;d\r\nab\r\n0 ;e\r\n\r\n", "ab", 1},
    {"2;!#$%&'*+-.^_`|~=0\r\nab\r\n0\r\n\r\n", "ab", 1},
    {"2;a=\"\"\r\nab\r\n0\r\n\r\n", "ab", 1},
    {"0\r\nA: b\r\nC:\r\nd:\te\x80\r\n\r\n", "", 1},
    {"0\r\nContent-Length: 5\r\nHost: x\r\n\r\n", "", 1}, /* have no meaning here */
    {"5\r\nhel", "hel", 0},
    {"0\r\n", "", 0},
    {"0\r\nA: b\r\n", "", 0},
    {"0\r\n\r", "", 0},
    {"\r\n", NULL, -400},
    {"\n", NULL, -400},
    {" 5\r\nhello\r\n", NULL, -400},
    {"5 \r\nhello\r\n", NULL, -400},
    {"5 \t\r\nhello\r\n", NULL, -400},
    {"5 a\r\nhello\r\n", NULL, -400},
    {"5\nhello\r\n", NULL, -400},
    {"5\rhello\r\n", NULL, -400},
    {"5\r\nhello\n", NULL, -400},
    {"5\r\nhello\rx", NULL, -400},
    {"5\r\nhello0\r\n\r\n", NULL, -400},
    {"5\r\nhello!\r\n", NULL, -400},
    {"5\r\nhello\r\n\r\n", NULL, -400},
    {"+5\r\nhello\r\n", NULL, -400},
    {"-5\r\nhello\r\n", NULL, -400},
    {"0x5\r\nhello\r\n", NULL, -400},
    {"g\r\n", NULL, -400},
    {"5,\r\n", NULL, -400},
    {";a\r\n", NULL, -400},
    {"5;\r\nhello\r\n", NULL, -400},
    {"5; \r\nhello\r\n", NULL, -400},
    {"5;;a\r\nhello\r\n", NULL, -400},
    {"5;a;\r\nhello\r\n", NULL, -400},
    {"5;a \r\nhello\r\n", NULL, -400},
    {"5;a b\r\nhello\r\n", NULL, -400},
    {"5;a b=c\r\nhello\r\n", NULL, -400},
    {"5;=b\r\nhello\r\n", NULL, -400},
    {"5;\"a\"\r\nhello\r\n", NULL, -400},
    {"5;a=\r\nhello\r\n", NULL, -400},
    {"5;a= ;b\r\nhello\r\n", NULL, -400},
    {"5;a==b\r\nhello\r\n", NULL, -400},
    {"5;a=b=c\r\nhello\r\n", NULL, -400},
    {"5;a=b \r\nhello\r\n", NULL, -400},
    {"5;a=b c\r\nhello\r\n", NULL, -400},
    {"5;a=b\"c\"\r\nhello\r\n", NULL, -400},
    {"5;a=\"b\r\nhello\r\n", NULL, -400},
    {"5;a=\"b\\\r\nhello\r\n", NULL, -400},
    {"5;a=\"b\"c\r\nhello\r\n", NULL, -400},
    {"5;a=\"b\" \r\nhello\r\n", NULL, -400},
    {"5;a=\"\x01\"\r\nhello\r\n", NULL, -400},
    {"5;a=\"\\\x7f\"\r\nhello\r\n", NULL, -400},
    {"5;a=\x80\r\nhello\r\n", NULL, -400},
    {"5;\x80\r\nhello\r\n", NULL, -400},
    {"5;a\nhello\r\n", NULL, -400},
    {"5;a\rb\r\n", NULL, -400},
    {"5;\x01\r\n", NULL, -400},
    {"5;\x7f\r\n", NULL, -400},
    {"0\r\n\n", NULL, -400},
    {"0\r\n\rx", NULL, -400},
    {"0\r\n x\r\n\r\n", NULL, -400},
    {"0\r\nA\r\n\r\n", NULL, -400},
    {"0\r\n: b\r\n\r\n", NULL, -400},
    {"0\r\nA : b\r\n\r\n", NULL, -400},
    {"0\r\nA: b\n\r\n", NULL, -400},
    {"0\r\nA: b\rc\r\n", NULL, -400},
    {"0\r\nA: b\r\n c\r\n\r\n", NULL, -400},
    {"0\r\nA: \x01\r\n\r\n", NULL, -400},
    {"0\r\n\x80: b\r\n\r\n", NULL, -400},
    {"8000000000000000\r\n", NULL, -413},
    {"ffffffffffffffff\r\n", NULL, -413},
    {"fffffffffffffffff\r\n", NULL, -413},
    {"10000000000000000\r\n", NULL, -413},
    {"00000000000000001\r\n", NULL, -413},
};

static struct result whole, split;

static void check_row(const struct row *row)
{
    struct slice text = {row->text, strlen(row->text)};
    struct http_body b;
    size_t cut;

    for (cut = 1; cut <= text.len; cut++) {
        http_body_init(&b, FRAMING_CHUNKED, 0);
        decode(&b, text, cut, cut == 1 ? 1 : text.len, &split);
        if (split.status != row->status)
            fail_msg("%ld, cut at %zu: %s", split.status, cut, row->text);
        if (!row->data)
            continue;
        assert_int_equal(split.used, text.len);
        assert_int_equal(split.len, strlen(row->data));
        assert_memory_equal(split.data, row->data, split.len);
    }
}

/* shows H04 */
static void test_chunked(void **state)
{
    unsigned i;

    (void)state;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_row(&rows[i]);
}

/* The bytes behind the end are not read. */
static void test_end(void **state)
{
    struct slice text = {"3\r\nabc\r\n0\r\n\r\nGET /", 18}, data;
    struct http_body b;

    (void)state;
    http_body_init(&b, FRAMING_CHUNKED, 0);
    decode(&b, text, 18, 18, &whole);
    assert_int_equal(whole.status, 1);
    assert_int_equal(whole.used, 13);
    assert_int_equal(http_body_next(&b, "G", 1, &data), 0);
    assert_int_equal(data.len, 0);
    http_body_init(&b, FRAMING_LENGTH, 4);
    assert_int_equal(http_body_next(&b, "", 0, &data), 0);
    assert_int_equal(http_body_next(&b, "ab", 2, &data), 2);
    assert_int_equal(data.len, 2);
    assert_false(http_body_done(&b));
    assert_int_equal(http_body_next(&b, "cdGET", 5, &data), 2);
    assert_memory_equal(data.ptr, "cd", 2);
    assert_true(http_body_done(&b));
    http_body_init(&b, FRAMING_LENGTH, 0);
    assert_true(http_body_done(&b));
    http_body_init(&b, FRAMING_NONE, 7);
    assert_true(http_body_done(&b));
    http_body_init(&b, FRAMING_CLOSE, 0);
    assert_int_equal(http_body_next(&b, "abc", 3, &data), 3);
    assert_int_equal(data.len, 3);
    assert_false(http_body_done(&b));
    http_body_init(&b, FRAMING_LENGTH, UINT64_MAX);
    assert_int_equal(http_body_next(&b, "abc", 3, &data), 3);
    assert_false(http_body_done(&b));
    assert_int_equal(http_body_left(&b), UINT64_MAX - 3);
    http_body_init(&b, FRAMING_CHUNKED, 0);
    assert_int_equal(http_body_next(&b, "7fffffffffffffff\r", 17, &data), 17);
    assert_int_equal(http_body_left(&b), 0); /* the line could still be malformed */
    assert_int_equal(http_body_next(&b, "\n", 1, &data), 1);
    assert_int_equal(http_body_left(&b), INT64_MAX);
    http_body_init(&b, FRAMING_CHUNKED, 0);
    assert_int_equal(http_body_next(&b, "7fffffffffffffff\r\nabc", 21, &data), 21);
    assert_memory_equal(data.ptr, "abc", 3);
    assert_int_equal(sizeof(struct http_body), 16);
}

/* One run of payload per call, and the framing before it; then the framing before trailers. */
static void test_runs(void **state)
{
    const char *text = "1\r\na\r\n2\r\nbc\r\n0;x\r\nA: b\r\n\r\n";
    struct http_body b;
    struct slice data;

    (void)state;
    http_body_init(&b, FRAMING_CHUNKED, 0);
    assert_int_equal(http_body_next(&b, text, 27, &data), 4);
    assert_int_equal(data.len, 1);
    assert_ptr_equal(data.ptr, text + 3);
    assert_int_equal(http_body_next(&b, text + 4, 23, &data), 7);
    assert_int_equal(data.len, 2);
    assert_ptr_equal(data.ptr, text + 9);
    assert_int_equal(http_body_next(&b, text + 11, 16, &data), 7);
    assert_int_equal(data.len, 0);
    assert_true(http_body_trails(&b));
    for (size_t cut = 0; cut < 8; cut++) {
        struct http_body copy = b;

        assert_int_equal(http_body_next(&copy, text + 18, cut, &data), cut);
        assert_true(http_body_trails(&copy));
        assert_int_equal(http_body_next(&copy, text + 18 + cut, 9 - cut, &data), 8 - cut);
        assert_int_equal(data.len, 0);
        assert_false(http_body_trails(&copy));
        assert_true(http_body_done(&copy));
    }
    http_body_init(&b, FRAMING_CHUNKED, 0);
    for (size_t at = 0; at < 18; at++)
        assert_false(http_body_trails(&b) || http_body_next(&b, text + at, 1, &data) != 1);
    assert_true(http_body_trails(&b));
}

static char text[TEXT_MAX];

static long status_of(size_t n)
{
    struct slice s = {text, n};
    struct http_body b;

    http_body_init(&b, FRAMING_CHUNKED, 0);
    decode(&b, s, n, n, &whole);
    http_body_init(&b, FRAMING_CHUNKED, 0);
    decode(&b, s, 7, 4093, &split);
    assert_int_equal(split.status, whole.status);
    assert_int_equal(split.len, whole.len);
    return whole.status;
}

static size_t put(size_t at, const char *what, size_t times)
{
    size_t n = strlen(what);

    for (; times > 0; times--, at += n)
        memcpy(text + at, what, n);
    return at;
}

static void test_limits(void **state)
{
    const size_t big = 128;
    size_t n, i;

    (void)state;
    /* A chunk line: CHUNK_LINE_BYTES_MAX with its CRLF. */
    n = put(put(put(0, "1;", 1), "x", CHUNK_LINE_BYTES_MAX - 4), "\r\na\r\n0\r\n\r\n", 1);
    assert_int_equal(status_of(n), 1);
    n = put(put(put(0, "1;", 1), "x", CHUNK_LINE_BYTES_MAX - 3), "\r\na\r\n0\r\n\r\n", 1);
    assert_int_equal(status_of(n), -400);
    /* All chunk lines together: CHUNK_OVERHEAD_BYTES_MAX beyond 16 bytes each, not one more. */
    for (i = 0, n = 0; i < big; i++)
        n = put(put(put(n, "1;", 1), "x", 16 + CHUNK_OVERHEAD_BYTES_MAX / big - 4), "\r\na\r\n", 1);
    assert_int_equal(status_of(put(n, "0;456789abcdef\r\n\r\n", 1)), 1);
    assert_int_equal(status_of(put(n, "0;456789abcdefg\r\n\r\n", 1)), -400);
    /* Short lines cost nothing, however many. */
    n = put(put(0, "1;456789abcdef\r\na\r\n", 20000), "0\r\n\r\n", 1);
    assert_int_equal(status_of(n), 1);
    assert_int_equal(whole.len, 20000);
    /* Trailers: with their line ends, but neither the empty line nor chunk lines. */
    n = put(put(put(0, "0;456789abcdefgh\r\nA:", 1), "x", TRAILER_BYTES_MAX - 4), "\r\n\r\n", 1);
    assert_int_equal(status_of(n), 1);
    n = put(put(put(0, "0\r\nA:", 1), "x", TRAILER_BYTES_MAX - 3), "\r\n\r\n", 1);
    assert_int_equal(status_of(n), -431);
    n = put(put(put(0, "0\r\n", 1), "A:b\r\n", TRAILER_BYTES_MAX / 5), "\r\n", 1);
    assert_int_equal(status_of(n), 1);
    n = put(put(put(0, "0\r\n", 1), "A:b\r\n", TRAILER_BYTES_MAX / 5 + 1), "\r\n", 1);
    assert_int_equal(status_of(n), -431);
}

static void test_chunk_head(void **state)
{
    static const size_t sizes[] = {0,   1,    9,     10,           15,      16, 255,
                                   256, 4095, 65536, SIZE_MAX / 2, SIZE_MAX};
    char got[20], want[24];
    unsigned i;
    size_t n;

    (void)state;
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        n = (size_t)snprintf(want, sizeof(want), "%zx\r\n", sizes[i]);
        assert_int_equal(http_chunk_head(got, sizes[i]), n);
        assert_memory_equal(got, want, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunked),    cmocka_unit_test(test_end),
        cmocka_unit_test(test_runs),       cmocka_unit_test(test_limits),
        cmocka_unit_test(test_chunk_head),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
