/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* core_check.c - core_failed(), which reports a broken promise and is all that the core needs from
 * the kernel in addition to mem* and strlen; and the core's exports for other modules.
 */
#include <linux/bug.h>
#include <linux/module.h>
#include "../core/conn.h"

void core_failed(const char *promise, const char *file, int line)
{
    WARN_ONCE(1, "rung: broken promise: %s (%s:%d)\n", promise, file, line);
}

EXPORT_SYMBOL_GPL(core_failed);
EXPORT_SYMBOL_GPL(echo_proto);

MODULE_DESCRIPTION("rung: the core, and what serves connections inside the kernel");
MODULE_LICENSE("Dual MIT/GPL");
