/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kopen.c - starts a server step by step, and ends it in the reverse order.
 *
 * Stopping has an order.  No connection is accepted any more; idle ones are closed; those in the
 * middle of something have KSERVE_DRAIN_MS to end; the rest are cut off.  Each connection ends
 * where it is pumped, by the one close path of its model; kserve_close() only marks them and waits
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
#include "kinside.h"

/* The work item of a blocking connection holds a worker for as long as it lives, and a queue has
 * only max_active at once, WQ_MAX_ACTIVE at most: more connections would wait until one of those
 * ends, which silent clients delay.  A thread's stack is memory that cannot be swapped. */
enum { CMWQ_CONN_MAX = WQ_MAX_ACTIVE, KTHREAD_CONN_MAX = 4096 };

/* How often a server that stops checks whether its connections still end. */
enum { LOOK_MS = 100 };

/* Connections that a stopping server looks at before it releases its lock: there may be a million,
 * and no other thread can use this processor while the lock is held. */
enum { LOOKS_MAX = 64 };

/* --- Stopping --------------------------------------------------------------------------------- */

/* Calls kick() for some connections, in the order of the list.  Returns how many; 0: the list is
 * empty. */
static int look_at_some(struct kserve *s)
{
    struct kconn *k;
    int n;

    spin_lock(&s->lock);
    for (n = 0; n < LOOKS_MAX && !list_empty(&s->conns); n++) {
        k = list_first_entry(&s->conns, struct kconn, node);
        list_move_tail(&k->node, &s->conns);
        s->ops->kick(k);
    }
    spin_unlock(&s->lock);
    return n;
}

/* Kicks every connection.  No more are accepted, each look moves one from the front of the list to
 * the back, and those that end meanwhile only make the list shorter.  So after as many looks as
 * there were connections none has been missed. */
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
    if (s->listen_wq)
        destroy_workqueue(s->listen_wq);
    s->ops->close(s);
    if (s->wq)
        destroy_workqueue(s->wq);
    synchronize_net(); /* waits for callbacks that began before they were taken out */
    if (s->opened)
        kstats_log(s);
    kbufpool_empty(s);
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
 * listen_wq. */
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
    queue_work(s->listen_wq, &s->late);
}

/* All listeners are closed.  Ends the server now, or as soon as that is possible. */
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
    klisteners_close(s);
    stop(s, KSTOP_DRAIN);
    wait_event_timeout(s->gone, none_left(s), msecs_to_jiffies(KSERVE_DRAIN_MS));
    kstats_close(s);
    serve_end(s);
}
EXPORT_SYMBOL_GPL(kserve_close);

/* --- Starting --------------------------------------------------------------------------------- */

/* With cmwq the queue needs a place for each connection, whose work item holds it until the
 * connection ends.  0 is the kernel's default, which is enough for the other models. */
static unsigned max_active_of(const struct kserve_options *opt)
{
    return opt->max_active ?: opt->model == KMODEL_CMWQ ? CMWQ_CONN_MAX : 0;
}

static struct workqueue_struct *queue_new(const struct kserve *s)
{
    unsigned flags = s->opt.bound ? KCOMPAT_WQ_PERCPU : WQ_UNBOUND;

    flags |= s->opt.highpri ? WQ_HIGHPRI : 0;
    flags |= s->opt.cpu_intensive ? WQ_CPU_INTENSIVE : 0;
    /* A server of that name whose end waits for a file system still has its queue in sysfs. */
    flags |= atomic_read(&stuck) ? 0 : WQ_SYSFS;
    return alloc_workqueue("%s", flags, (int)max_active_of(&s->opt), s->name);
}

static unsigned conn_max_of(const struct kserve_options *opt)
{
    switch (opt->model) {
    case KMODEL_CMWQ:
        return min(opt->connections_max, max_active_of(opt));
    case KMODEL_KTHREAD:
        return min_t(unsigned, opt->connections_max, KTHREAD_CONN_MAX);
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
    s->conn_max = conn_max_of(opt);
    s->buffer_bytes_max = kbuffers_max();
    s->ops = kserve_runs_bound(opt->model) ? &kready_ops : &kblock_ops;
    spin_lock_init(&s->lock);
    INIT_LIST_HEAD(&s->conns);
    init_waitqueue_head(&s->gone);
    return s;
}

static int queues_open(struct kserve *s)
{
    s->wq = queue_new(s);
    if (!s->wq)
        return -ENOMEM;
    s->listen_wq = alloc_workqueue("%s_listen", KCOMPAT_WQ_PERCPU, 0, s->name);
    return s->listen_wq ? 0 : -ENOMEM;
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
    err = err ?: s->ops->open(s);
    err = err ?: klisteners_open(s);
    if (err) {
        serve_end(s); /* one of several listeners may have accepted a connection */
        return err;
    }
    kstats_open(s);
    s->opened = true;
    *serve = s;
    return 0;
}
EXPORT_SYMBOL_GPL(kserve_open);
