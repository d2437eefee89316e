/* SPDX-License-Identifier: MIT */
/* ring_send.c - a connection's output by io_uring: what sender_send() does in calls.
 *
 * Memory is sent from where it is.  A file's bytes have to be read first: into a piece, by an
 * operation to which the send is linked.  Nothing waits for a slow reader: the send then returns
 * -EAGAIN, the caller gives the piece back, because there are few, and has the rest read again when
 * the socket takes more.  The file's pages are in memory by then.  The kernel could wait in a send
 * without a piece, but if the peer has closed its half, it waits in a thread for each such send
 * (6.18: POLLRDHUP ends its waiting).
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include "ring.h"
#include "send.h"

/* The kernel has copied the message when its operation has been handed over. */
struct ring_message {
    struct msghdr head;
    struct gather gather;
};

static const size_t pieces_bytes = (size_t)RING_PIECES * RING_PIECE_BYTES;

int ring_send_open(struct ring *r)
{
    r->message = calloc(RING_SQES, sizeof(*r->message));
    /* Only pieces that are used are ever touched, and so take memory. */
    r->piece_bytes = mmap(NULL, pieces_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r->piece_bytes == MAP_FAILED)
        r->piece_bytes = NULL;
    if (!r->message || !r->piece_bytes)
        return -ENOMEM;
    for (; r->pieces < RING_PIECES; r->pieces++)
        r->piece[r->pieces] = (unsigned short)(r->pieces + 1);
    return 0;
}

void ring_send_close(struct ring *r)
{
    free(r->message);
    if (r->piece_bytes)
        munmap(r->piece_bytes, pieces_bytes);
}

void ring_piece_end(struct ring *r, unsigned piece)
{
    if (piece)
        r->piece[r->pieces++] = (unsigned short)piece;
}

static char *bytes_of(const struct ring *r, unsigned piece)
{
    return r->piece_bytes + (size_t)(piece - 1) * RING_PIECE_BYTES;
}

int ring_send_read(struct ring *r, const struct ring_send *op, const struct conn_out *out,
                   size_t n)
{
    struct io_uring_sqe *sqe = ring_begin(r, op->data);
    struct ring_message *m;
    struct gather *g;
    int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (out->more ? MSG_MORE : 0);

    if (!sqe)
        return -EBUSY;
    m = &r->message[sqe - r->uring.sq.sqes];
    g = &m->gather;
    gather_memory(g, out, out->count);
    if (op->piece) {
        flags |= n < out->seg[g->segments].len ? MSG_MORE : 0;
        g->iov[g->pieces++] = (struct iovec){bytes_of(r, op->piece), n};
    } else if (g->segments < out->count && g->room) {
        flags |= MSG_MORE; /* the pieces are taken */
    }
    if (g->pieces == 1) { /* without a list, which the kernel would copy and check */
        io_uring_prep_send(sqe, op->fd, g->iov[0].iov_base, g->iov[0].iov_len, flags);
        return 0;
    }
    m->head = (struct msghdr){.msg_iov = g->iov, .msg_iovlen = g->pieces};
    io_uring_prep_sendmsg(sqe, op->fd, &m->head, (unsigned)flags);
    return 0;
}

int ring_send(struct ring *r, struct ring_send *op, const struct conn_out *out)
{
    const struct segment *file = &out->seg[out->count - 1];
    struct io_uring_sqe *sqe;
    struct gather memory;
    unsigned n;

    op->piece = 0;
    gather_memory(&memory, out, out->count);
    if (!gather_reaches_file(&memory, out))
        return ring_send_read(r, op, out, 0);
    if (!r->pieces)
        return -ENOBUFS;
    if (r->ending)
        return -EBUSY;
    if (io_uring_sq_space_left(&r->uring) < 2) /* a link must be handed over whole */
        (void)io_uring_submit(&r->uring);
    if (io_uring_sq_space_left(&r->uring) < 2)
        return -EBUSY;
    n = file->len < RING_PIECE_BYTES ? (unsigned)file->len : RING_PIECE_BYTES;
    op->piece = r->piece[--r->pieces];
    sqe = io_uring_get_sqe(&r->uring);
    io_uring_prep_read(sqe, op->file, bytes_of(r, op->piece), n, file->off);
    io_uring_sqe_set_data64(sqe, op->read_data);
    if (op->thread)
        sqe->flags |= IOSQE_ASYNC;
    sqe->flags |= IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS; /* a failed read alone is reported */
    return ring_send_read(r, op, out, n);
}
