/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kserve.h - what the modules share: a server of connections inside Linux that does not know what
 * it serves.
 *
 * A module says what is served (struct kworld) and how (struct kserve_options); kserve_open()
 * listens, kserve_close() stops.  Between the two everything happens in callbacks of sockets, work
 * items and threads.  Every call returns 0 or a count, or -errno.
 */
#ifndef KERNEL_KSERVE_H
#define KERNEL_KSERVE_H
#include <linux/types.h>
#include "../core/conn.h"

/* Where connections are pumped. */
enum kmodel {
    KMODEL_EVENT,   /* sockets call back; a work item for each processor pumps who can move */
    KMODEL_SOFTIRQ, /* the same in the bottom half, as long as nothing need be waited for */
    KMODEL_CMWQ,    /* a work item for each connection, which waits in receive and send */
    KMODEL_KTHREAD, /* a thread for each connection, likewise */
    KMODELS
};

extern const char *const kmodel_names[KMODELS];

/* What is served.  ctx is handed back.  may_sleep false: only what is in memory; -EINPROGRESS means
 * to ask again where sleeping is allowed.  Where it is allowed they have the answer.  All of them
 * are called on several processors at once. */
struct kworld {
    const struct conn_proto *proto;
    void *ctx;
    int (*find)(void *ctx, const struct http_ask *ask, bool may_sleep, struct source **source);
    /* the site's own page for a status, or -ENOENT */
    int (*page)(void *ctx, unsigned status, bool may_sleep, struct source **source);
    /* in any context, never sleeps (fput() is fine there) */
    void (*release)(void *ctx, struct source *source);
};
/* source->file is a struct file * here, of a regular file.  source->bytes may be any memory of the
 * kernel. */

enum { KSERVE_BINDS_MAX = 4, KSERVE_NAME_BYTES = 24 };

struct kserve_options {
    const char *name;     /* of the work queue, the threads, the folder in debugfs; kept */
    enum kmodel model;
    u16 port;             /* 0: any free one, the same for every address */
    const char *bind[KSERVE_BINDS_MAX]; /* addresses, numeric; read by kserve_open() only */
    unsigned binds;
    bool some_binds;      /* an address whose protocol this kernel lacks is left out */
    int backlog;
    bool bound, highpri, cpu_intensive; /* the work queue's; bound: to the processor */
    unsigned connections_max;
    u32 send_bytes;       /* of memory, in one call: 1..TRANSFER_BYTES_MAX */
    u32 head_ms, idle_ms, send_ms, progress_bytes, body_bytes_max;
};

/* Where a model's connections run best; what wq= says otherwise. */
bool kserve_runs_bound(enum kmodel model);

struct kserve;

/* 0, or -errno: then nothing is left behind, and the kernel's log has said what failed. */
int kserve_open(struct kserve **serve, const struct kserve_options *opt,
                const struct kworld *world);

/* Its folder in debugfs, where a module may put more to read; it goes with the server. */
struct dentry *kserve_folder(const struct kserve *serve);

/* Stop listening, close who is idle, give the others KSERVE_DRAIN_MS, cut off the rest.  When it
 * returns nobody is left: no connection, thread, timer or callback. */
enum { KSERVE_DRAIN_MS = 500 };
void kserve_close(struct kserve *serve);

#endif
