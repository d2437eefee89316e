/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* conn.c - the connection machine: bytes in, segments out, a deadline, and what is wanted next.
 *
 * Input is used in place; only left-over bytes are copied, to the input queue.  Every entry point
 * ends in advance(), the one place that decides what the connection wants.  advance() shows a
 * protocol the same bytes again only when more have arrived, and never while an answer is being
 * sent in pieces.
 *
 * Cost of the usual request: one send queue from the host, no input queue, no byte copied by the
 * machine.
 */
#include "conn_inside.h"

/* --- Memory ----------------------------------------------------------------------------------- */

static void inq_free(struct conn *c)
{
    if (c->in)
        c->host->free(c->host->ctx, c->in, sizeof(*c->in));
    c->in = NULL;
}

/* Without memory there is no place for the peer's bytes: queued output is sent, then the connection
 * ends. */
static bool inq_get(struct conn *c)
{
    if (c->in)
        return true;
    c->in = c->host->alloc(c->host->ctx, sizeof(*c->in));
    if (!c->in) {
        c->flags |= CONN_CLOSING;
        return false;
    }
    c->in->at = c->in->len = c->in->seen = 0;
    return true;
}

/* Append to the input queue.  A partial message that waits is at most HEAD_BYTES_MAX long (see
 * eat()), so one receive always fits behind it. */
static bool inq_add(struct conn *c, const char *bytes, size_t n)
{
    struct inq *s;

    if (!inq_get(c))
        return false;
    s = c->in;
    if (s->at + s->len + n > INQ_BYTES) {
        memmove(s->bytes, s->bytes + s->at, s->len);
        s->at = 0;
    }
    memcpy(s->bytes + s->at + s->len, bytes, n);
    s->len += (uint32_t)n;
    return true;
}

/* --- What comes next -------------------------------------------------------------------------- */

/* The bytes to show the protocol: the caller's, or the input queue's. */
struct view {
    const char *bytes;
    size_t n, seen;
};

/* Lets the protocol use what it can.  Its input() is not called while it has an answer to continue,
 * has no room for another or waits for the host, and never twice for the same bytes. */
static void eat(struct conn *c, struct view *v)
{
    bool was_body;
    long used;

    while (v->n > v->seen && !(c->flags & (CONN_CLOSING | CONN_MORE | CONN_BLOCKED)) &&
           outq_has_room(c)) {
        was_body = c->flags & CONN_BODY;
        if (c->out && !was_body)
            c->out->state_clean = false; /* a new message */
        used = c->proto->input(c, v->bytes, v->n);
        if (used == -EINPROGRESS) {
            c->flags |= CONN_ASKED | CONN_BLOCKED;
            return;
        }
        core_assert(used >= 0 && (size_t)used <= v->n);
        if (used)
            c->flags &= ~CONN_ASKED; /* it went on, so it has taken the host's result */
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

/* Feeds the protocol from the input queue, or from bytes if there is no input queue; left-over
 * bytes are in the input queue afterwards. */
static void eat_all(struct conn *c, const char *bytes, size_t n)
{
    struct inq *s = c->in;
    struct view v = {bytes, n, 0};

    if (s)
        v = (struct view){s->bytes + s->at, s->len, s->seen};
    eat(c, &v);
    if (c->flags & CONN_CLOSING || !v.n) {
        c->promised = c->promised && !v.n;
        inq_free(c);
        return;
    }
    if (s) {
        s->at += s->len - (uint32_t)v.n;
        s->len = (uint32_t)v.n;
    } else if (!inq_add(c, v.bytes, v.n)) {
        return;
    }
    c->in->seen = (uint32_t)v.seen;
}

/* Gives up the answer in progress and all queued output; the host and the protocol are notified. */
static void let_go(struct conn *c)
{
    if (c->flags & CONN_ASKED)
        c->host->forget(c->host->ctx, c);
    if (c->out && c->flags & (CONN_MORE | CONN_BODY) && c->proto->drop)
        c->proto->drop(c);
    while (outq_has_output(c))
        outq_drop_first(c, false);
    c->flags &= ~(CONN_ASKED | CONN_BLOCKED | CONN_MORE | CONN_BODY);
    inq_free(c);
    outq_free(c);
}

/* All output is sent.  RFC 9112 9.6: closing at once while input is unread, or before the peer has
 * read the answer, makes the kernel send a reset, which destroys the answer.  Whether input is on
 * its way cannot be known, so the connection waits for the end of the peer's stream, for LINGER_MS
 * at most.  If that end has been seen, or nothing was ever sent, there is nothing to protect.  If
 * the peer has promised to send nothing more, the caller need not wait either: conn_promised(). */
static void finish(struct conn *c, uint64_t now_ms)
{
    c->promised = c->promised && !c->in;
    let_go(c);
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

/* The protocol knows when this connection's time is up. */
static void want_recv_until(struct conn *c, bool begun, uint64_t due_ms)
{
    c->flags = begun ? c->flags | CONN_BEGUN : c->flags & ~CONN_BEGUN;
    c->deadline_ms = due_ms;
}

/* was_body: the previous input was of a body too.  Deadlines that already run are left alone. */
static void want_recv(struct conn *c, bool was_body, uint64_t now_ms)
{
    bool stays = c->want == CONN_RECV, begun = stays || c->in;
    uint64_t due_ms = 0;

    c->want = CONN_RECV;
    if (c->flags & CONN_BODY) {
        if (stays && was_body)
            return;
        c->moved = 0;
        c->deadline_ms = now_ms + c->host->send_ms;
        return;
    }
    if (c->proto->begun) {
        begun = c->proto->begun(c);
        due_ms = c->proto->due ? c->proto->due(c, now_ms) : 0;
    }
    if (due_ms) {
        want_recv_until(c, begun, due_ms);
    } else if (begun) {
        if (!(c->flags & CONN_BEGUN))
            c->deadline_ms = now_ms + c->host->head_ms;
        c->flags |= CONN_BEGUN;
    } else if (!stays || c->flags & CONN_BEGUN) { /* otherwise nothing has changed */
        c->flags &= ~CONN_BEGUN;
        c->deadline_ms = now_ms + c->host->idle_ms;
    }
}

/* Makes pieces of the answer in progress, until there is one to send. */
static void say_more(struct conn *c)
{
    for (outq_reap(c); c->flags & CONN_MORE && !outq_has_output(c); outq_reap(c)) {
        if (c->flags & CONN_BLOCKED || c->want == CONN_CLOSE)
            return;
        c->proto->more(c);
        if (outq_has_output(c) || (c->flags & (CONN_MORE | CONN_BLOCKED)) != CONN_MORE ||
            c->want == CONN_CLOSE)
            continue;
        core_failed("more() queues or ends", __FILE__, __LINE__);
        c->flags |= CONN_CLOSING;
        return;
    }
}

static void advance(struct conn *c, const char *bytes, size_t n, uint64_t now_ms)
{
    bool was_body = c->flags & CONN_BODY;

    do {
        eat_all(c, bytes, n);
        n = 0; /* left-over bytes are in the input queue now */
        say_more(c);
    } while (!outq_has_output(c) && c->in && c->in->len > c->in->seen &&
             !(c->flags & (CONN_CLOSING | CONN_BLOCKED)) && c->want != CONN_CLOSE);

    if (c->want == CONN_CLOSE)
        return;
    if (outq_has_output(c)) {
        want_send(c, now_ms);
        return;
    }
    if (!(c->flags & (CONN_MORE | CONN_BODY)))
        outq_free(c);
    if (c->flags & CONN_CLOSING) {
        finish(c, now_ms);
    } else if (c->flags & CONN_BLOCKED) {
        c->want = CONN_WAIT;
        c->deadline_ms = now_ms + c->host->send_ms;
    } else {
        want_recv(c, was_body, now_ms);
    }
}

/* --- The world's side ------------------------------------------------------------------------- */

void conn_init(struct conn *c, const struct conn_proto *proto, const struct conn_host *host,
               uint64_t now_ms)
{
    *c = (struct conn){.proto = proto, .host = host, .want = CONN_RECV};
    c->deadline_ms = now_ms + host->head_ms;
}

static void feed_end(struct conn *c)
{
    c->flags |= CONN_ENDED;
    if (c->proto->end)
        c->proto->end(c, c->in ? c->in->len : 0);
    c->flags |= CONN_CLOSING;
}

/* Input that is discarded, or that a duplex connection takes while it sends. */
static void feed_aside(struct conn *c, const char *bytes, size_t n, uint64_t now_ms)
{
    long used = 0;

    if (c->want == CONN_LINGER) {
        c->moved += (uint32_t)n;
        if (!n || c->moved > LINGER_BYTES_MAX)
            c->want = CONN_CLOSE;
        return;
    }
    core_assert(c->duplex && !c->in);
    if (!conn_glances(c))
        return; /* it closes: this was received while it still wanted to receive */
    if (n)
        used = c->proto->input(c, bytes, n);
    else
        feed_end(c);
    core_assert(used >= 0 && (size_t)used <= n);
    if ((size_t)used < n && !(c->flags & CONN_CLOSING))
        inq_add(c, bytes + used, n - (size_t)used);
    advance(c, NULL, 0, now_ms);
}

void conn_feed(struct conn *c, const char *bytes, size_t n, uint64_t now_ms)
{
    core_assert(n <= RECV_BYTES_MAX);
    if (c->want != CONN_RECV) {
        feed_aside(c, bytes, n, now_ms);
        return;
    }
    if (!n) {
        feed_end(c);
    } else if (c->in) {
        inq_add(c, bytes, n); /* eat_all() reads them there */
    }
    advance(c, bytes, n, now_ms);
}

void conn_sent(struct conn *c, size_t n, uint64_t now_ms)
{
    uint32_t behind;

    core_assert(c->want == CONN_SEND && n);
    c->sent += n;
    outq_take(c, n);
    if (outq_has_output(c)) {
        /* The mark of conn_overdue() is half a counter: do not let it fall further behind than that
         * half can tell.  The mark may be ahead, too, where the transport adds bytes of its own
         * that the peer acknowledges (records that the kernel makes). */
        behind = (uint32_t)c->sent - c->moved;
        if (behind > 1u << 30 && behind < 3u << 30) {
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

bool conn_asks_again(const struct conn *c)
{
    return c->flags & CONN_ASKED;
}

void conn_kick(struct conn *c, uint64_t now_ms)
{
    c->flags &= ~CONN_BLOCKED;
    c->flags |= CONN_MORE;
    if (c->want == CONN_WAIT || c->want == CONN_RECV)
        advance(c, NULL, 0, now_ms);
}

bool conn_glances(const struct conn *c)
{
    return c->duplex && c->want == CONN_SEND && !c->in &&
           !(c->flags & (CONN_CLOSING | CONN_ENDED));
}

bool conn_leave(struct conn *c, uint64_t now_ms)
{
    if (!c->proto->leave || !conn_idle(c))
        return false;
    c->proto->leave(c);
    advance(c, NULL, 0, now_ms);
    return c->want == CONN_SEND;
}

/* While sending, conn->moved is the low half of the bytes that the peer had at the last deadline;
 * at first, of all bytes sent before.  If the peer has fewer than that, earlier answers were still
 * on their way when this one began.  How much it has taken since is not known, so it gets another
 * window. */
static bool has_progress(struct conn *c, uint64_t acked)
{
    uint32_t grown;

    switch (c->want) {
    case CONN_RECV:
        grown = c->moved;
        c->moved = 0;
        return c->owes || (c->flags & CONN_BODY && grown >= c->host->progress_bytes);
    case CONN_SEND:
        grown = (uint32_t)acked - c->moved;
        c->moved = (uint32_t)acked;
        return grown >= c->host->progress_bytes; /* "fewer" wraps round to a large number */
    case CONN_WAIT:
        return true; /* the delay is the host's, not the peer's */
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

bool conn_spoken(struct conn *c, uint64_t now_ms)
{
    if (!conn_idle(c))
        return false;
    c->flags |= CONN_BEGUN;
    c->deadline_ms = now_ms + c->host->head_ms;
    return true;
}

void conn_abort(struct conn *c)
{
    c->want = CONN_CLOSE;
}

void conn_fail(struct conn *c)
{
    core_assert(c->flags & CONN_MORE);
    c->flags |= CONN_BLOCKED; /* for ever: the rest of the answer will not be made */
    conn_abort(c);
}

/* An answer that waits for its next piece has nothing queued, so no other abort than conn_fail()
 * finds both flags: sending and receiving fail only where something is sent or received. */
bool conn_unfinished(const struct conn *c)
{
    const unsigned both = CONN_MORE | CONN_BLOCKED;

    return c->want == CONN_SEND || (c->flags & both) == both;
}

void conn_fini(struct conn *c)
{
    let_go(c);
    if (c->proto->fini)
        c->proto->fini(c);
    c->want = CONN_CLOSE;
}

bool conn_shuts(struct conn *c)
{
    if (c->want != CONN_LINGER || c->flags & CONN_SHUT)
        return false;
    c->flags |= CONN_SHUT;
    return !c->stays_open;
}

bool conn_promised(const struct conn *c)
{
    return c->promised;
}

bool conn_idle(const struct conn *c)
{
    return c->want == CONN_RECV && !c->in && !(c->flags & (CONN_BEGUN | CONN_BODY));
}
