/* SPDX-License-Identifier: MIT */
/* room.c - a loop whose slots are all taken, or that has no descriptor left: which connection is
 * closed, which stays, when the loop listens again. */
#include "turns.h"
#include <sys/resource.h>

/* Wait long enough for silent connections to count as idle. */
static void grow_old(struct fixture *f)
{
    serving_nap(2 * ROOM_IDLE_MS);
    loop_tick(f->l);
}

static void idlest_makes_room(void **state)
{
    enum { MAX = 3 };
    struct fixture f;
    struct session *s[MAX];
    int client[MAX + 1];

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    f.s.srv.connections_max = MAX;
    begin(&f);
    for (unsigned i = 0; i < MAX; i++)
        s[i] = let_in(&f, &client[i]);
    assert_null(loop_accept(f.l, 0)); /* full, but no client waits: none is closed */
    assert_true(loop_listening(f.l));
    assert_null(loop_expired(f.l));
    for (unsigned i = 0; i < MAX; i++) {
        assert_int_equal(talk(&f, s[(i + 1) % MAX], client[(i + 1) % MAX], "x"), CONN_RECV);
        serving_nap(20);
    }
    client[MAX] = knock(&f);
    grow_old(&f);
    assert_null(loop_accept(f.l, 0));
    assert_false(loop_listening(f.l));
    assert_int_equal(loop_wait_ms(f.l), 0);
    assert_ptr_equal(loop_expired(f.l), s[1]); /* spoke first, so it is idle longest */
    session_close(f.l, s[1]);
    assert_true(loop_listening(f.l));
    assert_null(loop_expired(f.l));
    assert_non_null(loop_accept(f.l, 0));
    assert_int_equal(stats_sum(f.s.srv.stats, STAT_EVICTED), 1);
    for (unsigned i = 0; i <= MAX; i++)
        close(client[i]);
    end(&f);
}

/* A newly accepted connection is not idle yet: its request may be on its way. */
static void newcomer_is_not_evicted(void **state)
{
    struct fixture f;
    struct session *s;
    int client, waiting;

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    f.s.srv.connections_max = 1;
    begin(&f);
    s = let_in(&f, &client);
    waiting = knock(&f);
    f.l->now_ms = room_idle_since_ms(&s->conn) + ROOM_IDLE_MS - 1;
    assert_null(loop_accept(f.l, 0));
    assert_int_equal(f.l->victims->count, 0);
    f.l->paused = false;
    f.l->now_ms++;
    assert_null(loop_accept(f.l, 0));
    assert_ptr_equal(f.l->victims->row[0].conn, &s->conn);
    close(client);
    close(waiting);
    end(&f);
}

/* A request that has arrived, read or not, keeps its connection. */
static void busy_one_is_not_evicted(void **state)
{
    struct fixture f;
    struct session *s;
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;
    int client, waiting;

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    f.s.srv.connections_max = 1;
    begin(&f);
    s = let_in(&f, &client);
    waiting = knock(&f);
    grow_old(&f);
    assert_null(loop_accept(f.l, 0)); /* chosen ... */
    assert_ptr_equal(f.l->victims->row[0].conn, &s->conn);
    assert_true(client_send(client, "wait", 4));
    while (net_unread(s->fd) < 4)
        serving_nap(1);
    assert_null(loop_expired(f.l)); /* ... and spared */
    assert_false(loop_listening(f.l));
    assert_true(loop_wait_ms(f.l) > 0);
    while (!loop_listening(f.l) && serving_ms() < until_ms) { /* tried again after a while */
        serving_nap(5);
        loop_tick(f.l);
    }
    assert_true(loop_listening(f.l));
    assert_int_equal(stats_sum(f.s.srv.stats, STAT_EVICTED), 0);
    close(client);
    close(waiting);
    end(&f);
}

/* In one turn as many are closed as clients wait, the oldest first, and no more. */
static void as_many_go_as_wait(void **state)
{
    enum { MAX = 5, WAITING = 3 };
    struct fixture f;
    struct session *s[MAX];
    int client[MAX + WAITING];

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    f.s.srv.connections_max = MAX;
    begin(&f);
    for (unsigned i = 0; i < MAX; i++) {
        s[i] = let_in(&f, &client[i]);
        serving_nap(10);
    }
    for (unsigned i = 0; i < WAITING; i++)
        client[MAX + i] = knock(&f);
    while (net_queued(f.w.listener[0]) < WAITING)
        serving_nap(1);
    grow_old(&f);
    assert_null(loop_accept(f.l, 0));
    for (unsigned i = 0; i < WAITING; i++) {
        assert_int_equal(loop_wait_ms(f.l), 0);
        assert_ptr_equal(loop_expired(f.l), s[i]);
        session_close(f.l, s[i]);
    }
    assert_null(loop_expired(f.l));
    for (unsigned i = 0; i < WAITING; i++)
        assert_non_null(loop_accept(f.l, 0));
    assert_int_equal(stats_sum(f.s.srv.stats, STAT_EVICTED), WAITING);
    for (unsigned i = 0; i < MAX + WAITING; i++)
        close(client[i]);
    end(&f);
}

/* A chosen connection that is closed before its turn, or whose request comes, is passed over. */
static void chosen_one_may_end_first(void **state)
{
    enum { MAX = 2, WAITING = 2 };
    struct fixture f;
    struct session *s[MAX];
    int client[MAX + WAITING];

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    f.s.srv.connections_max = MAX;
    begin(&f);
    for (unsigned i = 0; i < MAX; i++)
        s[i] = let_in(&f, &client[i]);
    for (unsigned i = 0; i < WAITING; i++)
        client[MAX + i] = knock(&f);
    while (net_queued(f.w.listener[0]) < WAITING)
        serving_nap(1);
    grow_old(&f);
    assert_null(loop_accept(f.l, 0));
    session_close(f.l, s[0]);
    assert_ptr_equal(loop_expired(f.l), s[1]);
    session_close(f.l, s[1]);
    assert_null(loop_expired(f.l));
    assert_int_equal(stats_sum(f.s.srv.stats, STAT_EVICTED), 1);
    for (unsigned i = 0; i < MAX + WAITING; i++)
        close(client[i]);
    end(&f);
}

/* An idle connection behind more busy ones than one look covers is found at the next looks. */
static void idle_one_behind_many_busy_ones_is_found(void **state)
{
    enum { BUSY = 150 };
    static int client[BUSY + 2];
    struct fixture f;
    struct session *s, *idle = NULL, *out = NULL;

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    f.s.srv.connections_max = BUSY + 1;
    begin(&f);
    for (unsigned i = 0; i <= BUSY; i++) {
        s = let_in(&f, &client[i]);
        if (i == BUSY - 1)
            idle = s;
        else
            s->conn.want = CONN_LINGER; /* stands for any busy state */
    }
    client[BUSY + 1] = knock(&f);
    grow_old(&f);
    for (unsigned looks = 0; !out && looks < 3; looks++) {
        f.l->paused = false;
        assert_null(loop_accept(f.l, 0));
        out = loop_expired(f.l);
    }
    assert_ptr_equal(out, idle);
    for (unsigned i = 0; i <= BUSY + 1; i++)
        close(client[i]);
    end(&f);
}

static void no_descriptor_pauses_and_comes_back(void **state)
{
    struct rlimit before, none;
    struct fixture f;
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;
    int client, spare, again = -1;

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    begin(&f);
    client = knock(&f);
    spare = dup(client); /* the lowest free number */
    assert_true(spare >= 0);
    close(spare);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)spare;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    loop_tick(f.l);
    assert_null(loop_accept(f.l, 0));
    assert_false(loop_listening(f.l)); /* so that nothing spins */
    assert_true(loop_wait_ms(f.l) > 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    while (!loop_listening(f.l) && serving_ms() < until_ms) {
        serving_nap(5);
        loop_tick(f.l);
    }
    /* Valgrind counts descriptors itself: it lets the kernel accept, closes, and says EMFILE. */
    if (serving_under_valgrind())
        again = knock(&f);
    assert_non_null(loop_accept(f.l, 0)); /* the client waited in the queue */
    if (again >= 0)
        close(again);
    close(client);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idlest_makes_room),
        cmocka_unit_test(newcomer_is_not_evicted),
        cmocka_unit_test(busy_one_is_not_evicted),
        cmocka_unit_test(as_many_go_as_wait),
        cmocka_unit_test(chosen_one_may_end_first),
        cmocka_unit_test(idle_one_behind_many_busy_ones_is_found),
        cmocka_unit_test(no_descriptor_pauses_and_comes_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
