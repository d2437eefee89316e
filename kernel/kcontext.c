/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kcontext.c - the host that the core calls, inside the kernel.
 *
 * A context belongs to one processor's work item, to that processor's bottom half, or to one
 * blocking connection.  Whatever drives a connection sets its own context as the connection's host.
 * A buffer taken with one context may be given back with another.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include "../core/http.h"
#include "kinside.h"
#include "ktrace.h"

/* --- Memory ----------------------------------------------------------------------------------- */

static void *host_alloc(void *site, size_t bytes)
{
    struct kcontext *cx = site;

    return kbuffer_take(cx->serve, bytes, cx->may_sleep);
}

static void host_free(void *site, void *mem, size_t bytes)
{
    struct kcontext *cx = site;

    kbuffer_give(cx->serve, mem, bytes);
}

/* --- What is served --------------------------------------------------------------------------- */

/* A blocking connection may wait for any file system, because it waits alone.  But it keeps its
 * slot while it waits, and file systems that hang must leave slots for other connections.  False:
 * there are no slots left for it, and the answer is 503. */
static bool context_goes_away(struct kcontext *cx)
{
    struct kserve *s = cx->serve;

    if (cx->away)
        return true;
    if (atomic_inc_return(&s->away) > max_t(int, 1, (int)(s->conn_max / KSLOTS_WAIT_SHARE))) {
        atomic_dec(&s->away);
        return false;
    }
    cx->away = true;
    return true;
}

static void frag_free(struct kcontext *cx)
{
    if (cx->frag.page)
        put_page(cx->frag.page);
    cx->frag.page = NULL;
}

void kcontext_home(struct kcontext *cx)
{
    if (cx->away)
        atomic_dec(&cx->serve->away);
    cx->away = false;
    frag_free(cx); /* until the next request no byte is copied */
}

/* Exchanges the source for one that has its whole answer, if there is one. */
static struct source *ready_or(struct kcontext *cx, struct source *source)
{
    struct source *ready = cx->wholes && source->version ? kwhole_find(cx, source) : NULL;

    if (!ready)
        return source;
    cx->serve->world.release(cx->serve->world.ctx, source);
    return ready;
}

/* For one more connection that waits for another mount. */
static bool far_has_room(const struct kserve *s)
{
    return (unsigned)atomic_read(&s->far[true]) < s->far_most;
}

static int context_find(struct kcontext *cx, const struct http_ask *ask, struct source **source)
{
    const struct kworld *w = &cx->serve->world;
    int err = w->find(w->ctx, ask, cx->reach, source);

    if (!err)
        *source = ready_or(cx, *source);
    if (err != -EINPROGRESS)
        return err;
    /* A request waits for the folder's own file system as long as it takes: without that there is
     * little to serve. */
    if (!cx->alone)
        return cx->reach == KREACH_MEMORY || far_has_room(cx->serve) ? err : -EAGAIN;
    return context_goes_away(cx) ? w->find(w->ctx, ask, KREACH_AWAY, source) : -EAGAIN;
}

/* context_find() while rung_answer is traced.  A search that another context finishes began with
 * the first call. */
static noinline __cold int find_timed(struct kcontext *cx, const struct http_ask *ask,
                                      struct source **source)
{
    struct kconn *k = container_of(ask->conn, struct kconn, conn);
    struct ktimes *t = &k->times;
    int err;

    if (t->ordinal != k->conn.requests + 1)
        *t = (struct ktimes){.parsed = ktime_get_ns(), .ordinal = k->conn.requests + 1};
    err = context_find(cx, ask, source);
    if (err == -EINPROGRESS || t->found)
        return err;
    t->found = ktime_get_ns();
    if (!err && (*source)->coding != CODING_IDENTITY)
        t->compressed = t->found;
    return err;
}

static int host_find(void *site, const struct http_ask *ask, struct source **source)
{
    struct kcontext *cx = site;

    return trace_rung_answer_enabled() ? find_timed(cx, ask, source)
                                       : context_find(cx, ask, source);
}

static int host_page(void *site, unsigned status, struct source **source)
{
    struct kcontext *cx = site;
    const struct kworld *w = &cx->serve->world;

    return w->page ? w->page(w->ctx, status, cx->reach, source) : -ENOENT;
}

static void host_release(void *site, struct source *source)
{
    struct kcontext *cx = site;

    if (source->whole)
        kwhole_release(source);
    else
        cx->serve->world.release(cx->serve->world.ctx, source);
}

/* Called while rung_answer is traced.  A refused request was only read, and its page looked for. */
static noinline __cold void answer_timed(const struct kconn *k)
{
    const struct ktimes refused = {.parsed = ktime_get_ns(), .ordinal = k->conn.requests + 1};
    const struct ktimes *t = k->times.ordinal == refused.ordinal ? &k->times : &refused;

    trace_rung_answer(k->sock->sk, t->ordinal, t->parsed, t->found, t->compressed);
}

static void *host_answer(void *site, const struct conn *conn, const struct http_receipt *receipt)
{
    struct kcontext *cx = site;

    kstat_add(cx->serve, KSTAT_ANSWERS, 1);
    if (trace_rung_answer_enabled())
        answer_timed(container_of(conn, struct kconn, conn));
    return NULL;
}

static void host_answered(void *site, void *note, uint64_t body_bytes, bool complete)
{
    struct kcontext *cx = site;

    kstat_add(cx->serve, complete ? KSTAT_COMPLETE : KSTAT_BROKEN, 1);
    kstat_add(cx->serve, KSTAT_BODY_BYTES, (unsigned long)body_bytes);
}

/* There is no job to discard: an answer is always made at once where it is made. */
static void host_forget(void *site, const struct conn *conn)
{
}

/* --- A context -------------------------------------------------------------------------------- */

int kcontext_open(struct kcontext *cx, struct kserve *s, bool may_sleep, enum kreach reach)
{
    cx->serve = s;
    cx->may_sleep = may_sleep;
    cx->reach = reach;
    cx->alone = false;
    cx->away = false;
    cx->brief = false;
    cx->wholes = NULL;
    cx->frag = (struct page_frag){.page = NULL};
    cx->scratch = kmalloc(s->opt.recv_bytes, GFP_KERNEL);
    if (!cx->scratch)
        return -ENOMEM;
    cx->host = (struct http_host){
        .conn = {
            .ctx = cx,
            .alloc = host_alloc,
            .free = host_free,
            .release = host_release,
            .answered = host_answered,
            .forget = host_forget,
            .head_ms = s->opt.head_ms,
            .idle_ms = s->opt.idle_ms,
            .send_ms = s->opt.send_ms,
            .progress_bytes = s->opt.progress_bytes,
        },
        .find = host_find,
        .page = host_page,
        .answer = host_answer,
        .date = cx->date,
        .body_bytes_max = s->opt.body_bytes_max,
    };
    kcontext_tick(cx);
    return 0;
}

void kcontext_remember(struct kcontext *cx)
{
    cx->host.recent = kzalloc(sizeof(*cx->host.recent), GFP_KERNEL); /* NULL: each head is parsed */
    cx->wholes = kwholes_new();
}

void kcontext_close(struct kcontext *cx)
{
    http_recent_drop(&cx->host);
    kfree(cx->host.recent);
    cx->host.recent = NULL;
    kwholes_free(cx->wholes);
    cx->wholes = NULL;
    frag_free(cx);
    kfree(cx->scratch);
    cx->scratch = NULL;
}

u64 kcontext_tick(struct kcontext *cx)
{
    time64_t now_s = ktime_get_real_seconds();

    if (now_s != cx->host.date_s)
        http_date_write(cx->date, now_s);
    cx->host.date_s = now_s;
    cx->host.closing = READ_ONCE(cx->serve->stop) != KSTOP_NOT;
    return (u64)ktime_to_ms(ktime_get_coarse());
}
