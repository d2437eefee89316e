/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kworld.c - a folder as a server's world: passes the core's questions to the function of the site
 * that reaches as far as a search may (enum kreach).
 *
 * The functions here are in rung_core, as the site is, because a call that waits for a file system
 * may outlive rung_http (kopen.c).
 */
#include <linux/export.h>
#include "kserve.h"
#include "ksite.h"

static int folder_find(void *ctx, const struct http_ask *ask, enum kreach reach,
                       struct source **source)
{
    if (reach == KREACH_MEMORY)
        return ksite_try(ctx, ask, source);
    return ksite_find(ctx, ask, reach == KREACH_AWAY, source);
}

static int folder_page(void *ctx, unsigned status, enum kreach reach, struct source **source)
{
    return reach == KREACH_MEMORY ? -EINPROGRESS : ksite_page(ctx, status, source);
}

static void folder_release(void *ctx, struct source *source)
{
    ksite_release(ctx, source);
}

static void folder_close(void *ctx)
{
    ksite_close(ctx);
}

void kworld_of_folder(struct kworld *world, struct ksite *site)
{
    *world = (struct kworld){
        .proto = &http_proto,
        .ctx = site,
        .find = folder_find,
        .page = folder_page,
        .release = folder_release,
        .close = folder_close,
    };
}
EXPORT_SYMBOL_GPL(kworld_of_folder);
EXPORT_SYMBOL_GPL(ksite_open);
EXPORT_SYMBOL_GPL(ksite_count);
