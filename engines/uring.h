/* SPDX-License-Identifier: MIT */
/* uring.h - what the files of uring share.  Each calls only those named after it: uring.c handles
 * completions, uring_accept.c accepts connections, uring_starved.c queues the sessions that found
 * no buffer, uring_ops.c begins operations.
 */
#ifndef ENGINES_URING_H
#define ENGINES_URING_H
#include "../base/ring.h"
#include "engine.h"

/* The low bits of a completion's data say what it is of, the other bits whose it is. */
enum tag { TAG_RECV = 1, TAG_SEND, TAG_READ, TAG_WRITABLE, TAG_TIMEOUT, TAG_LISTENER, TAGS = 16 };

/* session->engine_data.  INFLIGHT: an operation is in flight.  LEAVING: the session is being ended.
 * HOLDING: its bytes wait for memory.  STARVED: it waits for a buffer.  The bits above: a piece of
 * the ring, or ring_held() of the bytes that wait. */
enum { INFLIGHT = 1, LEAVING = 2, HOLDING = 4, STARVED = 8, PIECE_SHIFT = 8 };

/* A listener, or another descriptor that is waited for in the same way: wake_fd or stop_fd.
 * MULTISHOT: one operation accepts for ever. */
enum listener_state { OFF, POLLED, MULTISHOT };
struct listener {
    int fd;
    enum listener_state state;
    bool leaving; /* being cancelled */
};

/* Sessions that wait for a buffer: a circular queue that grows. */
struct starved {
    struct session **session;
    unsigned room, first, count;
};

struct uring {
    struct ring ring;
    struct loop *loop;
    bool ahead; /* this kernel can accept for ever (multishot) */
    uint64_t look_ms, look_until_ms; /* of the next uring_listeners_look(); 0: none any more */
    unsigned holding; /* sessions whose bytes wait for memory */
    struct starved starved;
    unsigned listeners; /* the worker's, and behind them wake_fd and stop_fd */
    struct listener listener[LISTENERS_MAX + 2];
};

static inline uint64_t uring_data(const struct session *s, enum tag tag)
{
    return (uintptr_t)s | tag;
}

/* --- uring_ops.c ------------------------------------------------------------------------------ */

/* Begin what the session wants, or close it. */
void uring_begin(struct uring *u, struct session *s, enum conn_want want);
/* Begin to send.  thread: see struct ring_send.  False: nothing was begun. */
bool uring_transmit(struct uring *u, struct session *s, bool thread);
/* The file was shorter than expected: begin to send the n bytes that were read. */
bool uring_transmit_read(struct uring *u, const struct session *s, size_t n);

/* --- uring_starved.c -------------------------------------------------------------------------- */

/* Queue the session until there is a buffer; false: no memory for the queue. */
bool uring_starve(struct uring *u, struct session *s);
/* Whether there are buffers for sessions that wait. */
bool uring_may_feed(const struct uring *u);
/* Begin what the first of them want, for as many as there are buffers now. */
void uring_feed_starved(struct uring *u);
/* Like uring_begin(), except that a session that wants to receive queues behind those that wait. */
void uring_begin_in_turn(struct uring *u, struct session *s, enum conn_want want);

/* --- uring_accept.c --------------------------------------------------------------------------- */

/* Bring each listener to the state that it should have now. */
void uring_listeners_tend(struct uring *u);
/* Accept what waits in listeners that a killed process has used: see uring_accept.c.  Between two
 * calls the ring may wait for as long as uring_listeners_wait_ms() says, instead of wait_ms. */
void uring_listeners_look(struct uring *u);
int uring_listeners_wait_ms(const struct uring *u, int wait_ms);
/* Handle a completion of listener[i], which may be wake_fd or stop_fd. */
void uring_listener_completed(struct uring *u, unsigned i, const struct io_uring_cqe *cqe);

#endif
