/* SPDX-License-Identifier: MIT */
/* question.h - what is expected of the answer to a shot. */
#ifndef LOAD_QUESTION_H
#define LOAD_QUESTION_H
#include "workload.h"

/* The expected digest of an answer; NULL: there is none.  An answer to HEAD has no body to
 * compare. */
static inline struct reference *reference_of(const struct worker *w, uint32_t target)
{
    const struct target *t = &w->plan->target[target];

    if (t->file && t->method == HTTP_GET)
        return t->file;
    return w->reference ? &w->reference[target] : NULL;
}

static inline struct question question_of(const struct worker *w, const struct shot *s)
{
    const struct plan *p = w->plan;
    struct question q = {.plan = p, .target = &p->target[s->target], .shown = s->shown};

    if (w->digests && s->kind == KIND_PLAIN)
        q.reference = reference_of(w, s->target);
    if (p->fixed) {
        q.seen = &w->seen[s->target % SEEN_PLACES];
        return q;
    }
    if (p->echo) {
        q.message = p->pool + s->at;
        q.message_bytes = s->bytes;
    } else {
        q.asked = mix_asked(w, s);
    }
    return q;
}

/* The bytes of a shot, as HTTP/1.1 has them. */
static inline struct slice shot_text(const struct worker *w, const struct shot *s)
{
    if (!w->plan->fixed) {
        if (w->plan->echo)
            return (struct slice){w->plan->pool + s->at, s->bytes};
        if (s->kind != KIND_PLAIN)
            return mix_text(w, s);
    }
    return w->plan->target[s->target].request[s->last];
}

#endif
