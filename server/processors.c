/* SPDX-License-Identifier: MIT */
/* processors.c - counts the processors that this process may use, and pins a thread to one of them
 * (--pin on).
 *
 * "May use" is the thread's affinity: what taskset, a container or a batch system has left.  A
 * pinned thread passes its affinity on to the threads that it starts, so a worker pins itself
 * first, and its pool of threads, its watchdog and its children follow.
 */
#include <errno.h>
#include <sched.h>
#include <unistd.h>
#include "serve.h"

unsigned processors_usable(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) < 0 ? 1 : (unsigned)CPU_COUNT(&set);
}

unsigned processors_all(void)
{
    long n = sysconf(_SC_NPROCESSORS_CONF);

    return n < 1 ? 1 : (unsigned)n;
}

int processors_pin(unsigned number)
{
    cpu_set_t set, one;
    unsigned left;

    if (sched_getaffinity(0, sizeof(set), &set) < 0)
        return -errno;
    left = number % (unsigned)CPU_COUNT(&set);
    CPU_ZERO(&one);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set) && left-- == 0)
            CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof(one), &one) < 0 ? -errno : 0;
}
