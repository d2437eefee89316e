/* SPDX-License-Identifier: MIT */
/* probe.h - the server's own trace points (USDT), for rung trace, bpftrace and others.
 *
 *   rung:accepted(fd)                  a connection was taken from the listener's queue
 *   rung:answer(fd, ordinal, stamps)   an answer was decided: stamps is a struct probe_stamps
 *
 * Each trace point has a semaphore, a word of this process that counts its tracers.  While that of
 * rung:answer is 0, the clock is not read, and a request costs two tests of it.  A stop at a trace
 * point takes about a microsecond, so there is one for each answer, and it carries all times.
 *
 * The same times are in the log (--log stages) and in answers (--server-timing), under the same
 * names.
 *
 * probe.c defines the trace points.  probe_absent.c takes its place where the build has no
 * <sys/sdt.h>.
 */
#ifndef SERVER_PROBE_H
#define SERVER_PROBE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* clock_ns(); 0: not reached.  tools/trace/trace.bpf.c reads this. */
struct probe_stamps {
    uint64_t parsed;     /* the head was read, and the search for the answer begins */
    uint64_t found;      /* the search has ended, found or not */
    uint64_t compressed; /* set if a compressed coding was found, which was made before */
};

/* Write the times as a Server-Timing field with its CRLF (probe_field.c).  Returns its length; 0:
 * nothing was looked for. */
enum { PROBE_FIELD_BYTES_MAX = 96 };
size_t probe_field(const struct probe_stamps *stamps, char out[PROBE_FIELD_BYTES_MAX]);

/* The number of watchers: the kernel counts tracers in these words. */
extern volatile unsigned short rung_accepted_semaphore, rung_answer_semaphore;

/* The server's own log or answers need the times.  Call it before any thread exists. */
static inline void probe_watch(void)
{
    rung_answer_semaphore = (unsigned short)(rung_answer_semaphore + 1);
}

static inline void probe_watch_no_more(void)
{
    rung_answer_semaphore = (unsigned short)(rung_answer_semaphore - 1);
}

static inline bool probe_is_watched(void)
{
    return __builtin_expect(rung_answer_semaphore != 0, 0);
}

void probe_fire_accepted(int fd);
void probe_fire_answer(int fd, uint32_t ordinal, const struct probe_stamps *stamps);

static inline void probe_accepted(int fd)
{
    if (__builtin_expect(rung_accepted_semaphore != 0, 0))
        probe_fire_accepted(fd);
}

#endif
