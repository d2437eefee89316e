/* SPDX-License-Identifier: MIT */
/* planted_race.c - a fault: two threads count in the same word, and nothing orders them.
 *
 * Only KCSAN sees it.
 */
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/module.h>

enum { RACE_MS = 2000 };

static unsigned long count;

static noinline int planted_count(void *arg)
{
    while (!kthread_should_stop()) {
        count++;
        cond_resched();
    }
    return 0;
}

static int __init planted_init(void)
{
    struct task_struct *one = kthread_run(planted_count, NULL, "planted one");
    struct task_struct *two = kthread_run(planted_count, NULL, "planted two");

    msleep(RACE_MS);
    if (!IS_ERR(one))
        kthread_stop(one);
    if (!IS_ERR(two))
        kthread_stop(two);
    return 0;
}

static void __exit planted_exit(void)
{
}

module_init(planted_init);
module_exit(planted_exit);
MODULE_DESCRIPTION("a planted fault: a race for data");
MODULE_LICENSE("Dual MIT/GPL");
