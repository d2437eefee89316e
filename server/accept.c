/* SPDX-License-Identifier: MIT */
/* accept.c - how a thread that blocks waits for the next connection, and what happens to
 * connections that no thread or process can serve.
 */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "../base/net.h"
#include "address_limits.h"

enum {
    STEP_BACK_MS = 20, /* full: how soon to look for a slot again */
    RETRY_MS = 20,     /* no thread or process: how soon to try again */
    RETRIES_MAX = 100, /* ... and how often, before a connection is refused: two seconds */
    SHORTAGE_MS = 100  /* out of descriptors: how soon to try again */
};

/* A blocking engine that stops serves the connections that are queued, until its time to drain is
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

    worker_begun(w);
    while (!accept_over(w, &w->drain_ms)) {
        if (watchdog_left(w->watchdog))
            return watchdog_last(w->watchdog);
        if (!w->drain_ms && worker_shares(w) && watchdog_full(w->watchdog)) {
            poll(&stop, 1, STEP_BACK_MS);
            continue;
        }
        fd = worker_accept_now(w);
        if (fd >= 0)
            return fd;
        if (watchdog_left(w->watchdog))
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

void worker_close(struct worker *w, int fd)
{
    connection_close(w->server, fd);
}

void worker_refuse(struct worker *w, int fd)
{
    (void)worker_unqueued(w); /* it may have waited for the thread that cannot serve it */
    stats_add(w->server->stats, STAT_REFUSED, 1);
    worker_close(w, fd);
}

void worker_has_threads(struct worker *w, unsigned threads)
{
    if (w->watchdog && threads < w->conn_max)
        watchdog_limit(w->watchdog, threads);
}

void worker_queued(struct worker *w)
{
    if (atomic_fetch_add(&w->queued, 1) == 0)
        watchdog_hurry(w->watchdog);
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
