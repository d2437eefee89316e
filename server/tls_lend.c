/* SPDX-License-Identifier: MIT */
/* tls_lend.c - output that the kernel encrypts: the outer connection shows the segments of the
 * inner one as they are, memory and files, and reports them as sent when all of them have been
 * sent.
 *
 * The kernel begins when the outer queue is empty.  Every engine reports bytes as sent when the
 * socket has them, so what the layer encrypted is before what the kernel encrypts, and nothing is
 * encrypted twice or not at all.
 */
#include <string.h>
#include "tls_inside.h"

/* Whether the kernel should make the next record and all that follow.  Bytes that
 * a helper has read for a record must be used first. */
static bool pays(struct conn *c, const struct tls *t)
{
    struct conn_out out = conn_out(&t->nested.conn);
    const struct segment *last = &out.seg[out.count - 1];
    size_t cap;

    (void)conn_space(c, &cap);
    if (cap != OUTQ_BYTES || t->said || t->blocked || t->nested.conn.duplex ||
        session_of_conn(c)->fetch)
        return false;
    return t->setup->kernel_always || (!last->bytes && last->len >= TLS_KERNEL_BYTES_MIN);
}

/* Gives the kernel the key.  If it does not take it, the layer has lost nothing. */
static bool give_key(const struct conn *c, struct tls *t)
{
    const struct session *s = session_of_conn(c);
    struct stats *stats = tls_loop(c)->worker->server->stats;
    struct tls_keys keys;

    if (!t->setup->layer->keys(t->link, &keys))
        return false;
    t->by_kernel = t->setup->kernel->take(s->fd, &keys, &t->given) == 0;
    explicit_bzero(&keys, sizeof(keys));
    stats_add(stats, t->by_kernel ? STAT_TLS_KERNEL : STAT_TLS_KERNEL_REFUSED, 1);
    t->given_at = c->sent;
    return t->by_kernel;
}

bool tls_by_kernel(struct conn *c, struct tls *t)
{
    if (t->by_kernel || t->asked || t->nested.conn.want != CONN_SEND)
        return t->by_kernel;
    if (!pays(c, t))
        return false;
    t->asked = true;
    return give_key(c, t);
}

/* Shows the inner output as it is. */
void tls_lend(struct conn *c, struct tls *t)
{
    struct conn_out out = conn_out(tls_inner(c, t));

    if (t->said)
        return;
    t->lent_at = c->sent;
    for (unsigned i = 0; i < out.count; i++) {
        conn_lend_segment(c, &out.seg[i]);
        t->said += (size_t)out.seg[i].len;
    }
}

/* close_notify, after everything that the socket was given. */
void tls_say_last(struct conn *c, struct tls *t)
{
    struct tls_last last = {.fd = session_of_conn(c)->fd,
                            .given = t->given,
                            .says_end = !t->over,
                            .send_ms = c->host->send_ms,
                            .progress_bytes = c->host->progress_bytes};

    last.given.plain = c->sent - t->given_at;
    if (!t->setup->kernel->end(&last))
        conn_stays_open(c);
}

/* Reports to the inner connection, which counts them, how many bytes of its segments were sent.  An
 * idle connection that closes may have bytes that TCP does not have yet. */
void tls_end_lent(struct conn *c, struct tls *t)
{
    struct conn *in = tls_inner(c, t);
    uint64_t part = c->sent - t->lent_at;

    if (t->said && part && part < t->said && in->want == CONN_SEND)
        conn_sent(in, (size_t)part, tls_loop(c)->now_ms);
    if (!t->ended && c->want == CONN_RECV) {
        t->over = true;
        tls_say_last(c, t);
    }
}
