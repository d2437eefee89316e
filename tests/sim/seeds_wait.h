/* SPDX-License-Identifier: MIT */
/* seeds_wait.h - epoll, poll and select over virtual descriptors.
 *
 * Each reports only true readiness, but not always all of it: something that becomes ready a moment
 * later would not be reported either.  At least one ready descriptor is reported.  Now and then a
 * descriptor is reported that has nothing, as may happen (select(2), BUGS), or a signal interrupts.
 * epoll keeps its set as Linux does: level, edge and one shot, exclusive, and which changes are
 * errors.
 */
#ifndef TESTS_SEEDS_WAIT_H
#define TESTS_SEEDS_WAIT_H
#include "seeds_calls.h"

enum { SIGNALS = 60 }; /* one wait in this many is interrupted */

static inline int64_t wait_us(int ms)
{
    return ms < 0 ? -1 : (int64_t)ms * 1000;
}

/* --- epoll ------------------------------------------------------------------------------------ */

int __real_epoll_create1(int flags);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_create1(int flags)
{
    for (unsigned i = 0; i < FDS && sim.on; i++)
        if (sim.thing[i].kind == KIND_EPOLL)
            sim_broken("a second epoll set is not known here");
    return sim.on ? sim_open(KIND_EPOLL) : __real_epoll_create1(flags);
}

/* epoll_ctl(2), ERRORS: operations that an exclusive entry does not allow. */
static inline bool exclusive_wrong(const struct thing *t, int op, uint32_t events)
{
    const uint32_t allowed = EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET;

    if (op == EPOLL_CTL_MOD)
        return (events | t->events) & EPOLLEXCLUSIVE;
    return events & EPOLLEXCLUSIVE && events & ~(allowed | EPOLLEXCLUSIVE);
}

int __real_epoll_ctl(int ep, int op, int fd, struct epoll_event *ev);
int __wrap_epoll_ctl(int ep, int op, int fd, struct epoll_event *ev);
int __wrap_epoll_ctl(int ep, int op, int fd, struct epoll_event *ev)
{
    struct thing *t;

    if (!sim_has(ep))
        return __real_epoll_ctl(ep, op, fd, ev);
    if (sim_thing(ep)->kind != KIND_EPOLL || !sim_has(fd))
        sim_broken("a set is changed that is none, or by what is no descriptor");
    t = sim_thing(fd);
    if (op == EPOLL_CTL_ADD && t->in_set)
        return sim_fail(EEXIST);
    if (op != EPOLL_CTL_ADD && !t->in_set)
        return sim_fail(ENOENT);
    if (op != EPOLL_CTL_DEL && exclusive_wrong(t, op, ev->events))
        return sim_fail(EINVAL);
    sim.progress++;
    t->in_set = op != EPOLL_CTL_DEL;
    if (op == EPOLL_CTL_DEL)
        return 0;
    t->events = ev->events;
    t->data = ev->data;
    t->spent = false;
    t->rung = thing_look(t, t->events) != 0;
    return 0;
}

/* The events that an entry has to report now. */
static inline uint32_t entry_tells(struct thing *t)
{
    if (!t->in_set || t->spent || (t->events & EPOLLET && !t->rung))
        return 0;
    return thing_look(t, t->events);
}

static inline bool set_ready(void *who)
{
    (void)who;
    for (unsigned i = 0; i < FDS; i++)
        if (entry_tells(&sim.thing[i]))
            return true;
    return false;
}

static inline void entry_tell(struct thing *t, uint32_t events, struct epoll_event *ev)
{
    *ev = (struct epoll_event){.events = events, .data = t->data};
    t->rung = false;
    t->spent = t->events & EPOLLONESHOT;
}

/* Report from a random place in the list on, not always all entries. */
static inline int set_tell(struct epoll_event *ev, int most)
{
    unsigned at = (unsigned)sim_random(FDS), step = sim_chance(2) ? 1 : FDS - 1;
    bool all = sim_chance(2);
    int n = 0;

    for (unsigned i = 0; i < FDS && n < most; i++, at = (at + step) % FDS) {
        struct thing *t = &sim.thing[at];
        uint32_t events = entry_tells(t);

        if (events && (all || sim_chance(2)))
            entry_tell(t, events, &ev[n++]);
        else if (!events && t->in_set && !t->spent && sim_spurious(t))
            entry_tell(t, t->events & (EPOLLIN | EPOLLOUT), &ev[n++]);
    }
    for (unsigned i = 0; i < FDS && !n; i++)
        if (entry_tells(&sim.thing[i]))
            entry_tell(&sim.thing[i], entry_tells(&sim.thing[i]), &ev[n++]);
    return n;
}

int __real_epoll_wait(int ep, struct epoll_event *ev, int most, int ms);
int __wrap_epoll_wait(int ep, struct epoll_event *ev, int most, int ms);
int __wrap_epoll_wait(int ep, struct epoll_event *ev, int most, int ms)
{
    int n;

    if (!sim_has(ep))
        return __real_epoll_wait(ep, ev, most, ms);
    if (sim_thing(ep)->kind != KIND_EPOLL || most <= 0)
        sim_broken("a wait for what is no set");
    sim_spend(sim_random(20));
    if (sim_chance(SIGNALS))
        return sim_fail(EINTR);
    sim_wait_begins();
    n = sim_sleep(wait_us(ms), set_ready, NULL) ? set_tell(ev, most) : 0;
    return sim_wait_ends(n, ms != 0);
}

/* --- poll ------------------------------------------------------------------------------------- */

struct polled {
    struct pollfd *p;
    nfds_t n;
};

static inline uint32_t polled_tells(const struct pollfd *p)
{
    if (p->fd < 0)
        return 0;
    if (!sim_has(p->fd))
        sim_broken("poll of real and virtual descriptors together");
    return thing_look(sim_thing(p->fd), (uint32_t)p->events);
}

static inline bool poll_ready(void *who)
{
    const struct polled *all = who;

    for (nfds_t i = 0; i < all->n; i++)
        if (polled_tells(&all->p[i]))
            return true;
    return false;
}

static inline int poll_tell(struct pollfd *p, nfds_t n, bool whole)
{
    nfds_t last = n;
    int told = 0;

    for (nfds_t i = 0; i < n; i++) {
        uint32_t events = polled_tells(&p[i]);

        if (!events && !whole && p[i].fd >= 0 && sim_spurious(sim_thing(p[i].fd)))
            events = (uint32_t)p[i].events;
        p[i].revents = 0;
        if (events)
            last = i;
        if (events && (whole || sim_chance(2)))
            p[i].revents = (short)events;
        told += p[i].revents != 0;
    }
    if (!told && last < n) {
        p[last].revents = (short)polled_tells(&p[last]);
        told = 1;
    }
    return told;
}

int __real_poll(struct pollfd *p, nfds_t n, int ms);
int __wrap_poll(struct pollfd *p, nfds_t n, int ms);
int __wrap_poll(struct pollfd *p, nfds_t n, int ms)
{
    struct polled all = {p, n};
    bool look = ms == 0 && n && sim_has(p[0].fd) && sim_thing(p[0].fd)->kind == KIND_LISTENER;
    bool ours = false;

    for (nfds_t i = 0; i < n; i++)
        ours = ours || sim_has(p[i].fd);
    if (!ours)
        return __real_poll(p, n, ms);
    sim_spend(sim_random(20));
    if (look) /* worker_awaited(): no wait, and the result is used */
        return poll_tell(p, n, true);
    if (sim_chance(SIGNALS))
        return sim_fail(EINTR);
    sim_wait_begins();
    (void)sim_sleep(wait_us(ms), poll_ready, &all);
    return sim_wait_ends(poll_tell(p, n, sim_chance(2)), ms != 0);
}

/* Called where the compiler knows the size of the array (_FORTIFY_SOURCE). */
int __wrap___poll_chk(struct pollfd *p, nfds_t n, int ms, size_t bytes);
int __wrap___poll_chk(struct pollfd *p, nfds_t n, int ms, size_t bytes)
{
    must(n * sizeof(*p) <= bytes);
    return __wrap_poll(p, n, ms);
}

/* --- select ----------------------------------------------------------------------------------- */

struct selected {
    int n;
    const fd_set *in, *out;
};

enum { SELECT_IN = EPOLLIN | EPOLLHUP | EPOLLERR, SELECT_OUT = EPOLLOUT | EPOLLERR };

/* In which of the two sets the descriptor stays. */
static inline uint32_t selected_tells(const struct selected *all, int fd)
{
    bool in = FD_ISSET(fd, all->in), out = FD_ISSET(fd, all->out);
    uint32_t ready;

    if (!in && !out)
        return 0;
    if (!sim_has(fd))
        sim_broken("select of real and virtual descriptors together");
    ready = thing_look(sim_thing(fd), (in ? EPOLLIN : 0u) | (out ? EPOLLOUT : 0u));
    return (in && ready & SELECT_IN ? EPOLLIN : 0u) | (out && ready & SELECT_OUT ? EPOLLOUT : 0u);
}

static inline bool select_ready(void *who)
{
    const struct selected *all = who;

    for (int fd = 0; fd < all->n; fd++)
        if (selected_tells(all, fd))
            return true;
    return false;
}

int __real_select(int n, fd_set *in, fd_set *out, fd_set *odd, struct timeval *tv);
int __wrap_select(int n, fd_set *in, fd_set *out, fd_set *odd, struct timeval *tv);
int __wrap_select(int n, fd_set *in, fd_set *out, fd_set *odd, struct timeval *tv)
{
    const fd_set asked_in = *in, asked_out = *out;
    struct selected all = {n, &asked_in, &asked_out};
    bool whole = sim_chance(2);
    int last = -1, told = 0;

    if (!sim.on)
        return __real_select(n, in, out, odd, tv);
    sim_spend(sim_random(20));
    if (sim_chance(SIGNALS))
        return sim_fail(EINTR); /* the sets are unchanged: select(2) */
    sim_wait_begins();
    (void)sim_sleep(tv ? tv->tv_sec * 1000000 + tv->tv_usec : -1, select_ready, &all);
    FD_ZERO(in);
    FD_ZERO(out);
    for (int fd = 0; fd < n; fd++) {
        uint32_t events = selected_tells(&all, fd);

        last = events ? fd : last;
        if (!events || !(whole || sim_chance(2)))
            continue;
        if (events & EPOLLIN)
            FD_SET(fd, in);
        if (events & EPOLLOUT)
            FD_SET(fd, out);
        told += !!(events & EPOLLIN) + !!(events & EPOLLOUT);
    }
    if (!told && last >= 0) {
        FD_SET(last, selected_tells(&all, last) & EPOLLIN ? in : out);
        told = 1;
    }
    return sim_wait_ends(told, !tv || tv->tv_sec || tv->tv_usec);
}

#endif
