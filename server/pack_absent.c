/* SPDX-License-Identifier: MIT */
/* pack_absent.c - stands for pack.c where libarchive is not installed, and in the static program,
 * because libarchive needs a dozen more libraries. */
#include <errno.h>
#include "pack.h"

bool pack_can(void)
{
    return false;
}

int pack_open(struct pack **pack, enum pack_form form, struct pack_sink sink)
{
    (void)pack;
    (void)form;
    (void)sink;
    return -ENOSYS;
}

int pack_begin(struct pack *p, const struct pack_entry *entry)
{
    (void)p;
    (void)entry;
    return -ENOSYS;
}

int pack_write(struct pack *p, const void *bytes, size_t n)
{
    (void)p;
    (void)bytes;
    (void)n;
    return -ENOSYS;
}

int pack_end(struct pack *p)
{
    (void)p;
    return -ENOSYS;
}

int pack_finish(struct pack *p)
{
    (void)p;
    return -ENOSYS;
}

void pack_close(struct pack *p)
{
    (void)p;
}
