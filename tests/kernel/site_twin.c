/* SPDX-License-Identifier: MIT */
/* site_twin.c - the functions of server/site.c, answered by the kernel's site (twin.h).  Linked in
 * front of site.c, they turn its unit tests into tests of the kernel's site.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "twin_site.h"

/* The kernel allows all listings together less memory than user space does.  Memory that a test has
 * charged is adjusted so that the same amount is left. */
enum { KERNEL_LISTINGS_BYTES_MAX = 64 << 20 };

struct twin_source {
    struct source source;
    struct site *site;
    unsigned number;
    int fd;
    char type[TWIN_TYPE_BYTES];
};

struct twin_cache site_twin_cache;

/* shared.listings_bytes: ours, as last reported by the kernel, plus the amount that a test
 * added. */
static size_t told;
static struct site_shared shared;
static pthread_mutex_t telling = PTHREAD_MUTEX_INITIALIZER;

static long ask(struct site *site, struct twin *w)
{
    size_t foreign;
    long result;

    pthread_mutex_lock(&telling);
    foreign = atomic_load(&shared.listings_bytes) - told;
    pthread_mutex_unlock(&telling);
    w->charged = (int64_t)foreign;
    if (foreign)
        w->charged -= (int64_t)SITE_LISTINGS_BYTES_MAX - KERNEL_LISTINGS_BYTES_MAX;
    result = ioctl(site->root_fd, TWIN_ASK, w);
    if (result < 0)
        result = -errno;
    pthread_mutex_lock(&telling);
    atomic_fetch_add(&shared.listings_bytes, (size_t)w->listings_bytes - told);
    told = (size_t)w->listings_bytes;
    pthread_mutex_unlock(&telling);
    return result;
}

int site_open(struct site **site, const struct site_options *opt, const char **why)
{
    struct site *s = calloc(1, sizeof(*s));
    const char *bytes = getenv("TWIN_CACHE_BYTES");
    struct twin w = {
        .op = TWIN_OPEN,
        .first = (uintptr_t)opt->root,
        .first_len = strlen(opt->root),
        .second = (uintptr_t)opt->rules.index,
        .second_len = opt->rules.index ? strlen(opt->rules.index) : 0,
        .listing = opt->rules.listing,
        .hidden = opt->rules.hidden,
        .precompressed = opt->rules.precompressed,
        .listing_max = (uint32_t)opt->rules.entries_max,
        .cache_bytes = bytes ? strtoul(bytes, NULL, 10) : site_twin_cache.bytes,
        .cache_ms = site_twin_cache.ms ? site_twin_cache.ms : 2000,
        .compress = site_twin_cache.compress,
        .late_us = site_twin_cache.late_us,
    };
    int err;

    *why = "open folder";
    if (!s)
        return -ENOMEM;
    told = 0;
    atomic_store(&shared.listings_bytes, 0);
    s->shared = &shared;
    s->root_fd = open(TWIN_DEVICE, O_RDWR | O_CLOEXEC);
    err = s->root_fd < 0 ? -errno : (int)ask(s, &w);
    if (err) {
        site_close(s);
        return err;
    }
    *site = s;
    return 0;
}

void site_close(struct site *site)
{
    if (!site)
        return;
    if (site->root_fd >= 0)
        close(site->root_fd);
    free(site);
}

static size_t next(struct source *source, char *buf, size_t cap)
{
    struct twin_source *s = (struct twin_source *)source;
    struct twin w = {
        .op = TWIN_NEXT, .source = s->number, .first = (uintptr_t)buf, .first_len = cap};
    long n = ask(s->site, &w);

    if (n < 0) {
        fprintf(stderr, "the kernel's site: next: %ld\n", n);
        abort();
    }
    return (size_t)n;
}

/* Make a source of the result of a request. */
static int source_of(struct site *site, const struct twin *w, struct source **source)
{
    struct twin_source *s = calloc(1, sizeof(*s));

    if (!s)
        return -ENOMEM;
    memcpy(s->type, w->type, sizeof(s->type));
    s->site = site;
    s->number = w->source;
    s->fd = -1;
    s->source = (struct source){
        .kind = (enum source_kind)w->kind,
        .coding = (enum coding)w->coding,
        .vary = w->vary,
        .size = w->size,
        .type = s->type,
        .inode = w->inode,
        .mtime_s = w->mtime_s,
        .mtime_ns = w->mtime_ns,
        .ctime_s = w->ctime_s,
        .ctime_ns = w->ctime_ns,
        .young = w->young != 0,
    };
    if (w->kind == SOURCE_MADE && !w->in_memory)
        s->source.next = next;
    else if (w->kind == SOURCE_BODY && !w->in_memory)
        s->source.file = s;
    if (w->in_memory) {
        char *bytes = malloc(w->size + 1);

        if (!bytes || (w->size && next(&s->source, bytes, w->size) != w->size))
            abort();
        s->source.bytes = bytes;
    }
    *source = &s->source;
    return 0;
}

static int question(struct site *site, const struct http_ask *a, struct twin *w)
{
    *w = (struct twin){
        .op = w->op,
        .first = (uintptr_t)a->path.ptr,
        .first_len = a->path.len,
        .second = (uintptr_t)a->query.ptr,
        .second_len = a->query.len,
        .json = a->json,
        .text = a->text,
        .head = a->head,
    };

    memcpy(w->q, a->q, sizeof(w->q));
    return (int)ask(site, w);
}

int site_twin_try(struct site *site, const struct http_ask *a, struct source **source)
{
    struct twin w = {.op = TWIN_TRY};
    int err = question(site, a, &w);

    return err ? err : source_of(site, &w, source);
}

void site_twin_count(struct site *site, struct twin *w)
{
    *w = (struct twin){.op = TWIN_COUNT};
    if (ask(site, w))
        abort();
}

int site_find(struct site *site, const struct http_ask *a, bool may_block, struct source **source)
{
    struct twin w = {.op = TWIN_FIND};
    int err = question(site, a, &w);

    if (err)
        return err;
    err = source_of(site, &w, source);
    if (!err && w.kind == SOURCE_MADE && !w.in_memory && !may_block && !a->head) {
        site_release(site, *source); /* the kernel's lanes may block, or do not ask */
        return -EINPROGRESS;
    }
    return err;
}

int site_page(struct site *site, unsigned status, struct source **source)
{
    struct twin w = {.op = TWIN_PAGE, .status = status};
    int err = (int)ask(site, &w);

    return err ? err : source_of(site, &w, source);
}

void site_release(struct site *site, struct source *source)
{
    struct twin_source *s = (struct twin_source *)source;
    struct twin w = {.op = TWIN_RELEASE, .source = s->number};

    if (s->fd >= 0)
        close(s->fd);
    free((void *)s->source.bytes);
    free(s);
    ask(site, &w);
}

int site_source_fd(const struct source *source)
{
    struct twin_source *s = (struct twin_source *)source;
    struct twin w = {.op = TWIN_FILE, .source = s->number};

    if (s->fd < 0)
        s->fd = (int)ask(s->site, &w);
    return s->fd < 0 ? -1 : s->fd;
}
