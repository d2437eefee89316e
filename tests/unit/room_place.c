/* SPDX-License-Identifier: MIT */
/* room_place.c - the rule of core/room.h, one connection at one moment: which is closed first,
 * which stays, and both sides of each limit. */
enum { START = 100000 };
#include "one.h"
#include "../../core/room.h"

enum { PATIENCE = ROOM_PATIENCE_MS };

/* One slot, and no client waits for it: all patience there is. */
static struct room_place place_at(uint64_t now_ms, uint64_t acked)
{
    const struct room r = {.now_ms = now_ms, .conn_max = 1};
    const struct room_peer peer = {acked, UINT64_MAX};

    return room_place(&c, &r, &peer);
}

static void assert_goes_at(uint64_t ms, enum room_claim claim)
{
    assert_int_equal(place_at(ms - 1, c.sent).claim, ROOM_KEEPS);
    assert_int_equal(place_at(ms, c.sent).claim, claim);
}

static void patience_shrinks(void **state)
{
    (void)state;
    assert_int_equal(room_patience_ms(&(struct room){.conn_max = 10}), PATIENCE);
    assert_int_equal(room_patience_ms(&(struct room){.conn_max = 10, .waiting = 9}), PATIENCE);
    assert_int_equal(room_patience_ms(&(struct room){.conn_max = 10, .waiting = 10}), PATIENCE / 2);
    assert_int_equal(room_patience_ms(&(struct room){.conn_max = 10, .waiting = 40}), PATIENCE / 5);
    assert_int_equal(room_patience_ms(&(struct room){.conn_max = 1, .waiting = 4096}),
                     ROOM_IDLE_MS);
    assert_int_equal(room_patience_ms(&(struct room){.waiting = UINT32_MAX - 1}), ROOM_IDLE_MS);
}

static void silent_newcomer(void **state)
{
    (void)state;
    assert_goes_at(START + ROOM_IDLE_MS, ROOM_IDLE);
    assert_int_equal(place_at(START + ROOM_IDLE_MS, 0).since_ms, START);
}

/* The client was already silent in the accept queue. */
static void silent_in_the_queue(void **state)
{
    const struct room r = {.now_ms = START, .conn_max = 1, .waiting = 1};
    struct room_peer peer = {0, START - ROOM_IDLE_MS + 1};

    (void)state;
    assert_int_equal(room_place(&c, &r, &peer).claim, ROOM_KEEPS);
    peer.heard_ms--;
    assert_int_equal(room_place(&c, &r, &peer).claim, ROOM_IDLE);
    assert_int_equal(room_place(&c, &r, &peer).since_ms, peer.heard_ms);
}

static void idle_between_two_requests(void **state)
{
    (void)state;
    feed_at(START + 10, "eon\n");
    conn_sent(&c, 4, START + 20);
    assert_int_equal(c.want, CONN_RECV);
    assert_goes_at(START + 20 + ROOM_IDLE_MS, ROOM_IDLE);
}

/* A byte now and then does not make a connection younger. */
static void dripping_head(void **state)
{
    (void)state;
    feed_at(START + 10, "o");
    feed_at(START + 400, "n");
    assert_goes_at(START + 10 + PATIENCE, ROOM_HEADLESS);
}

static void last_answer_is_out(void **state)
{
    (void)state;
    feed_at(START, "eon\n");
    conn_close_after(&c);
    conn_sent(&c, 4, START + 20);
    assert_int_equal(c.want, CONN_LINGER);
    assert_goes_at(START + 20 + ROOM_LINGER_MS, ROOM_SAID);
}

/* As many bytes as the pace requires within the patience, and one byte fewer. */
static void slow_reader(void **state)
{
    const uint64_t enough = (uint64_t)ROOM_PACE_BYTES * PATIENCE / 1000;

    (void)state;
    feed_at(START, "eon\n");
    assert_int_equal(c.want, CONN_SEND);
    assert_goes_at(START + PATIENCE, ROOM_SLOW);
    assert_int_equal(place_at(START + PATIENCE, enough - 1).claim, ROOM_SLOW);
    /* However many wait: acknowledgements of a fast but distant peer may take that long. */
    assert_int_equal(
        room_place(&c,
                   &(struct room){.now_ms = START + PATIENCE - 1, .conn_max = 1, .waiting = 4096},
                   &(struct room_peer){.heard_ms = UINT64_MAX})
            .claim,
        ROOM_KEEPS);
    assert_int_equal(place_at(START + PATIENCE, enough).claim, ROOM_KEEPS);
    /* A window has passed; in the next one only new progress counts. */
    assert_int_equal(c.deadline_ms, START + PATIENCE + fake->host.conn.send_ms);
    assert_int_equal(place_at(START + 2 * PATIENCE - 1, enough).claim, ROOM_KEEPS);
    assert_int_equal(place_at(START + 2 * PATIENCE, enough).claim, ROOM_SLOW);
    assert_int_equal(place_at(START + 2 * PATIENCE, 2 * enough).claim, ROOM_KEEPS);
}

/* Fewer bytes wait than when the window began: earlier answers were still being delivered, so a new
 * window begins. */
static void earlier_answers_are_on_their_way(void **state)
{
    (void)state;
    feed_at(START, "eon\n");
    conn_sent(&c, 4, START);
    feed_at(START, "etw\n");
    assert_int_equal(place_at(START + PATIENCE, 1).claim, ROOM_KEEPS);
    assert_int_equal(place_at(START + 2 * PATIENCE - 1, 1).claim, ROOM_KEEPS);
    assert_int_equal(place_at(START + 2 * PATIENCE, 1).claim, ROOM_SLOW);
}

/* room_look() writes nothing, and does not read the host. */
static void looked_at_from_outside(void **state)
{
    const uint64_t enough = (uint64_t)ROOM_PACE_BYTES * PATIENCE / 1000;
    const struct conn_host times = {.head_ms = 3000, .idle_ms = 2000, .send_ms = 1000};
    struct room_peer peer = {0, UINT64_MAX};
    struct room r = {.now_ms = START + ROOM_IDLE_MS - 1, .conn_max = 1};
    struct conn other = c;

    (void)state;
    other.host = NULL;
    other.deadline_ms = START + times.head_ms;
    assert_int_equal(room_look(&other, &times, &r, &peer).claim, ROOM_KEEPS);
    r.now_ms++;
    assert_int_equal(room_look(&other, &times, &r, &peer).claim, ROOM_IDLE);
    assert_int_equal(room_look(&other, &times, &r, &peer).since_ms, START);
    other.sent = 4; /* the client has been answered */
    other.deadline_ms = START + times.idle_ms;
    assert_int_equal(room_look(&other, &times, &r, &peer).since_ms, START);
    feed_at(START, "eon\n");
    other = c;
    other.host = NULL;
    other.moved = 0;
    other.deadline_ms = START + times.send_ms;
    r.now_ms = START + PATIENCE - 1;
    assert_int_equal(room_look(&other, &times, &r, &peer).claim, ROOM_KEEPS);
    r.now_ms++;
    assert_int_equal(room_look(&other, &times, &r, &peer).claim, ROOM_SLOW);
    peer.acked = enough;
    assert_int_equal(room_look(&other, &times, &r, &peer).claim, ROOM_KEEPS);
    assert_int_equal(other.deadline_ms, START + times.send_ms);
}

/* The host was late, not the peer: progress is counted from now on. */
static void begins_again(void **state)
{
    (void)state;
    feed_at(START, "eon\n");
    assert_int_equal(place_at(START + PATIENCE, 0).claim, ROOM_SLOW);
    room_body_again(&c, 0, START + PATIENCE);
    assert_int_equal(place_at(START + 2 * PATIENCE - 1, 0).claim, ROOM_KEEPS);
    assert_int_equal(place_at(START + 2 * PATIENCE, 0).claim, ROOM_SLOW);
}

static void order(void **state)
{
    static const struct room_place row[] = {
        {ROOM_IDLE, 5}, {ROOM_IDLE, 6}, {ROOM_HEADLESS, 1}, {ROOM_SAID, 1}, {ROOM_SLOW, 0}};

    (void)state;
    for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++)
        for (unsigned k = 0; k < sizeof(row) / sizeof(row[0]); k++)
            assert_int_equal(room_before(&row[i], &row[k]), i < k);
}

static void others_keep_their_slots(void **state)
{
    (void)state;
    c.want = CONN_WAIT; /* the host is slow, not the peer */
    assert_int_equal(place_at(START * 2, 0).claim, ROOM_KEEPS);
    c.want = CONN_CLOSE;
    assert_int_equal(place_at(START * 2, 0).claim, ROOM_KEEPS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_lines, close_lines)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(patience_shrinks),
        TEST(silent_newcomer),
        TEST(silent_in_the_queue),
        TEST(idle_between_two_requests),
        TEST(dripping_head),
        TEST(last_answer_is_out),
        TEST(slow_reader),
        TEST(earlier_answers_are_on_their_way),
        TEST(looked_at_from_outside),
        TEST(begins_again),
        TEST(order),
        TEST(others_keep_their_slots),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
