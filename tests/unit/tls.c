/* SPDX-License-Identifier: MIT */
/* tls.c - the protocol TLS, by records without a library: the same plaintext wherever they are cut,
 * and nothing lost, kept or left open when anything fails.
 */
#include "tls_one.h"
#include "drive.h"

static const char *const talks[] = {
    "GET /p10 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /p10 HTTP/1.1\r\nHost: a\r\n\r\nGET /w7 HTTP/1.1\r\nHost: a\r\n\r\n"
    "HEAD /p100000 HTTP/1.1\r\nHost: a\r\n\r\nGET /m9 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /p100000 HTTP/1.1\r\nHost: a\r\nRange: bytes=0-4,50-99,20000-70000\r\n\r\n"
    "GET /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "POST /p5 HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789GET /p5 HTTP/1.0\r\n\r\n",
    "GET /p70000 HTTP/1.0\r\n\r\n", "G\1T\r\n\r\n", NULL};

static void compare(const char *talk, size_t cut, size_t sip, size_t most)
{
    struct one *o = one_open();
    size_t len;
    char *text = drive_talk(talk, &len);

    o->cut = cut;
    o->sip = sip;
    one_handshake(o);
    assert_int_equal(o->handshake, o->store.flight + o->store.ticket);
    one_asks(o, talk, most);
    one_says(o, FAKE_ALERT, (char[]){FAKE_SAYS_END}, 1);
    one_end(o);
    assert_int_equal(o->len, len);
    assert_memory_equal(o->plain, text, len);
    assert_true(o->said_end && !o->said_bad);
    assert_int_equal(o->h.c->want, CONN_CLOSE);
    assert_false(conn_unfinished(o->h.c));
    assert_true(o->most <= OUTQ_BYTES);
    assert_int_equal(o->h.fake->n.complete, o->h.fake->n.answers);
    one_close(o);
    free(text);
}

static void the_same_wherever_it_is_cut(void **state)
{
    (void)state;
    for (unsigned i = 0; talks[i]; i++) {
        for (size_t cut = 0; cut < 300; cut += cut < 20 ? 1 : 37) {
            compare(talks[i], cut, 0, TLS_RECORD_BYTES);
            compare(talks[i], cut, 0, 1);
            compare(talks[i], cut, 1 + cut * 97, 7);
        }
    }
}

static void a_flight_larger_than_the_queue(void **state)
{
    struct one *o;

    (void)state;
    for (size_t flight = OUTQ_BYTES - 1500; flight < 200000; flight += 777) {
        o = one_open();
        o->store.flight = flight;
        o->store.ticket = flight;
        one_handshake(o);
        assert_int_equal(o->handshake, 2 * flight);
        assert_true(o->most <= OUTQ_BYTES);
        one_asks(o, talks[0], 16);
        assert_true(o->len > 10);
        one_close(o);
    }
}

/* An answer that fills the queue several times is announced each time but the last. */
static void what_follows_is_announced(void **state)
{
    static const struct {
        const char *talk;
        unsigned more;
    } rows[] = {{"GET /p10 HTTP/1.1\r\nHost: a\r\n\r\n", 0},
                {"GET /p30000 HTTP/1.1\r\nHost: a\r\n\r\n", 0},
                {"GET /p100000 HTTP/1.1\r\nHost: a\r\n\r\n", 3}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct one *o = one_open();

        one_handshake(o);
        one_asks(o, rows[i].talk, TLS_RECORD_BYTES);
        assert_int_equal(o->more, rows[i].more);
        assert_true(conn_idle(o->h.c));
        one_close(o);
    }
}

static void an_idle_one_holds_no_queue(void **state)
{
    struct one *o = one_open();

    (void)state;
    one_handshake(o);
    one_asks(o, talks[1], 100);
    assert_true(conn_idle(o->h.c));
    assert_null(o->h.c->out);
    assert_null(o->h.c->in);
    assert_int_equal(o->h.fake->n.allocs - o->h.fake->n.frees, 1); /* its state */
    one_close(o);
}

/* --- Ends ------------------------------------------------------------------------------------- */

static void half_a_request_and_its_end(void **state)
{
    struct one *o = one_open();

    (void)state;
    one_handshake(o);
    one_asks(o, "GET /p10 HT", 100);
    one_says(o, FAKE_ALERT, (char[]){FAKE_SAYS_END}, 1);
    assert_memory_equal(o->plain, "HTTP/1.1 400", 12);
    assert_true(o->said_end);
    one_close(o);
}

static void half_a_request_cut_short(void **state)
{
    struct one *o = one_open();

    (void)state;
    one_handshake(o);
    one_asks(o, "GET /p10 HT", 100);
    one_end(o);
    assert_int_equal(o->len, 0); /* which side ended it is not known */
    assert_false(o->said_end || o->said_bad);
    assert_int_equal(o->h.c->want, CONN_CLOSE);
    one_close(o);
}

static void an_idle_one_is_cut_short(void **state)
{
    struct one *o = one_open();

    (void)state;
    one_handshake(o);
    one_asks(o, talks[0], 100);
    one_end(o);
    assert_true(o->said_end);
    assert_int_equal(o->h.c->want, CONN_CLOSE);
    one_close(o);
}

static void a_handshake_is_cut_short(void **state)
{
    struct one *o;

    (void)state;
    for (unsigned records = 0; records < 2; records++) {
        o = one_open();
        if (records)
            one_says(o, FAKE_HANDSHAKE, "hello", 5);
        else
            one_feed(o, "\x16\3", 2);
        one_end(o);
        assert_false(o->said_end || o->said_bad);
        assert_int_equal(o->h.c->want, CONN_CLOSE);
        one_close(o);
    }
}

static void a_forged_record(void **state)
{
    struct one *o = one_open();
    char rec[64];
    size_t n = fake_record(rec, FAKE_DATA, "GET", 3);

    (void)state;
    rec[FAKE_HEAD] ^= 1;
    one_handshake(o);
    one_feed(o, rec, n);
    assert_true(o->said_bad && !o->said_end);
    assert_int_equal(o->h.c->want, CONN_LINGER); /* the alert must arrive */
    one_close(o);
}

/* The end of the stream must not look like the end of the answer. */
static void an_answer_that_cannot_go_on(void **state)
{
    struct one *o = one_open();

    (void)state;
    o->store.fail_speak = 5;
    one_handshake(o);
    one_asks(o, talks[4], 100);
    assert_true(o->len >= 3 * TLS_RECORD_BYTES); /* what was made before has been sent */
    assert_false(o->said_end);
    assert_int_equal(o->h.c->want, CONN_CLOSE);
    assert_true(conn_unfinished(o->h.c));
    one_close(o);
}

static void the_peer_goes(void **state)
{
    (void)state;
    for (unsigned takes = 0; takes < 4; takes++) {
        struct one *o = one_open();
        char rec[200];
        size_t n = fake_record(rec, FAKE_DATA, talks[2], strlen(talks[2]));

        one_handshake(o);
        conn_feed(o->h.c, rec, n, START);
        for (unsigned i = 0; i < takes && o->h.c->want == CONN_SEND; i++)
            one_take(o);
        conn_abort(o->h.c);
        one_close(o); /* all was given back */
    }
}

/* --- Limits ----------------------------------------------------------------------------------- */

static void feed_keys(struct one *o, size_t bytes)
{
    while (bytes > 0) {
        size_t n = bytes < 1000 ? bytes : 1000;

        assert_int_equal(o->h.c->want, CONN_RECV);
        one_says(o, FAKE_KEYS, fake_bytes(), n - FAKE_EXTRA);
        bytes -= n;
    }
}

static void records_that_carry_nothing(void **state)
{
    struct one *o = one_open();

    (void)state;
    one_handshake(o);
    for (unsigned i = 0; i < 3; i++) { /* a request begins the count again */
        one_asks(o, talks[0], 100);
        feed_keys(o, TLS_BARREN_BYTES_MAX);
        assert_int_equal(o->h.c->want, CONN_RECV);
    }
    one_says(o, FAKE_KEYS, "", 0);
    assert_int_equal(o->h.c->want, CONN_LINGER);
    assert_false(o->said_end);
    one_close(o);
}

static void memory_fails_in_turn(void **state)
{
    unsigned most = 1;

    (void)state;
    for (unsigned n = 0; n <= most; n++) { /* at first none fails */
        struct one *o = one_open();

        o->h.fake->fail_alloc = n;
        one_handshake(o);
        one_asks(o, talks[1], 11);
        one_end(o);
        most = n ? most : o->h.fake->n.allocs;
        one_close(o);
    }
    assert_true(most > 8);
}

static void a_link_cannot_be_made(void **state)
{
    struct one *o = one_open();

    (void)state;
    o->store.fail_begin = 1;
    one_says(o, FAKE_HANDSHAKE, "hello", 5);
    assert_int_equal(o->h.c->want, CONN_CLOSE);
    one_close(o);
}

/* --- Plain requests --------------------------------------------------------------------------- */

/* Nothing is encrypted then. */
static void assert_plain(const char *request, const char *answer)
{
    struct one *o = one_open();
    struct conn_out out;

    for (size_t i = 0; request[i]; i++)
        if (o->h.c->want == CONN_RECV)
            conn_feed(o->h.c, request + i, 1, START);
    assert_int_equal(o->h.c->want, CONN_SEND);
    out = conn_out(o->h.c);
    assert_memory_equal(out.seg[0].bytes, answer, strlen(answer));
    conn_sent(o->h.c, out.seg[0].len, START);
    assert_int_equal(o->h.c->want, CONN_LINGER);
    assert_int_equal(o->store.begun, 0);
    one_close(o);
}

#define FOUND \
    "HTTP/1.1 308 Permanent Redirect\r\nServer: rung\r\nX-Content-Type-Options: nosniff\r\n" \
    "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nLocation: https://"

static void plain_requests(void **state)
{
    (void)state;
    assert_plain("GET /a%20b?c=%0d HTTP/1.1\r\nHost: h.example:8443\r\n\r\n",
                 FOUND "h.example:8443/a%20b?c=%0d\r\n");
    assert_plain("GET http://other/x HTTP/1.1\r\nHost: [::1]\r\n\r\n", FOUND "[::1]/x\r\n");
    assert_plain("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", FOUND "h/\r\n");
    assert_plain("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n", FOUND "h/x\r\n");
    assert_plain("GET /x HTTP/1.0\r\n\r\n", "HTTP/1.1 400 ");
    assert_plain("GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "HTTP/1.1 400 ");
    assert_plain("SSH-2.0-x\r\n\r\n", "HTTP/1.1 400 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_wherever_it_is_cut),
        cmocka_unit_test(a_flight_larger_than_the_queue),
        cmocka_unit_test(what_follows_is_announced),
        cmocka_unit_test(an_idle_one_holds_no_queue),
        cmocka_unit_test(half_a_request_and_its_end),
        cmocka_unit_test(half_a_request_cut_short),
        cmocka_unit_test(an_idle_one_is_cut_short),
        cmocka_unit_test(a_handshake_is_cut_short),
        cmocka_unit_test(a_forged_record),
        cmocka_unit_test(an_answer_that_cannot_go_on),
        cmocka_unit_test(the_peer_goes),
        cmocka_unit_test(records_that_carry_nothing),
        cmocka_unit_test(memory_fails_in_turn),
        cmocka_unit_test(a_link_cannot_be_made),
        cmocka_unit_test(plain_requests),
    };

    return cmocka_run_group_tests_name("tls", tests, NULL, NULL);
}
