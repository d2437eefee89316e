/* SPDX-License-Identifier: MIT */
/* worker.c - one worker: its engine, and how a blocking engine accepts.
 *
 * The supervisor opened the listeners and keeps them until the first stop signal.  A worker borrows
 * them, so that another worker, or a new process of the same number, inherits what is queued.  A
 * stop is a counter and a descriptor that stays readable: a thread that sleeps in a poll sees the
 * descriptor, a thread that comes from work sees the counter.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "../base/net.h"
#include "../base/say.h"
#include "cache.h"
#include "inside.h"

enum {
    STEP_BACK_MS = 20, /* full: how soon to look for a seat again */
    RETRY_MS = 20,           /* no thread or process: how soon to try again */
    RETRIES_MAX = 100,       /* ... and how often, before a connection is refused: two seconds */
    SHORTAGE_MS = 100,       /* out of descriptors: how soon to try again */
    SHORTAGE_SAID_MS = 10000 /* ... and how often to complain */
};

void shortage_say(int err)
{
    static _Atomic uint64_t next_ms;
    uint64_t due_ms = atomic_load_explicit(&next_ms, memory_order_relaxed), now_ms = clock_ms();

    if (now_ms < due_ms ||
        !atomic_compare_exchange_strong(&next_ms, &due_ms, now_ms + SHORTAGE_SAID_MS))
        return;
    say_error("cannot accept connections: %s; new ones wait until others end", say_why(err));
}

bool worker_awaited(const struct worker *w)
{
    struct pollfd p[LISTENERS_MAX];

    for (unsigned i = 0; i < w->listeners; i++)
        p[i] = (struct pollfd){.fd = w->listener[i], .events = POLLIN};
    return !w->left && poll(p, w->listeners, 0) > 0;
}

unsigned worker_waiting(const struct worker *w)
{
    unsigned n = atomic_load(&w->queued);

    for (unsigned i = 0; i < w->listeners && !w->left; i++) {
        long queued = net_queued(w->listener[i]);

        n += queued > 0 ? (unsigned)queued : 0;
    }
    return n ? n : worker_awaited(w);
}

bool worker_shares(const struct worker *w)
{
    const struct arrangement *a = &w->server->arrangement;

    return a->workers > 1 && !a->reuseport;
}

/* --- The end of listening --------------------------------------------------------------------- */

/* The number of sets of listeners. */
static unsigned listener_sets(const struct server *srv)
{
    return srv->arrangement.reuseport ? srv->arrangement.workers : 1;
}

/* Whether set n has a listener of its own for the i-th address: all sets share a unix socket. */
static bool is_own(const struct server *srv, unsigned n, unsigned i)
{
    return n == 0 || srv->listener[n][i] != srv->listener[0][i];
}

void listeners_only(const struct server *srv, unsigned set)
{
    for (unsigned n = 0; n < listener_sets(srv); n++)
        for (unsigned i = 0; n != set && i < srv->listeners; i++)
            if (srv->listener[n][i] != srv->listener[set][i])
                (void)net_unlisten_keep(srv->listener[n][i], srv->stop_fd);
}

void listeners_leave(const struct server *srv)
{
    for (unsigned n = 0; n < listener_sets(srv); n++)
        for (unsigned i = 0; i < srv->listeners; i++)
            if (is_own(srv, n, i)) /* if this fails, the listener ends with the process */
                (void)net_unlisten_keep(srv->listener[n][i], srv->stop_fd);
}

/* Threads share the descriptors' numbers.  A listener that only one worker waits on is closed by
 * that worker, and the others by the last worker. */
void worker_leave(struct worker *w)
{
    struct server *srv = w->server;

    if (w->left)
        return;
    w->left = true;
    for (unsigned i = 0; srv->arrangement.reuseport && i < w->listeners; i++)
        if (w->number && is_own(srv, w->number, i))
            (void)net_unlisten_keep(w->listener[i], srv->stop_fd);
    if (w->siblings == 1 || atomic_fetch_add(&srv->left, 1) + 1 == w->siblings)
        listeners_leave(srv);
}

bool worker_takes_last(const struct worker *w, unsigned taken)
{
    unsigned backlog = w->server->backlog;

    return !backlog || taken < 2 * (backlog + 1) * w->listeners; /* the kernel queues one more */
}

/* --- Accepting, for engines that block -------------------------------------------------------- */

/* The listener after the one that had a connection last comes first. */
int worker_accept_now(struct worker *w)
{
    int fd = -EAGAIN;

    for (unsigned n = 0; n < w->listeners && fd == -EAGAIN; n++) {
        unsigned turn = atomic_fetch_add_explicit(&w->turn, 1, memory_order_relaxed);

        fd = net_accept(w->listener[turn % w->listeners], true);
    }
    if (fd >= 0)
        probe_accepted(fd);
    return fd;
}

/* A stopping blocking engine serves the connections that are queued, until its time to drain is
 * over. */
static bool accept_over(const struct worker *w, uint64_t *until_ms)
{
    int signals = atomic_load_explicit(w->stopping, memory_order_relaxed);

    if (signals == 1 && !*until_ms)
        *until_ms = clock_ms() + w->server->drain_ms + 1;
    return signals > 1 || (signals && clock_ms() >= *until_ms);
}

/* An epoll set to sleep on.  EPOLLEXCLUSIVE: a connection wakes one or a few of the threads that
 * sleep on its listener; poll() would wake them all.  Without a set (no descriptor for it) poll()
 * is used. */
static int accept_set(const struct worker *w)
{
    int ep = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event ev = {.events = EPOLLIN};
    bool whole = ep >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, w->stop_fd, &ev) == 0;

    ev.events |= EPOLLEXCLUSIVE;
    for (unsigned i = 0; i < w->listeners && whole; i++)
        whole = epoll_ctl(ep, EPOLL_CTL_ADD, w->listener[i], &ev) == 0;
    if (whole || ep < 0)
        return ep;
    close(ep);
    return -1;
}

static void accept_sleep(struct worker *w)
{
    struct pollfd p[LISTENERS_MAX + 1];
    struct epoll_event ev;

    if (!w->accept_ep)
        w->accept_ep = accept_set(w);
    if (w->accept_ep > 0) {
        epoll_wait(w->accept_ep, &ev, 1, -1);
        return;
    }
    for (unsigned i = 0; i < w->listeners; i++)
        p[i] = (struct pollfd){.fd = w->listener[i], .events = POLLIN};
    p[w->listeners] = (struct pollfd){.fd = w->stop_fd, .events = POLLIN};
    poll(p, w->listeners + 1, -1);
}

void worker_accept_over(struct worker *w)
{
    if (w->accept_ep > 0)
        close(w->accept_ep);
    w->accept_ep = 0;
}

int worker_accept(struct worker *w)
{
    struct pollfd stop = {.fd = w->stop_fd, .events = POLLIN};
    int fd;

    while (!accept_over(w, &w->drain_ms)) {
        if (watch_left(w->watch))
            return watch_last(w->watch);
        if (!w->drain_ms && worker_shares(w) && watch_full(w->watch)) {
            poll(&stop, 1, STEP_BACK_MS);
            continue;
        }
        fd = worker_accept_now(w);
        if (fd >= 0)
            return fd;
        if (watch_left(w->watch))
            continue; /* the listeners were closed meanwhile */
        if (fd == -EAGAIN && w->drain_ms) {
            poll(NULL, 0, LEAVE_TICK_MS);
        } else if (fd == -EAGAIN) {
            accept_sleep(w);
        } else {
            shortage_say(-fd);
            poll(&stop, w->drain_ms ? 0 : 1, SHORTAGE_MS);
        }
    }
    return -ECANCELED;
}

void worker_refuse(struct worker *w, int fd)
{
    (void)worker_unqueued(w); /* it may have waited for the thread that cannot serve it */
    stats_add(w->server->stats, STAT_REFUSED, 1);
    close(fd);
}

void worker_hired(struct worker *w, unsigned threads)
{
    if (w->watch && threads < w->seats)
        watch_seats(w->watch, threads);
}

void worker_queued(struct worker *w)
{
    if (atomic_fetch_add(&w->queued, 1) == 0)
        watch_hurry(w->watch);
}

bool worker_unqueued(struct worker *w)
{
    unsigned n = atomic_load(&w->queued);

    while (n > 0 && !atomic_compare_exchange_weak(&w->queued, &n, n - 1))
        ;
    if (n == 1)
        atomic_fetch_add(&w->emptied, 1);
    return n > 0;
}

bool worker_retries(struct worker *w, int err, unsigned *tries)
{
    if (*tries == RETRIES_MAX) {
        worker_unqueued(w);
        stats_add(w->server->stats, STAT_REFUSED, 1);
        return false;
    }
    if ((*tries)++ == 0)
        shortage_say(err);
    if (atomic_load(&w->queued) == 0) /* a thread that began meanwhile may have taken our place */
        worker_queued(w);
    poll(NULL, 0, RETRY_MS);
    return true;
}

/* --- Running ---------------------------------------------------------------------------------- */

/* A worker's share of the server's connections, limited to what the engine can serve. */
static unsigned seats(const struct server *srv)
{
    const struct engine *e = srv->engine;
    uint64_t part = srv->connections_max / srv->arrangement.workers;
    uint64_t share = part ? part : 1; /* without a seat the worker would keep a client waiting */
    uint64_t most = e->capacity ? e->capacity : share;

    if (e->crew && e->may_block)
        most = srv->arrangement.tuning.threads;
    else if (!e->may_block && e->capacity && !srv->arrangement.processes)
        most = e->capacity / srv->arrangement.workers; /* the limit is the process's */
    return (unsigned)(most < share ? most : share);
}

void worker_copy(struct worker *to, const struct worker *from)
{
    *to = (struct worker){
        .server = from->server,
        .number = from->number,
        .listeners = from->listeners,
        .stop_fd = from->stop_fd,
        .stopping = from->stopping,
        .watch = from->watch,
        .siblings = from->siblings,
        .seats = from->seats,
        .tuning = from->tuning,
        .cache = from->cache,
    };
    memcpy(to->listener, from->listener, sizeof(to->listener));
}

static void pin(unsigned number)
{
    int err = processors_pin(number);

    if (err) /* the processor was taken away: better to serve on others than not to serve */
        say_error("worker %u cannot be pinned: %s; it runs unpinned", number, say_why(err));
}

int worker_run(struct server *srv, unsigned number)
{
    struct worker w = {
        .server = srv,
        .number = number,
        .listeners = srv->listeners,
        .stop_fd = srv->stop_fd,
        .stopping = &srv->stopping,
        .siblings = srv->arrangement.processes ? 1 : srv->arrangement.workers,
        .seats = seats(srv),
        .tuning = srv->arrangement.tuning,
    };
    int err = 0;

    /* The children of an engine that forks would share one queue of changes, and each would take
     * from it what the others need. */
    if (srv->site && srv->listeners && !srv->engine->forks)
        w.cache = cache_share(srv->site, srv->cache_bytes, srv->stats);
    if (srv->arrangement.pinned)
        pin(number);
    if (srv->engine->may_block && w.tuning.threads > w.seats)
        w.tuning.threads = w.seats; /* more of them would serve more than --max-connections */
    if (srv->listeners)
        memcpy(w.listener, srv->listener[srv->arrangement.reuseport ? number : 0],
               sizeof(w.listener));
    if (srv->engine->may_block)
        err = watch_open(&w.watch, &w);
    if (!err)
        err = srv->engine->run(&w);
    worker_accept_over(&w);
    if (w.watch)
        watch_close(w.watch);
    cache_leave(w.cache);
    if (err && w.siblings > 1) /* the others would serve on, and the failure would go unnoticed */
        server_stop(srv);
    if (atomic_load(&srv->stopping))
        worker_leave(&w); /* cut off, or failed: the others need not wait for this worker */
    return err;
}

void server_stop(struct server *srv)
{
    uint64_t one = 1;
    int saved = errno;

    for (unsigned n = 0; !atomic_load(&srv->stopping) && n < listener_sets(srv); n++)
        for (unsigned i = 0; i < srv->listeners; i++)
            (void)net_deafen(srv->listener[n][i]); /* without it a client or two may be reset */
    atomic_fetch_add(&srv->stopping, 1);
    if (write(srv->stop_fd, &one, sizeof(one)) < 0)
        errno = saved; /* the counter is full: the descriptor is readable, and only that counts */
    errno = saved;
}
