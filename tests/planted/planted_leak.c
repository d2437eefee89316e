/* SPDX-License-Identifier: MIT */
/* planted_leak.c - a fault: three objects of the allocator, and a page from vmalloc(), that are
 * never freed, and that no pointer refers to.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

enum { LEAKED = 3 };

static int __init planted_init(void)
{
    int i;

    for (i = 0; i < LEAKED; i++) {
        char *bytes = kmalloc(48, GFP_KERNEL);

        if (bytes)
            memset(bytes, i, 48);
    }
    return vmalloc(PAGE_SIZE) ? 0 : -ENOMEM;
}

static void __exit planted_exit(void)
{
}

module_init(planted_init);
module_exit(planted_exit);
MODULE_DESCRIPTION("a planted fault: a leak");
MODULE_LICENSE("Dual MIT/GPL");
