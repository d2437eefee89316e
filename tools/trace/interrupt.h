/* SPDX-License-Identifier: MIT */
/* interrupt.h - when a trace ends: a signal, or the time. */
#ifndef TRACE_INTERRUPT_H
#define TRACE_INTERRUPT_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* From now on SIGINT, SIGTERM and SIGHUP do not end this process, but make interrupted() true.
 * Writes that they interrupt go on. */
void interrupt_catch(void);
bool interrupted(void);
/* fork(), but these signals end the child.  With fork() alone one that reaches the child before it
 * executes a program would only make interrupted() true in a process that never asks. */
pid_t interrupt_fork(void);
void interrupt_clear(void); /* so that the first signal does not interrupt the rest of the work */

static inline uint64_t now_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
