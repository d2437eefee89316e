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

static int costlier(const void *a, const void *b)
{
    const struct call *one = a, *other = b;

    if (one->count.ns != other->count.ns)
        return one->count.ns < other->count.ns ? 1 : -1;
    return one->number < other->number ? -1 : 1;
}

/* Lists the calls that were made, the one with the most time first; returns how many. */
static unsigned made(const struct call_count *count, struct call call[COUNT_CALLS])
{
    unsigned calls = 0;

    for (unsigned i = 0; i < COUNT_CALLS; i++)
        if (count[i].times)
            call[calls++] = (struct call){i, count[i]};
    qsort(call, calls, sizeof(call[0]), costlier);
    return calls;
}

enum { NAME_TEXT = 40 };

static void name_of(unsigned number, char text[NAME_TEXT])
{
    if (names[number])
        snprintf(text, NAME_TEXT, "%s", names[number]);
    else
        snprintf(text, NAME_TEXT, "call %u", number);
}

/* n for each request; "-": the number of requests is not known. */
static void each(uint64_t n, uint64_t requests, char text[NAME_TEXT])
{
    if (requests)
        snprintf(text, NAME_TEXT, "%.2f", (double)n / (double)requests);
    else
        snprintf(text, NAME_TEXT, "-");
}

static void put_switches(const struct call_count *count, uint64_t requests)
{
    char waited[NAME_TEXT], preempted[NAME_TEXT], moved[NAME_TEXT];

    each(count[COUNT_WAITED].times, requests, waited);
    each(count[COUNT_PREEMPTED].times, requests, preempted);
    each(count[COUNT_MOVED].times, requests, moved);
    printf("context switches a request: %s waiting, %s preempted; migrations a request: %s\n",
           waited, preempted, moved);
}

void calls_print(const struct call_count *count, uint64_t requests)
{
    static struct call call[COUNT_CALLS];
    unsigned calls = count ? made(count, call) : 0;
    char name[NAME_TEXT], times[NAME_TEXT];

    printf("\nsystem calls of the server\n");
    if (!count)
        printf("  not known\n");
    else if (!calls)
        printf("  none: it runs inside the kernel, or had nothing to do\n");
    else
        printf("  %-20s %10s %10s %10s %10s\n", "", "calls", "a request", "us each", "us at most");
    for (unsigned i = 0; i < calls; i++) {
        const struct call_count *one = &call[i].count;

        name_of(call[i].number, name);
        each(one->times, requests, times);
        printf("  %-20s %10llu %10s %10.1f %10.1f\n", name, (unsigned long long)one->times, times,
               (double)one->ns / 1e3 / (double)one->times, (double)one->max_ns / 1e3);
    }
    if (count)
        put_switches(count, requests);
}

void calls_print_times(const struct call_count *count, const uint64_t (*times)[CALL_STEPS])
{
    static struct call call[COUNT_CALLS];
    unsigned calls = made(count, call);
    struct step step[CALL_STEPS];
    char name[NAME_TEXT];

    for (unsigned i = 0; i < calls; i++) {
        name_of(call[i].number, name);
        histogram_put(name, "calls", step, histogram_steps(times[call[i].number], step));
    }
}

void calls_print_json(const struct call_count *count, const uint64_t (*times)[CALL_STEPS])
{
    struct step step[CALL_STEPS];
    static struct call call[COUNT_CALLS];
    unsigned calls = count ? made(count, call) : 0;
    char name[NAME_TEXT];

    if (!count) {
        printf(", \"calls\": null, \"switches\": null, \"migrations\": null");
        return;
    }
    printf(", \"calls\": [");
    for (unsigned i = 0; i < calls; i++) {
        const struct call_count *one = &call[i].count;

        name_of(call[i].number, name);
        printf("%s{\"call\": \"%s\", \"count\": %llu, \"ns\": %llu, \"max_ns\": %llu",
               i ? ", " : "", name, (unsigned long long)one->times, (unsigned long long)one->ns,
               (unsigned long long)one->max_ns);
        if (times)
            histogram_json(step, histogram_steps(times[call[i].number], step));
        printf("}");
    }
    printf("], \"switches\": {\"waiting\": %llu, \"preempted\": %llu}, \"migrations\": %llu",
           (unsigned long long)count[COUNT_WAITED].times,
           (unsigned long long)count[COUNT_PREEMPTED].times,
           (unsigned long long)count[COUNT_MOVED].times);
}
