/* SPDX-License-Identifier: MIT */
/* attach_absent.c - takes the place of attach.c where rung was built without clang or libbpf:
 * options, help and manual are there, and tracing says what to install. */
#include <errno.h>
#include "trace.h"

int attach_begin(struct attached **to, const struct trace_options *opt, unsigned port)
{
    (void)opt;
    (void)port;
    *to = NULL;
    say_error("this rung was built without clang or libbpf, so it cannot trace: apt-get install "
              "clang libbpf-dev, then make all");
    return EXIT_MISSING;
}

int attach_read(struct attached *a, bool (*see)(void *arg, const struct event *e), void *arg)
{
    (void)a;
    (void)see;
    (void)arg;
    return -EOPNOTSUPP;
}

uint64_t attach_events(const struct attached *a)
{
    (void)a;
    return 0;
}

void attach_counts(const struct attached *a, struct trace_counts *counts)
{
    (void)a;
    *counts = (struct trace_counts){0};
}

const char *attach_lacks(const struct attached *a, unsigned *at)
{
    (void)a;
    (void)at;
    return NULL;
}

void attach_calls_until(const struct attached *a, uint64_t ns)
{
    (void)a;
    (void)ns;
}

bool attach_calls(const struct attached *a, struct call_count count[COUNTS])
{
    (void)a;
    (void)count;
    return false;
}

void attach_call_times(const struct attached *a, uint64_t times[COUNT_CALLS][CALL_STEPS])
{
    (void)a;
    (void)times;
}

bool attach_sees_retransmits(const struct attached *a)
{
    (void)a;
    return false;
}

bool attach_sees_sends(const struct attached *a)
{
    (void)a;
    return false;
}

unsigned attach_costs(const struct attached *a, struct attach_cost cost[ATTACH_PROGRAMS])
{
    (void)a;
    (void)cost;
    return 0;
}

void attach_end(struct attached *a)
{
    (void)a;
}
