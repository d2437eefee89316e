/* SPDX-License-Identifier: MIT */
/* upload_write.c - writes the bytes of a file, with a helper if this thread must not wait.
 *
 * The helper is offload.c, as for listings, with a thread of its own.  The helper has an upload
 * from do_work() until its result is taken, and then the loop has it again.  If the connection ends
 * meanwhile, the helper or the loop frees the upload, whichever is last.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "upload.h"

enum upload_owner { OWNER_HELPER, OWNER_DONE, OWNER_GONE };

static atomic_uint uploads; /* of this process, now */

struct upload *upload_make(const struct upload_to *to)
{
    struct upload *u = atomic_fetch_add(&uploads, 1) < UPLOADS_MAX ? malloc(sizeof(*u)) : NULL;

    if (!u) {
        atomic_fetch_sub(&uploads, 1);
        return NULL;
    }
    memset(u, 0, offsetof(struct upload, path));
    *u->first = '\0';
    u->to = to;
    u->folder = u->file = -1;
    return u;
}

static void release(struct upload *u)
{
    if (u->file >= 0)
        close(u->file);
    if (u->folder >= 0)
        close(u->folder);
    free(u->form);
    free(u);
    atomic_fetch_sub(&uploads, 1);
}

void upload_drop(struct loop *l, const struct conn *c, struct upload *u)
{
    bool helped = u->busy && l->store && offload_forget(l->store, c);

    if (!helped || atomic_exchange(&u->owner, OWNER_GONE) == OWNER_DONE)
        release(u);
}

/* --- The helper ------------------------------------------------------------------------------- */

/* Nothing of u changes here: it is the loop's. */
static int work(const struct upload *u)
{
    int err = upload_file_write(u->file, u->buf, u->have);

    return err || !u->names ? err : upload_file_name(u->file, u->folder, u->name);
}

/* As with passwords, a question to the helper is no path, and the result is no source, so "yes" is
 * an error, too (gate.c). */
static int helper_find(void *from, const struct http_ask *ask, struct source **source)
{
    (void)from;
    (void)ask;
    (void)source;
    return -EINPROGRESS;
}

static int helper_work(void *from, const struct http_ask *ask, struct source **source)
{
    struct upload *u;
    int err;

    (void)from;
    (void)source;
    memcpy(&u, ask->path.ptr, sizeof(u));
    err = work(u);
    if (atomic_exchange(&u->owner, OWNER_DONE) == OWNER_GONE)
        release(u);
    return err ? err : -EALREADY;
}

int upload_helper_open(struct loop *l)
{
    int err = offload_open(&l->store, l->site, l->wake_fd, 0);

    if (!err)
        offload_ask(l->store, (struct offload_from){l->site, l, UPLOADS_MAX, helper_find,
                                                    helper_work});
    return err;
}

/* --- The loop --------------------------------------------------------------------------------- */

/* Writes what is in the buffer, and gives the file its name if it is complete. */
static int do_work(struct loop *l, const struct conn *c, struct upload *u, bool names)
{
    struct http_ask ask = {.path = {(const char *)&u, sizeof(u)}, .conn = c};
    struct source *none;
    int err;

    if (!u->busy) {
        u->names = names;
        atomic_store(&u->owner, OWNER_HELPER);
    }
    if (l->store) {
        err = offload_find(l->store, &ask, &none);
        u->busy = err == -EINPROGRESS;
        err = err == -EALREADY ? 0 : err == -EAGAIN || err == -ENOMEM ? -503 : err;
    } else {
        err = work(u);
    }
    if (err != -EINPROGRESS)
        u->have = 0;
    return err;
}

long upload_bytes(struct loop *l, const struct conn *c, struct upload *u, struct slice bytes)
{
    int err = u->busy || u->have == UPLOAD_BYTES ? do_work(l, c, u, false) : 0;
    size_t n = UPLOAD_BYTES - u->have;

    if (err)
        return err;
    n = bytes.len < n ? bytes.len : n;
    memcpy(u->buf + u->have, bytes.ptr, n);
    u->have += n;
    u->file_bytes += n;
    return (long)n;
}

int upload_keep(struct loop *l, const struct conn *c, struct upload *u)
{
    struct stats *stats = l->worker->server->stats;
    int err = do_work(l, c, u, true);

    if (err)
        return err == -409 && u->new_only ? -412 : err;
    if (!u->kept++)
        memcpy(u->first, u->name, sizeof(u->first));
    stats_add(stats, STAT_UPLOADS, 1);
    stats_add(stats, STAT_UPLOAD_BYTES, u->file_bytes);
    l->looked = l->received - 1; /* a request that was received with this one sees the file */
    return 0;
}
