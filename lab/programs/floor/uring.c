/* SPDX-License-Identifier: MIT */
/* uring.c - the floor on io_uring: multishot operations accept and receive, and one system call
 * submits all answers of a turn and waits for the next completions.
 *
 * Answers are sent from memory: io_uring has no sendfile().  Sockets are entries of the ring's own
 * table, which spares the kernel a look-up for each operation, and a successful send is not
 * reported.
 */
#include "floor.h"
#include "../../../base/net.h"
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>

enum { SQES = 4096, CQES = 16384, SOCKETS = 8192, BUFFERS = 1024, BUFFER_BYTES = 2048 };
enum kind { ACCEPT, RECEIVE, SEND, CLOSE };

struct state {
    struct io_uring ring;
    struct io_uring_buf_ring *set;
    char *bytes; /* of the set's buffers */
    int listener;
    const struct answer *answer;
};

static struct io_uring_sqe *begin(struct state *s)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&s->ring);

    if (!sqe) {
        io_uring_submit(&s->ring);
        sqe = io_uring_get_sqe(&s->ring);
    }
    if (!sqe)
        exit(floor_fail("the ring takes no operation", -EBUSY));
    return sqe;
}

static void finish(struct io_uring_sqe *sqe, enum kind kind, unsigned socket, unsigned flags)
{
    sqe->flags |= (__u8)flags;
    io_uring_sqe_set_data64(sqe, (uint64_t)kind << 32 | socket);
}

static void take(struct state *s)
{
    struct io_uring_sqe *sqe = begin(s);

    io_uring_prep_multishot_accept_direct(sqe, s->listener, NULL, NULL, 0);
    finish(sqe, ACCEPT, 0, 0);
}

/* A connection with one request needs one receive; a multishot one would outlast its socket. */
static void receive(struct state *s, unsigned socket)
{
    struct io_uring_sqe *sqe = begin(s);

    if (s->answer->close)
        io_uring_prep_recv(sqe, (int)socket, NULL, BUFFER_BYTES, 0);
    else
        io_uring_prep_recv_multishot(sqe, (int)socket, NULL, 0, 0);
    sqe->buf_group = 0;
    finish(sqe, RECEIVE, socket, IOSQE_BUFFER_SELECT | IOSQE_FIXED_FILE);
}

static void end(struct state *s, unsigned socket)
{
    struct io_uring_sqe *sqe = begin(s);

    io_uring_prep_close_direct(sqe, socket);
    finish(sqe, CLOSE, socket, IOSQE_CQE_SKIP_SUCCESS);
}

static void answer(struct state *s, unsigned socket, unsigned wanted)
{
    struct io_uring_sqe *sqe;

    if (!wanted)
        return;
    sqe = begin(s);
    io_uring_prep_send(sqe, (int)socket, s->answer->bytes, s->answer->len * wanted,
                       MSG_NOSIGNAL | MSG_WAITALL);
    finish(sqe, SEND, socket,
         IOSQE_FIXED_FILE | IOSQE_CQE_SKIP_SUCCESS | (s->answer->close ? IOSQE_IO_LINK : 0));
    if (s->answer->close)
        end(s, socket);
}

static void give_back(struct state *s, unsigned buffer)
{
    io_uring_buf_ring_add(s->set, s->bytes + (size_t)buffer * BUFFER_BYTES, BUFFER_BYTES,
                          (unsigned short)buffer, io_uring_buf_ring_mask(BUFFERS), 0);
    io_uring_buf_ring_advance(s->set, 1);
}

static void received(struct state *s, const struct io_uring_cqe *cqe, unsigned socket)
{
    bool more = cqe->flags & IORING_CQE_F_MORE;

    if (cqe->flags & IORING_CQE_F_BUFFER) {
        unsigned buffer = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
        const char *bytes = s->bytes + (size_t)buffer * BUFFER_BYTES;

        if (cqe->res > 0)
            answer(s, socket, floor_wanted(s->answer, bytes, (size_t)cqe->res));
        give_back(s, buffer);
    }
    if (cqe->res == -ENOBUFS || (cqe->res > 0 && !more && !s->answer->close))
        receive(s, socket);
    else if (cqe->res <= 0 && !more)
        end(s, socket);
}

static void completed(struct state *s, const struct io_uring_cqe *cqe)
{
    unsigned socket = (unsigned)io_uring_cqe_get_data64(cqe);

    switch (io_uring_cqe_get_data64(cqe) >> 32) {
    case ACCEPT:
        if (cqe->res >= 0)
            receive(s, (unsigned)cqe->res);
        if (!(cqe->flags & IORING_CQE_F_MORE))
            take(s);
        break;
    case RECEIVE:
        received(s, cqe, socket);
        break;
    default: /* a send or a close that failed: the receive says that the connection is over */
        break;
    }
}

/* Registers the set of buffers.  Returns 0 or -errno. */
static int buffers(struct state *s)
{
    struct io_uring_buf_reg reg = {.ring_entries = BUFFERS};
    size_t size = BUFFERS * sizeof(struct io_uring_buf);

    s->set = aligned_alloc(4096, size);
    s->bytes = aligned_alloc(4096, (size_t)BUFFERS * BUFFER_BYTES);
    if (!s->set || !s->bytes)
        return -ENOMEM;
    io_uring_buf_ring_init(s->set);
    reg.ring_addr = (uint64_t)(uintptr_t)s->set;
    for (unsigned i = 0; i < BUFFERS; i++)
        give_back(s, i);
    return io_uring_register_buf_ring(&s->ring, &reg, 0);
}

static int opened(struct state *s)
{
    struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                                         IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL,
                                .cq_entries = CQES};
    int err = io_uring_queue_init_params(SQES, &s->ring, &p);

    if (err)
        return err;
    io_uring_register_ring_fd(&s->ring);
    err = io_uring_register_files_sparse(&s->ring, SOCKETS);
    return err ? err : buffers(s);
}

int floor_uring(int listener, const struct answer *a)
{
    static struct state s;
    int err;

    s.listener = listener;
    s.answer = a;
    err = opened(&s);
    if (err)
        return floor_fail("this kernel's io_uring lacks what the floor needs (Linux 6.1)", err);
    take(&s);
    while (!floor_stopped) {
        struct io_uring_cqe *cqe;
        unsigned head, seen = 0;

        err = io_uring_submit_and_wait(&s.ring, 1);
        if (err < 0 && err != -EINTR)
            return floor_fail("io_uring", err);
        io_uring_for_each_cqe(&s.ring, head, cqe)
        {
            completed(&s, cqe);
            seen++;
        }
        io_uring_cq_advance(&s.ring, seen);
    }
    return 0;
}
