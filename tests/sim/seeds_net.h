/* SPDX-License-Identifier: MIT */
/* seeds_net.h - a network without wires: listeners, sockets and clients in memory, and a clock that
 * moves only while the server sleeps or spends time.
 *
 * A client follows its script (seeds_script.h): at given moments its bytes arrive, it reads some of
 * the bytes sent to it, it ends or resets the connection.  The server's side of each connection has
 * what the kernel would keep: a receive queue, a bounded send queue, errors not reported yet.
 * Readiness is derived from that as tcp_poll() derives it.  Everything that the kernel leaves open
 * is drawn from a second seed: how late an event is, how short a transfer, which number a
 * descriptor gets, and in which order and how many at a time ready descriptors are reported.
 *
 * One thread; one run at a time.  What an engine may not do (use a closed descriptor, sleep for
 * ever, spin) ends the program with the run's name.
 */
#ifndef TESTS_SEEDS_NET_H
#define TESTS_SEEDS_NET_H
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "seeds_script.h"

enum {
    /* Virtual descriptors: above all real ones, below FD_SETSIZE. */
    FD_FIRST = 500,
    FDS = 100,
    LATE_US_MAX = 2000,      /* of an event beyond its time */
    TURN_US = 20000,         /* no turn of a server is longer */
    VIRTUAL_S_MAX = 300,     /* a run that takes longer has forgotten a client */
    SPURIOUS = 1600,         /* one in this many reported entries is not ready */
    SPINS_MAX = 64           /* waits in a row that reported something, without progress */
};
#define NEVER UINT64_MAX

/* --- State ------------------------------------------------------------------------------------ */

enum kind { KIND_NONE, KIND_LISTENER, KIND_SOCKET, KIND_EVENT, KIND_EPOLL };

/* What a descriptor stands for, with its place in the one epoll set. */
struct thing {
    enum kind kind;
    struct peer *peer;  /* KIND_SOCKET */
    uint64_t count;     /* KIND_EVENT */
    bool in_set, rung;  /* rung: something happened since the last report (edge) */
    bool spent;         /* reported once (one shot): silent until it is modified */
    uint32_t events;
    epoll_data_t data;
};

enum end { END_NOT, END_FIN, END_RST, END_OWN, END_STALLED };

/* A client and its connection. */
struct peer {
    const struct script *script;
    unsigned number, step, step_done; /* step_done: bytes of a drip */
    int fd;                   /* the server's; 0: not accepted yet, or closed */
    bool queued, closed;      /* waits in the listener; the server has closed it */
    size_t arrived, consumed; /* of the script's bytes: the difference is the receive queue */
    size_t heeded;            /* bytes that had arrived when the server must have stopped */
    bool fin, rst;            /* from the client; has arrived */
    int err;                  /* reported by the next call */
    bool eof_told;
    struct text out;          /* what was sent to it */
    size_t taken;             /* ... and read by it */
    bool shut, no_space;      /* the server's end of the stream; a send found no room */
    bool abrupt;              /* closing resets */
    bool cut;                 /* the server closed abruptly or with input unread: a reset comes */
    uint64_t step_us, read_us;
    enum end end;
    /* Times of a drip's first byte, the last byte sent, the last one read, the end. */
    uint64_t begun_us, last_us, heard_us, end_us;
};

struct sim {
    struct thing thing[FDS];
    struct peer *peer;
    unsigned peers;
    unsigned ended;
    uint64_t now_us, stop_us, job_us, tick_us;
    uint64_t stopped_us;      /* when the server was stopped */
    bool early;               /* ... before the clients had ended */
    uint64_t rng;
    unsigned drowsy_in, drowsy_us; /* how often a sleeper runs late, and how late */
    unsigned short_in;        /* how often a transfer is short */
    uint64_t progress, progress_seen;
    unsigned spins;
    bool told;                /* the last wait reported something */
    uint64_t waits, calls;
    void (*stop)(void);       /* stops the server */
    void (*job_done)(void);   /* lets the helper finish */
    char name[160];           /* of the run, and how to repeat it */
    unsigned flip;            /* the self-check: a bit is flipped in this transfer */
    bool on;
};

static struct sim sim;

static inline void sim_broken(const char *what)
{
    printf("%s: %s (%llu us)\n", sim.name, what, (unsigned long long)sim.now_us);
    fflush(stdout);
    _exit(1);
}

static inline uint64_t sim_random(uint64_t below)
{
    return script_random(&sim.rng, below);
}

/* True once in n draws. */
static inline bool sim_chance(unsigned n)
{
    return sim_random(n) == 0;
}

static inline bool sim_has(int fd)
{
    return sim.on && fd >= FD_FIRST && fd < FD_FIRST + FDS;
}

/* The object behind a descriptor that the server uses. */
static inline struct thing *sim_thing(int fd)
{
    struct thing *t = &sim.thing[fd - FD_FIRST];

    if (t->kind == KIND_NONE)
        sim_broken("a descriptor is used that is not open");
    return t;
}

/* Return a free descriptor, drawn at random. */
static inline int sim_open(enum kind kind)
{
    unsigned at = (unsigned)sim_random(FDS);

    for (unsigned i = 0; i < FDS; i++) {
        struct thing *t = &sim.thing[(at + i) % FDS];

        if (t->kind != KIND_NONE)
            continue;
        *t = (struct thing){.kind = kind};
        return FD_FIRST + (int)((at + i) % FDS);
    }
    errno = EMFILE;
    return -1;
}

/* Whether readiness is reported although there is nothing to read (select(2), BUGS). */
static inline bool sim_spurious(const struct thing *t)
{
    return (t->kind == KIND_SOCKET || t->kind == KIND_LISTENER) && sim_chance(SPURIOUS);
}

/* --- Readiness -------------------------------------------------------------------------------- */

static inline size_t peer_room(const struct peer *p)
{
    size_t queued = p->out.len - p->taken;

    return queued < p->script->room ? p->script->room - queued : 0;
}

/* sk_stream_is_writeable(): a third of the queue is free. */
static inline bool peer_writable(const struct peer *p)
{
    return peer_room(p) && peer_room(p) >= (p->out.len - p->taken) / 2;
}

static inline uint32_t peer_ready(const struct peer *p)
{
    uint32_t events = 0;

    if (p->arrived > p->consumed || p->fin || p->rst)
        events |= EPOLLIN;
    if (p->fin || p->rst)
        events |= EPOLLRDHUP;
    if (p->shut || p->rst || peer_writable(p))
        events |= EPOLLOUT;
    if ((p->fin && p->shut) || p->rst)
        events |= EPOLLHUP;
    if (p->err)
        events |= EPOLLERR;
    return events;
}

static inline uint32_t thing_ready(const struct thing *t)
{
    if (t->kind == KIND_EVENT)
        return EPOLLOUT | (t->count ? EPOLLIN : 0);
    if (t->kind == KIND_SOCKET)
        return peer_ready(t->peer);
    for (unsigned i = 0; t->kind == KIND_LISTENER && i < sim.peers; i++)
        if (sim.peer[i].queued)
            return EPOLLIN;
    return 0;
}

/* Which of the requested events are ready.  A look at a full queue is remembered, as by tcp_poll():
 * the next time there is room the waiter is woken. */
static inline uint32_t thing_look(struct thing *t, uint32_t events)
{
    uint32_t ready = thing_ready(t);

    if (t->kind == KIND_SOCKET && events & EPOLLOUT && !(ready & EPOLLOUT))
        t->peer->no_space = true;
    return ready & (events | EPOLLERR | EPOLLHUP);
}

/* Something happened that wakes a sleeper on the descriptor. */
static inline void sim_ring(int fd, uint32_t events)
{
    struct thing *t = &sim.thing[fd - FD_FIRST];

    if (t->in_set && (events & (t->events | EPOLLERR | EPOLLHUP)))
        t->rung = true;
}

static inline void peer_ring(const struct peer *p, uint32_t events)
{
    if (p->fd)
        sim_ring(p->fd, events);
}

/* --- Clients ---------------------------------------------------------------------------------- */

static inline uint64_t soon(uint64_t us)
{
    return sim.now_us + us + sim_random(LATE_US_MAX);
}

static inline void peer_end(struct peer *p, enum end end)
{
    if (p->end != END_NOT)
        return;
    p->end = end;
    p->end_us = sim.now_us;
    p->step_us = p->read_us = NEVER;
    sim.ended++;
}

static inline void peer_fin(struct peer *p)
{
    if (p->fin || p->rst)
        return;
    p->fin = true;
    peer_ring(p, EPOLLIN | EPOLLRDHUP | (p->shut ? EPOLLHUP : 0));
}

/* Bytes arrive.  A closed socket answers them with a reset, which destroys everything that was on
 * its way. */
static inline void peer_bytes(struct peer *p, size_t n)
{
    p->last_us = sim.now_us;
    if (p->closed) {
        p->out.len = p->taken;
        peer_end(p, END_RST);
        return;
    }
    p->arrived += n;
    if (!sim.stopped_us || sim.now_us < sim.stopped_us + TURN_US)
        p->heeded = p->arrived;
    peer_ring(p, EPOLLIN);
}

static inline void peer_reset(struct peer *p)
{
    p->rst = true;
    p->err = ECONNRESET;
    p->last_us = sim.now_us;
    p->out.len = p->taken;
    peer_ring(p, EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLRDHUP);
    peer_end(p, END_OWN);
}

/* Take one step of the script, and set when the next one is due. */
static inline void peer_step(struct peer *p)
{
    const struct step *s = &p->script->step[p->step];

    p->step_us = NEVER;
    switch (s->kind) {
    case STEP_CONNECT:
        p->queued = true;
        p->last_us = sim.now_us;
        for (int fd = FD_FIRST; fd < FD_FIRST + FDS; fd++)
            if (sim.thing[fd - FD_FIRST].kind == KIND_LISTENER)
                sim_ring(fd, EPOLLIN);
        break;
    case STEP_SEND:
        peer_bytes(p, s->bytes);
        break;
    case STEP_DRIP:
        p->begun_us = p->step_done ? p->begun_us : sim.now_us;
        peer_bytes(p, 1);
        if (++p->step_done < s->bytes && p->end == END_NOT)
            p->step_us = soon(s->pause_us);
        if (p->step_us != NEVER)
            return;
        break;
    case STEP_FIN:
        p->last_us = sim.now_us;
        peer_fin(p);
        break;
    case STEP_RESET:
        peer_reset(p);
        break;
    }
    if (++p->step < p->script->steps && p->end == END_NOT)
        p->step_us = soon(p->script->step[p->step].pause_us);
}

static inline bool peer_stalled(const struct peer *p)
{
    return p->taken >= p->script->stall_at;
}

/* The client reads.  At the end of the server's stream it ends its own. */
static inline void peer_read(struct peer *p)
{
    size_t n = p->out.len - p->taken, most = 1 + sim_random(p->script->read_max);

    p->read_us = NEVER;
    n = n < most ? n : most;
    n = n < p->script->stall_at - p->taken ? n : p->script->stall_at - p->taken;
    p->taken += n;
    p->heard_us = n ? sim.now_us : p->heard_us;
    if (n && p->no_space && peer_writable(p)) {
        p->no_space = false;
        peer_ring(p, EPOLLOUT);
    }
    if (peer_stalled(p) && !p->closed)
        return;
    if (peer_stalled(p)) {
        peer_end(p, END_STALLED);
    } else if (p->taken < p->out.len) {
        p->read_us = soon(p->script->read_us);
    } else if (p->cut) {
        peer_end(p, END_RST);
    } else if (p->shut) {
        peer_fin(p);
        peer_end(p, END_FIN);
    }
}

/* There is something to read, or the end of the stream. */
static inline void peer_hears(struct peer *p)
{
    if (p->end == END_NOT && p->read_us == NEVER && (!peer_stalled(p) || p->closed))
        p->read_us = soon(p->script->read_us);
}

/* The server closes.  With unread input that is a reset, which destroys everything on its way. */
static inline void peer_closed(struct peer *p)
{
    p->closed = true;
    p->fd = 0;
    if ((p->abrupt || p->arrived > p->consumed) && !p->rst) {
        p->cut = true;
        p->out.len = p->taken;
    }
    p->shut = true;
    peer_hears(p);
}

/* --- Time ------------------------------------------------------------------------------------- */

static inline uint64_t sim_next_us(void)
{
    uint64_t next = sim.stop_us < sim.job_us ? sim.stop_us : sim.job_us;

    for (unsigned i = 0; i < sim.peers; i++) {
        const struct peer *p = &sim.peer[i];

        next = p->step_us < next ? p->step_us : next;
        next = p->read_us < next ? p->read_us : next;
    }
    return next;
}

/* Let everything that is due happen. */
static inline void sim_happen(void)
{
    for (unsigned i = 0; i < sim.peers; i++) {
        struct peer *p = &sim.peer[i];

        if (p->step_us <= sim.now_us)
            peer_step(p);
        if (p->read_us <= sim.now_us)
            peer_read(p);
    }
    if (sim.job_us <= sim.now_us)
        sim.job_done();
    if (sim.ended == sim.peers && sim.stop_us == NEVER)
        sim.stop_us = sim.now_us + sim_random(100000);
    if (sim.stop_us <= sim.now_us) {
        sim.stopped_us = sim.now_us;
        sim.stop_us = NEVER - 1; /* once */
        sim.stop();
    }
    if (sim.now_us > VIRTUAL_S_MAX * 1000000u)
        sim_broken("it has not come to an end in time: somebody is forgotten");
}

/* Time passes while the server does something. */
static inline void sim_spend(uint64_t us)
{
    sim.now_us += us;
    sim_happen();
}

/* Sleep until ready() is true, or for for_us; -1: without limit.  Returns whether it is ready. */
static inline bool sim_sleep(int64_t for_us, bool (*ready)(void *), void *who)
{
    uint64_t until_us = for_us < 0 ? NEVER - 1 : sim.now_us + (uint64_t)for_us;

    sim_happen();
    while (!ready(who)) {
        uint64_t next_us = sim_next_us();

        if (sim.now_us >= until_us)
            return false;
        if (next_us >= NEVER - 1 && for_us < 0)
            sim_broken("the server sleeps, and nothing will ever wake it");
        next_us = next_us < until_us ? next_us : until_us;
        sim.now_us = next_us > sim.now_us ? next_us : sim.now_us;
        if (next_us == until_us) /* a timer may be late, never early */
            sim.now_us += sim_random(500);
        sim_happen();
    }
    if (sim_chance(sim.drowsy_in)) /* other descriptors become ready before the sleeper runs */
        sim_spend(sim_random(sim.drowsy_us));
    return true;
}

/* A wait begins.  If the last one reported something, or did not sleep, there must be progress
 * within SPINS_MAX waits. */
static inline void sim_wait_begins(void)
{
    sim.waits++;
    sim.spins = sim.told && sim.progress == sim.progress_seen ? sim.spins + 1 : 0;
    sim.progress_seen = sim.progress;
    if (sim.spins > SPINS_MAX)
        sim_broken("the server spins: it is woken again and again, and does nothing");
}

/* ... and ends. */
static inline int sim_wait_ends(int told, bool slept)
{
    sim.told = told > 0 || !slept;
    return told;
}

#endif
