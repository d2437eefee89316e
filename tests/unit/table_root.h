/* SPDX-License-Identifier: MIT */
/* table_root.h - a folder that is a table, as the host of core/docroot.c: it reports each name as
 * the table has it, counts what is held, and one of its calls can be made to fail.
 */
#ifndef TESTS_UNIT_TABLE_ROOT_H
#define TESTS_UNIT_TABLE_ROOT_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "../../core/docroot.h"

/* The result for a name: 0, or -errno and a kind. */
struct name {
    const char *name;
    int err;
    enum listing_kind kind;
    int64_t mtime_s;
    uint64_t size;
    uint32_t mtime_ns;
};

enum root_call { ROOT_LOOK, ROOT_OPEN, ROOT_FOLDER, ROOT_LIST };

struct root {
    struct docroot_search search;
    struct docroot_rules rules;
    const struct name *names;
    char path[DOCROOT_PATH_BYTES_MAX];
    unsigned looks, held, held_max;
    unsigned calls, fail_at; /* number of the call that fails; */
    bool fail_on;            /* later calls fail, too */
    int fail_with;
    enum root_call failed;   /* the first one that failed, */
    char failed_name[64];    /* and its name */
    bool alone; /* what alone() returns */
    unsigned noted;
    /* The names given to open() or list(). */
    const char *asked, *sent, *listed;
    struct source source;
};

static inline struct root *root_of(struct docroot_search *f)
{
    return (struct root *)f;
}

static const struct name *name_of(const struct docroot_thing *thing)
{
    assert_non_null(thing->path[0]);
    return thing->path[0];
}

static inline void hold(struct root *r, struct docroot_thing *thing, const struct name *name)
{
    assert_null(thing->path[0]);
    thing->path[0] = (void *)(uintptr_t)name;
    r->held++;
    r->held_max = r->held > r->held_max ? r->held : r->held_max;
}

static inline int root_fails(struct root *r, enum root_call call, const char *name)
{
    r->calls++;
    if (r->calls == r->fail_at) {
        r->failed = call;
        assert_true(strlen(name) < sizeof(r->failed_name));
        memcpy(r->failed_name, name, strlen(name) + 1);
    } else if (!r->fail_at || r->calls < r->fail_at || !r->fail_on) {
        return 0;
    }
    return r->fail_with;
}

static inline int root_look(struct docroot_search *f, const char *name, struct docroot_thing *thing)
{
    struct root *r = root_of(f);
    const struct name *n = r->names;
    int err = root_fails(r, ROOT_LOOK, name);

    r->looks++;
    if (err)
        return err;
    while (n->name && strcmp(n->name, name) != 0)
        n++;
    if (!n->name)
        return -ENOENT;
    thing->kind = (uint8_t)n->kind;
    if (n->err)
        return n->err;
    thing->source = (struct source){
        .size = n->size, .mtime_s = n->mtime_s, .mtime_ns = n->mtime_ns};
    hold(r, thing, n);
    return 0;
}

static inline void root_put(struct docroot_search *f, struct docroot_thing *thing)
{
    (void)name_of(thing);
    thing->path[0] = NULL;
    root_of(f)->held--;
}

static inline int root_open(struct docroot_search *f, struct docroot_thing *asked,
                            struct docroot_thing *sent, struct source **source)
{
    struct root *r = root_of(f);
    int err = root_fails(r, ROOT_OPEN, r->path);

    if (err)
        return err;
    if (sent->source.kind == SOURCE_BODY) {
        assert_int_equal(sent->source.bytes != NULL, sent->source.size == 0);
        r->asked = name_of(asked)->name;
        r->sent = name_of(sent)->name;
    }
    r->source = sent->source;
    *source = &r->source;
    return 0;
}

static inline int root_folder(struct docroot_search *f, const char *name,
                              struct docroot_thing *thing)
{
    static const struct name folder;
    int err = root_fails(root_of(f), ROOT_FOLDER, name);

    if (!err)
        hold(root_of(f), thing, &folder);
    return err;
}

static inline int root_list(struct docroot_search *f, struct docroot_thing *thing,
                            struct source **source)
{
    struct root *r = root_of(f);
    int err = root_fails(r, ROOT_LIST, r->path);

    (void)name_of(thing);
    if (err)
        return err;
    r->listed = r->path;
    r->source = thing->source;
    *source = &r->source;
    return 0;
}

static inline bool root_alone(struct docroot_search *f, bool found)
{
    root_of(f)->noted += found;
    return root_of(f)->alone;
}

static const struct docroot_ops ops = {
    root_look, root_put, root_open, root_folder, root_list, root_alone,
};

static inline void root_init(struct root *r, const struct name *names)
{
    memset(r, 0, sizeof(*r));
    r->rules.listing = r->rules.precompressed = true;
    assert_int_equal(docroot_settle(&r->rules), 0);
    r->names = names;
    r->search.ops = &ops;
    r->search.rules = &r->rules;
    r->search.path = r->path;
}

static inline struct http_ask ask_for(const char *path)
{
    struct http_ask a = {.path = {path, strlen(path)}};

    a.q[CODING_IDENTITY] = 1000;
    return a;
}

/* Run the search; everything is released, however it ends. */
static inline int find(struct root *r, const struct http_ask *ask)
{
    struct source *source = NULL;
    int err;

    r->search.ask = ask;
    r->looks = r->noted = 0;
    err = docroot_find(&r->search, &source);
    assert_int_equal(r->held, 0);
    assert_int_equal(source != NULL, err == 0);
    return err;
}

#endif
