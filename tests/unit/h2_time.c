/* SPDX-License-Identifier: MIT */
/* h2_time.c - deadlines of HTTP/2 by a clock that the test sets, and how a connection ends. */
#include "h2_client.h"

/* --- Times ------------------------------------------------------------------------------------ */

static bool overdue_at(uint64_t ms)
{
    w->h.loop.now_ms = ms;
    return conn_overdue(w->h.c, w->h.c->sent, ms);
}

static void idle(void **state)
{
    uint64_t idle_ms;

    (void)state;
    begin(65535, true);
    idle_ms = w->h.c->host->idle_ms;
    w->h.loop.now_ms = START + 50;
    ask("GET", "/p13", 0);
    run();
    assert_int_equal(w->h.c->deadline_ms, START + 50 + idle_ms);
    w->h.loop.now_ms = START + 100;
    must(!nghttp2_submit_ping(client.session, 0, NULL));
    run(); /* brings nothing */
    assert_int_equal(w->h.c->deadline_ms, START + 50 + idle_ms);
    assert_false(overdue_at(START + 50 + idle_ms - 1));
    assert_true(overdue_at(START + 50 + idle_ms));
    end();
}

static void a_part_has_a_head_s_time(void **state)
{
    uint64_t head_ms;

    (void)state;
    begin(65535, true);
    head_ms = w->h.c->host->head_ms;
    w->h.loop.now_ms = START + 5;
    conn_feed(w->h.c, H2_PREFACE, 10, START + 5);
    while (w->h.c->want == CONN_SEND)
        h2_world_take(w); /* SETTINGS */
    assert_false(conn_idle(w->h.c));
    assert_int_equal(w->h.c->deadline_ms, START + 5 + head_ms);
    end();

    begin(65535, true);
    run();
    w->h.loop.now_ms = START + 7;
    conn_feed(w->h.c, "\0\0\x08\x06", 4, START + 7); /* half a head of PING */
    assert_false(conn_idle(w->h.c));
    assert_int_equal(w->h.c->deadline_ms, START + 7 + head_ms);
    w->h.loop.now_ms = START + 1000;
    conn_feed(w->h.c, "\0\0\0\0\0xxx", 8, START + 1000);
    assert_int_equal(w->h.c->deadline_ms, START + 7 + head_ms);
    conn_feed(w->h.c, "xxxxx", 5, START + 1000);
    while (w->h.c->want == CONN_SEND)
        h2_world_take(w);
    assert_true(conn_idle(w->h.c));
    end();
}

/* A stream whose window is shut is reset when its time is up; the connection is not. */
static void a_shut_window(void **state)
{
    uint64_t send_ms;
    int32_t stuck, other;

    (void)state;
    begin(0, true);
    send_ms = w->h.c->host->send_ms;
    stuck = ask("GET", "/p5000", 0);
    run();
    assert_int_equal(w->h.c->deadline_ms, START + send_ms + 500);
    w->h.loop.now_ms = START + send_ms - 1;
    other = ask("GET", "/p0", 0);
    run();
    assert_got(other, 200, 0);
    assert_int_equal(of(stuck)->closed, 0);
    w->h.loop.now_ms = START + send_ms + 100; /* looked at ten times a second */
    other = ask("GET", "/p0", 0);
    run();
    assert_got(other, 200, 0);
    assert_int_equal(of(stuck)->closed, 1);
    assert_int_equal(of(stuck)->code, NGHTTP2_CANCEL);
    assert_int_equal(w->h.fake->n.complete, 2);
    end();

    begin(0, true); /* without other use the connection ends */
    stuck = ask("GET", "/p5000", 0);
    run();
    assert_false(overdue_at(START + send_ms + 499));
    assert_true(overdue_at(START + send_ms + 500));
    end();
}

static void a_body_that_stays_away(void **state)
{
    uint64_t send_ms;
    int32_t stuck, other;

    (void)state;
    begin(65535, true);
    send_ms = w->h.c->host->send_ms;
    stuck = ask("GET", "/p1", -1);
    run();
    assert_true(conn_reads_body(w->h.c));
    assert_int_equal(w->h.c->deadline_ms, START + send_ms);
    w->h.loop.now_ms = START + send_ms + 100;
    other = ask("GET", "/p13", 0);
    run();
    assert_got(other, 200, 13);
    assert_int_equal(of(stuck)->code, NGHTTP2_CANCEL);
    end();
}

/* --- The end ---------------------------------------------------------------------------------- */

static void the_server_stops(void **state)
{
    int32_t large, late;

    (void)state;
    begin(65535, false);
    large = ask("GET", "/p100000", 0);
    run(); /* until its window is shut */
    w->h.loop.host.closing = true;
    late = ask("GET", "/p13", 0);
    run();
    assert_int_equal(client.goaways, 1);
    assert_int_equal(client.last, INT32_MAX);
    assert_int_equal(of(late)->status, 200); /* asked for before the client could know */
    w->h.loop.now_ms += 250;
    must(!nghttp2_submit_window_update(client.session, 0, 0, 1 << 20));
    run();
    assert_int_equal(client.goaways, 2);
    assert_int_equal(client.last, late);
    assert_int_equal(w->h.c->want, CONN_RECV);
    must(!nghttp2_submit_window_update(client.session, 0, large, 1 << 20));
    must(!nghttp2_submit_window_update(client.session, 0, late, 1 << 20));
    run();
    assert_got(large, 200, 100000);
    assert_int_equal(w->h.c->want, CONN_LINGER);
    end();
}

static void last_words(void **state)
{
    int32_t id;

    (void)state;
    begin(65535, true);
    id = ask("GET", "/p13", 0);
    run();
    assert_true(conn_leave(w->h.c, w->h.loop.now_ms));
    h2_world_take(w);
    assert_int_equal(client.goaways, 1);
    assert_int_equal(client.last, id);
    assert_int_equal(client.code, NGHTTP2_NO_ERROR);
    end();

    begin(0, true); /* not while an answer is owed */
    ask("GET", "/p13", 0);
    run();
    assert_false(conn_leave(w->h.c, w->h.loop.now_ms));
    end();
}

static void the_client_ends(void **state)
{
    int32_t id;

    (void)state;
    begin(65535, true);
    id = ask("GET", "/p13", 0);
    run();
    conn_feed(w->h.c, NULL, 0, w->h.loop.now_ms);
    assert_int_equal(w->h.c->want, CONN_CLOSE);
    assert_got(id, 200, 13);
    end();
}

/* Whatever does not begin as HTTP/2 does. */
static void nonsense(void **state)
{
    (void)state;
    begin(65535, true);
    conn_feed(w->h.c, "GET / HTTP/1.1\r\n\r\n", 18, START);
    assert_int_equal(w->h.c->want, CONN_SEND);
    while (w->h.c->want == CONN_SEND)
        h2_world_take(w);
    assert_int_equal(client.goaways, 1);
    assert_int_equal(client.code, NGHTTP2_PROTOCOL_ERROR);
    assert_int_equal(w->h.c->want, CONN_LINGER);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle),
        cmocka_unit_test(a_part_has_a_head_s_time),
        cmocka_unit_test(a_shut_window),
        cmocka_unit_test(a_body_that_stays_away),
        cmocka_unit_test(the_server_stops),
        cmocka_unit_test(last_words),
        cmocka_unit_test(the_client_ends),
        cmocka_unit_test(nonsense),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
