/* SPDX-License-Identifier: MIT */
/* twin_site.h - what site_twin.c offers in addition to site.c: the cache. */
#ifndef TESTS_KERNEL_TWIN_SITE_H
#define TESTS_KERNEL_TWIN_SITE_H
#include "../../server/site_inside.h"
#include "twin.h"

/* For the next site_open(); bytes are also taken from TWIN_CACHE_BYTES. */
struct twin_cache {
    size_t bytes;
    unsigned ms;
    bool compress;
    unsigned late_us; /* longest delay before it checks whether anything has changed */
};
extern struct twin_cache site_twin_cache;

/* ksite_try(): the answer in memory, or -EINPROGRESS. */
int site_twin_try(struct site *site, const struct http_ask *a, struct source **source);
/* Put the counters into w. */
void site_twin_count(struct site *site, struct twin *w);

#endif
