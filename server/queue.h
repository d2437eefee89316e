/* SPDX-License-Identifier: MIT */
/* queue.h - items handed from one thread to many; a full queue makes the producer wait, and nothing
 * is ever dropped.
 *
 * mutex       one bounded ring for all, a mutex and two condition variables.  Any free consumer
 *             takes the next item.
 * lockfree    one ring for each consumer, with one writer and one reader, so that two counters
 *             are all the synchronisation needed: no compare-and-swap loop, hence no ABA problem.
 *             The producer fills the ring with the fewest items, a reader at work counting as one,
 *             or with in_turn the next ring that has room.  An item stays in its ring: if all
 *             readers were at work and another one becomes free first, it still waits for its own
 *             reader.
 *
 * In both, a thread that finds nothing to do sleeps in the kernel and does not spin.  There is one
 * producer; consumers are numbered from 0.  Items are the caller's: a descriptor, a pointer.
 */
#ifndef SERVER_QUEUE_H
#define SERVER_QUEUE_H
#include <stdbool.h>
#include <stdint.h>

enum { QUEUE_TAKE_MAX = 64 };

struct queue;
struct queue_plan {
    bool lockfree;
    unsigned consumers;
    unsigned length; /* most items waiting, in all rings together; at least one a ring */
    bool in_turn;    /* lockfree: rings take turns, however loaded they are */
};

/* 0 or -ENOMEM. */
int queue_open(struct queue **queue, const struct queue_plan *plan);
/* Call it after every consumer has seen the end. */
void queue_close(struct queue *queue);

/* Only the first n consumers exist.  Call it before the first put. */
void queue_consumers(struct queue *queue, unsigned n);

/* Waits while the queue is full, wait_ms at most; -1: for ever.  0, or -EAGAIN: still full. */
int queue_put(struct queue *queue, intptr_t item, int wait_ms);

/* Up to n (<= QUEUE_TAKE_MAX) items; waits for the first.  0: the queue has ended and is empty. */
unsigned queue_take(struct queue *queue, unsigned consumer, intptr_t item[], unsigned n);

/* No more will be put: consumers take what is left and then get 0. */
void queue_end(struct queue *queue);

#endif
