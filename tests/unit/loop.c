/* SPDX-License-Identifier: MIT */
/* loop.c - what a loop promises its engine, asked one call at a time: no engine runs here, the
 * test is it. */
#include "../serving.h"
#include <setjmp.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <cmocka.h>

struct fixture {
    struct serving s;
    struct worker w;
    struct loop *l;
};

static void begin(struct fixture *f)
{
    f->w = (struct worker){
        .server = &f->s.srv,
        .listeners = 1,
        .stop_fd = f->s.srv.stop_fd,
        .stopping = &f->s.srv.stopping,
    };
    f->w.listener[0] = f->s.srv.listener[0];
    assert_int_equal(loop_open(&f->w, &f->l), 0);
}

static void end(struct fixture *f)
{
    loop_close(f->l);
    assert_int_equal(stats_live(f->s.srv.stats), 0);
    serving_empty(&f->s);
}

/* A client whose connection stands in the queue. */
static int knock(struct fixture *f)
{
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;
    int fd = client_open(f->s.port);

    assert_true(fd >= 0);
    while (!worker_awaited(&f->w) && serving_ms() < until_ms)
        serving_nap(1);
    assert_true(worker_awaited(&f->w));
    return fd;
}

static struct session *let_in(struct fixture *f, int *client)
{
    struct session *s;

    *client = knock(f);
    loop_tick(f->l);
    s = loop_welcome(f->l, 0);
    assert_non_null(s);
    return s;
}

/* Its client sends bytes, they have arrived, and the session is pumped. */
static enum conn_want talk(struct fixture *f, struct session *s, int client, const char *text)
{
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;

    assert_true(client_send(client, text, strlen(text)));
    while (net_unread(s->fd) < (long)strlen(text) && serving_ms() < until_ms)
        serving_nap(1);
    loop_tick(f->l);
    return session_pump(f->l, s);
}

/* --- The usual -------------------------------------------------------------------------------- */

static void welcome_pump_close(void **state)
{
    struct fixture f;
    struct session *s;
    char buf[8];
    int client;

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    begin(&f);
    assert_null(loop_welcome(f.l, 0)); /* nobody there */
    assert_true(loop_listening(f.l));
    assert_int_equal(loop_wait_ms(f.l), -1);
    s = let_in(&f, &client);
    assert_int_equal(f.l->live, 1);
    assert_int_equal(s->slot, 0);
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

static void date_is_there_from_the_start(void **state)
{
    struct fixture f;

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    begin(&f);
    assert_ptr_equal(f.l->host.date, f.l->date);
    assert_memory_equal(f.l->date + 25, " GMT", 4);
    f.l->date_s -= 1; /* as if a second had passed */
    memset(f.l->date, 'x', sizeof(f.l->date));
    loop_tick(f.l);
    assert_memory_equal(f.l->date + 25, " GMT", 4);
    end(&f);
}

static void memory_goes_round(void **state)
{
    enum { KEPT = 64 /* BUFFERS_KEPT_MAX of host.c */, MANY = KEPT + 10 };
    struct fixture f;
    struct host *h;
    void *mem[MANY], *again;
    unsigned warm = 0;

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    begin(&f);
    h = &f.l->host;
    for (unsigned i = 0; i < MANY; i++)
        assert_non_null(mem[i] = h->alloc(h->site, 1000));
    for (unsigned i = 0; i < MANY; i++)
        h->free(h->site, mem[i], 1000);
    again = h->alloc(h->site, 1000);
    for (unsigned i = 0; i < KEPT; i++)
        warm += again == mem[i];
    assert_int_equal(warm, 1); /* one of those that were kept, not of those beyond the bound */
    h->free(h->site, again, 1000);
    for (size_t size = 1; size < 20; size++) /* more sizes than there are lists */
        h->free(h->site, h->alloc(h->site, size), size);
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

/* The timer was set for the long idle time; a deadline that comes nearer must be kept all the
 * same. */
static void nearer_deadline_is_kept(void **state)
{
    struct fixture f;
    struct session *s;
    int client;

    (void)state;
    serving_fill(&f.s, &engine_epoll, &echo_proto);
    begin(&f);
    f.l->host.head_ms = 60000;
    s = let_in(&f, &client);
    f.l->host.idle_ms = 100;
    assert_int_equal(talk(&f, s, client, "x"), CONN_RECV);
    assert_ptr_equal(wait_expired(&f), s);
    session_close(f.l, s);
    close(client);
    end(&f);
}

/* And one that moves away is not cut at the old time. */
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

/* --- A full house ----------------------------------------------------------------------------- */

/* Long enough for whoever is silent to count as idle. */
static void grow_old(struct fixture *f)
{
    serving_nap(2 * EVICT_IDLE_MS_MIN);
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
    assert_null(loop_welcome(f.l, 0)); /* full, but nobody waits: nobody has to go */
    assert_true(loop_listening(f.l));
    assert_null(loop_expired(f.l));
    for (unsigned i = 0; i < MAX; i++) {
        assert_int_equal(talk(&f, s[(i + 1) % MAX], client[(i + 1) % MAX], "x"), CONN_RECV);
        serving_nap(20);
    }
    client[MAX] = knock(&f);
    grow_old(&f);
    assert_null(loop_welcome(f.l, 0));
    assert_false(loop_listening(f.l));
    assert_int_equal(loop_wait_ms(f.l), 0);
    assert_ptr_equal(loop_expired(f.l), s[1]); /* spoke first, so it is idle longest */
    session_close(f.l, s[1]);
    assert_true(loop_listening(f.l));
    assert_null(loop_expired(f.l));
    assert_non_null(loop_welcome(f.l, 0));
    assert_int_equal(stats_sum(f.s.srv.stats, STAT_EVICTED), 1);
    for (unsigned i = 0; i <= MAX; i++)
        close(client[i]);
    end(&f);
}

/* Who has come lately is not idle yet: what he asks for is on its way. */
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
    f.l->now_ms = session_idle_since_ms(s) + EVICT_IDLE_MS_MIN - 1;
    assert_null(loop_welcome(f.l, 0));
    assert_null(f.l->victim);
    f.l->paused = false;
    f.l->now_ms++;
    assert_null(loop_welcome(f.l, 0));
    assert_ptr_equal(f.l->victim, s);
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
    assert_null(loop_welcome(f.l, 0)); /* chosen ... */
    assert_ptr_equal(f.l->victim, s);
    assert_true(client_send(client, "wait", 4));
    while (net_unread(s->fd) < 4)
        serving_nap(1);
    assert_null(loop_expired(f.l)); /* ... and spared */
    assert_false(loop_listening(f.l));
    assert_true(loop_wait_ms(f.l) > 0);
    while (!loop_listening(f.l) && serving_ms() < until_ms) { /* tried again by and by */
        serving_nap(5);
        loop_tick(f.l);
    }
    assert_true(loop_listening(f.l));
    assert_int_equal(stats_sum(f.s.srv.stats, STAT_EVICTED), 0);
    close(client);
    close(waiting);
    end(&f);
}

/* An idle one behind more busy ones than one look takes in is found at the next looks. */
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
            s->conn.want = CONN_LINGER; /* stands for anything busy */
    }
    client[BUSY + 1] = knock(&f);
    grow_old(&f);
    for (unsigned looks = 0; !out && looks < 3; looks++) {
        f.l->paused = false;
        assert_null(loop_welcome(f.l, 0));
        out = loop_expired(f.l);
    }
    assert_ptr_equal(out, idle);
    for (unsigned i = 0; i <= BUSY + 1; i++)
        close(client[i]);
    end(&f);
}

/* Valgrind counts descriptors itself: it lets the kernel accept, then closes and says EMFILE. */
static bool under_valgrind(void)
{
    const char *preload = getenv("LD_PRELOAD");

    return preload && strstr(preload, "vgpreload");
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
    assert_null(loop_welcome(f.l, 0));
    assert_false(loop_listening(f.l)); /* so that nothing spins */
    assert_true(loop_wait_ms(f.l) > 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    while (!loop_listening(f.l) && serving_ms() < until_ms) {
        serving_nap(5);
        loop_tick(f.l);
    }
    if (under_valgrind())
        again = knock(&f);
    assert_non_null(loop_welcome(f.l, 0)); /* it waited in the queue */
    if (again >= 0)
        close(again);
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
    assert_true(loop_listening(f.l)); /* somebody waits in the queue */
    assert_non_null(loop_welcome(f.l, 0));
    loop_tick(f.l);
    assert_false(loop_listening(f.l));
    assert_true(loop_wait_ms(f.l) >= 0); /* a second signal must be seen */
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
    busy->conn.want = CONN_LINGER; /* stands for anything busy */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(welcome_pump_close),
        cmocka_unit_test(date_is_there_from_the_start),
        cmocka_unit_test(memory_goes_round),
        cmocka_unit_test(silent_one_expires_not_early),
        cmocka_unit_test(nearer_deadline_is_kept),
        cmocka_unit_test(later_deadline_is_granted),
        cmocka_unit_test(idlest_makes_room),
        cmocka_unit_test(newcomer_is_not_evicted),
        cmocka_unit_test(busy_one_is_not_evicted),
        cmocka_unit_test(idle_one_behind_many_busy_ones_is_found),
        cmocka_unit_test(no_descriptor_pauses_and_comes_back),
        cmocka_unit_test(stop_lets_busy_ones_finish),
        cmocka_unit_test(drain_ends),
        cmocka_unit_test(second_signal_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
