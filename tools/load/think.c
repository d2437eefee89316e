/* SPDX-License-Identifier: MIT */
/* think.c - sessions: a pause between an answer and the next request of its connection (--think).
 *
 * A connection that pauses is in a heap, ordered by the time of waking: pauses have any length, and
 * the wheel of time-outs is too coarse for them.  If a connection is lost during its pause, it is
 * made again and the pause goes on; the first request of a connection follows at once.
 */
#include <math.h>
#include "worker.h"

static bool earlier(const struct worker *w, unsigned a, unsigned b)
{
    return w->sleeping[a]->wake_ns < w->sleeping[b]->wake_ns;
}

static void swap(struct worker *w, unsigned a, unsigned b)
{
    struct client *c = w->sleeping[a];

    w->sleeping[a] = w->sleeping[b];
    w->sleeping[b] = c;
}

static void push(struct worker *w, struct client *c)
{
    unsigned at = w->sleepers++;

    w->sleeping[at] = c;
    for (; at && earlier(w, at, (at - 1) / 2); at = (at - 1) / 2)
        swap(w, at, (at - 1) / 2);
}

static struct client *pop(struct worker *w)
{
    struct client *first = w->sleeping[0];
    unsigned at = 0, child;

    w->sleeping[0] = w->sleeping[--w->sleepers];
    while ((child = 2 * at + 1) < w->sleepers) {
        if (child + 1 < w->sleepers && earlier(w, child + 1, child))
            child++;
        if (!earlier(w, child, at))
            break;
        swap(w, at, child);
        at = child;
    }
    return first;
}

bool think_begin(struct worker *w, struct client *c)
{
    const struct load_options *o = w->plan->opt;
    double pause_ns = (double)o->think * 1e6;

    if (c->asleep)
        return true;
    if (!c->begun)
        return false;
    if (o->thinking == THINKING_EXPONENTIAL)
        pause_ns *= -log(worker_uniform(w));
    c->wake_ns = w->now_ns + (uint64_t)pause_ns;
    c->asleep = true;
    push(w, c);
    return true;
}

void think_end(struct worker *w)
{
    struct client *c;

    while (w->sleepers && w->sleeping[0]->wake_ns <= w->now_ns) {
        c = pop(w);
        c->asleep = false;
        if (w->stopping || !client_is_free(c))
            continue;
        w->now_ns = clock_ns();
        client_fill(w, c);
    }
}
