/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* core_check.c - core_failed(), which reports a broken promise.  It is all that the core needs from
 * the kernel in addition to mem* and strlen.
 */
#include <linux/bug.h>
#include <linux/export.h>
#include "../core/env.h"

void core_failed(const char *promise, const char *file, int line)
{
    WARN_ONCE(1, "rung: broken promise: %s (%s:%d)\n", promise, file, line);
}
EXPORT_SYMBOL_GPL(core_failed);
