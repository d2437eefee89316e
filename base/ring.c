/* SPDX-License-Identifier: MIT */
/* ring.c - io_uring: operations, sleeping, completions, and the set of receive buffers. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include "ring.h"

enum { RETRY_MS = 10 /* when the kernel did not take everything */ };

/* --- Buffers ---------------------------------------------------------------------------------- */

void ring_give(struct ring *r, unsigned number)
{
    io_uring_buf_ring_add(r->set, r->bytes + (size_t)number * RECV_BYTES_MAX, RECV_BYTES_MAX,
                          (unsigned short)number, io_uring_buf_ring_mask(RING_BUFFERS), 0);
    io_uring_buf_ring_advance(r->set, 1);
}

const char *ring_bytes(const struct ring *r, const struct io_uring_cqe *cqe)
{
    return r->bytes + (size_t)(cqe->flags >> IORING_CQE_BUFFER_SHIFT) * RECV_BYTES_MAX;
}

enum { HELD_BITS = 15 }; /* of the count, which is RECV_BYTES_MAX at most */
_Static_assert(RECV_BYTES_MAX < 1 << HELD_BITS && RING_BUFFERS <= 1 << (24 - HELD_BITS),
               "the number and the count of a buffer that is held fit 24 bits");

unsigned ring_held(const struct io_uring_cqe *cqe)
{
    return cqe->flags >> IORING_CQE_BUFFER_SHIFT << HELD_BITS | (unsigned)cqe->res;
}

void ring_unheld(unsigned held, struct io_uring_cqe *cqe)
{
    cqe->res = (int)(held & ((1u << HELD_BITS) - 1));
    cqe->flags = held >> HELD_BITS << IORING_CQE_BUFFER_SHIFT | IORING_CQE_F_BUFFER;
}

void ring_give_back(struct ring *r, const struct io_uring_cqe *cqe)
{
    if (cqe->flags & IORING_CQE_F_BUFFER)
        ring_give(r, cqe->flags >> IORING_CQE_BUFFER_SHIFT);
}

/* --- Turns ------------------------------------------------------------------------------------ */

static struct io_uring_sqe *entry(struct ring *r, uint64_t data)
{
    struct io_uring_sqe *sqe;

    if (!io_uring_sq_space_left(&r->uring))
        (void)io_uring_submit(&r->uring); /* a failure shows below */
    sqe = io_uring_get_sqe(&r->uring);
    if (sqe)
        io_uring_sqe_set_data64(sqe, data);
    return sqe;
}

struct io_uring_sqe *ring_begin(struct ring *r, uint64_t data)
{
    struct io_uring_sqe *sqe = r->ending ? NULL : entry(r, data);

    r->inflight += sqe != NULL;
    return sqe;
}

bool ring_receive(struct ring *r, int fd, uint64_t data)
{
    struct io_uring_sqe *sqe = ring_begin(r, data);

    if (!sqe)
        return false;
    io_uring_prep_recv(sqe, fd, NULL, RECV_BYTES_MAX, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = 0;
    return true;
}

bool ring_poll(struct ring *r, int fd, unsigned events, uint64_t data)
{
    struct io_uring_sqe *sqe = ring_begin(r, data);

    if (sqe)
        io_uring_prep_poll_add(sqe, fd, events);
    return sqe;
}

bool ring_poll_multishot(struct ring *r, int fd, unsigned events, uint64_t data)
{
    struct io_uring_sqe *sqe = ring_begin(r, data);

    if (sqe)
        io_uring_prep_poll_multishot(sqe, fd, events);
    return sqe;
}

bool ring_accept(struct ring *r, int fd, uint64_t data)
{
    struct io_uring_sqe *sqe = ring_begin(r, data);

    if (sqe)
        io_uring_prep_multishot_accept(sqe, fd, NULL, NULL, SOCK_CLOEXEC);
    return sqe;
}

bool ring_timeout(struct ring *r, uint64_t data)
{
    struct io_uring_sqe *sqe = ring_begin(r, data);

    if (sqe)
        io_uring_prep_timeout(sqe, &r->timeout, 0, 0);
    return sqe;
}

bool ring_cancel(struct ring *r, uint64_t data)
{
    struct io_uring_sqe *sqe = entry(r, 0);

    if (!sqe)
        return false;
    io_uring_prep_cancel64(sqe, data, 0);
    io_uring_sqe_set_data64(sqe, 0); /* its result is not used */
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    return true;
}

/* The kernel is busy or out of memory: operations that it did not take stay in the queue. */
static bool passing(int err)
{
    return err == -EAGAIN || err == -EBUSY || err == -EINTR || err == -ENOMEM;
}

int ring_wait(struct ring *r, int wait_ms)
{
    static const struct timespec retry = {.tv_nsec = RETRY_MS * 1000000};
    struct pollfd p = {.fd = r->uring.ring_fd, .events = POLLIN};
    int err = 0;

    if (io_uring_sq_ready(&r->uring))
        err = io_uring_submit_and_get_events(&r->uring);
    if (err < 0 && !passing(err))
        return err;
    if (io_uring_cq_ready(&r->uring))
        return 0;
    if (err < 0 && (wait_ms < 0 || wait_ms > RETRY_MS))
        wait_ms = RETRY_MS;
    if (poll(&p, 1, wait_ms) < 0 && errno != EINTR)
        nanosleep(&retry, NULL); /* out of memory, for a moment */
    if (!io_uring_cq_ready(&r->uring))
        (void)io_uring_get_events(&r->uring); /* completions in the kernel's own list, if any */
    return 0;
}

bool ring_next(struct ring *r, struct io_uring_cqe *cqe)
{
    struct io_uring_cqe *next;
    unsigned head;

    io_uring_for_each_cqe(&r->uring, head, next) {
        *cqe = *next;
        io_uring_cq_advance(&r->uring, 1);
        if (!cqe->user_data) /* a cancellation that found nothing */
            continue;
        r->inflight -= !(cqe->flags & IORING_CQE_F_MORE);
        return true;
    }
    return false;
}
