/* SPDX-License-Identifier: MIT */
/* site.c - files of a real folder as representations: kinds, names, links, siblings, and a link
 * that is changed while it is followed.  Every test also counts descriptors before and after.
 */
#include <pthread.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include "tree.h"

static void a_file(void **state)
{
    struct tree *t = *state;
    struct source *s;
    struct stat st;

    make_folder(t, "sub");
    make_file(t, "sub/page.html", "<p>hello");
    set_mtime(t, "sub/page.html", 1600000000, 123456789);
    assert_int_equal(find(t, "/sub/page.html", &s), 0);
    assert_int_equal(fstatat(t->root, "sub/page.html", &st, 0), 0);
    assert_int_equal(s->kind, SOURCE_BODY);
    assert_int_equal(s->coding, CODING_IDENTITY);
    assert_false(s->vary);
    assert_null(s->bytes);
    assert_non_null(s->file);
    assert_int_equal(s->size, 8);
    assert_string_equal(s->type, "text/html; charset=utf-8");
    assert_int_equal(s->inode, st.st_ino);
    assert_int_equal(s->mtime_s, 1600000000);
    assert_int_equal(s->mtime_ns, 123456789);
    assert_int_equal(s->ctime_s, st.st_ctim.tv_sec);
    assert_int_equal(s->ctime_ns, st.st_ctim.tv_nsec);
    site_release(t->site, s);
    assert_body(t, "/sub/page.html", "<p>hello");
    /* Without permission to wait the answer is the same. */
    struct http_ask a = ask_for("/sub/page.html", "sort=size");
    assert_int_equal(site_find(t->site, &a, false, &s), 0);
    site_release(t->site, s);
}

/* The tag of a file is weak at first, and strong once its times would show another change. */
static void a_young_file(void **state)
{
    struct tree *t = *state;
    bool young = false;
    struct source *s;

    for (int i = 0; i < 10000 && !young; i++) { /* unless each answer comes too late */
        make_file(t, "young", i % 2 ? "a" : "b");
        assert_int_equal(find(t, "/young", &s), 0);
        young = s->young;
        site_release(t->site, s);
    }
    assert_true(young);
    while (young) { /* for a minute, where another clock stamps files; alarm() ends it */
        assert_int_equal(find(t, "/young", &s), 0);
        young = s->young;
        site_release(t->site, s);
    }
}

static void an_empty_file_needs_no_descriptor(void **state)
{
    struct tree *t = *state;
    struct source *s;

    make_file(t, "empty", "");
    assert_int_equal(find(t, "/empty", &s), 0);
    assert_int_equal(s->size, 0);
    assert_non_null(s->bytes);
    assert_int_equal(site_source_fd(s), -1);
    site_release(t->site, s);
}

/* shows K17 */
static void a_file_of_five_gib(void **state)
{
    struct tree *t = *state;
    const off_t size = 5ll << 30;
    struct source *s;
    char end[4] = "";
    int fd;

    make_file(t, "huge", "");
    fd = openat(t->root, "huge", O_WRONLY | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, size), 0);
    assert_int_equal(pwrite(fd, "end", 3, size - 3), 3);
    close(fd);
    assert_int_equal(find(t, "/huge", &s), 0);
    assert_int_equal(s->size, size);
    assert_int_equal(pread(site_source_fd(s), end, 3, size - 3), 3);
    assert_string_equal(end, "end");
    site_release(t->site, s);
}

/* The descriptor is the file that was found, whatever happens to its name. */
static void a_file_replaced_while_it_is_sent(void **state)
{
    struct tree *t = *state;
    struct source *s;
    size_t len;
    char *body;

    make_file(t, "file", "before");
    make_file(t, "new", "after");
    assert_int_equal(find(t, "/file", &s), 0);
    assert_int_equal(renameat(t->root, "new", t->root, "file"), 0);
    body = body_of(t, s, &len);
    assert_string_equal(body, "before");
    free(body);
    assert_body(t, "/file", "after");
}

static void odd_names(void **state)
{
    struct tree *t = *state;
    static const char *const name[] = {
        " ", "a b", "new\nline", "tab\t", "100%", "%41", "<b>", "\"q\"", "'",
        "a&b", "a;b", "a?b", "a#b", "a:b", "back\\slash", "bad\xff\xfe", "\xc3\xa9", "~", "a..b",
        "...x",
        "-rf", "\x01\x7f", "*"};
    char path[NAME_BYTES_MAX + 2];

    tree_open_site(t, &(struct site_options){.rules.hidden = true});
    for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
        make_file(t, name[i], name[i]);
        snprintf(path, sizeof(path), "/%s", name[i]);
        assert_body(t, path, name[i]);
    }
    memset(path, 'n', sizeof(path) - 1);
    path[0] = '/';
    path[NAME_BYTES_MAX + 1] = '\0';
    make_file(t, path + 1, "long");
    assert_body(t, path, "long");
}

static void what_is_not_there(void **state)
{
    struct tree *t = *state;
    char path[PATH_BYTES_MAX + 300];

    make_file(t, "file", "x");
    make_folder(t, "dir");
    make_file(t, "dir/file", "x");
    assert_int_equal(answer(t, "/nothing"), -ENOENT);
    assert_int_equal(answer(t, "/nothing/"), -ENOENT);
    assert_int_equal(answer(t, "/dir/nothing"), -ENOENT);
    assert_int_equal(answer(t, "/file/"), -ENOENT); /* a file is not a folder */
    assert_int_equal(answer(t, "/file/file"), -ENOENT);
    assert_int_equal(answer(t, "/dir/file/"), -ENOENT);
    memset(path, 'n', sizeof(path));
    path[0] = '/';
    path[NAME_BYTES_MAX + 1] = '\0';
    assert_int_equal(answer(t, path), -ENOENT);
    path[NAME_BYTES_MAX + 1] = 'n';
    path[NAME_BYTES_MAX + 2] = '\0';
    assert_int_equal(answer(t, path), -ENAMETOOLONG);
    for (size_t i = 0; i < sizeof(path); i++)
        path[i] = i % 2 ? 'n' : '/';
    path[PATH_BYTES_MAX] = '\0';
    assert_int_equal(answer(t, path), -ENOENT);
    path[PATH_BYTES_MAX] = 'n';
    path[PATH_BYTES_MAX + 1] = '\0';
    assert_int_equal(answer(t, path), -ENAMETOOLONG);
}

static void redirects_and_indexes(void **state)
{
    struct tree *t = *state;
    struct source *s;

    make_folder(t, "dir");
    make_folder(t, "dir/sub");
    assert_int_equal(find(t, "/dir", &s), 0);
    assert_int_equal(s->kind, SOURCE_REDIRECT);
    site_release(t->site, s);
    assert_int_equal(find(t, "/dir/", &s), 0);
    assert_int_equal(s->kind, SOURCE_MADE);
    assert_string_equal(s->type, "text/html; charset=utf-8");
    site_release(t->site, s);
    make_file(t, "dir/index.html", "index");
    make_file(t, "index.html", "top");
    assert_body(t, "/dir/", "index");
    assert_body(t, "/", "top");
    assert_int_equal(find(t, "/dir/", &s), 0);
    assert_string_equal(s->type, "text/html; charset=utf-8");
    site_release(t->site, s);
    /* An index that is not a file is ignored. */
    make_folder(t, "dir/sub/index.html");
    assert_int_equal(find(t, "/dir/sub/", &s), 0);
    assert_int_equal(s->kind, SOURCE_MADE);
    site_release(t->site, s);
    /* Another name for the index, and no index. */
    make_file(t, "dir/sub/start.txt", "start");
    tree_open_site(t, &(struct site_options){.rules.index = "start.txt", .rules.listing = true});
    assert_body(t, "/dir/sub/", "start");
    tree_open_site(t, &(struct site_options){.rules.index = "", .rules.listing = true});
    assert_int_equal(find(t, "/", &s), 0);
    assert_int_equal(s->kind, SOURCE_MADE);
    site_release(t->site, s);
}

static void listings_off_and_later(void **state)
{
    struct tree *t = *state;
    struct http_ask a = ask_for("/dir/", "format=json");
    struct source *s;
    char none[CHUNK_BYTES_MAX];

    make_folder(t, "dir");
    make_file(t, "dir/file", "x");
    assert_int_equal(site_find(t->site, &a, false, &s), -EINPROGRESS);
    a.head = true; /* a head needs no entries, and does not wait for them */
    assert_int_equal(site_find(t->site, &a, false, &s), 0);
    assert_int_equal(s->kind, SOURCE_MADE);
    assert_string_equal(s->type, "application/json; charset=utf-8");
    assert_int_equal(s->next(s, none, sizeof(none)), 0);
    site_release(t->site, s);
    tree_open_site(t, &(struct site_options){.rules.listing = false});
    assert_int_equal(answer(t, "/dir/"), -EACCES);
    assert_int_equal(site_find(t->site, &a, false, &s), -EACCES);
    assert_int_equal(answer(t, "/none/"), -ENOENT);
    assert_body(t, "/dir/file", "x");
    assert_int_equal(answer(t, "/dir"), 0);
}

/* A FIFO, socket or device is refused, and at once (alarm() in main). */
static void what_is_no_file(void **state)
{
    struct tree *t = *state;
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(mkfifoat(t->root, "fifo", 0666), 0);
    assert_int_equal(answer(t, "/fifo"), -EACCES);
    assert_int_equal(answer(t, "/fifo/"), -ENOENT);
    assert_true(fd >= 0);
    /* A short name, wherever the folder is. */
    snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d/socket", t->root);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    assert_int_equal(answer(t, "/socket"), -EACCES);
    close(fd);
    if (mknodat(t->root, "zero", S_IFCHR | 0666, makedev(1, 5)) == 0)
        assert_int_equal(answer(t, "/zero"), -EACCES);
    else
        print_message("no device: making one needs root\n");
}

/* A reader of a FIFO, even for a moment, ends the wait of a writer. */
static void what_is_never_opened(void **state)
{
    static const char *const names[] = {"fifo", "page.html.gz", "page.html.br", "index.html",
                                        "404.html", "dir/fifo"};
    struct tree *t = *state;
    struct http_ask a = ask_for("/page.html", "");
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    char path[300], event[256];
    struct source *s;

    make_file(t, "page.html", "page");
    make_folder(t, "dir");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_int_equal(mkfifoat(t->root, names[i], 0666), 0);
        snprintf(path, sizeof(path), "%s/root/%s", t->top, names[i]);
        assert_true(inotify_add_watch(watch, path, IN_OPEN) >= 0);
    }
    a.q[CODING_GZIP] = a.q[CODING_BR] = 1000;
    assert_int_equal(site_find(t->site, &a, true, &s), 0);
    assert_int_equal(s->coding, CODING_IDENTITY);
    site_release(t->site, s);
    assert_int_equal(answer(t, "/fifo"), -EACCES);
    assert_int_equal(answer(t, "/dir/fifo"), -EACCES);
    assert_int_equal(answer(t, "/"), 0);
    assert_int_equal(site_page(t->site, 404, &s), -ENOENT);
    assert_int_equal(read(watch, event, sizeof(event)), -1);
    assert_int_equal(errno, EAGAIN);
    close(watch);
}

static void what_may_not_be_read(void **state)
{
    struct tree *t = *state;
    bool root = geteuid() == 0;
    struct source *s;

    make_file(t, "secret", "x");
    make_folder(t, "locked");
    make_file(t, "locked/file", "x");
    make_folder(t, "through");
    make_file(t, "through/file", "through");
    make_folder(t, "index");
    make_file(t, "index/index.html", "x");
    assert_int_equal(fchmodat(t->root, "secret", 0, 0), 0);
    assert_int_equal(fchmodat(t->root, "index/index.html", 0, 0), 0);
    assert_int_equal(fchmodat(t->root, "locked", 0, 0), 0);
    assert_int_equal(fchmodat(t->root, "through", 0111, 0), 0);
    if (root)
        assert_int_equal(seteuid(65534), 0);
    assert_int_equal(answer(t, "/secret"), -EACCES);
    assert_int_equal(answer(t, "/locked/file"), -EACCES);
    assert_int_equal(answer(t, "/locked/"), -EACCES);
    assert_int_equal(answer(t, "/through/"), -EACCES);
    assert_int_equal(answer(t, "/index/"), -EACCES);
    assert_int_equal(find(t, "/through", &s), 0);
    assert_int_equal(s->kind, SOURCE_REDIRECT);
    site_release(t->site, s);
    assert_body(t, "/through/file", "through");
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(fchmodat(t->root, "locked", 0755, 0), 0);
    assert_int_equal(fchmodat(t->root, "through", 0755, 0), 0);
}

/* Root may read everything; but only files that others may read are served. */
static void what_others_may_not_read(void **state)
{
    static const struct {
        const char *path;
        mode_t mode;
        int err;
    } rows[] = {
        {"/file", 0604, 0}, {"/file", 0600, -EACCES}, {"/file", 0640, -EACCES},
        {"/file", 0666, 0}, {"/dir/file", 0600, -EACCES}, {"/dir/file", 0644, 0},
        {"/dir/", 0755, 0}, {"/dir/", 0750, -EACCES}, {"/dir/", 0751, -EACCES},
        {"/dir/", 0754, -EACCES},
    };
    static const char *const below[] = {"/dir/file", "/dir/sub/file", "/dir/sub/", "/dir/sub",
                                        "/link", "/dir/none", "/into/file"};
    struct tree *t = *state;
    struct http_ask a = ask_for("/page.html", "");
    struct source *s;

    if (geteuid() != 0) {
        print_message("not root: what_may_not_be_read has it\n");
        skip();
    }
    make_folder(t, "dir");
    make_folder(t, "dir/sub");
    make_file(t, "file", "x");
    make_file(t, "dir/file", "x");
    make_file(t, "dir/sub/file", "x");
    make_link(t, "dir/file", "link");
    make_link(t, "dir", "into");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(fchmodat(t->root, rows[i].path + 1, rows[i].mode, 0), 0);
        if (answer(t, rows[i].path) != rows[i].err)
            fail_msg("%s %o: %d", rows[i].path, rows[i].mode, answer(t, rows[i].path));
    }
    tree_open_site(t, &usual); /* the permission to pass a folder is remembered for a second */
    assert_int_equal(fchmodat(t->root, "dir", 0754, 0), 0);
    for (size_t i = 0; i < sizeof(below) / sizeof(below[0]); i++)
        assert_int_equal(answer(t, below[i]), -EACCES);
    assert_int_equal(fchmodat(t->root, "dir", 0711, 0), 0);
    for (size_t i = 0; i < sizeof(below) / sizeof(below[0]); i++)
        assert_int_equal(answer(t, below[i]), strstr(below[i], "none") ? -ENOENT : 0);
    assert_int_equal(answer(t, "/dir/"), -EACCES);
    /* A sibling or an error page that others may not read does not exist for the site. */
    make_file(t, "page.html", "page");
    make_file(t, "page.html.gz", "gzip");
    make_file(t, "404.html", "page");
    a.q[CODING_GZIP] = 1000;
    assert_int_equal(fchmodat(t->root, "page.html.gz", 0600, 0), 0);
    assert_int_equal(fchmodat(t->root, "404.html", 0600, 0), 0);
    assert_int_equal(site_find(t->site, &a, true, &s), 0);
    assert_int_equal(s->coding, CODING_IDENTITY);
    site_release(t->site, s);
    assert_true(site_page(t->site, 404, &s) < 0);
    make_file(t, "index.html", "index");
    assert_int_equal(answer(t, "/"), 0);
    assert_int_equal(fchmodat(t->root, "index.html", 0600, 0), 0);
    assert_int_equal(answer(t, "/"), -EACCES);
}

static void hidden_names(void **state)
{
    static const struct {
        const char *path;
        bool hidden;
    } rows[] = {
        {"/.hidden", true}, {"/.dir/file", true}, {"/dir/.hidden", true}, {"/dir/.dir/file", true},
        {"/..x", true}, {"/.well-knownx", true}, {"/.well-known/.hidden", true},
        {"/.well-known/file", false}, {"/dir/.well-known", false}, {"/a.b", false},
        {"/dir/a.b", false},
        {"/dir./file", false},
    };
    struct tree *t = *state;

    make_folder(t, ".dir");
    make_folder(t, "dir");
    make_folder(t, "dir.");
    make_folder(t, "dir/.dir");
    make_folder(t, ".well-known");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        make_file(t, rows[i].path + 1, "x");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(answer(t, rows[i].path), rows[i].hidden ? -ENOENT : 0);
    assert_int_equal(answer(t, "/.dir"), -ENOENT);
    assert_int_equal(answer(t, "/.dir/"), -ENOENT);
    assert_int_equal(answer(t, "/.well-known"), 0);
    assert_int_equal(answer(t, "/.well-known/"), 0);
    tree_open_site(t, &(struct site_options){.rules.hidden = true, .rules.listing = true});
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(answer(t, rows[i].path), 0);
}

/* No name can be found in a removed root, and that is not the fault of the name. */
static void a_root_that_is_removed(void **state)
{
    struct tree *t = *state;
    struct http_ask a = ask_for("/", "");
    struct source *s;

    make_file(t, "file", "x");
    assert_body(t, "/file", "x");
    assert_int_equal(answer(t, "/none"), -ENOENT);
    assert_int_equal(answer(t, "/"), 0);
    assert_int_equal(unlinkat(t->root, "file", 0), 0);
    assert_int_equal(answer(t, "/"), 0); /* empty, but there */
    assert_int_equal(unlinkat(t->root, "../root", AT_REMOVEDIR), 0);
    assert_int_equal(answer(t, "/file"), -ESTALE);
    assert_int_equal(answer(t, "/none/"), -ESTALE);
    assert_int_equal(answer(t, "/.git"), -ESTALE);
    assert_int_equal(answer(t, "/"), -ESTALE);
    assert_int_equal(site_find(t->site, &a, false, &s), -ESTALE);
    a.head = true;
    assert_int_equal(site_find(t->site, &a, false, &s), -ESTALE);
}

static void pages_of_the_site(void **state)
{
    struct tree *t = *state;
    struct source *s;
    char *body;
    size_t len;

    assert_int_equal(site_page(t->site, 404, &s), -ENOENT);
    make_file(t, "404.html", "not here");
    make_folder(t, "403.html");
    make_link(t, "../outside/x", "500.html");
    assert_int_equal(mkfifoat(t->root, "503.html", 0666), 0);
    assert_int_equal(site_page(t->site, 404, &s), 0);
    assert_string_equal(s->type, "text/html; charset=utf-8");
    body = body_of(t, s, &len);
    assert_string_equal(body, "not here");
    free(body);
    assert_true(site_page(t->site, 403, &s) < 0);
    assert_true(site_page(t->site, 500, &s) < 0);
    assert_true(site_page(t->site, 503, &s) < 0);
}

static void sites_that_cannot_be_opened(void **state)
{
    struct tree *t = *state;
    struct site *site = NULL;
    char path[300];
    const char *why = NULL;

    make_file(t, "file", "x");
    snprintf(path, sizeof(path), "%s/root/nothing", t->top);
    assert_int_equal(site_open(&site, &(struct site_options){.root = path}, &why), -ENOENT);
    assert_string_equal(why, "open folder");
    snprintf(path, sizeof(path), "%s/root/file", t->top);
    assert_int_equal(site_open(&site, &(struct site_options){.root = path}, &why), -ENOTDIR);
    snprintf(path, sizeof(path), "%s/root", t->top);
    struct site_options up = {.root = path, .rules.index = "../x"};
    assert_int_equal(site_open(&site, &up, &why), -EINVAL);
    assert_non_null(why);
    assert_null(site);
    site_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(a_file), TREE_TEST(a_young_file),
        TREE_TEST(an_empty_file_needs_no_descriptor),
        TREE_TEST(a_file_of_five_gib),
        TREE_TEST(a_file_replaced_while_it_is_sent),
        TREE_TEST(odd_names),
        TREE_TEST(what_is_not_there),
        TREE_TEST(redirects_and_indexes),
        TREE_TEST(listings_off_and_later),
        TREE_TEST(what_is_no_file),
        TREE_TEST(what_is_never_opened),
        TREE_TEST(what_may_not_be_read),
        TREE_TEST(what_others_may_not_read),
        TREE_TEST(hidden_names),
        TREE_TEST(pages_of_the_site),
        TREE_TEST(a_root_that_is_removed),
        TREE_TEST(sites_that_cannot_be_opened),
    };

    alarm(300); /* a file that blocks fails instead of hanging */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
