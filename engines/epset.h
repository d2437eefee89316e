/* SPDX-License-Identifier: MIT */
/* epset.h - the set that epoll.c, dispatch.c and coro.c wait on, and what it has in addition to the
 * connections.
 *
 * Each event carries a pointer that says what is ready.  A pointer to the worker stands for the
 * descriptor that says "stop", one to an entry of its listener[] for that listener; any other
 * pointer is the engine's own.
 */
#ifndef ENGINES_EPSET_H
#define ENGINES_EPSET_H
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "engine.h"

enum {
    EVENTS_MAX = 256, /* in a turn; the kernel takes ready descriptors in rotation: none starves */
    RETRY_MS = 100    /* how soon to try again to add the listeners */
};

struct epset {
    struct worker *worker; /* its listeners, and its stop_fd */
    int fd;
    bool listening; /* the listeners are in it */
};

static inline int epset_add(const struct epset *set, int fd, uint32_t events, void *who)
{
    struct epoll_event ev = {.events = events, .data.ptr = who};

    return epoll_ctl(set->fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static inline int epset_open(struct epset *set, struct loop *l)
{
    struct worker *w = loop_worker(l);

    *set = (struct epset){.worker = w, .fd = epoll_create1(EPOLL_CLOEXEC)};
    if (set->fd < 0)
        return -errno;
    loop_has_set(l, set->fd);
    /* stop_fd stays readable, so it is reported only once; loop_tick() sees the stop */
    return epset_add(set, w->stop_fd, EPOLLIN | EPOLLONESHOT, w);
}

static inline void epset_close(const struct epset *set)
{
    if (set->fd >= 0)
        close(set->fd);
}

/* Listeners are in the set while there is room for connections.  EXCLUSIVE: a connection wakes one
 * or a few of the workers that share the listener, not all.  False: the kernel has no memory for
 * that now. */
static inline bool epset_listen(struct epset *set, const struct loop *l)
{
    struct worker *w = set->worker;
    bool on = loop_listening(l);

    for (unsigned i = 0; i < w->listeners && on != set->listening; i++) {
        int *fd = &w->listener[i];

        if (!on)
            epoll_ctl(set->fd, EPOLL_CTL_DEL, *fd, NULL);
        else if (epset_add(set, *fd, EPOLLIN | EPOLLEXCLUSIVE, fd) < 0 && errno != EEXIST)
            return false;
    }
    set->listening = on;
    return true;
}

/* The number of the listener that `who` points to, or -1 if it is something else. */
static inline int epset_listener(const struct epset *set, const void *who)
{
    const struct worker *w = set->worker;
    const int *fd = who;

    return fd >= w->listener && fd < w->listener + w->listeners ? (int)(fd - w->listener) : -1;
}

/* Wait, and refresh the clock.  Gives the number of events, or -errno. */
static inline int epset_wait(struct epset *set, struct loop *l, struct epoll_event ev[EVENTS_MAX])
{
    bool armed = epset_listen(set, l);
    int n = epoll_wait(set->fd, ev, EVENTS_MAX, armed ? loop_wait_ms(l) : RETRY_MS);

    if (n < 0 && errno != EINTR)
        return -errno;
    loop_tick(l);
    return n < 0 ? 0 : n;
}

#endif
