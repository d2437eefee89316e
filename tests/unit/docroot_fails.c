/* SPDX-License-Identifier: MIT */
/* docroot_fails.c - each call of the host fails once, with each error, in each kind of search: the
 * answer is the one that remains, or says why there is none, and nothing stays held.
 */
#include <stdio.h>
#include "../../core/http_inside.h"
#include "../../core/types.h"
#include "table_root.h"

static const struct name site[] = {
    {"a.html", 0, LISTING_FILE, 100, 9, 5},
    {"a.html.br", 0, LISTING_FILE, 100, 3, 5},
    {"a.html.zst", 0, LISTING_FILE, 100, 3, 4}, /* older */
    {"a.html.gz", 0, LISTING_FILE, 101, 4, 0},
    {"b.png", 0, LISTING_FILE, 100, 9, 0},
    {"alone.txt", 0, LISTING_FILE, 100, 9, 0},
    {"empty.txt", 0, LISTING_FILE, 100, 0, 0},
    {"s", -EISDIR, LISTING_FOLDER, 0, 0, 0},
    {"s/index.html", 0, LISTING_FILE, 100, 9, 0},
    {"s/index.html.gz", 0, LISTING_FILE, 100, 4, 0},
    {"404.html", 0, LISTING_FILE, 100, 9, 0},
    {.name = NULL},
};

static const struct search {
    const char *path; /* NULL: the page for an error */
    unsigned status;
    uint16_t q[CODINGS]; /* identity, gzip, zstd, br */
    bool head;
    int err; /* its result when nothing fails */
} searches[] = {
    {.path = "/b.png", .q = {1}},
    {.path = "/a.html", .q = {1}},
    {.path = "/a.html", .q = {1, 500, 500, 500}},
    {.path = "/a.html", .q = {1, 1000, 500, 800}},
    {.path = "/a.html", .q = {500, 100, 0, 1000}},
    {.path = "/a.html", .q = {0, 1, 0, 0}},
    {.path = "/alone.txt", .q = {1, 1, 1, 1}},
    {.path = "/empty.txt", .q = {1}},
    {.path = "/nothing", .q = {1}, .err = -ENOENT},
    {.path = "/s", .q = {1}},
    {.path = "/s/", .q = {1}},
    {.path = "/s/", .q = {1, 1, 0, 0}},
    {.path = "/l/", .q = {1}},
    {.path = "/l/", .q = {1}, .head = true},
    {.status = 404},
    {.status = 500, .err = -ENOENT},
};

static const struct fault {
    int err;
    unsigned status;
} faults[] = {
    {-ENOENT, 404}, {-ENAMETOOLONG, 404}, {-EACCES, 403}, {-EPERM, 403}, {-EISDIR, 500},
    {-EKEYREJECTED, 401}, {-EDQUOT, 429},
    {-EMFILE, 503}, {-ENFILE, 503}, {-ENOMEM, 503}, {-EAGAIN, 503}, {-ESTALE, 503},
    {-EIO, 500}, {-EINTR, 500}, {-EINVAL, 500},
};

static int run(struct root *r, const struct search *s)
{
    struct http_ask ask = {.path = {s->path, s->path ? strlen(s->path) : 0}, .head = s->head};
    struct source *source = NULL;
    int err;

    memcpy(ask.q, s->q, sizeof(ask.q));
    r->search.ask = s->path ? &ask : NULL;
    err = s->path ? docroot_find(&r->search, &source)
                  : docroot_page(&r->search, s->status, &source);
    assert_int_equal(r->held, 0);
    assert_true(r->held_max <= 3);
    assert_int_equal(source != NULL, err == 0);
    return err;
}

/* --- Expected results ------------------------------------------------------------------------- */

static const struct name *named(const char *name)
{
    for (const struct name *n = site; n->name; n++)
        if (strcmp(n->name, name) == 0)
            return n;
    return NULL;
}

static bool is_sibling(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot && (strcmp(dot, ".br") == 0 || strcmp(dot, ".zst") == 0 || strcmp(dot, ".gz") == 0);
}

static bool is_index(const char *name)
{
    const char *slash = strrchr(name, '/');

    return slash && strcmp(slash, "/index.html") == 0;
}

static bool is_short(int err)
{
    return err == -EMFILE || err == -ENFILE || err == -ENOMEM;
}

/* Check the answer for that file when one of its siblings cannot be looked at. */
static void check_file(const struct root *r, const struct search *s, const char *asked)
{
    const struct name *original = named(asked);
    enum coding best = CODING_IDENTITY;
    bool vary = is_short(r->fail_with) && is_sibling(r->failed_name);
    char name[64];

    for (enum coding c = CODING_IDENTITY + 1; c < CODINGS; c++) {
        const struct name *n;

        snprintf(name, sizeof(name), "%s%s", asked, http_coding_suffix(c));
        n = strcmp(name, r->failed_name) == 0 ? NULL : named(name);
        if (!n || n->mtime_s < original->mtime_s || strcmp(name, "a.html.zst") == 0)
            continue;
        vary = true;
        if (http_prefers(s->q, c, best))
            best = c;
    }
    snprintf(name, sizeof(name), "%s%s", asked, http_coding_suffix(best));
    assert_string_equal(r->sent, s->path ? name : asked);
    assert_string_equal(r->asked, asked);
    assert_int_equal(r->source.coding, s->path ? best : CODING_IDENTITY);
    assert_int_equal(r->source.vary, s->path && vary);
}

/* The result that remains when that one call failed: 0 or -errno. */
static int left(const struct root *r, const struct search *s)
{
    int err = r->fail_with;

    if (r->failed == ROOT_OPEN && is_index(r->failed_name) && err == -ENOENT)
        return 0; /* it was removed meanwhile: the folder has none */
    if (r->failed != ROOT_LOOK)
        return err;
    if (is_sibling(r->failed_name))
        return 0;
    if (!s->path)
        return err == -EISDIR ? -ENOENT : err;
    if (is_index(r->failed_name))
        return err == -ENOENT || err == -EISDIR || err == -ENAMETOOLONG ? 0 : err;
    return err == -EISDIR ? 0 : err;
}

static void check(const struct root *r, const struct search *s)
{
    const char *last = s->path ? s->path + strlen(s->path) - 1 : "";

    if (r->listed || r->source.kind == SOURCE_MADE) {
        assert_int_equal(*last, '/');
        assert_true(strcmp(s->path, "/l/") == 0 || is_index(r->failed_name));
        assert_int_equal(r->listed != NULL, !s->head);
        assert_string_equal(r->path, s->path + 1);
    } else if (r->source.kind == SOURCE_REDIRECT) {
        assert_true(strcmp(s->path, "/s") == 0 || r->fail_with == -EISDIR);
    } else {
        check_file(r, s, !s->path ? "404.html" : *last == '/' ? "s/index.html" : s->path + 1);
    }
}

/* --- The tests -------------------------------------------------------------------------------- */

static unsigned calls_of(const struct search *s, const struct docroot_ops *with)
{
    struct root r;
    int err;

    root_init(&r, site);
    r.search.ops = with;
    err = run(&r, s);
    assert_int_equal(err, s->err);
    if (!err)
        check(&r, s);
    return r.calls;
}

static void one_fails(const struct search *s, const struct docroot_ops *with, unsigned at)
{
    for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
        struct root r;
        int err;

        root_init(&r, site);
        r.search.ops = with;
        r.fail_at = at;
        r.fail_with = faults[i].err;
        err = run(&r, s);
        assert_int_equal(err, left(&r, s));
        if (!err)
            check(&r, s);
        else if (err == faults[i].err)
            assert_int_equal(http_status_of_error(err), faults[i].status);
    }
}

/* When no call works any more, the error is reported. */
static void all_fail(const struct search *s, const struct docroot_ops *with, unsigned at)
{
    for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
        struct root r;
        int err;

        root_init(&r, site);
        r.search.ops = with;
        r.fail_at = at;
        r.fail_on = true;
        r.fail_with = faults[i].err;
        err = run(&r, s);
        if (!s->path && r.failed == ROOT_LOOK && r.fail_with == -EISDIR)
            assert_int_equal(err, -ENOENT); /* a folder is not an error page */
        else
            assert_int_equal(err, r.fail_with);
    }
}

/* shows S11 */
static void every_call_fails_once(void **state)
{
    static const struct docroot_ops least = {
        root_look, root_put, root_open, root_folder, root_list, NULL,
    };
    const struct docroot_ops *hosts[] = {&ops, &least};
    unsigned runs = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(searches) / sizeof(*searches); i++) {
        for (size_t host = 0; host < 2; host++) {
            unsigned calls = calls_of(&searches[i], hosts[host]);

            assert_true(calls >= 1);
            for (unsigned at = 1; at <= calls; at++, runs++) {
                one_fails(&searches[i], hosts[host], at);
                all_fail(&searches[i], hosts[host], at);
            }
        }
    }
    print_message("%u calls failed, with %zu errors each\n", runs,
                  sizeof(faults) / sizeof(*faults));
    assert_true(runs > 80);
}

/* The host makes the listing later, on another thread. */
static void a_listing_comes_later(void **state)
{
    static const struct search listing = {.path = "/l/", .q = {1}};
    struct root r;

    (void)state;
    root_init(&r, site);
    r.fail_at = calls_of(&listing, &ops);
    r.fail_with = -EINPROGRESS;
    assert_int_equal(run(&r, &listing), -EINPROGRESS);
    assert_int_equal(r.failed, ROOT_LIST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_fails_once),
        cmocka_unit_test(a_listing_comes_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
