/* SPDX-License-Identifier: MIT */
/* run.c - traces one port, or several at the same time: reads the programs' events and makes
 * requests, times and a tally of them.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include "interrupt.h"
#include "trace.h"

enum {
    LOOK_EVERY_MS = 20,
    LOOK_SOON_MS = 1, /* ... after a look that found MANY */
    MANY = 1000
};

/* --- What happens to a request ---------------------------------------------------------------- */

static void finish(void *arg, const struct request *r)
{
    struct run *run = arg;
    struct stages stages;

    stages_of(r, &stages);
    if (run->done || !keep(run->opt, r, &stages))
        return;
    tally_add(&run->tally, r, &stages);
    if (run->views)
        views_request(run->views, r, &stages);
    run->done = run->opt->count && run->tally.shown >= run->opt->count;
}

static bool see(void *arg, const struct event *e)
{
    struct run *run = arg;

    if (run->until_ns && e->ns >= run->until_ns)
        return false;
    run->events++;
    if (e->kind == EVENT_RECV && run->views)
        views_received(run->views, e->pid);
    flows_event(&run->flows, e, (const char *)(e + 1)); /* e has left the ring in any case */
    return !interrupted() && !run->done;
}

/* --- From begin to end ------------------------------------------------------------------------ */

int run_begin(struct run **to, const struct trace_options *opt, unsigned port)
{
    struct run *run = calloc(1, sizeof(*run));

    *to = run;
    if (!run || tally_init(&run->tally, (unsigned)opt->slowest) < 0) {
        say_error("out of memory");
        return EXIT_FAILED;
    }
    run->opt = opt;
    run->port = port;
    flows_init(&run->flows, finish, run);
    interrupt_catch();
    return attach_begin(&run->attached, opt, port);
}

/* True: one of the runs had many events, and more may be waiting. */
static bool look(struct run *const run[], unsigned runs, int *err)
{
    bool many = false;

    for (unsigned i = 0; i < runs && !*err; i++) {
        run[i]->events = 0;
        *err = attach_read(run[i]->attached, see, run[i]);
        many = many || run[i]->events > MANY;
    }
    return many;
}

static void start(struct run *const run[], unsigned runs)
{
    uint64_t now = now_ns(CLOCK_MONOTONIC);

    for (unsigned i = 0; i < runs; i++) {
        run[i]->flows.sends_known = attach_sees_sends(run[i]->attached);
        run[i]->start_ns = now;
        run[i]->until_ns = run[i]->opt->duration ? now + run[i]->opt->duration * 1000000 : 0;
        attach_calls_until(run[i]->attached, run[i]->until_ns);
    }
}

static void note_lacks(struct run *run)
{
    const char *lacks;
    unsigned at = 0;
    size_t len = 0;

    while ((lacks = attach_lacks(run->attached, &at)) != NULL) {
        snprintf(run->lacks + len, sizeof(run->lacks) - len, "%s\n", lacks);
        len += strlen(run->lacks + len);
    }
}

static void stop(struct run *const run[], unsigned runs, int *err)
{
    uint64_t now = now_ns(CLOCK_MONOTONIC);

    for (unsigned i = 0; i < runs; i++) {
        run[i]->until_ns = run[i]->until_ns && run[i]->until_ns < now ? run[i]->until_ns : now;
        attach_calls_until(run[i]->attached, run[i]->until_ns);
    }
    interrupt_clear();
    look(run, runs, err); /* events from before the end */
    for (unsigned i = 0; i < runs; i++) {
        flows_end(&run[i]->flows);
        attach_counts(run[i]->attached, &run[i]->counts);
        run[i]->calls_known = attach_calls(run[i]->attached, run[i]->calls);
        if (run[i]->calls_known && run[i]->opt->histogram)
            attach_call_times(run[i]->attached, run[i]->call_times);
        note_lacks(run[i]);
        run[i]->seconds = (double)(now - run[i]->start_ns) / 1e9;
    }
}

bool run_watch(struct run *const run[], unsigned runs)
{
    struct timespec pause = {0, 0};
    bool more = true;
    int err = 0;

    start(run, runs);
    if (run[0]->views)
        views_tick(run[0]->views, run[0]->start_ns);
    while (!err && more && !interrupted() && !run[0]->done) {
        bool many = look(run, runs, &err);

        pause.tv_nsec = (many ? LOOK_SOON_MS : LOOK_EVERY_MS) * 1000000;
        more = !run[0]->until_ns || now_ns(CLOCK_MONOTONIC) < run[0]->until_ns;
        if (run[0]->views && !views_tick(run[0]->views, now_ns(CLOCK_MONOTONIC)))
            break;
        if (fflush(stdout) != 0)
            err = -errno;
        if (more)
            nanosleep(&pause, NULL);
    }
    stop(run, runs, &err);
    if (err)
        say_error("cannot go on tracing: %s", say_why(err));
    return !err;
}

void run_end(struct run *run)
{
    if (!run)
        return;
    attach_end(run->attached);
    tally_free(&run->tally);
    free(run);
}
