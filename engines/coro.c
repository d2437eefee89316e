/* SPDX-License-Identifier: MIT */
/* coro.c - a coroutine for each connection: straight-line code, all of it on one thread.
 *
 * The idea: the loop of a blocking server, once per connection, each on a small stack of its own.
 * Where a thread would sleep in the kernel, the coroutine is switched out, and in again when epoll
 * says that it can go on.  No state is saved by hand: the stack keeps it.
 *
 * What it costs: two switches a turn, a dozen or two instructions each (see base/coro_x86_64.c),
 * and a stack per connection, of which the touched pages stay in memory: more than epoll.c keeps of
 * an idle client.  A stack and its guard page are two mappings: the kernel allows vm.max_map_count
 * mappings per process, so conn_max is lowered to what fits (coro_most()), and a connection whose
 * stack cannot be mapped all the same is refused.  The gain is small here, because the machine
 * keeps its state anyway; code with many steps (a database, a proxy's two sides) can be written
 * straight on.  Why there is more: all engines up to this one make a call when it can be made, and
 * wait for that before it or inside it; completion hands over the call itself.
 */
#include <stdlib.h>
#include "../base/coro.h"
#include "epset.h"

enum { ROOM_FIRST = 64 };

/* A connection's coroutine.  session->engine_data is its number. */
struct fiber {
    struct coro *coro;
    struct sched *sched;
    struct session *session;
    enum conn_want want; /* what it waits for while it is switched out */
    uint32_t armed;      /* events it is registered for; 0: not in the set */
    unsigned number;
};

struct sched {
    struct loop *loop;
    struct epset set;
    struct fiber **fiber; /* by number, below count */
    unsigned room, count;
};

/* --- What a connection does ------------------------------------------------------------------- */

/* Serve the connection until it ends, as naive.c does; waiting is a call. */
static void converse(struct coro *self, void *arg)
{
    struct fiber *f = arg;

    while ((f->want = session_pump(f->sched->loop, f->session)) != CONN_CLOSE)
        coro_suspend(self);
}

/* --- Fibers ----------------------------------------------------------------------------------- */

static bool fiber_place(struct sched *sc, struct fiber *f)
{
    if (sc->count == sc->room) {
        unsigned room = sc->room ? sc->room * 2 : ROOM_FIRST;
        struct fiber **more = realloc(sc->fiber, room * sizeof(*more));

        if (!more)
            return false;
        sc->fiber = more;
        sc->room = room;
    }
    f->number = sc->count++;
    sc->fiber[f->number] = f;
    f->session->engine_data = f->number;
    return true;
}

/* Close a fiber; the last one takes its number. */
static void fiber_close(struct fiber *f)
{
    struct sched *sc = f->sched;
    struct fiber *last = sc->fiber[--sc->count];

    sc->fiber[f->number] = last;
    last->number = f->number;
    last->session->engine_data = f->number;
    session_close(sc->loop, f->session);
    loop_stack_used(sc->loop, coro_touched(f->coro));
    coro_close(f->coro);
    free(f);
}

static bool fiber_open(struct sched *sc, struct session *s)
{
    struct fiber *f = calloc(1, sizeof(*f));

    if (!f)
        return false;
    *f = (struct fiber){.sched = sc, .session = s};
    f->coro = coro_open(converse, f);
    if (f->coro && fiber_place(sc, f))
        return true;
    if (f->coro)
        coro_close(f->coro);
    free(f);
    return false;
}

static bool arm(const struct sched *sc, struct fiber *f)
{
    struct epoll_event ev = {.data.ptr = f};
    int op;

    if (f->want == CONN_RECV || f->want == CONN_LINGER)
        ev.events = EPOLLIN;
    else if (f->want == CONN_SEND)
        ev.events = EPOLLOUT;
    if (ev.events == f->armed)
        return true;
    op = !f->armed ? EPOLL_CTL_ADD : ev.events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
    f->armed = ev.events;
    return epoll_ctl(sc->set.fd, op, f->session->fd, &ev) == 0;
}

static void run(struct fiber *f)
{
    if (!coro_resume(f->coro) || !arm(f->sched, f))
        fiber_close(f);
}

/* --- Turns ------------------------------------------------------------------------------------ */

static void accept_waiting(struct sched *sc, unsigned listener)
{
    for (unsigned n = 0; n < ACCEPT_BUDGET; n++) {
        struct session *s = loop_accept(sc->loop, listener);

        if (!s)
            return;
        if (!fiber_open(sc, s))
            session_refuse(sc->loop, s);
        else
            run(sc->fiber[s->engine_data]);
    }
}

static void handle(struct sched *sc, void *who)
{
    int listener = epset_listener(&sc->set, who);

    if (listener >= 0)
        accept_waiting(sc, (unsigned)listener);
    else if (who == sc)
        loop_woken(sc->loop);
    else if (who != sc->set.worker)
        run(who);
}

/* Calls that may close a session that was not reported come after the batch, which may hold its
 * event. */
static int turns(struct sched *sc)
{
    struct epoll_event ev[EVENTS_MAX];
    struct session *s;

    while (!loop_done(sc->loop)) {
        int n = epset_wait(&sc->set, sc->loop, ev);

        if (n < 0)
            return n;
        for (int i = 0; i < n; i++)
            handle(sc, ev[i].data.ptr);
        while ((s = loop_resumed(sc->loop)))
            run(sc->fiber[s->engine_data]);
        while ((s = loop_expired(sc->loop)))
            fiber_close(sc->fiber[s->engine_data]);
    }
    return 0;
}

static int coro_run(struct worker *w)
{
    struct sched sc = {0};
    unsigned most = coro_most() / w->siblings;
    int err;

    w->conn_max = most < w->conn_max ? most : w->conn_max;
    err = loop_open(w, &sc.loop);
    if (err)
        return err;
    err = epset_open(&sc.set, sc.loop);
    if (!err)
        err = epset_add(&sc.set, loop_wake_fd(sc.loop), EPOLLIN, &sc);
    if (!err)
        err = turns(&sc);
    while (sc.count)
        fiber_close(sc.fiber[0]);
    free(sc.fiber);
    loop_close(sc.loop);
    epset_close(&sc.set);
    return err;
}

const struct engine engine_coro = {
    .name = "coro",
    .summary = "a coroutine for each connection, switched where it would block",
    .use = "you want a thread's plain code at the price of a loop",
    .model = ENGINE_READINESS,
    .may_block = false,
    .capacity = ENGINE_DESCRIPTORS,
    .stack_bytes = CORO_STACK_BYTES,
    .run = coro_run,
};
