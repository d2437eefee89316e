/* SPDX-License-Identifier: MIT */
/* uring.h - what the files of uring share: uring.c moves the bytes of sessions, uring_doors.c lets
 * them in, uring_starved.c lets those wait that find no buffer. */
#ifndef ENGINES_URING_H
#define ENGINES_URING_H
#include "../base/ring.h"
#include "engine.h"

/* What a completion is of: the low bits of its data.  The others say whose. */
enum tag { TAG_RECV = 1, TAG_SEND, TAG_READ, TAG_WRITABLE, TAG_NAP, TAG_DOOR, TAGS = 16 };

/* session->slot: an operation is in flight; it is being cancelled; its bytes wait for memory; it
 * waits for a buffer.  The bits above: a piece of the ring's, or ring_held() of the bytes that
 * wait. */
enum { FLYING = 1, LEAVING = 2, HOLDING = 4, STARVED = 8, PIECE_SHIFT = 8 };

/* What is waited for besides the sessions: listeners, to be woken, to be told to stop. */
enum door_state { SHUT, WATCHED, ACCEPTING };
struct door {
    int fd;
    enum door_state state;
    bool leaving; /* being cancelled */
};

/* Sessions that wait for a buffer: a circular queue, which grows. */
struct starved {
    struct session **session;
    unsigned room, first, count;
};

struct uring {
    struct ring ring;
    struct loop *loop;
    bool ahead; /* this kernel can accept for ever */
    unsigned holding; /* sessions whose bytes wait for memory */
    struct starved starved;
    unsigned doors;
    struct door door[LISTENERS_MAX + 2];
};

/* Begin what the session wants, or close it.  pursue: one that wants to receive waits behind those
 * that wait for a buffer. */
void uring_begin(struct uring *u, struct session *s, enum conn_want want);
void uring_pursue(struct uring *u, struct session *s, enum conn_want want);

/* The session waits for a buffer; false: there is no memory for that.  Whether there are buffers
 * for some that wait.  And those that came first begin what they want: as many as there are buffers
 * now. */
bool uring_starve(struct uring *u, struct session *s);
bool uring_may_feed(const struct uring *u);
void uring_feed_starved(struct uring *u);

/* Make each door what it is to be now; and what one of them has to say. */
void uring_doors_tend(struct uring *u);
void uring_door_moved(struct uring *u, unsigned i, const struct io_uring_cqe *cqe);

#endif
