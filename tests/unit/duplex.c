/* SPDX-License-Identifier: MIT */
/* duplex.c - a protocol whose messages are interleaved: it hears between two sends, is woken in any
 * want, has a deadline of its own, and last words.
 *
 * In this test's protocol the digit N asks for N thousand bytes, which leave in pieces of 1000; 'w'
 * asks for a thousand that come when the connection is kicked, 'q' for the end after everything
 * that is owed.  Bytes that follow '|' in one piece are used only when everything owed is sent.
 */
#include "../world.h"
#include "../../core/room.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { START = 1000, PIECE = 1000 };

static struct talk {
    char heard[64];
    size_t len;
    unsigned owed, later, leaves, fini; /* pieces to say; ... once kicked */
    bool waits;                         /* with nothing to say it wants to wait */
    bool ends;
    uint64_t due_ms;
} talk;

static struct world w;

static void say(struct conn *c)
{
    size_t cap;
    char *space;

    while (talk.owed && (space = conn_space(c, &cap), cap >= PIECE + REPLY_HEAD_BYTES_MAX)) {
        memset(space, 'x', PIECE);
        conn_wrote(c, PIECE, false);
        talk.owed--;
    }
}

static void settle(struct conn *c)
{
    size_t cap;

    (void)conn_space(c, &cap);
    conn_more(c, cap < OUTQ_BYTES || talk.owed);
    if (cap == OUTQ_BYTES && !talk.owed && talk.ends) {
        conn_close_after(c);
    } else if (cap == OUTQ_BYTES && !talk.owed && talk.waits) {
        conn_more(c, true);
        conn_wait(c);
    }
}

static long talk_input(struct conn *c, const char *bytes, size_t n)
{
    const char *bar = conn_glances(c) ? memchr(bytes, '|', n) : NULL;
    size_t used = bar ? (size_t)(bar - bytes) : n;

    assert_true(conn_queue(c));
    conn_duplex(c);
    for (size_t i = 0; i < used; i++) {
        assert_true(talk.len < sizeof(talk.heard));
        talk.heard[talk.len++] = bytes[i];
        talk.owed += bytes[i] >= '0' && bytes[i] <= '9' ? (unsigned)(bytes[i] - '0') : 0;
        talk.later += bytes[i] == 'w';
        talk.ends = talk.ends || bytes[i] == 'q';
    }
    say(c);
    settle(c);
    return (long)used;
}

static void talk_more(struct conn *c)
{
    assert_true(conn_queue(c));
    say(c);
    settle(c);
}

static void talk_end(struct conn *c, size_t unused)
{
    (void)unused;
    (void)c;
    talk.heard[talk.len++] = '.';
}

static bool talk_begun(const struct conn *c)
{
    (void)c;
    return talk.later;
}

static uint64_t talk_due(struct conn *c, uint64_t now_ms)
{
    assert_int_equal(c->want, CONN_RECV);
    assert_true(now_ms >= START);
    return talk.due_ms;
}

static void talk_leave(struct conn *c)
{
    talk.leaves++;
    assert_true(conn_queue(c));
    memset(conn_space(c, &(size_t){0}), 'b', 3);
    conn_wrote(c, 3, false);
}

static void talk_fini(struct conn *c)
{
    (void)c;
    talk.fini++;
}

static const struct conn_proto talk_proto = {
    .name = "talk", .input = talk_input, .more = talk_more, .end = talk_end, .begun = talk_begun,
    .due = talk_due, .leave = talk_leave, .fini = talk_fini};

static int open_world(void **state)
{
    (void)state;
    talk = (struct talk){0};
    world_open(&w, &talk_proto, 1);
    w.silent = true;
    w.now = START;
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    conn_fini(&w.c);
    assert_int_equal(talk.fini, 1);
    world_close(&w);
    return 0;
}

static void feed(const char *text)
{
    conn_feed(&w.c, text, strlen(text), w.now);
}

static void take(size_t n)
{
    conn_sent(&w.c, n, w.now);
}

static void assert_heard(const char *text)
{
    assert_int_equal(talk.len, strlen(text));
    assert_memory_equal(talk.heard, text, talk.len);
}

/* --- It hears while it sends ------------------------------------------------------------------ */

static void input_while_sending(void **state)
{
    (void)state;
    assert_false(conn_glances(&w.c)); /* it wants to receive anyway */
    feed("2");
    assert_int_equal(w.c.want, CONN_SEND);
    assert_true(conn_glances(&w.c));
    take(500);
    feed("1z");
    assert_heard("21z");
    assert_int_equal(w.c.want, CONN_SEND);
    assert_int_equal(conn_out(&w.c).seg[0].len, 2500); /* behind what is being sent */
    take(2500);
    assert_int_equal(w.c.want, CONN_RECV);
    assert_null(w.c.out);
    feed("1");
    take(1000);
    assert_int_equal(w.c.sent, 4000);
}

static void input_however_full_the_queue_is(void **state)
{
    (void)state;
    feed("9999"); /* more than it holds */
    assert_int_equal(conn_out(&w.c).seg[0].len, 21000);
    feed("a");
    feed("b");
    assert_heard("9999ab");
    take(21000);
    assert_int_equal(conn_out(&w.c).seg[0].len, 15000);
    take(15000);
    assert_int_equal(w.c.want, CONN_RECV);
}

static void unused_input_waits(void **state)
{
    (void)state;
    feed("1");
    feed("a|b2");
    assert_heard("1a");
    assert_false(conn_glances(&w.c)); /* no more until these are used */
    take(1000);
    assert_heard("1a|b2");
    assert_int_equal(w.c.want, CONN_SEND);
    assert_true(conn_glances(&w.c));
    take(2000);
    assert_null(w.c.in);
    assert_int_equal(w.c.want, CONN_RECV);
}

static void no_memory_for_unused_input(void **state)
{
    (void)state;
    feed("1");
    w.fake->fail_alloc = w.fake->n.allocs + 1;
    feed("|");
    take(1000); /* what is owed is sent, and then it ends */
    assert_int_equal(w.c.want, CONN_LINGER);
}

static void the_end_while_sending(void **state)
{
    (void)state;
    feed("3");
    take(100);
    conn_feed(&w.c, NULL, 0, w.now);
    assert_heard("3.");
    assert_int_equal(w.c.want, CONN_SEND);
    assert_false(conn_glances(&w.c));
    take(2900);
    assert_int_equal(w.c.want, CONN_CLOSE);
}

static void nothing_is_heard_when_it_closes(void **state)
{
    (void)state;
    feed("1q");
    take(1);
    assert_true(conn_glances(&w.c)); /* not yet: answers are owed first */
    take(999);
    assert_int_equal(w.c.want, CONN_LINGER);
    assert_false(conn_glances(&w.c));
}

/* A receive was in flight when the connection turned to its last words. */
static void late_input_is_dropped(void **state)
{
    (void)state;
    feed("a");
    assert_true(conn_leave(&w.c, w.now));
    conn_close_after(&w.c);
    assert_int_equal(w.c.want, CONN_SEND);
    feed("1");
    assert_heard("a");
    take(3);
    assert_int_equal(w.c.want, CONN_LINGER);
}

static void others_do_not_glance(void **state)
{
    struct conn c;

    (void)state;
    conn_init(&c, &lines_proto, &w.fake->host.conn, START);
    conn_feed(&c, "ea\n", 3, START);
    assert_int_equal(c.want, CONN_SEND);
    assert_false(conn_glances(&c));
    assert_false(conn_leave(&c, START));
    conn_fini(&c);
}

/* --- The pump glances ------------------------------------------------------------------------- */

static void peer_sends(const char *text)
{
    w.in = text;
    w.in_len = strlen(text);
    w.in_at = 0;
}

static void the_pump_glances_between_sends(void **state)
{
    (void)state;
    feed("3");
    peer_sends("ab");
    w.recv_max = 1;
    w.send_max = 1;
    for (unsigned i = 0; i < 3 && talk.len < 3; i++)
        (void)conn_pump(&w.c, &w.pump, w.now);
    assert_heard("3ab");
    assert_int_equal(w.c.want, CONN_SEND);
    assert_true(w.recvs <= w.sends);
}

static void a_glance_sees_the_end(void **state)
{
    (void)state;
    feed("2");
    w.silent = false;
    w.send_max = 1;
    (void)conn_pump(&w.c, &w.pump, w.now);
    assert_heard("2.");
    assert_int_equal(w.recvs, 1); /* once, and what is owed goes on being sent */
    assert_int_equal(w.c.want, CONN_SEND);
}

static void a_glance_sees_an_error(void **state)
{
    (void)state;
    feed("2");
    w.send_max = 1;
    w.wrong_at = 2; /* the first call sends */
    w.wrong = WRONG_RESET;
    assert_int_equal(conn_pump(&w.c, &w.pump, w.now), CONN_CLOSE);
}

static void others_cost_no_receive(void **state)
{
    (void)state;
    conn_fini(&w.c);
    talk.fini = 0;
    conn_init(&w.c, &lines_proto, &w.fake->host.conn, w.now);
    peer_sends("p30000\n");
    w.send_max = 20000;
    while (w.out.len < 30007)
        (void)conn_pump(&w.c, &w.pump, w.now);
    assert_int_equal(w.recvs, 1);
    conn_fini(&w.c);
    conn_init(&w.c, &talk_proto, &w.fake->host.conn, w.now);
}

/* --- It is woken ------------------------------------------------------------------------------ */

static void a_kick_while_receiving(void **state)
{
    (void)state;
    feed("w");
    assert_int_equal(w.c.want, CONN_RECV);
    conn_kick(&w.c, w.now); /* nothing is ready yet */
    assert_int_equal(w.c.want, CONN_RECV);
    talk.owed = talk.later;
    talk.later = 0;
    conn_kick(&w.c, w.now);
    assert_int_equal(w.c.want, CONN_SEND);
    take(1000);
    assert_int_equal(w.c.want, CONN_RECV);
}

static void a_kick_while_sending(void **state)
{
    (void)state;
    feed("1w");
    take(10);
    talk.owed = 1; /* made meanwhile */
    conn_kick(&w.c, w.now);
    assert_int_equal(conn_out(&w.c).seg[0].len, 990); /* only recorded */
    take(990);
    assert_int_equal(w.c.want, CONN_SEND);
    take(1000);
    assert_int_equal(w.c.want, CONN_RECV);
}

static void a_kick_while_waiting(void **state)
{
    (void)state;
    talk.waits = true;
    feed("w");
    assert_int_equal(w.c.want, CONN_WAIT);
    conn_kick(&w.c, w.now);
    assert_int_equal(w.c.want, CONN_WAIT);
    talk.owed = 1;
    conn_kick(&w.c, w.now);
    assert_int_equal(w.c.want, CONN_SEND);
    talk.waits = false;
    take(1000);
    assert_int_equal(w.c.want, CONN_RECV);
}

/* --- Times ------------------------------------------------------------------------------------ */

static void its_own_deadline(void **state)
{
    (void)state;
    talk.due_ms = START + 77;
    feed("a");
    assert_int_equal(w.c.deadline_ms, START + 77);
    assert_true(conn_idle(&w.c));
    feed("w");
    assert_false(conn_idle(&w.c));
    w.now = START + 50;
    talk.due_ms = START + 200; /* later */
    feed("b");
    assert_int_equal(w.c.deadline_ms, START + 200);
    talk.due_ms = START + 100; /* and earlier */
    feed("c");
    assert_false(conn_overdue(&w.c, 0, START + 99));
    assert_true(conn_overdue(&w.c, 0, START + 100));
}

static void without_one_it_is_as_for_all(void **state)
{
    (void)state;
    feed("a");
    assert_int_equal(w.c.deadline_ms, START + w.c.host->head_ms); /* from the beginning */
    feed("w");
    assert_int_equal(w.c.deadline_ms, START + w.c.host->head_ms);
    w.now += 5;
    talk.later = 0;
    feed("a");
    assert_int_equal(w.c.deadline_ms, w.now + w.c.host->idle_ms);
}

static void what_the_host_owes_has_no_deadline(void **state)
{
    const struct room r = {.now_ms = START + 100000, .conn_max = 1};
    const struct room_peer peer = {0, UINT64_MAX};

    (void)state;
    talk.due_ms = START + 10;
    conn_owes(&w.c, true);
    feed("w");
    assert_int_equal(room_look(&w.c, w.c.host, &r, &peer).claim, ROOM_KEEPS);
    assert_false(conn_overdue(&w.c, 0, START + 10));
    assert_int_equal(w.c.deadline_ms, START + 10 + w.c.host->send_ms);
    conn_owes(&w.c, false);
    assert_true(conn_overdue(&w.c, 0, w.c.deadline_ms));
    assert_int_equal(room_look(&w.c, w.c.host, &r, &peer).claim, ROOM_HEADLESS);
}

/* --- Last words ------------------------------------------------------------------------------- */

static void last_words(void **state)
{
    (void)state;
    talk.due_ms = START + 10;
    assert_true(conn_leave(&w.c, w.now));
    assert_int_equal(conn_out(&w.c).count, 1);
    assert_int_equal(conn_out(&w.c).seg[0].len, 3);
    conn_abort(&w.c);
}

static void no_last_words_unless_idle(void **state)
{
    (void)state;
    talk.due_ms = START + 10;
    feed("w");
    assert_false(conn_leave(&w.c, w.now));
    talk.later = 0;
    feed("1");
    assert_false(conn_leave(&w.c, w.now));
    assert_int_equal(talk.leaves, 0);
    take(1000);
    assert_true(conn_leave(&w.c, w.now));
    assert_int_equal(talk.leaves, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(input_while_sending),
        TEST(input_however_full_the_queue_is),
        TEST(unused_input_waits),
        TEST(no_memory_for_unused_input),
        TEST(the_end_while_sending),
        TEST(nothing_is_heard_when_it_closes),
        TEST(late_input_is_dropped),
        TEST(others_do_not_glance),
        TEST(the_pump_glances_between_sends),
        TEST(a_glance_sees_the_end),
        TEST(a_glance_sees_an_error),
        TEST(others_cost_no_receive),
        TEST(a_kick_while_receiving),
        TEST(a_kick_while_sending),
        TEST(a_kick_while_waiting),
        TEST(its_own_deadline),
        TEST(without_one_it_is_as_for_all),
        TEST(what_the_host_owes_has_no_deadline),
        TEST(last_words),
        TEST(no_last_words_unless_idle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
