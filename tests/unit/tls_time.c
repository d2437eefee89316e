/* SPDX-License-Identifier: MIT */
/* tls_time.c - the protocol TLS and the clock: each deadline, on both sides, and a client that is
 * in time is never late.
 */
#include "tls_one.h"

enum { HEAD = 5000, IDLE = 15000, SEND = 10000 }; /* as in fake.h */
#define REQUEST "GET /p10 HTTP/1.1\r\nHost: a\r\n\r\n"

static struct one *o;

static int open_one(void **state)
{
    (void)state;
    o = one_open();
    return 0;
}

static int close_one(void **state)
{
    (void)state;
    one_close(o);
    return 0;
}

static void at(uint64_t now_ms)
{
    o->h.loop.now_ms = now_ms;
}

static void assert_ends_at(uint64_t ms)
{
    assert_int_equal(o->h.c->deadline_ms, ms);
    assert_false(conn_overdue(o->h.c, o->h.c->sent, ms - 1));
    assert_true(conn_overdue(o->h.c, o->h.c->sent, ms));
}

/* --- Handshakes ------------------------------------------------------------------------------- */

static void nothing_comes(void **state)
{
    (void)state;
    assert_ends_at(START + HEAD);
}

static void a_dripped_hello(void **state)
{
    char rec[64];
    size_t n = fake_record(rec, FAKE_HANDSHAKE, "a longer hello than most", 24);

    (void)state;
    for (size_t i = 0; i + 1 < n; i++) {
        at(2000 + i * 100);
        one_feed(o, rec + i, 1);
        assert_int_equal(o->h.c->deadline_ms, 2000 + HEAD);
        assert_false(conn_idle(o->h.c));
    }
    assert_ends_at(2000 + HEAD);
}

static void half_a_handshake(void **state)
{
    (void)state;
    at(3000);
    one_says(o, FAKE_HANDSHAKE, "hello", 5);
    assert_false(conn_idle(o->h.c));
    assert_ends_at(3000 + HEAD);
}

static void the_server_says_the_last_word(void **state)
{
    (void)state;
    at(3000);
    one_handshake(o);
    assert_true(conn_idle(o->h.c));
    assert_ends_at(3000 + IDLE);
}

static void the_client_says_the_last_word(void **state)
{
    (void)state;
    o->store.ticket = 0;
    at(3000);
    one_says(o, FAKE_HANDSHAKE, "hello", 5);
    at(4000);
    one_says(o, FAKE_HANDSHAKE, "finished", 8);
    assert_true(conn_idle(o->h.c));
    assert_ends_at(4000 + IDLE);
}

/* --- Requests --------------------------------------------------------------------------------- */

static void half_a_head(void **state)
{
    (void)state;
    one_handshake(o);
    at(4000);
    one_says(o, FAKE_DATA, "GET ", 4);
    at(6000);
    one_says(o, FAKE_DATA, "/p10 ", 5);
    assert_false(conn_idle(o->h.c));
    assert_ends_at(4000 + HEAD);
}

static void half_a_record(void **state)
{
    char rec[100];
    size_t n = fake_record(rec, FAKE_DATA, REQUEST, strlen(REQUEST));

    (void)state;
    one_handshake(o);
    for (size_t part = 1; part < n; part++) {
        at(o->h.loop.now_ms + IDLE - 1);
        assert_true(conn_idle(o->h.c));
        one_feed(o, rec, part);
        assert_false(conn_idle(o->h.c));
        assert_ends_at(o->h.loop.now_ms + HEAD);
        at(o->h.loop.now_ms + HEAD - 1);
        one_feed(o, rec + part, n - part); /* in time, so it idles again */
        assert_true(conn_idle(o->h.c));
        assert_ends_at(o->h.loop.now_ms + IDLE);
    }
}

/* Encrypting is not sending: a client that takes its time has all of it afterwards. */
static void idling_begins_when_the_answer_is_sent(void **state)
{
    char rec[100];

    (void)state;
    one_handshake(o);
    at(5000);
    conn_feed(o->h.c, rec, fake_record(rec, FAKE_DATA, REQUEST, strlen(REQUEST)), 5000);
    assert_int_equal(o->h.c->want, CONN_SEND);
    assert_int_equal(o->h.fake->n.complete, 0);
    o->sip = conn_out(o->h.c).seg[0].len - 1;
    one_take(o);
    at(5000 + IDLE + SEND);
    assert_int_equal(o->h.fake->n.complete, 0); /* it has not ended for the log either */
    one_take(o);
    assert_int_equal(o->h.fake->n.complete, 1);
    assert_int_equal(o->h.c->want, CONN_RECV);
    assert_ends_at(5000 + IDLE + SEND + IDLE);
}

static void what_says_nothing_extends_nothing(void **state)
{
    (void)state;
    one_handshake(o);
    for (unsigned i = 0; i < 100; i++) {
        at(START + i * 100);
        one_says(o, FAKE_KEYS, "", 0);
        one_says(o, FAKE_DATA, "", 0);
        assert_true(conn_idle(o->h.c));
    }
    assert_ends_at(START + IDLE);
}

static void a_body_moves(void **state)
{
    static const char head[] = "POST /p5 HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";

    (void)state;
    one_handshake(o);
    one_asks(o, head, 100);
    assert_int_equal(o->h.c->deadline_ms, START + SEND);
    for (unsigned i = 1; i < 20; i++) {
        at(o->h.c->deadline_ms - 1);
        one_says(o, FAKE_DATA, fake_bytes(), 1100); /* more than progress_bytes */
        at(o->h.c->deadline_ms);
        assert_false(conn_overdue(o->h.c, o->h.c->sent, o->h.loop.now_ms));
        assert_int_equal(o->h.c->deadline_ms, o->h.loop.now_ms + SEND);
    }
    one_says(o, FAKE_DATA, fake_bytes(), 900);
    assert_ends_at(o->h.c->deadline_ms);
}

/* The bytes are there, and only the caller is late. */
static void what_came_while_the_loop_was_late(void **state)
{
    (void)state;
    one_handshake(o);
    assert_true(conn_spoken(o->h.c, START + 2 * IDLE));
    assert_ends_at(START + 2 * IDLE + HEAD);
    at(START + 2 * IDLE + HEAD - 1);
    one_says(o, FAKE_KEYS, "", 0); /* they were no request */
    assert_true(conn_idle(o->h.c));
    assert_ends_at(o->h.loop.now_ms + IDLE);
}

static uint64_t chance(uint64_t below)
{
    static uint64_t x = 88172645463325252u;

    x ^= x << 13; /* xorshift64 (Marsaglia 2003) */
    x ^= x >> 7;
    x ^= x << 17;
    return x % below;
}

/* Time passes before each piece, always less than the rules allow.  Requests for new keys, which
 * extend nothing when they come whole, may come first. */
static void a_client_in_time_is_never_late(void **state)
{
    char rec[200];

    (void)state;
    one_handshake(o);
    for (unsigned i = 0; i < 20000; i++) {
        size_t keys = chance(3) ? 0 : fake_record(rec, FAKE_KEYS, "key", 3);
        size_t n = keys + fake_record(rec + keys, FAKE_DATA, REQUEST, strlen(REQUEST));
        uint64_t left = HEAD - 1;

        at(o->h.loop.now_ms + chance(keys ? IDLE - HEAD : IDLE));
        for (size_t k = 0, part; k < n; k += part) {
            uint64_t pause = k ? chance(left + 1) : 0;

            assert_false(conn_overdue(o->h.c, o->h.c->sent, o->h.loop.now_ms));
            at(o->h.loop.now_ms + pause);
            left -= pause;
            assert_false(conn_overdue(o->h.c, o->h.c->sent, o->h.loop.now_ms));
            part = 1 + chance(n - k);
            one_feed(o, rec + k, part);
        }
        o->len = 0;
    }
    assert_int_equal(o->h.fake->n.complete, 20000);
}

#define TIMED(name) cmocka_unit_test_setup_teardown(name, open_one, close_one)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TIMED(nothing_comes),
        TIMED(a_dripped_hello),
        TIMED(half_a_handshake),
        TIMED(the_server_says_the_last_word),
        TIMED(the_client_says_the_last_word),
        TIMED(half_a_head),
        TIMED(half_a_record),
        TIMED(idling_begins_when_the_answer_is_sent),
        TIMED(what_says_nothing_extends_nothing),
        TIMED(a_body_moves),
        TIMED(what_came_while_the_loop_was_late),
        TIMED(a_client_in_time_is_never_late),
    };

    return cmocka_run_group_tests_name("tls_time", tests, NULL, NULL);
}
