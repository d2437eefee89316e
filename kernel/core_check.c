/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* core_check.c - what the core asks of the kernel beside mem* and strlen: somewhere to report a
 * broken promise.
 *
 * With it core/ links into a module without an init function: proof that the core is at home here.
 */
#include <linux/bug.h>
#include <linux/module.h>
#include "../core/env.h"

void core_failed(const char *promise, const char *file, int line)
{
    WARN_ONCE(1, "rung: broken promise: %s (%s:%d)\n", promise, file, line);
}

MODULE_DESCRIPTION("rung: the core, compiled for the kernel");
MODULE_LICENSE("Dual MIT/GPL");
