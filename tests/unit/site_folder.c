/* SPDX-License-Identifier: MIT */
/* site_folder.c - listings of a real folder: which entries are in them, both sides of each bound, a
 * folder that changes while it is read.
 */
#include <time.h>
#include "json.h"
#include "tree.h"

static char *list(const struct tree *t, const char *path, const char *query)
{
    struct http_ask a = ask_for(path, query);
    struct source *s;
    size_t len;

    assert_int_equal(site_find(t->site, &a, true, &s), 0);
    assert_int_equal(s->kind, SOURCE_MADE);
    return body_of(t, s, &len);
}

static unsigned times_in(const char *text, const char *what)
{
    unsigned n = 0;

    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        n++;
    return n;
}

static void assert_row(const char *text, const char *row)
{
    if (times_in(text, row) != 1)
        fail_msg("%u times \"%s\" in\n%s", times_in(text, row), row, text);
}

static void every_kind(void **state)
{
    struct tree *t = *state;
    char *json;

    make_folder(t, "dir");
    make_file(t, "file", "12345");
    make_file(t, "dir/inner", "123");
    make_file(t, ".hidden", "x");
    make_folder(t, ".well-known");
    assert_int_equal(mkfifoat(t->root, "fifo", 0666), 0);
    make_link(t, "file", "to-file");
    make_link(t, "dir/inner", "to-inner");
    make_link(t, "../file", "dir/to-file");
    make_link(t, "dir", "to-dir");
    make_link(t, "fifo", "to-fifo");
    make_link(t, "../outside", "to-outside");
    make_link(t, "/etc/passwd", "to-passwd");
    make_link(t, "nothing", "to-nothing");
    make_link(t, "self", "self");
    set_mtime(t, "file", 784111777, 0);
    json = list(t, "/", "format=json");
    assert_true(json_is_valid(json, strlen(json)));
    assert_row(json, "{\"name\":\"file\",\"href\":\"./file\",\"kind\":\"file\",\"link\":false,"
        "\"size_bytes\":5,\"modified\":\"1994-11-06T08:49:37Z\"}");
    assert_row(json, "\"name\":\"dir\",\"href\":\"./dir/\",\"kind\":\"folder\",\"link\":false,"
        "\"size_bytes\":null");
    assert_row(json, "\"name\":\".well-known\"");
    assert_row(json, "\"name\":\"fifo\",\"href\":null,\"kind\":\"fifo\"");
    /* A link is shown as its target; its size and date are those of the file that a visitor
     * gets. */
    assert_row(json, "{\"name\":\"to-file\",\"href\":\"./to-file\",\"kind\":\"file\",\"link\":true,"
        "\"size_bytes\":5,\"modified\":\"1994-11-06T08:49:37Z\"}");
    assert_row(json, "\"name\":\"to-inner\",\"href\":\"./to-inner\",\"kind\":\"file\","
        "\"link\":true,\"size_bytes\":3");
    assert_row(json, "\"name\":\"to-dir\",\"href\":\"./to-dir/\",\"kind\":\"folder\","
        "\"link\":true");
    assert_row(json, "\"name\":\"to-fifo\",\"href\":null,\"kind\":\"fifo\",\"link\":true");
    assert_row(json, "\"name\":\"to-outside\",\"href\":null,\"kind\":\"dead-link\"");
    assert_row(json, "\"name\":\"to-passwd\",\"href\":null,\"kind\":\"dead-link\"");
    assert_row(json, "\"name\":\"to-nothing\",\"href\":null,\"kind\":\"dead-link\"");
    assert_row(json, "\"name\":\"self\",\"href\":null,\"kind\":\"dead-link\"");
    assert_int_equal(times_in(json, "\"name\":"), 12);
    assert_row(json, "\"folders\":3,\"files\":3,\"others\":6,\"size_bytes\":13}");
    free(json);
    /* A link that goes up stays inside: it is looked up from the root. */
    json = list(t, "/dir/", "format=json");
    assert_row(json, "\"name\":\"to-file\",\"href\":\"./to-file\",\"kind\":\"file\",\"link\":true");
    free(json);
    tree_open_site(t, &(struct site_options){.rules.hidden = true, .rules.listing = true});
    json = list(t, "/", "format=json");
    assert_row(json, "\"name\":\".hidden\"");
    assert_int_equal(times_in(json, "\"name\":"), 13);
    free(json);
}

static void every_format(void **state)
{
    static const struct {
        const char *query, *begin;
    } rows[] = {
        {"", "<!doctype html>"}, {"format=html", "<!doctype html>"},
        {"format=what", "<!doctype html>"}, {"format=json", "{\"path\":\"/\""},
        {"format=text", "-               1  "},
    };
    struct tree *t = *state;

    make_file(t, "file", "1");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct http_ask a = ask_for("/", rows[i].query);
        struct source *s;
        size_t len;
        char *body;

        assert_int_equal(site_find(t->site, &a, true, &s), 0);
        assert_true((rows[i].begin[0] == '{') == (strstr(s->type, "json") != NULL));
        body = body_of(t, s, &len);
        assert_memory_equal(body, rows[i].begin, strlen(rows[i].begin));
        free(body);
    }
}

static void sorted_and_filtered(void **state)
{
    struct tree *t = *state;
    char *body;

    make_file(t, "file10", "1");
    make_file(t, "file9", "12");
    make_file(t, "Other", "");
    make_folder(t, "zoo");
    body = list(t, "/", "format=text");
    assert_true(strstr(body, "zoo/") < strstr(body, "file9"));
    assert_true(strstr(body, "file9") < strstr(body, "file10"));
    assert_true(strstr(body, "file10") < strstr(body, "Other"));
    free(body);
    body = list(t, "/", "format=text&sort=size");
    assert_true(strstr(body, "zoo/") < strstr(body, "Other"));
    assert_true(strstr(body, "Other") < strstr(body, "file10"));
    assert_true(strstr(body, "file10") < strstr(body, "file9"));
    free(body);
    body = list(t, "/", "format=text&filter=FILE");
    assert_int_equal(times_in(body, "\n"), 2);
    assert_null(strstr(body, "zoo"));
    free(body);
    body = list(t, "/", "format=text&filter=nobody");
    assert_string_equal(body, "");
    free(body);
}

static void make_numbered(const struct tree *t, unsigned from, unsigned to)
{
    for (; from < to; from++) {
        char name[32];

        snprintf(name, sizeof(name), "entry-%05u", from);
        make_file(t, name, "");
    }
}

static void assert_numbered(const char *json, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        char name[48];

        snprintf(name, sizeof(name), "\"name\":\"entry-%05u\"", i);
        assert_row(json, name);
    }
    assert_int_equal(times_in(json, "\"name\":"), n);
    assert_true(json_is_valid(json, strlen(json)));
}

/* As many entries as may be sorted are; with one more all come unsorted, and the listing says
 * so. */
static void too_many_to_sort(void **state)
{
    struct tree *t = *state;
    char *json;

    make_numbered(t, 0, 300);
    tree_open_site(t, &(struct site_options){.rules.listing = true, .rules.entries_max = 300});
    json = list(t, "/", "format=json");
    assert_row(json, "\"sorted\":true");
    assert_numbered(json, 300);
    free(json);
    make_numbered(t, 300, 301);
    json = list(t, "/", "format=json");
    assert_row(json, "\"sorted\":false");
    assert_numbered(json, 301);
    assert_row(json, "\"folders\":0,\"files\":301,");
    free(json);
    json = list(t, "/", "format=json&filter=entry-001"); /* only shown entries count */
    assert_row(json, "\"sorted\":true");
    assert_int_equal(times_in(json, "\"name\":"), 100);
    free(json);
}

/* Memory of all listings together is bounded: a listing that would exceed it is streamed. */
static void too_much_to_hold(void **state)
{
    struct tree *t = *state;
    const size_t taken = SITE_LISTINGS_BYTES_MAX - 64 * sizeof(struct listing_entry) - 4096;
    struct http_ask a = ask_for("/", "format=json");
    struct source *s;
    char *json;

    make_numbered(t, 0, 64);
    atomic_fetch_add(&t->site->shared->listings_bytes, taken);
    json = list(t, "/", "format=json"); /* exactly as much as the first step of growing takes */
    assert_row(json, "\"sorted\":true");
    free(json);
    atomic_fetch_add(&t->site->shared->listings_bytes, 1);
    json = list(t, "/", "format=json");
    assert_row(json, "\"sorted\":false");
    assert_numbered(json, 64);
    free(json);
    atomic_fetch_sub(&t->site->shared->listings_bytes, taken + 1);
    /* Held memory is counted until it is released. */
    assert_int_equal(site_find(t->site, &a, true, &s), 0);
    /* a listing made in memory has no more */
    assert_int_equal(atomic_load(&t->site->shared->listings_bytes),
                     s->bytes ? 0 : 64 * sizeof(struct listing_entry) + 4096);
    site_release(t->site, s);
    assert_int_equal(atomic_load(&t->site->shared->listings_bytes), 0);
}

/* A listing is released in the middle, whether sorted or streamed (tear_down counts
 * descriptors). */
static void given_up(void **state)
{
    struct tree *t = *state;
    char buf[CHUNK_BYTES_MAX];

    make_numbered(t, 0, 200);
    for (size_t max = 100; max <= 1000; max += 900) {
        struct http_ask a = ask_for("/", "");
        struct source *s;

        tree_open_site(t, &(struct site_options){.rules.listing = true, .rules.entries_max = max});
        assert_int_equal(site_find(t->site, &a, true, &s), 0);
        assert_true(s->bytes || s->next(s, buf, sizeof(buf)) > 0);
        site_release(t->site, s);
        assert_int_equal(site_find(t->site, &a, true, &s), 0);
        site_release(t->site, s);
    }
}

static void names_of_every_byte(void **state)
{
    struct tree *t = *state;
    char name[4] = "xx";
    char *json;

    for (int i = 1; i < 256; i++) {
        name[0] = (char)i;
        if (i != '/')
            make_file(t, name, "");
    }
    for (size_t max = 100; max <= 1000; max += 900) {
        tree_open_site(t, &(struct site_options){.rules.listing = true, .rules.entries_max = max});
        json = list(t, "/", "format=json");
        assert_true(json_is_valid(json, strlen(json)));
        assert_int_equal(times_in(json, "\"name\":"), 253); /* not the slash, nor the hidden one */
        for (int i = 1; i < 256; i++) {
            struct slice one = {name, 2};
            char href[16] = "\"./", end[] = "\",";
            size_t len;

            name[0] = (char)i;
            len = 3 + path_encode(href + 3, one.ptr, one.len);
            memcpy(href + len, end, sizeof(end));
            assert_int_equal(times_in(json, href), i != '/' && i != '.');
        }
        free(json);
    }
}

/* A folder that may be read but not entered: the listing has the names and nothing else. */
static void names_only(void **state)
{
    struct tree *t = *state;
    bool root = geteuid() == 0;
    char *json;

    make_folder(t, "dir");
    make_file(t, "dir/file", "x");
    make_folder(t, "dir/folder");
    make_link(t, "file", "dir/link");
    assert_int_equal(fchmodat(t->root, "dir", 0444, 0), 0);
    if (root)
        assert_int_equal(seteuid(65534), 0);
    /* The index cannot be looked for either: that is a refusal, not a listing. */
    assert_int_equal(answer(t, "/dir/"), -EACCES);
    tree_open_site(t, &(struct site_options){.rules.index = "", .rules.listing = true});
    json = list(t, "/dir/", "format=json");
    assert_row(json, "\"name\":\"file\",\"href\":\"./file\",\"kind\":\"file\",\"link\":false,"
        "\"size_bytes\":null,\"modified\":null}");
    assert_row(json, "\"name\":\"folder\",\"href\":\"./folder/\",\"kind\":\"folder\"");
    assert_row(json, "\"name\":\"link\",\"href\":null,\"kind\":\"dead-link\",\"link\":true");
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(fchmodat(t->root, "dir", 0755, 0), 0);
    free(json);
}

/* next() looks names up as a visitor: a link to a target that others may not reach is as good as
 * dead, even when nothing is looked at before the listing is sent. */
static void streamed_to_a_visitor(void **state)
{
    struct tree *t = *state;
    char *json;

    make_folder(t, "locked");
    make_file(t, "locked/file", "x");
    make_link(t, "locked/file", "to-locked");
    make_link(t, "locked", "to-folder");
    assert_int_equal(fchmodat(t->root, "locked", 0, 0), 0);
    for (size_t max = 1; max <= 100; max += 99) {
        tree_open_site(t, &(struct site_options){.rules.listing = true, .rules.entries_max = max});
        json = list(t, "/", "format=json");
        assert_row(json, max == 1 ? "\"sorted\":false" : "\"sorted\":true");
        assert_row(json, "\"name\":\"to-locked\",\"href\":null,\"kind\":\"dead-link\"");
        assert_row(json, "\"name\":\"to-folder\",\"href\":\"./to-folder/\",\"kind\":\"folder\"");
        free(json);
    }
    assert_int_equal(fchmodat(t->root, "locked", 0755, 0), 0);
}

static void a_folder_removed(void **state)
{
    struct tree *t = *state;
    struct http_ask a = ask_for("/dir/", "format=json");
    struct source *s;
    size_t len;
    char *json;

    make_folder(t, "dir");
    make_file(t, "dir/a", "");
    make_file(t, "dir/b", "");
    tree_open_site(t, &(struct site_options){.rules.listing = true, .rules.entries_max = 1});
    assert_int_equal(site_find(t->site, &a, true, &s), 0);
    assert_int_equal(unlinkat(t->root, "dir/a", 0), 0);
    assert_int_equal(unlinkat(t->root, "dir/b", 0), 0);
    assert_int_equal(unlinkat(t->root, "dir", AT_REMOVEDIR), 0);
    json = body_of(t, s, &len);
    assert_true(json_is_valid(json, len));
    free(json);
}

/* Entries come and go while the folder is read; those that stay are listed once, and the output is
 * strict JSON. */
static void come_and_go(const struct tree *t, void *arg, unsigned round)
{
    char name[32];

    (void)arg;
    snprintf(name, sizeof(name), "comes-%u", round % 50);
    make_file(t, name, "x");
    snprintf(name, sizeof(name), "comes-%u", (round + 26) % 50);
    unlinkat(t->root, name, 0);
}

static void a_folder_that_changes(void **state)
{
    struct tree *t = *state;
    struct changer c = {.once = come_and_go, .t = t};
    unsigned lists = 0;

    make_numbered(t, 0, 100);
    changer_begin(&c);
    while (lists < 50 || atomic_load(&c.rounds) < 200) {
        char *json = list(t, "/", lists % 2 ? "format=json&sort=size" : "format=json");

        assert_true(json_is_valid(json, strlen(json)));
        assert_row(json, "\"name\":\"entry-00000\"");
        assert_int_equal(times_in(json, "\"name\":\"entry-"), 100);
        free(json);
        lists++;
    }
    changer_end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(every_kind),
        TREE_TEST(every_format),
        TREE_TEST(sorted_and_filtered),
        TREE_TEST(too_many_to_sort),
        TREE_TEST(too_much_to_hold),
        TREE_TEST(given_up),
        TREE_TEST(names_of_every_byte),
        TREE_TEST(names_only),
        TREE_TEST(streamed_to_a_visitor),
        TREE_TEST(a_folder_removed),
        TREE_TEST(a_folder_that_changes),
    };

    alarm(300);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
