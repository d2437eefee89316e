/* SPDX-License-Identifier: MIT */
/* serving.h - a whole server inside a test: a real engine on a thread, real sockets on loopback.
 *
 * Deadlines of the client's side are generous (a slow machine is no failure) and every wait has
 * one: a test that would hang fails instead.
 */
#ifndef TESTS_SERVING_H
#define TESTS_SERVING_H
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include "../base/net.h"
#include "../server/inside.h"

enum { SERVING_WORKERS_MAX = 8 };

enum { SERVING_PATIENCE_MS = 20000, SERVING_BACKLOG = 128 };

struct serving {
    struct server srv;
    int listener[1][LISTENERS_MAX];
    pthread_t thread;
    int port;
    int result;      /* of server_run() */
    atomic_bool left; /* the engine has returned */
};

static inline bool serving_under_valgrind(void)
{
    const char *preload = getenv("LD_PRELOAD");

    return preload && strstr(preload, "vgpreload");
}

/* Why an engine is not to be tested here; NULL: it is. */
static inline const char *serving_left_out(const struct engine *e)
{
    if (e->model == ENGINE_NONE)
        return "it has no sockets";
    if (e->stack_bytes && !e->may_block && serving_under_valgrind())
        return "valgrind takes a switched stack for a lost one; asan follows it";
    return e->probe ? e->probe(1) : NULL;
}

/* The engines under test: all of them, epoll once more for each other trigger, and a pool whose
 * threads have rings of their own. */
static inline int serving_run_edge(struct worker *w)
{
    w->tuning.trigger = TRIGGER_EDGE;
    return engine_epoll.run(w);
}

static inline int serving_run_oneshot(struct worker *w)
{
    w->tuning.trigger = TRIGGER_ONESHOT;
    return engine_epoll.run(w);
}

static inline int serving_run_in_turn(struct worker *w)
{
    w->tuning.queue = QUEUE_LOCKFREE;
    w->tuning.in_turn = true;
    return engine_dispatch.run(w);
}

static const struct engine serving_edge = {
    .name = "epoll edge", .model = ENGINE_READINESS, .run = serving_run_edge};
static const struct engine serving_oneshot = {
    .name = "epoll oneshot", .model = ENGINE_READINESS, .run = serving_run_oneshot};
static const struct engine serving_in_turn = {
    .name = "dispatch in turn", .model = ENGINE_READINESS, .thread_pool = true,
    .run = serving_run_in_turn};

static const struct engine *const serving_engines[] = {
#define X(name) &engine_##name,
    ENGINES(X)
#undef X
    &serving_edge, &serving_oneshot, &serving_in_turn};
enum { SERVING_ENGINES = sizeof(serving_engines) / sizeof(serving_engines[0]) };

/* Whether a program's argument asks for the i-th of what it tests: its name, a share of all such as
 * 2/4, or NULL for all of them. */
static inline bool serving_in_share(const char *only, const char *name, unsigned i)
{
    unsigned share, shares;

    if (!only || !strcmp(only, name))
        return true;
    return sscanf(only, "%u/%u", &share, &shares) == 2 && shares && i % shares + 1 == share;
}

static inline bool serving_asked(const struct engine *e, const char *only)
{
    unsigned i = 0;

    while (serving_engines[i] != e)
        i++;
    return serving_in_share(only, e->name, i);
}

static inline uint64_t serving_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static inline void serving_nap(unsigned ms)
{
    struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};

    nanosleep(&ts, NULL);
}

/* One worker; every deadline is deadline_ms; connections_max and progress_bytes are the
 * caller's. */
static inline void serving_options(struct server *srv, const struct engine *e,
                                   const struct conn_proto *proto, uint32_t deadline_ms)
{
    memset(srv, 0, sizeof(*srv));
    srv->engine = e;
    srv->proto = proto;
    srv->head_ms = srv->idle_ms = srv->send_ms = srv->drain_ms = deadline_ms;
    srv->body_bytes_max = BODY_BYTES_MAX;
    srv->backlog = SERVING_BACKLOG;
    srv->arrangement.workers = 1;
    srv->arrangement.tuning = (struct tuning){.threads = 4, .queue_length = 8, .nap_ms = 1};
    srv->stop_fd = -1;
}

/* Counters, the descriptor to stop it by, a listener on a free port of 127.0.0.1.  If it fails, the
 * things that were opened stay open: stats, stop_fd and listeners show which. */
static inline int serving_open(struct server *srv)
{
    struct net_address a;
    int err = stats_open(&srv->stats, 1 + SERVING_WORKERS_MAX);

    if (err)
        return err;
    srv->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (srv->stop_fd < 0)
        return -errno;
    net_address_parse(&a, "127.0.0.1", 0);
    srv->listener[0][0] = net_listen(&a, &(struct net_listening){.backlog = SERVING_BACKLOG});
    if (srv->listener[0][0] < 0)
        return srv->listener[0][0];
    srv->listeners = 1;
    return 0;
}

/* What a server needs but the engine's thread; deadlines are long: a test shortens the one it is
 * about. */
static inline void serving_fill(struct serving *s, const struct engine *e,
                                const struct conn_proto *proto)
{
    memset(s, 0, sizeof(*s));
    serving_options(&s->srv, e, proto, 60000);
    s->srv.progress_bytes = 4096;
    s->srv.connections_max = 100;
    s->srv.listener = s->listener;
    core_assert(serving_open(&s->srv) == 0);
    s->port = net_port(s->srv.listener[0][0]);
}

static inline void serving_empty(struct serving *s)
{
    close(s->srv.listener[0][0]);
    close(s->srv.stop_fd);
    stats_close(s->srv.stats);
}

static inline void *serving_main(void *arg)
{
    struct serving *s = arg;

    s->result = server_run(&s->srv);
    atomic_store(&s->left, true);
    return NULL;
}

static inline void serving_start(struct serving *s)
{
    core_assert(pthread_create(&s->thread, NULL, serving_main, s) == 0);
}

/* Whether the engine leaves in time. */
static inline bool serving_left(struct serving *s)
{
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;

    while (!atomic_load(&s->left) && serving_ms() < until_ms)
        serving_nap(1);
    if (atomic_load(&s->left))
        pthread_join(s->thread, NULL);
    return atomic_load(&s->left);
}

/* --- A client --------------------------------------------------------------------------------- */

/* Connected, non-blocking; or -errno. */
static inline int client_open(int port)
{
    struct net_address a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    net_address_parse(&a, "127.0.0.1", (uint16_t)port);
    if (connect(fd, (struct sockaddr *)&a.sa, a.len) < 0) {
        int err = -errno;

        close(fd);
        return err;
    }
    return fd;
}

static inline bool client_send(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);

        if (sent <= 0)
            return false;
        bytes += sent;
        n -= (size_t)sent;
    }
    return true;
}

/* What comes within ms: bytes, 0 at the end, -errno of a reset, -ETIMEDOUT. */
static inline long client_recv_within(int fd, char *buf, size_t cap, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ssize_t n;

    if (poll(&p, 1, ms) <= 0)
        return -ETIMEDOUT;
    n = recv(fd, buf, cap, MSG_DONTWAIT);
    return n < 0 ? -errno : n;
}

static inline long client_recv(int fd, char *buf, size_t cap)
{
    return client_recv_within(fd, buf, cap, SERVING_PATIENCE_MS);
}

/* Sends n bytes and gets the same back. */
static inline bool client_echo(int fd, const char *bytes, size_t n)
{
    char buf[4096];
    size_t got = 0;

    if (!client_send(fd, bytes, n))
        return false;
    while (got < n) {
        size_t cap = n - got < sizeof(buf) ? n - got : sizeof(buf);
        long k = client_recv(fd, buf, cap);

        if (k <= 0 || memcmp(buf, bytes + got, (size_t)k) != 0)
            return false;
        got += (size_t)k;
    }
    return true;
}

/* Whether the server ends the connection in time; a reset is an end. */
static inline bool client_ended(int fd)
{
    char buf[4096];
    long n;

    while ((n = client_recv(fd, buf, sizeof(buf))) > 0)
        ;
    return n == 0 || n == -ECONNRESET;
}

#endif
