/* SPDX-License-Identifier: MIT */
/* pump.c - the pump: how many calls it makes, when it stops, and what it does with each result of
 * the transport. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "../world.h"

static struct world w;

static int open_world(void **state)
{
    (void)state;
    world_open(&w, &lines_proto, 1);
    w.silent = true;
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    conn_fini(&w.c);
    world_close(&w);
    return 0;
}

static void peer_sends(const char *text)
{
    w.in = text;
    w.in_len = strlen(text);
    w.in_at = 0;
}

static enum conn_want pump(void)
{
    enum conn_want want = conn_pump(&w.c, &w.pump, w.now);

    world_check(&w);
    return want;
}

/* shows N15 */
static void the_usual_request_is_one_receive_and_one_send(void **state)
{
    (void)state;
    peer_sends("ea\nf500\n");
    assert_int_equal(pump(), CONN_RECV);
    assert_int_equal(w.recvs, 1);
    assert_int_equal(w.sends, 1);
    assert_int_equal(w.out.len, 3 + 6 + 500);
    assert_false(w.pump.more);
    assert_int_equal(pump(), CONN_RECV); /* readable again, and nothing is there */
    assert_int_equal(w.recvs, 2);
}

static void an_edge_is_read_until_it_is_dry(void **state)
{
    (void)state;
    w.pump.edge = true;
    peer_sends("ea\n");
    assert_int_equal(pump(), CONN_RECV);
    assert_int_equal(w.recvs, 2);
    w.silent = false; /* data and the end of the stream are one edge */
    peer_sends("eb\n");
    assert_int_equal(pump(), CONN_CLOSE);
    assert_int_equal(w.out.len, 6);
}

static void the_end_of_the_stream_is_no_error(void **state)
{
    (void)state;
    w.silent = false;
    peer_sends("ea\npart");
    assert_int_equal(pump(), CONN_RECV); /* the answer is sent, and all received bytes were read */
    assert_int_equal(pump(), CONN_CLOSE);
    assert_int_equal(w.out.len, strlen("ea\n~4\n"));
    assert_int_equal(w.shuts, 0);
}

static void a_full_receive_is_followed_by_another(void **state)
{
    static char in[2 * RECV_BYTES_MAX + 1];

    (void)state;
    memset(in, 'x', sizeof(in) - 1);
    conn_fini(&w.c);
    conn_init(&w.c, &echo_proto, &w.fake->host.conn, w.now);
    peer_sends(in);
    assert_int_equal(pump(), CONN_RECV);
    assert_int_equal(w.out.len, 2 * RECV_BYTES_MAX);
    assert_int_equal(w.recvs, 3); /* two full receives, and -EAGAIN */
}

static void a_full_socket_is_waited_for(void **state)
{
    (void)state;
    w.stall_at = 100;
    peer_sends("p300\n");
    assert_int_equal(pump(), CONN_SEND);
    assert_int_equal(w.out.len, 100);
    assert_int_equal(w.sends, 2);
    w.stall_at = SIZE_MAX;
    assert_int_equal(pump(), CONN_RECV);
    assert_int_equal(w.out.len, 306);
}

static void the_budget_is_kept(void **state)
{
    char line[32];
    unsigned turns = 1;

    (void)state;
    snprintf(line, sizeof(line), "f%d\n", PUMP_BYTES_MAX * 2);
    w.send_max = TRANSFER_BYTES_MAX;
    peer_sends(line);
    assert_int_equal(pump(), CONN_SEND);
    assert_true(w.pump.more);
    assert_true(w.out.len >= PUMP_BYTES_MAX - strlen(line));
    assert_true(w.out.len < PUMP_BYTES_MAX + TRANSFER_BYTES_MAX);
    for (; pump() == CONN_SEND; turns++)
        assert_true(w.pump.more);
    assert_false(w.pump.more);
    assert_in_range(turns, 1, 2); /* the last transfer may exceed the budget, by less than itself */
    assert_int_equal(w.c.want, CONN_RECV);
}

/* One byte of budget left is enough to go on; none left ends the turn. */
static void the_budget_to_the_byte(void **state)
{
    char line[32];
    unsigned both;

    (void)state;
    for (unsigned size = PUMP_BYTES_MAX - 20; size < PUMP_BYTES_MAX; size++) {
        world_close(&w);
        world_open(&w, &lines_proto, 1);
        w.silent = w.pump.edge = true;
        snprintf(line, sizeof(line), "p%u\n", size);
        peer_sends(line);
        both = (unsigned)(2 * strlen(line)) + 1 + size; /* in; out: "+", the line, the bytes */
        assert_int_equal(pump(), CONN_RECV);
        assert_int_equal(w.out.len + w.in_len, both);
        assert_int_equal(w.pump.more, both >= PUMP_BYTES_MAX);
    }
}

/* Small answers: some fit into one send, and after many sends other connections get their turn. */
static void the_budget_of_calls(void **state)
{
    static char in[RECV_BYTES_MAX];
    unsigned within = 0, beyond = 0, calls;

    (void)state;
    for (size_t n = 3; beyond == 0 && n < sizeof(in); n += 3) {
        world_close(&w);
        open_world(NULL);
        memcpy(in + n - 3, "ea\n", 4);
        peer_sends(in);
        pump();
        calls = w.recvs + w.sends;
        assert_in_range(calls, 2, PUMP_CALLS_MAX);
        if (w.pump.more) {
            assert_int_equal(calls, PUMP_CALLS_MAX);
            assert_int_equal(w.c.want, CONN_SEND);
            assert_true(w.out.len < n);
            beyond++;
        }
        within += !w.pump.more && calls == PUMP_CALLS_MAX; /* the last call that is allowed */
        while (w.pump.more)
            pump();
        assert_int_equal(w.c.want, CONN_RECV);
        assert_int_equal(w.out.len, n);
    }
    assert_true(within > 0);
    assert_int_equal(beyond, 1);
}

static void a_wait_moves_nothing(void **state)
{
    (void)state;
    peer_sends("w5\n");
    assert_int_equal(pump(), CONN_WAIT);
    assert_int_equal(pump(), CONN_WAIT);
    assert_int_equal(w.recvs, 1);
    world_host_is_ready(&w);
    assert_int_equal(pump(), CONN_RECV);
    assert_int_equal(w.out.len, 9);
}

static void lingering_shuts_once(void **state)
{
    (void)state;
    peer_sends("c\nmore\n");
    assert_int_equal(pump(), CONN_LINGER);
    assert_int_equal(w.shuts, 1);
    assert_int_equal(w.recvs, 1); /* the socket was drained */
    assert_int_equal(pump(), CONN_LINGER);
    assert_int_equal(w.shuts, 1);
    w.silent = false;
    assert_int_equal(pump(), CONN_CLOSE);
    assert_int_equal(pump(), CONN_CLOSE);
    assert_int_equal(w.shuts, 1);
}

/* A connection that ended between two pumps is still shut down. */
static void lingering_after_a_resume_shuts_too(void **state)
{
    (void)state;
    peer_sends("ea\nw5\n");
    assert_int_equal(pump(), CONN_WAIT);
    w.fake->fail_alloc = w.fake->n.allocs + 1; /* no send queue: the connection ends */
    world_host_is_ready(&w);
    assert_int_equal(w.c.want, CONN_LINGER);
    assert_int_equal(w.shuts, 0);
    assert_int_equal(pump(), CONN_LINGER);
    assert_int_equal(w.shuts, 1);
}

static void errors_close(void **state)
{
    (void)state;
    peer_sends("ea\n");
    w.wrong = WRONG_RESET;
    w.wrong_at = 1;
    assert_int_equal(pump(), CONN_CLOSE);
    assert_int_equal(w.out.len, 0);
    world_close(&w);

    open_world(NULL);
    peer_sends("ea\n");
    w.wrong = WRONG_RESET;
    w.wrong_at = 2;
    assert_int_equal(pump(), CONN_CLOSE);
    conn_fini(&w.c);
    assert_int_equal(w.fake->n.answered, 1);
    assert_int_equal(w.fake->n.complete, 0);
}

static void a_file_that_became_shorter_closes(void **state)
{
    (void)state;
    peer_sends("ea\nt100\neb\n");
    assert_int_equal(pump(), CONN_CLOSE);
    assert_int_equal(w.out.len, 3 + 6 + 50); /* nothing follows an answer that is cut off */
    conn_fini(&w.c);
    assert_int_equal(w.fake->n.complete, 1);
    assert_int_equal(w.fake->body_bytes, 50);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_usual_request_is_one_receive_and_one_send),
        TEST(an_edge_is_read_until_it_is_dry),
        TEST(the_end_of_the_stream_is_no_error),
        TEST(a_full_receive_is_followed_by_another),
        TEST(a_full_socket_is_waited_for),
        TEST(the_budget_is_kept),
        TEST(the_budget_to_the_byte),
        TEST(the_budget_of_calls),
        TEST(a_wait_moves_nothing),
        TEST(lingering_shuts_once),
        TEST(lingering_after_a_resume_shuts_too),
        TEST(errors_close),
        TEST(a_file_that_became_shorter_closes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
