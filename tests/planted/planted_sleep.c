/* SPDX-License-Identifier: MIT */
/* planted_sleep.c - a fault: it sleeps while it holds a spin lock.
 *
 * A kernel with DEBUG_ATOMIC_SLEEP complains wherever a thread might sleep; one without only when a
 * thread really does.  So this one really sleeps.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/spinlock.h>

static DEFINE_SPINLOCK(lock);

static int __init planted_init(void)
{
    spin_lock(&lock);
    msleep(20);
    spin_unlock(&lock);
    return 0;
}

static void __exit planted_exit(void)
{
}

module_init(planted_init);
module_exit(planted_exit);
MODULE_DESCRIPTION("a planted fault: sleep in atomic context");
MODULE_LICENSE("Dual MIT/GPL");
