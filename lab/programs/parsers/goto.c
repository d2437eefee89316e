/* SPDX-License-Identifier: MIT */
/* goto.c - the states as labels in a table: each state ends with a jump of its own through the
 * table, so that a predictor sees one jump for each state. */
#include "machine.h"

#define HERE (m->fed + (uint32_t)(p - bytes))
#define DISPATCH() { if (p == end) goto out; c = (unsigned char)*p; goto *labels[state]; }
#define GO(next) { state = next; p++; DISPATCH() }
#define REFUSE(why) { m->told.status = why; goto out; }

static void feed(void *machine, const char *bytes, size_t n)
{
    static const void *const labels[] = {
#define STATE(name, ...) &&name##_,
#include "states.def"
#undef STATE
    };
    struct machine *m = machine;
    enum state state = m->state;
    const char *p = bytes, *end = bytes + n;
    unsigned char c;

    DISPATCH()
#define STATE(name, ...) name##_: __VA_ARGS__
#include "states.def"
out:
    m->state = state;
    m->fed += (uint32_t)n;
}

const struct parser parser_goto = {
    .name = "goto",
    .words = "each byte jumps through a table of labels",
    .ours = true,
    .resumes = true,
    .missing = never_missing,
    .begin = machine_begin,
    .feed = feed,
    .tell = machine_tell,
};
