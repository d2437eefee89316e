/* SPDX-License-Identifier: MIT */
/* reply.c - request bytes and the answers they must get, byte for byte where it matters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "world.h"

#define HOST " HTTP/1.1\r\nHost: h\r\n"
#define OPEN(status) \
    "HTTP/1.1 " status "\r\nServer: rung\r\nX-Content-Type-Options: nosniff\r\nDate: " \
    WORLD_DATE "\r\n"
#define FILE_26 \
    "Last-Modified: " WORLD_DATE "\r\nETag: " WORLD_TAG("1a") "\r\nAccept-Ranges: bytes\r\n"
#define ABC "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define TEXT_404 "404 Not Found: There is nothing here under this name.\n"

static struct fake *fake;
static struct drive drive;

/* Feed one connection these bytes; returns its output. */
static const char *answer(const char *request, size_t n)
{
    drive_open(&drive, fake);
    drive.out[0] = '\0';
    must(drive_feed(&drive, request, n) == n);
    return drive.out;
}

static void finish(void)
{
    drive_end(&drive);
    assert_int_equal(drive.conn.want, CONN_CLOSE);
    drive_close(&drive);
}

/* --- Whole answers ---------------------------------------------------------------------------- */

static const struct {
    const char *name, *request, *answer;
} exact[] = {
    {"get", "GET /p26" HOST "\r\n",
     OPEN("200 OK") "Content-Type: text/plain\r\nContent-Length: 26\r\n" FILE_26 "\r\n" ABC},
    {"head", "HEAD /p26" HOST "\r\n",
     OPEN("200 OK") "Content-Type: text/plain\r\nContent-Length: 26\r\n" FILE_26 "\r\n"},
    {"head with a range", "HEAD /p26" HOST "Range: bytes=1-2\r\n\r\n",
     OPEN("200 OK") "Content-Type: text/plain\r\nContent-Length: 26\r\n" FILE_26 "\r\n"},
    {"close", "GET /p26" HOST "Connection: close\r\n\r\n",
     OPEN("200 OK") "Content-Type: text/plain\r\nContent-Length: 26\r\n" FILE_26
     "Connection: close\r\n\r\n" ABC},
    {"1.0", "GET /p26 HTTP/1.0\r\n\r\n",
     OPEN("200 OK") "Content-Type: text/plain\r\nContent-Length: 26\r\n" FILE_26
     "Connection: close\r\n\r\n" ABC},
    {"1.0 keep-alive", "GET /p26 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
     OPEN("200 OK") "Content-Type: text/plain\r\nContent-Length: 26\r\n" FILE_26
     "Connection: keep-alive\r\n\r\n" ABC},
    {"empty", "GET /p0" HOST "\r\n",
     OPEN("200 OK") "Content-Type: text/plain\r\nContent-Length: 0\r\nLast-Modified: " WORLD_DATE
     "\r\nETag: " WORLD_TAG("0") "\r\nAccept-Ranges: bytes\r\n\r\n"},
    {"304", "GET /p26" HOST "If-None-Match: " WORLD_TAG("1a") "\r\n\r\n",
     OPEN("304 Not Modified") "Last-Modified: " WORLD_DATE "\r\nETag: " WORLD_TAG("1a")
     "\r\n\r\n"},
    {"304 of head", "HEAD /p26" HOST "If-Modified-Since: " WORLD_DATE "\r\n\r\n",
     OPEN("304 Not Modified") "Last-Modified: " WORLD_DATE "\r\nETag: " WORLD_TAG("1a")
     "\r\n\r\n"},
    {"304 of a variant", "GET /vary" HOST "If-None-Match: *\r\n\r\n",
     OPEN("304 Not Modified") "Vary: Accept-Encoding\r\nLast-Modified: " WORLD_DATE
     "\r\nETag: " WORLD_TAG("14") "\r\n\r\n"},
    {"304 of a listing", "GET /m2" HOST "If-None-Match: *\r\n\r\n",
     OPEN("304 Not Modified") "Cache-Control: no-cache\r\nVary: Accept\r\n\r\n"},
    {"206", "GET /p26" HOST "Range: bytes=3-5\r\n\r\n",
     OPEN("206 Partial Content") "Content-Type: text/plain\r\nContent-Range: bytes 3-5/26\r\n"
     "Content-Length: 3\r\n" FILE_26 "\r\nDEF"},
    {"206, one of several can be had", "GET /p26" HOST "Range: bytes=99-,-2,26-\r\n\r\n",
     OPEN("206 Partial Content") "Content-Type: text/plain\r\nContent-Range: bytes 24-25/26\r\n"
     "Content-Length: 2\r\n" FILE_26 "\r\nYZ"},
    {"416", "GET /p26" HOST "Range: bytes=26-\r\n\r\n",
     OPEN("416 Range Not Satisfiable") "Content-Range: bytes */26\r\n"
     "Content-Type: text/plain; charset=utf-8\r\nVary: Accept\r\nContent-Length: 71\r\n\r\n"
     "416 Range Not Satisfiable: The part you asked for lies beyond its end.\n"},
    {"404", "GET /missing" HOST "\r\n",
     OPEN("404 Not Found") "Content-Type: text/plain; charset=utf-8\r\nVary: Accept\r\n"
     "Content-Length: 54\r\n\r\n" TEXT_404},
    {"404 of head", "HEAD /missing" HOST "\r\n",
     OPEN("404 Not Found") "Content-Type: text/plain; charset=utf-8\r\nVary: Accept\r\n"
     "Content-Length: 54\r\n\r\n"},
    {"options *", "OPTIONS *" HOST "\r\n",
     OPEN("200 OK") "Allow: GET, HEAD, OPTIONS\r\nContent-Length: 0\r\n\r\n"},
    {"options", "OPTIONS /missing HTTP/1.0\r\n\r\n",
     OPEN("200 OK") "Allow: GET, HEAD, OPTIONS\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"},
    {"redirect", "GET /dir" HOST "\r\n",
     OPEN("301 Moved Permanently") "Location: /dir/\r\nContent-Type: text/html; charset=utf-8\r\n"
     "Content-Length: 127\r\n\r\n<!DOCTYPE html>\n<title>Moved Permanently</title>\n"
     "<p>This folder's address ends with a slash: <a href=\"/dir/\">go there</a>.</p>\n"},
    {"made", "GET /m3" HOST "\r\n",
     OPEN("200 OK") "Content-Type: text/plain\r\nCache-Control: no-cache\r\nVary: Accept\r\n"
     "Transfer-Encoding: chunked\r\n\r\n"
     "8\r\npiece 3\n\r\n8\r\npiece 2\n\r\n8\r\npiece 1\n\r\n0\r\n\r\n"},
    {"made for head", "HEAD /m3" HOST "\r\n",
     OPEN("200 OK") "Content-Type: text/plain\r\nCache-Control: no-cache\r\nVary: Accept\r\n"
     "Transfer-Encoding: chunked\r\n\r\n"},
    {"made for 1.0", "GET /m3 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
     OPEN("200 OK") "Content-Type: text/plain\r\nCache-Control: no-cache\r\nVary: Accept\r\n"
     "Connection: close\r\n\r\npiece 3\npiece 2\npiece 1\n"},
    {"made, of nothing", "GET /m0" HOST "\r\n",
     OPEN("200 OK") "Content-Type: text/plain\r\nCache-Control: no-cache\r\nVary: Accept\r\n"
     "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
    {"made before", "GET /ready" HOST "Range: bytes=0-1\r\n\r\n",
     OPEN("200 OK") "Content-Type: text/plain\r\nContent-Length: 20\r\n"
     "Cache-Control: no-cache\r\nVary: Accept\r\n\r\nABCDEFGHIJKLMNOPQRST"},
    {"made before, for head", "HEAD /ready" HOST "\r\n",
     OPEN("200 OK") "Content-Type: text/plain\r\nContent-Length: 20\r\n"
     "Cache-Control: no-cache\r\nVary: Accept\r\n\r\n"},
    {"made before, for 1.0", "GET /ready HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
     OPEN("200 OK") "Content-Type: text/plain\r\nContent-Length: 20\r\n"
     "Cache-Control: no-cache\r\nVary: Accept\r\nConnection: keep-alive\r\n\r\n"
     "ABCDEFGHIJKLMNOPQRST"},
    {"made before, compressed", "GET /ready-gz" HOST "Accept-Encoding: gzip\r\n\r\n",
     OPEN("200 OK") "Content-Type: text/plain\r\nContent-Length: 20\r\n"
     "Content-Encoding: gzip\r\nCache-Control: no-cache\r\nVary: Accept, Accept-Encoding\r\n\r\n"
     "ABCDEFGHIJKLMNOPQRST"},
    {"304 of what was made before", "GET /ready" HOST "If-None-Match: *\r\n\r\n",
     OPEN("304 Not Modified") "Cache-Control: no-cache\r\nVary: Accept\r\n\r\n"},
    {"refused", "GET /p26 HTTP/1.1\r\n\r\n",
     OPEN("400 Bad Request") "Content-Type: text/plain; charset=utf-8\r\nVary: Accept\r\n"
     "Content-Length: 63\r\nConnection: close\r\n\r\n"
     "400 Bad Request: This is not a request that can be understood.\n"},
    {"refused head", "HEAD /p26 HTTP/1.1\r\n\r\n",
     OPEN("400 Bad Request") "Content-Type: text/plain; charset=utf-8\r\nVary: Accept\r\n"
     "Content-Length: 63\r\nConnection: close\r\n\r\n"},
};

static void test_exact(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(exact) / sizeof(exact[0]); i++) {
        const char *got = answer(exact[i].request, strlen(exact[i].request));

        if (strcmp(got, exact[i].answer) != 0)
            fail_msg("%s:\n%s", exact[i].name, got);
        finish();
    }
}

/* --- Pieces of answers ------------------------------------------------------------------------ */

static const struct {
    const char *request, *status;
    const char *has[4], *lacks[4];
} rows[] = {
    /* methods */
    {"POST /p26" HOST "\r\n", "405 Method", {"\r\nAllow: GET, HEAD, OPTIONS\r\n", "405 Meth"},
     {"Connection"}},
    {"CONNECT h:80" HOST "\r\n", "405 Method", {"\r\nAllow: ", "\r\nConnection: close"}, {NULL}},
    {"BREW /pot" HOST "\r\n", "501 Not Implemented", {"\n501 "}, {"Allow", "Connection"}},
    {"get /p26" HOST "\r\n", "501 Not", {NULL}, {NULL}},
    /* paths */
    {"GET /%" HOST "\r\n", "400 Bad Request", {NULL}, {"Connection"}},
    {"GET /%00" HOST "\r\n", "400 Bad Request", {NULL}, {NULL}},
    {"GET /../p26" HOST "\r\n", "404 Not Found", {NULL}, {NULL}},
    {"GET /x/../%702%36" HOST "\r\n", "200 OK", {ABC}, {NULL}},
    {"GET /p26?x=y" HOST "\r\n", "200 OK", {ABC}, {NULL}},
    {"GET http://h/p26" HOST "\r\n", "200 OK", {ABC}, {NULL}},
    /* errors of the host */
    {"GET /ENOENT" HOST "\r\n", "404 Not Found", {NULL}, {"Retry-After"}},
    {"GET /ENAMETOOLONG" HOST "\r\n", "404 Not Found", {NULL}, {NULL}},
    {"GET /EACCES" HOST "\r\n", "403 Forbidden", {NULL}, {NULL}},
    {"GET /EPERM" HOST "\r\n", "403 Forbidden", {NULL}, {NULL}},
    {"GET /EMFILE" HOST "\r\n", "503 Service Unavailable", {"\r\nRetry-After: 1\r\n"}, {NULL}},
    {"GET /ENFILE" HOST "\r\n", "503 Service Unavailable", {"\r\nRetry-After: 1\r\n"}, {NULL}},
    {"GET /ENOMEM" HOST "\r\n", "503 Service Unavailable", {"\r\nRetry-After: 1\r\n"}, {NULL}},
    {"GET /EAGAIN" HOST "\r\n", "503 Service Unavailable", {"\r\nRetry-After: 1\r\n"}, {NULL}},
    {"GET /EIO" HOST "\r\n", "500 Internal Server Error", {NULL}, {"Retry-After"}},
    {"GET /EINTR" HOST "\r\n", "500 Internal Server Error", {NULL}, {NULL}},
    /* preconditions and ranges of a failed request are ignored (RFC 9110 13.2.1) */
    {"GET /missing" HOST "If-Match: \"x\"\r\nIf-None-Match: *\r\nRange: bytes=0-1\r\n\r\n",
     "404 Not Found", {NULL}, {"Content-Range"}},
    {"GET /dir" HOST "If-Match: \"x\"\r\nIf-None-Match: *\r\n\r\n", "301 Moved", {NULL}, {NULL}},
    {"GET /p26" HOST "If-Match: \"x\"\r\n\r\n", "412 Precondition Failed", {"\n412 "},
     {"ETag", "Last-Modified", "Connection"}},
    {"GET /m2" HOST "If-Match: \"x\"\r\n\r\n", "412 Precondition Failed", {NULL}, {NULL}},
    {"GET /m2" HOST "Range: bytes=0-1\r\n\r\n", "200 OK", {"piece 2"}, {"Accept-Ranges"}},
    {"GET /p26" HOST "Range: bytes=0-1\r\nRange: bytes=2-3\r\n\r\n", "200 OK", {ABC}, {NULL}},
    {"GET /p26" HOST "Range: bytes=0-1\r\nIf-Range: \"x\"\r\n\r\n", "200 OK", {ABC}, {NULL}},
    {"GET /p26" HOST "Range: bytes=0-1\r\nIf-Range: " WORLD_TAG("1a") "\r\n\r\n", "206 Partial",
     {"\r\n\r\nAB"}, {"ABC"}},
    {"GET /p0" HOST "Range: bytes=0-\r\n\r\n", "416 Range", {"Content-Range: bytes */0\r\n"},
     {NULL}},
    /* codings */
    {"GET /gz" HOST "Accept-Encoding: gzip\r\n\r\n", "200 OK",
     {"Content-Encoding: gzip\r\n", "Vary: Accept-Encoding\r\n", "-gz\"\r\n"}, {NULL}},
    {"GET /zst" HOST "Accept-Encoding: zstd\r\n\r\n", "200 OK",
     {"Content-Encoding: zstd\r\n", "Vary: Accept-Encoding\r\n", "-zst\"\r\n"}, {NULL}},
    {"GET /br" HOST "Accept-Encoding: br\r\nRange: bytes=0-0\r\n\r\n", "206 Partial",
     {"Content-Encoding: br\r\n", "Vary: Accept-Encoding\r\n", "-br\"\r\n"}, {NULL}},
    {"GET /br" HOST "If-None-Match: *\r\n\r\n", "304 Not Modified", {"Vary: ", "-br\"\r\n"},
     {"Content-Encoding", "\r\nContent-Type", "Content-Length"}},
    {"GET /vary" HOST "\r\n", "200 OK", {"Vary: Accept-Encoding\r\n"}, {"Content-Encoding"}},
    {"GET /p26" HOST "Accept-Encoding: gzip\r\n\r\n", "200 OK", {ABC}, {"Vary", "Encoding"}},
    {"GET /p26" HOST "Accept-Encoding: identity;q=0\r\n\r\n", "406 Not Acceptable", {NULL},
     {"ABC"}},
    {"GET /gz" HOST "Accept-Encoding: *;q=0, gzip\r\n\r\n", "200 OK", {NULL}, {NULL}},
    {"GET /m1" HOST "Accept-Encoding: *;q=0\r\n\r\n", "406 Not Acceptable", {NULL}, {"piece"}},
    {"GET /dir" HOST "Accept-Encoding: *;q=0\r\n\r\n", "301 Moved", {NULL}, {NULL}},
    /* impossible dates */
    {"GET /future" HOST "\r\n", "200 OK", {"Last-Modified: " WORLD_DATE "\r\n"}, {NULL}},
    {"GET /old" HOST "\r\n", "200 OK", {"ETag: \""}, {"Last-Modified"}},
    {"GET /old" HOST "If-Modified-Since: " WORLD_DATE "\r\n\r\n", "200 OK", {NULL}, {NULL}},
    /* a page for people */
    {"GET /missing" HOST "Accept: text/html\r\n\r\n", "404 Not Found",
     {"Content-Type: text/html; charset=utf-8\r\nVary: Accept\r\n", "<title>404 Not Found</title>",
      "<p>There is nothing here under this name.</p>\n<a", "</html>\n"}, {"http://", "missing"}},
    {"GET /<script>?<b>" HOST "Accept: text/html\r\n\r\n", "404 Not Found", {NULL},
     {"script", "<b>"}},
    {"GET /p26 HTTP/1.1\r\nAccept: text/html\r\n\r\n", "400 Bad Request", {"text/plain"}, {"<"}},
    /* redirects: query kept, escaped for a URL and for HTML, one slash before */
    {"GET /dir?a=b&c=%41\"'<>" HOST "\r\n", "301 Moved",
     {"Location: /dir/?a=b&c=%41%22'%3C%3E\r\n", "href=\"/dir/?a=b&amp;c=%41%22&#39;%3C%3E\""},
     {NULL}},
    {"GET /dir?" HOST "\r\n", "301 Moved", {"Location: /dir/?\r\n"}, {NULL}},
    {"GET //dir" HOST "\r\n", "301 Moved", {"Location: /dir/\r\n"}, {NULL}},
    {"GET /%5C/../dir" HOST "\r\n", "301 Moved", {"Location: /dir/\r\n"}, {NULL}},
    {"GET /a%20b%3C%22'%3E&%0D%0A%FF" HOST "\r\n", "301 Moved",
     {"Location: /a%20b%3C%22%27%3E%26%0D%0A%FF/\r\n"}, {NULL}},
    /* other refusals of a head */
    {"GET / HTTP/2.0\r\n\r\n", "505 HTTP Version", {"Connection: close\r\n"}, {NULL}},
    {"GET /p26" HOST "Expect: tea\r\n\r\n", "417 Expectation", {"Connection: close\r\n"}, {NULL}},
};

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *got = answer(rows[i].request, strlen(rows[i].request));
        size_t n = strlen(rows[i].status);

        if (strncmp(got, "HTTP/1.1 ", 9) != 0 || strncmp(got + 9, rows[i].status, n) != 0)
            fail_msg("%s:\n%s", rows[i].request, got);
        for (int j = 0; j < 4 && rows[i].has[j]; j++)
            if (!strstr(got, rows[i].has[j]))
                fail_msg("%s: no %s in\n%s", rows[i].request, rows[i].has[j], got);
        for (int j = 0; j < 4 && rows[i].lacks[j]; j++)
            if (strstr(got, rows[i].lacks[j]))
                fail_msg("%s: %s in\n%s", rows[i].request, rows[i].lacks[j], got);
        assert_int_equal(world.status, strtoul(rows[i].status, NULL, 10));
        finish();
    }
}

/* HEAD is answered with the head of GET, whatever the answer is (RFC 9110 9.3.2). */
static void test_head_is_get(void **state)
{
    char request[1024], *get;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strncmp(rows[i].request, "GET ", 4) != 0 || strstr(rows[i].request, "Range"))
            continue;
        get = strdup(answer(rows[i].request, strlen(rows[i].request)));
        finish();
        assert_non_null(get);
        *(strstr(get, "\r\n\r\n") + 4) = '\0';
        snprintf(request, sizeof(request), "HEAD%s", rows[i].request + 3);
        assert_string_equal(answer(request, strlen(request)), get);
        assert_int_equal(world.body_bytes, 0);
        finish();
        free(get);
    }
}

/* --- Several ranges --------------------------------------------------------------------------- */

static const char *number_after(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    assert_non_null(at);
    return at + strlen(name);
}

/* The boundary is taken from the head; the rest is written out here. */
static void check_parts(const char *range, const char *const *part, unsigned parts)
{
    char request[512], boundary[64], body[4096];
    const char *got, *at;
    size_t n = 0, len = 0;

    snprintf(request, sizeof(request), "GET /p26" HOST "Range: %s\r\n\r\n", range);
    got = answer(request, strlen(request));
    assert_true(strncmp(got, "HTTP/1.1 206 ", 13) == 0);
    at = number_after(got, "\r\nContent-Type: multipart/byteranges; boundary=");
    while (at[len] != '\r' && len < sizeof(boundary) - 1) {
        boundary[len] = at[len];
        len++;
    }
    boundary[len] = '\0';
    assert_in_range(len, 10, 70); /* RFC 2046 5.1.1 */
    for (unsigned i = 0; i < parts; i++)
        n += (size_t)snprintf(body + n, sizeof(body) - n, "%s--%s\r\nContent-Type: text/plain\r\n"
                              "Content-Range: bytes %s", i ? "\r\n" : "", boundary, part[i]);
    n += (size_t)snprintf(body + n, sizeof(body) - n, "\r\n--%s--\r\n", boundary);
    assert_string_equal(strstr(got, "\r\n\r\n") + 4, body);
    assert_int_equal(strtoul(number_after(got, "Content-Length: "), NULL, 10), n);
    assert_int_equal(world.body_bytes, n);
    at = strstr(got, "Content-Range:");
    assert_true(at > strstr(got, "\r\n\r\n")); /* none in the head (RFC 9110 15.3.7.2) */
    finish();
    assert_int_equal(fake->body_bytes, n);
}

static void test_parts(void **state)
{
    static const char *const two[] = {"0-0/26\r\n\r\nA", "25-25/26\r\n\r\nZ"};
    static const char *const back[] = {"20-25/26\r\n\r\nUVWXYZ", "0-1/26\r\n\r\nAB",
                                       "24-25/26\r\n\r\nYZ"};
    const char *many[RANGES_MAX];
    char text[RANGES_MAX][64], range[512] = "bytes=";

    (void)state;
    check_parts("bytes=0-0,-1", two, 2);
    fake->body_bytes = 0;
    check_parts("bytes=20-,0-1,99-,-2", back, 3);
    fake->body_bytes = 0;
    for (int i = 0; i < RANGES_MAX; i++) {
        snprintf(text[i], sizeof(text[i]), "%d-%d/26\r\n\r\n%c", i, i, 'A' + i);
        snprintf(range + strlen(range), sizeof(range) - strlen(range), "%d-%d,", i, i);
        many[i] = text[i];
    }
    check_parts(range, many, RANGES_MAX);
}

/* 5 GiB and ranges beyond 4 GiB: lengths are counted, nothing wraps. */
static void test_huge(void **state)
{
    static const char whole[] = "GET /huge" HOST "\r\n";
    static const char part[] = "GET /huge" HOST "Range: bytes=4294967296-\r\n\r\n";
    static const char parts[] = "GET /huge" HOST "Range: bytes=-1,0-4294967295\r\n\r\n";
    const char *got;

    (void)state;
    got = answer(whole, sizeof(whole) - 1);
    assert_non_null(strstr(got, "Content-Length: 5368709120\r\n"));
    assert_non_null(strstr(got, "\r\n\r\n[5368709120 bytes from 0]"));
    finish();
    assert_true(fake->body_bytes == GIB5);
    got = answer(part, sizeof(part) - 1);
    assert_non_null(strstr(got, "Content-Range: bytes 4294967296-5368709119/5368709120\r\n"));
    assert_non_null(strstr(got, "Content-Length: 1073741824\r\n"));
    assert_non_null(strstr(got, "\r\n\r\n[1073741824 bytes from 4294967296]"));
    finish();
    fake->body_bytes = 0;
    got = answer(parts, sizeof(parts) - 1);
    assert_non_null(strstr(got, "[4294967296 bytes from 0]"));
    assert_true(strtoull(number_after(got, "Content-Length: "), NULL, 10) == world.body_bytes);
    finish();
    assert_true(fake->body_bytes == world.body_bytes && world.body_bytes > 4294967297ull);
}

/* --- The host's settings ---------------------------------------------------------------------- */

static void test_server_name(void **state)
{
    static const char get[] = "GET /p0" HOST "\r\n";

    (void)state;
    fake->host.server = "rung/1.2";
    assert_non_null(strstr(answer(get, sizeof(get) - 1), "\r\nServer: rung/1.2\r\n"));
    finish();
}

static void test_closing(void **state)
{
    static const char get[] = "GET /p26" HOST "\r\nGET /p26" HOST "\r\n";
    const char *got;

    (void)state;
    fake->host.closing = true;
    got = answer(get, sizeof(get) - 1);
    assert_non_null(strstr(got, "\r\nConnection: close\r\n\r\n" ABC));
    assert_string_equal(strstr(got, ABC), ABC); /* and nothing behind it */
    assert_int_equal(world.answers, 1);
    finish();
}

static void test_page(void **state)
{
    static const char get[] = "GET /missing" HOST "If-None-Match: *\r\nRange: bytes=0-1\r\n\r\n";
    static const char head[] = "HEAD /missing" HOST "\r\n";
    static const char page[] =
        OPEN("404 Not Found") "Content-Type: text/x-page\r\nContent-Length: 26\r\n\r\n" ABC;

    (void)state;
    world.page = 404;
    assert_string_equal(answer(get, sizeof(get) - 1), page);
    assert_int_equal(world.body_bytes, 26);
    finish();
    assert_memory_equal(answer(head, sizeof(head) - 1), page, strlen(page) - 26);
    assert_int_equal(drive.len, strlen(page) - 26);
    finish();
    world.page_kind = SOURCE_MADE; /* no page that can be sent with a length: rung's own is sent */
    assert_non_null(strstr(answer(get, sizeof(get) - 1), "\r\n\r\n" TEXT_404));
    finish();
}

/* A Location may be as long as a path can make it; a longer one gives 414. */
static void test_long_redirect(void **state)
{
    static char request[TARGET_BYTES_MAX + 64];
    const char *got;
    size_t path, query, n;

    (void)state;
    for (int i = 0; i < 2; i++) {
        path = PATH_BYTES_MAX - 100;
        query = i ? TARGET_BYTES_MAX - path - 1 : 500;
        n = (size_t)snprintf(request, sizeof(request), "GET /");
        memset(request + n, '!', path - 1); /* each becomes %21 */
        n += path - 1;
        request[n++] = '?';
        memset(request + n, '"', query); /* each becomes %22 */
        n += query;
        n += (size_t)snprintf(request + n, sizeof(request) - n, HOST "\r\n");
        got = answer(request, n);
        assert_int_equal(world.status, i ? 414 : 301);
        if (i == 0) {
            got = number_after(got, "Location: ");
            assert_int_equal(strchr(got, '\r') - got, 1 + 3 * (path - 1) + 2 + 3 * query);
            assert_null(strstr(got, "<a "));
        }
        finish();
    }
}

/* The request to the site, and the receipt for the log. */
static void test_ask_and_receipt(void **state)
{
    static const char get[] = "GET /x/..//a%20b/?q=%20" HOST "Accept: text/plain\r\n\r\n";
    static const char head[] = "HEAD /m2/?format=json" HOST "\r\n";
    static const char bad[] = "BREW /x HTTP/1.1\r\nHost: h\r\nReferer: r\r\nbad line\r\n\r\n";

    (void)state;
    answer(get, sizeof(get) - 1);
    assert_string_equal(world.path, "/a b/");
    assert_string_equal(world.query, "q=%20");
    assert_string_equal(world.target, "/x/..//a%20b/?q=%20");
    assert_string_equal(world.method, "GET");
    assert_true(world.text && !world.json && !world.head);
    assert_int_equal(world.status, 404);
    finish();
    answer(head, sizeof(head) - 1);
    assert_true(world.json && world.head);
    assert_int_equal(world.body_bytes, 0);
    finish();
    answer(bad, sizeof(bad) - 1);
    assert_int_equal(world.status, 400);
    assert_string_equal(world.method, "BREW");
    assert_int_equal(world.fields, 0);
    finish();
    answer("GET /m2" HOST "\r\n", strlen("GET /m2" HOST "\r\n"));
    assert_true(world.body_bytes == ~0ull);
    finish();
}

static int setup(void **state)
{
    (void)state;
    fake = world_open();
    return 0;
}

/* Fields written earlier are the same as if written now. */
static int setup_ready(void **state)
{
    setup(state);
    world.ready = true;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(fake->n.complete, fake->n.answers); /* no test here cuts an answer off */
    fake_close(fake);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define READY(name) cmocka_unit_test_setup_teardown(name, setup_ready, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_exact), TEST(test_rows), READY(test_exact), READY(test_rows),
        TEST(test_head_is_get), TEST(test_parts), TEST(test_huge), TEST(test_server_name),
        TEST(test_closing), TEST(test_page), TEST(test_long_redirect), TEST(test_ask_and_receipt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
