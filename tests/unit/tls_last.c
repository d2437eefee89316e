/* SPDX-License-Identifier: MIT */
/* tls_last.c - the thread that ends connections whose last record is not in TCP's queue yet.  The
 * kernel's answer whether it is there by now is this test's. */
#include "pair.h"
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/select.h>
#include "../../server/tls_kernel.h"

enum { SOON_MS = 50, MANY = 1 << 20 };

static atomic_bool all_there;
static atomic_uint looks;

bool __wrap_tls_kernel_says(struct tls_last *last);
bool __wrap_tls_kernel_says(struct tls_last *last)
{
    (void)last;
    atomic_fetch_add(&looks, 1);
    return atomic_load(&all_there);
}

/* The copies of descriptors that the thread made, at numbers from FD_SETSIZE on: they are not
 * scarce. */
static unsigned copies(void)
{
    unsigned count = 0;

    for (int fd = FD_SETSIZE; fd < FD_SETSIZE + 64; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void until_copies(unsigned count)
{
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;

    while (copies() != count && serving_ms() < until_ms)
        serving_nap(1);
    assert_int_equal(copies(), count);
}

static void numbers(rlim_t most)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = most;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* The connection is left to the thread: its session closes the descriptor. */
static int leave(uint64_t send_ms)
{
    struct pair p = tcp_pair(false);
    struct tls_last last = {.fd = p.server, .send_ms = (uint32_t)send_ms, .progress_bytes = 1};

    atomic_store(&all_there, false);
    assert_false(tls_kernel.end(&last));
    close(p.server);
    return p.client;
}

/* 0: the stream has ended; or -errno. */
static long how_it_ends(int client)
{
    struct pollfd p = {.fd = client, .events = POLLIN};
    char byte;

    assert_int_equal(poll(&p, 1, SERVING_PATIENCE_MS), 1);
    return net_recv_now(client, &byte, 1);
}

static bool is_open(int client)
{
    char byte;

    return net_recv_now(client, &byte, 1) == -EAGAIN;
}

static void what_tcp_has_is_the_callers(void **state)
{
    struct pair p = tcp_pair(false);
    struct tls_last last = {.fd = p.server, .send_ms = SERVING_PATIENCE_MS};

    (void)state;
    atomic_store(&all_there, true);
    assert_true(tls_kernel.end(&last));
    assert_int_equal(copies(), 0);
    assert_true(is_open(p.client));
    pair_close(p);
}

static void the_rest_comes_later(void **state)
{
    int client = leave(SERVING_PATIENCE_MS);

    (void)state;
    assert_int_equal(copies(), 1);
    atomic_store(&looks, 0);
    while (atomic_load(&looks) < 4)
        serving_nap(1);
    assert_true(is_open(client));
    atomic_store(&all_there, true);
    assert_int_equal(how_it_ends(client), 0);
    assert_true(client_send(client, "late", 4)); /* it lingers: nothing is reset */
    assert_int_equal(how_it_ends(client), 0);
    assert_int_equal(copies(), 1);
    close(client);
    until_copies(0);
}

static void low_numbers_are_taken_if_there_are_no_others(void **state)
{
    unsigned before = descriptors();
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;
    int client;

    (void)state;
    numbers(FD_SETSIZE);
    client = leave(SERVING_PATIENCE_MS);
    assert_int_equal(descriptors(), before + 2);
    atomic_store(&all_there, true);
    assert_int_equal(how_it_ends(client), 0);
    close(client);
    while (descriptors() != before && serving_ms() < until_ms)
        serving_nap(1);
    assert_int_equal(descriptors(), before);
    numbers(2 * FD_SETSIZE);
}

static void a_client_that_takes_nothing_is_reset(void **state)
{
    int client = leave(SOON_MS);

    (void)state;
    assert_int_equal(how_it_ends(client), -ECONNRESET);
    close(client);
    until_copies(0);
}

static void the_oldest_gives_way(void **state)
{
    int client[4];

    (void)state;
    assert_int_equal(tls_last_limit(48), 3);
    for (unsigned i = 0; i < 4; i++)
        client[i] = leave(SERVING_PATIENCE_MS);
    assert_int_equal(how_it_ends(client[0]), -ECONNRESET);
    for (unsigned i = 1; i < 4; i++)
        assert_true(is_open(client[i]));
    atomic_store(&all_there, true);
    for (unsigned i = 1; i < 4; i++)
        assert_int_equal(how_it_ends(client[i]), 0);
    for (unsigned i = 0; i < 4; i++)
        close(client[i]);
    until_copies(0);
}

static void the_limit_follows_from_descriptors(void **state)
{
    (void)state;
    assert_int_equal(tls_last_limit(0), 1);
    assert_int_equal(tls_last_limit(31), 1);
    assert_int_equal(tls_last_limit(32), 2);
    assert_int_equal(tls_last_limit(1024 * 16 - 1), 1023);
    assert_int_equal(tls_last_limit(1024 * 16), 1024);
    assert_int_equal(tls_last_limit(1024 * 17), 1024);
    assert_int_equal(tls_last_limit(MANY), 1024);
}

/* A connection that lingers is waited for, too: the end of the process would reset it. */
static void a_server_that_stops_waits(void **state)
{
    static struct server srv;
    uint64_t begun_ms;
    int client;

    (void)state;
    srv.drain_ms = SERVING_PATIENCE_MS;
    tls_last_wait(&srv); /* for none */
    client = leave(SERVING_PATIENCE_MS);
    srv.drain_ms = SOON_MS;
    atomic_store(&all_there, true);
    assert_int_equal(how_it_ends(client), 0);
    begun_ms = serving_ms();
    tls_last_wait(&srv);
    assert_true(serving_ms() - begun_ms >= SOON_MS / 2); /* clock_ms() is coarse */
    begun_ms = serving_ms();
    atomic_store(&srv.stopping, 2);
    srv.drain_ms = SERVING_PATIENCE_MS;
    tls_last_wait(&srv); /* not after a second signal */
    atomic_store(&srv.stopping, 1);
    close(client);
    tls_last_wait(&srv);
    assert_true(serving_ms() - begun_ms < SERVING_PATIENCE_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_tcp_has_is_the_callers),
        cmocka_unit_test(the_rest_comes_later),
        cmocka_unit_test(low_numbers_are_taken_if_there_are_no_others),
        cmocka_unit_test(a_client_that_takes_nothing_is_reset),
        cmocka_unit_test(the_oldest_gives_way),
        cmocka_unit_test(the_limit_follows_from_descriptors),
        cmocka_unit_test(a_server_that_stops_waits),
    };

    numbers(2 * FD_SETSIZE);
    return cmocka_run_group_tests_name("tls_last", tests, NULL, NULL);
}
