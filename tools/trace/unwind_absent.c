/* SPDX-License-Identifier: MIT */
/* unwind_absent.c - takes the place of unwind.c where rung was built without libdw: stacks have no
 * frames of programs, and a message says so. */
#include <errno.h>
#include "stacks.h"

int space_open(struct space **to, pid_t pid)
{
    (void)pid;
    *to = NULL;
    return -ENOSYS;
}

unsigned space_unwind(struct space *space, const struct sample *s,
                      const char *name[UNWIND_FRAMES_MAX])
{
    (void)space;
    (void)s;
    (void)name;
    return 0;
}

void space_close(struct space *space)
{
    (void)space;
}
