/* SPDX-License-Identifier: MIT */
/* faults_time.h - the server's clock and its waits: a server that stops pauses in virtual time.
 *
 * A stopping server looks at its listeners and connections every few milliseconds, and thousands of
 * servers stop here.  While time_skips() is on, a wait returns at once, as if whatever it reports
 * had happened at its last moment, and the server's clock is set ahead by the length of the wait.
 * The clock gets at most SKIPPED_MS ahead in one run, far less than a deadline.  A wait for another
 * thread or for a packet that takes longer goes on in real time.
 */
#ifndef TESTS_FAULTS_TIME_H
#define TESTS_FAULTS_TIME_H
#include <sched.h>
#include <time.h>
#include "faults_seam.h"

enum { SKIPPED_MS = 200 };

static atomic_long time_ahead_us; /* the server's clock, ahead of the kernel's */
static atomic_long time_left_us;  /* what may still be skipped; 0: time is real */
static atomic_bool time_no_naps;  /* poll() of nothing returns at once, without end */

static inline void time_skips(bool on)
{
    atomic_store(&time_left_us, on ? SKIPPED_MS * 1000L : 0);
}

/* Whether a wait is skipped.  If so, other threads get the processor, because the server may be
 * waiting for one of them. */
static inline bool time_skip(long us)
{
    long left = atomic_load(&time_left_us);

    if (seam_exempt || us <= 0)
        return false;
    while (us <= left)
        if (atomic_compare_exchange_weak(&time_left_us, &left, left - us)) {
            atomic_fetch_add(&time_ahead_us, us);
            sched_yield();
            return true;
        }
    return false;
}

int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
    int result = __real_clock_gettime(clock, ts);
    bool elapsed = clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE;
    long long ns = ts->tv_nsec + atomic_load(&time_ahead_us) * 1000LL;

    if (result < 0 || seam_exempt || !elapsed)
        return result;
    ts->tv_sec += ns / 1000000000;
    ts->tv_nsec = ns % 1000000000;
    return 0;
}

int __real_nanosleep(const struct timespec *length, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *length, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *length, struct timespec *rest)
{
    if (time_skip(length->tv_sec * 1000000 + length->tv_nsec / 1000))
        return 0;
    return __real_nanosleep(length, rest);
}

int __real_epoll_wait(int ep, struct epoll_event *ev, int n, int ms);
int __wrap_epoll_wait(int ep, struct epoll_event *ev, int n, int ms);
int __wrap_epoll_wait(int ep, struct epoll_event *ev, int n, int ms)
{
    if (seam_fails(SEAM_epoll_wait))
        return -1;
    return __real_epoll_wait(ep, ev, n, time_skip(ms * 1000L) ? 0 : ms);
}

int __real_poll(struct pollfd *p, nfds_t n, int ms);
int __wrap_poll(struct pollfd *p, nfds_t n, int ms);
int __wrap_poll(struct pollfd *p, nfds_t n, int ms)
{
    if (seam_fails(SEAM_poll))
        return -1;
    if (n == 0 && atomic_load(&time_no_naps))
        return 0;
    return __real_poll(p, n, time_skip(ms * 1000L) ? 0 : ms);
}

int __real_select(int n, fd_set *in, fd_set *out, fd_set *odd, struct timeval *tv);
int __wrap_select(int n, fd_set *in, fd_set *out, fd_set *odd, struct timeval *tv);
int __wrap_select(int n, fd_set *in, fd_set *out, fd_set *odd, struct timeval *tv)
{
    if (seam_fails(SEAM_select))
        return -1;
    if (tv && time_skip(tv->tv_sec * 1000000L + tv->tv_usec))
        *tv = (struct timeval){0};
    return __real_select(n, in, out, odd, tv);
}

#endif
