/* SPDX-License-Identifier: MIT */
/* site_changes.c - files that the kernel's site keeps in memory are never older than the disk was
 * when the answer was requested, however the disk changed.  Runs in a guest, as root (ksite.py).
 * An argument chooses among the tests by their names.
 */
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include "cached.h"

/* --- Changes ---------------------------------------------------------------------------------- */

static void replace(const struct tree *t)
{
    make_file(t, "new", "new");
    assert_int_equal(renameat(t->root, "new", t->root, "a/b/file.txt"), 0);
}

static void write_in_place(const struct tree *t)
{
    overwrite(t, "a/b/file.txt", "new");
}

static void shorten(const struct tree *t)
{
    int fd = openat(t->root, "a/b/file.txt", O_WRONLY | O_CLOEXEC);

    assert_int_equal(ftruncate(fd, 2), 0);
    close(fd);
}

static void rename_it(const struct tree *t)
{
    assert_int_equal(renameat(t->root, "a/b/file.txt", t->root, "a/b/other"), 0);
}

static void rename_and_back(const struct tree *t)
{
    rename_it(t);
    make_file(t, "a/b/file.txt", "new");
}

static void unlink_it(const struct tree *t)
{
    assert_int_equal(unlinkat(t->root, "a/b/file.txt", 0), 0);
}

static void lock_it(const struct tree *t)
{
    assert_int_equal(fchmodat(t->root, "a/b/file.txt", 0600, 0), 0);
}

static void lock_its_folder(const struct tree *t)
{
    assert_int_equal(fchmodat(t->root, "a/b", 0700, 0), 0);
}

static void lock_far_above(const struct tree *t)
{
    assert_int_equal(fchmodat(t->root, "a", 0700, 0), 0);
}

static void rename_its_folder(const struct tree *t)
{
    assert_int_equal(renameat(t->root, "a", t->root, "c"), 0);
}

static void put_a_folder_in_place(const struct tree *t)
{
    rename_its_folder(t);
    make_folder(t, "a");
    make_folder(t, "a/b");
    make_file(t, "a/b/file.txt", "new");
}

static void exchange_folders(const struct tree *t)
{
    make_folder(t, "c");
    make_folder(t, "c/b");
    make_file(t, "c/b/file.txt", "new");
    assert_int_equal(renameat2(t->root, "a", t->root, "c", RENAME_EXCHANGE), 0);
}

static void put_a_link_in_place(const struct tree *t)
{
    make_folder(t, "c");
    make_file(t, "c/file.txt", "new");
    assert_int_equal(renameat(t->root, "a/b", t->root, "a/d"), 0);
    make_link(t, "../c", "a/b");
}

static void put_a_mount_over_it(const struct tree *t)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/root/a", t->top);
    assert_int_equal(mount("none", path, "tmpfs", 0, "mode=755"), 0);
}

static void put_a_fifo_in_place(const struct tree *t)
{
    unlink_it(t);
    assert_int_equal(mkfifoat(t->root, "a/b/file.txt", 0666), 0);
}

/* The very next request sees the change, and the answer is the disk's: content, or -errno. */
static void changes_are_seen(void **state)
{
    static const struct {
        const char *name;
        void (*make)(const struct tree *t);
        const char *content;
        int err;
    } rows[] = {
        {"replaced", replace, "new", 0},
        {"written in place", write_in_place, "new", 0},
        {"shortened", shorten, "ol", 0},
        {"renamed", rename_it, NULL, -ENOENT},
        {"another of that name", rename_and_back, "new", 0},
        {"removed", unlink_it, NULL, -ENOENT},
        {"locked", lock_it, NULL, -EACCES},
        {"its folder locked", lock_its_folder, NULL, -EACCES},
        {"a folder above locked", lock_far_above, NULL, -EACCES},
        {"its folder renamed", rename_its_folder, NULL, -ENOENT},
        {"another folder", put_a_folder_in_place, "new", 0},
        {"folders exchanged", exchange_folders, "new", 0},
        {"a link for its folder", put_a_link_in_place, "new", 0},
        {"mounted over", put_a_mount_over_it, NULL, -EACCES}, /* mounts are not crossed */
        {"a FIFO", put_a_fifo_in_place, NULL, -EACCES},
    };
    struct tree *t = *state;
    char path[300];

    snprintf(path, sizeof(path), "%s/root/a", t->top);
    open_cached(t, (struct twin_cache){.bytes = CACHE_BYTES});
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        make_folder(t, "a");
        make_folder(t, "a/b");
        make_file(t, "a/b/file.txt", "old");
        if (!is_kept(t, "/a/b/file.txt"))
            fail_msg("not kept before it was %s", rows[i].name);
        rows[i].make(t);
        if (try_once(t, "/a/b/file.txt") != -EINPROGRESS)
            fail_msg("still there: %s", rows[i].name);
        if (rows[i].content)
            assert_body(t, "/a/b/file.txt", rows[i].content);
        else
            assert_int_equal(answer(t, "/a/b/file.txt"), rows[i].err);
        umount(path);
        nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        snprintf(path + strlen(path) - 1, 2, "c");
        nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        snprintf(path + strlen(path) - 1, 2, "a");
    }
    assert_true(counts(t).stale >= sizeof(rows) / sizeof(rows[0]));
}

/* Two writes so close together that no attribute distinguishes them, with a request in between: in
 * the same tick of the clock, or within the same second on a disk that stores whole seconds. */
static void changes_within_a_tick(void **state)
{
    struct tree *t = *state;
    struct http_ask a = plain("/file.txt");

    open_cached(t, (struct twin_cache){.bytes = CACHE_BYTES});
    make_file(t, "file.txt", "first");
    for (unsigned i = 0; i < 300; i++) {
        struct source *s;
        char *body;
        size_t len;

        overwrite(t, "file.txt", "first");
        assert_body(t, "/file.txt", "first");
        overwrite(t, "file.txt", "other");
        if (site_twin_try(t->site, &a, &s))
            assert_int_equal(site_find(t->site, &a, true, &s), 0);
        body = body_of(t, s, &len);
        assert_string_equal(body, "other");
        free(body);
    }
}

/* A change elsewhere leaves an entry alone. */
static void other_changes_do_not_matter(void **state)
{
    struct tree *t = *state;

    open_cached(t, (struct twin_cache){.bytes = CACHE_BYTES});
    make_folder(t, "a");
    make_folder(t, "a/b");
    make_file(t, "a/b/image.png", "old");
    make_file(t, "a/b/page.html", "old");
    assert_true(is_kept(t, "/a/b/image.png"));
    assert_true(is_kept(t, "/a/b/page.html"));
    make_file(t, "elsewhere", "x");
    make_file(t, "a/above", "x");
    assert_int_equal(try_once(t, "/a/b/page.html"), 0);
    make_file(t, "a/b/beside", "x"); /* it might have been page.html.br */
    assert_int_equal(try_once(t, "/a/b/page.html"), -EINPROGRESS);
    assert_int_equal(try_once(t, "/a/b/image.png"), 0);
}

/* A write through a mapping is not reported: the old answer lasts as long as an entry may live. */
static void a_mapping(void **state)
{
    struct tree *t = *state;
    int64_t began;
    char *map;
    int fd;

    open_cached(t, (struct twin_cache){.bytes = CACHE_BYTES, .ms = 60000});
    make_file(t, "file", "old");
    fd = openat(t->root, "file", O_RDWR | O_CLOEXEC);
    map = mmap(NULL, 3, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    assert_true(is_kept(t, "/file"));
    began = now_ms();
    memcpy(map, "new", 3);
    while (try_once(t, "/file") == 0) {
        assert_true(now_ms() < began + 15000);
        rest_ms(100);
    }
    assert_body(t, "/file", "new");
    munmap(map, 3);
    close(fd);
}

/* --- A slow write ----------------------------------------------------------------------------- */

/* A page that its reader waits for until it is filled (userfaultfd(2)). */
struct late_page {
    int faults;
    char *at;
};

static void late_open(struct late_page *p)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};

    p->faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    assert_true(p->faults >= 0);
    assert_int_equal(ioctl(p->faults, UFFDIO_API, &api), 0);
    p->at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(p->at, MAP_FAILED);
    range.range = (struct uffdio_range){(uintptr_t)p->at, 4096};
    assert_int_equal(ioctl(p->faults, UFFDIO_REGISTER, &range), 0);
}

/* Fill the page late.  Until then the writer waits: the file has its new times, but old bytes. */
static void late_fill(struct late_page *p, const char *text)
{
    char page[4096] __attribute__((aligned(4096))) = "";
    struct uffdio_copy copy = {.dst = (uintptr_t)p->at, .src = (uintptr_t)page, .len = 4096};
    struct uffd_msg told;

    assert_int_equal(read(p->faults, &told, sizeof(told)), sizeof(told));
    rest_ms(100);
    memcpy(page, text, strlen(text));
    assert_int_equal(ioctl(p->faults, UFFDIO_COPY, &copy), 0);
}

struct late_write {
    const struct tree *t;
    struct late_page page;
};

static void *write_late(void *arg)
{
    struct late_write *w = arg;
    int fd = openat(w->t->root, "file.txt", O_WRONLY | O_CLOEXEC);

    assert_int_equal(write(fd, w->page.at, 3), 3);
    close(fd);
    return NULL;
}

static void *ask_all_the_time(void *arg)
{
    struct changer *c = arg;
    struct http_ask a = plain("/file.txt");
    struct source *s;

    while (!atomic_load(&c->over)) {
        if (site_find(c->t->site, &a, true, &s) == 0)
            site_release(c->t->site, s);
        rest_ms(5);
    }
    return NULL;
}

static void a_write_that_takes_its_time(void **state)
{
    struct tree *t = *state;
    struct late_write w = {.t = t};
    struct changer asking = {.t = t};
    pthread_t writer, asker;

    open_cached(t, (struct twin_cache){.bytes = CACHE_BYTES});
    make_file(t, "file.txt", "old");
    assert_true(is_kept(t, "/file.txt"));
    late_open(&w.page);
    assert_int_equal(pthread_create(&asker, NULL, ask_all_the_time, &asking), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_late, &w), 0);
    late_fill(&w.page, "new");
    pthread_join(writer, NULL);
    atomic_store(&asking.over, true);
    pthread_join(asker, NULL);
    assert_body(t, "/file.txt", "new");
    assert_true(is_kept(t, "/file.txt")); /* and then it is as before */
    munmap(w.page.at, 4096);
    close(w.page.faults);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(changes_are_seen),
        TREE_TEST(changes_within_a_tick),
        TREE_TEST(other_changes_do_not_matter),
        TREE_TEST(a_mapping),
        TREE_TEST(a_write_that_takes_its_time),
    };

    alarm(300);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
