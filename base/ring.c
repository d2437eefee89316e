/* SPDX-License-Identifier: MIT */
/* ring.c - io_uring: opening, sleeping, completions, and the set of receive buffers.
 *
 * COOP_TASKRUN (Linux 5.19) lets completions be made when this thread enters the kernel anyway,
 * instead of interrupting it.  DEFER_TASKRUN (6.1) would make them only when we ask, but poll() on
 * such a ring is not woken by completions still to be made (6.18): its thread must sleep in the
 * ring.  A kernel older than 5.19 has no buffer rings, and is refused.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "ring.h"

enum {
    RETRY_MS = 10, /* when the kernel did not take everything */
    NAP_NS = 1000000,
    OPEN_TRIES = 20,
    OPEN_NS = 10000000,
    SET_BYTES = RING_BUFFERS * sizeof(struct io_uring_buf)
};

/* --- Buffers ---------------------------------------------------------------------------------- */

static void give(struct ring *r, unsigned number)
{
    io_uring_buf_ring_add(r->set, r->bytes + (size_t)number * RECV_BYTES_MAX, RECV_BYTES_MAX,
                          (unsigned short)number, io_uring_buf_ring_mask(RING_BUFFERS), 0);
    io_uring_buf_ring_advance(r->set, 1);
}

static int set_open(struct ring *r)
{
    struct io_uring_buf_reg reg = {.ring_entries = RING_BUFFERS, .bgid = 0};
    long page = sysconf(_SC_PAGESIZE);
    int err;

    /* Whole pages, because the kernel pins them. */
    r->set = aligned_alloc((size_t)page, SET_BYTES < page ? (size_t)page : SET_BYTES);
    r->bytes = calloc(RING_BUFFERS, RECV_BYTES_MAX); /* valgrind does not see the kernel write */
    if (!r->set || !r->bytes)
        return -ENOMEM;
    reg.ring_addr = (uintptr_t)r->set;
    err = io_uring_register_buf_ring(&r->uring, &reg, 0);
    if (err)
        return err;
    io_uring_buf_ring_init(r->set);
    for (unsigned i = 0; i < RING_BUFFERS; i++)
        give(r, i);
    return 0;
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
        give(r, cqe->flags >> IORING_CQE_BUFFER_SHIFT);
}

/* --- Open and close --------------------------------------------------------------------------- */

static int try_open(struct ring *r)
{
    struct io_uring_params p = {.flags = IORING_SETUP_CQSIZE | IORING_SETUP_COOP_TASKRUN,
                                .cq_entries = RING_CQES};
    int err;

    *r = (struct ring){.nap.tv_nsec = NAP_NS};
    err = io_uring_queue_init_params(RING_SQES, &r->uring, &p);
    if (err)
        return err;
    err = set_open(r);
    if (!err)
        err = ring_send_open(r);
    if (err) {
        ring_close(r);
        return err;
    }
    (void)io_uring_register_ring_fd(&r->uring); /* saves a look-up per call; not needed */
    return 0;
}

/* A ring's memory counts towards a limit of its user (6.14 and later), and is released only some
 * milliseconds after the ring was closed: that of a probe or of the previous server may still
 * count. */
int ring_open(struct ring *r)
{
    static const struct timespec moment = {.tv_nsec = OPEN_NS};
    int err = try_open(r);

    for (unsigned i = 1; err == -ENOMEM && i < OPEN_TRIES; i++) {
        nanosleep(&moment, NULL);
        err = try_open(r);
    }
    return err;
}

void ring_close(struct ring *r)
{
    io_uring_queue_exit(&r->uring);
    free(r->set);
    free(r->bytes);
    ring_send_close(r);
}

/* --- Whether it can --------------------------------------------------------------------------- */

/* Why io_uring is forbidden: the administrator's switch, or a filter of system calls. */
static const char *forbidden(void)
{
    FILE *f = fopen("/proc/sys/kernel/io_uring_disabled", "re");
    int level = 0;

    if (f) {
        if (fscanf(f, "%d", &level) != 1)
            level = 0;
        fclose(f);
    }
    switch (level) {
    case 0:
        return "io_uring is forbidden to this process, as a rule by a container's seccomp filter";
    case 1:
        return "io_uring is for privileged users here: sysctl kernel.io_uring_disabled is 1";
    default:
        return "io_uring is switched off here: sysctl kernel.io_uring_disabled is 2";
    }
}

/* Opens all rings at once, as the server will.  0 or -errno. */
static int open_and_close(unsigned rings)
{
    struct ring *r = calloc(rings, sizeof(*r));
    int err = r ? 0 : -ENOMEM;
    unsigned n = 0;

    while (!err && n < rings) {
        err = ring_open(&r[n]);
        n += !err;
    }
    while (n-- > 0)
        ring_close(&r[n]);
    free(r);
    return err;
}

const char *ring_refusal(unsigned rings)
{
    switch (-open_and_close(rings)) { /* buffer rings are the newest part that is used */
    case 0:
        return NULL;
    case ENOSYS:
        return "this kernel has no io_uring (CONFIG_IO_URING)";
    case EPERM:
    case EACCES:
        return forbidden();
    case EINVAL:
        return "this kernel's io_uring has no buffer rings; Linux 5.19 or later is needed";
    case ENOMEM:
        return "there is no memory for an io_uring (ulimit -l, or the limit of a container)";
    case EMFILE:
    case ENFILE:
        return "there is no descriptor left for an io_uring (ulimit -n)";
    default:
        return "io_uring cannot be opened here";
    }
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

    r->flying += sqe != NULL;
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

bool ring_watch(struct ring *r, int fd, unsigned events, uint64_t data)
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

bool ring_nap(struct ring *r, uint64_t data)
{
    struct io_uring_sqe *sqe = ring_begin(r, data);

    if (sqe)
        io_uring_prep_timeout(sqe, &r->nap, 0, 0);
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
        r->flying -= !(cqe->flags & IORING_CQE_F_MORE);
        return true;
    }
    return false;
}
