/* SPDX-License-Identifier: MIT */
/* ring_open.c - io_uring is opened as well as this kernel allows, or refused with a reason.
 *
 * COOP_TASKRUN (Linux 5.19) lets completions be made when this thread enters the kernel anyway,
 * instead of interrupting it.  DEFER_TASKRUN (6.1) would make them only when we ask, but poll() on
 * such a ring is not woken by completions still to be made (6.18): its thread must sleep in the
 * ring.  A kernel older than 5.19 has no buffer rings, and is refused.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "ring.h"

enum {
    TIMEOUT_NS = 1000000,
    OPEN_TRIES = 20,
    OPEN_NS = 10000000,
    SET_BYTES = RING_BUFFERS * sizeof(struct io_uring_buf)
};

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
        ring_give(r, i);
    return 0;
}

static int try_open(struct ring *r)
{
    struct io_uring_params p = {.flags = IORING_SETUP_CQSIZE | IORING_SETUP_COOP_TASKRUN,
                                .cq_entries = RING_CQES};
    int err;

    *r = (struct ring){.timeout.tv_nsec = TIMEOUT_NS};
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
