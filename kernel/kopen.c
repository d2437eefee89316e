/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kopen.c - starts a server step by step, and ends it in the reverse order.
 *
 * Stopping has an order.  No connection is accepted any more; idle ones are closed; those in the
 * middle of something have KSERVE_DRAIN_MS to end; the rest are cut off.  Each connection ends
 * where it is pumped, by the one close path of its way; kserve_close() only marks them and waits
 * until none is left.  So no connection can be using memory or code when these are freed.
 *
 * A file system that never answers cannot be hurried, and rmmod cannot be refused once it has
 * begun.  So kserve_close() waits as long as connections keep ending.  When none has ended for a
 * while, a thread does the rest as soon as that is possible.  Until then the thread keeps rung_core
 * loaded, which has all code that such a connection can run.  The module that is being unloaded is
 * removed at once.
 */
#include <linux/delay.h>
#include <linux/export.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <net/sock.h>
#include "../core/room.h"
#include "kinside.h"

/* The work item of a blocking connection holds a worker for as long as it lives, and a queue has
 * only WQ_MAX_ACTIVE at once: more connections would wait behind those.  A thread's stack is memory
 * that cannot be swapped. */
enum { CMWQ_SEATS_MAX = WQ_MAX_ACTIVE, KTHREAD_SEATS_MAX = 4096 };

/* How often a server that stops checks whether its connections still end. */
enum { LOOK_MS = 100 };

/* Connections that a stopping server looks at before it releases its lock: there may be a million,
 * and no other thread can use this processor while the lock is held. */
enum { LOOKS_MAX = 64 };

/* While connections wait for seats, others are asked to leave at least every 40 ms (kdoor.c).  A
 * connection that sees the request later than this, because a file system delayed it, stays: the
 * queue is empty by now. */
enum { ASKED_MS = 200 };

/* --- Connections, whatever the way ------------------------------------------------------------ */

void kconn_begin(struct kconn *k, struct kserve *s, struct socket *sock, const struct host *host)
{
    k->serve = s;
    k->sock = sock;
    k->flags = 0;
    k->times = (struct ktimes){0};
    conn_init(&k->conn, s->world.proto, host, (u64)ktime_to_ms(ktime_get_coarse()));
    kstat_add(s, KSTAT_ACCEPTED, 1);
    atomic_inc(&s->live);
    spin_lock(&s->lock);
    list_add_tail(&k->node, &s->conns);
    s->listed++;
    spin_unlock(&s->lock);
}

void kconn_finish(struct kconn *k)
{
    struct kserve *s = k->serve;

    spin_lock(&s->lock);
    list_del(&k->node);
    s->listed--;
    spin_unlock(&s->lock);
    kstat_add(s, KSTAT_BYTES, (unsigned long)k->conn.sent);
    /* Cut off: a reset shows it to the peer, and no send queue stays behind. */
    if (READ_ONCE(s->stop) == KSTOP_NOW || test_bit(KCONN_CUT, &k->flags) ||
        conn_unfinished(&k->conn))
        sock_no_linger(k->sock->sk);
    conn_fini(&k->conn);
    sock_release(k->sock);
    kstat_add(s, KSTAT_CLOSED, 1);
}

void kserve_left(struct kserve *s)
{
    bool last = atomic_dec_and_test(&s->live);

    if (READ_ONCE(s->paused))
        kdoors_room(s);
    if (last)
        wake_up_all(&s->gone);
}

/* Whether closing loses nothing: no answer is owed, and nothing has come. */
static bool kconn_idle(const struct kconn *k)
{
    return conn_idle(&k->conn) && !ksock_unread(k);
}

/* The connection's time is up, or it gives up its seat.  Ending a blocking connection makes its
 * send fail, and then it does not look unfinished any more. */
static bool goes(struct kconn *k, enum kstat_id why)
{
    if (conn_unfinished(&k->conn))
        set_bit(KCONN_CUT, &k->flags);
    if (!test_and_set_bit(KCONN_GOES, &k->flags))
        kstat_add(k->serve, why, 1);
    return true;
}

/* Whether the connection gives up its seat. */
static bool makes_room(struct kconn *k, u64 now_ms)
{
    const struct kserve *s = k->serve;
    const struct room room = {now_ms, s->seats, READ_ONCE(s->waiting)};
    const struct room_peer peer = {.acked = ksock_acked(k), .heard_ms = U64_MAX};
    enum room_claim claim = room_place(&k->conn, &room, &peer).claim;

    if (claim == ROOM_KEEPS || ksock_has_all(k))
        return false;
    return k->conn.want != CONN_RECV || !ksock_unread(k);
}

bool kconn_unwanted(struct kconn *k, u64 now_ms)
{
    int how = READ_ONCE(k->serve->stop);

    if (how != KSTOP_NOT)
        return how == KSTOP_NOW || kconn_idle(k);
    if (!test_bit(KCONN_UNSEAT, &k->flags))
        return false;
    clear_bit(KCONN_UNSEAT, &k->flags);
    if (now_ms > READ_ONCE(k->serve->asked_ms) + ASKED_MS)
        return false;
    return makes_room(k, now_ms) && goes(k, KSTAT_EVICTED);
}

bool kconn_overdue(struct kconn *k, u64 now_ms)
{
    if (now_ms < k->conn.deadline_ms || (ksock_unread(k) && conn_spoken(&k->conn, now_ms)))
        return false;
    return conn_overdue(&k->conn, ksock_acked(k), now_ms) && goes(k, KSTAT_EXPIRED);
}

/* --- Stopping --------------------------------------------------------------------------------- */

/* Calls look() for some connections, in the order of the list.  Returns how many; 0: the list is
 * empty. */
static int look_at_some(struct kserve *s)
{
    struct kconn *k;
    int n;

    spin_lock(&s->lock);
    for (n = 0; n < LOOKS_MAX && !list_empty(&s->conns); n++) {
        k = list_first_entry(&s->conns, struct kconn, node);
        list_move_tail(&k->node, &s->conns);
        s->way->look(k);
    }
    spin_unlock(&s->lock);
    return n;
}

/* No connection is accepted any more.  Those that end during the loop only make the list shorter,
 * so after as many looks as there were connections each one has been at its front. */
static void stop(struct kserve *s, enum kstop how)
{
    int left = atomic_read(&s->live), n;

    WRITE_ONCE(s->stop, how);
    smp_mb(); /* a connection that is about to be pumped sees it there */
    while (left > 0 && (n = look_at_some(s))) {
        left -= n;
        cond_resched();
    }
}

static bool none_left(struct kserve *s)
{
    return !atomic_read(&s->live);
}

/* False: some connections stay, and none has ended for KSERVE_STUCK_MS. */
static bool wait_while_they_end(struct kserve *s)
{
    unsigned still_ms = 0;

    while (!none_left(s) && still_ms < KSERVE_STUCK_MS) {
        int before = atomic_read(&s->live);

        wait_event_timeout(s->gone, none_left(s), msecs_to_jiffies(LOOK_MS));
        still_ms = atomic_read(&s->live) < before ? 0 : still_ms + LOOK_MS;
    }
    return none_left(s);
}

/* Returns the first connection's socket with a reference; the next call returns another's.  NULL:
 * there is no connection. */
static struct sock *next_socket(struct kserve *s)
{
    struct sock *sk = NULL;
    struct kconn *k;

    spin_lock(&s->lock);
    if (!list_empty(&s->conns)) {
        k = list_first_entry(&s->conns, struct kconn, node);
        list_move_tail(&k->node, &s->conns);
        sk = k->sock->sk;
        sock_hold(sk);
    }
    spin_unlock(&s->lock);
    return sk;
}

/* The clients of connections that cannot be closed need not wait. */
static void reset_clients(struct kserve *s)
{
    int n = atomic_read(&s->live);
    struct sock *sk;

    while (n-- > 0 && (sk = next_socket(s))) {
        ksock_reset(sk);
        sock_put(sk);
    }
}

/* Frees what kserve_open() made; no connection is left. */
static void serve_free(struct kserve *s)
{
    if (s->door_wq)
        destroy_workqueue(s->door_wq);
    s->way->close(s);
    if (s->wq)
        destroy_workqueue(s->wq);
    synchronize_net(); /* waits for callbacks that began before they were taken out */
    kshelves_empty(s);
    free_percpu(s->percpu);
    if (s->world.close)
        s->world.close(s->world.ctx);
    kfree(s);
}

/* Servers whose end waits for a file system. */
static atomic_t stuck = ATOMIC_INIT(0);

static int late_end(void *serve)
{
    struct kserve *s = serve;

    wait_event_idle(s->gone, none_left(s));
    pr_info("%s: the file system has answered, and the last connection is closed\n", s->name);
    serve_free(s);
    atomic_dec(&stuck);
    module_put_and_kthread_exit(0);
}

/* Starts the thread of late_end().  serve_free() waits for this work item, as for all work of
 * door_wq. */
static void late_begin(struct work_struct *work)
{
    struct kserve *s = container_of(work, struct kserve, late);

    while (IS_ERR(kthread_run(late_end, s, "rung_end")))
        msleep(LOOK_MS); /* there is no memory for it */
}

/* Leaves the end to a thread.  A work item starts it, because a process that is being killed, such
 * as the one that unloads the module, cannot. */
static void end_later(struct kserve *s)
{
    pr_warn("%s: %d connections wait for a file system that does not answer; rung_core stays\n",
            s->name, atomic_read(&s->live));
    __module_get(THIS_MODULE);
    atomic_inc(&stuck);
    INIT_WORK(&s->late, late_begin);
    queue_work(s->door_wq, &s->late);
}

/* All doors are closed.  Ends the server now, or as soon as that is possible. */
static void serve_end(struct kserve *s)
{
    if (!none_left(s)) {
        stop(s, KSTOP_NOW);
        if (!wait_while_they_end(s)) {
            reset_clients(s);
            end_later(s);
            return;
        }
    }
    serve_free(s);
}

void kserve_close(struct kserve *s)
{
    kdoors_close(s);
    stop(s, KSTOP_DRAIN);
    wait_event_timeout(s->gone, none_left(s), msecs_to_jiffies(KSERVE_DRAIN_MS));
    kstats_close(s);
    serve_end(s);
}
EXPORT_SYMBOL_GPL(kserve_close);

const char *const kmodel_names[KMODELS] = {"event", "softirq", "cmwq", "kthread"};
EXPORT_SYMBOL_GPL(kmodel_names);

/* --- Starting --------------------------------------------------------------------------------- */

struct workqueue_struct *kserve_queue(const struct kserve *s, unsigned max_active)
{
    unsigned flags = s->opt.bound ? KCOMPAT_WQ_PERCPU : WQ_UNBOUND;

    flags |= s->opt.highpri ? WQ_HIGHPRI : 0;
    flags |= s->opt.cpu_intensive ? WQ_CPU_INTENSIVE : 0;
    /* A server of that name whose end waits for a file system still has its queue in sysfs. */
    flags |= atomic_read(&stuck) ? 0 : WQ_SYSFS;
    return alloc_workqueue("%s", flags, (int)max_active, s->name);
}

bool kserve_runs_bound(enum kmodel model)
{
    return model == KMODEL_EVENT || model == KMODEL_SOFTIRQ;
}
EXPORT_SYMBOL_GPL(kserve_runs_bound);

static unsigned seats_of(const struct kserve_options *opt)
{
    switch (opt->model) {
    case KMODEL_CMWQ:
        return min_t(unsigned, opt->connections_max, CMWQ_SEATS_MAX);
    case KMODEL_KTHREAD:
        return min_t(unsigned, opt->connections_max, KTHREAD_SEATS_MAX);
    default:
        return opt->connections_max;
    }
}

static struct kserve *serve_new(const struct kserve_options *opt, const struct kworld *world)
{
    struct kserve *s = kzalloc(sizeof(*s), GFP_KERNEL);

    if (s)
        s->percpu = alloc_percpu(struct kpercpu);
    if (!s || !s->percpu) {
        kfree(s);
        return NULL;
    }
    s->opt = *opt;
    strscpy(s->name, opt->name, sizeof(s->name));
    s->opt.name = s->name;
    s->world = *world;
    s->seats = seats_of(opt);
    s->buffer_bytes_max = kbuffers_max();
    s->way = kserve_runs_bound(opt->model) ? &kway_ready : &kway_block;
    spin_lock_init(&s->lock);
    INIT_LIST_HEAD(&s->conns);
    init_waitqueue_head(&s->gone);
    return s;
}

/* The work item of a blocking connection holds a place of the queue; other work needs only a few
 * places. */
static int queues_open(struct kserve *s)
{
    s->wq = kserve_queue(s, s->opt.model == KMODEL_CMWQ ? CMWQ_SEATS_MAX : 0);
    if (!s->wq)
        return -ENOMEM;
    s->door_wq = alloc_workqueue("%s_door", KCOMPAT_WQ_PERCPU, 0, s->name);
    return s->door_wq ? 0 : -ENOMEM;
}

int kserve_open(struct kserve **serve, const struct kserve_options *opt,
                const struct kworld *world)
{
    struct kserve *s = serve_new(opt, world);
    int err;

    if (!s) {
        if (world->close)
            world->close(world->ctx);
        return -ENOMEM;
    }
    err = queues_open(s);
    err = err ?: s->way->open(s);
    err = err ?: kdoors_open(s);
    if (err) {
        serve_end(s); /* one of several doors may have accepted a connection */
        return err;
    }
    kstats_open(s);
    *serve = s;
    return 0;
}
EXPORT_SYMBOL_GPL(kserve_open);
