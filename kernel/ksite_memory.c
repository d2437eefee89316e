/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* ksite_memory.c - what the site remembers of its files: asked before the disk is, filled after.
 *
 * A question is a path and the order in which the client likes codings, of which there are sixteen:
 * all that choose_coding() makes of sixteen million weights.  Where there is but one answer the
 * order does not matter.  Names with a symbolic link on their way are not kept, so that no link
 * need be watched; neither is what kwitness.c cannot vouch for.
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

/* The codings that may be sent, the best first, as choose_coding() weighs them. */
static uint8_t order_of(const uint16_t q[CODINGS])
{
    unsigned order = 0, place;
    bool taken[CODINGS] = {false};
    enum coding best, coding;

    for (place = 0; place < CODINGS - 1; place++) {
        best = CODING_IDENTITY;
        for (coding = CODINGS - 1; coding > CODING_IDENTITY; coding--)
            if (!taken[coding] && http_prefers(q, coding, best))
                best = coding;
        taken[best] = true;
        order |= (unsigned)best << 2 * place;
    }
    return (uint8_t)order;
}

int ksite_try(struct ksite *site, const struct http_ask *ask, struct source **source)
{
    const struct kcache_key key = {ask->path, order_of(ask->q)};
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
}

/* Whether a name leads to a path without a symbolic link. */
static bool is_straight(const struct ksite *site, const char *name, const struct path *path)
{
    struct path found;
    bool same;

    if (ksite_look(&site->root, name, LOOKUP_NO_SYMLINKS, &found))
        return false;
    same = path_equal(&found, path);
    path_put(&found);
    return same;
}

/* ... and so does the name of what is sent in its place, if anything is. */
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

void ksite_keep(struct ksite *site, const struct ksite_kept *kept, struct ksite_source **source)
{
    const struct source *s = &(*source)->source;
    const uint16_t *q = kept->ask->q;
    bool compresses = type_compresses(s->type);
    const struct kcache_key key = {kept->ask->path, s->vary ? order_of(q) : KCACHE_ANY_ORDER};
    const struct kcache_fill fill = {
        .source = s,
        .root = &site->root,
        .asked = kept->asked,
        .sent = kept->sent,
        .siblings = site->precompressed && compresses,
        .gzip = site->compress && compresses && s->coding == CODING_IDENTITY &&
                http_prefers(q, CODING_GZIP, CODING_IDENTITY),
    };
    struct source *cached;

    if (!site->cache || s->size > KCACHE_BODY_BYTES_MAX || !are_straight(site, kept, s->coding) ||
        kcache_keep(site->cache, &key, &fill, &cached))
        return;
    ksite_release(site, &(*source)->source);
    *source = container_of(cached, struct ksite_source, source);
}
