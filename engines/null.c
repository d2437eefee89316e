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
#include "../base/clock.h"
#include "../server/bench.h"
#include "engine.h"

enum {
    ROUNDS = 7,
    ROUND_NS = 20000000, /* long enough for the clock, short enough to fit between interruptions */
    BATCH = 64,          /* requests between two looks at the clock */
    PARTS_MAX = 8
};

static double round_ns(const struct bench_case *part, struct bench *b)
{
    uint64_t began = clock_ns();
    double ns;
    unsigned long requests = 0;

    do {
        for (unsigned i = 0; i < BATCH; i++)
            part->once(b);
        requests += BATCH;
        ns = (double)(clock_ns() - began);
    } while (ns < ROUND_NS);
    return ns / (double)requests;
}

/* ns per request, or -1: it could not be measured. */
static double measure(const struct bench_case *part, struct bench *b)
{
    double best = 0;

    for (unsigned i = 0; i < ROUNDS; i++) {
        double ns = round_ns(part, b);

        best = i == 0 || ns < best ? ns : best;
    }
    return bench_failed(b) ? -1 : best;
}

/* The time of a part without the parts that are contained in it. */
static double own(const struct bench_case *part, const double ns[PARTS_MAX], double whole)
{
    for (unsigned k = 0; k < PARTS_MAX; k++)
        if (part->less & 1u << k)
            whole -= ns[k];
    return whole > 0 ? whole : 0;
}

/* False: some part could not be measured. */
static bool script_print(struct worker *w, struct bench *b, const char *name)
{
    double ns[PARTS_MAX] = {0};
    unsigned count;
    const struct bench_case *part = bench_cases(&count);
    bool all = true;

    printf("%s, a request of %zu bytes: ns per request\n", name, bench_bytes(b));
    for (unsigned i = 0; i < count && i < PARTS_MAX && !atomic_load(w->stopping); i++) {
        ns[i] = measure(&part[i], b);
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
    struct bench *b;
    struct loop *l;
    const char *name;
    int err = loop_open(w, &l);

    if (err)
        return err;
    err = bench_open(l, &b);
    for (unsigned i = 0; !err && (name = bench_script(b, i)) && !atomic_load(w->stopping); i++)
        if (!script_print(w, b, name))
            printf("  - could not be replayed: the folder's own page is not a file\n");
    if (!err) {
        printf("best of %d rounds of %d ms; again: rung --engine null [DIR]\n", ROUNDS,
               ROUND_NS / 1000000);
        bench_close(b);
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
