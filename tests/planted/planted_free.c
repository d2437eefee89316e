/* SPDX-License-Identifier: MIT */
/* planted_free.c - a fault: an object is written to after it was freed.
 *
 * KASAN reports it at once.  Without KASAN the allocator fills the object with a pattern, if
 * slub_debug=P is set, and complains when it next hands the object out; so the module asks for more
 * objects.
 */
#include <linux/module.h>
#include <linux/slab.h>

enum { OBJECT_BYTES = 48, NEXT = 256 };
static char *next[NEXT];

static int __init planted_init(void)
{
    char *volatile bytes = kmalloc(OBJECT_BYTES, GFP_KERNEL);
    int i;

    if (!bytes)
        return -ENOMEM;
    kfree(bytes);
    bytes[OBJECT_BYTES / 2] = 'x';
    for (i = 0; i < NEXT; i++)
        next[i] = kmalloc(OBJECT_BYTES, GFP_KERNEL);
    while (i--)
        kfree(next[i]);
    return 0;
}

static void __exit planted_exit(void)
{
}

module_init(planted_init);
module_exit(planted_exit);
MODULE_DESCRIPTION("a planted fault: use after free");
MODULE_LICENSE("Dual MIT/GPL");
