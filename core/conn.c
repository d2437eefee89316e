/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* conn.c - the connection machine: bytes in, segments out, a deadline, and what is wanted next.
 *
 * Input is used where it lies; only what is left over is copied, to the stash.  Every entry ends in advance(),
 * the one place that decides what the connection wants.  It shows a protocol each byte once more only when
 * there are more of them, and never while an answer waits to be sent by pieces.
 *
 * Cost of the usual request: one outbox from the host, no stash, no byte copied by the machine.
 */
#include "conn_inside.h"

static bool has_output(const struct conn *c)
{
    return c->out && c->out->count;
}

static bool has_room(const struct conn *c)
{
    return !c->out || (c->out->first + c->out->count + 2 <= OUT_SEGMENTS_MAX &&
                       OUTBOX_BYTES - c->out->used >= REPLY_HEAD_BYTES_MAX);
}

/* --- Memory ------------------------------------------------------------------------------------------- */

static void stash_free(struct conn *c)
{
    if (c->stash)
        c->host->free(c->host->site, c->stash, sizeof(*c->stash));
    c->stash = NULL;
}

static void outbox_free(struct conn *c)
{
    if (c->out)
        c->host->free(c->host->site, c->out, sizeof(*c->out));
    c->out = NULL;
}

/* Without memory there is no place for what the peer says: what is queued goes out, then the connection ends. */
static bool stash_get(struct conn *c)
{
    if (c->stash)
        return true;
    c->stash = c->host->alloc(c->host->site, sizeof(*c->stash));
    if (!c->stash) {
        c->flags |= CONN_CLOSING;
        return false;
    }
    c->stash->at = c->stash->len = c->stash->seen = 0;
    return true;
}

/* Append to the stash.  A partial message that waits is at most HEAD_BYTES_MAX long (see eat()), so one receive
 * always fits behind it. */
static bool stash_add(struct conn *c, const char *bytes, size_t n)
{
    struct stash *s;

    if (!stash_get(c))
        return false;
    s = c->stash;
    if (s->at + s->len + n > STASH_BYTES) {
        memmove(s->bytes, s->bytes + s->at, s->len);
        s->at = 0;
    }
    memcpy(s->bytes + s->at + s->len, bytes, n);
    s->len += (uint32_t)n;
    return true;
}

/* --- Output ------------------------------------------------------------------------------------------- */

bool conn_room(struct conn *c)
{
    struct outbox *o = c->out;

    if (o)
        return has_room(c);
    o = c->host->alloc(c->host->site, sizeof(*o));
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

char *conn_space(struct conn *c, size_t *cap)
{
    *cap = OUTBOX_BYTES - c->out->used;
    return c->out->bytes + c->out->used;
}

/* The segment queued last, unless it ended an answer: that one is finished business. */
static struct segment *segment_open(struct outbox *o)
{
    struct segment *last = o->count ? &o->seg[o->first + o->count - 1] : NULL;

    return last && !last->ends ? last : NULL;
}

static struct segment *segment_add(struct outbox *o)
{
    struct segment *s = &o->seg[o->first + o->count];

    core_assert(o->first + o->count < OUT_SEGMENTS_MAX);
    o->count++;
    *s = (struct segment){0};
    return s;
}

void conn_wrote(struct conn *c, size_t n, bool body)
{
    struct outbox *o = c->out;
    struct segment *last = segment_open(o);
    char *from = o->bytes + o->used;

    core_assert(n <= OUTBOX_BYTES - o->used);
    if (!last || last->source || last->body != body || last->bytes + last->len != from) {
        last = segment_add(o);
        last->bytes = from;
        last->body = body;
    }
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

void conn_put_source(struct conn *c, struct source *source, uint64_t off, uint64_t len)
{
    conn_lend_source(c, source, off, len);
    c->out->seg[c->out->first + c->out->count - 1].lent = false;
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

void conn_close_after(struct conn *c)
{
    c->flags |= CONN_CLOSING;
}

void conn_in_body(struct conn *c, bool in)
{
    c->flags = in ? c->flags | CONN_BODY : c->flags & ~CONN_BODY;
}

void *conn_state(struct conn *c)
{
    struct outbox *o = c->out;

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
    return out;
}

/* A segment leaves the outbox, sent or not: whoever owns a part of it hears of it, once. */
static void segment_done(struct conn *c, bool complete)
{
    struct outbox *o = c->out;
    struct segment s = o->seg[o->first];

    o->first++;
    if (!--o->count)
        o->first = o->used = 0;
    if (s.source && !s.lent)
        c->host->release(c->host->site, s.source);
    if (!s.ends)
        return;
    c->host->answered(c->host->site, s.note, o->body_bytes, complete);
    o->body_bytes = 0;
}

static void segments_reap(struct conn *c)
{
    while (has_output(c) && !c->out->seg[c->out->first].len)
        segment_done(c, true);
}

/* n bytes of the queue were taken. */
static void segments_take(struct conn *c, size_t n)
{
    struct outbox *o = c->out;
    struct segment *s;
    size_t part;

    while (n) {
        core_assert(o->count);
        s = &o->seg[o->first];
        part = s->len < n ? (size_t)s->len : n;
        if (s->bytes)
            s->bytes += part;
        s->off += part;
        s->len -= part;
        if (s->body)
            o->body_bytes += part;
        n -= part;
        segments_reap(c);
    }
}

/* --- What comes next ---------------------------------------------------------------------------------- */

/* The bytes the protocol is to see: the caller's, or the stash. */
struct view {
    const char *bytes;
    size_t n, seen;
};

/* Let the protocol use what it can.  It is not asked while it has an answer to continue, has no room for
 * another or waits for the host, nor twice about the same bytes. */
static void eat(struct conn *c, struct view *v)
{
    bool was_body;
    long used;

    while (v->n > v->seen && !(c->flags & (CONN_CLOSING | CONN_MORE | CONN_BLOCKED)) && has_room(c)) {
        was_body = c->flags & CONN_BODY;
        if (c->out && !was_body)
            c->out->state_clean = false; /* a new message */
        used = c->proto->input(c, v->bytes, v->n);
        if (used == -EINPROGRESS) {
            c->flags |= CONN_ASKED | CONN_BLOCKED;
            return;
        }
        core_assert(used >= 0 && (size_t)used <= v->n);
        c->flags &= ~CONN_ASKED;
        if (was_body && c->want == CONN_RECV)
            c->moved += (uint32_t)used;
        v->bytes += used;
        v->n -= (size_t)used;
        v->seen = used ? 0 : v->n;
    }
    /* A protocol that wants more than the longest message asks for what cannot be kept. */
    if (v->n && v->seen == v->n && v->n > HEAD_BYTES_MAX)
        c->flags |= CONN_CLOSING;
}

/* Eat from bytes, or with bytes NULL from the stash; what is left over is in the stash afterwards. */
static void eat_all(struct conn *c, const char *bytes, size_t n)
{
    struct stash *s = c->stash;
    struct view v = {bytes, n, 0};

    if (s)
        v = (struct view){s->bytes + s->at, s->len, s->seen};
    eat(c, &v);
    if (c->flags & CONN_CLOSING || !v.n) {
        stash_free(c);
        return;
    }
    if (s) {
        s->at += s->len - (uint32_t)v.n;
        s->len = (uint32_t)v.n;
    } else if (!stash_add(c, v.bytes, v.n)) {
        return;
    }
    c->stash->seen = (uint32_t)v.seen;
}

/* Everything said.  RFC 9112 9.6: to close at once while input is unread, or before the peer has read the answer,
 * makes the kernel send a reset, which destroys the answer.  Whether input is on its way nobody can know, so
 * the end of the peer's stream is awaited, for a while.  When it has been seen, or nothing was ever said, there is
 * nothing to protect. */
static void finish(struct conn *c, uint64_t now_ms)
{
    stash_free(c);
    if (c->flags & CONN_ENDED || !c->sent) {
        c->want = CONN_CLOSE;
        return;
    }
    c->want = CONN_LINGER;
    c->moved = 0;
    c->deadline_ms = now_ms + LINGER_MS;
}

static void want_send(struct conn *c, uint64_t now_ms)
{
    c->flags &= ~CONN_BEGUN;
    if (c->want == CONN_SEND)
        return;
    c->want = CONN_SEND;
    c->moved = (uint32_t)c->sent; /* see conn_overdue() */
    c->deadline_ms = now_ms + c->host->send_ms;
}

/* was_body: the input before was of a body too.  Deadlines that run already are left alone. */
static void want_recv(struct conn *c, bool was_body, uint64_t now_ms)
{
    bool stays = c->want == CONN_RECV;

    c->want = CONN_RECV;
    if (c->flags & CONN_BODY) {
        c->flags &= ~CONN_BEGUN;
        if (stays && was_body)
            return;
        c->moved = 0;
        c->deadline_ms = now_ms + c->host->send_ms;
    } else if (stays || c->stash) {
        if (!(c->flags & CONN_BEGUN))
            c->deadline_ms = now_ms + c->host->head_ms;
        c->flags |= CONN_BEGUN;
    } else {
        c->deadline_ms = now_ms + c->host->idle_ms;
    }
}

static void advance(struct conn *c, const char *bytes, size_t n, uint64_t now_ms)
{
    bool was_body = c->flags & CONN_BODY;

    do {
        eat_all(c, bytes, n);
        n = 0; /* what is left is in the stash now */
        while (c->flags & CONN_MORE && !has_output(c)) {
            c->proto->more(c);
            if (!has_output(c) && c->flags & CONN_MORE) {
                core_failed("more() queues or ends", __FILE__, __LINE__);
                c->flags |= CONN_CLOSING;
                break;
            }
            segments_reap(c);
        }
        segments_reap(c);
    } while (!has_output(c) && c->stash && c->stash->len > c->stash->seen &&
             !(c->flags & (CONN_CLOSING | CONN_BLOCKED)));

    if (has_output(c)) {
        want_send(c, now_ms);
        return;
    }
    if (!(c->flags & (CONN_MORE | CONN_BODY)))
        outbox_free(c);
    if (c->flags & CONN_CLOSING) {
        finish(c, now_ms);
    } else if (c->flags & CONN_BLOCKED) {
        c->want = CONN_WAIT;
        c->deadline_ms = now_ms + c->host->send_ms;
    } else {
        want_recv(c, was_body, now_ms);
    }
}

/* --- The world's side --------------------------------------------------------------------------------- */

void conn_init(struct conn *c, const struct conn_proto *proto, const struct host *host, uint64_t now_ms)
{
    *c = (struct conn){.proto = proto, .host = host, .want = CONN_RECV};
    c->deadline_ms = now_ms + host->head_ms;
}

void conn_feed(struct conn *c, const char *bytes, size_t n, uint64_t now_ms)
{
    core_assert(n <= RECV_BYTES_MAX);
    if (c->want == CONN_LINGER) {
        c->moved += (uint32_t)n;
        if (!n || c->moved > LINGER_BYTES_MAX)
            c->want = CONN_CLOSE;
        return;
    }
    core_assert(c->want == CONN_RECV);
    if (!n) {
        c->flags |= CONN_ENDED;
        if (c->proto->end)
            c->proto->end(c, c->stash ? c->stash->len : 0);
        c->flags |= CONN_CLOSING;
    } else if (c->stash) {
        stash_add(c, bytes, n);
        n = 0;
    }
    advance(c, bytes, n, now_ms);
}

void conn_sent(struct conn *c, size_t n, uint64_t now_ms)
{
    core_assert(c->want == CONN_SEND && n);
    c->sent += n;
    segments_take(c, n);
    if (has_output(c)) {
        /* The mark of conn_overdue() is half a counter: do not let it fall behind by more than that can tell. */
        if ((uint32_t)c->sent - c->moved > 1u << 30) {
            c->moved = (uint32_t)c->sent;
            c->deadline_ms = now_ms + c->host->send_ms;
        }
        return;
    }
    advance(c, NULL, 0, now_ms);
}

void conn_resume(struct conn *c, uint64_t now_ms)
{
    c->flags &= ~CONN_BLOCKED;
    if (c->want == CONN_WAIT)
        advance(c, NULL, 0, now_ms);
}

/* Sending, conn->moved is the low half of what the peer had at the last deadline, at first of all that had
 * been sent.  If it has less than that, earlier answers were still on their way when this one began, and how
 * much it has taken since is not known: it gets another window. */
static bool has_progress(struct conn *c, uint64_t acked)
{
    uint32_t grown;

    switch (c->want) {
    case CONN_RECV:
        grown = c->moved;
        c->moved = 0;
        return c->flags & CONN_BODY && grown >= c->host->progress_bytes;
    case CONN_SEND:
        grown = (uint32_t)acked - c->moved;
        c->moved = (uint32_t)acked;
        return grown >= c->host->progress_bytes; /* "less" wraps to a great deal */
    case CONN_WAIT:
        return true; /* the host takes its time, not the peer */
    default:
        return false;
    }
}

bool conn_overdue(struct conn *c, uint64_t acked, uint64_t now_ms)
{
    if (now_ms < c->deadline_ms)
        return false;
    if (!has_progress(c, acked))
        return true;
    c->deadline_ms = now_ms + c->host->send_ms;
    return false;
}

void conn_abort(struct conn *c)
{
    c->want = CONN_CLOSE;
}

void conn_fini(struct conn *c)
{
    c->want = CONN_CLOSE;
    if (c->flags & CONN_ASKED)
        c->host->forget(c->host->site, c);
    if (c->out && c->flags & (CONN_MORE | CONN_BODY) && c->proto->drop)
        c->proto->drop(c);
    while (has_output(c))
        segment_done(c, false);
    c->flags = CONN_CLOSING;
    stash_free(c);
    outbox_free(c);
}

bool conn_idle(const struct conn *c)
{
    return c->want == CONN_RECV && !c->stash && !(c->flags & (CONN_BEGUN | CONN_BODY));
}
