/* SPDX-License-Identifier: MIT */
/* tls.c - TLS as a protocol: records outside, a connection of its own inside.
 *
 * In: received bytes go to the layer where they are, and the bytes that it decrypts are fed to the
 * inner connection.  That stops as soon as the inner connection wants to send, and the rest of the
 * ciphertext waits in the outer input queue, as pipelined requests do.  Out: up to 16 KiB of the
 * inner output become a record in the outer send queue.  When the outer queue is empty, the inner
 * connection learns that its bytes are sent: so answers end, and times begin, when the kernel has
 * the bytes, and a slow client holds one queue's worth of records.
 *
 * The state of a connection hangs on conn->proto: a copy of tls_proto in a struct of its own, made
 * at the first byte.  So connections of servers without TLS are no larger, and with the engine fork
 * the child makes that struct.
 *
 * Or the kernel makes the records, beginning with an answer that has a large file (tls_kernel.h).
 * The outer queue must be empty then: every engine reports bytes as sent when the socket has them,
 * so what was encrypted here is before what the kernel encrypts.  From then on the outer connection
 * shows the segments of the inner one as they are.  The layer still decrypts what is received, but
 * everything that it would send is dropped.
 *
 * An answer that cannot be finished ends without close_notify and by a reset; a request that ends
 * without close_notify may have been cut short by anyone, and is not answered.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include "../base/net.h"
#include "client.h"
#include "tls_inside.h"

enum { HANDSHAKE = 0x16, RECORD_HEAD_BYTES = 5 };

/* NULL: no byte has come yet. */
static struct tls *tls_of(const struct conn *c)
{
    if (c->proto == &tls_proto)
        return NULL;
    return (struct tls *)(uintptr_t)((const char *)c->proto - offsetof(struct tls, proto));
}

/* The connection around that one which speaks TLS, or NULL. */
static struct tls *tls_around(const struct conn *c)
{
    while (c->nested) {
        c = ((const struct nested *)c)->outer;
        if (c->proto->name == tls_proto.name)
            return tls_of(c);
    }
    return NULL;
}

const char *tls_name(const struct conn *c)
{
    const struct tls *t = tls_around(c);

    return t && t->setup->layer->name ? t->setup->layer->name(t->link) : NULL;
}

bool tls_covers(const struct conn *c, const char *name)
{
    const struct tls *t = tls_around(c);

    return !t || !t->setup->layer->covers || t->setup->layer->covers(t->link, name);
}

/* --- Output ----------------------------------------------------------------------------------- */

static struct tls_io io_open(struct conn *c, const char *in, size_t in_len)
{
    struct tls_io io = {.in = in, .in_len = in_len};

    io.out = conn_space(c, &io.out_cap);
    return io;
}

static void io_close(struct conn *c, const struct tls *t, const struct tls_io *io)
{
    if (io->out_len && !t->by_kernel)
        conn_wrote(c, io->out_len, false);
}

struct piece {
    const char *bytes;
    long n; /* 0: all is said; or an error of part_read(), -ENODATA for its 0 */
};

/* The next piece of the inner output: where it lies, or gathered in the loop's memory. */
static struct piece gather(struct conn *c, const struct tls *t, size_t cap, bool alone)
{
    struct conn_out out = conn_out(&t->nested.conn);
    char *plain = tls_loop(c)->plain;
    size_t skip = t->said, have = 0;

    for (unsigned i = 0; i < out.count && have < cap; i++) {
        struct segment s = out.seg[i];
        size_t part;
        long n;

        if (skip >= s.len) {
            skip -= (size_t)s.len;
            continue;
        }
        s.off += skip;
        s.len -= skip;
        part = s.len < cap - have ? (size_t)s.len : cap - have;
        if (s.bytes && !have && (part == cap || i + 1 == out.count))
            return (struct piece){s.bytes + skip, (long)part};
        n = (long)part;
        if (s.bytes)
            memcpy(plain + have, s.bytes + skip, part);
        else
            n = part_read(c, &s, (struct iovec){plain + have, part}, alone && !have);
        if (n <= 0)
            return (struct piece){plain, have ? (long)have : n ? n : -ENODATA};
        have += (size_t)n;
        skip = 0;
    }
    return (struct piece){plain, (long)have};
}

/* Whether the inner connection shows bytes of which no record has been made. */
static bool has_left(const struct conn *in, const struct tls *t)
{
    struct conn_out out = conn_out(in);
    uint64_t shown = 0;

    for (unsigned i = 0; i < out.count; i++)
        shown += out.seg[i].len;
    return t->said < shown;
}

/* Makes records of the inner output while there is room for them. */
static void speak(struct conn *c, struct tls *t)
{
    struct conn *in = tls_inner(c, t);

    conn_follows(c, false);

    if (t->setup->kernel && tls_by_kernel(c, t)) {
        tls_lend(c, t);
        return;
    }

    while (in->want == CONN_SEND && !t->failed) {
        struct tls_io io = io_open(c, NULL, 0);
        size_t cap = io.out_cap > TLS_RECORD_EXTRA ? io.out_cap - TLS_RECORD_EXTRA : 0;
        struct piece piece;

        if (cap < TLS_PIECE_BYTES) {
            conn_follows(c, has_left(in, t));
            return;
        }
        piece = gather(c, t, cap < TLS_RECORD_BYTES ? cap : TLS_RECORD_BYTES,
                       io.out_cap == OUTQ_BYTES);
        if (piece.n == 0 || piece.n == -EAGAIN)
            return;
        t->failed = piece.n < 0 || !t->setup->layer->speak(t->link, &io, piece.bytes,
                                                           (size_t)piece.n);
        io_close(c, t, &io);
        t->said += t->failed ? 0 : (size_t)piece.n;
    }
}

/* --- What comes next -------------------------------------------------------------------------- */

/* Nothing more is said: close_notify, and the outer connection closes when that is sent. */
static void finish(struct conn *c, struct tls *t)
{
    struct tls_io io = io_open(c, NULL, 0);

    if (t->by_kernel)
        tls_say_last(c, t);
    else if (!t->over && t->setup->layer->done(t->link))
        t->setup->layer->shut(t->link, &io);
    io_close(c, t, &io);
    t->over = t->ended = true;
    conn_more(c, false);
    conn_in_body(c, false);
    conn_close_after(c);
}

/* Whether the inner connection takes what is decrypted next. */
static bool takes(const struct conn *in)
{
    return in->want == CONN_RECV || conn_glances(in);
}

/* Sets what the outer connection wants, by the inner one's want. */
static void settle(struct conn *c, struct tls *t)
{
    struct conn *in = tls_inner(c, t);
    size_t cap;

    (void)conn_space(c, &cap);
    if (in->want == CONN_CLOSE && conn_unfinished(in))
        t->failed = true;
    conn_in_body(c, conn_reads_body(in));
    conn_owes(c, in->owes);
    conn_more(c, true);
    if (t->failed) {
        if (cap == OUTQ_BYTES) /* what was encrypted before is sent first */
            conn_fail(c);
    } else if (in->want == CONN_LINGER || in->want == CONN_CLOSE) {
        finish(c, t);
    } else if (in->want == CONN_RECV) {
        conn_more(c, t->blocked);
    } else {
        conn_wait(c); /* has no effect while records wait to be sent */
    }
}

/* --- Input ------------------------------------------------------------------------------------ */

/* Follows the heads of the records that were used. */
static void count_records(struct tls *t, const char *bytes, size_t n)
{
    while (n) {
        size_t part = 1;

        if (t->head < RECORD_HEAD_BYTES) {
            t->left = (uint16_t)(t->left << 8 | (unsigned char)*bytes); /* of five, the last two */
            t->head++;
        } else {
            part = n < t->left ? n : t->left;
            t->left -= (uint16_t)part;
        }
        bytes += part;
        n -= part;
        if (t->head == RECORD_HEAD_BYTES && !t->left)
            t->head = 0;
    }
}

/* The handshake has settled what is spoken inside, and nothing has been heard yet. */
static void choose(struct conn *c, struct tls *t)
{
    struct conn *in = tls_inner(c, t);

    if (t->chosen)
        return;
    t->chosen = true;
    if (t->setup->h2 && t->setup->layer->h2(t->link)) {
        in->proto = t->setup->h2;
        conn_duplex(c);
    }
}

/* The client's certificate has ended the handshake (--tls-client-ca). */
static void report(struct conn *c, const struct tls *t)
{
    static const struct http_head none; /* no request has come: the address is the connection's */
    char why[TLS_FAULT_TEXT], peer[NET_ADDRESS_TEXT], and[64] = "";
    unsigned long long more;

    if (!t->setup->layer->fault || !t->setup->layer->fault(t->link, why, &more))
        return;
    client_text(tls_loop(c)->worker->server->clients, session_of_conn(c)->fd, &none, peer);
    if (more)
        snprintf(and, sizeof(and), ", and %llu more since the last such line", more);
    say("client %s was refused%s: %s", peer, and, why);
}

/* RFC 8446 4.6.3: a peer that asks for new keys gets no more data with the old ones, and the kernel
 * keeps those.  So the connection ends, and the peer asks again in another. */
static bool ends_for_keys(const struct tls *t)
{
    return t->by_kernel && t->setup->layer->rekeys(t->link);
}

/* Lets the layer use bytes until the inner connection wants something else.  Returns how many. */
static size_t hear(struct conn *c, struct tls *t, const char *bytes, size_t n)
{
    struct loop *l = tls_loop(c);
    struct conn *in = tls_inner(c, t);
    struct tls_io io = io_open(c, bytes, n);
    size_t from = n;
    long got = 1;

    while (takes(in) && got > 0 && !ends_for_keys(t)) {
        got = t->setup->layer->hear(t->link, &io, l->plain);
        if (got > 0 && !ends_for_keys(t)) {
            t->barren = 0;
            choose(c, t);
            from = io.in_len;
            conn_feed(in, l->plain, (size_t)got, l->now_ms);
        }
    }
    if (got == TLS_FAILED)
        report(c, t);
    io_close(c, t, &io);
    n -= io.in_len;
    count_records(t, bytes, n);
    t->barren += (uint32_t)(from - io.in_len);
    t->blocked = got == TLS_FULL;
    if (got == TLS_ENDED && takes(in))
        conn_feed(in, NULL, 0, l->now_ms);
    if (got == TLS_FAILED || t->barren > TLS_BARREN_BYTES_MAX) {
        t->over = true;
        conn_abort(in);
    } else if (ends_for_keys(t)) {
        conn_abort(in);
    }
    return n;
}

static struct tls *begin(struct conn *c)
{
    struct loop *l = tls_loop(c);
    const struct tls_setup *setup = l->worker->server->tls;
    struct tls *t = c->host->alloc(c->host->ctx, sizeof(*t));

    if (!t)
        return NULL;
    *t = (struct tls){.proto = tls_proto, .setup = setup};
    t->link = setup->layer->begin(setup->store);
    if (!t->link) {
        c->host->free(c->host->ctx, t, sizeof(*t));
        return NULL;
    }
    conn_init(&t->nested.conn, setup->inner, c->host, l->now_ms);
    t->nested.conn.nested = true;
    t->nested.outer = c;
    c->proto = &t->proto;
    return t;
}

static long tls_input(struct conn *c, const char *bytes, size_t n)
{
    struct tls *t = tls_of(c);
    size_t used;

    if (!t && (*bytes != HANDSHAKE ||
               is_redirected(tls_loop(c)->worker->server, session_of_conn(c)->fd))) {
        c->proto = &http_secure_proto;
        return c->proto->input(c, bytes, n);
    }
    if (!conn_queue(c))
        return 0;
    t = t ? t : begin(c);
    if (!t) {
        conn_close_after(c);
        return (long)n;
    }
    used = hear(c, t, bytes, n);
    speak(c, t);
    settle(c, t);
    return (long)used;
}

static void tls_more(struct conn *c)
{
    struct tls *t = tls_of(c);
    struct conn *in = tls_inner(c, t);
    size_t said = t->said;

    if (!conn_queue(c)) { /* it was woken while it wanted to receive, and had none */
        conn_more(c, false);
        return;
    }
    t->said = 0;
    if (said)
        conn_sent(in, said, tls_loop(c)->now_ms);
    else if (in->duplex) /* it was waiting for a disk, or something inside it has been made */
        conn_kick(in, tls_loop(c)->now_ms);
    if (t->blocked)
        hear(c, t, NULL, 0);
    speak(c, t);
    settle(c, t);
}

/* The stream ends without close_notify. */
static void tls_end(struct conn *c, size_t unused)
{
    struct tls *t = tls_of(c);
    struct conn *in = t ? tls_inner(c, t) : NULL;

    (void)unused;
    if (!t || !conn_queue(c))
        return;
    if (conn_idle(in)) {
        conn_feed(in, NULL, 0, tls_loop(c)->now_ms);
    } else {
        t->over = true;
        conn_abort(in);
    }
    settle(c, t);
}

static bool tls_begun(const struct conn *c)
{
    const struct tls *t = tls_of(c);

    return !t || t->head || !conn_idle(&t->nested.conn) || !t->setup->layer->done(t->link);
}

static uint64_t tls_due(struct conn *c, uint64_t now_ms)
{
    struct tls *t = tls_of(c);

    (void)now_ms;
    return t && t->nested.conn.duplex ? t->nested.conn.deadline_ms : 0;
}

static void tls_leave(struct conn *c)
{
    struct tls *t = tls_of(c);

    if (!t || !conn_leave(tls_inner(c, t), tls_loop(c)->now_ms) || !conn_queue(c))
        return;
    speak(c, t);
    conn_abort(tls_inner(c, t));
    finish(c, t);
}

static void tls_fini(struct conn *c)
{
    struct tls *t = tls_of(c);

    if (!t)
        return;
    if (t->by_kernel)
        tls_end_lent(c, t);
    conn_fini(tls_inner(c, t));
    t->setup->layer->end(t->link);
    c->proto = &tls_proto;
    c->host->free(c->host->ctx, t, sizeof(*t));
}

const struct conn_proto tls_proto = {
    .name = "https",
    .input = tls_input,
    .more = tls_more,
    .end = tls_end,
    .begun = tls_begun,
    .fini = tls_fini,
    .due = tls_due,
    .leave = tls_leave,
};
