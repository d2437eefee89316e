/* SPDX-License-Identifier: MIT */
/* trailer.c - which clients take a trailer, and with which digest; what is written, and what never
 * is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "world.h"

#define HOST " HTTP/1.1\r\nHost: h\r\n"
#define TE "TE: trailers\r\nConnection: TE\r\n"
#define WANT "Want-Repr-Digest: "

/* --- The request ------------------------------------------------------------------------------ */

static struct fake *fake;
static struct drive drive;

/* The answer to one request. */
static const char *answer(const char *line, const char *fields)
{
    char text[1024];

    snprintf(text, sizeof(text), "%s%s\r\n", line, fields);
    fake = world_open();
    drive_open(&drive, fake);
    drive_text(&drive, text);
    return drive.out;
}

static void end(void)
{
    drive_end(&drive);
    drive_close(&drive);
    fake_close(fake);
}

struct row {
    const char *fields;
    enum http_digest digest;
};

/* RFC 9110 10.1.4, 6.5.1 and RFC 9530 4. */
static const struct row rows[] = {
    {"", DIGEST_NONE},
    {TE, DIGEST_SHA256},
    {"te: TRAILERS\r\nconnection: te\r\n", DIGEST_SHA256},
    {"TE: gzip;q=0.5, trailers\r\nConnection: keep-alive, TE\r\n", DIGEST_SHA256},
    {"TE: gzip\r\nTE: trailers\r\nConnection: keep-alive\r\nConnection: TE\r\n", DIGEST_SHA256},
    {"TE:  ,, trailers ,\r\nConnection: close, TE\r\n", DIGEST_SHA256},
    /* Not for this hop, or no trailers. */
    {"TE: trailers\r\n", DIGEST_NONE},
    {"Connection: TE\r\n", DIGEST_NONE},
    {"TE: trailers\r\nConnection: keep-alive\r\n", DIGEST_NONE},
    {"TE: trailers\r\nConnection: TE2, T E, xTE\r\n", DIGEST_NONE},
    {"TE: gzip\r\nConnection: TE\r\n", DIGEST_NONE},
    {"TE: \r\nConnection: TE\r\n", DIGEST_NONE},
    {"TE: trailer, trailersx, \"trailers\"\r\nConnection: TE\r\n", DIGEST_NONE},
    {"TE: trailers;q=0\r\nConnection: TE\r\n", DIGEST_NONE},
    {"TE: trailers;q=0.000\r\nConnection: TE\r\n", DIGEST_NONE},
    {WANT "sha-256=10\r\n", DIGEST_NONE},
    /* What is wanted. */
    {TE WANT "sha-256=1\r\n", DIGEST_SHA256},
    {TE WANT "sha-256=10\r\n", DIGEST_SHA256},
    {TE WANT "sha-512=1\r\n", DIGEST_SHA512},
    {TE WANT "sha-512=3, sha-256=10, unixsum=0\r\n", DIGEST_SHA256},
    {TE WANT "sha-256=3, sha-512=10\r\n", DIGEST_SHA512},
    {TE WANT "sha-512=5, sha-256=5\r\n", DIGEST_SHA256},
    {TE WANT "sha-256=0, sha-512=1\r\n", DIGEST_SHA512},
    {TE WANT "sha-256=2\r\n" WANT "sha-512=3\r\n", DIGEST_SHA512},
    {TE WANT "sha-256=1;x=\"a,b\", md5=10\r\n", DIGEST_SHA256},
    {TE WANT "sha-256=5, sha-256=0\r\n", DIGEST_NONE}, /* the last one counts */
    {TE WANT "sha-256=000000000000010\r\n", DIGEST_SHA256},
    /* None, or none that can be made. */
    {TE WANT "sha-256=0\r\n", DIGEST_NONE},
    {TE WANT "sha-512=0, sha-256=0\r\n", DIGEST_NONE},
    {TE WANT "md5=10, unixsum=1\r\n", DIGEST_NONE},
    {TE WANT "\r\n", DIGEST_NONE},
    /* Malformed members say nothing. */
    {TE WANT "sha-256\r\n", DIGEST_NONE},
    {TE WANT "sha-256=\r\n", DIGEST_NONE},
    {TE WANT "sha-256=11\r\n", DIGEST_NONE},
    {TE WANT "sha-256=-1\r\n", DIGEST_NONE},
    {TE WANT "sha-256=1.5\r\n", DIGEST_NONE},
    {TE WANT "sha-256=1x\r\n", DIGEST_NONE},
    {TE WANT "sha-256 =1\r\n", DIGEST_NONE},
    {TE WANT "sha-256= 1\r\n", DIGEST_NONE},
    {TE WANT "SHA-256=1\r\n", DIGEST_NONE},
    {TE WANT "xsha-256=1\r\n", DIGEST_NONE},
    {TE WANT "sha-256=0000000000000001\r\n", DIGEST_NONE}, /* 16 digits */
    {TE WANT "sha-256=99999999999999\r\n", DIGEST_NONE},
    {TE WANT "sha-256=7, sha-256=x\r\n", DIGEST_SHA256},
};

static void test_wishes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool takes = rows[i].digest != DIGEST_NONE;
        const char *out = answer("GET /m2/" HOST, rows[i].fields);

        if (world.digest != rows[i].digest)
            fail_msg("%s: digest %d", rows[i].fields, world.digest);
        assert_int_equal(strstr(out, "\r\nTrailer: X-Made\r\n") != NULL, takes);
        assert_string_equal(strstr(out, "\r\n0\r\n"), takes ? "\r\n0\r\nX-Made: 2 pieces\r\n\r\n"
                                                            : "\r\n0\r\n\r\n");
        end();
    }
}

/* Only what is made may have one: its path ends with a slash. */
static void test_files(void **state)
{
    static const char *const paths[] = {"GET /p26" HOST, "GET /m2" HOST, "GET /f70" HOST,
                                        "GET /d" HOST, "GET /missing/" HOST, "OPTIONS /" HOST};

    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        assert_null(strstr(answer(paths[i], TE), "Trailer"));
        end();
    }
}

/* --- The answer ------------------------------------------------------------------------------- */

/* HEAD has what GET has (RFC 9110 9.3.2). */
static void test_head(void **state)
{
    char head[1024];
    const char *out = answer("GET /m2/" HOST, TE);
    size_t n = (size_t)(strstr(out, "\r\n\r\n") + 4 - out);

    (void)state;
    assert_in_range(n, 1, sizeof(head) - 1);
    memcpy(head, out, n);
    head[n] = '\0';
    end();
    assert_string_equal(answer("HEAD /m2/" HOST, TE), head);
    end();
    assert_non_null(strstr(head, "\r\nTrailer: X-Made\r\n"));
}

/* HTTP/1.0 has neither chunks nor trailers, whatever the client says. */
static void test_1_0(void **state)
{
    static const char *const lines[] = {"GET /m2/ HTTP/1.0\r\n", "HEAD /m2/ HTTP/1.0\r\n"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const char *out = answer(lines[i], TE);

        assert_int_equal(world.digest, DIGEST_NONE);
        assert_null(strstr(out, "X-Made"));
        assert_string_equal(strstr(out, "\r\n\r\n") + 4, i ? "" : "piece 2\npiece 1\n");
        end();
    }
}

/* A host that gives a trailer to a client that takes none: it is not written without chunks. */
static int find_with_trailer(void *site, const struct http_ask *ask, struct source **source)
{
    (void)ask;
    *source = fake_source(site, 'm', 1);
    fake_trailer(*source);
    return 0;
}

static void test_host_that_insists(void **state)
{
    (void)state;
    fake = world_open();
    fake->host.find = find_with_trailer;
    drive_open(&drive, fake);
    drive_text(&drive, "GET / HTTP/1.0\r\n\r\n");
    assert_null(strstr(drive.out, "X-Made"));
    end();
}

/* A body that cannot be finished ends the connection, and has no trailer. */
static size_t next_fails(struct source *source, char *buf, size_t cap)
{
    size_t n = fake_next(source, buf, cap);

    return n ? n : SOURCE_FAILED;
}

static int find_failing(void *site, const struct http_ask *ask, struct source **source)
{
    int err = fake_find(site, ask, source);

    if (!err)
        (*source)->next = next_fails;
    return err;
}

static void test_failed(void **state)
{
    static const char request[] = "GET /m3/" HOST TE "\r\n";

    (void)state;
    fake = world_open();
    fake->host.find = find_failing;
    drive_open(&drive, fake);
    drive_text(&drive, request);
    assert_int_equal(drive.conn.want, CONN_CLOSE);
    assert_true(conn_unfinished(&drive.conn));
    assert_null(strstr(drive.out, "\r\n0\r\n"));
    assert_null(strstr(drive.out, "X-Made:"));
    drive_close(&drive);
    fake_close(fake);
}

/* Requests and answers cut at every byte. */
/* shows H04 */
static void test_cut_at_every_byte(void **state)
{
    static const char request[] = "GET /m3/" HOST TE "\r\nHEAD /m2/" HOST TE "\r\nGET /m0/" HOST TE
                                  "\r\nGET /m1/" HOST "\r\nGET /m1/" HOST TE WANT "md5=1\r\n\r\n";
    char *whole;

    (void)state;
    whole = strdup(answer(request, ""));
    must(whole);
    assert_non_null(strstr(whole, "piece 1\n\r\n0\r\nX-Made: 3 pieces\r\n\r\nHTTP/1.1 200"));
    assert_non_null(strstr(whole, "\r\n\r\n0\r\nX-Made: 0 pieces\r\n\r\nHTTP/1.1 200"));
    end();
    for (size_t first = 1; first < sizeof(request) - 1; first++) {
        fake = world_open();
        drive_open(&drive, fake);
        must(drive_feed(&drive, request, first) == first);
        drive_text(&drive, request + first);
        assert_string_equal(drive.out, whole);
        end();
    }
    for (size_t sip = 1; sip < strlen(whole); sip++) {
        fake = world_open();
        drive_open(&drive, fake);
        drive.sip = sip;
        drive_text(&drive, request);
        assert_string_equal(drive.out, whole);
        end();
    }
    free(whole);
}

/* The bytes of the trailer count as body. */
static void test_counted(void **state)
{
    const char *out = answer("GET /m1/" HOST, TE), *body = strstr(out, "\r\n\r\n") + 4;

    (void)state;
    assert_string_equal(body, "8\r\npiece 1\n\r\n0\r\nX-Made: 1 pieces\r\n\r\n");
    assert_int_equal(fake->body_bytes, strlen(body));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wishes),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_1_0),
        cmocka_unit_test(test_host_that_insists),
        cmocka_unit_test(test_failed),
        cmocka_unit_test(test_cut_at_every_byte),
        cmocka_unit_test(test_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
