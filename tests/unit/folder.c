/* SPDX-License-Identifier: MIT */
/* folder.c - the listing of a folder that is a table: each call of its host fails once, with each
 * error; the remaining entries are listed, or the error is reported, and all memory is given back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "../../core/folder.h"

enum { READ_ROWS = 3, BATCH = 4, ALL = 1000, DENT_BYTES = 32, NAME_AT = 40, UNKNOWN_AT = 19 };

struct row {
    const char *name;
    unsigned mode;
    unsigned target; /* a link's target: its mode, or 0: */
    int err;
};

static const struct row rows[] = {
    {"f", S_IFREG, 0, 0},        {"k", S_IFLNK, S_IFREG, 0}, {"z", S_IFDIR, 0, 0},
    {"a", S_IFREG, 0, 0},        {"p", S_IFIFO, 0, 0},       {"m", S_IFLNK, S_IFDIR, 0},
    {"d", S_IFLNK, 0, -ENOENT},  {"b", S_IFREG, 0, 0},       {"e", S_IFLNK, 0, -EXDEV},
    {"s", S_IFLNK, 0, -EACCES},  {"g", S_IFREG, 0, 0},
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

enum call { CALL_NONE, CALL_BEGIN, CALL_READ, CALL_STAT, CALL_TARGET, CALL_GROW, CALL_GONE };

struct table {
    struct folder folder; /* first */
    struct roll roll;
    struct docroot_rules rules;
    char path[64];
    char query[64];
    size_t at;         /* rows that were read in this pass */
    unsigned pass;     /* times that reading was restarted */
    unsigned calls, fail_at;
    int fail_with;
    enum call failed;
    const char *failed_name;
    size_t failed_row;
    unsigned failed_pass;
    bool failed_early; /* in folder_look() */
    bool failed_sort;  /* in grow(): sorting memory, without which it is slower */
    bool early;
    size_t room;
    unsigned buffers, done;
};

static struct table *table_of(struct folder *f)
{
    return (struct table *)f;
}

static int fails(struct table *h, enum call call, const char *name)
{
    if (++h->calls != h->fail_at)
        return 0;
    h->failed = call;
    h->failed_name = name;
    h->failed_row = h->at;
    h->failed_pass = h->pass;
    h->failed_early = h->early;
    return h->fail_with;
}

/* --- The host --------------------------------------------------------------------------------- */

static int begin(struct folder *f, bool shared)
{
    struct table *h = table_of(f);
    int err = fails(h, CALL_BEGIN, NULL);

    assert_int_equal(shared, !h->early);
    if (err)
        return err;
    h->roll.totals.view = f->listing.view;
    f->roll = &h->roll;
    f->batch = calloc(BATCH, sizeof(*f->batch));
    f->dents = calloc(READ_ROWS, DENT_BYTES);
    assert_true(f->batch && f->dents);
    h->buffers++;
    return 0;
}

static long read_rows(struct folder *f, bool again)
{
    struct table *h = table_of(f);
    size_t n = 0;
    int err;

    if (again) {
        h->pass++;
        h->at = 0;
    }
    err = fails(h, CALL_READ, NULL);
    if (err)
        return err;
    for (; n < READ_ROWS && h->at < ROWS; n++, h->at++) {
        struct folder_name *d = (struct folder_name *)(f->dents + n * DENT_BYTES);

        d->bytes = DENT_BYTES;
        d->type = (uint8_t)IFTODT(rows[h->at].mode);
        memcpy(d->name, rows[h->at].name, strlen(rows[h->at].name) + 1);
    }
    return (long)n * DENT_BYTES;
}

static const struct row *row_of(const char *name)
{
    for (size_t i = 0; i < ROWS; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    fail_msg("there is no %s", name);
    return NULL;
}

static int stat_row(struct folder *f, const char *name, bool target, struct folder_stat *st)
{
    struct table *h = table_of(f);
    const struct row *row;
    int err;

    if (target) { /* by its path beneath the root */
        assert_memory_equal(name, "x/y/", 4);
        name += 4;
    }
    row = row_of(name);
    err = fails(h, target ? CALL_TARGET : CALL_STAT, row->name);
    if (!err && target)
        err = row->err;
    if (!err)
        *st = (struct folder_stat){.mode = target ? row->target : row->mode, .size = 7};
    return err;
}

static void *grow(struct folder *f, const struct folder_array *array, size_t more)
{
    struct table *h = table_of(f);
    void *mem;

    if (fails(h, CALL_GROW, NULL)) {
        h->failed_sort = array != &h->roll.entries && array != &h->roll.names;
        return NULL;
    }
    mem = realloc(array->mem, array->room + more);
    assert_non_null(mem);
    h->room += more;
    return mem;
}

static void drop(struct folder *f, const struct folder_array *array)
{
    table_of(f)->room -= array->room;
    free(array->mem);
}

static void sort(const struct folder_sort *s)
{
    qsort_r(s->base, s->count, s->bytes, s->compare, s->arg);
}

static void buffers_free(struct folder *f)
{
    table_of(f)->buffers -= f->batch != NULL;
    free(f->batch);
    free(f->dents);
    f->batch = NULL;
    f->dents = NULL;
}

static void done(struct folder *f)
{
    table_of(f)->done++;
    buffers_free(f);
}

static void forget(struct folder *f, bool all)
{
    struct table *h = table_of(f);

    drop(f, &h->roll.entries);
    drop(f, &h->roll.names);
    memset(&h->roll, 0, sizeof(h->roll));
    if (all)
        buffers_free(f);
}

static bool gone(struct folder *f)
{
    return fails(table_of(f), CALL_GONE, NULL);
}

static const struct folder_ops ops = {
    begin, read_rows, stat_row, grow, drop, sort, done, forget, gone,
};

/* --- A listing -------------------------------------------------------------------------------- */

struct listed {
    int err;     /* of folder_look() */
    bool broken; /* SOURCE_FAILED */
    bool streamed;
    size_t count;
    char line[ROWS][4]; /* kind, '=' or '?': its size is unknown, name */
};

struct way {
    unsigned names;     /* for folder_look() */
    size_t entries_max;
    bool helped;
};

static void take_lines(struct listed *l, const char *text, size_t len)
{
    const char *end;

    for (; len; len -= (size_t)(end - text), text = end) {
        end = (const char *)memchr(text, '\n', len) + 1;
        if (*text == '#')
            continue;
        assert_true(l->count < ROWS);
        l->line[l->count][0] = text[0];
        l->line[l->count][1] = text[UNKNOWN_AT] == '-' ? '?' : '=';
        l->line[l->count++][2] = text[NAME_AT];
    }
}

static void take_all(struct folder *f, struct listed *l)
{
    char buf[CHUNK_BYTES_MAX];
    size_t n;

    while ((n = folder_next(f, buf, sizeof(buf))) != 0 && n != SOURCE_FAILED) {
        if (n != SOURCE_LATER) {
            take_lines(l, buf, n);
            continue;
        }
        while (f->helped && folder_step(f) == -EINPROGRESS)
            continue;
    }
    l->broken = n == SOURCE_FAILED;
}

static void list(struct table *h, const struct way *way, struct listed *l)
{
    const struct http_ask ask = {.path = {"/x/y/", 5}, .text = true,
        .query = {h->query, strlen(h->query)}};

    memset(l, 0, sizeof(*l));
    h->rules.entries_max = way->entries_max;
    h->folder.ops = &ops;
    h->folder.rules = &h->rules;
    h->folder.path = h->path;
    h->folder.batch_max = BATCH;
    h->folder.helped = way->helped;
    h->early = true;
    l->err = folder_look(&h->folder, &ask, way->names);
    h->early = false;
    if (!l->err)
        take_all(&h->folder, l);
    l->streamed = h->folder.listing.streamed;
    if (l->streamed)
        assert_int_equal(h->room, 0); /* slow readers hold no more than buffers */
    forget(&h->folder, true);
    assert_int_equal(h->room, 0);
    assert_int_equal(h->buffers, 0);
    assert_int_equal(h->done, !l->err && !l->broken && !l->streamed);
}

/* --- Expected listings ------------------------------------------------------------------------ */

static char kind_of(unsigned mode)
{
    return S_ISDIR(mode) ? 'd' : S_ISFIFO(mode) ? 'p' : S_ISLNK(mode) ? 'l' : '-';
}

/* Make the line of a row; false: the row is not listed. */
static bool line_of(const struct table *h, const struct row *row, char line[4])
{
    bool failed = h->failed_name && strcmp(h->failed_name, row->name) == 0 &&
                  h->failed_pass == h->pass;
    int err = failed ? h->fail_with : row->err;

    line[0] = kind_of(row->mode);
    line[1] = '=';
    line[2] = *row->name;
    if (failed && h->failed == CALL_STAT) {
        line[1] = '?';
        return err != -ENOENT;
    }
    if (S_ISLNK(row->mode)) {
        line[0] = err == -EXDEV ? '-' : err ? 'l' : kind_of(row->target);
        line[1] = err == -EXDEV ? '?' : '=';
    }
    return true;
}

static int compare(const void *a, const void *b)
{
    const char *x = a, *y = b;

    if ((x[0] == 'd') != (y[0] == 'd'))
        return x[0] == 'd' ? -1 : 1;
    return x[2] - y[2];
}

static bool ends_it(const struct table *h)
{
    return h->failed == CALL_BEGIN || h->failed == CALL_GONE ||
           (h->failed == CALL_READ && h->fail_with != -ENOENT);
}

static void check(const struct table *h, const struct way *way, const struct listed *l)
{
    bool few = h->failed == CALL_READ && h->failed_pass == h->pass; /* the folder was removed */
    bool one_less = h->failed == CALL_STAT && h->fail_with == -ENOENT &&
                    h->failed_pass == (way->names < ROWS); /* when entries were counted */
    struct listed want = {.count = 0};

    assert_int_equal(l->err, ends_it(h) && h->failed_early ? h->fail_with : 0);
    assert_int_equal(l->broken, ends_it(h) && !h->failed_early);
    if (l->err || l->broken)
        return;
    for (size_t i = 0; i < (few ? h->failed_row : ROWS); i++)
        want.count += line_of(h, &rows[i], want.line[want.count]);
    if (h->failed == CALL_GROW && !h->failed_sort)
        assert_true(l->streamed);
    else if (!few)
        assert_int_equal(l->streamed, way->entries_max < ROWS - (size_t)one_less);
    if (!l->streamed)
        qsort(want.line, want.count, sizeof(want.line[0]), compare);
    assert_int_equal(l->count, want.count);
    for (size_t i = 0; i < want.count; i++)
        assert_string_equal(l->line[i], want.line[i]);
}

/* --- The tests -------------------------------------------------------------------------------- */

static const struct way ways[] = {
    {ALL, ALL, false}, {ALL, ROWS, true}, {4, ALL, false}, {4, ALL, true},
    {ALL, ROWS - 1, false}, {ALL, 5, true}, {4, 5, false}, {1, 1, true}, {0, ALL, true},
};

static void every_call_fails_once(void **state)
{
    static const int errors[] = {-ENOENT, -EACCES, -EIO, -ENOMEM, -ESTALE, -EXDEV};
    unsigned seen = 0, runs = 0;
    struct listed l;

    (void)state;
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        struct table whole = {.fail_at = 0};

        list(&whole, &ways[w], &l);
        check(&whole, &ways[w], &l);
        for (unsigned at = 1; at <= whole.calls; at++) {
            for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++, runs++) {
                struct table h = {.fail_at = at, .fail_with = errors[i]};

                list(&h, &ways[w], &l);
                check(&h, &ways[w], &l);
                seen |= 1u << h.failed;
            }
        }
    }
    print_message("%u listings in which a call failed\n", runs);
    assert_int_equal(seen, (1u << (CALL_GONE + 1)) - 2);
}

/* A page with that offset and limit has the whole's entries from there on; limit 0: no limit. */
static void check_page(const struct way *way, const struct listed *whole, size_t offset,
                       size_t limit)
{
    struct table h = {.fail_at = 0};
    struct listed l;
    size_t left = offset < ROWS ? ROWS - offset : 0;

    snprintf(h.query, sizeof(h.query), "offset=%zu&limit=%zu", offset, limit);
    list(&h, way, &l);
    assert_int_equal(l.count, limit && limit < left ? limit : left);
    assert_int_equal(h.folder.listing.more, l.count < left);
    assert_memory_equal(l.line, whole->line + (left ? offset : 0), l.count * sizeof(l.line[0]));
}

static void every_page(void **state)
{
    (void)state;
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        struct table h = {.fail_at = 0};
        struct listed whole;

        list(&h, &ways[w], &whole);
        for (size_t offset = 0; offset <= ROWS + 1; offset++)
            for (size_t limit = 0; limit <= ROWS + 1; limit++)
                check_page(&ways[w], &whole, offset, limit);
    }
}

/* A number that is empty or has too many digits leaves what came before it. */
static void numbers_that_are_ignored(void **state)
{
    static const char *const queries[] = {"offset=2&limit=3&offset=&limit=",
        "offset=2&limit=3&offset=4294967296&limit=4294967296",
        "offset=2&limit=3&offset=0000000000&limit=1x"};

    (void)state;
    for (unsigned i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
        struct table h = {.fail_at = 0}, wanted = {.fail_at = 0};
        struct listed l, page;

        snprintf(wanted.query, sizeof(wanted.query), "offset=2&limit=3");
        list(&wanted, &ways[0], &page);
        snprintf(h.query, sizeof(h.query), "%s", queries[i]);
        list(&h, &ways[0], &l);
        assert_int_equal(l.count, 3);
        assert_memory_equal(l.line, page.line, sizeof(l.line[0]) * 3);
    }
}

/* A kept listing is read twice. */
static void a_page_again(void **state)
{
    const struct http_ask ask = {.path = {"/x/y/", 5}, .text = true,
        .query = {"offset=2&limit=3", 16}};
    struct table h = {.rules.entries_max = ALL, .early = true};
    char first[CHUNK_BYTES_MAX], again[CHUNK_BYTES_MAX];
    size_t len;

    (void)state;
    h.folder = (struct folder){.ops = &ops, .rules = &h.rules, .path = h.path, .batch_max = BATCH};
    assert_int_equal(folder_look(&h.folder, &ask, ALL), 0);
    len = folder_next(&h.folder, first, sizeof(first));
    assert_int_equal(folder_next(&h.folder, again, sizeof(again)), 0);
    assert_int_equal(first[NAME_AT], 'a');
    folder_rewind(&h.folder);
    assert_int_equal(folder_next(&h.folder, again, sizeof(again)), len);
    assert_memory_equal(first, again, len);
    forget(&h.folder, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_page),
        cmocka_unit_test(numbers_that_are_ignored),
        cmocka_unit_test(a_page_again),
        cmocka_unit_test(every_call_fails_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
