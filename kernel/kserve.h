/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kserve.h - what the modules share: a server of connections inside Linux.
 *
 * A module says what is served (struct kworld) and how (struct kserve_options); kserve_open()
 * listens, kserve_close() stops.  Between the two everything happens in callbacks of sockets, work
 * items and threads.  Every call returns 0 or a count, or -errno.
 */
#ifndef KERNEL_KSERVE_H
#define KERNEL_KSERVE_H
#include <linux/types.h>
#include "../core/http.h"

/* Where connections are pumped. */
enum kmodel {
    KMODEL_EVENT,   /* sockets call back; a work item of each processor pumps the ready ones */
    KMODEL_SOFTIRQ, /* the same in the bottom half, as long as nothing need be waited for */
    KMODEL_CMWQ,    /* a work item for each connection, which waits in receive and send */
    KMODEL_KTHREAD, /* a thread for each connection, likewise */
    KMODELS
};

extern const char *const kmodel_names[KMODELS];

/* How far a search may reach.  A file system may take any time to answer, or never answer, so each
 * reach is a place of its own where connections are pumped. */
enum kreach {
    KREACH_MEMORY, /* nothing that sleeps */
    KREACH_HOME,   /* the file system of what is served */
    KREACH_AWAY,   /* others, which are mounted below it */
};

/* What a server serves: a protocol, and for HTTP a site.  ctx is passed to each function.
 * -EINPROGRESS: the answer is beyond this reach, ask with the next one; KREACH_AWAY has every
 * answer.  These functions run on several processors at once.  They must be rung_core's own: a call
 * that a file system never answers outlives the module that opened the server. */
struct kworld {
    const struct conn_proto *proto;
    void *ctx;
    int (*find)(void *ctx, const struct http_ask *ask, enum kreach reach, struct source **source);
    /* the site's own page for a status, or -ENOENT; KREACH_HOME has every answer */
    int (*page)(void *ctx, unsigned status, enum kreach reach, struct source **source);
    /* in any context; sleeps in no bottom half, and waits for no file system */
    void (*release)(void *ctx, struct source *source);
    void (*close)(void *ctx); /* the last call; NULL is fine */
};
/* source->file is a struct file * here, of a regular file.  If there are source->bytes, it is their
 * first struct page, or NULL.  A page says that the bytes lie in whole pages, each with a reference
 * count of its own, and are never written again: a socket may send from such a page after
 * release().  NULL says that they lie in any memory of the kernel; then they are copied. */

enum { KSERVE_BINDS_MAX = 4, KSERVE_NAME_BYTES = 24 };

struct kserve_options {
    const char *name;     /* of the work queue, the threads, the folder in debugfs; copied */
    enum kmodel model;
    u16 port;             /* 0: any free one, the same for every address */
    const char *bind[KSERVE_BINDS_MAX]; /* addresses, numeric; read by kserve_open() only */
    unsigned binds;
    bool some_binds;      /* an address whose protocol this kernel lacks is left out */
    int backlog;
    bool bound, highpri, cpu_intensive; /* the work queue's; bound: to the processor */
    unsigned max_active;  /* the work queue's: items that run at once; 0: what suits the model */
    unsigned connections_max;
    u32 recv_bytes;       /* in one call, and of its buffer: 1..RECV_BYTES_MAX */
    u32 send_bytes;       /* of memory, in one call: 1..TRANSFER_BYTES_MAX */
    u32 head_ms, idle_ms, send_ms, progress_bytes, body_bytes_max;
};

/* Whether a model's connections run best bound to a processor; wq= overrides it. */
bool kserve_runs_bound(enum kmodel model);

struct kserve;

/* Returns 0, or -errno: then nothing is left behind, and the kernel's log says what failed.  The
 * world is closed with the server, or when this fails. */
int kserve_open(struct kserve **serve, const struct kserve_options *opt,
                const struct kworld *world);

/* The server's folder in debugfs, where a module may put more files; it is removed with the
 * server. */
struct dentry *kserve_folder(const struct kserve *serve);

/* Stop listening, close idle connections, give the others KSERVE_DRAIN_MS, cut off the rest.  When
 * it returns, no connection, thread, timer or callback is left.  There is one exception: a
 * connection whose file system does not answer cannot be ended.  If no connection has ended for
 * KSERVE_STUCK_MS, the clients are reset, the kernel's log says why, and what is left stays with
 * rung_core, which cannot be unloaded until the file system has answered. */
enum { KSERVE_DRAIN_MS = 500, KSERVE_STUCK_MS = 5000 };
void kserve_close(struct kserve *serve);

#endif
