/* SPDX-License-Identifier: MIT */
/* line.c - a session's socket as the core's pump sees it: receive, send, shut.
 *
 * A loop that pumps must not wait for the disk.  It checks whether the range of a file that comes
 * next is in memory, and lets a helper (fetch.c) read the range if not.
 */
#include <errno.h>
#include "../base/net.h"
#include "inside.h"

/* Nothing remembers whether the previous pump left the cork set, so each pump that sends sets it
 * once. */
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

/* Sends bytes that a helper has read: from the job, or from the page cache. */
static long send_fetched(struct line *line, struct session *s, const struct segment *range)
{
    struct iovec bytes;
    long n = fetch_take(s);

    if (n <= 0)
        return n;
    bytes = fetch_bytes(s, range->off);
    if (!bytes.iov_base)
        return sender_send(line->sender, line->fd, &(struct conn_out){.seg = range, .count = 1},
                           (struct send_file){.fd = site_source_fd(range->source)});
    n = sender_send_read(line->sender, line->fd, bytes, bytes.iov_len < range->len);
    if (n > 0)
        fetch_sent(s, range->off + (uint64_t)n);
    return n;
}

static long send_file_part(struct line *line, const struct conn_out *out)
{
    struct session *s = (struct session *)line->conn; /* its first member */
    const struct segment *range = &out->seg[out->count - 1];
    struct send_file file = {.fd = site_source_fd(range->source)};
    long n;

    if (line->fetch) {
        enum site_place place = site_source_place(range->source);

        if (s->fetch)
            return send_fetched(line, s, range);
        file.asks = place != SITE_MEMORY;
        file.far = place == SITE_FAR;
    }
    n = sender_send(line->sender, line->fd, out, file);
    if (n != -ENODATA || !file.asks)
        return n;
    if (fetch_ask(line->fetch, s, range))
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
