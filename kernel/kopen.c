/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kopen.c - a server from its first allocation to its last: a ladder up, and the same ladder down.
 *
 * Stopping has an order.  Nobody comes in any more; who is idle goes; who is in the middle of
 * something has KSERVE_DRAIN_MS; the rest is cut off.  Each connection ends where it is pumped, by
 * the one close path of its way; kserve_close() only tells them and waits until none is left.  So
 * when memory and code go, nobody can be in them.
 */
#include <linux/export.h>
#include <linux/jiffies.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <net/sock.h>
#include "kinside.h"

/* The work item of a blocking connection holds a worker for as long as it lives, and a queue has so
 * many at once: more connections would wait behind it.  A thread's stack is memory that cannot be
 * swapped. */
enum { CMWQ_SEATS_MAX = WQ_MAX_ACTIVE, KTHREAD_SEATS_MAX = 4096 };

/* --- Connections, whatever the way ------------------------------------------------------------ */

void kconn_begin(struct kconn *k, struct kserve *s, struct socket *sock, const struct host *host)
{
    k->serve = s;
    k->sock = sock;
    k->flags = 0;
    conn_init(&k->conn, s->world.proto, host, (u64)ktime_to_ms(ktime_get_coarse()));
    kstat_add(s, KSTAT_ACCEPTED, 1);
    atomic_inc(&s->live);
    spin_lock(&s->lock);
    list_add_tail(&k->node, &s->conns);
    spin_unlock(&s->lock);
}

void kconn_finish(struct kconn *k)
{
    struct kserve *s = k->serve;

    spin_lock(&s->lock);
    list_del(&k->node);
    spin_unlock(&s->lock);
    kstat_add(s, KSTAT_BYTES, (unsigned long)k->conn.sent);
    conn_fini(&k->conn);
    if (READ_ONCE(s->stop) == KSTOP_NOW)
        sock_no_linger(k->sock->sk); /* cut off: a reset says so, and no queue stays behind */
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

/* Nothing would be lost: nothing is owed, nothing has come. */
static bool kconn_idle(const struct kconn *k)
{
    return conn_idle(&k->conn) && !ksock_unread(k);
}

bool kconn_unwanted(struct kconn *k)
{
    int how = READ_ONCE(k->serve->stop);

    if (how != KSTOP_NOT)
        return how == KSTOP_NOW || kconn_idle(k);
    if (!test_bit(KCONN_UNSEAT, &k->flags))
        return false;
    clear_bit(KCONN_UNSEAT, &k->flags);
    if (!kconn_idle(k))
        return false;
    kstat_add(k->serve, KSTAT_EVICTED, 1);
    return true;
}

bool kconn_overdue(struct kconn *k, u64 now_ms)
{
    if (now_ms < k->conn.deadline_ms || !conn_overdue(&k->conn, ksock_acked(k), now_ms))
        return false;
    kstat_add(k->serve, KSTAT_EXPIRED, 1);
    return true;
}

/* --- Stopping --------------------------------------------------------------------------------- */

static void stop(struct kserve *s, enum kstop how)
{
    struct kconn *k;

    WRITE_ONCE(s->stop, how);
    smp_mb(); /* who is on its way to be pumped sees it there */
    spin_lock(&s->lock);
    list_for_each_entry(k, &s->conns, node)
        s->way->look(k);
    spin_unlock(&s->lock);
}

static bool nobody_left(struct kserve *s)
{
    return !atomic_read(&s->live);
}

void kserve_close(struct kserve *s)
{
    kdoors_close(s);
    stop(s, KSTOP_DRAIN);
    if (!wait_event_timeout(s->gone, nobody_left(s), msecs_to_jiffies(KSERVE_DRAIN_MS))) {
        stop(s, KSTOP_NOW);
        wait_event(s->gone, nobody_left(s));
    }
    kstats_close(s);
    destroy_workqueue(s->door_wq);
    s->way->close(s);
    destroy_workqueue(s->wq);
    synchronize_net(); /* callbacks that had begun before they were taken out */
    kshelves_empty(s);
    free_percpu(s->percpu);
    kfree(s);
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
    return alloc_workqueue("%s", flags | WQ_SYSFS, (int)max_active, s->name);
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

    if (!s)
        return NULL;
    s->percpu = alloc_percpu(struct kpercpu);
    if (!s->percpu) {
        kfree(s);
        return NULL;
    }
    s->opt = *opt;
    strscpy(s->name, opt->name, sizeof(s->name));
    s->opt.name = s->name;
    s->world = *world;
    s->seats = seats_of(opt);
    s->buffers_max = kbuffers_max();
    s->way = kserve_runs_bound(opt->model) ? &kway_ready : &kway_block;
    spin_lock_init(&s->lock);
    INIT_LIST_HEAD(&s->conns);
    init_waitqueue_head(&s->gone);
    return s;
}

/* Work items of a blocking connection each hold a place of the queue; else a few places do. */
static int queues_open(struct kserve *s)
{
    s->wq = kserve_queue(s, s->opt.model == KMODEL_CMWQ ? CMWQ_SEATS_MAX : 0);
    if (!s->wq)
        return -ENOMEM;
    s->door_wq = alloc_workqueue("%s_door", KCOMPAT_WQ_PERCPU, 0, s->name);
    if (s->door_wq)
        return 0;
    destroy_workqueue(s->wq);
    return -ENOMEM;
}

int kserve_open(struct kserve **serve, const struct kserve_options *opt,
                const struct kworld *world)
{
    struct kserve *s = serve_new(opt, world);
    int err = -ENOMEM;

    if (!s)
        return err;
    err = queues_open(s);
    if (err)
        goto no_queues;
    err = s->way->open(s);
    if (err)
        goto no_way;
    err = kdoors_open(s);
    if (err)
        goto no_doors;
    kstats_open(s);
    *serve = s;
    return 0;
no_doors: /* one of several may have let somebody in */
    stop(s, KSTOP_NOW);
    wait_event(s->gone, nobody_left(s));
    s->way->close(s);
no_way:
    destroy_workqueue(s->door_wq);
    destroy_workqueue(s->wq);
    synchronize_net();
no_queues:
    kshelves_empty(s);
    free_percpu(s->percpu);
    kfree(s);
    return err;
}
EXPORT_SYMBOL_GPL(kserve_open);
