/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kinside.h - how the serving core's own files fit together.
 *
 * kopen.c starts and ends a server; klisten.c accepts; a model (kserve.c: event and softirq,
 * kblock.c: cmwq and kthread) makes a connection of each socket and pumps it.  For event and
 * softirq, khook.c accepts and hooks a socket's callbacks, kready.c has the list of ready
 * connections, kpump.c pumps them, and kfar.c serves those that must wait for a file system.
 * kconn.c has what is common to connections; kcontext.c is the machine's host; kwhole.c keeps
 * answers that are ready to send; ksock.c moves the bytes; kbufpool.c has the buffers; kstats.c
 * counts, and ktrace.h has the trace points.  No two files need each other (tests/cycles.py):
 * klisten.c calls a model by its kmodel_ops.
 */
#ifndef KERNEL_KINSIDE_H
#define KERNEL_KINSIDE_H
#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/mm_types_task.h>
#include <linux/net.h>
#include <linux/percpu.h>
#include <linux/printk.h>
#include <linux/spinlock.h>
#include <linux/tcp.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include "kcompat.h"
#include "kserve.h"

enum kstop { KSTOP_NOT, KSTOP_DRAIN, KSTOP_NOW };

enum kstat_id {
#define X(NAME, name, what) KSTAT_##NAME,
#include "kstats.def"
#undef X
    KSTATS
};

/* The memory of input queues, send queues and kept heads is reused by short lists, one set for each
 * processor: the next connection gets what the last one gave back.  The lists are used under
 * local_bh_disable(). */
enum { KFREELISTS = 3, KFREELIST_KEPT_MAX = 32 /* of each size: 3.5 MiB for a processor */ };
struct kfreelist {
    size_t bytes; /* 0: no size yet; the core asks for three sizes */
    unsigned count;
    void *first;
};

struct kpercpu {
    struct kfreelist list[KFREELISTS];
    unsigned long stat[KSTATS];
};

/* A connection that waits for a file system keeps its slot until the file system answers, even if
 * its client has gone.  If a file system hangs, half of the slots must be left for other
 * connections.  Beyond that the answer is 503. */
enum { KSLOTS_WAIT_SHARE = 2 };

/* What one context needs to run connections, one at a time. */
struct kcontext {
    struct http_host host; /* ctx: this context */
    struct kserve *serve;
    bool may_sleep;    /* for memory and for the socket's lock */
    bool alone;        /* kblock.c: it serves one connection, and may wait with it */
    enum kreach reach; /* which file systems it may wait for */
    bool away;         /* kblock.c: its answer is counted in serve->away */
    bool brief;        /* kfar.c: the context is freed after one pump */
    bool busy;         /* kpump.c: a connection is being pumped */
    char *scratch;     /* opt.recv_bytes */
    struct page_frag frag; /* where ksock.c copies what it sends; sockets hold references */
    char date[32];
    struct kwholes *wholes; /* kwhole.c; NULL: none are made */
    /* the connections that can move; kserve.c's */
    struct llist_head ready;
    struct llist_node *rest; /* taken from ready, oldest first */
    struct work_struct work;
    struct kcompat_bh bh;
} ____cacheline_aligned_in_smp;

/* Times of an answer: CLOCK_MONOTONIC in nanoseconds, 0: not reached, as in the server's struct
 * probe_stamps.  ordinal: which answer on the connection it is, from 1 on. */
struct ktimes {
    u64 parsed, found, compressed;
    u32 ordinal;
};

/* One accepted connection, whatever the model. */
struct kconn {
    struct conn conn;      /* first: the host is handed a struct conn */
    struct kserve *serve;
    struct socket *sock;
    struct list_head node; /* in serve->conns */
    struct ktimes times;   /* of the latest answer that was traced */
    unsigned long flags;   /* bits: enum kconn_flag */
};

enum kconn_flag {
    KCONN_DUE,     /* its timer fired */
    KCONN_EVICT,  /* close it if it makes no use of its slot: others wait */
    KCONN_GOES,    /* its time is up, or it gave up its slot: it is about to end */
    KCONN_CUT,     /* ... in the middle of an answer: with a reset */
    KCONN_SHUT,    /* no more will be sent: shut the socket where sleeping is allowed */
    KCONN_END      /* found to have ended where it could not be closed */
};

struct kmodel_ops {
    int (*open)(struct kserve *s);
    void (*close)(struct kserve *s); /* no connection is left */
    /* Takes over the socket, even if it fails.  0, or -errno: a shortage. */
    int (*accept)(struct kserve *s, struct socket *sock);
    /* Look at the connection soon: the server stops, or the slot is wanted.  serve->lock is
     * held. */
    void (*kick)(struct kconn *k);
};
extern const struct kmodel_ops kready_ops, kblock_ops;

struct klistener {
    struct kserve *serve;
    struct socket *sock;
    struct delayed_work accept;
};

/* The callbacks that a socket has by default. */
struct kcalls {
    void (*data_ready)(struct sock *sk);
    void (*write_space)(struct sock *sk);
    void (*state_change)(struct sock *sk);
};

struct kserve {
    struct kserve_options opt;
    char name[KSERVE_NAME_BYTES];
    struct kworld world;
    const struct kmodel_ops *ops;
    unsigned conn_max;                   /* connections at once */
    struct workqueue_struct *wq;      /* the model's */
    struct workqueue_struct *listen_wq; /* accepting, watching: never kept busy for long */
    struct workqueue_struct *far_wq[2]; /* kfar.c: KREACH_HOME, KREACH_AWAY; NULL: no files */
    atomic_t far[2]; /* connections that wait there or are pumped */
    unsigned far_most; /* the most in the second queue */
    atomic_t away;   /* kblock.c: connections with an answer from another file system */
    struct klistener listener[KSERVE_BINDS_MAX];
    unsigned listeners;
    u16 port;
    struct kcalls calls;
    int stop;        /* enum kstop */
    bool opened;     /* kserve_open() has succeeded */
    bool paused;     /* a connection waits for a slot */
    unsigned waiting; /* how many waited when room was last made */
    u64 asked_ms;     /* when room was last made */
    atomic_t live;
    wait_queue_head_t gone;
    long buffer_bytes_max;      /* of input queues and send queues together */
    atomic_long_t buffer_bytes; /* <= buffer_bytes_max */
    spinlock_t lock; /* guards conns, listed, listeners */
    struct list_head conns;
    unsigned listed; /* in conns */
    struct kpercpu __percpu *percpu;
    struct kcontext *context; /* kserve.c: one for each processor, for work items */
    struct kcontext *soft;    /* ... and for bottom halves */
    struct llist_head dead;    /* kblock.c: threads that have finished */
    struct work_struct reap;
    struct work_struct late;   /* kopen.c: starts the thread that ends this server */
    struct dentry *debugfs;
};

/* --- kconn.c ---------------------------------------------------------------------------------- */
/* Counts the connection and puts it into the list: kmodel_ops.kick() may be called for it from
 * now on. */
void kconn_begin(struct kconn *k, struct kserve *s, struct socket *sock,
                 const struct conn_host *host);
/* Releases everything except the connection's own memory.  May sleep. */
void kconn_finish(struct kconn *k);
/* Counts a connection, whose memory is free now, as gone, lets paused listeners go on, and wakes
 * the thread that waits for the last one.  Call it only in a work item of one of the server's
 * queues: serve_free() waits for those before it frees serve. */
void kserve_left(struct kserve *s);
/* Whether the connection must end because the server stops or its slot is wanted, which counts
 * as an eviction.  Only the thread or work item that may touch the machine calls this and the
 * next one. */
bool kconn_unwanted(struct kconn *k, u64 now_ms);
/* Checks the connection's deadline; true: its time is up (counted). */
bool kconn_overdue(struct kconn *k, u64 now_ms);

/* --- klisten.c -------------------------------------------------------------------------------- */
int klisteners_open(struct kserve *s);
void klisteners_close(struct kserve *s);
void klisteners_room(struct kserve *s); /* a connection has ended: another may be accepted */

/* --- kcontext.c ------------------------------------------------------------------------------- */
int kcontext_open(struct kcontext *cx, struct kserve *s, bool may_sleep, enum kreach reach);
void kcontext_remember(struct kcontext *cx); /* for a context that lasts: heads, whole answers */
void kcontext_home(struct kcontext *cx); /* a blocking connection's answers are all sent */
void kcontext_close(struct kcontext *cx);
u64 kcontext_tick(struct kcontext *cx);          /* refreshes the date; milliseconds, monotonic */

/* --- kbufpool.c ------------------------------------------------------------------------------- */
long kbuffers_max(void); /* bytes that all buffers of a server may have together */
/* A buffer of a connection, or NULL (counted).  kbuffer_give() takes it back, with the same size
 * and on any processor. */
void *kbuffer_take(struct kserve *s, size_t bytes, bool may_sleep);
void kbuffer_give(struct kserve *s, void *mem, size_t bytes);
int kbufpool_reserve(struct kserve *s);     /* send queues and input queues for each processor */
bool kbufpool_reserved(struct kserve *s);  /* a pump need not allocate, here and now */
void kbufpool_empty(struct kserve *s);

/* --- kwhole.c --------------------------------------------------------------------------------- */
struct kwholes *kwholes_new(void); /* or NULL */
void kwholes_free(struct kwholes *all);
/* Returns a source that has the whole answer of this second, or NULL.  The given one has a
 * version. */
struct source *kwhole_find(struct kcontext *cx, const struct source *source);
void kwhole_release(struct source *source); /* in any context */

/* --- ksock.c ---------------------------------------------------------------------------------- */
/* The transport's io: a connection in a context. */
struct kline {
    struct kconn *k;
    struct kcontext *context;
    int flags;  /* MSG_DONTWAIT, or 0: receive and send wait */
    bool empty; /* the last receive found nothing */
    bool late;  /* before the last send the peer had all that was sent: it waited for us */
    bool hand;  /* going on needs more than this context may do */
};
extern const struct transport kline_transport, kline_soft_transport;
bool kline_has_input(const struct kline *line); /* whether to receive again */
bool ksock_unread(const struct kconn *k);       /* bytes wait, or the end of the stream */
bool ksock_gone(const struct kconn *k);         /* nothing that is sent can arrive any more */
/* Restores the default callbacks of a socket; an accepted one begins with its listener's. */
void ksock_unhook(const struct kserve *s, struct socket *sock);
void ksock_shut(struct kconn *k);               /* no more will be sent */
/* End receiving, after the bytes that have come; or end both ways.  Both calls wake a thread that
 * waits in the socket. */
void ksock_shut_receive(struct kconn *k);
void ksock_end(struct kconn *k);
void ksock_reset(struct sock *sk);              /* whatever the socket is doing; may sleep */
u64 ksock_acked(const struct kconn *k);         /* bytes that the peer is known to have */
/* Whether the peer has all that was sent, although an answer is not finished: the file system is
 * slow. */
static inline bool ksock_has_all(const struct kconn *k)
{
    const struct tcp_sock *tp = tcp_sk(k->sock->sk);

    return READ_ONCE(k->conn.want) == CONN_SEND &&
           READ_ONCE(tp->snd_una) == READ_ONCE(tp->write_seq);
}

/* --- kstats.c --------------------------------------------------------------------------------- */
static inline void kstat_add(struct kserve *s, enum kstat_id stat, unsigned long n)
{
    this_cpu_add(s->percpu->stat[stat], n);
}
/* The line is dynamic debug's: a no-op until it is turned on. */
static inline void kstat_received(struct kserve *s, long n)
{
    kstat_add(s, KSTAT_RECEIVES, 1);
    pr_debug("%s: received %ld bytes\n", s->name, n);
}
void kstats_open(struct kserve *s); /* without debugfs only the figures are missing */
void kstats_close(struct kserve *s);
void kstats_log(const struct kserve *s); /* one line with the totals */

#endif
