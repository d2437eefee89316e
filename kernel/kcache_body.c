/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kcache_body.c - the bytes of an entry: read from a file or made, and compressed where that saves.
 *
 * A body lies in whole pages of the page allocator, so that pages it does not fill can be given
 * back.  Each page has a reference count of its own (alloc_pages_exact() splits its allocation).  A
 * socket takes references to the pages that it sends, and keeps them until the client has
 * acknowledged the bytes, even if the entry is freed before that.  So no byte changes once the
 * entry can be found.
 */
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include "kcache.h"

enum {
    MADE_STEP = 16384,  /* bytes that are made before other threads get their turn */
    PAGES_GFP = GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY,
};

static char *body_read(const struct source *source)
{
    char *body = alloc_pages_exact(source->size, PAGES_GFP);
    size_t at = 0;
    loff_t off = 0;

    while (body && at < source->size) {
        ssize_t n = kernel_read(source->file, body + at, source->size - at, &off);

        if (n <= 0) { /* an error, or the file has become shorter */
            free_pages_exact(body, source->size);
            return NULL;
        }
        at += (size_t)n;
    }
    return body;
}

/* Frees the pages that the body does not fill. */
static void body_trim(char *body, size_t room, size_t size)
{
    if (PAGE_ALIGN(size) < PAGE_ALIGN(room))
        free_pages_exact(body + PAGE_ALIGN(size), PAGE_ALIGN(room) - PAGE_ALIGN(size));
}

/* Makes the whole body, in at most *size bytes; its length is not known before. */
static char *body_make(struct source *source, uint64_t *size)
{
    size_t room = *size, at = 0, n = 1;
    char *body = alloc_pages_exact(room, PAGES_GFP);

    if (!body)
        return NULL;
    while (n && room - at >= CHUNK_BYTES_MAX) {
        n = source->next(source, body + at, min_t(size_t, room - at, MADE_STEP));
        at += n;
        cond_resched();
    }
    if (n) { /* the body may be longer */
        free_pages_exact(body, room);
        return NULL;
    }
    body_trim(body, room, at);
    *size = at;
    return at ? body : "";
}

/* Puts the compressed body in place of the body, which stays as it is if that does not save. */
static void body_compress(struct kgzip *gzip, struct source *s)
{
    size_t cap = docroot_coded_max(s->size);
    char *out = alloc_pages_exact(cap, PAGES_GFP);
    long n = out ? kgzip_write(gzip, (struct slice){s->bytes, s->size}, out, cap) : -ENOMEM;

    if (n < 0) {
        if (out)
            free_pages_exact(out, cap);
        return;
    }
    body_trim(out, cap, (size_t)n);
    free_pages_exact((void *)s->bytes, s->size);
    s->bytes = out;
    s->size = (uint64_t)n;
    s->coding = CODING_GZIP;
}

int kbody_fill(struct source *s, const struct kcache_fill *fill, struct kgzip *gzip)
{
    s->file = NULL;
    s->next = NULL;
    if (s->kind == SOURCE_MADE)
        s->bytes = body_make(fill->source, &s->size);
    else
        s->bytes = s->size ? body_read(fill->source) : "";
    if (!s->bytes) {
        s->size = 0;
        return -ENOMEM;
    }
    if (fill->gzip && gzip && s->size >= COMPRESS_BYTES_MIN)
        body_compress(gzip, s);
    s->file = s->size ? virt_to_page(s->bytes) : NULL;
    return 0;
}

void kbody_free(struct source *s)
{
    if (s->size)
        free_pages_exact((void *)s->bytes, s->size);
}
