/* SPDX-License-Identifier: MIT */
/* line.c - a session's socket as the core's pump sees it: receive, send, shut.
 *
 * A loop that pumps must not wait for the disk.  It asks whether the range of a file that comes
 * next is in memory, and has it read by a helper if it is not (fetch.c).
 */
#include <errno.h>
#include "../base/net.h"
#include "inside.h"

/* Nobody remembers whether the pump before left it set: each that sends sets it, once. */
static void line_cork(struct line *line)
{
    if (line->corks && !line->corked)
        net_cork(line->fd, true);
    line->corked = line->corks;
}

long line_recv(void *io, char *buf, size_t cap)
{
    struct line *line = io;
    long n;

    line_uncork(line);
    if (line->ahead) {
        n = line->ahead->n;
        if (n > 0)
            memcpy(buf, line->ahead->bytes, (size_t)n);
        line->ahead = NULL;
        return n;
    }
    n = net_recv(line->fd, buf, cap);
    ++*line->received;
    return n;
}

/* A range has to be read first: whether a helper does it.  Of a file system that does not tell
 * (-EOPNOTSUPP) this thread reads itself, unless a file server may be behind it. */
static bool fetches(struct line *line, const struct segment *range, long why)
{
    struct session *s = (struct session *)line->conn; /* its first member */
    struct fetch_range part = {range->off, range->len < TRANSFER_BYTES_MAX ? (size_t)range->len
                                                                           : TRANSFER_BYTES_MAX};

    if (why == -EOPNOTSUPP && !site_source_is_far(range->source)) {
        line->asks->untold = true;
        return false;
    }
    return fetch_ask(line->asks->fetch, s, range->source, &part);
}

static long send_file_part(struct line *line, const struct conn_out *out)
{
    const struct segment *range = &out->seg[out->count - 1];
    struct send_file file = {.fd = site_source_fd(range->source)};
    long n;

    file.asks = line->asks && !line->fetched &&
                (!line->asks->untold || site_source_is_far(range->source));
    line->fetched = false;
    n = sender_send(line->sender, line->fd, out, file);
    if (!file.asks || (n != -ENODATA && n != -EOPNOTSUPP))
        return n;
    if (fetches(line, range, n))
        return -EAGAIN;
    file.asks = false;
    return sender_send(line->sender, line->fd, out, file);
}

long line_send(void *io, const struct conn_out *out)
{
    struct line *line = io;

    line_cork(line);
    if (!out->seg[out->count - 1].bytes)
        return send_file_part(line, out);
    return sender_send(line->sender, line->fd, out, (struct send_file){.fd = -1});
}

void line_end(struct conn *c, int fd)
{
    if (conn_promised(c) && net_unread(fd) == 0)
        conn_abort(c);
    else
        net_shut(fd);
}

void line_shut(void *io)
{
    struct line *line = io;

    line_uncork(line);
    line_end(line->conn, line->fd);
}

const struct transport line_transport = {line_recv, line_send, line_shut};
