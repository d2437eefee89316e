/* SPDX-License-Identifier: MIT */
/* watchdog.c - the one watchdog of a blocking engine: deadlines, eviction, drain.
 *
 * A thread that sits in recv() or send() cannot look at the clock, and socket time-outs do not
 * help: a reader that takes a byte now and then resets them for ever.  So one more thread looks at
 * all sessions of the process, and ends a wait by shutdown() on the socket; the serving thread sees
 * the end and closes.  If no answer is owed, only reading is shut down: a request that arrives at
 * that very moment is still read and answered.
 *
 * `lock` guards the registry.  A session's machine belongs to its thread, but during a transfer the
 * watchdog may look at it: session.locked says that one of the two has it.  A thread whose transfer
 * ends while the watchdog looks waits until the look is over.  That works between processes too
 * (fork.c).
 *
 * A transfer costs two atomic operations and nothing else.  The watchdog sleeps until the next
 * deadline.  Every new deadline is at least `shortest_ms` away when it is set, so the watchdog
 * looks no less often than that, and again after MISSED_MS at a session whose thread was at work.
 * It looks every TICK_MS only while connections come, while one waits for a slot, or while the
 * server stops.  When all slots are taken and none
 * waits, it sleeps: the listeners wake it.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "../base/net.h"
#include "../base/thread.h"
#include "inside.h"

enum {
    TICK_MS = 20,
    MISSED_MS = 100,    /* until it looks at a session again whose thread was at work */
    PRESSED_MS = 2,     /* between two rounds that make room */
    PRESSED_LOOKS = 64, /* ... and a millisecond more for each 64 sessions to look at */
    LEAVING_MS = 1000,  /* an evicted session may take this long; then another one is evicted */
    WAITED_MS = 100, /* a connection that waits longer is not about to get a thread or worker */
    STARVED_MS = 1000, /* ... where any thread may take it: a busy machine may be that slow */
    LAST_FIRST = 64, /* places for connections that are queued when the server stops */
    QUIET_TICKS = 50 /* ticks without need, then it sleeps longer: a busy engine need not wake it */
};

enum { ENDED_READING = 1, ENDED = 2 }; /* session.shut */

struct watchdog {
    struct worker *worker;
    pthread_mutex_t lock; /* guards all below, and each session's list links and shut */
    struct session *first;
    unsigned count;
    bool ticking; /* looks every TICK_MS: need not be woken */
    bool added;   /* since the last look */
    bool attends; /* waits for the listeners too, while it sleeps */
    bool over;
    /* The watchdog's own: */
    pthread_t thread;
    int wake_fd;
    unsigned quiet;
    uint64_t now_ms, drain_ms, shortest_ms, conn_max;
    unsigned emptied;         /* worker->emptied at the last look */
    bool waited;              /* a connection was waiting then */
    uint64_t waiting_ms;      /* ... since that time */
    unsigned leaving;         /* sessions that were ended and are still there */
    uint64_t evicted_ms;      /* when the last one was evicted */
    /* Stopping: connections that were taken from the listeners' queues before the listeners were
     * closed, last[next..count) still to be served.  Guarded by lock. */
    uint64_t call_ms;
    int *last;
    unsigned last_next, last_count, last_room;
    atomic_bool left;
};

/* --- The serving threads' side ---------------------------------------------------------------- */

static void wake(struct watchdog *wd)
{
    uint64_t one = 1;

    if (write(wd->wake_fd, &one, sizeof(one)) < 0)
        return; /* the counter is full: the watchdog is awake */
}

bool watchdog_full(struct watchdog *wd)
{
    bool full;

    pthread_mutex_lock(&wd->lock);
    full = wd->count + atomic_load(&wd->worker->queued) >= wd->conn_max;
    pthread_mutex_unlock(&wd->lock);
    return full;
}

bool watchdog_turns_away(struct watchdog *wd, struct session *s)
{
    struct worker *w = wd->worker;
    struct room r = {.now_ms = clock_ms(), .conn_max = w->conn_max};
    unsigned free_slots;

    pthread_mutex_lock(&wd->lock);
    free_slots = wd->count < wd->conn_max ? (unsigned)(wd->conn_max - wd->count) : 0;
    pthread_mutex_unlock(&wd->lock);
    /* If other workers share a listener, the watchdog looks at what waits there. */
    r.waiting = worker_shares(w) ? atomic_load(&w->queued) : worker_waiting(w);
    r.waiting -= r.waiting < free_slots ? r.waiting : free_slots; /* as many will get a slot */
    return r.waiting && session_place(s, &r).claim == ROOM_IDLE;
}

void watchdog_limit(struct watchdog *wd, unsigned slots)
{
    pthread_mutex_lock(&wd->lock);
    wd->conn_max = slots;
    pthread_mutex_unlock(&wd->lock);
}

void watchdog_hurry(struct watchdog *wd)
{
    pthread_mutex_lock(&wd->lock);
    if (!wd->ticking)
        wake(wd);
    pthread_mutex_unlock(&wd->lock);
}

bool watchdog_left(const struct watchdog *wd)
{
    return atomic_load(&wd->left);
}

int watchdog_last(struct watchdog *wd)
{
    int fd = -ECANCELED;

    pthread_mutex_lock(&wd->lock);
    if (wd->last_next < wd->last_count)
        fd = wd->last[wd->last_next++];
    pthread_mutex_unlock(&wd->lock);
    return fd;
}

/* If a queue feeds the threads, the session's connection leaves the queue as it takes its slot,
 * under one lock: if it had neither for a moment, watchdog_full() would be wrong then. */
void watchdog_add(struct watchdog *wd, struct session *s)
{
    s->locked = 1;
    pthread_mutex_lock(&wd->lock);
    (void)worker_unqueued(wd->worker);
    s->prev = NULL;
    s->next = wd->first;
    if (s->next)
        s->next->prev = s;
    wd->first = s;
    wd->count++;
    wd->added = true;
    if (!wd->ticking && (wd->count == 1 || wd->count >= wd->conn_max))
        wake(wd);
    pthread_mutex_unlock(&wd->lock);
}

void watchdog_del(struct watchdog *wd, struct session *s)
{
    pthread_mutex_lock(&wd->lock);
    if (s->prev)
        s->prev->next = s->next;
    else
        wd->first = s->next;
    if (s->next)
        s->next->prev = s->prev;
    wd->count--;
    pthread_mutex_unlock(&wd->lock);
}

/* One byte, because two processes may share the session (fork). */
static bool session_trylock(struct session *s)
{
    return !__atomic_exchange_n(&s->locked, 1, __ATOMIC_ACQUIRE);
}

static void session_unlock(struct session *s)
{
    __atomic_store_n(&s->locked, 0, __ATOMIC_RELEASE);
}

void watchdog_leave(struct watchdog *wd, struct session *s)
{
    (void)wd;
    session_unlock(s);
}

void watchdog_enter(struct watchdog *wd, struct session *s)
{
    (void)wd; /* it may belong to another process, whose lock is out of reach */
    while (!session_trylock(s))
        sched_yield(); /* the watchdog looks at the session: a few instructions */
}

bool watchdog_has_shut(const struct session *s)
{
    return s->shut != 0;
}

/* --- The watchdog's side ---------------------------------------------------------------------- */

static void end(struct session *s, unsigned how)
{
    if (s->shut < how)
        shutdown(s->fd, how == ENDED ? SHUT_RDWR : SHUT_RD);
    s->shut = s->shut < how ? how : s->shut;
}

/* For a session whose machine is at rest.  In the middle of an answer the connection is reset: see
 * session_fini() in session.c. */
static void cut(struct session *s, unsigned how)
{
    if (s->conn.want == CONN_SEND)
        net_cut(s->fd);
    end(s, how);
}

/* How such a session is ended before the server must stop.  Another thread may still have to send
 * in its place: conn_stays_open(). */
static unsigned way_out(const struct session *s)
{
    return conn_idle(&s->conn) || s->conn.stays_open ? ENDED_READING : ENDED;
}

static void count(struct watchdog *wd, enum stat_id stat)
{
    stats_add(wd->worker->server->stats, stat, 1);
}

static int stop_signals(const struct watchdog *wd)
{
    return atomic_load_explicit(wd->worker->stopping, memory_order_relaxed);
}

static bool cut_off(const struct watchdog *wd)
{
    return wd->drain_ms && (wd->now_ms >= wd->drain_ms || stop_signals(wd) > 1);
}

/* Look at one session whose machine is at rest.  Returns its deadline. */
static uint64_t look(struct watchdog *wd, struct session *s)
{
    /* The thread of an idle session may have received a request before its turn: that request is
     * answered. */
    unsigned how = way_out(s);

    if (wd->drain_ms && session_may_leave(wd->worker, s, wd->now_ms))
        end(s, ENDED_READING);
    if (s->conn.deadline_ms <= wd->now_ms && s->shut < how && session_overdue(s, wd->now_ms)) {
        count(wd, STAT_EXPIRED);
        cut(s, how);
    }
    return s->conn.deadline_ms > wd->now_ms ? s->conn.deadline_ms : wd->now_ms;
}

/* Look at all sessions: end those whose time is up, and return the next deadline.  With v, find
 * those to evict. */
static uint64_t look_at_all(struct watchdog *wd, struct victims *v)
{
    uint64_t next_ms = wd->now_ms + wd->shortest_ms;

    wd->leaving = 0;
    for (struct session *s = wd->first; s; s = s->next) {
        /* If the thread is at work, nothing here may look at its session.  A deadline that the
         * thread sets is shortest_ms away, but it may leave the old one, which may have passed. */
        uint64_t again_ms = wd->now_ms + MISSED_MS;

        wd->leaving += s->shut != 0;
        if (session_trylock(s)) {
            if (cut_off(wd))
                cut(s, ENDED);
            again_ms = look(wd, s);
            if (v && s->shut == 0)
                victims_look(v, s);
            session_unlock(s);
        } else if (cut_off(wd)) {
            end(s, ENDED); /* this needs no look at the machine */
        }
        next_ms = again_ms < next_ms ? again_ms : next_ms;
    }
    return next_ms;
}

/* Evict a session, unless it has come to life in the meantime.  An idle session is shut down for
 * reading only: a request that arrives at this moment is still answered. */
static void evict(struct watchdog *wd, struct session *s, const struct room *r)
{
    if (!session_trylock(s))
        return;
    if (session_place(s, r).claim != ROOM_KEEPS) {
        count(wd, STAT_EVICTED);
        wd->evicted_ms = wd->now_ms;
        cut(s, way_out(s));
    }
    session_unlock(s);
}

/* Evict as many sessions as connections wait, less those that are ending already: a thread, or even
 * a process, needs a moment to end.  A client that keeps asking may delay that further. */
static void evict_all(struct watchdog *wd, const struct victims *v)
{
    unsigned leaving = wd->now_ms - wd->evicted_ms < LEAVING_MS ? wd->leaving : 0;

    for (unsigned i = 0; i + leaving < v->wanted && i < v->count; i++)
        evict(wd, (struct session *)v->row[i].conn, &v->room); /* its first member */
}

/* Whether any free thread of a pool takes a queued connection.  Otherwise the connection waits for
 * one certain thread. */
static bool any_takes(const struct worker *w)
{
    return w->server->engine->thread_pool && w->tuning.queue != QUEUE_LOCKFREE &&
           !w->tuning.drain_all;
}

/* Whether a connection waits for a slot that it gets only if another connection leaves.  In a full
 * worker that shares its listener with none this is so at once.  Otherwise another thread or worker
 * may be about to take it, so it must have waited for WAITED_MS, or STARVED_MS where slots are free
 * and any thread of a pool may take it. */
static bool is_awaited(struct watchdog *wd, bool full)
{
    struct worker *w = wd->worker;
    unsigned emptied = atomic_load(&w->emptied);
    bool queued = atomic_load(&w->queued) > 0;
    bool waits = queued || (full && worker_awaited(w));

    if (!waits || !wd->waited || emptied != wd->emptied)
        wd->waiting_ms = wd->now_ms;
    wd->emptied = emptied;
    wd->waited = waits;
    if (full && (queued || !worker_shares(w)))
        return waits;
    return wd->now_ms - wd->waiting_ms >= (!full && any_takes(w) ? STARVED_MS : WAITED_MS);
}

/* --- The end of listening --------------------------------------------------------------------- */

static bool last_room(struct watchdog *wd)
{
    unsigned room = wd->last_room ? wd->last_room * 2 : LAST_FIRST;
    int *more;

    if (wd->last_count < wd->last_room)
        return true;
    more = realloc(wd->last, room * sizeof(*more));
    if (!more)
        return false;
    wd->last = more;
    wd->last_room = room;
    return true;
}

/* Every thread may be busy with a slow client, so the watchdog empties the accept queues.  Those
 * connections are served when a thread is free; new clients are refused at once.  If descriptors or
 * memory are short, the rest stays queued until the next round. */
static void leave_listeners(struct watchdog *wd)
{
    int fd = -ENOMEM;

    if (stop_signals(wd) < 2 && wd->now_ms < wd->call_ms)
        return;
    while (worker_takes_last(wd->worker, wd->last_count) && last_room(wd) &&
           (fd = worker_accept_now(wd->worker)) >= 0)
        wd->last[wd->last_count++] = fd;
    if (fd != -EAGAIN && worker_takes_last(wd->worker, wd->last_count) &&
        stop_signals(wd) < 2)
        return;
    atomic_store(&wd->left, true);
    worker_leave(wd->worker);
}

/* One round under the lock.  Returns how long to sleep: ms, or -1 = until something happens. */
static int round_of_looks(struct watchdog *wd)
{
    struct victims v = {.count = 0};
    bool full = wd->count >= wd->conn_max;
    bool awaited;
    uint64_t next_ms;

    wd->now_ms = clock_ms();
    awaited = !stop_signals(wd) && is_awaited(wd, full); /* while stopping, all may finish */
    if (stop_signals(wd) && !wd->drain_ms) {
        wd->drain_ms = wd->now_ms + wd->worker->server->drain_ms + 1;
        wd->call_ms = wd->now_ms + LAST_CALL_MS;
    }
    if (wd->drain_ms && !watchdog_left(wd))
        leave_listeners(wd);
    if (awaited)
        victims_begin(&v, wd->worker, wd->now_ms);
    v.wanted += awaited && !v.wanted;
    next_ms = look_at_all(wd, awaited ? &v : NULL);
    evict_all(wd, &v);
    if (wd->added || awaited || wd->waited || wd->drain_ms)
        wd->quiet = 0;
    else
        wd->quiet++;
    wd->added = false;
    wd->ticking = wd->quiet < QUIET_TICKS;
    wd->attends = full && !wd->ticking;
    if (v.count && PRESSED_MS + wd->count / PRESSED_LOOKS < TICK_MS)
        return (int)(PRESSED_MS + wd->count / PRESSED_LOOKS);
    if (wd->ticking)
        return TICK_MS;
    return wd->count ? (int)(next_ms - wd->now_ms) : -1;
}

static void sleep_until_needed(struct watchdog *wd, int wait_ms)
{
    const struct worker *w = wd->worker;
    struct pollfd p[LISTENERS_MAX + 2] = {{.fd = wd->wake_fd, .events = POLLIN},
                                          {.fd = w->stop_fd, .events = POLLIN}};
    uint64_t n;

    if (wd->drain_ms)
        p[1].fd = -1; /* seen already, and readable for ever */
    for (unsigned i = 0; i < w->listeners; i++)
        p[2 + i] = (struct pollfd){.fd = w->listener[i], .events = POLLIN};
    if (poll(p, wd->attends ? 2 + w->listeners : 2, wait_ms) > 0 && p[0].revents &&
        read(wd->wake_fd, &n, sizeof(n)) < 0)
        return; /* it was emptied already; it was a hint only */
}

static void *watchdog_main(void *arg)
{
    struct watchdog *wd = arg;

    for (;;) {
        int wait_ms;

        pthread_mutex_lock(&wd->lock);
        if (wd->over)
            break;
        wait_ms = round_of_looks(wd);
        pthread_mutex_unlock(&wd->lock);
        sleep_until_needed(wd, wait_ms);
    }
    pthread_mutex_unlock(&wd->lock);
    return NULL;
}

/* --- Open and close --------------------------------------------------------------------------- */

static uint64_t shortest_ms(const struct server *srv)
{
    uint64_t ms = LINGER_MS;

    ms = srv->head_ms < ms ? srv->head_ms : ms;
    ms = srv->idle_ms < ms ? srv->idle_ms : ms;
    return srv->send_ms < ms ? srv->send_ms : ms;
}

int watchdog_open(struct watchdog **wd, struct worker *w)
{
    struct watchdog *new = calloc(1, sizeof(*new));
    int err;

    if (!new)
        return -ENOMEM;
    new->worker = w;
    new->shortest_ms = shortest_ms(w->server);
    new->conn_max = w->conn_max;
    pthread_mutex_init(&new->lock, NULL);
    new->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    err = new->wake_fd < 0 ? -errno : thread_start(&new->thread, watchdog_main, new);
    if (err) {
        if (new->wake_fd >= 0)
            close(new->wake_fd);
        pthread_mutex_destroy(&new->lock);
        free(new);
        return err;
    }
    *wd = new;
    return 0;
}

void watchdog_close(struct watchdog *wd)
{
    pthread_mutex_lock(&wd->lock);
    wd->over = true;
    pthread_mutex_unlock(&wd->lock);
    wake(wd);
    pthread_join(wd->thread, NULL);
    close(wd->wake_fd);
    while (wd->last_next < wd->last_count) /* the time to drain ended before their turn */
        close(wd->last[wd->last_next++]);
    free(wd->last);
    pthread_mutex_destroy(&wd->lock);
    free(wd);
}
