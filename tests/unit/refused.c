/* SPDX-License-Identifier: MIT */
/* refused.c - 429: of a request, by find() or admit(), and of a whole connection. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "../../core/http_inside.h"
#include "world.h"

#define HOST " HTTP/1.1\r\nHost: h\r\n\r\n"
#define STATUS "HTTP/1.1 429 Too Many Requests\r\n"

static struct fake *fake;
static struct drive drive;
static unsigned left, asked, unread; /* unread: admit() was asked about what is no request */

static bool admit(void *site, const struct conn *conn, const struct http_head *head)
{
    (void)site;
    (void)conn;
    asked++;
    unread += !head;
    return left && left--;
}

static int setup(void **state)
{
    (void)state;
    fake = world_open();
    fake->host.retry_s = 70;
    left = asked = unread = 0;
    drive_open(&drive, fake);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    drive_close(&drive);
    fake_balance(fake);
    fake_close(fake);
    return 0;
}

static bool says(const char *text)
{
    return strstr(drive.out, text) != NULL;
}

static void test_of_the_host(void **state)
{
    (void)state;
    drive_text(&drive, "GET /EDQUOT" HOST);
    assert_memory_equal(drive.out, STATUS, strlen(STATUS));
    assert_true(says("\r\nRetry-After: 70\r\n") && says("\n429 Too Many Requests: "));
    assert_false(says("Connection: close"));
    assert_int_equal(drive.conn.want, CONN_RECV);
    assert_int_equal(world.status, 429);
}

/* The host is asked for everything that it need not find, once, and for nothing that it finds. */
static void test_what_is_admitted(void **state)
{
    static const struct {
        const char *request, *status;
    } rows[] = {
        {"OPTIONS *" HOST, "HTTP/1.1 200"}, {"OPTIONS /p1" HOST, "HTTP/1.1 200"},
        {"OPTIONS /%00" HOST, "HTTP/1.1 400"}, {"DELETE /p1" HOST, "HTTP/1.1 405"},
        {"BREW /p1" HOST, "HTTP/1.1 501"}, {"GET /%00" HOST, "HTTP/1.1 400"},
        {"HEAD /../x" HOST, "HTTP/1.1 404"}};
    enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

    (void)state;
    fake->host.admit = admit;
    for (unsigned admitted = 0; admitted < 2; admitted++)
        for (unsigned i = 0; i < ROWS; i++) {
            left = admitted;
            drive.len = 0;
            drive_text(&drive, rows[i].request);
            if (strncmp(drive.out, admitted ? rows[i].status : STATUS, 12) != 0)
                fail_msg("%s: %s", rows[i].request, drive.out);
            assert_int_equal(drive.conn.want, CONN_RECV);
        }
    assert_int_equal(asked, 2 * ROWS);
    drive.len = 0;
    drive_text(&drive, "GET /p1" HOST "HEAD /none" HOST);
    assert_int_equal(asked, 2 * ROWS);
    assert_memory_equal(drive.out, "HTTP/1.1 200", 12);
}

/* ... and for what ends the connection, too: a body that is refused, and what is no request. */
static void test_what_is_admitted_last(void **state)
{
    static const struct {
        const char *request, *status;
        bool unread;
    } rows[] = {
        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999999\r\n\r\n", "HTTP/1.1 413", false},
        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n",
         "HTTP/1.1 405", false},
        {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
         "HTTP/1.1 413", false},
        {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nno\r\n", "HTTP/1.1 400",
         false},
        {"nonsense\r\n\r\n", "HTTP/1.1 400", true},
        {"GET / HTTP/9.0\r\n\r\n", "HTTP/1.1 505", true}};
    enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

    (void)state;
    fake->host.admit = admit;
    for (unsigned i = 0; i < 2 * ROWS; i++) {
        bool admitted = i >= ROWS;

        left = admitted;
        asked = unread = 0;
        drive_close(&drive);
        drive_open(&drive, fake);
        drive_text(&drive, rows[i % ROWS].request);
        if (strncmp(drive.out, admitted ? rows[i % ROWS].status : STATUS, 12) != 0)
            fail_msg("%s: %s", rows[i % ROWS].request, drive.out);
        assert_int_equal(asked, 1);
        assert_int_equal(unread, rows[i % ROWS].unread);
        assert_true(says("\r\nConnection: close\r\n"));
    }
}

/* Whatever the first request is, and however it is cut: one answer, and the end. */
static void test_a_connection(void **state)
{
    static const char *const requests[] = {
        "GET /p1" HOST, "GET /p1" HOST "GET /p1" HOST, "BREW /" HOST, "nonsense\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n12345", "GET / HTTP/9.0\r\n\r\n",
        "HEAD /p1" HOST};

    (void)state;
    for (unsigned i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
        for (size_t cut = 0; cut < 3; cut++) {
            drive_close(&drive);
            drive_open(&drive, fake);
            drive.conn.proto = &http_refused_proto;
            drive.cut = cut;
            drive_text(&drive, requests[i]);
            if (strncmp(drive.out, STATUS, strlen(STATUS)) != 0)
                fail_msg("%s: %s", requests[i], drive.out);
            assert_true(says("\r\nRetry-After: 1\r\n") && says("\r\nConnection: close\r\n"));
            assert_null(strstr(drive.out + 1, "HTTP/1.1 "));
            assert_int_equal(says("\n429 Too Many"), strncmp(requests[i], "HEAD", 4) != 0);
            assert_int_equal(drive.conn.want, CONN_LINGER);
            assert_int_equal(drive.conn.requests, 1);
            drive_end(&drive);
            assert_int_equal(drive.conn.want, CONN_CLOSE);
        }
}

/* A client that says nothing, or not all: the deadline of a head. */
static void test_silence(void **state)
{
    (void)state;
    drive.conn.proto = &http_refused_proto;
    drive_text(&drive, "GET / HT");
    assert_int_equal(drive.conn.want, CONN_RECV);
    assert_false(conn_overdue(&drive.conn, 0, drive.conn.deadline_ms - 1));
    assert_true(conn_overdue(&drive.conn, 0, drive.conn.deadline_ms));
    drive_end(&drive);
    assert_int_equal(drive.conn.want, CONN_CLOSE);
    assert_int_equal(drive.len, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_of_the_host), TEST(test_what_is_admitted),
                                       TEST(test_what_is_admitted_last),
                                       TEST(test_a_connection), TEST(test_silence)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
