/* SPDX-License-Identifier: MIT */
/* watch.c - the one watcher of a blocking engine: deadlines, eviction, drain.
 *
 * A thread that sits in recv() or send() cannot look at the clock, and socket time-outs do not
 * help: a reader that takes a byte now and then resets them for ever.  So one more thread looks at
 * all sessions of the process, and ends a wait by shutdown() on the socket; the serving thread sees
 * the end and closes.  If no answer is owed, only reading is shut down: a request that arrives at
 * that very moment is still read and answered.
 *
 * `lock` guards the registry.  A session's machine belongs to its thread, but during a transfer the
 * watcher may look at it: owner_state says whose turn it is.  A thread whose transfer ends while
 * the watcher looks waits until the look is over.  That works between processes too (fork.c).
 *
 * Cost of a transfer: two atomic operations and nothing else.  The watcher sleeps until the next
 * deadline.  Every new deadline is at least `shortest_ms` away when it is set, so the watcher looks
 * no less often than that and is never late.  It looks every TICK_MS only while connections come,
 * while one waits for a seat, or while the server stops.  When all seats are taken and none waits,
 * it sleeps: the listeners wake it.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "../base/net.h"
#include "inside.h"

enum {
    TICK_MS = 20,
    PRESSED_MS = 2,     /* between two rounds that make room */
    PRESSED_LOOKS = 64, /* ... and a millisecond more for each 64 sessions to look at */
    LEAVING_MS = 1000,  /* an evicted session may take this long; then another one is evicted */
    WAITED_MS = 100, /* a connection that waits longer is not about to get a thread or worker */
    STARVED_MS = 1000, /* ... where any thread may take it: a busy machine may be that slow */
    LAST_FIRST = 64, /* places for connections that are queued when the server stops */
    QUIET_TICKS = 50 /* ticks without need, then it sleeps longer: a busy engine need not wake it */
};

enum { TURN_SERVER, TURN_TRANSFER, TURN_WATCHER };   /* session.conn.owner_state */
enum { ENDED_READING = 1, ENDED = 2 };               /* session.slot: what was shut down already */

struct watch {
    struct worker *worker;
    pthread_mutex_t lock; /* guards all below, and each session's list links and slot */
    struct session *first;
    unsigned count;
    bool ticking; /* looks every TICK_MS: need not be woken */
    bool added;   /* since the last look */
    bool attends; /* waits for the listeners too, while it sleeps */
    bool over;
    /* The watcher's own: */
    pthread_t thread;
    int wake_fd;
    unsigned quiet;
    uint64_t now_ms, drain_ms, shortest_ms, seats;
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

static void wake(struct watch *watch)
{
    uint64_t one = 1;

    if (write(watch->wake_fd, &one, sizeof(one)) < 0)
        return; /* the counter is full: the watcher is awake */
}

bool watch_full(struct watch *watch)
{
    bool full;

    pthread_mutex_lock(&watch->lock);
    full = watch->count + atomic_load(&watch->worker->queued) >= watch->seats;
    pthread_mutex_unlock(&watch->lock);
    return full;
}

bool watch_turns_away(struct watch *watch, struct session *s)
{
    struct worker *w = watch->worker;
    struct room r = {.now_ms = clock_ms(), .seats = w->seats};
    unsigned free_seats;

    pthread_mutex_lock(&watch->lock);
    free_seats = watch->count < watch->seats ? (unsigned)(watch->seats - watch->count) : 0;
    pthread_mutex_unlock(&watch->lock);
    /* If other workers share a listener, the watcher looks at what waits there. */
    r.waiting = worker_shares(w) ? atomic_load(&w->queued) : worker_waiting(w);
    r.waiting -= r.waiting < free_seats ? r.waiting : free_seats; /* as many will get a seat */
    return r.waiting && session_place(s, &r).claim == ROOM_IDLE;
}

void watch_seats(struct watch *watch, unsigned seats)
{
    pthread_mutex_lock(&watch->lock);
    watch->seats = seats;
    pthread_mutex_unlock(&watch->lock);
}

void watch_hurry(struct watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    if (!watch->ticking)
        wake(watch);
    pthread_mutex_unlock(&watch->lock);
}

bool watch_left(const struct watch *watch)
{
    return atomic_load(&watch->left);
}

int watch_last(struct watch *watch)
{
    int fd = -ECANCELED;

    pthread_mutex_lock(&watch->lock);
    if (watch->last_next < watch->last_count)
        fd = watch->last[watch->last_next++];
    pthread_mutex_unlock(&watch->lock);
    return fd;
}

/* If a queue feeds the threads, the session's connection leaves the queue as it takes its seat,
 * under one lock: if it had neither for a moment, watch_full() would be wrong then. */
void watch_add(struct watch *watch, struct session *s)
{
    pthread_mutex_lock(&watch->lock);
    (void)worker_unqueued(watch->worker);
    s->prev = NULL;
    s->next = watch->first;
    if (s->next)
        s->next->prev = s;
    watch->first = s;
    watch->count++;
    watch->added = true;
    if (!watch->ticking && (watch->count == 1 || watch->count >= watch->seats))
        wake(watch);
    pthread_mutex_unlock(&watch->lock);
}

void watch_del(struct watch *watch, struct session *s)
{
    pthread_mutex_lock(&watch->lock);
    if (s->prev)
        s->prev->next = s->next;
    else
        watch->first = s->next;
    if (s->next)
        s->next->prev = s->prev;
    watch->count--;
    pthread_mutex_unlock(&watch->lock);
}

static bool turn_take(struct session *s, uint8_t turn)
{
    uint8_t free_turn = TURN_TRANSFER;

    return __atomic_compare_exchange_n(&s->conn.owner_state, &free_turn, turn, false,
                                       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void turn_give(struct session *s)
{
    __atomic_store_n(&s->conn.owner_state, TURN_TRANSFER, __ATOMIC_RELEASE);
}

void watch_leave(struct watch *watch, struct session *s)
{
    (void)watch;
    turn_give(s);
}

void watch_enter(struct watch *watch, struct session *s)
{
    (void)watch; /* it may be another process's, whose lock is out of reach */
    while (!turn_take(s, TURN_SERVER))
        sched_yield(); /* the watcher looks at the session: a few instructions */
}

bool watch_has_shut(const struct session *s)
{
    return s->slot != 0;
}

/* --- The watcher's side ----------------------------------------------------------------------- */

static void end(struct session *s, unsigned how)
{
    if (s->slot < how)
        shutdown(s->fd, how == ENDED ? SHUT_RDWR : SHUT_RD);
    s->slot = s->slot < how ? how : s->slot;
}

/* For a session whose machine is at rest.  In the middle of an answer the connection is reset: see
 * session_fini() in session.c. */
static void cut(struct session *s)
{
    if (s->conn.want == CONN_SEND)
        net_cut(s->fd);
    end(s, ENDED);
}

static void count(struct watch *watch, enum stat_id stat)
{
    stats_add(watch->worker->server->stats, stat, 1);
}

static int stop_signals(const struct watch *watch)
{
    return atomic_load_explicit(watch->worker->stopping, memory_order_relaxed);
}

static bool cut_off(const struct watch *watch)
{
    return watch->drain_ms && (watch->now_ms >= watch->drain_ms || stop_signals(watch) > 1);
}

/* Look at one session whose machine is at rest.  Returns its deadline. */
static uint64_t look(struct watch *watch, struct session *s)
{
    /* The session's thread may have received a request before its turn: that request is
     * answered. */
    bool idle = conn_idle(&s->conn);

    if (watch->drain_ms && session_may_leave(s, watch->now_ms))
        end(s, ENDED_READING);
    if (s->conn.deadline_ms <= watch->now_ms && s->slot < (idle ? ENDED_READING : ENDED) &&
        session_overdue(s, watch->now_ms)) {
        count(watch, STAT_EXPIRED);
        if (idle)
            end(s, ENDED_READING);
        else
            cut(s);
    }
    return s->conn.deadline_ms > watch->now_ms ? s->conn.deadline_ms : watch->now_ms;
}

/* Look at all sessions: end those whose time is up, and return the next deadline.  With v, find
 * those to evict. */
static uint64_t look_at_all(struct watch *watch, struct victims *v)
{
    uint64_t next_ms = watch->now_ms + watch->shortest_ms;

    watch->leaving = 0;
    for (struct session *s = watch->first; s; s = s->next) {
        uint64_t deadline_ms;

        watch->leaving += s->slot != 0;
        if (!turn_take(s, TURN_WATCHER)) {
            if (cut_off(watch))
                end(s, ENDED); /* this needs no look at the machine */
            continue; /* its thread is at work: any deadline it sets is shortest_ms away */
        }
        if (cut_off(watch))
            cut(s);
        deadline_ms = look(watch, s);
        next_ms = deadline_ms < next_ms ? deadline_ms : next_ms;
        if (v && s->slot == 0)
            victims_look(v, s);
        turn_give(s);
    }
    return next_ms;
}

/* Evict a session, unless it has come to life in the meantime.  An idle session is shut down for
 * reading only: a request that arrives at this moment is still answered. */
static void evict(struct watch *watch, struct session *s, const struct room *r)
{
    enum room_claim claim;

    if (!turn_take(s, TURN_WATCHER))
        return;
    claim = session_place(s, r).claim;
    if (claim != ROOM_KEEPS) {
        count(watch, STAT_EVICTED);
        watch->evicted_ms = watch->now_ms;
        if (claim == ROOM_IDLE)
            end(s, ENDED_READING);
        else
            cut(s);
    }
    turn_give(s);
}

/* Evict as many sessions as connections wait, less those that are ending already: a thread, or even
 * a process, needs a moment to end.  A client that keeps asking may delay that further. */
static void evict_all(struct watch *watch, const struct victims *v)
{
    unsigned leaving = watch->now_ms - watch->evicted_ms < LEAVING_MS ? watch->leaving : 0;

    for (unsigned i = 0; i + leaving < v->wanted && i < v->count; i++)
        evict(watch, (struct session *)v->row[i].conn, &v->room); /* its first member */
}

/* Whether any free thread of a pool takes a queued connection.  Otherwise the connection waits for
 * one certain thread. */
static bool any_takes(const struct worker *w)
{
    return w->server->engine->thread_pool && w->tuning.queue != QUEUE_LOCKFREE &&
           !w->tuning.drain_all;
}

/* Whether a connection waits for a seat that it will not get by itself.  While seats are free it is
 * about to get a thread, unless its queue's thread is taken or none can be started.  On a listener
 * that other workers share, one of them is about to accept it, unless they are full too. */
static bool is_awaited(struct watch *watch, bool full)
{
    struct worker *w = watch->worker;
    unsigned emptied = atomic_load(&w->emptied);
    bool queued = atomic_load(&w->queued) > 0;
    bool waits = queued || (full && worker_awaited(w));

    if (!waits || !watch->waited || emptied != watch->emptied)
        watch->waiting_ms = watch->now_ms;
    watch->emptied = emptied;
    watch->waited = waits;
    if (full && (queued || !worker_shares(w)))
        return waits;
    return watch->now_ms - watch->waiting_ms >= (!full && any_takes(w) ? STARVED_MS : WAITED_MS);
}

/* --- The end of listening --------------------------------------------------------------------- */

static bool last_room(struct watch *watch)
{
    unsigned room = watch->last_room ? watch->last_room * 2 : LAST_FIRST;
    int *more;

    if (watch->last_count < watch->last_room)
        return true;
    more = realloc(watch->last, room * sizeof(*more));
    if (!more)
        return false;
    watch->last = more;
    watch->last_room = room;
    return true;
}

/* Every thread may be busy with a slow client, so the watcher empties the accept queues.  Those
 * connections are served when a thread is free; new clients are refused at once.  If descriptors or
 * memory are short, the rest stays queued until the next round. */
static void leave_listeners(struct watch *watch)
{
    int fd = -ENOMEM;

    if (stop_signals(watch) < 2 && watch->now_ms < watch->call_ms)
        return;
    while (worker_takes_last(watch->worker, watch->last_count) && last_room(watch) &&
           (fd = worker_accept_now(watch->worker)) >= 0)
        watch->last[watch->last_count++] = fd;
    if (fd != -EAGAIN && worker_takes_last(watch->worker, watch->last_count) &&
        stop_signals(watch) < 2)
        return;
    atomic_store(&watch->left, true);
    worker_leave(watch->worker);
}

/* One round under the lock.  Returns how long to sleep: ms, or -1 = until something happens. */
static int round_of_looks(struct watch *watch)
{
    struct victims v = {.count = 0};
    bool full = watch->count >= watch->seats;
    bool awaited;
    uint64_t next_ms;

    watch->now_ms = clock_ms();
    awaited = !stop_signals(watch) && is_awaited(watch, full); /* while stopping, all may finish */
    if (stop_signals(watch) && !watch->drain_ms) {
        watch->drain_ms = watch->now_ms + watch->worker->server->drain_ms + 1;
        watch->call_ms = watch->now_ms + LAST_CALL_MS;
    }
    if (watch->drain_ms && !watch_left(watch))
        leave_listeners(watch);
    if (awaited)
        victims_begin(&v, watch->worker, watch->now_ms);
    v.wanted += awaited && !v.wanted;
    next_ms = look_at_all(watch, awaited ? &v : NULL);
    evict_all(watch, &v);
    if (watch->added || awaited || watch->waited || watch->drain_ms)
        watch->quiet = 0;
    else
        watch->quiet++;
    watch->added = false;
    watch->ticking = watch->quiet < QUIET_TICKS;
    watch->attends = full && !watch->ticking;
    if (v.count && PRESSED_MS + watch->count / PRESSED_LOOKS < TICK_MS)
        return (int)(PRESSED_MS + watch->count / PRESSED_LOOKS);
    if (watch->ticking)
        return TICK_MS;
    return watch->count ? (int)(next_ms - watch->now_ms) : -1;
}

static void sleep_until_needed(struct watch *watch, int wait_ms)
{
    const struct worker *w = watch->worker;
    struct pollfd p[LISTENERS_MAX + 2] = {{.fd = watch->wake_fd, .events = POLLIN},
                                          {.fd = w->stop_fd, .events = POLLIN}};
    uint64_t n;

    if (watch->drain_ms)
        p[1].fd = -1; /* seen already, and readable for ever */
    for (unsigned i = 0; i < w->listeners; i++)
        p[2 + i] = (struct pollfd){.fd = w->listener[i], .events = POLLIN};
    if (poll(p, watch->attends ? 2 + w->listeners : 2, wait_ms) > 0 && p[0].revents &&
        read(watch->wake_fd, &n, sizeof(n)) < 0)
        return; /* it was emptied already; it was a hint only */
}

static void *watch_main(void *arg)
{
    struct watch *watch = arg;

    for (;;) {
        int wait_ms;

        pthread_mutex_lock(&watch->lock);
        if (watch->over)
            break;
        wait_ms = round_of_looks(watch);
        pthread_mutex_unlock(&watch->lock);
        sleep_until_needed(watch, wait_ms);
    }
    pthread_mutex_unlock(&watch->lock);
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

int watch_open(struct watch **watch, struct worker *w)
{
    struct watch *new = calloc(1, sizeof(*new));
    int err;

    if (!new)
        return -ENOMEM;
    new->worker = w;
    new->shortest_ms = shortest_ms(w->server);
    new->seats = w->seats;
    pthread_mutex_init(&new->lock, NULL);
    new->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    err = new->wake_fd < 0 ? -errno : -pthread_create(&new->thread, NULL, watch_main, new);
    if (err) {
        if (new->wake_fd >= 0)
            close(new->wake_fd);
        pthread_mutex_destroy(&new->lock);
        free(new);
        return err;
    }
    *watch = new;
    return 0;
}

void watch_close(struct watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    watch->over = true;
    pthread_mutex_unlock(&watch->lock);
    wake(watch);
    pthread_join(watch->thread, NULL);
    close(watch->wake_fd);
    while (watch->last_next < watch->last_count) /* the time to drain ended before their turn */
        close(watch->last[watch->last_next++]);
    free(watch->last);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}
