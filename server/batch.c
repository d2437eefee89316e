/* SPDX-License-Identifier: MIT */
/* batch.c - requests of several sessions are received before the first of them is answered.
 *
 * The cache looks for changes between a receive and the answer: one ioctl().  Up to BATCH_MAX
 * sessions that are ready in one turn are received first, and then one look serves all of them.
 * session_pump() then receives these bytes before any others.
 *
 * Only the first bytes of a request are taken, BATCH_BYTES at most; the pump receives the rest,
 * and bodies, by itself.
 */
#include <errno.h>
#include <stdlib.h>
#include "../base/net.h"
#include "inside.h"

bool session_receive(struct loop *l, struct session *s)
{
    struct batch *b = l->batch;
    struct received *in;

    if (!l->cache || !conn_idle(&s->conn))
        return false;
    if (!b)
        b = l->batch = malloc(sizeof(*b)); /* without it each is pumped by itself */
    if (!b)
        return false;
    if (l->batched == 0)
        b->next = 0;
    in = &b->in[l->batched++];
    in->session = s;
    in->n = net_recv(s->fd, in->bytes, BATCH_BYTES);
    return true;
}

struct session *session_received(struct loop *l)
{
    struct batch *b = l->batch;

    if (l->batched == 0)
        return NULL;
    if (b->next == l->batched) {
        l->batched = 0;
        return NULL;
    }
    if (b->next == 0)
        loop_received(l);
    l->ahead = &b->in[b->next++];
    return l->ahead->session;
}
