/* SPDX-License-Identifier: MIT */
/* proto.c - HTTP on the connection machine: bodies of requests, 100 Continue, batches, waiting,
 * early ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "world.h"

#define HOST " HTTP/1.1\r\nHost: h\r\n"
#define GET_A "GET /p1" HOST "\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n"
#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

static struct fake *fake;
static struct drive drive;

/* The statuses of all answers in the output, including 100; bodies are skipped by their length. */
static unsigned statuses(unsigned *status, unsigned max)
{
    const char *at = drive.out, *end = drive.out + drive.len, *head_end, *length;
    unsigned n = 0;

    while (at < end) {
        assert_true(n < max);
        assert_true(strncmp(at, "HTTP/1.1 ", 9) == 0);
        status[n++] = (unsigned)strtoul(at + 9, NULL, 10);
        head_end = strstr(at, "\r\n\r\n");
        assert_non_null(head_end);
        length = strstr(at, "\r\nContent-Length: ");
        at = head_end + 4;
        if (length && length < head_end)
            at += strtoul(length + 18, NULL, 10);
    }
    return n;
}

/* request: the bytes sent before a GET; status: of the answers, ended by 0; keeps: the GET is
 * answered too. */
struct row {
    const char *request;
    unsigned status[4];
    bool keeps;
};

static void check(const struct row *row, size_t cut)
{
    unsigned got[8], n, want = 0;

    drive_open(&drive, fake);
    drive.cut = cut;
    drive_text(&drive, row->request);
    drive_text(&drive, GET_A);
    n = statuses(got, 8);
    while (want < 4 && row->status[want])
        want++;
    if (n != want + row->keeps)
        fail_msg("%s: %u answers\n%s", row->request, n, drive.out);
    for (unsigned i = 0; i < want; i++)
        if (got[i] != row->status[i])
            fail_msg("%s: %u\n%s", row->request, got[i], drive.out);
    if (row->keeps && (got[want] != 200 || drive.conn.want != CONN_RECV))
        fail_msg("%s: then %u", row->request, got[want]);
    if (!row->keeps && (drive.conn.want != CONN_LINGER || !strstr(drive.out, "Connection: close")))
        fail_msg("%s: stays open\n%s", row->request, drive.out);
    drive_end(&drive);
    assert_int_equal(drive.conn.want, CONN_CLOSE);
    drive_close(&drive);
}

static const struct row rows[] = {
    /* consumed, then answered */
    {"GET /p1" HOST "Content-Length: 5\r\n\r\n12345", {200}, true},
    {"POST /p1" HOST "Content-Length: 5\r\n\r\n12345", {405}, true},
    {"POST /p1" HOST "Content-Length: 0\r\n\r\n", {405}, true},
    {"BREW /p1" HOST "Content-Length: 36\r\n\r\nGET /a HTTP/1.1\r\nHost: localhost\r\n\r\n",
     {501}, true},
    {"OPTIONS *" HOST "Content-Length: 5\r\n\r\n12345", {200}, true},
    {"GET /missing" HOST CHUNKED "\r\n5\r\nhello\r\n0\r\n\r\n", {404}, true},
    {"GET /p1" HOST CHUNKED "\r\n0\r\n\r\n", {200}, true},
    {"GET /p1" HOST CHUNKED "\r\n5;x=y\r\nhello\r\n0;z\r\nA: b\r\n\r\n", {200}, true},
    {"GET /w1" HOST CHUNKED "\r\n5\r\nhello\r\n0\r\n\r\n", {200}, true},
    {"GET /w1" HOST "Content-Length: 3\r\n\r\nabc", {200}, true},
    {"GET /p1" HOST "Connection: close\r\nContent-Length: 3\r\n\r\nabc", {200}, false},
    {"GET /p1 HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc", {200}, false},
    /* the site's folder is gone, and may reappear */
    {"GET /ESTALE" HOST "\r\n", {503}, true},
    /* a path of OPTIONS is judged like that of GET */
    {"OPTIONS /%zz" HOST "\r\n", {400}, true},
    {"OPTIONS /../p1" HOST "\r\n", {404}, true},
    {"OPTIONS http://h" HOST "\r\n", {200}, true},
    /* a tunnel's bytes may follow: they are neither a body nor a request */
    {"CONNECT h:80" HOST "\r\n" GET_A, {405}, false},
    {"CONNECT h:80" HOST "Content-Length: 5\r\n\r\n", {405}, false},
    {"CONNECT h:80" HOST CHUNKED "Expect: 100-continue\r\n\r\n", {405}, false},
    /* requests that cannot be read to their end */
    {"POST /p1" HOST CHUNKED "\r\nx\r\n", {400}, false},
    {"GET /p1" HOST CHUNKED "\r\n5\r\nhelloX", {400}, false},
    {"GET /p1" HOST CHUNKED "\r\nffffffffffffffff\r\nhello", {413}, false},
    {"GET /p1" HOST CHUNKED "\r\n0\r\nbad trailer\r\n\r\n", {400}, false},
    {"HEAD /p1" HOST CHUNKED "\r\nx\r\n", {400}, false},
    {"GET /p1" HOST "Content-Length: x\r\n\r\n", {400}, false},
    /* 100 Continue (RFC 9110 10.1.1) */
    {"GET /p1" HOST "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n12345", {100, 200}, true},
    {"GET /p1" HOST "Expect: 100-Continue\r\n" CHUNKED "\r\n0\r\n\r\n", {100, 200}, true},
    {"GET /p1" HOST "Expect: 100-continue\r\n\r\n", {200}, true},
    {"GET /p1" HOST "Expect: 100-continue\r\nContent-Length: 0\r\n\r\n", {200}, true},
    {"GET /p1 HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\n"
     "Content-Length: 2\r\n\r\n12", {200}, true},
    {"POST /p1" HOST "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n", {405}, false},
    {"BREW /p1" HOST "Expect: 100-continue\r\n" CHUNKED "\r\n", {501}, false},
    {"GET /p1" HOST "Expect: 100-continue\r\nContent-Length: 1048577\r\n\r\n", {413}, false},
    {"GET /p1" HOST "Expect: 100-continue\r\n" CHUNKED "\r\nx", {100, 400}, false},
    {"GET /p1" HOST "Expect: tea\r\nContent-Length: 5\r\n\r\n", {417}, false},
    /* several at once, the last one refused: the correct ones before it are answered */
    {GET_A "\r\n" GET_A "GET /\r\n", {200, 200, 400}, false},
    {GET_A "BREW /" HOST "\r\nPOST /" HOST "Content-Length: 1\r\n\r\nx", {200, 501, 405}, true},
};

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check(&rows[i], 0);
}

/* A body of exactly the limit is accepted, one byte more is not, however it is framed and
 * cut. */
static void test_body_limit(void **state)
{
    static const size_t cuts[] = {0, 1, 777};
    char text[512], body[160];
    struct row row = {text, {0}, false};

    (void)state;
    fake->host.body_bytes_max = 100;
    memset(body, 'b', sizeof(body));
    for (int chunked = 0; chunked < 3; chunked++) {
        for (int n = 100; n <= 101; n++) {
            if (chunked == 2) /* two chunks */
                snprintf(text, sizeof(text), "GET /p1" HOST CHUNKED "\r\n40\r\n%.64s\r\n"
                         "%x\r\n%.*s\r\n0\r\n\r\n", body, n - 64, n - 64, body);
            else if (chunked)
                snprintf(text, sizeof(text), "GET /p1" HOST CHUNKED "\r\n%x\r\n%.*s\r\n0\r\n\r\n",
                         n, n, body);
            else
                snprintf(text, sizeof(text), "GET /p1" HOST "Content-Length: %d\r\n\r\n%.*s", n, n,
                         body);
            row.status[0] = n == 100 ? 200 : 413;
            row.keeps = n == 100;
            for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++)
                check(&row, cuts[i]);
        }
    }
}

/* 413 is sent as soon as the length is known; the client need not send the unwanted body. */
static void test_too_long_at_once(void **state)
{
    (void)state;
    drive_open(&drive, fake);
    drive_text(&drive, "PUT /p1" HOST "Content-Length: 9223372036854775807\r\n\r\n");
    assert_non_null(strstr(drive.out, "HTTP/1.1 413 Content Too Large\r\n"));
    assert_int_equal(drive.conn.want, CONN_LINGER);
    drive_close(&drive);
    for (unsigned n = 99; n <= 100; n++) { /* a chunk that is announced, behind one byte */
        char text[128];

        fake->host.body_bytes_max = 100;
        snprintf(text, sizeof(text), "PUT /p1" HOST CHUNKED "\r\n1\r\na\r\n%x\r\n", n);
        drive_open(&drive, fake);
        drive_text(&drive, text);
        assert_int_equal(memmem(drive.out, drive.len, "HTTP/1.1 413 ", 13) != NULL, n == 100);
        assert_int_equal(drive.conn.want, n == 100 ? CONN_LINGER : CONN_RECV);
        drive_close(&drive);
    }
}

/* 100 Continue is sent before the body has come, and the answer after it. */
static void test_continue_first(void **state)
{
    (void)state;
    drive_open(&drive, fake);
    drive_text(&drive, "GET /p5" HOST "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    assert_string_equal(drive.out, CONTINUE);
    assert_int_equal(world.answers, 0);
    assert_int_equal(drive.conn.want, CONN_RECV);
    drive_text(&drive, "ab");
    assert_string_equal(drive.out, CONTINUE);
    drive_text(&drive, "c");
    assert_non_null(strstr(drive.out, CONTINUE "HTTP/1.1 200 OK\r\n"));
    assert_int_equal(world.answers, 1);
    drive_close(&drive);
}

/* --- Batches -------------------------------------------------------------------------------- */

static void test_batch(void **state)
{
    static char requests[64 * 120];
    unsigned heads = 0;
    size_t n = 0;

    (void)state;
    for (int i = 0; i < 100; i++)
        n += (size_t)snprintf(requests + n, sizeof(requests) - n, "%s /%s" HOST "\r\n",
                              i % 5 ? "GET" : "HEAD", i % 3 ? "p0" : "missing");
    drive_open(&drive, fake);
    assert_int_equal(drive_feed(&drive, requests, n), n);
    for (const char *at = drive.out; (at = strstr(at, "\r\nServer: rung\r\n")); at++)
        heads++;
    assert_int_equal(heads, 100);
    drive_end(&drive);
    assert_int_equal(drive.conn.requests, 100);
    assert_int_equal(world.answers, 100);
    assert_true(drive.sends < 50); /* several answers per gather */
    drive_close(&drive);
}

/* One send takes all that fits: a head with the first pieces of its body, and its end. */
static void test_one_send(void **state)
{
    static const char *const targets[] = {"/p26", "/m3", "/missing"};
    char request[64];

    (void)state;
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        drive_open(&drive, fake);
        snprintf(request, sizeof(request), "GET %s" HOST "\r\n", targets[i]);
        drive_text(&drive, request);
        assert_int_equal(drive.sends, 1);
        assert_int_equal(drive.conn.want, CONN_RECV);
        drive_close(&drive);
    }
}

/* --- Waiting -------------------------------------------------------------------------------- */

/* Nothing is queued while the host has no answer; an earlier answer is sent first. */
static void test_wait(void **state)
{
    static const char requests[] = GET_A "GET /w3" HOST "\r\n" GET_A;

    (void)state;
    drive_open(&drive, fake);
    conn_feed(&drive.conn, requests, sizeof(requests) - 1, 1);
    assert_int_equal(drive.conn.want, CONN_SEND);
    assert_int_equal(world.answers, 1);
    drive_send(&drive);
    assert_int_equal(drive.conn.want, CONN_WAIT);
    assert_int_equal(world.answers, 1);
    assert_int_equal(drive.conn.requests, 1);
    drive_run(&drive);
    assert_int_equal(world.answers, 3);
    assert_int_equal(drive.conn.requests, 3);
    drive_end(&drive);
    drive_close(&drive);
}

static void test_gone_while_waiting(void **state)
{
    (void)state;
    drive_open(&drive, fake);
    conn_feed(&drive.conn, "GET /w3" HOST "Content-Length: 1\r\n\r\nx",
              sizeof("GET /w3" HOST "Content-Length: 1\r\n\r\nx") - 1, 1);
    assert_int_equal(drive.conn.want, CONN_WAIT);
    drive_close(&drive);
    assert_int_equal(fake->n.forgets, 1);
    assert_int_equal(world.answers, 0);
}

/* --- The end of the stream ------------------------------------------------------------------ */

static void test_ends(void **state)
{
    static const struct {
        const char *sent;
        unsigned status; /* 0: no answer */
        const char *target;
    } cases[] = {
        {"", 0, ""},
        {"\r\n", 0, ""}, /* an empty line after the last request */
        {"GET", 400, ""},
        {"GET /p1" HOST, 400, ""},
        {"GET /p1" HOST "Content-Length: 2\r\n\r\n1", 400, "/p1"},
        {"GET /p1" HOST "Content-Length: 2\r\n\r\n", 400, "/p1"},
        {"GET /p1" HOST CHUNKED "\r\n0\r\n\r", 400, "/p1"},
    };
    unsigned got[8];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        drive_open(&drive, fake);
        drive_text(&drive, cases[i].sent);
        assert_int_equal(drive.len, 0);
        drive_end(&drive);
        assert_int_equal(drive.conn.want, CONN_CLOSE);
        assert_int_equal(statuses(got, 8), cases[i].status != 0);
        if (cases[i].status) {
            assert_int_equal(got[0], cases[i].status);
            assert_string_equal(world.target, cases[i].target);
        }
        drive_close(&drive);
    }
}

/* --- The end of the connection in the middle of an answer ----------------------------------- */

/* The connection ends after a number of sends: whatever was being sent, everything is released,
 * every note is returned, and the last one is complete only if its last byte was sent. */
static void test_drop(void **state)
{
    static const char *const targets[] = {
        "/p5000", "/f5000", "/m200", "/m0", "/huge", "/missing", "/dir", "/w100",
        "/f5000" HOST "Range: bytes=0-99,200-299,400-499,600-699,800-\r\n",
        "/p26" HOST "Range: bytes=0-1,3-4\r\n",
        "/p26" HOST "Range: bytes=0-1,3-4,6-\r\n", /* the last one is queued, the end has no room */
    };
    char request[256];
    bool done;

    (void)state;
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        snprintf(request, sizeof(request), "GET %s%s\r\n", targets[i],
                 strstr(targets[i], HOST) ? "" : HOST);
        done = false;
        for (unsigned sends = 0; sends < 60 && !done; sends++) {
            unsigned complete = fake->n.complete, answers = fake->n.answers;

            drive_open(&drive, fake);
            drive.sip = 100;
            conn_feed(&drive.conn, request, strlen(request), 1);
            if (drive.conn.want == CONN_WAIT) {
                fake->job_done = true;
                conn_resume(&drive.conn, 2);
            }
            for (unsigned k = 0; k < sends && drive.conn.want == CONN_SEND; k++)
                drive_send(&drive);
            done = drive.conn.want == CONN_RECV;
            conn_abort(&drive.conn);
            drive_close(&drive);
            fake_balance(fake);
            assert_int_equal(fake->n.answers, answers + 1);
            assert_int_equal(fake->n.complete, complete + done);
        }
    }
}

/* Without memory no answer can be sent: the connection ends, and nothing is leaked. */
static void test_no_memory(void **state)
{
    static const char request[] =
        "GET /m50" HOST "Content-Length: 30\r\n\r\n123456789012345678901234567890";

    (void)state;
    for (unsigned i = 1; i <= 4; i++) {
        drive_open(&drive, fake);
        fake->fail_alloc = fake->n.allocs + i;
        drive.cut = 10;
        drive_text(&drive, request);
        drive_text(&drive, GET_A);
        drive_end(&drive);
        assert_true(fake->n.allocs >= fake->fail_alloc); /* the failure did happen */
        assert_int_equal(drive.conn.want, CONN_CLOSE);
        drive_close(&drive);
        fake_balance(fake);
    }
    /* A head cut short, and no memory for an answer. */
    drive_open(&drive, fake);
    drive_text(&drive, "GET");
    fake->fail_alloc = fake->n.allocs + 1;
    drive_end(&drive);
    assert_int_equal(drive.conn.want, CONN_CLOSE);
    assert_int_equal(drive.len, 0);
    drive_close(&drive);
}

static int setup(void **state)
{
    (void)state;
    fake = world_open();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fake_close(fake);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_rows), TEST(test_body_limit), TEST(test_too_long_at_once),
        TEST(test_continue_first), TEST(test_batch), TEST(test_one_send), TEST(test_wait),
        TEST(test_gone_while_waiting), TEST(test_ends), TEST(test_drop), TEST(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
