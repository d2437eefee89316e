/* SPDX-License-Identifier: MIT */
/* probe.c - the trace points themselves: a nop in the code, and a note in the ELF file that says
 * where it is, where its arguments are and which word is its semaphore. */
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>
#include "probe.h"

/* Only the ELF notes name these words, and an optimiser of the whole program does not see the
 * notes. */
#define SEMAPHORE __attribute__((section(".probes"), used)) volatile unsigned short
SEMAPHORE rung_accepted_semaphore;
SEMAPHORE rung_answer_semaphore;

void probe_fire_accepted(int fd)
{
    STAP_PROBE1(rung, accepted, fd);
}

void probe_fire_answer(int fd, uint32_t ordinal, const struct probe_stamps *stamps)
{
    STAP_PROBE3(rung, answer, fd, ordinal, stamps);
}
