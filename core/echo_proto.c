/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* echo_proto.c - sends back what it receives: the smallest protocol, so that an engine's own cost
 * can be measured.
 *
 * One copy, from the bytes received to the send queue; nothing waits, nothing is refused.
 */
#include "conn.h"

static long echo_input(struct conn *c, const char *bytes, size_t n)
{
    size_t cap;
    char *space;

    if (!conn_room(c))
        return 0;
    space = conn_space(c, &cap);
    core_assert(n <= cap); /* n is one receive, and nothing waits to be sent */
    memcpy(space, bytes, n);
    conn_wrote(c, n, true);
    return (long)n;
}

const struct conn_proto echo_proto = {.name = "echo", .input = echo_input};
