/* SPDX-License-Identifier: MIT */
/* store.c - bodies that the host keeps: asked first, given in pieces, waited for, dropped once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "drive.h"

#define HOST " HTTP/1.1\r\nHost: h\r\n"
#define GET_A "GET /p1" HOST "\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n"
#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

enum { KEPT_MAX = 1 << 16 };

static struct fake *fake;
static struct drive drive;

/* A host that keeps bodies.  /put is kept; /form too, and gets 303; /slow waits before it is.
 * /put-no is refused, /put-long with 413, /put-gone with an errno; of /put-full the sixth byte is,
 * of /put-last the end.  All others: 405. */
static struct {
    bool waits;      /* every question is put off once */
    size_t most;     /* bytes taken at a time; 0: all */
    unsigned begun, done, dropped;
    bool asked;      /* /slow was put off */
    char path[64];
    char kept[KEPT_MAX];
    size_t len;
} store;

/* Whether the question is put off: it is, until the connection is resumed. */
static bool puts_off(struct fake *f, const struct conn *c)
{
    if (f->job) {
        must(f->job == c);
        if (!f->job_done)
            return true;
        f->job = NULL;
        f->n.jobs++;
        return false;
    }
    f->job = c;
    f->job_done = false;
    f->n.jobs++;
    return true;
}

static int begin(void *ctx, const struct http_ask *ask, void **into)
{
    must(ask->from && ask->conn);
    if (slice_is(ask->path, "/put-no"))
        return -409;
    if (slice_is(ask->path, "/put-long"))
        return -413;
    if (slice_is(ask->path, "/put-gone"))
        return -ENOENT;
    if (slice_is(ask->path, "/slow") && puts_off(ctx, ask->conn))
        return -EINPROGRESS;
    if (ask->path.len < 4 || (memcmp(ask->path.ptr, "/put", 4) && !slice_is(ask->path, "/form") &&
                              !slice_is(ask->path, "/slow")))
        return -405;
    must(ask->path.len < sizeof(store.path));
    memcpy(store.path, ask->path.ptr, ask->path.len);
    store.path[ask->path.len] = '\0';
    store.len = 0;
    store.begun++;
    *into = &store;
    return 0;
}

static long put(void *ctx, const struct conn *c, void *into, struct slice bytes)
{
    size_t n = store.most && store.most < bytes.len ? store.most : bytes.len;

    must(into == &store && bytes.len && store.len + n <= KEPT_MAX);
    if (store.waits && puts_off(ctx, c))
        return -EINPROGRESS;
    if (strcmp(store.path, "/put-full") == 0 && store.len + n > 5)
        return -507;
    memcpy(store.kept + store.len, bytes.ptr, n);
    store.len += n;
    return (long)n;
}

static int done(void *ctx, const struct conn *c, void *into, struct http_stored *stored)
{
    must(into == &store);
    if (store.waits && puts_off(ctx, c))
        return -EINPROGRESS;
    store.done++;
    if (strcmp(store.path, "/put-last") == 0)
        return -409;
    stored->status = strcmp(store.path, "/form") ? 201 : 303;
    stored->location = (struct slice){store.path, strlen(store.path)};
    return 0;
}

static void drop(void *ctx, const struct conn *c, void *into)
{
    struct fake *f = ctx;

    (void)c;
    must(into == &store && !f->job);
    store.dropped++;
    must(store.dropped == store.begun);
}

static const char *allow(void *ctx, const struct conn *c, const struct http_head *head)
{
    (void)ctx;
    (void)c;
    return slice_is(head->path, "/put") ? "GET, HEAD, OPTIONS, PUT" : "GET, HEAD, OPTIONS";
}

static const struct http_store ops = {begin, put, done, drop, allow};

static int setup(void **state)
{
    (void)state;
    fake = fake_open();
    fake->host.store = &ops;
    fake->host.body_bytes_max = 64;
    memset(&store, 0, sizeof(store));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    must(store.begun == store.dropped);
    fake_close(fake);
    return 0;
}

/* --- Requests and answers --------------------------------------------------------------------- */

#define LONG_BODY "0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz"

static const struct row {
    const char *request, *status, *kept; /* kept NULL: nothing is begun */
    bool keeps;                          /* the GET behind it is answered, too */
} rows[] = {
    {"PUT /put" HOST "Content-Length: 5\r\n\r\nhello", "201", "hello", true},
    {"PUT /put" HOST CHUNKED "\r\n5\r\nhello\r\n3;a=b\r\n, y\r\n0\r\nA: b\r\n\r\n", "201",
     "hello, y", true},
    {"POST /form" HOST "Content-Length: 5\r\n\r\nhello", "303", "hello", true},
    {"PUT /put" HOST "Content-Length: 0\r\n\r\n", "201", "", true},
    {"PUT /put" HOST "\r\n", "201", "", true},
    {"PUT /put" HOST CHUNKED "\r\n0\r\n\r\n", "201", "", true},
    {"PUT /put" HOST "Connection: close\r\nContent-Length: 2\r\n\r\nhi", "201", "hi", false},
    {"PUT /put HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi", "201", "hi", false},
    {"PUT /slow" HOST "Content-Length: 5\r\n\r\nhello", "201", "hello", true},
    /* longer than a body that is thrown away may be */
    {"PUT /put" HOST "Content-Length: 72\r\n\r\n" LONG_BODY, "201", LONG_BODY, true},
    {"PUT /put" HOST CHUNKED "\r\n48\r\n" LONG_BODY "\r\n0\r\n\r\n", "201", LONG_BODY, true},
    /* refused with the head; the body is read if it is short */
    {"PUT /put-no" HOST "Content-Length: 5\r\n\r\nhello", "409", NULL, true},
    {"PUT /put-no" HOST CHUNKED "\r\n5\r\nhello\r\n0\r\n\r\n", "409", NULL, true},
    {"PUT /put-no" HOST "\r\n", "409", NULL, true},
    {"PUT /put-gone" HOST "Content-Length: 5\r\n\r\nhello", "404", NULL, true},
    {"PUT /p1" HOST "Content-Length: 5\r\n\r\nhello", "405", NULL, true},
    {"PUT /%zz" HOST "Content-Length: 5\r\n\r\nhello", "400", NULL, true},
    {"PUT /put-no" HOST "Content-Length: 72\r\n\r\n" LONG_BODY, "409", NULL, false},
    {"PUT /put-no" HOST CHUNKED "\r\n48\r\n" LONG_BODY "\r\n0\r\n\r\n", "409", NULL, false},
    {"PUT /put-no" HOST CHUNKED "\r\nx\r\n", "409", NULL, false},
    {"PUT /put-long" HOST "Content-Length: 5\r\n\r\nhello", "413", NULL, false},
    {"PUT /put-no" HOST "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n", "409", NULL, false},
    /* refused in the middle, and at the end */
    {"PUT /put-full" HOST "Content-Length: 12\r\n\r\nhello, world", "507", NULL, false},
    {"PUT /put-last" HOST "Content-Length: 5\r\n\r\nhello", "409", "hello", true},
    {"PUT /put" HOST CHUNKED "\r\n5\r\nhelloX", "400", "hello", false},
    /* what is not kept is as it was */
    {"BREW /put" HOST "Content-Length: 5\r\n\r\nhello", "501", NULL, true},
    {"DELETE /put" HOST "Content-Length: 5\r\n\r\nhello", "405", NULL, true},
    {"GET /p1" HOST "Content-Length: 5\r\n\r\nhello", "200", NULL, true},
};

static unsigned answers(void)
{
    unsigned n = 0;

    for (const char *at = drive.out; (at = strstr(at, "HTTP/1.1 ")); at++)
        n++;
    return n;
}

static void check(const struct row *row, size_t cut)
{
    unsigned begun = store.begun;

    drive_open(&drive, fake);
    drive.cut = cut;
    drive_text(&drive, row->request);
    drive_text(&drive, GET_A);
    if (memcmp(drive.out, "HTTP/1.1 ", 9) || memcmp(drive.out + 9, row->status, 3))
        fail_msg("%s cut %zu: %s", row->request, cut, drive.out);
    if (answers() != 1u + row->keeps || (drive.conn.want == CONN_RECV) != row->keeps)
        fail_msg("%s cut %zu: %s", row->request, cut, drive.out);
    assert_int_equal(store.begun, store.dropped);
    if (row->kept) {
        assert_int_equal(store.begun, begun + 1);
        assert_int_equal(store.len, strlen(row->kept));
        assert_memory_equal(store.kept, row->kept, store.len);
    }
    drive_end(&drive);
    assert_int_equal(drive.conn.want, CONN_CLOSE);
    drive_close(&drive);
}

/* The result depends neither on cuts nor on how much the host takes, nor on whether it waits. */
static void test_rows(void **state)
{
    static const size_t most[] = {0, 1, 3};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (unsigned way = 0; way < 6; way++) {
            store.most = most[way % 3];
            store.waits = way >= 3;
            for (size_t cut = 0; cut < 40; cut++)
                check(&rows[i], cut);
        }
    }
}

static void test_location(void **state)
{
    (void)state;
    drive_open(&drive, fake);
    drive_text(&drive, "PUT /put" HOST "Content-Length: 1\r\n\r\nx");
    assert_non_null(strstr(drive.out, "\r\nLocation: /put\r\n"));
    drive_text(&drive, "OPTIONS /put" HOST "\r\n");
    assert_non_null(strstr(drive.out, "\r\nAllow: GET, HEAD, OPTIONS, PUT\r\n"));
    drive_text(&drive, "PUT /p1" HOST "\r\n");
    assert_non_null(strstr(drive.out, "\r\nAllow: GET, HEAD, OPTIONS\r\n"));
    drive_close(&drive);
}

/* The host is asked before the client is, and is given what comes at once. */
static void test_continue(void **state)
{
    (void)state;
    drive_open(&drive, fake);
    drive_text(&drive, "PUT /put" HOST "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    assert_string_equal(drive.out, CONTINUE);
    assert_int_equal(store.begun, 1);
    drive_text(&drive, "ab");
    assert_int_equal(store.len, 2);
    drive_text(&drive, "c");
    assert_non_null(strstr(drive.out, CONTINUE "HTTP/1.1 201 Created\r\n"));
    drive_close(&drive);
}

/* --- Early ends ------------------------------------------------------------------------------- */

/* The client leaves, or stops sending, after any number of bytes, with the host waiting or not. */
static void test_left(void **state)
{
    static const char request[] = "PUT /put" HOST CHUNKED "\r\n5\r\nhello\r\n0\r\n\r\n";

    (void)state;
    for (unsigned way = 0; way < 4; way++) {
        for (size_t n = 0; n < sizeof(request); n++) {
            store.waits = way & 1;
            drive_open(&drive, fake);
            conn_feed(&drive.conn, request, n ? n : 1, 1);
            if (way & 2 && drive.conn.want == CONN_RECV)
                drive_end(&drive);
            drive_close(&drive);
            assert_int_equal(store.begun, store.dropped);
        }
    }
    assert_int_equal(store.done, 2); /* the whole request, where nothing waited */
}

/* A slow body meets the limits of every body: progress, or the end. */
static void test_slow(void **state)
{
    (void)state;
    drive_open(&drive, fake);
    drive_text(&drive, "PUT /put" HOST "Content-Length: 5000\r\n\r\n");
    for (unsigned i = 0; i < 1023; i++)
        drive_text(&drive, "x");
    assert_true(conn_overdue(&drive.conn, 0, drive.conn.deadline_ms));
    drive_close(&drive);
    drive_open(&drive, fake);
    drive_text(&drive, "PUT /put" HOST "Content-Length: 5000\r\n\r\n");
    for (unsigned i = 0; i < 1024; i++)
        drive_text(&drive, "x");
    assert_false(conn_overdue(&drive.conn, 0, drive.conn.deadline_ms));
    drive_close(&drive);
}

/* Without the hook a PUT is what it was. */
static void test_none(void **state)
{
    (void)state;
    fake->host.store = NULL;
    drive_open(&drive, fake);
    drive_text(&drive, "PUT /put" HOST "Content-Length: 5\r\n\r\nhello" GET_A);
    assert_non_null(strstr(drive.out, "HTTP/1.1 405 "));
    assert_non_null(strstr(drive.out, "\r\nAllow: GET, HEAD, OPTIONS\r\n"));
    assert_int_equal(answers(), 2);
    drive_close(&drive);
    assert_int_equal(store.begun, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_location, setup, teardown),
        cmocka_unit_test_setup_teardown(test_continue, setup, teardown),
        cmocka_unit_test_setup_teardown(test_left, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slow, setup, teardown),
        cmocka_unit_test_setup_teardown(test_none, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
