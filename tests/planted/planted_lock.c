/* SPDX-License-Identifier: MIT */
/* planted_lock.c - a fault: two locks, taken in one order and then in the other.
 *
 * No thread waits here, because only one takes the locks; two threads could wait for ever.  Only
 * lockdep sees that before it happens.
 */
#include <linux/module.h>
#include <linux/spinlock.h>

static DEFINE_SPINLOCK(one);
static DEFINE_SPINLOCK(two);

static void both(spinlock_t *first, spinlock_t *second)
{
    spin_lock(first);
    spin_lock(second);
    spin_unlock(second);
    spin_unlock(first);
}

static int __init planted_init(void)
{
    both(&one, &two);
    both(&two, &one);
    return 0;
}

static void __exit planted_exit(void)
{
}

module_init(planted_init);
module_exit(planted_exit);
MODULE_DESCRIPTION("a planted fault: locks in two orders");
MODULE_LICENSE("Dual MIT/GPL");
