/* SPDX-License-Identifier: MIT */
/* planted_warn.c - a fault: a promise of ours is broken, and WARN_ONCE() reports it, as
 * core_failed() does.
 */
#include <linux/bug.h>
#include <linux/module.h>

static int __init planted_init(void)
{
    WARN_ONCE(1, "rung: broken promise: planted\n");
    return 0;
}

static void __exit planted_exit(void)
{
}

module_init(planted_init);
module_exit(planted_exit);
MODULE_DESCRIPTION("a planted fault: a broken promise");
MODULE_LICENSE("Dual MIT/GPL");
