/* SPDX-License-Identifier: MIT */
/* conn_time.c - the connection machine and the clock: every deadline, on both sides; and promises
 * that must not be broken. */
enum { START = 1000, HEAD = 5000, IDLE = 15000, SEND = 10000, PROGRESS = 1024 }; /* as in fake.h */
#include "one.h"
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void sent_at(uint64_t now_ms, size_t n)
{
    assert_int_equal(c.want, CONN_SEND);
    conn_sent(&c, n, now_ms);
}

/* For a peer whose acknowledged bytes are not known. */
static bool overdue(uint64_t now_ms)
{
    return conn_overdue(&c, c.sent, now_ms);
}

static void assert_ends_at(uint64_t ms)
{
    assert_int_equal(c.deadline_ms, ms);
    assert_false(overdue(ms - 1));
    assert_true(overdue(ms));
}

/* --- Heads ------------------------------------------------------------------------------------ */

static void nothing_comes(void **state)
{
    (void)state;
    assert_ends_at(START + HEAD);
}

static void the_first_byte_starts_the_head(void **state)
{
    (void)state;
    feed_at(START + HEAD - 1, "e");
    assert_ends_at(START + HEAD - 1 + HEAD);
}

static void a_drip_extends_nothing(void **state)
{
    (void)state;
    for (uint64_t ms = 2000; ms < 2000 + HEAD; ms += 100) {
        feed_at(ms, "e");
        assert_false(overdue(ms));
        assert_int_equal(c.deadline_ms, 2000 + HEAD);
    }
    assert_true(overdue(2000 + HEAD));
}

static void what_came_while_nobody_looked_was_in_time(void **state)
{
    (void)state;
    assert_true(conn_spoken(&c, START + 2 * HEAD));
    assert_false(conn_idle(&c));
    assert_ends_at(START + 3 * HEAD);
    assert_false(conn_spoken(&c, START + 3 * HEAD)); /* once */
    feed_at(START + 3 * HEAD - 1, "ea\n");
    sent_at(START + 3 * HEAD, 3);
    assert_int_equal(c.deadline_ms, START + 3 * HEAD + IDLE);
    assert_true(conn_spoken(&c, START + 4 * HEAD + IDLE)); /* ... for each message again */
    feed_at(START + 5 * HEAD + IDLE - 1, "e"); /* and a drip extends nothing */
    assert_ends_at(START + 5 * HEAD + IDLE);
}

static void between_messages_it_idles(void **state)
{
    (void)state;
    feed_at(2000, "ea\n");
    assert_int_equal(c.deadline_ms, 2000 + SEND);
    sent_at(3000, 3);
    assert_int_equal(c.deadline_ms, 3000 + IDLE);
    feed_at(4000, "e"); /* the next head: from its first byte, although that is earlier */
    assert_int_equal(c.deadline_ms, 4000 + HEAD);
    feed_at(5000, "b\n");
    sent_at(6000, 3);
    assert_true(conn_idle(&c));
    assert_int_equal(c.deadline_ms, 6000 + IDLE);
    feed_at(7000, "e");
    assert_false(conn_idle(&c));
    assert_int_equal(c.deadline_ms, 7000 + HEAD);
    feed_at(8000, "\n");
    sent_at(9000, 2);
    assert_ends_at(9000 + IDLE);
}

static void a_head_behind_an_answer(void **state)
{
    (void)state;
    feed_at(2000, "ea\neb");
    sent_at(3000, 3);
    assert_int_equal(c.deadline_ms, 3000 + HEAD);
    feed_at(4000, "b");
    assert_ends_at(3000 + HEAD);
}

/* --- Bodies ----------------------------------------------------------------------------------- */

static void a_body_must_make_progress(void **state)
{
    (void)state;
    feed_at(2000, "b9000\n");
    assert_int_equal(c.want, CONN_RECV);
    assert_false(conn_idle(&c));
    assert_int_equal(c.deadline_ms, 2000 + SEND);
    conn_feed(&c, fake_bytes(), PROGRESS - 1, 3000);
    conn_feed(&c, fake_bytes(), 1, 4000); /* just enough */
    assert_int_equal(c.deadline_ms, 2000 + SEND); /* progress alone extends nothing */
    assert_false(overdue(2000 + SEND));
    assert_int_equal(c.deadline_ms, 2000 + 2 * SEND);
    conn_feed(&c, fake_bytes(), PROGRESS - 1, 13000); /* just not */
    assert_ends_at(2000 + 2 * SEND);
}

static void a_body_after_an_interim_answer(void **state)
{
    (void)state;
    feed_at(2000, "x5\nab");
    assert_int_equal(c.deadline_ms, 2000 + SEND);
    sent_at(4000, 3);
    assert_int_equal(c.want, CONN_RECV);
    assert_int_equal(c.deadline_ms, 4000 + SEND);
    feed_at(5000, "cde");
    assert_int_equal(c.want, CONN_SEND);
    sent_at(6000, strlen("x5 00000000\n"));
    assert_ends_at(6000 + IDLE);
}

/* A body in the input queue, used between two sends: the window of the sending side does not count
 * it. */
static void a_body_read_between_answers(void **state)
{
    (void)state;
    /* seven answers fill a gather */
    feed_at(2000, "ea\nea\nea\nea\nea\nea\nea\nb4\nabcdp100000\n");
    sent_at(3000, 21);
    assert_int_equal(c.want, CONN_SEND);
    assert_false(conn_overdue(&c, PROGRESS, 2000 + SEND));
    assert_true(conn_overdue(&c, 2 * PROGRESS - 1, 2000 + 2 * SEND));
}

/* --- Answers ---------------------------------------------------------------------------------- */

static void a_reader_must_make_progress(void **state)
{
    (void)state;
    feed_at(2000, "p100000\n");
    assert_int_equal(c.deadline_ms, 2000 + SEND);
    sent_at(3000, PROGRESS);
    assert_int_equal(c.deadline_ms, 2000 + SEND);
    assert_false(overdue(2000 + SEND));
    assert_int_equal(c.deadline_ms, 2000 + 2 * SEND);
    sent_at(14000, PROGRESS - 1);
    assert_ends_at(2000 + 2 * SEND);
}

static void what_the_peer_has_counts_and_not_what_was_sent(void **state)
{
    (void)state;
    feed_at(2000, "p100000\n");
    sent_at(2001, 50000); /* a deep socket buffer swallows it, the peer reads nothing */
    assert_true(conn_overdue(&c, PROGRESS - 1, 2000 + SEND));
    assert_int_equal(c.deadline_ms, 2000 + SEND);
}

static void a_slow_reader_of_a_deep_buffer_is_alive(void **state)
{
    uint64_t acked = 0, ms = 2000 + SEND;

    (void)state;
    feed_at(2000, "p100000\n");
    sent_at(2001, 50000);
    for (; acked + PROGRESS < 50000; ms += SEND) { /* nothing is sent: there is no room */
        acked += PROGRESS;
        assert_false(conn_overdue(&c, acked, ms));
        assert_int_equal(c.deadline_ms, ms + SEND);
    }
    assert_true(conn_overdue(&c, acked, ms)); /* and once it stops */
}

static void earlier_answers_on_their_way_give_one_window(void **state)
{
    (void)state;
    feed_at(2000, "p60000\n");
    sent_at(2001, strlen("+p60000\n") + 60000);
    feed_at(2002, "p90000\n"); /* the peer has 5000 of the first answer */
    assert_false(conn_overdue(&c, 5000, 2002 + SEND));
    assert_false(conn_overdue(&c, 5000 + PROGRESS, 2002 + 2 * SEND));
    assert_true(conn_overdue(&c, 5000 + 2 * PROGRESS - 1, 2002 + 3 * SEND));
}

/* The transport adds bytes, which are acknowledged, too. */
static void a_peer_may_have_more_than_was_sent(void **state)
{
    (void)state;
    feed_at(2000, "p100000\n");
    sent_at(2001, 50000);
    assert_false(conn_overdue(&c, 60000, 2000 + SEND));
    sent_at(2001 + SEND, 1); /* a byte is no progress */
    assert_int_equal(c.deadline_ms, 2000 + 2 * SEND);
    assert_false(conn_overdue(&c, 60000 + PROGRESS, 2000 + 2 * SEND));
    sent_at(2001 + 2 * SEND, 1);
    assert_true(conn_overdue(&c, 60000 + 2 * PROGRESS - 1, 2000 + 3 * SEND));
}

static void more_than_four_gigabytes_in_a_window(void **state)
{
    struct source *big = fake_source(fake, 'f', 0);
    uint64_t ms = 2000;

    (void)state;
    feed_at(ms, "m1\n"); /* in the middle of an answer: put a file of 9 GiB behind it */
    conn_put_source(&c, big, 0, 9ULL << 30);
    for (int i = 0; i < 8; i++) {
        sent_at(++ms, 1u << 30);
        assert_int_equal(c.want, CONN_SEND);
    }
    assert_ends_at(2008 + SEND); /* over 1 GiB is progress without a query: a new window each */
}

static void pieces_do_not_restart_the_window(void **state)
{
    (void)state;
    feed_at(2000, "m20\n");
    sent_at(3000, 5); /* "+m20\n" */
    sent_at(4000, 9); /* a piece */
    assert_int_equal(c.want, CONN_SEND);
    assert_ends_at(2000 + SEND);
}

/* --- Waiting, and other cases ----------------------------------------------------------------- */

static void a_wait_is_not_the_peers_fault(void **state)
{
    (void)state;
    feed_at(2000, "w5\n");
    for (uint64_t ms = 2000 + SEND; ms < 2000 + 10 * SEND; ms += SEND) {
        assert_int_equal(c.deadline_ms, ms);
        assert_false(overdue(ms));
    }
    fake->job_done = true;
    conn_resume(&c, 200000);
    assert_int_equal(c.deadline_ms, 200000 + SEND);
    sent_at(200001, 9);
    assert_ends_at(200001 + IDLE);
}

static void an_aborted_one_is_overdue(void **state)
{
    (void)state;
    feed_at(2000, "ea\n");
    conn_abort(&c);
    assert_true(overdue(2000 + SEND));
}

/* --- Promises --------------------------------------------------------------------------------- */

static void assert_dies(void (*breach)(void))
{
    struct rlimit none = {0, 0};
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (!pid) {
        setrlimit(RLIMIT_CORE, &none);
        fclose(stderr);
        breach();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), 6 /* SIGABRT */);
}

static long idle_input(struct conn *conn, const char *bytes, size_t n)
{
    (void)bytes;
    conn_more(conn, true);
    return (long)n;
}

static void idle_more(struct conn *conn)
{
    (void)conn;
}

static long greedy_input(struct conn *conn, const char *bytes, size_t n)
{
    (void)conn;
    (void)bytes;
    return (long)n + 1;
}

static void more_without_a_piece(void)
{
    static const struct conn_proto idle = {.name = "idle", .input = idle_input, .more = idle_more};

    conn_init(&c, &idle, &fake->host.conn, START);
    feed_at(START, "x");
}

static void more_used_than_given(void)
{
    static const struct conn_proto greedy = {.name = "greedy", .input = greedy_input};

    conn_init(&c, &greedy, &fake->host.conn, START);
    feed_at(START, "x");
}

static void fed_while_sending(void)
{
    feed_at(START, "ea\n");
    feed_at(START, "eb\n");
}

static void fed_too_much(void)
{
    conn_feed(&c, fake_bytes(), RECV_BYTES_MAX + 1, START);
}

static void sent_nothing(void)
{
    feed_at(START, "ea\n");
    conn_sent(&c, 0, START);
}

static void sent_too_much(void)
{
    feed_at(START, "ea\n");
    conn_sent(&c, 4, START);
}

static void sent_while_receiving(void)
{
    conn_sent(&c, 1, START);
}

static void wrote_too_much(void)
{
    conn_room(&c);
    conn_wrote(&c, OUTQ_BYTES + 1, false);
}

static void too_many_segments(void)
{
    struct source *source = fake_source(fake, 'p', 100);

    conn_room(&c);
    for (int i = 0; i <= OUT_SEGMENTS_MAX; i++)
        conn_lend_source(&c, source, 0, 1); /* a put source would be joined to a head */
}

static void broken_promises_end_the_process(void **state)
{
    (void)state;
    assert_dies(more_without_a_piece);
    assert_dies(more_used_than_given);
    assert_dies(fed_while_sending);
    assert_dies(fed_too_much);
    assert_dies(sent_nothing);
    assert_dies(sent_too_much);
    assert_dies(sent_while_receiving);
    assert_dies(wrote_too_much);
    assert_dies(too_many_segments);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_lines, close_lines)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_comes),
        TEST(the_first_byte_starts_the_head),
        TEST(a_drip_extends_nothing),
        TEST(what_came_while_nobody_looked_was_in_time),
        TEST(between_messages_it_idles),
        TEST(a_head_behind_an_answer),
        TEST(a_body_must_make_progress),
        TEST(a_body_after_an_interim_answer),
        TEST(a_body_read_between_answers),
        TEST(a_reader_must_make_progress),
        TEST(what_the_peer_has_counts_and_not_what_was_sent),
        TEST(a_slow_reader_of_a_deep_buffer_is_alive),
        TEST(earlier_answers_on_their_way_give_one_window),
        TEST(a_peer_may_have_more_than_was_sent),
        TEST(more_than_four_gigabytes_in_a_window),
        TEST(pieces_do_not_restart_the_window),
        TEST(a_wait_is_not_the_peers_fault),
        TEST(an_aborted_one_is_overdue),
        TEST(broken_promises_end_the_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
