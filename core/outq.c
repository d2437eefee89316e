/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* outq.c - a connection's output: heads written in place, ranges of sources, ends of answers.
 *
 * A queue of segments over one buffer, which is filled from front to back; its space is used again
 * when no segment is left.  Each segment is removed once, sent or given up; then its source is
 * released, and the end of its answer reported.
 */
#include "conn_inside.h"

bool outq_has_room(const struct conn *c)
{
    return !c->out || (c->out->first + c->out->count + 2 <= OUT_SEGMENTS_MAX &&
                       OUTQ_BYTES - c->out->used >= REPLY_HEAD_BYTES_MAX);
}

void outq_free(struct conn *c)
{
    if (c->out)
        c->host->free(c->host->ctx, c->out, sizeof(*c->out));
    c->out = NULL;
}

bool conn_room(struct conn *c)
{
    struct outq *o = c->out;

    if (o)
        return outq_has_room(c);
    o = c->host->alloc(c->host->ctx, sizeof(*o));
    c->out = o;
    if (!o) {
        c->flags |= CONN_CLOSING;
        return false;
    }
    o->first = o->count = o->used = 0;
    o->state_clean = false;
    o->body_bytes = 0;
    return true;
}

bool conn_queue(struct conn *c)
{
    return c->out || conn_room(c);
}

char *conn_space(struct conn *c, size_t *cap)
{
    *cap = OUTQ_BYTES - c->out->used;
    return c->out->bytes + c->out->used;
}

/* The segment queued last, unless it ended an answer: that one is finished. */
static struct segment *segment_open(struct outq *o)
{
    struct segment *last = o->count ? &o->seg[o->first + o->count - 1] : NULL;

    return last && !last->ends ? last : NULL;
}

static struct segment *segment_add(struct outq *o)
{
    struct segment *s = &o->seg[o->first + o->count];

    core_assert(o->first + o->count < OUT_SEGMENTS_MAX);
    o->count++;
    *s = (struct segment){0};
    return s;
}

void conn_wrote(struct conn *c, size_t n, bool body)
{
    struct outq *o = c->out;
    struct segment *last = segment_open(o);
    char *from = o->bytes + o->used;

    core_assert(n <= OUTQ_BYTES - o->used);
    if (!last || last->source || (last->body && !body)) { /* otherwise the last one ends there */
        last = segment_add(o);
        last->bytes = from;
    }
    if (body && !last->body)
        last->lead = (uint32_t)last->len;
    last->body = body;
    last->len += n;
    o->used += (uint32_t)n;
}

void conn_lend_source(struct conn *c, struct source *source, uint64_t off, uint64_t len)
{
    struct segment *s = segment_add(c->out);

    if (source->bytes)
        s->bytes = source->bytes + off;
    s->off = off;
    s->len = len;
    s->source = source;
    s->body = true;
    s->lent = true;
}

void conn_lend_segment(struct conn *c, const struct segment *shown)
{
    struct segment *s = segment_add(c->out);

    s->bytes = shown->bytes;
    s->off = shown->off;
    s->len = shown->len;
    s->source = shown->source;
    s->lent = true;
}

/* Room for another head must remain: short bodies that would take it are not copied. */
static bool joins(const struct outq *o, uint64_t len)
{
    return len <= JOINED_BYTES_MAX && OUTQ_BYTES - o->used >= REPLY_HEAD_BYTES_MAX + len;
}

void conn_put_source(struct conn *c, struct source *source, uint64_t off, uint64_t len)
{
    struct outq *o = c->out;

    if (source->bytes && joins(o, len)) {
        memcpy(o->bytes + o->used, source->bytes + off, (size_t)len);
        conn_wrote(c, (size_t)len, true);
        c->host->release(c->host->ctx, source);
        return;
    }
    conn_lend_source(c, source, off, len);
    o->seg[o->first + o->count - 1].lent = false;
}

/* An answer behind others is copied, so that they become one piece, unless it has a file, whose
 * bytes can be handed over. */
void conn_put_whole(struct conn *c, struct source *source)
{
    const struct whole *whole = source->whole;
    struct outq *o = c->out;
    struct segment *s = segment_add(o);

    s->bytes = whole->bytes;
    s->len = whole->len;
    s->lead = whole->head_len;
    s->body = true;
    if (o->count == 1 || source->file || !joins(o, whole->len)) {
        s->source = source;
        return;
    }
    s->bytes = memcpy(o->bytes + o->used, whole->bytes, whole->len);
    o->used += whole->len;
    c->host->release(c->host->ctx, source);
}

void conn_put_end(struct conn *c, void *note)
{
    struct segment *last = segment_open(c->out);

    if (!last)
        last = segment_add(c->out); /* of no bytes: only the end */
    last->note = note;
    last->ends = true;
    c->requests++;
}

void conn_more(struct conn *c, bool more)
{
    c->flags = more ? c->flags | CONN_MORE : c->flags & ~CONN_MORE;
}

void conn_wait(struct conn *c)
{
    if (!outq_has_output(c))
        c->flags |= CONN_BLOCKED;
}

void conn_follows(struct conn *c, bool follows)
{
    c->follows = follows;
}

void conn_stays_open(struct conn *c)
{
    c->stays_open = true;
}

void conn_close_after(struct conn *c)
{
    c->flags |= CONN_CLOSING;
}

void conn_promise(struct conn *c)
{
    c->promised = true;
}

void conn_in_body(struct conn *c, bool in)
{
    c->flags = in ? c->flags | CONN_BODY : c->flags & ~CONN_BODY;
}

bool conn_reads_body(const struct conn *c)
{
    return c->flags & CONN_BODY;
}

void conn_duplex(struct conn *c)
{
    c->duplex = true;
}

void conn_owes(struct conn *c, bool owes)
{
    c->owes = owes;
}

void *conn_state(struct conn *c)
{
    struct outq *o = c->out;

    if (!o->state_clean)
        memset(o->state, 0, sizeof(o->state));
    o->state_clean = true;
    return o->state;
}

char *conn_keep(struct conn *c)
{
    return c->out->keep;
}

void *conn_work(struct conn *c)
{
    return c->out->work;
}

struct conn_out conn_out(const struct conn *c)
{
    struct conn_out out = {0};

    if (c->want != CONN_SEND)
        return out;
    out.seg = &c->out->seg[c->out->first];
    while (out.count < c->out->count)
        if (!out.seg[out.count++].bytes)
            break; /* a file range is the last of a gather */
    out.more = (c->follows || (c->promised && !(c->flags & CONN_MORE))) &&
               out.count == c->out->count;
    return out;
}

/* Removes the first segment, sent or not: releases its source, unless lent, and reports the end of
 * its answer. */
void outq_drop_first(struct conn *c, bool complete)
{
    struct outq *o = c->out;
    const struct segment *s = &o->seg[o->first++]; /* stays as it is until another is added */

    if (!--o->count)
        o->first = o->used = 0;
    if (s->source && !s->lent)
        c->host->release(c->host->ctx, s->source);
    if (!s->ends)
        return;
    c->host->answered(c->host->ctx, s->note, o->body_bytes, complete);
    o->body_bytes = 0;
}

void outq_reap(struct conn *c)
{
    while (outq_has_output(c) && !c->out->seg[c->out->first].len)
        outq_drop_first(c, true);
}

/* The first n bytes of a longer segment were taken. */
static void take_part(struct outq *o, struct segment *s, size_t n)
{
    size_t lead = n < s->lead ? n : s->lead;

    if (s->bytes)
        s->bytes += n;
    s->off += n;
    s->len -= n;
    s->lead -= (uint32_t)lead;
    if (s->body)
        o->body_bytes += n - lead;
}

/* The transport has taken n bytes of the queue. */
void outq_take(struct conn *c, size_t n)
{
    struct outq *o = c->out;
    struct segment *s;

    while (n) {
        core_assert(o->count);
        s = &o->seg[o->first];
        if (n < s->len) {
            take_part(o, s, n);
            return;
        }
        n -= (size_t)s->len;
        if (s->body)
            o->body_bytes += s->len - s->lead;
        outq_drop_first(c, true);
    }
    outq_reap(c);
}
