/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* http_refused.c - a connection that is one too many for its client: its first request is answered
 * with 429 (RFC 6585 4), whatever it asks for, and the connection ends.
 *
 * The answer waits for the request, because a client that is still sending when its connection is
 * closed gets a reset, which may destroy the answer.  Cost: one head parsed; no file is looked for,
 * except a page of the site's own for that status.
 */
#include "http_inside.h"

static long input(struct conn *c, const char *bytes, size_t n)
{
    struct answer a = {.c = c, .retry_s = 1};
    struct http_head *head;
    long used;

    if (!conn_room(c))
        return 0;
    head = &((struct http_work *)conn_work(c))->head;
    used = http_parse_request(bytes, n, head);
    if (used == 0)
        return 0;
    if (used < 0)
        head_forget(head);
    a.head = head;
    (void)answer_aim(c, head);
    return http_status_write(&a, 429) ? -EINPROGRESS : (long)n;
}

const struct conn_proto http_refused_proto = {.name = "http", .input = input};
