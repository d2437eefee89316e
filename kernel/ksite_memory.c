/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* ksite_memory.c - what the site remembers of its files and folders: asked before the disk is, and
 * filled afterwards.
 *
 * A question is a path and the order in which the client likes codings (http_order()).  If there is
 * only one answer, the order does not matter.  For a folder the question has a view as well, one of
 * eighteen.  A listing with a filter, or cut into pages, is not kept, because few clients ask for
 * the same one.  Names with a symbolic link on their way are not kept, so that no link need be
 * watched; neither are answers that kstamp.c cannot vouch for.
 */
#include <linux/slab.h>
#include "../core/types.h"
#include "kcache.h"
#include "kcompat.h"

int ksite_remember(struct ksite *site, const struct ksite_options *opt)
{
    const struct kcache_options wanted = {opt->cache_bytes, opt->cache_ms, opt->compress};

    site->compress = opt->cache_bytes && opt->compress;
    return opt->cache_bytes ? kcache_open(&site->cache, &wanted) : 0;
}

/* The view as a number, for a name that ends with a slash. */
enum { VIEW_RARE = 0xfe, VIEW_COLUMNS = 3 };
static noinline uint8_t view_of_folder(const struct http_ask *ask)
{
    struct listing_view view;

    listing_view_read(&view, ask);
    if (view.filter_len || view.offset || view.limit)
        return VIEW_RARE;
    return (uint8_t)((view.format * VIEW_COLUMNS + view.sort) * 2 + view.descending);
}

static uint8_t view_of(const struct http_ask *ask)
{
    return ask->path.ptr[ask->path.len - 1] == '/' ? view_of_folder(ask) : 0;
}

int ksite_try(struct ksite *site, const struct http_ask *ask, struct source **source)
{
    const struct kcache_key key = {ask->path, http_order(ask->q), view_of(ask)};
    struct source *found = site->cache ? kcache_find(site->cache, &key) : NULL;

    if (!found)
        return -EINPROGRESS;
    *source = found;
    return 0;
}

void ksite_count(struct ksite *site, struct ksite_counts *counts)
{
    if (site->cache)
        kcache_count(site->cache, counts);
    else
        *counts = (struct ksite_counts){0};
    counts->listing_bytes = (u64)(atomic_long_read(&site->listings_bytes) +
                                  atomic_long_read(&site->dents_bytes));
    counts->walks = (u64)atomic_long_read(&site->walks);
}

/* Whether a name leads to that path without a symbolic link. */
static bool is_straight(const struct ksite *site, const char *name, const struct path *path)
{
    struct path found;
    bool same;

    if (ksite_look(&site->root, name, LOOKUP_NO_SYMLINKS | LOOKUP_NO_XDEV, &found))
        return false;
    same = path_equal(&found, path);
    path_put(&found);
    return same;
}

/* ... and so does the name of the sibling that is sent in its place, if there is one. */
static bool are_straight(const struct ksite *site, const struct ksite_kept *kept,
                         enum coding coding)
{
    const char *suffix = http_coding_suffix(coding);
    bool straight = is_straight(site, kept->name, kept->asked);
    char *name;

    if (!straight || coding == CODING_IDENTITY)
        return straight;
    name = kasprintf(GFP_KERNEL, "%s%s", kept->name, suffix);
    straight = name && is_straight(site, name, kept->sent);
    kfree(name);
    return straight;
}

static struct kcache_fill fill_of(const struct ksite *site, const struct ksite_kept *kept)
{
    return (struct kcache_fill){
        .root = &site->root,
        .asked = kept->asked,
        .sent = kept->sent,
        .seen = kept->seen,
        .since = kept->since,
    };
}

u64 ksite_seen(const struct ksite *site, const struct path *file)
{
    const struct kcache_fill fill = {
        .root = &site->root, .asked = file, .sent = file, .siblings = true};

    return site->cache ? kstamp_sum(&fill) : 0;
}

void ksite_before(struct ksite *site, struct ksite_kept *kept)
{
    const struct kcache_fill fill = fill_of(site, kept);

    if (!site->cache)
        return;
    kept->since = jiffies;
    kept->rested = ktime_get_real_seconds() - KCACHE_LISTING_AGE_MS / MSEC_PER_SEC;
    kept->seen = kstamp_sum(&fill);
}

/* Whether the answer may be found again.  For a file, all that was looked at since ksite_seen()
 * must be unchanged.  The sum for the witness is taken before the names are walked, because the
 * permission to walk them is part of it. */
static bool is_lasting(const struct ksite *site, const struct ksite_kept *kept,
                       const struct ksite_source *s, struct kcache_fill *fill)
{
    if (s->folder) {
        if (view_of(kept->ask) == VIEW_RARE || !kfolder_rests(s->folder, kept->rested))
            return false;
    } else {
        fill->seen = kstamp_sum(fill);
        if (kept->seen != ksite_seen(site, kept->asked))
            return false;
    }
    return kept->seen && fill->seen && are_straight(site, kept, s->source.coding);
}

struct source *ksite_keep(struct ksite *site, const struct ksite_kept *kept,
                          struct ksite_source *s)
{
    struct kcache_fill fill = fill_of(site, kept);
    bool made = s->folder, compresses = type_compresses(s->source.type);
    const uint16_t *q = kept->ask->q;
    const struct kcache_key key = {kept->ask->path, s->source.vary ? http_order(q) : KCACHE_ANY,
                                   made ? view_of(kept->ask) : KCACHE_ANY};
    struct source *cached;

    if (!site->cache || s->source.size > KCACHE_BODY_BYTES_MAX ||
        (made && s->folder->listing.streamed))
        return NULL;
    fill.source = &s->source;
    fill.siblings = !made && site->rules.precompressed && compresses;
    fill.gzip = site->compress && compresses && s->source.coding == CODING_IDENTITY &&
                http_prefers(q, CODING_GZIP, CODING_IDENTITY);
    fill.lasting = is_lasting(site, kept, s, &fill);
    if (!fill.lasting && !made)
        return NULL;
    if (kcache_keep(site->cache, &key, &fill, &cached)) {
        if (made)
            folder_rewind(s->folder);
        return NULL;
    }
    return cached;
}
