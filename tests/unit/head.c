/* SPDX-License-Identifier: MIT */
/* head.c - the results of http_parse_request() and http_parse_response() for accepted heads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "../../core/http.h"
#include "edge.h"

enum { OK = 1 }; /* a whole, valid head: the answer is its length */
#define OK11 "HTTP/1.1 200 OK\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n"
#define H "Host: a\r\n"
#define GET(fields) "GET / HTTP/1.1\r\n" H fields "\r\n"
#define GET10(fields) "GET / HTTP/1.0\r\n" fields "\r\n"
#define LINE(line) line "\r\n" H "\r\n"

static void slice_equals(struct slice s, const char *text, int line)
{
    if (!s.ptr || s.len != strlen(text) || memcmp(s.ptr, text, s.len) != 0)
        fail_msg("line %d: '%.*s' is not '%s'", line, (int)s.len, s.ptr ? s.ptr : "", text);
}
#define assert_slice(s, text) slice_equals(s, text, __LINE__)

static struct http_head parsed(const char *text)
{
    struct http_head head;

    size_t n = strlen(text);

    assert_int_equal(http_parse_request(edge(text, n), n, &head), n);
    return head;
}

static void test_head(void **state)
{
    struct http_head h = parsed("GET /a/b?c?d HTTP/1.1\r\nHost:  x \r\nAccept:a\r\nX:y\r\n"
                                "accept: b,c\r\n\r\n");
    unsigned cursor = 0;

    (void)state;
    assert_int_equal(h.method, HTTP_GET);
    assert_slice(h.method_text, "GET");
    assert_slice(h.target, "/a/b?c?d");
    assert_slice(h.path, "/a/b");
    assert_slice(h.query, "c?d");
    assert_int_equal(h.minor, 1);
    assert_int_equal(h.framing, FRAMING_NONE);
    assert_false(h.expect_continue);
    assert_int_equal(h.fields, 4);
    assert_slice(h.field[2].name, "X");
    assert_slice(h.field[2].value, "y");
    assert_int_equal(h.field[2].id, FIELD_OTHER);
    assert_slice(http_field(&h, FIELD_HOST), "x");
    assert_slice(http_field(&h, FIELD_ACCEPT), "a");
    assert_slice(http_next(&h, FIELD_ACCEPT, &cursor), "a");
    assert_slice(http_next(&h, FIELD_ACCEPT, &cursor), "b,c");
    assert_null(http_next(&h, FIELD_ACCEPT, &cursor).ptr);
    assert_null(http_next(&h, FIELD_ACCEPT, &cursor).ptr);
    assert_null(http_field(&h, FIELD_RANGE).ptr);
    cursor = 0;
    assert_null(http_next(&h, FIELD_RANGE, &cursor).ptr);
    assert_null(http_next(&h, FIELD_RANGE, &cursor).ptr);
    h = parsed(GET("Expect: 100-continue\r\nContent-Length: 12\r\nRange: \t \r\n"));
    assert_true(h.expect_continue);
    assert_int_equal(h.framing, FRAMING_LENGTH);
    assert_int_equal(h.content_length, 12);
    assert_slice(http_field(&h, FIELD_RANGE), ""); /* empty is not absent */
    assert_int_equal(parsed(GET("Transfer-Encoding: chunked\r\n")).framing, FRAMING_CHUNKED);
    assert_false(parsed(GET10("Expect: 100-continue\r\n")).expect_continue);
}

static void test_field_names(void **state)
{
    static const char *const names[HTTP_FIELDS] = {
        [FIELD_ACCEPT] = "Accept", [FIELD_ACCEPT_ENCODING] = "Accept-Encoding",
        [FIELD_CONNECTION] = "Connection", [FIELD_CONTENT_LENGTH] = "Content-Length",
        [FIELD_EXPECT] = "Expect", [FIELD_HOST] = "Host", [FIELD_IF_MATCH] = "If-Match",
        [FIELD_IF_MODIFIED_SINCE] = "If-Modified-Since", [FIELD_IF_NONE_MATCH] = "If-None-Match",
        [FIELD_IF_RANGE] = "If-Range", [FIELD_IF_UNMODIFIED_SINCE] = "If-Unmodified-Since",
        [FIELD_RANGE] = "Range", [FIELD_REFERER] = "Referer",
        [FIELD_TE] = "TE", [FIELD_TRANSFER_ENCODING] = "Transfer-Encoding",
        [FIELD_USER_AGENT] = "User-Agent", [FIELD_WANT_REPR_DIGEST] = "Want-Repr-Digest",
    };
    struct http_head h;
    char text[128], name[32];
    unsigned id, i, flip;

    (void)state;
    for (id = 1; id < HTTP_FIELDS; id++) {
        for (flip = 0; flip <= strlen(names[id]); flip++) { /* each byte changed; the other case */
            snprintf(name, sizeof(name), "%s", names[id]);
            if (flip < strlen(name))
                name[flip] = name[flip] == 'x' ? 'y' : 'x';
            else
                for (i = 0; name[i]; i++)
                    name[i] = (char)(name[i] >= 'a' && name[i] <= 'z' ? name[i] - 32 : name[i]);
            snprintf(text, sizeof(text), "HTTP/1.0 304 \r\n%s:0\r\n%sx:0\r\n%.*s:0\r\n\r\n", name,
                     names[id], (int)strlen(name) - 1, name);
            if (http_parse_response(edge(text, strlen(text)), strlen(text), HTTP_GET, &h) < 0) {
                assert_int_equal(id, FIELD_TRANSFER_ENCODING); /* in HTTP/1.0: the name was known */
                continue;
            }
            assert_int_equal(h.field[0].id, flip == strlen(name) ? id : FIELD_OTHER);
            assert_int_equal(h.field[1].id, FIELD_OTHER);
            assert_int_equal(h.field[2].id, FIELD_OTHER);
        }
    }
}

static void test_methods(void **state)
{
    static const struct {
        const char *text;
        enum http_method method;
    } rows[] = {{"GET", HTTP_GET}, {"HEAD", HTTP_HEAD}, {"OPTIONS", HTTP_OPTIONS},
                {"POST", HTTP_KNOWN}, {"PUT", HTTP_KNOWN},
                {"DELETE", HTTP_KNOWN}, {"TRACE", HTTP_KNOWN}, {"PATCH", HTTP_KNOWN},
                {"PROPFIND", HTTP_KNOWN},
                {"UPDATEREDIRECTREF", HTTP_KNOWN}, {"get", HTTP_UNKNOWN}, {"GETS", HTTP_UNKNOWN},
                {"GE", HTTP_UNKNOWN},
                {"Head", HTTP_UNKNOWN}, {"BREW", HTTP_UNKNOWN}};
    char text[64];
    unsigned i;

    (void)state;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(text, sizeof(text), "%s / HTTP/1.1\r\nHost: a\r\n\r\n", rows[i].text);
        assert_int_equal(parsed(text).method, rows[i].method);
    }
    assert_int_equal(parsed(LINE("CONNECT a:1 HTTP/1.1")).method, HTTP_KNOWN);
}

static void test_target_parts(void **state)
{
    static const struct {
        const char *text, *path, *query;
    } rows[] = {
        {LINE("GET / HTTP/1.1"), "/", NULL}, {LINE("GET /? HTTP/1.1"), "/", ""},
        {LINE("GET http://a HTTP/1.1"), "/", NULL},
        {LINE("GET http://a?b HTTP/1.1"), "/", "b"},
        {LINE("GET http://a:1/b?c HTTP/1.1"), "/b", "c"},
        {LINE("GET http://a? HTTP/1.1"), "/", ""}, {LINE("OPTIONS * HTTP/1.1"), "*", NULL},
        {LINE("GET /a?/b HTTP/1.1"), "/a", "/b"},
        {LINE("GET http://a/http://b HTTP/1.1"), "/http://b", NULL},
        {LINE("GET //x/y HTTP/1.1"), "//x/y", NULL},
    };
    struct http_head h;
    unsigned i;

    (void)state;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        h = parsed(rows[i].text);
        assert_slice(h.path, rows[i].path);
        if (rows[i].query)
            assert_slice(h.query, rows[i].query);
        else
            assert_null(h.query.ptr);
    }
}

static void test_connection(void **state)
{
    static const struct {
        bool keep;
        const char *text;
    } rows[] = {
        {true, GET("")}, {false, GET("Connection: close\r\n")},
        {false, GET("Connection: CLOSE\r\n")}, {true, GET("Connection: closed\r\n")},
        {false, GET("Connection: a, ,close ,b\r\n")},
        {false, GET("Connection: keep-alive, close\r\n")},
        {false, GET("Connection: close\r\nConnection: keep-alive\r\n")},
        {true, GET("Connection: upgrade\r\n")},
        {false, GET10("")}, {true, GET10("Connection: Keep-Alive\r\n")},
        {false, GET10("Connection: keep-alive, close\r\n")},
        {true, GET10("Connection: x\r\nConnection: y, keep-alive\r\n")},
        {false, GET10("Connection: keep\r\n")},
        {true, "GET / HTTP/1.5\r\n" H "\r\n"},
    };
    unsigned i;

    (void)state;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(parsed(rows[i].text).keep_alive, rows[i].keep);
}

/* After a refusal the head has the parts that were understood: HEAD gets no body, the log a
 * line. */
static void test_understood(void **state)
{
    struct http_head h;

    (void)state;
    assert_int_equal(http_parse_request("HEAD /x HTTP/1.0\r\n A", 20, &h), -400);
    assert_int_equal(h.method, HTTP_HEAD);
    assert_slice(h.method_text, "HEAD");
    assert_slice(h.target, "/x");
    assert_int_equal(h.minor, 0);
    assert_int_equal(http_parse_request("HEAD \r\n", 7, &h), -400);
    assert_int_equal(h.method, HTTP_HEAD);
    assert_null(h.target.ptr);
    assert_int_equal(http_parse_request("\n", 1, &h), -400);
    assert_int_equal(h.method, HTTP_UNKNOWN);
    assert_null(h.method_text.ptr);
    assert_int_equal(h.minor, 1);
}

struct answer {
    const char *text;
    enum http_method asked;
    long want;
    enum http_framing framing;
    bool keep;
};

static const struct answer answers[] = {
    {OK11 "\r\n", HTTP_GET, OK, FRAMING_CLOSE, false},
    {"HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\n", HTTP_GET, OK, FRAMING_LENGTH, true},
    {"HTTP/1.1 200 \xe4 b\tc\r\n" CHUNKED "\r\n", HTTP_GET, OK, FRAMING_CHUNKED, true},
    {OK11 "Content-Length: 5\r\n\r\n", HTTP_HEAD, OK, FRAMING_NONE, true},
    {"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", HTTP_GET, OK, FRAMING_NONE, true},
    {"HTTP/1.1 204 No Content\r\n\r\n", HTTP_GET, OK, FRAMING_NONE, true},
    {"HTTP/1.1 100 Continue\r\n\r\n", HTTP_GET, OK, FRAMING_NONE, true},
    {"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", HTTP_GET, OK, FRAMING_LENGTH, false},
    {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\n", HTTP_GET, OK,
     FRAMING_LENGTH, true},
    {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", HTTP_GET, OK, FRAMING_CLOSE, false},
    {OK11 "Connection: close\r\nContent-Length: 5\r\n\r\n", HTTP_GET, OK, FRAMING_LENGTH, false},
    {OK11 "Content-Length: 5\r\n" CHUNKED "\r\n", HTTP_GET, -400, 0, false},
    {OK11 "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", HTTP_GET, -400, 0, false},
    {OK11 "Transfer-Encoding: gzip\r\n\r\n", HTTP_GET, -400, 0, false},
    {"HTTP/1.1 200\r\n\r\n", HTTP_GET, -400, 0, false},
    {"HTTP/1.1 20 OK\r\n\r\n", HTTP_GET, -400, 0, false},
    {"HTTP/1.1 2000 OK\r\n\r\n", HTTP_GET, -400, 0, false},
    {"HTTP/1.1 099 OK\r\n\r\n", HTTP_GET, -400, 0, false},
    {"HTTP/1.1  200 OK\r\n\r\n", HTTP_GET, -400, 0, false},
    {"HTTP/1.1 200 O\x01\r\n\r\n", HTTP_GET, -400, 0, false},
    {"HTTP/1.1 200 OK\n\r\n", HTTP_GET, -400, 0, false},
    {"HTTP/2.0 200 OK\r\n\r\n", HTTP_GET, -505, 0, false},
    {"\r\nHTTP/1.1 200 OK\r\n\r\n", HTTP_GET, -400, 0, false},
    {OK11 "A\r\n\r\n", HTTP_GET, -400, 0, false},
    {"HTTP/1.1\t200 OK\r\n\r\n", HTTP_GET, -400, 0, false},
    {"HTTP/1.10 200 OK\r\n\r\n", HTTP_GET, -400, 0, false},
    {"ICY 200 OK\r\n\r\n", HTTP_GET, -400, 0, false},
};

static void test_responses(void **state)
{
    static char big[HEAD_BYTES_MAX + 1];
    struct http_head h;
    long got, want, before;
    size_t len, n;
    unsigned i;

    (void)state;
    for (i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        len = strlen(answers[i].text);
        want = answers[i].want == OK ? (long)len : answers[i].want;
        for (n = 0, before = 0; n <= len; n++, before = got) {
            got = http_parse_response(edge(answers[i].text, n), n, answers[i].asked, &h);
            if ((before != 0 && got != before) || (got != 0 ? got != want : n == len))
                fail_msg("%ld, not %ld, at byte %zu of: %s", got, want, n, answers[i].text);
        }
        assert_int_equal(h.method, answers[i].asked);
        if (want > 0) {
            assert_int_equal(h.framing, answers[i].framing);
            assert_int_equal(h.keep_alive, answers[i].keep);
            assert_in_range(h.status, 100, 304);
        }
    }
    got = http_parse_response("HTTP/1.1 206 OK\r\nContent-Length: 7\r\n\r\n", 38, HTTP_GET, &h);
    assert_int_equal(got, 38);
    assert_int_equal(h.content_length, 7);
    assert_int_equal(h.status, 206);
    memset(big, 'a', sizeof(big));
    memcpy(big, "HTTP/1.1 200 ", 13);
    memcpy(big + HEAD_BYTES_MAX - 4, "\r\n\r\n", 4);
    assert_int_equal(http_parse_response(big, sizeof(big), HTTP_GET, &h), HEAD_BYTES_MAX);
    assert_int_equal(http_parse_response(big, HEAD_BYTES_MAX - 1, HTTP_GET, &h), 0);
    memcpy(big + HEAD_BYTES_MAX - 4, "a\r\n\r\n", 5);
    assert_int_equal(http_parse_response(big, sizeof(big), HTTP_GET, &h), -431);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_field_names),
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_target_parts),
        cmocka_unit_test(test_connection),
        cmocka_unit_test(test_understood),
        cmocka_unit_test(test_responses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
