/* SPDX-License-Identifier: MIT */
/* proxy.c - the PROXY protocol: a connection begins with a header, and after it speaks another
 * protocol, as if the header had never been there.
 *
 * So no engine knows of the header, TLS begins after it, and a request costs nothing more.
 * A connection that begins with anything else is closed without an answer: it did not come through
 * the proxy.  The deadline of a head counts from the header's first byte.
 */
#include "../base/proxy_header.h"
#include "address_limits.h"
#include "client.h"

static const struct conn_proto *inner;

static long input(struct conn *c, const char *bytes, size_t n)
{
    const struct loop *l = c->host->ctx;
    struct server *srv = l->worker->server;
    int fd = session_of_conn(c)->fd;
    struct address source;
    long used = proxy_header_parse(bytes, n, &source);

    if (!used)
        return 0;
    if (used < 0 || !clients_tell(srv->clients, fd, &source)) {
        stats_add(srv->stats, STAT_UNPROXIED, 1);
        conn_close_after(c); /* nothing was sent, so this is at once */
        return (long)n;
    }
    c->proto = inner;
    if (!srv->limits)
        return used;
    if (limits_enter(srv, fd) == LIMITS_CLOSE)
        conn_close_after(c);
    c->proto = limits_protocol(srv->limits, fd, inner);
    return used;
}

const struct conn_proto *proxy_before(const struct conn_proto *next)
{
    static struct conn_proto proxied = {.input = input};

    inner = next;
    proxied.name = next->name;
    return &proxied;
}
