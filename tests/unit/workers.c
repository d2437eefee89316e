/* SPDX-License-Identifier: MIT */
/* workers.c - when the listeners are closed: soon, although a worker has failed while another still
 * serves, and although more clients come than a queue holds. */
#include "../serving.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <sys/socket.h>

enum { ANSWER_MS = 100 }; /* a refusal takes less on loopback, or is asked for again */

static atomic_bool served; /* the first worker's last client has left */

/* The second worker fails.  The first goes on until then, and then still has a slow client. */
static int run(struct worker *w)
{
    if (w->number > 0)
        return -EIO;
    while (!atomic_load(w->stopping))
        serving_nap(1);
    worker_leave(w);
    while (!atomic_load(&served))
        serving_nap(1);
    return 0;
}

static const struct engine engine = {
    .name = "one that fails", .model = ENGINE_READINESS, .run = run};

/* A listener that does not accept, or whose queue is full, does not refuse. */
static bool is_refused(const struct net_address *a)
{
    int fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int err = connect(fd, (const struct sockaddr *)&a->sa, a->len) < 0 ? errno : 0;
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    socklen_t len = sizeof(err);

    if (err == EINPROGRESS && poll(&p, 1, ANSWER_MS) == 1)
        (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
    close(fd);
    return err == ECONNREFUSED || err == ENOENT;
}

static void until_refused(const struct net_address *a)
{
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;

    while (!is_refused(a)) {
        assert_true(serving_ms() < until_ms);
        serving_nap(1);
    }
}

static void one_fails(bool reuseport)
{
    const struct net_listening how = {.backlog = 128, .reuseport = reuseport};
    int sets[2][LISTENERS_MAX];
    struct net_address tcp, local;
    struct serving s;
    char text[64];

    atomic_store(&served, false);
    serving_fill(&s, &engine, &echo_proto);
    s.srv.listener = sets;
    s.srv.arrangement.workers = 2;
    s.srv.arrangement.reuseport = reuseport;
    close(s.listener[0][0]);
    net_address_parse(&tcp, "127.0.0.1", 0);
    sets[0][0] = net_listen(&tcp, &how);
    assert_true(sets[0][0] >= 0);
    net_address_parse(&tcp, "127.0.0.1", (uint16_t)net_port(sets[0][0]));
    sets[1][0] = reuseport ? net_listen(&tcp, &how) : -1;
    snprintf(text, sizeof(text), "unix:/tmp/rung-workers-%d", (int)getpid());
    net_address_parse(&local, text, 0);
    sets[0][1] = sets[1][1] = net_listen(&local, &how);
    assert_true(sets[0][1] >= 0);
    s.srv.listeners = 2;
    serving_start(&s);
    until_refused(&local);
    until_refused(&tcp);
    assert_false(atomic_load(&s.left));
    atomic_store(&served, true);
    assert_true(serving_left(&s));
    assert_int_equal(s.result, -EIO);
    net_unlisten(sets[0][0]);
    net_unlisten(sets[0][1]);
    if (reuseport)
        net_unlisten(sets[1][0]);
    close(s.srv.stop_fd);
    stats_close(s.srv.stats);
}

static void one_that_shares_fails(void **state)
{
    (void)state;
    one_fails(false);
}

static void one_with_a_listener_of_its_own_fails(void **state)
{
    (void)state;
    one_fails(true);
}

/* The only thread is busy.  It accepts as many as the queue held at the stop, and as many again;
 * clients beyond that are left. */
static void a_busy_engine_has_a_last_client(void **state)
{
    enum { HELD = 3, LAST = 2 * (HELD + 1), CLIENTS = LAST + 12, STUCK_MS = 50 };
    int client[CLIENTS], busy, echoed = 0;
    static char bytes[65536];
    struct net_address a;
    struct serving s;

    (void)state;
    serving_fill(&s, &engine_naive, &echo_proto);
    s.srv.backlog = HELD;
    net_address_parse(&a, "127.0.0.1", (uint16_t)s.port);
    serving_start(&s);
    busy = client_open(s.port);
    assert_true(client_echo(busy, "hello", 5));
    for (unsigned stuck_ms = 0; stuck_ms < STUCK_MS; stuck_ms++) {
        if (send(busy, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
            stuck_ms = 0; /* the answers have not filled the socket buffers yet */
        serving_nap(1);
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        client[i] = client_open(s.port);
        assert_true(client[i] >= 0 && client_send(client[i], "hello", 5));
    }
    server_stop(&s.srv);
    until_refused(&a);
    close(busy);
    for (unsigned i = 0; i < CLIENTS; i++) {
        echoed += client_recv(client[i], bytes, 5) == 5;
        close(client[i]);
    }
    assert_true(serving_left(&s));
    assert_int_equal(echoed, LAST);
    serving_empty(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_shares_fails),
        cmocka_unit_test(one_with_a_listener_of_its_own_fails),
        cmocka_unit_test(a_busy_engine_has_a_last_client),
    };

    alarm(300);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
