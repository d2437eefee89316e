/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* http_secure.c - plain HTTP for a server that speaks https: each request is answered with its own
 * address under https, and the connection ends.
 *
 * A request that does not say at which host it is aimed gets 400, and so does everything that is no
 * request.  Cost: one head parsed; no file is looked for.
 */
#include "http_inside.h"

/* A name has 253 characters at most (RFC 1035 2.3.4), and a port six with its colon. */
enum { PORT_BYTES_MAX = 6, AUTHORITY_BYTES_MAX = 254 + PORT_BYTES_MAX };

/* The digits behind the name's colon; 0: there are none.  The parser has checked them. */
static unsigned port_of(struct slice authority, size_t name_len)
{
    unsigned port = 0;
    size_t i;

    for (i = name_len + 1; i < authority.len; i++)
        port = port * 10 + (unsigned)(authority.ptr[i] - '0');
    return port;
}

/* The authority of the same host under https, in buf if its port is another. */
static struct slice https_of(const struct conn *c, struct slice host,
                             char buf[AUTHORITY_BYTES_MAX + PORT_BYTES_MAX])
{
    const struct http_host *h = http_host_of(c);
    struct text t = {buf, buf + AUTHORITY_BYTES_MAX + PORT_BYTES_MAX};
    size_t name_len = authority_name_len(host);
    unsigned port = port_of(host, name_len);

    port = h->https_port ? h->https_port(h->conn.ctx, c, port) : 0;
    if (!port)
        return host;
    text_put(&t, host.ptr, name_len);
    if (port != HTTPS_PORT) {
        TEXT_LITERAL(&t, ":");
        text_number(&t, port);
    }
    return (struct slice){buf, (size_t)(t.at - buf)};
}

static long input(struct conn *c, const char *bytes, size_t n)
{
    char authority[AUTHORITY_BYTES_MAX + PORT_BYTES_MAX];
    struct answer a = {.c = c};
    struct http_head *head;
    struct slice host;
    long used;

    if (!conn_room(c))
        return 0;
    head = &((struct http_work *)conn_work(c))->head;
    used = http_parse_request(bytes, n, head);
    if (used == 0)
        return 0;
    a.head = head;
    if (used > 0) {
        host = http_field(head, FIELD_HOST);
        if (host.len && host.len <= AUTHORITY_BYTES_MAX) {
            (void)answer_aim(c, head); /* whose fields the redirect has */
            http_status_secure(&a, https_of(c, host, authority));
            return used;
        }
    } else {
        head_forget(head);
    }
    used = used > 0 ? -400 : used;
    return http_reply_status(c, head, (unsigned)-used, false) ? -EINPROGRESS : (long)n;
}

const struct conn_proto http_secure_proto = {.name = "http", .input = input};
