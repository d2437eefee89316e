/* SPDX-License-Identifier: MIT */
/* switch.h - the states as a switch in a loop: one jump, shared by all states.
 *
 * Included once for each way to compile it. */
#include "machine.h"

#define HERE (m->fed + (uint32_t)(p - bytes))
#define GO(next) { state = next; continue; }
#define REFUSE(why) { m->told.status = why; goto out; }

static void feed(void *machine, const char *bytes, size_t n)
{
    struct machine *m = machine;
    enum state state = m->state;
    const char *p, *end = bytes + n;
    unsigned char c;

    for (p = bytes; p < end; p++) {
        c = (unsigned char)*p;
        switch (state) {
#define STATE(name, ...) case name: __VA_ARGS__
#include "states.def"
        }
    }
out:
    m->state = state;
    m->fed += (uint32_t)n;
}
