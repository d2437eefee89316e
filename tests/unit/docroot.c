/* SPDX-License-Identifier: MIT */
/* docroot.c - which file answers a path, over a folder that is a table: whatever the host reports
 * for a name, the answer is right and everything held is released.  docroot_fails.c has calls
 * fail. */
#include <sys/stat.h>
#include "table_root.h"

/* This host does not remember files without siblings. */
static const struct docroot_ops least = {
    root_look, root_put, root_open, root_folder, root_list, NULL,
};

static const struct name page[] = {
    {"a.html", 0, LISTING_FILE, 100, 9, 5},
    {"a.html.br", 0, LISTING_FILE, 100, 3, 5},
    {"a.html.zst", 0, LISTING_FILE, 100, 3, 4}, /* older by a nanosecond */
    {"a.html.gz", 0, LISTING_FILE, 101, 4, 0},
    {.name = NULL},
};

static void the_sibling_that_is_liked_best_is_sent(void **state)
{
    struct http_ask a = ask_for("/a.html");
    struct root r;

    (void)state;
    root_init(&r, page);
    assert_int_equal(find(&r, &a), 0);
    assert_string_equal(r.sent, "a.html");
    assert_true(r.source.vary);
    assert_int_equal(r.looks, 2); /* itself, and one sibling that makes the answer vary */
    a.q[CODING_BR] = a.q[CODING_ZSTD] = a.q[CODING_GZIP] = 1000;
    assert_int_equal(find(&r, &a), 0);
    assert_string_equal(r.asked, "a.html");
    assert_string_equal(r.sent, "a.html.br");
    assert_int_equal(r.source.coding, CODING_BR);
    a.q[CODING_BR] = 500; /* found first, before a better one */
    a.q[CODING_IDENTITY] = 100;
    assert_int_equal(find(&r, &a), 0);
    assert_string_equal(r.sent, "a.html.gz");
    assert_int_equal(r.source.coding, CODING_GZIP);
    assert_int_equal(r.held_max, 3);
    a.q[CODING_BR] = a.q[CODING_GZIP] = 0; /* the remaining one is too old */
    assert_int_equal(find(&r, &a), 0);
    assert_string_equal(r.sent, "a.html");
    assert_string_equal(r.source.type, "text/html; charset=utf-8");
}

static void a_sibling_that_may_be_there_varies_the_answer(void **state)
{
    static const int errors[] = {-EMFILE, -ENFILE, -ENOMEM, -ENOENT, -EACCES, -EISDIR};
    struct name names[] = {
        {"a.html", 0, LISTING_FILE, 100, 9, 0}, {.name = "a.html.gz"}, {.name = NULL}};
    struct http_ask a = ask_for("/a.html");
    struct root r;

    (void)state;
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        root_init(&r, names);
        names[1].err = errors[i];
        assert_int_equal(find(&r, &a), 0);
        assert_int_equal(r.source.vary, i < 3);
        assert_int_equal(r.noted, errors[i] == -ENOENT);
    }
}

static void a_file_that_was_alone_is_not_looked_for_again(void **state)
{
    struct http_ask a = ask_for("/a.html");
    struct root r;

    (void)state;
    root_init(&r, page);
    r.alone = true;
    assert_int_equal(find(&r, &a), 0);
    assert_int_equal(r.looks, 1);
    assert_false(r.source.vary);
    a.q[CODING_IDENTITY] = 0; /* siblings are looked at before it is refused */
    assert_int_equal(find(&r, &a), 0);
    assert_true(r.looks > 1);
    r.search.ops = &least; /* this host does not remember */
    a.q[CODING_IDENTITY] = 1000;
    assert_int_equal(find(&r, &a), 0);
    assert_int_equal(r.looks, 2);
}

static void what_is_let_be_is_not_looked_for(void **state)
{
    static const struct name names[] = {{"a.png", 0, LISTING_FILE, 1, 9, 0}, {.name = NULL}};
    struct http_ask a = ask_for("/a.png");
    struct root r;

    (void)state;
    root_init(&r, names);
    assert_int_equal(find(&r, &a), 0);
    assert_int_equal(r.looks, 1);
    root_init(&r, page);
    r.rules.precompressed = false;
    a = ask_for("/a.html");
    assert_int_equal(find(&r, &a), 0);
    assert_int_equal(r.looks, 1);
    assert_false(r.source.vary);
}

static void what_may_be_compressed_varies(void **state)
{
    struct name names[] = {{"a.html", 0, LISTING_FILE, 1, COMPRESS_BYTES_MIN, 0}, {.name = NULL}};
    struct http_ask a = ask_for("/a.html");
    struct root r;

    (void)state;
    root_init(&r, names);
    for (size_t max = COMPRESS_BYTES_MIN - 1; max <= COMPRESS_BYTES_MIN; max++) {
        r.search.compress_max = max;
        assert_int_equal(find(&r, &a), 0);
        assert_int_equal(r.source.vary, max == COMPRESS_BYTES_MIN);
    }
    names[0].size = COMPRESS_BYTES_MIN - 1;
    assert_int_equal(find(&r, &a), 0);
    assert_false(r.source.vary);
}

/* An entry with the index's name that is no index: the folder is listed, or the answer is
 * -errno. */
static void what_is_no_index_does_not_hide_its_folder(void **state)
{
    static const struct {
        struct name names[2];
        int err;
    } cases[] = {
        {{{"s/index.html", -ENOENT, LISTING_DEAD, 0, 0, 0}}, 0},
        {{{"s/index.html", -ENAMETOOLONG, LISTING_DEAD, 0, 0, 0}}, 0},
        {{{"s/index.html", -EISDIR, LISTING_FOLDER, 0, 0, 0}}, 0},
        {{{"s/index.html", -EACCES, LISTING_FIFO, 0, 0, 0}}, 0},
        {{{"s/index.html", -EACCES, LISTING_DEVICE, 0, 0, 0}}, 0},
        {{{"s/index.html", -EACCES, LISTING_SOCKET, 0, 0, 0}}, -EACCES},
        {{{"s/index.html", -EACCES, LISTING_FILE, 0, 0, 0}}, -EACCES},
        {{{"s/index.html", -EACCES, LISTING_DEAD, 0, 0, 0}}, -EACCES},
        {{{"s/index.html", -EMFILE, LISTING_FILE, 0, 0, 0}}, -EMFILE},
    };
    struct http_ask a = ask_for("/s/");
    struct root r;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        root_init(&r, cases[i].names);
        assert_int_equal(find(&r, &a), cases[i].err);
        assert_int_equal(r.listed != NULL, cases[i].err == 0);
        if (r.listed)
            assert_string_equal(r.listed, "s/"); /* the index's name is cut off again */
    }
}

/* shows K12 */
static void a_folder_is_listed_or_its_index_sent(void **state)
{
    static const struct name names[] = {{"index.html", 0, LISTING_FILE, 1, 0, 0}, {.name = NULL}};
    struct http_ask a = ask_for("/");
    char buf[CHUNK_BYTES_MAX];
    struct root r;

    (void)state;
    root_init(&r, names);
    assert_int_equal(find(&r, &a), 0);
    assert_string_equal(r.sent, "index.html");
    r.rules.index = "";
    assert_int_equal(docroot_settle(&r.rules), 0);
    assert_int_equal(find(&r, &a), 0);
    assert_int_equal(r.source.kind, SOURCE_MADE);
    assert_non_null(r.listed);
    r.listed = NULL;
    a.head = true; /* a HEAD answer needs no names */
    assert_int_equal(find(&r, &a), 0);
    assert_null(r.listed);
    assert_int_equal(r.source.next(&r.source, buf, sizeof(buf)), 0);
    r.search.head_lists = true;
    assert_int_equal(find(&r, &a), 0);
    assert_non_null(r.listed);
    r.rules.listing = false;
    assert_int_equal(find(&r, &a), -EACCES);
}

static void a_page_is_a_file_and_nothing_else(void **state)
{
    static const struct name names[] = {
        {"404.html", 0, LISTING_FILE, 1, COMPRESS_BYTES_MIN, 0},
        {"404.html.br", 0, LISTING_FILE, 1, 1, 0},
        {"403.html", -EISDIR, LISTING_FOLDER, 0, 0, 0},
        {"500.html", -EACCES, LISTING_FIFO, 0, 0, 0},
        {"503.html", -EMFILE, LISTING_DEAD, 0, 0, 0},
        {.name = NULL},
    };
    struct source *source = NULL;
    struct root r;

    (void)state;
    root_init(&r, names);
    r.search.ask = NULL;
    assert_int_equal(docroot_page(&r.search, 404, &source), 0);
    assert_string_equal(r.sent, "404.html");
    assert_false(source->vary);
    assert_int_equal(r.looks, 1);
    assert_int_equal(docroot_page(&r.search, 403, &source), -ENOENT);
    assert_int_equal(docroot_page(&r.search, 500, &source), -ENOENT);
    assert_int_equal(docroot_page(&r.search, 503, &source), -EMFILE);
    assert_int_equal(docroot_page(&r.search, 599, &source), -ENOENT);
    assert_int_equal(r.held, 0);
}

static void what_is_refused_is_not_looked_for(void **state)
{
    static const struct name hidden[] = {{".git/config", 0, LISTING_FILE, 1, 1, 0}, {.name = NULL}};
    static char path[PATH_BYTES_MAX + 1];
    struct http_ask a = {.path = {path, sizeof(path)}};
    struct root r;

    (void)state;
    memset(path, 'a', sizeof(path));
    path[0] = '/';
    root_init(&r, hidden);
    assert_int_equal(find(&r, &a), -ENAMETOOLONG);
    a.path.len = 0;
    assert_int_equal(find(&r, &a), -ENAMETOOLONG);
    assert_int_equal(r.looks, 0);
    a.path.len = sizeof(path) - 1;
    assert_int_equal(find(&r, &a), -ENOENT);
    assert_int_equal(r.looks, 1);
    a = ask_for("/.git/config");
    assert_int_equal(find(&r, &a), -ENOENT);
    assert_int_equal(r.looks, 0);
    r.rules.hidden = true;
    assert_int_equal(find(&r, &a), 0);
}

static void an_index_is_a_name(void **state)
{
    char name[NAME_BYTES_MAX + 2];
    struct docroot_rules rules = {.index = name};

    (void)state;
    memset(name, 'a', sizeof(name));
    name[NAME_BYTES_MAX + 1] = '\0';
    assert_int_equal(docroot_settle(&rules), -EINVAL);
    name[NAME_BYTES_MAX] = '\0';
    assert_int_equal(docroot_settle(&rules), 0);
    assert_int_equal(rules.index_len, NAME_BYTES_MAX);
    rules.index = "a/b";
    assert_int_equal(docroot_settle(&rules), -EINVAL);
    rules.index = "";
    assert_int_equal(docroot_settle(&rules), 0);
    assert_int_equal(rules.index_len, 0);
}

static void what_is_not_said_has_a_default(void **state)
{
    struct docroot_rules rules = {.listing = true};

    (void)state;
    assert_int_equal(docroot_settle(&rules), 0);
    assert_string_equal(rules.index, "index.html");
    assert_int_equal(rules.index_len, strlen("index.html"));
    assert_int_equal(rules.entries_max, 100000);
    rules.entries_max = 1;
    assert_int_equal(docroot_settle(&rules), 0);
    assert_int_equal(rules.entries_max, 1);
    assert_true(rules.listing && !rules.hidden && !rules.precompressed);
}

/* The path below the root, or NULL if it is not shown. */
static const char *beneath(bool hidden, const char *root, const char *thing)
{
    struct docroot_rules rules = {.hidden = hidden};
    struct slice r = {root, strlen(root)}, t = {thing, strlen(thing)};
    struct slice behind = docroot_beneath(&rules, r, t);

    assert_true(!behind.ptr || behind.len == strlen(behind.ptr));
    return behind.ptr;
}

static void a_link_leads_beneath_the_root_or_nowhere(void **state)
{
    (void)state;
    assert_string_equal(beneath(false, "/srv/www", "/srv/www/a/b"), "a/b");
    assert_string_equal(beneath(false, "/srv/www", "/srv/www"), "");
    assert_string_equal(beneath(false, "/", "/a"), "a");
    assert_string_equal(beneath(false, "/", "/"), "");
    assert_null(beneath(false, "/srv/www", "/srv/www2/a"));
    assert_null(beneath(true, "/srv/www", "/srv/www2"));
    assert_null(beneath(true, "/srv/www", "/srv/ww"));
    assert_null(beneath(true, "/srv/www", "/srv/other/a"));
    assert_null(beneath(false, "/srv/www", "/srv/www/a/.b/c"));
    assert_string_equal(beneath(true, "/srv/www", "/srv/www/a/.b/c"), "a/.b/c");
    assert_string_equal(beneath(false, "/srv/.www", "/srv/.www/a"), "a"); /* named on purpose */
}

static void modes_and_errors_mean_what_they_mean(void **state)
{
    (void)state;
    assert_int_equal(docroot_kind(S_IFDIR | 0755), LISTING_FOLDER);
    assert_int_equal(docroot_kind(S_IFREG | 0644), LISTING_FILE);
    assert_int_equal(docroot_kind(S_IFIFO), LISTING_FIFO);
    assert_int_equal(docroot_kind(S_IFSOCK), LISTING_SOCKET);
    assert_int_equal(docroot_kind(S_IFCHR), LISTING_DEVICE);
    assert_int_equal(docroot_kind(S_IFBLK), LISTING_DEVICE);
    assert_int_equal(docroot_kind(S_IFLNK), LISTING_DEAD);
    assert_int_equal(docroot_error(-ENOTDIR), -ENOENT);
    assert_int_equal(docroot_error(-EXDEV), -EACCES);
    assert_int_equal(docroot_error(-ELOOP), -EACCES);
    assert_int_equal(docroot_error(-EINPROGRESS), -EIO); /* the system's EINPROGRESS is not ours */
    assert_int_equal(docroot_error(-EMFILE), -EMFILE);
    assert_int_equal(docroot_error(0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sibling_that_is_liked_best_is_sent),
        cmocka_unit_test(a_sibling_that_may_be_there_varies_the_answer),
        cmocka_unit_test(a_file_that_was_alone_is_not_looked_for_again),
        cmocka_unit_test(what_is_let_be_is_not_looked_for),
        cmocka_unit_test(what_may_be_compressed_varies),
        cmocka_unit_test(what_is_no_index_does_not_hide_its_folder),
        cmocka_unit_test(a_folder_is_listed_or_its_index_sent),
        cmocka_unit_test(a_page_is_a_file_and_nothing_else),
        cmocka_unit_test(what_is_refused_is_not_looked_for),
        cmocka_unit_test(an_index_is_a_name),
        cmocka_unit_test(what_is_not_said_has_a_default),
        cmocka_unit_test(a_link_leads_beneath_the_root_or_nowhere),
        cmocka_unit_test(modes_and_errors_mean_what_they_mean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
