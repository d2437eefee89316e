/* SPDX-License-Identifier: MIT */
/* twin_site.h - what site_twin.c can beyond what site.c does: the cache. */
#ifndef TESTS_KERNEL_TWIN_SITE_H
#define TESTS_KERNEL_TWIN_SITE_H
#include "../../server/site_inside.h"
#include "twin.h"

/* Of the next site_open(); bytes are also taken from TWIN_CACHE_BYTES. */
struct twin_cache {
    size_t bytes;
    unsigned ms;
    bool compress;
    unsigned late_us; /* it waits up to so long before it looks whether anything has changed */
};
extern struct twin_cache site_twin_cache;

/* ksite_try(): what is in memory, or -EINPROGRESS. */
int site_twin_try(struct site *site, const struct http_ask *a, struct source **source);
/* The counters, in w. */
void site_twin_count(struct site *site, struct twin *w);

#endif
