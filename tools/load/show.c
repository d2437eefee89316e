/* SPDX-License-Identifier: MIT */
/* show.c - prints the first requests, the heads of their answers, and how they ended (--show).
 *
 * A request and what belongs to it have a number, because threads print at the same time and
 * answers come in any order with HTTP/2.  A terminal must not obey a server: bytes that cannot be
 * printed are escaped.
 */
#include <stdio.h>
#include "../../base/escape.h"
#include "question.h"

enum { LINE_BYTES = 1024 }; /* a longer one is cut */

static void show_head(unsigned number, char way, struct slice text)
{
    char safe[LINE_BYTES];
    struct slice line;

    flockfile(stderr);
    while (text.len && (line = take_line(&text)).len) {
        escape_quoted(safe, sizeof(safe), line);
        fprintf(stderr, "%u %c %s\n", number, way, safe);
    }
    funlockfile(stderr);
}

void show_request(struct worker *w, struct shot *s)
{
    unsigned before = atomic_fetch_add_explicit(&w->run->shown, 1, memory_order_relaxed);

    w->shows = before + 1 < w->plan->opt->show;
    if (before >= w->plan->opt->show)
        return;
    s->shown = (uint16_t)(before + 1);
    show_head(s->shown, '>', shot_text(w, s));
}

void show_answer(unsigned number, struct slice head)
{
    show_head(number, '<', head);
}

void show_end(const struct worker *w, const struct shot *s, const struct outcome *o)
{
    double ms = (double)(w->now_ns - s->sent_ns) / 1e6;

    if (o->fault)
        fprintf(stderr, "%u = %s, after %.3f ms\n", s->shown, fault_keys[o->fault], ms);
    else if (o->status)
        fprintf(stderr, "%u = %u, after %.3f ms\n", s->shown, o->status, ms);
    else
        fprintf(stderr, "%u = no answer before the end of the run\n", s->shown);
}
