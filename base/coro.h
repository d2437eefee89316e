/* SPDX-License-Identifier: MIT */
/* coro.h - coroutines: a function on a stack of its own, which can stop anywhere and go on from
 * there later.
 *
 * One thread resumes coroutines and they return to it: no locks, no scheduler.  A stack is mapped
 * lazily, so it costs only what it touches.  It ends at a page that faults, so an overflow is a
 * crash and never overwrites other memory.  A switch saves the registers that a call must preserve
 * and nothing else; no coroutine may change the floating point control words.
 */
#ifndef BASE_CORO_H
#define BASE_CORO_H
#include <stdbool.h>
#include <stddef.h>

/* Bytes of each stack, including struct coro at its top.  coro_touched() tells how many of them a
 * path needs. */
enum { CORO_STACK_BYTES = 64 * 1024 };

struct coro;

/* A coroutine that will run body(coro, arg) when first resumed; NULL: no memory for a stack. */
struct coro *coro_open(void (*body)(struct coro *self, void *arg), void *arg);
/* Run c until it suspends or returns; false: it has returned, and must not be resumed again. */
bool coro_resume(struct coro *c);
/* From inside: return to the caller of coro_resume(). */
void coro_suspend(struct coro *self);
/* c is suspended or has returned.  Its stack is unmapped, not unwound: it must own nothing. */
void coro_close(struct coro *c);
/* How many stacks a process can have, by vm.max_map_count: each takes two mappings. */
unsigned coro_most(void);
/* Bytes of the stack that are in memory: all that was ever touched, in whole pages. */
size_t coro_touched(const struct coro *c);

/* In coro_MACHINE.c: saves the registers that a call must preserve on the caller's stack, and that
 * stack's pointer in *from, then goes on from the stack `to`. */
void coro_switch(void **from, void *to);
/* A stack that calls entry(arg) when switched to; entry never returns.  top is 16-byte aligned. */
void *coro_prepare(void *top, void (*entry)(void *arg), void *arg);

#endif
