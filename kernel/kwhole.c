/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kwhole.c - whole answers, head and body, that are kept ready in a page.
 *
 * A file's answer does not change while the entry in memory is valid, except for the date, which
 * changes once a second.  So a file that a context is asked for several times in one second gets a
 * page with all of the answer in it, and for the rest of the second the page is handed to the
 * socket as it is: no field is written and no byte copied.  The page is never written again.  The
 * caller has checked that the entry is still valid, as at every hit; the version number shows that
 * it is the same entry.
 *
 * A whole answer is a source of its own: it does not need the entry any more, and is freed when the
 * context has replaced it and the last connection is done with it.
 */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include "../core/http.h"
#include "kinside.h"

enum {
    PLACES_LOG = 5,
    TIMES = 4, /* requests in one second; with fewer, making it would not pay */
};

struct kwhole {
    struct source source;
    struct whole whole;
    refcount_t references; /* one of the place, one of each answer under way */
};

struct kwholes {
    struct kplace {
        u64 version; /* the one that was asked for last */
        s64 date_s;  /* the second of that */
        unsigned times;
        struct kwhole *whole; /* of that version and second */
    } place[1 << PLACES_LOG];
};

struct kwholes *kwholes_new(void)
{
    return kzalloc(sizeof(struct kwholes), GFP_KERNEL);
}

static void put(struct kwhole *k)
{
    if (k && refcount_dec_and_test(&k->references)) {
        free_page((unsigned long)k->whole.bytes);
        kfree(k);
    }
}

void kwholes_free(struct kwholes *all)
{
    unsigned i;

    for (i = 0; all && i < ARRAY_SIZE(all->place); i++)
        put(all->place[i].whole);
    kfree(all);
}

void kwhole_release(struct source *source)
{
    put(container_of(source, struct kwhole, source));
}

/* NULL: it does not fit into a page, or there is no memory. */
static struct kwhole *whole_new(const struct kcontext *cx, const struct source *source)
{
    gfp_t gfp = (cx->may_sleep ? GFP_KERNEL | __GFP_NORETRY : GFP_ATOMIC) | __GFP_NOWARN;
    char *page = source->size < PAGE_SIZE ? (char *)__get_free_page(gfp) : NULL;
    struct kwhole *k = page ? kmalloc(sizeof(*k), gfp) : NULL;
    struct source *s;

    if (k)
        k->whole.len = PAGE_SIZE;
    if (!k || !http_whole_write(&k->whole, page, &cx->host, source)) {
        kfree(k);
        free_page((unsigned long)page);
        return NULL;
    }
    refcount_set(&k->references, 1);
    s = &k->source;
    *s = *source;
    s->whole = &k->whole;
    s->file = virt_to_page(page);
    s->bytes = page + k->whole.head_len;
    s->fields = s->bytes - 2 - s->fields_len; /* an empty line is between them */
    return k;
}

struct source *kwhole_find(struct kcontext *cx, const struct source *source)
{
    struct kplace *p = &cx->wholes->place[source->version % ARRAY_SIZE(cx->wholes->place)];

    if (p->version != source->version || p->date_s != cx->host.date_s) {
        put(p->whole);
        *p = (struct kplace){.version = source->version, .date_s = cx->host.date_s};
    }
    if (!p->whole && (++p->times != TIMES || !(p->whole = whole_new(cx, source))))
        return NULL;
    refcount_inc(&p->whole->references);
    kstat_add(cx->serve, KSTAT_WHOLE, 1);
    return &p->whole->source;
}
