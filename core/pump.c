/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* pump.c - moves a connection's bytes for every caller with synchronous recv and send.
 *
 * The usual request costs one receive and one send: where readiness is level-triggered (or the
 * transport blocks) a receive that did not fill the buffer has drained the socket, and another
 * receive would only return -EAGAIN.  Edge-triggered readiness is reported once, so such callers
 * read until -EAGAIN.
 */
#include "conn_inside.h"

static void pulled(struct conn *c, struct pump *p, long n, uint64_t now_ms)
{
    if (n >= 0)
        conn_feed(c, p->scratch, (size_t)n, now_ms);
    else if (n != -EAGAIN)
        conn_abort(c);
}

/* One receive.  Bytes moved, 0 at the end of the stream, or -EAGAIN: nothing is there. */
static long pull(struct conn *c, struct pump *p, uint64_t now_ms)
{
    long n = p->transport->recv(p->io, p->scratch, p->recv_bytes);

    pulled(c, p, n, now_ms);
    return n;
}

/* Between two sends of a duplex connection: what its peer has said meanwhile. */
static void glance(struct conn *c, struct pump *p, uint64_t now_ms)
{
    if (conn_glances(c))
        pulled(c, p, p->transport->recv(p->io, p->scratch, p->recv_bytes), now_ms);
}

/* One send.  Bytes moved, or -EAGAIN: the socket is full.  A file that has become shorter than the
 * head says gives 0; only the end of the connection can tell the client. */
static long push(struct conn *c, struct pump *p, uint64_t now_ms)
{
    struct conn_out out = conn_out(c);
    long n = p->transport->send(p->io, &out);

    if (n > 0)
        conn_sent(c, (size_t)n, now_ms);
    else if (n != -EAGAIN)
        conn_abort(c);
    if (c->duplex)
        glance(c, p, now_ms);
    return n;
}

enum conn_want conn_pump(struct conn *c, struct pump *p, uint64_t now_ms)
{
    long budget = PUMP_BYTES_MAX, n = 0;
    unsigned calls = 0;
    bool drained = false;

    p->more = false;
    while (n != -EAGAIN) {
        if (conn_shuts(c))
            p->transport->shut(p->io);
        if (c->want == CONN_WAIT || c->want == CONN_CLOSE || (drained && c->want != CONN_SEND))
            break;
        if (budget <= 0 || calls++ == PUMP_CALLS_MAX) {
            p->more = true;
            break;
        }
        if (c->want == CONN_SEND) {
            n = push(c, p, now_ms);
        } else {
            n = pull(c, p, now_ms);
            drained = !p->edge && n < (long)p->recv_bytes;
        }
        budget -= n > 0 ? n : 0;
    }
    return (enum conn_want)c->want;
}
