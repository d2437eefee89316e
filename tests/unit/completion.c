/* SPDX-License-Identifier: MIT */
/* completion.c - a session whose bytes the kernel moves: the promises to an engine of that kind,
 * with the test in the role of the kernel. */
#include "turns.h"

static struct session *accepted(struct fixture *f, int *client)
{
    int fd;

    *client = knock(f);
    loop_tick(f->l);
    fd = net_accept(f->w.listener[0], true);
    assert_true(fd >= 0);
    return loop_accepted(f->l, fd);
}

/* shows D33, S30 */
static void fed_and_sent(void **state)
{
    struct fixture f;
    struct session *s;
    struct conn_out out;
    int client;

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    begin(&f);
    s = accepted(&f, &client);
    assert_non_null(s);
    assert_int_equal(f.l->live, 1);
    assert_int_equal(session_fed(f.l, s, "hello", 5), CONN_SEND);
    out = conn_out(&s->conn);
    assert_int_equal(out.count, 1);
    assert_memory_equal(out.seg[0].bytes, "hello", 5);
    assert_int_equal(session_sent(f.l, s, 2), CONN_SEND);
    assert_int_equal(session_sent(f.l, s, 3), CONN_RECV);
    assert_int_equal(session_fed(f.l, s, NULL, 0), CONN_CLOSE);
    session_close(f.l, s);
    assert_int_equal(stats_sum(f.s.srv.stats, STAT_BYTES), 5);
    close(client);
    end(&f);
}

static void errors_end_it(void **state)
{
    struct fixture f;
    struct session *s;
    int client[3];

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    begin(&f);
    s = accepted(&f, &client[0]);
    assert_int_equal(session_fed(f.l, s, NULL, -ECONNRESET), CONN_CLOSE);
    session_close(f.l, s);
    for (unsigned i = 1; i < 3; i++) {
        s = accepted(&f, &client[i]);
        assert_int_equal(session_fed(f.l, s, "x", 1), CONN_SEND);
        assert_int_equal(session_sent(f.l, s, i == 1 ? 0 : -EPIPE), CONN_CLOSE);
        session_close(f.l, s);
    }
    for (unsigned i = 0; i < 3; i++)
        close(client[i]);
    end(&f);
}

/* Results of accepting that are not a socket. */
static void accepting_errors(void **state)
{
    struct fixture f;

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    begin(&f);
    assert_null(loop_accepted(f.l, -ECONNABORTED)); /* a peer has gone */
    assert_null(loop_accepted(f.l, -EAGAIN));
    assert_true(loop_listening(f.l));
    assert_null(loop_accepted(f.l, -EMFILE));
    assert_false(loop_listening(f.l)); /* a pause, then it is tried again */
    assert_true(loop_wait_ms(f.l) > 0);
    serving_nap(2 * ROOM_IDLE_MS);
    loop_tick(f.l);
    assert_true(loop_listening(f.l));
    end(&f);
}

/* An expired session that an operation still uses is not returned twice; if bytes came after all it
 * goes on, and is found again when it is silent again. */
static void cancelled_and_undone(void **state)
{
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;
    struct fixture f;
    struct session *s, *found = NULL;
    int client;

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    f.s.srv.head_ms = 50;
    f.s.srv.idle_ms = 150;
    begin(&f);
    s = accepted(&f, &client);
    serving_nap(200);
    loop_tick(f.l);
    assert_ptr_equal(loop_expired(f.l), s);
    session_cancel_begin(s);
    serving_nap(200);
    loop_tick(f.l);
    assert_null(loop_expired(f.l));
    session_cancel_undo(f.l, s);
    assert_int_equal(session_fed(f.l, s, "x", 1), CONN_SEND);
    assert_int_equal(session_sent(f.l, s, 1), CONN_RECV);
    assert_null(loop_expired(f.l));
    while (!found && serving_ms() < until_ms) {
        serving_nap(5);
        loop_tick(f.l);
        found = loop_expired(f.l);
    }
    assert_ptr_equal(found, s);
    session_close(f.l, s);
    close(client);
    end(&f);
}

/* One session is being cancelled while the server is cut off: the others are still returned. */
static void cancelled_is_not_in_the_way(void **state)
{
    struct fixture f;
    struct session *s[2];
    int client[2];

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    begin(&f);
    for (unsigned i = 0; i < 2; i++)
        s[i] = accepted(&f, &client[i]);
    session_cancel_begin(s[0]);
    server_stop(&f.s.srv);
    server_stop(&f.s.srv);
    loop_tick(f.l);
    assert_ptr_equal(loop_expired(f.l), s[1]);
    session_cancel_begin(s[1]);
    assert_null(loop_expired(f.l));
    for (unsigned i = 0; i < 2; i++)
        close(client[i]);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fed_and_sent),
        cmocka_unit_test(errors_end_it),
        cmocka_unit_test(accepting_errors),
        cmocka_unit_test(cancelled_and_undone),
        cmocka_unit_test(cancelled_is_not_in_the_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
