/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* klane.c - the host that the core calls, inside the kernel.
 *
 * A lane belongs to one context: a work item of one processor, its bottom half, or one blocking
 * connection.  The context that pumps a connection lends it its lane as the host.  A buffer taken
 * by one lane may be given back by another.
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
    struct klane *l = site;

    return kbuffer_take(l->serve, bytes, l->may_sleep);
}

static void host_free(void *site, void *mem, size_t bytes)
{
    struct klane *l = site;

    kbuffer_give(l->serve, mem, bytes);
}

/* --- What is served --------------------------------------------------------------------------- */

/* A blocking connection may wait for any file system, because it waits alone.  But it keeps its
 * seat while it waits, and file systems that hang must leave seats for other connections.  False:
 * there are no seats left for it, and the answer is 503. */
static bool lane_goes_away(struct klane *l)
{
    struct kserve *s = l->serve;

    if (l->away)
        return true;
    if (atomic_inc_return(&s->away) > max_t(int, 1, (int)(s->seats / KSEATS_WAIT_SHARE))) {
        atomic_dec(&s->away);
        return false;
    }
    l->away = true;
    return true;
}

static void frag_free(struct klane *l)
{
    if (l->frag.page)
        put_page(l->frag.page);
    l->frag.page = NULL;
}

void klane_home(struct klane *l)
{
    if (l->away)
        atomic_dec(&l->serve->away);
    l->away = false;
    frag_free(l); /* until the next request no byte is copied */
}

/* Exchanges the source for one that has its whole answer, if there is one. */
static struct source *ready_or(struct klane *l, struct source *source)
{
    struct source *ready = l->wholes && source->version ? kwhole_find(l, source) : NULL;

    if (!ready)
        return source;
    l->serve->world.release(l->serve->world.ctx, source);
    return ready;
}

/* For one more connection that waits for another mount. */
static bool far_has_room(const struct kserve *s)
{
    return (unsigned)atomic_read(&s->far[true]) < s->far_most;
}

static int lane_find(struct klane *l, const struct http_ask *ask, struct source **source)
{
    const struct kworld *w = &l->serve->world;
    int err = w->find(w->ctx, ask, l->reach, source);

    if (!err)
        *source = ready_or(l, *source);
    if (err != -EINPROGRESS)
        return err;
    /* A request waits for the folder's own file system as long as it takes: without that there is
     * little to serve. */
    if (!l->alone)
        return l->reach == KREACH_MEMORY || far_has_room(l->serve) ? err : -EAGAIN;
    return lane_goes_away(l) ? w->find(w->ctx, ask, KREACH_AWAY, source) : -EAGAIN;
}

/* lane_find() while rung_answer is traced.  A search that another context finishes began with the
 * first call. */
static noinline __cold int find_timed(struct klane *l, const struct http_ask *ask,
                                      struct source **source)
{
    struct kconn *k = container_of(ask->conn, struct kconn, conn);
    struct ktimes *t = &k->times;
    int err;

    if (t->ordinal != k->conn.requests + 1)
        *t = (struct ktimes){.parsed = ktime_get_ns(), .ordinal = k->conn.requests + 1};
    err = lane_find(l, ask, source);
    if (err == -EINPROGRESS || t->found)
        return err;
    t->found = ktime_get_ns();
    if (!err && (*source)->coding != CODING_IDENTITY)
        t->compressed = t->found;
    return err;
}

static int host_find(void *site, const struct http_ask *ask, struct source **source)
{
    struct klane *l = site;

    return trace_rung_answer_enabled() ? find_timed(l, ask, source) : lane_find(l, ask, source);
}

static int host_page(void *site, unsigned status, struct source **source)
{
    struct klane *l = site;
    const struct kworld *w = &l->serve->world;

    return w->page ? w->page(w->ctx, status, l->reach, source) : -ENOENT;
}

static void host_release(void *site, struct source *source)
{
    struct klane *l = site;

    if (source->whole)
        kwhole_release(source);
    else
        l->serve->world.release(l->serve->world.ctx, source);
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
    struct klane *l = site;

    kstat_add(l->serve, KSTAT_ANSWERS, 1);
    if (trace_rung_answer_enabled())
        answer_timed(container_of(conn, struct kconn, conn));
    return NULL;
}

static void host_answered(void *site, void *note, uint64_t body_bytes, bool complete)
{
    struct klane *l = site;

    kstat_add(l->serve, complete ? KSTAT_COMPLETE : KSTAT_BROKEN, 1);
    kstat_add(l->serve, KSTAT_BODY_BYTES, (unsigned long)body_bytes);
}

/* There is no job to discard: an answer is always made at once where it is made. */
static void host_forget(void *site, const struct conn *conn)
{
}

/* --- A lane ----------------------------------------------------------------------------------- */

int klane_open(struct klane *l, struct kserve *s, bool may_sleep, enum kreach reach)
{
    l->serve = s;
    l->may_sleep = may_sleep;
    l->reach = reach;
    l->alone = false;
    l->away = false;
    l->brief = false;
    l->wholes = NULL;
    l->frag = (struct page_frag){.page = NULL};
    l->scratch = kmalloc(RECV_BYTES_MAX, GFP_KERNEL);
    if (!l->scratch)
        return -ENOMEM;
    l->host = (struct http_host){
        .conn = {
            .ctx = l,
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
        .date = l->date,
        .body_bytes_max = s->opt.body_bytes_max,
    };
    klane_tick(l);
    return 0;
}

void klane_remember(struct klane *l)
{
    l->host.recent = kzalloc(sizeof(*l->host.recent), GFP_KERNEL); /* NULL: each head is parsed */
    l->wholes = kwholes_new();
}

void klane_close(struct klane *l)
{
    http_recent_drop(&l->host);
    kfree(l->host.recent);
    l->host.recent = NULL;
    kwholes_free(l->wholes);
    l->wholes = NULL;
    frag_free(l);
    kfree(l->scratch);
    l->scratch = NULL;
}

u64 klane_tick(struct klane *l)
{
    time64_t now_s = ktime_get_real_seconds();

    if (now_s != l->host.date_s)
        http_date_write(l->date, now_s);
    l->host.date_s = now_s;
    l->host.closing = READ_ONCE(l->serve->stop) != KSTOP_NOT;
    return (u64)ktime_to_ms(ktime_get_coarse());
}
