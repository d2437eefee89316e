/* SPDX-License-Identifier: MIT */
/* coro.h - coroutines: a function on a stack of its own, left and entered again wherever it
 * likes.
 *
 * One thread resumes and is resumed into: no locks, no scheduler.  A stack is mapped lazily, so it
 * costs what it touches, and ends at a page that faults: an overflow is a crash, never a scribble
 * on the neighbour.  A switch saves the registers that a call must preserve and nothing else; the
 * floating point control words are nobody's to change here.
 */
#ifndef BASE_CORO_H
#define BASE_CORO_H
#include <stdbool.h>
#include <stddef.h>

/* Bytes of each stack, less what struct coro takes at its top.  How many of them a path needs is
 * what coro_touched() tells. */
enum { CORO_STACK_BYTES = 64 * 1024 };

struct coro;

/* A coroutine that will run body(coro, arg) when first resumed; NULL: no memory for a stack. */
struct coro *coro_open(void (*body)(struct coro *self, void *arg), void *arg);
/* Run it until it suspends or returns; false: it has returned, and must not be resumed again. */
bool coro_resume(struct coro *c);
/* From inside: back to whoever resumed. */
void coro_suspend(struct coro *self);
/* At rest or returned.  What its stack holds is forgotten, not unwound: it must own nothing. */
void coro_close(struct coro *c);
/* How many stacks a process can have, by vm.max_map_count: each takes two mappings. */
unsigned coro_most(void);
/* Bytes of its stack that are in memory: what was ever touched, in whole pages. */
size_t coro_touched(const struct coro *c);

/* coro_MACHINE.c.  Save the caller's registers on its stack and that stack's
 * pointer in *from, go on from the stack `to`. */
void coro_switch(void **from, void *to);
/* A stack that, switched to, calls entry(arg); entry never returns.  top is 16-byte aligned. */
void *coro_prepare(void *top, void (*entry)(void *arg), void *arg);

#endif
