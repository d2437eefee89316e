/* SPDX-License-Identifier: MIT */
/* failed.c - what a core_assert() that fails does in user space: it says which promise of the core
 * was broken, and ends the process.
 *
 * A process that has broken its own promises must not go on serving; the supervisor starts another.
 */
#include <stdio.h>
#include <stdlib.h>
#include "../core/env.h"

void core_failed(const char *promise, const char *file, int line)
{
    fprintf(stderr, "rung: %s:%d: broken promise: %s\n", file, line, promise);
    abort();
}
