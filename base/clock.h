/* SPDX-License-Identifier: MIT */
/* clock.h - the time, as deadlines and measurements need it. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H
#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC_COARSE in milliseconds: as old as the kernel's last tick, 10 ms at most. */
uint64_t clock_ms(void);
uint64_t clock_ns(void); /* CLOCK_MONOTONIC in nanoseconds */
/* The time on that clock in ms milliseconds, for calls that wait until an absolute time. */
struct timespec clock_after(clockid_t clock, unsigned ms);

#endif
