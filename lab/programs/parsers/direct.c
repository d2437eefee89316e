/* SPDX-License-Identifier: MIT */
/* direct.c - the states as labels, with a direct jump to the label of the next state: the table of
 * labels is read once for each piece. */
#include "machine.h"

#define HERE (m->fed + (uint32_t)(p - bytes))
#define GO(next) { state = next; if (++p == end) goto out; c = (unsigned char)*p; goto next##_; }
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

    if (p == end)
        goto out;
    c = (unsigned char)*p;
    goto *labels[state];
#define STATE(name, ...) name##_: __VA_ARGS__
#include "states.def"
out:
    m->state = state;
    m->fed += (uint32_t)n;
}

const struct parser parser_direct = {
    .name = "direct",
    .words = "each byte jumps straight to the next state's label",
    .ours = true,
    .resumes = true,
    .missing = never_missing,
    .begin = machine_begin,
    .feed = feed,
    .tell = machine_tell,
};
