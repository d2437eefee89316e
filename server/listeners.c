/* SPDX-License-Identifier: MIT */
/* listeners.c - the listeners that a worker borrows: which clients wait there, and how it
 * gives them up.
 *
 * The supervisor opened the listeners and keeps them until the first stop signal.  A worker borrows
 * them, so that another worker, or a new process of the same number, inherits what is queued.  A
 * stop is a counter and a descriptor that stays readable: a thread that sleeps in a poll sees the
 * descriptor, a thread that comes from work sees the counter.
 */
#include <errno.h>
#include <poll.h>
#include <unistd.h>
#include "../base/net.h"
#include "../base/say.h"
#include "address_limits.h"

enum { SHORTAGE_SAID_MS = 10000 /* out of descriptors: how often to complain */ };

/* --- Who waits -------------------------------------------------------------------------------- */

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

bool worker_unqueued(struct worker *w)
{
    unsigned n = atomic_load(&w->queued);

    while (n > 0 && !atomic_compare_exchange_weak(&w->queued, &n, n - 1))
        ;
    if (n == 1)
        atomic_fetch_add(&w->emptied, 1);
    return n > 0;
}

/* Connections that are too many for their address are closed here, as many as a turn accepts. */
int worker_accept_from(struct worker *w, unsigned i, bool blocking)
{
    int fd = net_accept(w->listener[i], blocking);

    for (unsigned n = 0; fd >= 0 && w->server->limits && !limits_accept(w->server, fd); n++)
        fd = n < ACCEPT_BUDGET ? net_accept(w->listener[i], blocking) : -EAGAIN;
    return fd;
}

/* The listener after the one that had a connection last comes first. */
int worker_accept_now(struct worker *w)
{
    int fd = -EAGAIN;

    for (unsigned n = 0; n < w->listeners && fd == -EAGAIN; n++) {
        unsigned turn = atomic_fetch_add_explicit(&w->turn, 1, memory_order_relaxed);

        fd = worker_accept_from(w, turn % w->listeners, true);
    }
    if (fd >= 0)
        probe_accepted(fd);
    return fd;
}

void shortage_say(int err)
{
    static _Atomic uint64_t next_ms;
    uint64_t due_ms = atomic_load_explicit(&next_ms, memory_order_relaxed), now_ms = clock_ms();

    if (now_ms < due_ms ||
        !atomic_compare_exchange_strong(&next_ms, &due_ms, now_ms + SHORTAGE_SAID_MS))
        return;
    say_error("cannot accept connections: %s; new ones wait until others end", say_why(err));
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

/* If this fails, the listener ends with the process. */
static void give_up(const struct server *srv, int listener)
{
    (void)(srv->passed || srv->swept || srv->handed ? net_close_keep(listener, srv->stop_fd)
                                                    : net_unlisten_keep(listener, srv->stop_fd));
}

void listeners_only(const struct server *srv, unsigned set)
{
    for (unsigned n = 0; n < listener_sets(srv); n++)
        for (unsigned i = 0; n != set && i < srv->listeners; i++)
            if (srv->listener[n][i] != srv->listener[set][i])
                give_up(srv, srv->listener[n][i]);
}

void listeners_leave(const struct server *srv)
{
    for (unsigned n = 0; n < listener_sets(srv); n++)
        for (unsigned i = 0; i < srv->listeners; i++)
            if (is_own(srv, n, i))
                give_up(srv, srv->listener[n][i]);
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
            give_up(srv, w->listener[i]);
    if (w->siblings == 1 || atomic_fetch_add(&srv->left, 1) + 1 == w->siblings)
        listeners_leave(srv);
}

__attribute__((cold)) void worker_say_begun(struct worker *w)
{
    struct server *srv = w->server;

    w->begun = true;
    atomic_store(&srv->begun[w->number], true);
    if (srv->begun_fd > 0)
        loop_wake(srv->begun_fd);
}

bool worker_takes_last(const struct worker *w, unsigned taken)
{
    unsigned backlog = w->server->backlog;

    if (w->server->handed)
        return false; /* the next server accepts what waits */
    return !backlog || taken < 2 * (backlog + 1) * w->listeners; /* the kernel queues one more */
}

void server_stop(struct server *srv)
{
    uint64_t one = 1;
    int saved = errno;

    bool deafens = !srv->passed && !srv->handed && !atomic_load(&srv->stopping);

    for (unsigned n = 0; deafens && n < listener_sets(srv); n++)
        for (unsigned i = 0; i < srv->listeners; i++)
            (void)net_deafen(srv->listener[n][i]); /* without it a client or two may be reset */
    atomic_fetch_add(&srv->stopping, 1);
    if (write(srv->stop_fd, &one, sizeof(one)) < 0)
        errno = saved; /* the counter is full: the descriptor is readable, and only that counts */
    errno = saved;
}
