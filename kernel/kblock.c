/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kblock.c - cmwq and kthread: one context for each connection, which waits inside receive and
 * send.
 *
 * cmwq and kthread are here to be compared with event, not to be used.  While a client is silent,
 * cmwq keeps a worker of the queue, and a queue has a limited number of them (max_active); kthread
 * keeps a thread and its stack.  Both keep a scratch buffer.  So the number of connections is
 * limited, and when the limit is reached, those that do least are closed (klisten.c): a crowd of
 * silent clients must not keep all others out.
 *
 * A thread that waits cannot look at a clock.  A delayed work item for each connection does.  It
 * ends a connection that is overdue, or that loses its slot in the middle of something, by shutting
 * down its socket: the transfer returns, and the thread that serves the connection closes it.  If
 * the connection is receiving, only receiving is ended: bytes that have come by then, read or not,
 * are answered.  The mutex is held while the machine is looked at, never while bytes move.
 */
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/mutex.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include "../core/room.h"
#include "kinside.h"

/* If the machine is in use, or a look was put off, the watcher looks again after this time. */
enum { BUSY_MS = 20 };

struct kblock {
    struct kconn k;
    struct kcontext context;
    struct mutex machine; /* guards k.conn; a send reads its segments, which stay, without it */
    u64 watch_ms;         /* when watch looks again */
    struct delayed_work watch;
    struct work_struct work;  /* cmwq */
    struct task_struct *task; /* kthread; one reference is ours */
    struct llist_node dead;
};

/* --- The watcher: process context, short ------------------------------------------------------ */

static void watch_at(struct kblock *b, u64 now_ms)
{
    u64 at_ms = b->k.conn.deadline_ms;

    b->watch_ms = at_ms;
    mod_delayed_work(b->k.serve->listen_wq, &b->watch,
                     1 + msecs_to_jiffies(at_ms > now_ms ? at_ms - now_ms : 0));
    smp_mb(); /* the reason for a look that this has put off was set before */
    if (test_bit(KCONN_EVICT, &b->k.flags) || READ_ONCE(b->k.serve->stop) != KSTOP_NOT)
        mod_delayed_work(b->k.serve->listen_wq, &b->watch, msecs_to_jiffies(BUSY_MS));
}

static void block_watch(struct work_struct *work)
{
    struct kblock *b = container_of(to_delayed_work(work), struct kblock, watch);
    u64 now_ms = (u64)ktime_to_ms(ktime_get_coarse());
    bool over;

    if (!mutex_trylock(&b->machine)) { /* the holder may wait for a file system */
        mod_delayed_work(b->k.serve->listen_wq, &b->watch, msecs_to_jiffies(BUSY_MS));
        return;
    }
    over = b->k.conn.want == CONN_CLOSE;
    if (!over && (READ_ONCE(b->k.serve->stop) == KSTOP_NOW || kconn_overdue(&b->k, now_ms))) {
        over = true;
        ksock_end(&b->k); /* the thread that serves it finds the end */
    }
    if (!over && kconn_unwanted(&b->k, now_ms)) {
        if (b->k.conn.want == CONN_RECV)
            ksock_shut_receive(&b->k); /* the end comes behind bytes that we have not read yet */
        else
            ksock_end(&b->k);
    }
    if (!over)
        watch_at(b, now_ms);
    mutex_unlock(&b->machine);
}

static void block_kick(struct kconn *k)
{
    struct kblock *b = container_of(k, struct kblock, k);

    mod_delayed_work(k->serve->listen_wq, &b->watch, 0);
}

/* --- Serving one connection ------------------------------------------------------------------- */

/* Called with b->machine held, and releases it during the transfer. */
static void serve_input(struct kblock *b, struct kline *line)
{
    u64 now_ms;
    long n;

    mutex_unlock(&b->machine);
    n = kline_transport.recv(line, b->context.scratch, b->k.serve->opt.recv_bytes);
    mutex_lock(&b->machine);
    now_ms = kcontext_tick(&b->context);
    if (n < 0)
        conn_abort(&b->k.conn);
    else
        conn_feed(&b->k.conn, b->context.scratch, (size_t)n, now_ms);
    if (b->k.conn.deadline_ms < b->watch_ms)
        watch_at(b, now_ms);
}

static void serve_output(struct kblock *b, struct kline *line)
{
    struct conn_out out = conn_out(&b->k.conn);
    u64 now_ms;
    long n;

    mutex_unlock(&b->machine);
    line->late = false;
    n = kline_transport.send(line, &out);
    mutex_lock(&b->machine);
    now_ms = kcontext_tick(&b->context);
    if (n <= 0)
        conn_abort(&b->k.conn); /* peer gone, or the file has become shorter: nothing may follow */
    else
        conn_sent(&b->k.conn, (size_t)n, now_ms);
    if (n > 0 && b->k.conn.want != CONN_SEND)
        clear_bit(KCONN_CUT, &b->k.flags); /* the answer was sent whole after all */
    else if (n > 0 && line->late)
        room_body_again(&b->k.conn, ksock_acked(&b->k), now_ms);
    if (b->k.conn.deadline_ms < b->watch_ms)
        watch_at(b, now_ms);
}

/* Serves the connection from its first byte to its last, in this context. */
static noinline void block_serve(struct kblock *b)
{
    struct kline line = {.k = &b->k, .context = &b->context};
    struct conn *c = &b->k.conn;

    mutex_lock(&b->machine);
    while (c->want != CONN_CLOSE) {
        if (conn_shuts(c))
            ksock_shut(&b->k);
        if (c->want == CONN_SEND) {
            serve_output(b, &line);
        } else {
            kcontext_home(&b->context);
            serve_input(b, &line);
        }
    }
    mutex_unlock(&b->machine);
}

/* After conn_abort() the watcher leaves the connection alone. */
static void block_finish(struct kblock *b)
{
    mutex_lock(&b->machine);
    conn_abort(&b->k.conn);
    mutex_unlock(&b->machine);
    kconn_finish(&b->k); /* takes it out of the list: kick() is not called any more */
    cancel_delayed_work_sync(&b->watch);
    kcontext_home(&b->context);
    kcontext_close(&b->context);
}

/* --- A work item for each connection ---------------------------------------------------------- */

static void block_work(struct work_struct *work)
{
    struct kblock *b = container_of(work, struct kblock, work);
    struct kserve *s = b->k.serve;

    block_serve(b);
    block_finish(b);
    kfree(b);
    kserve_left(s);
}

/* --- A thread for each connection ------------------------------------------------------------- */

static int block_thread(void *arg)
{
    struct kblock *b = arg;
    struct kserve *s = b->k.serve;

    block_serve(b);
    block_finish(b);
    /* Only the caller of kthread_stop() knows that this thread has ended, so it frees b. */
    if (llist_add(&b->dead, &s->dead))
        queue_work(s->listen_wq, &s->reap);
    return 0;
}

static void block_reap(struct work_struct *work)
{
    struct kserve *s = container_of(work, struct kserve, reap);
    struct llist_node *all = llist_del_all(&s->dead);
    struct kblock *b, *next;

    llist_for_each_entry_safe(b, next, all, dead) {
        kthread_stop(b->task); /* it has returned, or is about to */
        put_task_struct(b->task);
        kfree(b);
        kserve_left(s);
    }
}

/* A function of its own, so that a probe sees what starting a thread costs. */
static noinline struct task_struct *kblock_thread_start(struct kblock *b)
{
    struct task_struct *task = kthread_create(block_thread, b, "%s", b->k.serve->name);

    if (IS_ERR(task))
        return task;
    get_task_struct(task);
    b->task = task;
    wake_up_process(task);
    return task;
}

/* --- The model -------------------------------------------------------------------------------- */

static struct kblock *block_new(struct kserve *s)
{
    struct kblock *b = kmalloc(sizeof(*b), GFP_KERNEL);

    if (!b)
        return NULL;
    if (kcontext_open(&b->context, s, true, KREACH_HOME)) {
        kfree(b);
        return NULL;
    }
    b->context.alone = true;
    return b;
}

static int block_accept(struct kserve *s, struct socket *sock)
{
    struct kblock *b = block_new(s);
    struct task_struct *task;

    if (!b) {
        sock_release(sock);
        return -ENOMEM;
    }
    mutex_init(&b->machine);
    INIT_DELAYED_WORK(&b->watch, block_watch);
    kconn_begin(&b->k, s, sock, &b->context.host.conn);
    mutex_lock(&b->machine);
    watch_at(b, (u64)ktime_to_ms(ktime_get_coarse()));
    mutex_unlock(&b->machine);
    if (s->opt.model == KMODEL_CMWQ) {
        INIT_WORK(&b->work, block_work);
        queue_work(s->wq, &b->work);
        return 0;
    }
    task = kblock_thread_start(b);
    if (!IS_ERR(task))
        return 0;
    block_finish(b);
    kfree(b);
    kserve_left(s);
    return PTR_ERR(task);
}

static int block_open(struct kserve *s)
{
    init_llist_head(&s->dead);
    INIT_WORK(&s->reap, block_reap);
    return 0;
}

/* Nothing to do: the queues are empty when they are destroyed. */
static void block_close(struct kserve *s)
{
}

const struct kmodel_ops kblock_ops = {
    .open = block_open,
    .close = block_close,
    .accept = block_accept,
    .kick = block_kick,
};
