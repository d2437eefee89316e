/* SPDX-License-Identifier: MIT */
/* calls.c - what the server asked of the kernel while it was traced: system calls by name, how
 * often its threads left a processor, and how often they were moved to another.
 */
#include <stdlib.h>
#include <sys/syscall.h>
#include "trace.h"

static const char *const names[COUNT_CALLS] = {
#define CALL(name) [__NR_##name] = #name,
#include "system_calls.h"
#undef CALL
};

struct call {
    unsigned number;
    struct call_count count;
};

/* Calls that were made, that with the most time first. */
struct counted {
    struct call_count count[COUNTS];
    struct call call[COUNT_CALLS];
    unsigned calls;
};

static int later(const void *a, const void *b)
{
    const struct call *one = a, *other = b;

    if (one->count.ns != other->count.ns)
        return one->count.ns < other->count.ns ? 1 : -1;
    return one->number < other->number ? -1 : 1;
}

static bool read_counts(const struct attached *a, struct counted *c)
{
    c->calls = 0;
    if (!attach_calls(a, c->count))
        return false;
    for (unsigned i = 0; i < COUNT_CALLS; i++)
        if (c->count[i].times)
            c->call[c->calls++] = (struct call){i, c->count[i]};
    qsort(c->call, c->calls, sizeof(c->call[0]), later);
    return true;
}

enum { NAME_TEXT = 40 };

static void name_of(unsigned number, char text[NAME_TEXT])
{
    if (names[number])
        snprintf(text, NAME_TEXT, "%s", names[number]);
    else
        snprintf(text, NAME_TEXT, "call %u", number);
}

static double each(uint64_t n, uint64_t requests)
{
    return requests ? (double)n / (double)requests : 0;
}

void calls_print(const struct attached *a, uint64_t requests)
{
    static struct counted c;
    char name[NAME_TEXT];

    if (!read_counts(a, &c))
        return;
    printf("\nsystem calls of the server\n  %-20s %10s %10s %10s %10s\n", "", "calls", "a request",
           "us each", "us at most");
    for (unsigned i = 0; i < c.calls; i++) {
        const struct call_count *one = &c.call[i].count;

        name_of(c.call[i].number, name);
        printf("  %-20s %10llu %10.2f %10.1f %10.1f\n", name, (unsigned long long)one->times,
               each(one->times, requests), (double)one->ns / 1e3 / (double)one->times,
               (double)one->max_ns / 1e3);
    }
    printf("  %.2f context switches a request to wait, %.2f for another thread; "
           "%.2f migrations a request\n", each(c.count[COUNT_SLEPT].times, requests),
           each(c.count[COUNT_PREEMPTED].times, requests),
           each(c.count[COUNT_MOVED].times, requests));
}

void calls_print_json(const struct attached *a)
{
    static struct counted c;
    char name[NAME_TEXT];

    if (!read_counts(a, &c))
        return;
    printf(", \"calls\": [");
    for (unsigned i = 0; i < c.calls; i++) {
        const struct call_count *one = &c.call[i].count;

        name_of(c.call[i].number, name);
        printf("%s{\"call\": \"%s\", \"count\": %llu, \"ns\": %llu, \"max_ns\": %llu}",
               i ? ", " : "", name, (unsigned long long)one->times, (unsigned long long)one->ns,
               (unsigned long long)one->max_ns);
    }
    printf("], \"switches\": {\"waiting\": %llu, \"preempted\": %llu}, \"migrations\": %llu",
           (unsigned long long)c.count[COUNT_SLEPT].times,
           (unsigned long long)c.count[COUNT_PREEMPTED].times,
           (unsigned long long)c.count[COUNT_MOVED].times);
}
