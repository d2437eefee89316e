/* SPDX-License-Identifier: MIT */
/* site_codings.c - compressed siblings: which is chosen, when it may stand for the file, which
 * answers vary. */
#include <time.h>
#include "tree.h"

enum { NO = 0, YES = 1000, OLD = 1600000000 };

/* Acceptance of identity, gzip, zstd, br, and the coding sent when all three siblings exist. */
struct row {
    uint16_t q[CODINGS];
    enum coding all, without_br, only_gzip;
};

static const struct row rows[] = {
    /* identity gzip zstd br; all there, no .br, only .gz */
    {{1, NO, NO, NO}, CODING_IDENTITY, CODING_IDENTITY, CODING_IDENTITY},
    {{1, YES, NO, NO}, CODING_GZIP, CODING_GZIP, CODING_GZIP},
    {{1, NO, YES, NO}, CODING_ZSTD, CODING_ZSTD, CODING_IDENTITY},
    {{1, NO, NO, YES}, CODING_BR, CODING_IDENTITY, CODING_IDENTITY},
    {{1, YES, YES, YES}, CODING_BR, CODING_ZSTD, CODING_GZIP},
    {{YES, YES, YES, YES}, CODING_BR, CODING_ZSTD, CODING_GZIP},
    {{1, YES, 500, 500}, CODING_GZIP, CODING_GZIP, CODING_GZIP},
    {{1, 500, YES, 999}, CODING_ZSTD, CODING_ZSTD, CODING_GZIP},
    {{1, 500, 600, 700}, CODING_BR, CODING_ZSTD, CODING_GZIP},
    {{600, 500, 500, 700}, CODING_BR, CODING_IDENTITY, CODING_IDENTITY},
    {{YES, 999, 999, 999}, CODING_IDENTITY, CODING_IDENTITY, CODING_IDENTITY},
    {{999, YES, YES, 999}, CODING_ZSTD, CODING_ZSTD, CODING_GZIP},
    {{NO, 1, NO, NO}, CODING_GZIP, CODING_GZIP, CODING_GZIP},
    {{NO, 1, 1, 1}, CODING_BR, CODING_ZSTD, CODING_GZIP},
    {{NO, NO, NO, NO}, CODING_IDENTITY, CODING_IDENTITY, CODING_IDENTITY},
    {{NO, NO, YES, NO}, CODING_ZSTD, CODING_ZSTD, CODING_IDENTITY},
};

static const char *const body_in[CODINGS] = {"plain", "as gzip", "as zstd", "as br"};

static enum coding ask_coding(const struct tree *t, const char *path, const uint16_t q[CODINGS])
{
    struct http_ask a = ask_for(path, "");
    struct source *s;
    enum coding coding;
    size_t len;
    char *body;

    memcpy(a.q, q, sizeof(a.q));
    assert_int_equal(site_find(t->site, &a, true, &s), 0);
    coding = s->coding;
    assert_true(s->vary);
    assert_string_equal(s->type, "text/html; charset=utf-8");
    body = body_of(t, s, &len);
    assert_string_equal(body, body_in[coding]);
    free(body);
    return coding;
}

static void make_all(const struct tree *t)
{
    make_file(t, "a.html", body_in[CODING_IDENTITY]);
    make_file(t, "a.html.gz", body_in[CODING_GZIP]);
    make_file(t, "a.html.zst", body_in[CODING_ZSTD]);
    make_file(t, "a.html.br", body_in[CODING_BR]);
}

static void the_best_is_sent(void **state)
{
    struct tree *t = *state;

    make_all(t);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(ask_coding(t, "/a.html", rows[i].q), rows[i].all);
    assert_int_equal(unlinkat(t->root, "a.html.br", 0), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(ask_coding(t, "/a.html", rows[i].q), rows[i].without_br);
    assert_int_equal(unlinkat(t->root, "a.html.zst", 0), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(ask_coding(t, "/a.html", rows[i].q), rows[i].only_gzip);
}

static struct source *find_any(const struct tree *t, const char *path)
{
    struct http_ask a = ask_for(path, "");
    struct source *s = NULL;

    a.q[CODING_GZIP] = a.q[CODING_ZSTD] = a.q[CODING_BR] = 1000;
    assert_int_equal(site_find(t->site, &a, true, &s), 0);
    return s;
}

static bool is_plain(const struct tree *t, const char *path, bool vary)
{
    struct source *s = find_any(t, path);
    bool plain = s->coding == CODING_IDENTITY && s->vary == vary;

    site_release(t->site, s);
    return plain;
}

static void a_sibling_has_its_own_validators(void **state)
{
    struct tree *t = *state;
    struct source *s;
    struct stat st;

    make_file(t, "a.html", "plain");
    make_file(t, "a.html.gz", "gzip!");
    set_mtime(t, "a.html", OLD, 5);
    set_mtime(t, "a.html.gz", OLD + 100, 7);
    s = find_any(t, "/a.html");
    assert_int_equal(fstatat(t->root, "a.html.gz", &st, 0), 0);
    assert_int_equal(s->inode, st.st_ino);
    assert_int_equal(s->mtime_s, OLD + 100);
    assert_int_equal(s->mtime_ns, 7);
    assert_int_equal(s->size, 5);
    site_release(t->site, s);
}

static void an_older_sibling_is_none(void **state)
{
    struct tree *t = *state;
    static const struct {
        time_t s;
        long ns;
        bool used;
    } ages[] = {{OLD, 500, true}, {OLD, 501, true}, {OLD, 499, false}, {OLD - 1, 999999999, false},
        {OLD + 1, 0, true}, {OLD - 1000, 500, false}};

    make_file(t, "a.html", "plain");
    make_file(t, "a.html.br", "as br");
    set_mtime(t, "a.html", OLD, 500);
    for (size_t i = 0; i < sizeof(ages) / sizeof(ages[0]); i++) {
        set_mtime(t, "a.html.br", ages[i].s, ages[i].ns);
        assert_int_equal(is_plain(t, "/a.html", false), !ages[i].used);
    }
}

/* Sets the time again until the kernel's clock has advanced: the ctime is then later than the other
 * file's. */
static void change_after(const struct tree *t, const char *name, long ns, const char *other)
{
    struct stat a, b;

    do {
        set_mtime(t, name, OLD, ns);
        assert_int_equal(fstatat(t->root, name, &a, 0), 0);
        assert_int_equal(fstatat(t->root, other, &b, 0), 0);
    } while (a.st_ctim.tv_sec == b.st_ctim.tv_sec && a.st_ctim.tv_nsec == b.st_ctim.tv_nsec);
}

static void a_sibling_whose_time_was_cut_to_seconds(void **state)
{
    struct tree *t = *state;

    make_file(t, "a.html", "plain");
    make_file(t, "a.html.br", "as br");
    set_mtime(t, "a.html", OLD, 500);
    change_after(t, "a.html.br", 0, "a.html");
    assert_false(is_plain(t, "/a.html", false));
    change_after(t, "a.html", 500, "a.html.br"); /* it may have been written meanwhile */
    assert_true(is_plain(t, "/a.html", false));
    change_after(t, "a.html.br", 1, "a.html"); /* a nanosecond is no second */
    assert_true(is_plain(t, "/a.html", false));
    change_after(t, "a.html.br", 0, "a.html");
    assert_false(is_plain(t, "/a.html", false));
    set_mtime(t, "a.html", OLD + 1, 500); /* another second */
    change_after(t, "a.html.br", 0, "a.html");
    assert_true(is_plain(t, "/a.html", false));
}

static void what_is_no_sibling(void **state)
{
    struct tree *t = *state;
    struct http_ask a = ask_for("/only.html", "");
    struct source *s;

    make_all(t);
    make_file(t, "b.html", "x");
    make_folder(t, "b.html.br");
    assert_int_equal(mkfifoat(t->root, "b.html.gz", 0666), 0);
    make_link(t, "nothing", "b.html.zst");
    assert_true(is_plain(t, "/b.html", false));
    /* Requested by its own name it is a file like others. */
    s = find_any(t, "/a.html.gz");
    assert_int_equal(s->coding, CODING_IDENTITY);
    assert_string_equal(s->type, "application/gzip");
    site_release(t->site, s);
    /* Siblings of compressed types, and siblings without a file, are ignored. */
    make_file(t, "i.png", "x");
    make_file(t, "i.png.gz", "x");
    assert_true(is_plain(t, "/i.png", false));
    make_file(t, "only.html.gz", "x");
    a.q[CODING_GZIP] = 1000;
    assert_int_equal(site_find(t->site, &a, true, &s), -ENOENT);
    /* An index has siblings too. */
    make_folder(t, "dir");
    make_file(t, "dir/index.html", "plain");
    make_file(t, "dir/index.html.br", "as br");
    assert_false(is_plain(t, "/dir/", true));
    tree_open_site(t, &(struct site_options){.rules.precompressed = false});
    assert_true(is_plain(t, "/a.html", false));
}

/* A link to an inner file is a sibling; a name that would be too long is none. */
static void links_and_long_names(void **state)
{
    struct tree *t = *state;
    char path[NAME_BYTES_MAX + 2];

    make_all(t);
    make_file(t, "c.html", "x");
    make_link(t, "a.html.gz", "c.html.gz");
    assert_false(is_plain(t, "/c.html", true));
    memset(path, 'n', sizeof(path));
    memcpy(path + NAME_BYTES_MAX - 4, ".html", 6);
    path[0] = '/';
    make_file(t, path + 1, "x");
    assert_true(is_plain(t, path, false));
}

/* The site remembers that a file has no siblings.  They are looked for again after a while, or at
 * once for a client that does not accept the file itself. */
static void one_that_comes_later(void **state)
{
    struct tree *t = *state;
    struct http_ask a = ask_for("/a.html", "");
    bool plain = true;

    make_file(t, "a.html", body_in[CODING_IDENTITY]);
    assert_true(is_plain(t, "/a.html", false));
    make_file(t, "a.html.gz", body_in[CODING_GZIP]);
    a.q[CODING_IDENTITY] = 0;
    a.q[CODING_GZIP] = YES;
    assert_int_equal(ask_coding(t, "/a.html", a.q), CODING_GZIP);
    for (unsigned i = 0; i < 300 && plain; i++) {
        nanosleep(&(struct timespec){0, 10000000}, NULL);
        plain = is_plain(t, "/a.html", false);
    }
    assert_false(plain);
    assert_int_equal(unlinkat(t->root, "a.html.gz", 0), 0);
    assert_true(is_plain(t, "/a.html", false)); /* its removal is seen at once */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(the_best_is_sent),
        TREE_TEST(a_sibling_has_its_own_validators),
        TREE_TEST(an_older_sibling_is_none),
        TREE_TEST(a_sibling_whose_time_was_cut_to_seconds),
        TREE_TEST(what_is_no_sibling),
        TREE_TEST(links_and_long_names),
        TREE_TEST(one_that_comes_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
