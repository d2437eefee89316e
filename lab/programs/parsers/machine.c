/* SPDX-License-Identifier: MIT */
/* machine.c - the beginning and the end of the parsers of states.def; switch.c, goto.c and
 * direct.c have the part between. */
#include "machine.h"

void machine_begin(void *state)
{
    struct machine *m = state;

    memset(m, 0, offsetof(struct machine, told) + offsetof(struct parsed, field));
}

void machine_tell(const void *state, struct parsed *told)
{
    const struct machine *m = state;

    *told = m->told;
}

const char *never_missing(void)
{
    return NULL;
}
