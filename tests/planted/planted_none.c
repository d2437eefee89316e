/* SPDX-License-Identifier: MIT */
/* planted_none.c - a module without a fault: it does right what the others do wrong.  The kernel
 * must not complain.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

static DEFINE_SPINLOCK(lock);

static int __init planted_init(void)
{
    char *bytes = kmalloc(48, GFP_KERNEL);

    if (!bytes)
        return -ENOMEM;
    spin_lock(&lock);
    memset(bytes, 1, 48);
    spin_unlock(&lock);
    msleep(1);
    kfree(bytes);
    return 0;
}

static void __exit planted_exit(void)
{
}

module_init(planted_init);
module_exit(planted_exit);
MODULE_DESCRIPTION("a module without a fault");
MODULE_LICENSE("Dual MIT/GPL");
