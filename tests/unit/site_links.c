/* SPDX-License-Identifier: MIT */
/* site_links.c - symbolic links: followed below the root, refused out of it, even while they
 * change. */
#include <time.h>
#include "tree.h"

static void make_outside(const struct tree *t)
{
    make_file(t, "../outside/secret", "secret");
    make_file(t, "../outside/index.html", "secret");
    make_file(t, "../outside/file.txt", "secret");
}

static void where_links_lead(void **state)
{
    static const struct {
        const char *path;
        int err;
    } rows[] = {
        {"/file", 0}, {"/near", 0}, {"/dir/up", 0}, {"/chain", 0}, {"/folder/inner", 0},
        {"/dir/round", 0},
        {"/folder", 0}, {"/folder/", 0},
        {"/out", -EACCES}, {"/outdir", -EACCES}, {"/outdir/", -EACCES}, {"/outdir/secret", -EACCES},
        {"/absolute", -EACCES}, {"/absolute-inside", -EACCES}, {"/self", -EACCES},
        {"/magic", -EACCES},
        {"/dir/overshoot", -EACCES}, {"/dir/outthere", -EACCES},
        {"/dangling", -ENOENT}, {"/dangling/", -ENOENT}, {"/file/near", -ENOENT},
    };
    struct tree *t = *state;
    char inside[300];

    make_outside(t);
    make_file(t, "file", "file");
    make_folder(t, "dir");
    make_file(t, "dir/inner", "inner");
    make_link(t, "file", "near");
    make_link(t, "../file", "dir/up");
    make_link(t, "dir/up", "chain");
    make_link(t, "dir", "folder");
    make_link(t, "../dir/../folder/inner", "dir/round");
    make_link(t, "../outside/secret", "out");
    make_link(t, "../outside", "outdir");
    make_link(t, "/etc/passwd", "absolute");
    snprintf(inside, sizeof(inside), "%s/root/file", t->top);
    make_link(t, inside, "absolute-inside");
    make_link(t, "self", "self");
    make_link(t, "/proc/self/root", "magic");
    make_link(t, "../../outside/secret", "dir/overshoot");
    make_link(t, "../../root/file", "dir/outthere"); /* out and in again is out */
    make_link(t, "nothing", "dangling");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int err = answer(t, rows[i].path);

        if (err != rows[i].err)
            fail_msg("%s: %d instead of %d", rows[i].path, err, rows[i].err);
    }
    assert_body(t, "/chain", "file");
    assert_body(t, "/folder/inner", "inner");
}

static void an_index_that_leads_out(void **state)
{
    struct tree *t = *state;

    make_outside(t);
    make_folder(t, "dir");
    make_link(t, "../../outside/index.html", "dir/index.html");
    assert_int_equal(answer(t, "/dir/"), -EACCES);
}

static void a_sibling_that_leads_out(void **state)
{
    struct tree *t = *state;
    struct http_ask a = ask_for("/file.txt", "");
    struct source *s;

    make_outside(t);
    make_file(t, "file.txt", "mine");
    make_link(t, "../outside/file.txt", "file.txt.gz");
    a.q[CODING_GZIP] = 1000;
    assert_int_equal(site_find(t->site, &a, true, &s), 0);
    assert_int_equal(s->coding, CODING_IDENTITY);
    site_release(t->site, s);
}

/* A link is one more name for a thing, not a way around the rule for hidden names. */
static void links_to_what_is_hidden(void **state)
{
    static const struct {
        const char *path;
        bool hidden;
    } rows[] = {
        {"/visible.txt", true}, {"/dir/visible.txt", true}, {"/chain", true}, {"/deep", true},
        {"/folder", true}, {"/folder/", true}, {"/folder/file", true}, {"/folder/sub/file", true},
        {"/sub", true}, {"/sub/file", true}, {"/near/.secret", true}, {"/near/sub/.secret", true},
        {"/page/index.html", true}, {"/page/", false},
        {"/ordinary", false}, {"/dir/ordinary", false}, {"/round", false},
        {"/near", false}, {"/near/", false}, {"/near/file", false}, {"/known", false},
        {"/known/file", false}, {"/here/file", false}, {"/here/", false}, {"/..x", true},
    };
    struct tree *t = *state;

    make_file(t, ".secret", "secret");
    make_file(t, "file", "file");
    make_folder(t, ".dir");
    make_file(t, ".dir/file", "secret");
    make_folder(t, ".dir/sub");
    make_file(t, ".dir/sub/file", "secret");
    make_link(t, "../file", ".dir/out");
    make_folder(t, "dir");
    make_folder(t, "dir/sub");
    make_file(t, "dir/file", "file");
    make_file(t, "dir/.secret", "secret");
    make_file(t, "dir/sub/.secret", "secret");
    make_folder(t, ".well-known");
    make_file(t, ".well-known/file", "file");
    make_folder(t, "page");
    make_link(t, "../.secret", "page/index.html");
    make_link(t, ".secret", "visible.txt");
    make_link(t, "../.secret", "dir/visible.txt");
    make_link(t, "dir/visible.txt", "chain");
    make_link(t, "dir/sub/../.secret", "deep");
    make_link(t, ".dir", "folder");
    make_link(t, ".dir/sub", "sub");
    make_link(t, "dir", "near");
    make_link(t, "file", "ordinary");
    make_link(t, "../ordinary", "dir/ordinary");
    make_link(t, ".dir/../.dir/out", "round"); /* the target counts, not the path to it */
    make_link(t, ".well-known", "known");
    make_link(t, ".", "here");
    make_link(t, "file", "..x");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int err = answer(t, rows[i].path);

        if (err != (rows[i].hidden ? -ENOENT : 0))
            fail_msg("%s: %d", rows[i].path, err);
    }
    tree_open_site(t, &(struct site_options){.rules.hidden = true, .rules.listing = true});
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(answer(t, rows[i].path), 0);
    assert_body(t, "/chain", "secret");
}

/* Swaps names as fast as it can; renaming over a link is atomic, so the name always exists. */
struct flipper {
    const char *name, *in, *out;
};

static void flip(const struct tree *t, void *arg, unsigned round)
{
    const struct flipper *f = arg;
    char next[64];

    snprintf(next, sizeof(next), "%s.next", f->name);
    assert_int_equal(symlinkat(round % 2 ? f->out : f->in, t->root, next), 0);
    assert_int_equal(renameat(t->root, next, t->root, f->name), 0);
}

static int64_t now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec;
}

/* Ask until both sides have been met WANTED times; the file found must be `inode`, never one
 * outside. */
static void race(const struct tree *t, struct flipper *f, const char *path, uint64_t inode)
{
    enum { WANTED = 500 };
    struct changer c = {.once = flip, .t = t, .arg = f};
    int64_t deadline = now_s() + 120;
    unsigned found = 0, refused = 0;

    make_link(t, f->in, f->name);
    changer_begin(&c);
    while ((found < WANTED || refused < WANTED) && now_s() < deadline) {
        struct source *s;
        int err = find(t, path, &s);

        if (err) {
            assert_true(err == -EACCES || err == -EAGAIN);
            refused++;
            continue;
        }
        assert_int_equal(s->inode, inode);
        assert_int_equal(s->size, 4);
        site_release(t->site, s);
        found++;
    }
    changer_end(&c);
    assert_true(found >= WANTED);
    assert_true(refused >= WANTED);
}

static uint64_t inode_of(const struct tree *t, const char *path)
{
    struct stat st;

    assert_int_equal(fstatat(t->root, path, &st, 0), 0);
    return st.st_ino;
}

static void a_file_link_that_flips(void **state)
{
    struct tree *t = *state;
    struct flipper f = {.name = "flip", .in = "mine", .out = "../outside/secret"};

    make_outside(t);
    make_file(t, "mine", "mine");
    race(t, &f, "/flip", inode_of(t, "mine"));
}

/* shows D13 */
static void a_folder_link_that_flips(void **state)
{
    struct tree *t = *state;
    struct flipper f = {.name = "flip", .in = "dir", .out = "../outside"};

    make_outside(t);
    make_folder(t, "dir");
    make_file(t, "dir/secret", "mine");
    race(t, &f, "/flip/secret", inode_of(t, "dir/secret"));
}

static void an_index_in_a_flipping_folder(void **state)
{
    struct tree *t = *state;
    struct flipper f = {.name = "flip", .in = "dir", .out = "../outside"};

    make_outside(t);
    make_folder(t, "dir");
    make_file(t, "dir/index.html", "mine");
    race(t, &f, "/flip/", inode_of(t, "dir/index.html"));
}

/* Listings of a folder that flips name the inside's entries or are refused. */
static void a_listing_that_flips(void **state)
{
    struct tree *t = *state;
    struct flipper f = {.name = "flip", .in = "dir", .out = "../outside/list"};
    struct changer c = {.once = flip, .t = t, .arg = &f};
    int64_t deadline = now_s() + 120;
    unsigned found = 0, refused = 0;

    assert_int_equal(mkdirat(t->root, "../outside/list", 0755), 0);
    make_file(t, "../outside/list/secret", "secret");
    make_folder(t, "dir");
    make_file(t, "dir/mine", "mine");
    make_link(t, "dir", "flip");
    changer_begin(&c);
    while ((found < 100 || refused < 100) && now_s() < deadline) {
        struct source *s;
        size_t len;
        char *body;

        if (find(t, "/flip/", &s)) {
            refused++;
            continue;
        }
        body = body_of(t, s, &len);
        assert_non_null(strstr(body, "./mine"));
        assert_null(strstr(body, "secret"));
        free(body);
        found++;
    }
    changer_end(&c);
    assert_true(found >= 100);
    assert_true(refused >= 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(where_links_lead),
        TREE_TEST(links_to_what_is_hidden),
        TREE_TEST(an_index_that_leads_out),
        TREE_TEST(a_sibling_that_leads_out),
        TREE_TEST(a_file_link_that_flips),
        TREE_TEST(a_folder_link_that_flips),
        TREE_TEST(an_index_in_a_flipping_folder),
        TREE_TEST(a_listing_that_flips),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
