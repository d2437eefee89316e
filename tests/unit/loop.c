/* SPDX-License-Identifier: MIT */
/* loop.c - the promises of a loop to its engine, one call at a time: sessions, deadlines,
 * stopping. */
#include <sys/epoll.h>
#include "turns.h"

/* --- The usual course ------------------------------------------------------------------------- */

static void accept_pump_close(void **state)
{
    struct fixture f;
    struct session *s;
    char buf[8];
    int client;

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    begin(&f);
    assert_null(loop_accept(f.l, 0)); /* no client there */
    assert_true(loop_listening(f.l));
    assert_int_equal(loop_wait_ms(f.l), -1);
    s = let_in(&f, &client);
    assert_int_equal(f.l->live, 1);
    assert_int_equal(s->engine_data, 0);
    assert_true(loop_wait_ms(f.l) > 0); /* its head's deadline */
    assert_int_equal(talk(&f, s, client, "hello"), CONN_RECV);
    assert_int_equal(client_recv(client, buf, sizeof(buf)), 5);
    close(client);
    while (session_pump(f.l, s) != CONN_CLOSE)
        serving_nap(1);
    session_close(f.l, s);
    assert_int_equal(f.l->live, 0);
    assert_int_equal(stats_sum(f.s.srv.stats, STAT_BYTES), 5);
    end(&f);
}

/* The events that an epoll set reports of a socket whose session is gone while a copy of its
 * descriptor remains. */
static int events_without_session(bool stays_open)
{
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;
    struct epoll_event ev = {.events = EPOLLIN};
    int client, copy, n, set = epoll_create1(EPOLL_CLOEXEC);
    struct fixture f;
    struct session *s;

    serving_fill(&f.s, &engine_epoll, &echo_proto);
    begin(&f);
    loop_has_set(f.l, set);
    s = let_in(&f, &client);
    assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, s->fd, &ev), 0);
    copy = dup(s->fd);
    if (stays_open)
        conn_stays_open(&s->conn);
    session_close(f.l, s);
    assert_true(client_send(client, "hello", 5));
    while (net_unread(copy) < 5 && serving_ms() < until_ms)
        serving_nap(1);
    assert_int_equal(net_unread(copy), 5);
    n = epoll_wait(set, &ev, 1, 0);
    close(copy);
    close(client);
    end(&f);
    close(set);
    return n;
}

static void a_socket_that_stays_open_leaves_the_set(void **state)
{
    (void)state;
    assert_int_equal(events_without_session(true), 0);
    assert_int_equal(events_without_session(false), 1); /* why that is needed */
}

static void date_is_there_from_the_start(void **state)
{
    struct fixture f;

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    begin(&f);
    assert_ptr_equal(f.l->host.date, f.l->date);
    assert_memory_equal(f.l->date + 25, " GMT", 4);
    f.l->host.date_s -= 1; /* as if a second had passed */
    memset(f.l->date, 'x', sizeof(f.l->date));
    loop_tick(f.l);
    assert_memory_equal(f.l->date + 25, " GMT", 4);
    end(&f);
}

static void memory_goes_round(void **state)
{
    enum { KEPT = 64 /* BUFFERS_KEPT_MAX of host.c */, MANY = KEPT + 10 };
    struct fixture f;
    struct conn_host *h;
    void *mem[MANY], *again;
    unsigned warm = 0;

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    begin(&f);
    h = &f.l->host.conn;
    for (unsigned i = 0; i < MANY; i++)
        assert_non_null(mem[i] = h->alloc(h->ctx, 1000));
    for (unsigned i = 0; i < MANY; i++)
        h->free(h->ctx, mem[i], 1000);
    again = h->alloc(h->ctx, 1000);
    for (unsigned i = 0; i < KEPT; i++)
        warm += again == mem[i];
    assert_int_equal(warm, 1); /* one of the kept blocks, not one beyond the bound */
    h->free(h->ctx, again, 1000);
    for (size_t size = 1; size < 20; size++) /* more sizes than there are lists */
        h->free(h->ctx, h->alloc(h->ctx, size), size);
    end(&f);
}

/* --- Deadlines -------------------------------------------------------------------------------- */

static struct session *wait_expired(struct fixture *f)
{
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;
    struct session *s = NULL;

    while (!s && serving_ms() < until_ms) {
        serving_nap(5);
        loop_tick(f->l);
        s = loop_expired(f->l);
    }
    return s;
}

static void silent_one_expires_not_early(void **state)
{
    struct fixture f;
    struct session *s;
    uint64_t began_ms;
    int client;

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    f.s.srv.head_ms = 200;
    begin(&f);
    began_ms = serving_ms();
    s = let_in(&f, &client);
    assert_ptr_equal(wait_expired(&f), s);
    assert_true(serving_ms() - began_ms >= 190); /* the coarse clock may lag a tick */
    session_close(f.l, s);
    close(client);
    assert_int_equal(stats_sum(f.s.srv.stats, STAT_EXPIRED), 1);
    end(&f);
}

/* The timer was set for the long idle time; an earlier deadline must still be kept. */
static void nearer_deadline_is_kept(void **state)
{
    struct fixture f;
    struct session *s;
    int client;

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    begin(&f);
    f.l->host.conn.head_ms = 60000;
    s = let_in(&f, &client);
    f.l->host.conn.idle_ms = 100;
    assert_int_equal(talk(&f, s, client, "x"), CONN_RECV);
    assert_ptr_equal(wait_expired(&f), s);
    session_close(f.l, s);
    close(client);
    end(&f);
}

/* And a deadline that moves away is not cut at the old time. */
/* shows K28 */
static void later_deadline_is_granted(void **state)
{
    struct fixture f;
    struct session *s;
    uint64_t began_ms = serving_ms();
    int client;

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    f.s.srv.head_ms = 100;
    f.s.srv.idle_ms = 500;
    begin(&f);
    s = let_in(&f, &client);
    assert_int_equal(talk(&f, s, client, "x"), CONN_RECV);
    assert_ptr_equal(wait_expired(&f), s);
    assert_true(serving_ms() - began_ms >= 490);
    session_close(f.l, s);
    close(client);
    end(&f);
}

/* --- Stopping --------------------------------------------------------------------------------- */

static void stop_lets_busy_ones_finish(void **state)
{
    struct fixture f;
    struct session *idle, *busy;
    int client[3];

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    begin(&f);
    idle = let_in(&f, &client[0]);
    busy = let_in(&f, &client[1]);
    assert_true(client_send(client[1], "unread", 6));
    while (net_unread(busy->fd) < 6)
        serving_nap(1);
    client[2] = knock(&f);
    assert_false(loop_done(f.l));
    server_stop(&f.s.srv);
    loop_tick(f.l);
    assert_true(f.l->host.closing);
    assert_false(loop_done(f.l));
    assert_true(loop_listening(f.l)); /* a client waits in the queue */
    f.w.conn_max = 1;                    /* ... and is accepted whatever the slots */
    assert_non_null(loop_accept(f.l, 0));
    assert_null(loop_expired(f.l)); /* the clients' next requests may be on the way */
    for (unsigned ms = 0; loop_listening(f.l); ms++) {
        assert_in_range(ms, 0, SERVING_PATIENCE_MS);
        serving_nap(1);
        loop_tick(f.l);
        assert_false(loop_done(f.l));
    }
    assert_false(f.w.left); /* the engine has not taken the listeners out of its set yet */
    assert_int_equal(loop_wait_ms(f.l), 0);
    assert_false(loop_done(f.l));
    assert_true(f.w.left);
    assert_int_equal(client_open(f.s.port), -ECONNREFUSED);
    assert_int_equal(net_accept(f.w.listener[0], false), -ENOTSOCK); /* the number stays in use */
    assert_in_range(loop_wait_ms(f.l), 0, 1000); /* a second signal must be seen */
    serving_nap(2 * ROOM_IDLE_MS);
    loop_tick(f.l);
    for (unsigned i = 0; i < 2; i++) { /* the idle one, and the silent one from the queue */
        struct session *s = loop_expired(f.l);

        assert_non_null(s);
        assert_ptr_not_equal(s, busy);
        assert_true(i > 0 || s == idle);
        session_close(f.l, s);
    }
    assert_null(loop_expired(f.l));
    assert_false(loop_done(f.l));
    session_close(f.l, busy);
    assert_true(loop_done(f.l));
    for (unsigned i = 0; i < 3; i++)
        close(client[i]);
    end(&f);
}

/* A client connects before each turn: as many as the queue could hold at the stop are accepted, and
 * as many again, and no more. */
static void stop_has_a_last_client(void **state)
{
    enum { QUEUED = 3, LAST = 2 * (QUEUED + 1) };
    struct net_address a;
    struct fixture f;
    int client[LAST + 1];
    char text[64];

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    close(f.s.srv.listener[0][0]);
    snprintf(text, sizeof(text), "unix:/tmp/rung-loop-%d", (int)getpid());
    net_address_parse(&a, text, 0);
    f.s.srv.listener[0][0] = net_listen(&a, &(struct net_listening){.backlog = QUEUED});
    assert_true(f.s.srv.listener[0][0] >= 0);
    f.s.srv.backlog = QUEUED;
    begin(&f);
    server_stop(&f.s.srv);
    loop_tick(f.l);
    serving_nap(2 * LAST_CALL_MS + 10); /* the clock has ticks of up to 10 ms */
    for (unsigned i = 0; i <= LAST; i++) {
        client[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(client[i], (const struct sockaddr *)&a.sa, a.len), 0);
        loop_tick(f.l);
        assert_false(loop_done(f.l));
        assert_int_equal(f.w.left, false);
        assert_int_equal(loop_listening(f.l), i < LAST);
        assert_int_equal(loop_accept(f.l, 0) != NULL, i < LAST);
    }
    assert_false(loop_done(f.l));
    assert_true(f.w.left);
    assert_true(client_ended(client[LAST]));
    for (unsigned i = 0; i <= LAST; i++)
        close(client[i]);
    end(&f);
}

static void stop_cuts_off(bool by_signal)
{
    struct fixture f;
    struct session *busy;
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;
    int client;

    serving_fill(&f.s, &engine_epoll, &echo_proto);
    f.s.srv.drain_ms = by_signal ? 60000 : 100;
    begin(&f);
    busy = let_in(&f, &client);
    busy->conn.want = CONN_LINGER; /* stands for any busy state */
    server_stop(&f.s.srv);
    loop_tick(f.l);
    assert_null(loop_expired(f.l));
    assert_false(loop_done(f.l));
    if (by_signal)
        server_stop(&f.s.srv);
    do
        loop_tick(f.l);
    while (!loop_done(f.l) && serving_ms() < until_ms);
    assert_true(loop_done(f.l));
    assert_ptr_equal(loop_expired(f.l), busy);
    close(client);
    end(&f);
}

static void drain_ends(void **state)
{
    (void)state;
    stop_cuts_off(false);
}

static void second_signal_ends(void **state)
{
    (void)state;
    stop_cuts_off(true);
}

/* --busy: the loop polls for a while after a new connection and after each receive, not for
 * ever. */
static void busy_for_a_while(void **state)
{
    enum { BUSY_US = 50000, FOREVER_US = 3600u * 1000000 };
    struct fixture f;
    struct session *s;
    uint64_t until_ms;
    int client;

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    begin(&f);
    f.w.tuning.busy_us = FOREVER_US;
    assert_int_equal(loop_wait_ms(f.l), -1); /* no event has happened yet */
    s = let_in(&f, &client);
    assert_int_equal(loop_wait_ms(f.l), 0);
    assert_int_equal(loop_wait_ms(f.l), 0);
    f.w.tuning.busy_us = BUSY_US;
    assert_int_equal(talk(&f, s, client, "hello"), CONN_RECV);
    until_ms = serving_ms() + SERVING_PATIENCE_MS;
    while (loop_wait_ms(f.l) == 0 && serving_ms() < until_ms) /* from the receive on, no longer */
        serving_nap(1);
    assert_true(loop_wait_ms(f.l) > 0);
    f.w.tuning.busy_us = FOREVER_US;
    assert_true(loop_wait_ms(f.l) > 0); /* no event has happened since */
    assert_int_equal(talk(&f, s, client, "again"), CONN_RECV);
    assert_int_equal(loop_wait_ms(f.l), 0);
    f.w.tuning.busy_us = 0;
    assert_true(loop_wait_ms(f.l) > 0);
    close(client);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accept_pump_close),
        cmocka_unit_test(a_socket_that_stays_open_leaves_the_set),
        cmocka_unit_test(date_is_there_from_the_start),
        cmocka_unit_test(memory_goes_round),
        cmocka_unit_test(silent_one_expires_not_early),
        cmocka_unit_test(nearer_deadline_is_kept),
        cmocka_unit_test(later_deadline_is_granted),
        cmocka_unit_test(stop_lets_busy_ones_finish),
        cmocka_unit_test(stop_has_a_last_client),
        cmocka_unit_test(busy_for_a_while),
        cmocka_unit_test(drain_ends),
        cmocka_unit_test(second_signal_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
