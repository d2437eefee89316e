/* SPDX-License-Identifier: MIT */
/* slots.c - a client waiting on a shared listener is served while any worker has a free slot,
 * however long a connection is on its way from the queue to its thread, and no other client loses
 * its slot for it.
 *
 * The linker sends watchdog_add() through here, which delays a thread that begins to serve.  A
 * worker that believed in a free slot during that time would sleep on the listener without having
 * one.  The kernel wakes one worker for a client; if it wakes that worker, the client waits for
 * ever although another worker is free.
 */
#include "../serving.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { LATE_MS = 200, START_MS = 100, WORKERS = 2 };

void __real_watchdog_add(struct watchdog *wd, struct session *s);
void __wrap_watchdog_add(struct watchdog *wd, struct session *s);
void __wrap_watchdog_add(struct watchdog *wd, struct session *s)
{
    serving_nap(LATE_MS);
    __real_watchdog_add(wd, s);
}

static atomic_bool works; /* a thread is at work on its session for LATE_MS more */

void __real_watchdog_leave(struct watchdog *wd, struct session *s);
void __wrap_watchdog_leave(struct watchdog *wd, struct session *s);
void __wrap_watchdog_leave(struct watchdog *wd, struct session *s)
{
    if (atomic_exchange(&works, false))
        serving_nap(LATE_MS);
    __real_watchdog_leave(wd, s);
}

static atomic_int glimpses; /* times a worker sees a waiting client that is not there */
static atomic_bool unseen;  /* no worker sees a waiting client, and so none makes room for it */

bool __real_worker_awaited(const struct worker *w);
bool __wrap_worker_awaited(const struct worker *w);
bool __wrap_worker_awaited(const struct worker *w)
{
    if (atomic_load(&unseen))
        return false;
    if (atomic_load(&glimpses) <= 0)
        return __real_worker_awaited(w);
    atomic_fetch_sub(&glimpses, 1);
    return true;
}

static const char half_head[] = "GET / HTTP/1.1\r\n";
static atomic_int late_client = -1; /* it sends just as its connection is shut for reading */

int __real_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how)
{
    int client = how == SHUT_RD ? atomic_exchange(&late_client, -1) : -1;

    if (client >= 0)
        assert_true(client_send(client, half_head, sizeof(half_head) - 1));
    return __real_shutdown(fd, how);
}

/* Leave with a reset: a plain end after half a request is answered, and no site has its page. */
static void leave(int client)
{
    const struct linger reset = {.l_onoff = 1};

    assert_int_equal(setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
    close(client);
}

/* Each worker has one thread and so one slot; half a request keeps that slot.  On a busy machine a
 * free worker may be slow to accept, and the full one would make room for the second client.  The
 * wake-up would not be lost, so no worker makes room here; a lost one would last for ever. */
/* shows D08, D32 */
static void test_no_wake_up_is_lost(void **state)
{
    int client[WORKERS];
    struct serving s;

    (void)state;
    atomic_store(&unseen, true);
    serving_fill(&s, &engine_pool, &http_proto);
    s.srv.arrangement.workers = WORKERS;
    s.srv.arrangement.tuning.threads = 1;
    serving_start(&s);
    serving_nap(START_MS); /* all sleep on the listener; if not, the test sees less */
    for (unsigned i = 0; i < WORKERS; i++) {
        uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;

        client[i] = client_open(s.port);
        assert_true(client_send(client[i], half_head, sizeof(half_head) - 1));
        while (stats_live(s.srv.stats) <= i && serving_ms() < until_ms)
            serving_nap(1);
        assert_int_equal(stats_live(s.srv.stats), i + 1);
        serving_nap(2 * LATE_MS); /* the serving thread has its slot by now */
    }
    for (unsigned i = 0; i < WORKERS; i++)
        leave(client[i]);
    server_stop(&s.srv);
    assert_true(serving_left(&s));
    assert_int_equal(s.result, 0);
    assert_int_equal(stats_live(s.srv.stats), 0);
    serving_empty(&s);
    atomic_store(&unseen, false);
}

static void wait_until_evicted(struct serving *s, uint64_t count)
{
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;

    while (stats_sum(s->srv.stats, STAT_EVICTED) < count && serving_ms() < until_ms)
        serving_nap(1);
    assert_int_equal(stats_sum(s->srv.stats, STAT_EVICTED), count);
}

/* A worker without a free slot sees a waiting client, and at its next look another worker has
 * accepted it.  That is no reason to close the idle connection here.  A client that still waits
 * after that has found no other worker. */
static void test_a_glimpse_evicts_nobody(void **state)
{
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;
    struct serving s;
    int client;

    (void)state;
    serving_fill(&s, &engine_naive, &echo_proto);
    s.srv.arrangement.workers = WORKERS;
    serving_start(&s);
    client = client_open(s.port);
    assert_true(client_echo(client, "served", 6));
    serving_nap(2 * ROOM_IDLE_MS); /* now it may be evicted */
    atomic_store(&glimpses, 1);
    while (atomic_load(&glimpses) > 0 && serving_ms() < until_ms)
        serving_nap(1);
    serving_nap(2 * ROOM_IDLE_MS);
    assert_int_equal(stats_sum(s.srv.stats, STAT_EVICTED), 0);
    assert_true(client_echo(client, "still", 5));
    atomic_store(&glimpses, INT_MAX);
    wait_until_evicted(&s, 1);
    assert_true(client_ended(client));
    atomic_store(&glimpses, 0);
    close(client);
    server_stop(&s.srv);
    assert_true(serving_left(&s));
    serving_empty(&s);
}

/* An idle connection loses its slot while half a request arrives.  The server reads no more, so the
 * client made no mistake: the connection ends, and no 400 is sent. */
static void test_half_a_head_that_is_cut_off_is_no_mistake(void **state)
{
    struct serving s;
    char buf[256];
    int client;
    long n;

    (void)state;
    serving_fill(&s, &engine_naive, &http_proto);
    s.srv.arrangement.workers = WORKERS;
    serving_start(&s);
    client = client_open(s.port);
    serving_nap(2 * ROOM_IDLE_MS); /* now it may be evicted */
    atomic_store(&late_client, client);
    atomic_store(&glimpses, INT_MAX);
    wait_until_evicted(&s, 1);
    n = client_recv(client, buf, sizeof(buf));
    assert_true(n == 0 || n == -ECONNRESET);
    assert_int_equal(atomic_load(&late_client), -1);
    assert_int_equal(stats_sum(s.srv.stats, STAT_ANSWERS), 0);
    atomic_store(&glimpses, 0);
    close(client);
    server_stop(&s.srv);
    assert_true(serving_left(&s));
    serving_empty(&s);
}

/* As many clients as slots: none is turned away, though threads are late and clients silent. */
/* shows N04 */
static void test_a_last_seat_is_a_seat(void **state)
{
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;
    int client[WORKERS];
    struct serving s;

    (void)state;
    serving_fill(&s, &engine_pool, &echo_proto);
    s.srv.arrangement.tuning.threads = WORKERS;
    serving_start(&s);
    for (unsigned i = 0; i < WORKERS; i++)
        client[i] = client_open(s.port);
    while (stats_live(s.srv.stats) < WORKERS && serving_ms() < until_ms)
        serving_nap(1);
    serving_nap(3 * LATE_MS);
    for (unsigned i = 0; i < WORKERS; i++) {
        assert_true(client_echo(client[i], "served", 6));
        close(client[i]);
    }
    assert_int_equal(stats_sum(s.srv.stats, STAT_EVICTED), 0);
    server_stop(&s.srv);
    assert_true(serving_left(&s));
    serving_empty(&s);
}

/* A thread is at work just when its client's time is up.  The watchdog cannot look at the session
 * then; it does so soon after, and not only when the next deadline may come. */
static void test_a_thread_at_work_delays_its_deadline_little(void **state)
{
    enum { HEAD_MS = 1500, BEFORE_MS = 100, SOON_MS = 600 };
    uint64_t began_ms;
    struct serving s;
    int client;

    (void)state;
    serving_fill(&s, &engine_pool, &http_proto);
    s.srv.head_ms = HEAD_MS;
    serving_start(&s);
    client = client_open(s.port);
    began_ms = serving_ms();
    assert_true(client_send(client, half_head, sizeof(half_head) - 1));
    serving_nap(LATE_MS + HEAD_MS - BEFORE_MS); /* the thread began to serve after LATE_MS */
    atomic_store(&works, true);
    assert_true(client_send(client, "A", 1));
    while (stats_live(s.srv.stats) && serving_ms() < began_ms + 3 * HEAD_MS)
        serving_nap(1);
    assert_false(atomic_load(&works));
    assert_in_range(serving_ms() - began_ms, HEAD_MS, HEAD_MS + 2 * LATE_MS + SOON_MS);
    close(client);
    server_stop(&s.srv);
    assert_true(serving_left(&s));
    serving_empty(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_thread_at_work_delays_its_deadline_little),
        cmocka_unit_test(test_no_wake_up_is_lost),
        cmocka_unit_test(test_a_last_seat_is_a_seat),
        cmocka_unit_test(test_a_glimpse_evicts_nobody),
        cmocka_unit_test(test_half_a_head_that_is_cut_off_is_no_mistake),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
