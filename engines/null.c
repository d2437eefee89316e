/* SPDX-License-Identifier: MIT */
/* null.c - no sockets, no clients, no waiting: what a request costs when nothing is paid to the
 * kernel for it.
 *
 * The idea: replay one request through the machine that all engines share, many times, and divide.
 * This cost is the floor under every other engine's figures; whatever an engine needs on top is the
 * price of its way to wait and to move bytes.  Each figure is the best of several rounds: noise
 * only ever adds.  As the base for all the others, null comes last in the list.
 */
#include <errno.h>
#include <stdio.h>
#include <time.h>
#include "engine.h"

enum {
    ROUNDS = 7,
    ROUND_NS = 20000000, /* long enough for the clock, short enough to fit between interruptions */
    BATCH = 64,          /* requests between two looks at the clock */
    PARTS_MAX = 8
};

static double clock_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static double round_ns(const struct part *part, struct rehearsal *r)
{
    double began = clock_ns(), ns;
    unsigned long requests = 0;

    do {
        for (unsigned i = 0; i < BATCH; i++)
            part->once(r);
        requests += BATCH;
        ns = clock_ns() - began;
    } while (ns < ROUND_NS);
    return ns / (double)requests;
}

/* ns per request, or -1: it could not be replayed. */
static double measure(const struct part *part, struct rehearsal *r)
{
    double best = 0;

    for (unsigned i = 0; i < ROUNDS; i++) {
        double ns = round_ns(part, r);

        best = i == 0 || ns < best ? ns : best;
    }
    return rehearsal_failed(r) ? -1 : best;
}

/* The time of a part without the parts that are contained in it. */
static double own(const struct part *part, const double ns[PARTS_MAX], double whole)
{
    for (unsigned k = 0; k < PARTS_MAX; k++)
        if (part->less & 1u << k)
            whole -= ns[k];
    return whole > 0 ? whole : 0;
}

/* False: some part could not be measured. */
static bool script_print(struct worker *w, struct rehearsal *r, const char *name)
{
    double ns[PARTS_MAX] = {0};
    unsigned count;
    const struct part *part = rehearsal_parts(&count);
    bool all = true;

    printf("%s, a request of %zu bytes: ns per request\n", name, rehearsal_bytes(r));
    for (unsigned i = 0; i < count && i < PARTS_MAX && !atomic_load(w->stopping); i++) {
        ns[i] = measure(&part[i], r);
        all &= ns[i] >= 0;
        if (ns[i] < 0)
            printf("  %-8s       -  %s\n", part[i].name, part[i].what);
        else
            printf("  %-8s %7.0f  %s\n", part[i].name, own(&part[i], ns, ns[i]), part[i].what);
    }
    return all;
}

static int null_run(struct worker *w)
{
    struct rehearsal *r;
    struct loop *l;
    const char *name;
    int err = loop_open(w, &l);

    if (err)
        return err;
    err = rehearsal_open(l, &r);
    for (unsigned i = 0; !err && (name = rehearsal_script(r, i)) && !atomic_load(w->stopping); i++)
        if (!script_print(w, r, name))
            printf("  - could not be replayed: the folder's own page is not a file\n");
    if (!err) {
        printf("best of %d rounds of %d ms; again: rung --engine null [DIR]\n", ROUNDS,
               ROUND_NS / 1000000);
        rehearsal_close(r);
    }
    loop_close(l);
    return err;
}

const struct engine engine_null = {
    .name = "null",
    .summary = "no sockets: prints what a request costs without the kernel",
    .use = "you want to measure the protocol alone",
    .model = ENGINE_NONE,
    .may_block = false,
    .capacity = ENGINE_DESCRIPTORS,
    .run = null_run,
};
