/* SPDX-License-Identifier: MIT */
/* loop.c - what one thread needs to run sessions: clock, timers, date, wake-ups, and when to
 * accept.
 *
 * The rules when all slots are taken.  If there is no slot (worker->conn_max) or no descriptor, the
 * listeners are left alone, so that nothing spins.  As many connections as wait, a turn's worth at
 * most, give up their slots: core/room.h says which.  Accepting resumes when any connection has
 * closed, or after PAUSE_MS.
 *
 * The rules of stopping.  Answers say that the connection ends, and idle connections are closed.
 * Connections in the accept queues are still accepted, whatever the slots, and then the listeners
 * are closed.  At drain_ms or at the second signal all connections are cut off.  A loop belongs to
 * one thread and has no locks.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include "../base/net.h"
#include "address_limits.h"
#include "aim.h"
#include "buffers.h"
#include "cache.h"
#include "hosts.h"
#include "route.h"

enum {
    LONGS_SHARE = 2,      /* one slot in two may wait for a long listing, and one more */
    PAUSE_MS = ROOM_IDLE_MS, /* then a session may be idle enough to evict; or when one closes */
    DRAIN_TICK_MS = 20,   /* stopping: idle connections and a second signal are seen this soon */
    RESUMED_MAX = 64, /* sessions in a turn whose part of a file was read; events come next */
    VICTIM_LOOKS_MIN = 64, /* sessions looked at in a row; the next look takes others */
    VICTIM_LOOKS = 4       /* ... or this times the connections that wait */
};

/* --- Date ------------------------------------------------------------------------------------- */

static void date_refresh(struct loop *l)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME_COARSE, &ts);
    if (ts.tv_sec == l->host.date_s)
        return;
    l->host.date_s = ts.tv_sec;
    http_date_write(l->date, ts.tv_sec);
}

/* --- Open and close --------------------------------------------------------------------------- */

/* Opens what a loop needs beyond a clock: wake-ups, and answers that are made on other threads. */
static int wake_open(struct loop *l)
{
    int err = 0;

    l->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (l->wake_fd < 0)
        return -errno;
    if (l->site)
        err = offload_open(&l->offload, l->site, l->wake_fd,
                           l->worker->conn_max / LONGS_SHARE + 1);
    if (!err && aim_asks_passwords(l->worker->server))
        err = gate_open(l);
    if (!err && l->host.store)
        err = upload_helper_open(l);
    if (!err && l->offload)
        err = fetch_open(&l->fetch, l->wake_fd);
    if (err) {
        offload_close(l->store);
        offload_close(l->gate);
        offload_close(l->offload);
        l->offload = l->gate = l->store = NULL;
        close(l->wake_fd);
    } else {
        aim_offload(l);
    }
    return err;
}

/* Closes what loop_open_blocking() opened. */
static void parts_close(struct loop *l)
{
    aim_close(l);
    cache_reader_close(l->cache);
    http_recent_drop(&l->host);
    free(l->host.recent);
    sender_close(l->sender);
    buffers_close(l->buffers);
    free(l);
}

int loop_open_blocking(struct worker *w, struct loop **loop)
{
    struct loop *l = calloc(1, sizeof(*l));
    int err;

    if (!l)
        return -ENOMEM;
    l->worker = w;
    l->wake_fd = l->set_fd = -1;
    l->now_ms = clock_ms();
    wheel_init(&l->wheel, l->now_ms);
    host_init(&l->host, l);
    date_refresh(l);
    err = buffers_open(&l->buffers);
    if (!err) {
        err = sender_open(&l->sender, &w->server->arrangement.send);
        if (err)
            buffers_close(l->buffers);
    }
    if (err) {
        free(l);
        return err;
    }
    l->site = w->server->site;
    l->route = w->server->route;
    l->log = w->server->log;
    l->upload = hosts_upload(w->server->hosts, 0);
    l->cache = cache_reader_open(w->cache);
    err = aim_open(l);
    if (err) {
        parts_close(l);
        return err;
    }
    l->host.recent = calloc(1, sizeof(*l->host.recent)); /* without it every head is parsed */
    *loop = l;
    return 0;
}

/* --- What engines may know -------------------------------------------------------------------- */

struct worker *loop_worker(const struct loop *l)
{
    return l->worker;
}

int loop_wake_fd(const struct loop *l)
{
    return l->wake_fd;
}

unsigned loop_live(const struct loop *l)
{
    return l->live;
}

struct session *loop_next(const struct loop *l, const struct session *s)
{
    return s ? s->next : l->first;
}

void loop_is_edge_triggered(struct loop *l)
{
    l->edge = true;
}

void loop_has_set(struct loop *l, int epoll_fd)
{
    l->set_fd = epoll_fd;
}

bool loop_stopping(const struct loop *l)
{
    return l->drain_ms != 0;
}

bool loop_has_more(const struct loop *l)
{
    return l->more;
}

bool loop_batch_is_full(const struct loop *l)
{
    return l->batched == BATCH_MAX;
}

/* --- Begin and end ---------------------------------------------------------------------------- */

int loop_open(struct worker *w, struct loop **loop)
{
    int err = loop_open_blocking(w, loop);

    if (!err && !w->server->engine->may_block) {
        err = wake_open(*loop);
        if (err)
            parts_close(*loop);
    }
    return err;
}

void loop_close(struct loop *l)
{
    while (l->first)
        session_close(l, l->first);
    offload_close(l->offload);
    offload_close(l->gate);
    offload_close(l->store);
    fetch_close(l->fetch);
    if (l->wake_fd >= 0)
        close(l->wake_fd);
    free(l->victims);
    free(l->batch);
    parts_close(l);
}

/* --- Turns ------------------------------------------------------------------------------------ */

static bool victims_pending(const struct loop *l)
{
    return l->victims && l->victims->next < l->victims->count;
}

/* Look at some sessions and send them to the back, so that an idle one behind many busy ones is
 * found in a later turn. */
static void victims_find(struct loop *l)
{
    unsigned looks;

    if (!l->victims)
        l->victims = calloc(1, sizeof(*l->victims));
    if (!l->victims || victims_pending(l))
        return;
    victims_begin(l->victims, l->worker, l->now_ms);
    looks = l->victims->wanted * VICTIM_LOOKS;
    looks = looks > VICTIM_LOOKS_MIN ? looks : VICTIM_LOOKS_MIN;
    for (looks = looks < l->live ? looks : l->live; looks > 0; looks--) {
        struct session *s = l->first;

        session_list_del(l, s);
        session_list_add(l, s);
        if (session_is_local(s))
            victims_look(l->victims, s);
    }
}

/* A worker that is full leaves the connections that wait to the others. */
static bool loop_steps_back(const struct loop *l)
{
    return worker_shares(l->worker) && l->live >= l->worker->conn_max && !l->drain_ms;
}

/* A worker that has stepped back gets no event when a client waits.  A queue that is not empty at
 * two looks has found no other worker. */
static void look_at_queue(struct loop *l)
{
    bool awaited = worker_awaited(l->worker);

    if (awaited && l->awaited)
        victims_find(l);
    l->awaited = awaited;
    l->retry_ms = l->now_ms + PAUSE_MS;
}

void loop_tick(struct loop *l)
{
    int signals = atomic_load_explicit(l->worker->stopping, memory_order_relaxed);

    l->now_ms = clock_ms();
    l->resumed = 0;
    date_refresh(l);
    if (l->paused && l->now_ms >= l->retry_ms)
        l->paused = false;
    if (loop_steps_back(l) && l->now_ms >= l->retry_ms)
        look_at_queue(l);
    if (signals == 0)
        return;
    if (!l->drain_ms) {
        l->drain_ms = l->now_ms + l->worker->server->drain_ms + 1;
        l->call_ms = l->now_ms + LAST_CALL_MS;
        l->host.closing = true;
    }
}

/* Stopping: the listeners are given up after LAST_CALL_MS, once their queues are empty or enough
 * was taken from them; at the second stop signal at once.  This takes two turns, because the
 * engine must first take them out of its set: another process may hold a listener, too, and then
 * closing it here does not take it out. */
static void leave_listeners(struct loop *l)
{
    struct worker *w = l->worker;
    bool at_once = atomic_load_explicit(w->stopping, memory_order_relaxed) > 1;

    if (!l->drain_ms || w->left)
        return;
    if (!at_once && (l->now_ms < l->call_ms ||
                     (worker_awaited(w) && worker_takes_last(w, l->taken))))
        l->closed = false;
    else if (!l->closed)
        l->closed = true;
    else
        worker_leave(w);
}

/* How long a stopping loop may sleep. */
static int drain_wait_ms(const struct loop *l)
{
    if (l->worker->left)
        return DRAIN_TICK_MS;
    return l->closed ? 0 : LEAVE_TICK_MS;
}

/* --busy.  A thread that sleeps is woken by an interrupt and a switch, which take longer than a
 * client nearby needs for its next request.  So after each receive and each new connection the
 * loop looks for more without sleeping, for a bounded time. */
static bool loop_is_busy(struct loop *l)
{
    uint32_t mark = l->received + l->generation;
    uint64_t now_us = clock_ns() / 1000;

    if (mark != l->busy_mark)
        l->busy_us = now_us + l->worker->tuning.busy_us;
    l->busy_mark = mark;
    if (now_us >= l->busy_us)
        return false;
    sched_yield(); /* the client may share this processor, and does not wait for it */
    return true;
}

int loop_wait_ms(struct loop *l)
{
    int wait_ms = wheel_next_ms(&l->wheel, l->now_ms);

    if (victims_pending(l) || l->resumed == RESUMED_MAX ||
        (l->worker->tuning.busy_us && loop_is_busy(l)))
        return 0;
    if (l->paused || loop_steps_back(l)) {
        int retry_ms = l->retry_ms > l->now_ms ? (int)(l->retry_ms - l->now_ms) : 0;

        wait_ms = wait_ms < 0 || retry_ms < wait_ms ? retry_ms : wait_ms;
    }
    if (l->drain_ms && (wait_ms < 0 || wait_ms > drain_wait_ms(l)))
        wait_ms = drain_wait_ms(l);
    return wait_ms;
}

bool loop_listening(const struct loop *l)
{
    return !l->paused && !l->closed && !loop_steps_back(l);
}

/* Whether it is time to cut off whatever is left. */
static bool loop_over(const struct loop *l)
{
    return l->drain_ms && (l->now_ms >= l->drain_ms ||
                           atomic_load_explicit(l->worker->stopping, memory_order_relaxed) > 1);
}

void loop_stack_used(struct loop *l, size_t bytes)
{
    stats_most(l->worker->server->stats, STAT_STACK_MOST, bytes);
}

bool loop_done(struct loop *l)
{
    worker_begun(l->worker);
    leave_listeners(l);
    return loop_over(l) || (l->drain_ms && l->worker->left && !l->live);
}

/* --- Accepting -------------------------------------------------------------------------------- */

static void pause_listening(struct loop *l)
{
    l->paused = true;
    l->retry_ms = l->now_ms + PAUSE_MS;
    victims_find(l);
}

static struct session *accepted(struct loop *l, int fd)
{
    struct session *s;

    if (fd == -EAGAIN || (fd < 0 && net_peer_died(-fd)))
        return NULL;
    if (fd < 0)
        shortage_say(-fd);
    l->taken += fd >= 0 && l->drain_ms;
    if (fd >= 0)
        probe_accepted(fd);
    s = fd < 0 ? NULL : session_open(l, fd);
    if (!s)
        pause_listening(l);
    return s;
}

struct session *loop_accepted(struct loop *l, int fd)
{
    struct server *srv = l->worker->server;

    return fd >= 0 && srv->limits && !limits_accept(srv, fd) ? NULL : accepted(l, fd);
}

struct session *loop_accept(struct loop *l, unsigned i)
{
    if (!loop_listening(l))
        return NULL;
    if (l->live >= l->worker->conn_max && !l->drain_ms) {
        if (worker_awaited(l->worker)) /* if not, the one before was the last */
            pause_listening(l);
        return NULL;
    }
    return accepted(l, worker_accept_from(l->worker, i, false));
}

/* --- Expiry ----------------------------------------------------------------------------------- */

/* The next session chosen to make room, unless it has come to life in the meantime. */
static struct session *victim_take(struct loop *l)
{
    while (victims_pending(l)) {
        struct conn *c = l->victims->row[l->victims->next++].conn;
        struct session *s = (struct session *)c; /* its first member */

        if (!s || !session_is_local(s) || session_place(s, &l->victims->room).claim == ROOM_KEEPS)
            continue;
        stats_add(l->worker->server->stats, STAT_EVICTED, 1);
        return s;
    }
    return NULL;
}

/* Stopping: the next session that can be closed without loss, or any when it is over.  Busy ones go
 * to the back, so that closing n sessions looks at each of them twice at most. */
static struct session *idle_take(struct loop *l)
{
    for (unsigned looks = l->drain_ms ? l->live : 0; looks > 0; looks--) {
        struct session *s = l->first;

        if (session_is_local(s) && (loop_over(l) || session_may_leave(l->worker, s, l->now_ms)))
            return s;
        session_list_del(l, s);
        session_list_add(l, s);
    }
    return NULL;
}

struct session *loop_expired(struct loop *l)
{
    struct session *s = victim_take(l);
    struct wheel_node *node;

    if (!s)
        s = idle_take(l);
    if (s)
        return s;
    while ((node = wheel_pop(&l->wheel, l->now_ms))) {
        s = session_of_timer(node);
        if (!session_is_local(s)) { /* another thread's, or being cancelled */
            wheel_add(&l->wheel, node, l->now_ms + WHEEL_TICK_MS);
            continue;
        }
        if (s->conn.deadline_ms <= l->now_ms && session_overdue(s, l->now_ms)) {
            stats_add(l->worker->server->stats, STAT_EXPIRED, 1);
            return s;
        }
        wheel_add(&l->wheel, node, s->conn.deadline_ms);
    }
    return NULL;
}

/* --- Answers made elsewhere ------------------------------------------------------------------- */

void loop_woken(struct loop *l)
{
    uint64_t count;

    if (read(l->wake_fd, &count, sizeof(count)) < 0)
        return; /* nothing there: it was emptied before */
}

struct session *loop_resumed(struct loop *l)
{
    struct conn *c = l->offload ? offload_done(l->offload) : NULL;
    struct session *s;

    if (!c && l->gate)
        c = offload_done(l->gate);
    if (!c && l->store)
        c = offload_done(l->store);
    if (c) {
        conn_resume(c, l->now_ms);
        s = (struct session *)(uintptr_t)session_of_conn(c);
        while (c->nested) {
            c = ((struct nested *)c)->outer;
            conn_kick(c, l->now_ms);
        }
        return s;
    }
    s = l->fetch && l->resumed < RESUMED_MAX ? fetch_done(l->fetch) : NULL;
    l->resumed += s != NULL;
    if (s && s->conn.want == CONN_WAIT) /* it speaks TLS: otherwise it would want to send */
        conn_resume(&s->conn, l->now_ms);
    return s;
}
