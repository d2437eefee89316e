/* SPDX-License-Identifier: MIT */
/* made.c - bodies made piece by piece: chunks of every size, decoded by the strict decoder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "world.h"

#define HOST " HTTP/1.1\r\nHost: h\r\n"

/* Sizes around every number of digits, and the largest. */
static const size_t sizes[] = {1, 15, 16, 17, 255, 256, 257, 4095, 4096, 4097, CHUNK_BYTES_MAX - 1,
                               CHUNK_BYTES_MAX};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static size_t from, left; /* the pieces: sizes[from..], `left` more to come */
static size_t made;       /* bytes so far */
static size_t later;      /* how often SOURCE_LATER is returned before each piece */
static size_t said;       /* how often it was returned before this piece */
static bool fails;        /* after the last piece next() returns SOURCE_FAILED */

static size_t next(struct source *source, char *buf, size_t cap)
{
    size_t n;

    (void)source;
    must(cap >= CHUNK_BYTES_MAX);
    if (said++ < later)
        return SOURCE_LATER;
    said = 0;
    if (!left)
        return fails ? SOURCE_FAILED : 0;
    left--;
    n = sizes[from++ % SIZES];
    for (size_t i = 0; i < n; i++)
        buf[i] = fake_byte(made + i);
    made += n;
    return n;
}

static int find(void *site, const struct http_ask *ask, struct source **source)
{
    (void)ask;
    *source = fake_source(site, 'm', 0);
    (*source)->next = next;
    return 0;
}

/* Check the bytes of the body, chunked or plain, to its very end. */
static void check_body(const char *bytes, size_t n, bool chunked)
{
    struct http_body body;
    struct slice data;
    size_t at = 0, got = 0;
    long used;

    http_body_init(&body, chunked ? FRAMING_CHUNKED : FRAMING_CLOSE, 0);
    while (at < n && !http_body_done(&body)) {
        used = http_body_next(&body, bytes + at, n - at, &data);
        assert_true(used > 0);
        at += (size_t)used;
        for (size_t i = 0; i < data.len; i++)
            assert_int_equal(data.ptr[i], fake_byte(got + i));
        got += data.len;
    }
    assert_int_equal(at, n);
    assert_int_equal(got, made);
    assert_true(!chunked || http_body_done(&body));
}

static void check(size_t first, size_t pieces, bool chunked)
{
    struct fake *fake = world_open();
    struct drive drive;
    const char *body;

    from = first;
    left = pieces;
    made = 0;
    fake->host.find = find;
    drive_open(&drive, fake);
    drive_text(&drive, chunked ? "GET /" HOST "\r\n" : "GET / HTTP/1.0\r\n\r\n");
    assert_int_equal(drive.conn.want, chunked ? CONN_RECV : CONN_LINGER);
    body = strstr(drive.out, "\r\n\r\n");
    assert_non_null(body);
    body += 4;
    check_body(body, drive.len - (size_t)(body - drive.out), chunked);
    if (chunked && pieces == 1) { /* the shortest possible size line */
        char line[16];
        int n = snprintf(line, sizeof(line), "%zx\r\n", sizes[first]);

        assert_memory_equal(body, line, (size_t)n);
    }
    assert_int_equal(fake->body_bytes, drive.len - (size_t)(body - drive.out));
    drive_end(&drive);
    drive_close(&drive);
    fake_close(fake);
}

/* shows K20 */
static void test_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZES; i++)
        for (size_t pieces = 0; pieces < 2 * SIZES; pieces++)
            check(i, pieces, true);
}

static void test_until_close(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZES; i++)
        check(i, 2 * SIZES, false);
}

/* Send all pending output; return what the connection wants then. */
static enum conn_want sent(struct drive *d)
{
    while (d->conn.want == CONN_SEND)
        drive_send(d);
    return (enum conn_want)d->conn.want;
}

/* Finished pieces are sent before the connection waits, and the next request waits with it. */
static void test_later(void **state)
{
    static const char two[] = "GET /" HOST "\r\nGET /" HOST "\r\n";

    (void)state;
    for (later = 1; later < 4; later++) {
        struct fake *fake = world_open();
        struct drive d;
        unsigned waits = 0;

        from = made = said = 0;
        left = 3;
        fake->host.find = find;
        drive_open(&d, fake);
        conn_feed(&d.conn, two, sizeof(two) - 1, 1);
        drive_send(&d);
        assert_string_equal(strstr(d.out, "\r\n\r\n"), "\r\n\r\n"); /* only the head */
        for (; sent(&d) == CONN_WAIT; waits++)
            conn_resume(&d.conn, 2);
        assert_int_equal(d.conn.want, CONN_RECV);
        /* Before each piece, and before the end, the first SOURCE_LATER only empties the send
         * queue.  The second body has no pieces. */
        assert_int_equal(waits, 5 * (later - 1));
        drive_end(&d);
        drive_close(&d);
        fake_close(fake);
    }
    later = 0;
}

/* The client sees that the body is cut off; the log records it too. */
static void test_failed(void **state)
{
    (void)state;
    fails = true;
    for (later = 0; later < 3; later++) {
        for (size_t pieces = 0; pieces < 3; pieces++) {
            struct fake *fake = world_open();
            struct drive d;

            from = made = said = 0;
            left = pieces;
            fake->host.find = find;
            drive_open(&d, fake);
            conn_feed(&d.conn, "GET /" HOST "\r\n", sizeof("GET /" HOST "\r\n") - 1, 1);
            while (sent(&d) == CONN_WAIT)
                conn_resume(&d.conn, 2);
            assert_int_equal(d.conn.want, CONN_CLOSE);
            assert_true(conn_unfinished(&d.conn));
            assert_true(!memmem(d.out, d.len, "\r\n0\r\n\r\n", 7));
            conn_fini(&d.conn);
            assert_int_equal(fake->n.complete, 0);
            free(d.out);
            fake_close(fake);
        }
    }
    later = 0;
    fails = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_until_close),
        cmocka_unit_test(test_later),
        cmocka_unit_test(test_failed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
