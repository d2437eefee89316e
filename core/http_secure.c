/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* http_secure.c - plain HTTP where https is spoken: each request is answered with its own address
 * under https, and the connection ends.
 *
 * A request that does not say at which host it is aimed gets 400, and so does everything that is no
 * request.  Cost: one head parsed; no file is looked for.
 */
#include "http_inside.h"

/* A name has 253 characters at most (RFC 1035 2.3.4), and a port six with its colon. */
enum { AUTHORITY_BYTES_MAX = 260 };

static long input(struct conn *c, const char *bytes, size_t n)
{
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
            http_status_secure(&a, host);
            return used;
        }
    } else {
        head_forget(head);
    }
    used = used > 0 ? -400 : used;
    return http_reply_status(c, head, (unsigned)-used, false) ? -EINPROGRESS : (long)n;
}

const struct conn_proto http_secure_proto = {.name = "http", .input = input};
