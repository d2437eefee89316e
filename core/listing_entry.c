/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* listing_entry.c - the entry that every form of a listing writes next: held until it is written
 * whole, counted, linked if its name may be asked for.
 */
#include "listing_out.h"

void listing_count(struct listing *l, const struct listing_entry *e)
{
    if (e->kind == LISTING_FOLDER)
        l->folders++;
    else if (e->kind == LISTING_FILE)
        l->files++;
    else
        l->others++;
    if (e->kind == LISTING_FILE && !e->unknown)
        l->bytes += e->size;
}

enum listing_step listing_hold(struct listing *l)
{
    if (!l->holds)
        l->holds = l->entry(l->ctx, &l->held);
    return l->holds ? STEP_AGAIN : l->dry ? STEP_DRY : STEP_DONE;
}

bool listing_links(const struct listing *l)
{
    const struct listing_entry *e = &l->held;

    return e->kind <= LISTING_FILE && path_links(l->path, e->name, e->kind == LISTING_FOLDER);
}

enum listing_step listing_wrote(struct listing *l, const struct listing_out *o)
{
    if (o->full)
        return STEP_FULL;
    if (l->streamed)
        listing_count(l, &l->held);
    l->holds = false;
    l->begun = true;
    return STEP_AGAIN;
}
