/* SPDX-License-Identifier: MIT */
/* promise.c - which clients have promised to send nothing more, so that closing needs no wait. */
#include "../rig.h"

#define HOST " HTTP/1.1\r\nHost: h\r\n"
#define CLOSE "Connection: close\r\n"

static const struct row {
    const char *input;
    bool promised;
} rows[] = {
    {"GET /p1" HOST CLOSE "\r\n", true},
    {"HEAD /p1" HOST CLOSE "\r\n", true},
    {"GET /p1 HTTP/1.0\r\n\r\n", true},
    {"GET /p1" HOST "Connection: Close, x\r\n\r\n", true},
    {"GET /p1" HOST "Content-Length: 0\r\n" CLOSE "\r\n", true},
    {"GET /none" HOST CLOSE "\r\n", true}, /* 404 is an answer like any other */
    {"GET /p1" HOST "\r\nGET /p1" HOST CLOSE "\r\n", true},
    {"GET /p1" HOST CLOSE "\r\n\r\n", false}, /* something came after it */
    {"GET /p1" HOST CLOSE "\r\nG", false},
    {"GET /p1 HTTP/1.0\r\n\r\nGET /p1 HTTP/1.0\r\n\r\n", false},
    {"GET /p1" HOST "Content-Length: 1\r\n" CLOSE "\r\nx", false}, /* a body: more may come */
    {"POST /p1" HOST "Content-Length: 1\r\n" CLOSE "\r\nx", false},
    {"POST /p1" HOST "Content-Length: 0\r\n" CLOSE "\r\n", false},
    {"OPTIONS *" HOST CLOSE "\r\n", false},
    {"CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n" CLOSE "\r\n", false},
    {"BREW /p1" HOST CLOSE "\r\n", false},
    {"GET /p1 HTTP/1.1\r\n" CLOSE "\r\n", false}, /* 400 */
    {"nonsense\r\n\r\n", false},
};

/* Feed the input in cuts, twice on a host that remembers heads: the second time it knows them. */
static void check(struct rig *r, const struct row *row, size_t cut)
{
    size_t len = strlen(row->input);
    bool last = false;

    for (size_t at = 0; at < len && r->c.want == CONN_RECV; at += cut) {
        conn_feed(&r->c, row->input + at, len - at < cut ? len - at : cut, r->now);
        while (r->c.want == CONN_SEND) {
            last = conn_out(&r->c).more;
            take(r, SIZE_MAX);
        }
    }
    if (r->c.want != CONN_LINGER || !conn_shuts(&r->c))
        fail_msg("%s: it does not end", row->input);
    /* With cuts, bytes may still be in the socket when the answer is sent: conn_promised() does not
     * know of them, and its caller looks for them. */
    if (cut >= len && conn_promised(&r->c) != row->promised)
        fail_msg("%s: promised %d", row->input, conn_promised(&r->c));
    if (last != conn_promised(&r->c))
        fail_msg("%s: the last send is not known for it", row->input);
}

static void only_what_rfc_9112_says(void **state)
{
    static struct http_recent recent;
    struct rig r;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (unsigned round = 0; round < 4; round++) {
            rig_open(&r, &http_proto);
            r.fake->host.recent = round & 1 ? &recent : NULL;
            for (unsigned again = 0; again < 3; again++) {
                check(&r, &rows[i], round & 2 ? 1 : SIZE_MAX);
                conn_fini(&r.c);
                conn_init(&r.c, &http_proto, &r.fake->host.conn, r.now);
            }
            http_recent_drop(&r.fake->host);
            rig_close(&r);
        }
}

static void a_server_that_ends_it_has_no_promise(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, &http_proto);
    r.fake->host.closing = true;
    feed(&r, "GET /p1" HOST "\r\n");
    assert_false(conn_out(&r.c).more);
    drain(&r);
    assert_int_equal(r.c.want, CONN_LINGER);
    assert_false(conn_promised(&r.c));
    rig_close(&r);
}

/* Only the last of several sends is marked last, and an abort closes in order. */
static void closing_at_once(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, &http_proto);
    feed(&r, "GET /p1000000" HOST CLOSE "\r\n");
    assert_true(conn_out(&r.c).more);
    take(&r, 100);
    assert_true(conn_out(&r.c).more);
    drain(&r);
    assert_true(conn_shuts(&r.c));
    assert_true(conn_promised(&r.c));
    conn_abort(&r.c);
    assert_int_equal(r.c.want, CONN_CLOSE);
    assert_false(conn_unfinished(&r.c));
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_rfc_9112_says),
        cmocka_unit_test(a_server_that_ends_it_has_no_promise),
        cmocka_unit_test(closing_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
