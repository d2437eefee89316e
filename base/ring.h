/* SPDX-License-Identifier: MIT */
/* ring.h - io_uring, as an engine needs it: opened as well as this kernel allows, with buffers that
 * the kernel chooses from when bytes arrive, and pieces in which a file's bytes go from its disk to
 * a socket.
 *
 * liburing's own calls do the rest; two rules are ours.  No thread sleeps in the ring: one that was
 * killed while it waited in io_uring_enter() was seen to spin in the kernel for ever (Linux 6.18,
 * DEFER_TASKRUN), so ring_wait() sleeps in poll() on the ring's descriptor.  And memory that an
 * operation points to stays until its completion: ring->inflight counts the completions to come.
 * One thread opens and uses a ring.
 */
#ifndef BASE_RING_H
#define BASE_RING_H
#include <liburing.h>
#include "../core/conn.h"

enum {
    RING_SQES = 512,     /* operations handed over at once */
    RING_CQES = 2048,    /* completions before the kernel has to keep a list of them */
    RING_BUFFERS = 128,  /* to receive bytes into; if all are in use, -ENOBUFS */
    RING_PIECES = 256,   /* pieces of files that are read or sent at once; more wait */
    RING_PIECE_BYTES = 64 * 1024
};

struct ring {
    struct io_uring uring;
    unsigned inflight;             /* completions to come */
    bool ending;                   /* nothing new is begun */
    struct io_uring_buf_ring *set; /* buffers that the kernel may fill now, of group 0 */
    char *bytes;                   /* all of them, of RECV_BYTES_MAX each */
    struct __kernel_timespec timeout;
    char *piece_bytes;
    unsigned pieces;               /* piece[0..pieces) are free */
    unsigned short piece[RING_PIECES];
    struct ring_message *message;  /* one per operation that is being handed over */
};

/* 0 or -errno (ring_open.c). */
int ring_open(struct ring *r);
/* Call it when nothing is in flight any more. */
void ring_close(struct ring *r);

/* Why ring_open() cannot succeed here for that many rings at once, in words; NULL: it can. */
const char *ring_refusal(unsigned rings);

/* Operations.  data, not 0, is returned with the completion.  False: the kernel takes none just
 * now, or the ring is ending. */
bool ring_receive(struct ring *r, int fd, uint64_t data); /* into a buffer of the set */
bool ring_poll(struct ring *r, int fd, unsigned events, uint64_t data);
bool ring_poll_multishot(struct ring *r, int fd, unsigned events, uint64_t data); /* many times */
bool ring_accept(struct ring *r, int fd, uint64_t data);  /* for ever; sockets that may block */
bool ring_timeout(struct ring *r, uint64_t data);         /* a millisecond */
struct io_uring_sqe *ring_begin(struct ring *r, uint64_t data); /* any other */
/* The operation begun with this data completes soon: with its own result, or -ECANCELED.  False:
 * try again. */
bool ring_cancel(struct ring *r, uint64_t data);

/* Hand over the operations begun, and wait for a completion up to wait_ms (-1: until there is one).
 * 0, or -errno: the ring is of no use any more. */
int ring_wait(struct ring *r, int wait_ms);
/* The next completion, copied; false: none.  If it brings bytes, ring_bytes() says where they are;
 * call ring_give_back() when they have been read. */
bool ring_next(struct ring *r, struct io_uring_cqe *cqe);
const char *ring_bytes(const struct ring *r, const struct io_uring_cqe *cqe);
/* Turn a completion that brought bytes into a number below 1 << 24, and back.  The number has all
 * that the functions above and below look at.  The bytes are kept until they are given back. */
unsigned ring_held(const struct io_uring_cqe *cqe);
void ring_unheld(unsigned held, struct io_uring_cqe *cqe);
void ring_give_back(struct ring *r, const struct io_uring_cqe *cqe);
void ring_give(struct ring *r, unsigned number); /* the kernel may fill that buffer of the set */

/* --- Sending (ring_send.c) -------------------------------------------------------------------- */

struct ring_send {
    int fd, file;             /* the socket; the file of the last segment, or -1 */
    uint64_t data, read_data; /* of the completion: of the send, or of a read that fell short */
    unsigned piece;           /* 0: none; otherwise the caller's until ring_piece_end() */
    bool thread;              /* the read said -EAGAIN: one of the kernel's threads waits for it */
};

/* Begin to send what sender_send() would: the bytes in memory, and the first piece of a file behind
 * them.  Reading and sending are linked, so the loop does not wait for the disk, and one of them
 * completes.  Neither waits for the peer: -EAGAIN.  0; -ENOBUFS: all pieces are taken; -EBUSY: see
 * ring_begin(). */
int ring_send(struct ring *r, struct ring_send *op, const struct conn_out *out);
/* The piece was read, but only n bytes of it: send those. */
int ring_send_read(struct ring *r, const struct ring_send *op, const struct conn_out *out,
                   size_t n);
void ring_piece_end(struct ring *r, unsigned piece); /* 0: nothing */
int ring_send_open(struct ring *r);                  /* part of ring_open(), as is the next */
void ring_send_close(struct ring *r);

#endif
