/* SPDX-License-Identifier: MIT */
/* uring_ops.c - what a session wants becomes an operation of the ring.
 *
 * Receive: into a buffer that the kernel chooses from a set when bytes are there, so that an idle
 * session owns none.  Send: memory is sent in place; a file's pages are handed over by a call if
 * they are in memory.  Otherwise the file is read and then sent, two operations linked, and the
 * loop waits neither for the disk nor for a slow reader.
 */
#include <errno.h>
#include <poll.h>
#include "uring.h"

bool uring_transmit(struct uring *u, struct session *s, bool thread)
{
    struct conn_out out = conn_out(&s->conn);
    const struct segment *last = &out.seg[out.count - 1];
    struct ring_send op = {.fd = s->fd,
                           .file = last->bytes ? -1 : session_file(last),
                           .data = uring_data(s, TAG_SEND),
                           .read_data = uring_data(s, TAG_READ),
                           .thread = thread};
    int err = ring_send(&u->ring, &op, &out);

    s->engine_data = op.piece << PIECE_SHIFT;
    if (err == -ENOBUFS) /* no piece is free: sessions that wait for a disk come first */
        return ring_timeout(&u->ring, uring_data(s, TAG_TIMEOUT));
    return !err;
}

bool uring_transmit_read(struct uring *u, const struct session *s, size_t n)
{
    struct conn_out out = conn_out(&s->conn);
    struct ring_send op = {
        .fd = s->fd, .data = uring_data(s, TAG_SEND), .piece = s->engine_data >> PIECE_SHIFT};

    return !ring_send_read(&u->ring, &op, &out, n);
}

void uring_begin(struct uring *u, struct session *s, enum conn_want want)
{
    bool begun, polls = false;

    if (want == CONN_SEND && !u->ring.ending)
        want = session_hand_over(u->loop, s, &polls);
    if (want == CONN_WAIT)
        return;
    if (polls)
        begun = ring_poll(&u->ring, s->fd, POLLOUT, uring_data(s, TAG_WRITABLE));
    else if (want == CONN_SEND)
        begun = uring_transmit(u, s, false);
    else
        begun = want != CONN_CLOSE && ring_receive(&u->ring, s->fd, uring_data(s, TAG_RECV));
    if (begun)
        s->engine_data |= INFLIGHT;
    else
        session_close(u->loop, s);
}
