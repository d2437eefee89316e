/* SPDX-License-Identifier: MIT */
/* thread.h - starts a thread, and returns when it runs.
 *
 * A thread's first steps take locks: a sanitizer's allocator has some.  A process that forks in
 * that moment gives its child a lock that is held for ever (pthread_atfork(3), NOTES). */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H
#include <pthread.h>

/* 0 or -errno. */
int thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

#endif
