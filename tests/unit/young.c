/* SPDX-License-Identifier: MIT */
/* young.c - which clock stamps a file, and in which ticks; the rule itself is tested in stamp.c. */
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <linux/magic.h>
#include "tree.h"

enum { TICK_NS = 4000000, NOW_S = 1700000000, HALF_NS = 500000000 };

/* Another file system is looked at, and one that cannot be looked at is not trusted. */
static void another_file_system(void **state)
{
    struct tree *t = *state;
    const struct timespec now = {.tv_sec = NOW_S + 1};
    struct stat st = {.st_dev = 7, .st_ctim = {.tv_sec = NOW_S, .tv_nsec = HALF_NS}};
    static struct site site;

    site.young = (struct young){.tick_ns = TICK_NS, .dev = 7};
    assert_false(young_is(&site, -1, &st, &now));
    site.young.foreign = true;
    assert_true(young_is(&site, -1, &st, &now));
    st.st_ctim.tv_sec -= 61;
    assert_false(young_is(&site, -1, &st, &now));
    st.st_ctim.tv_sec += 61;
    site.young = (struct young){.tick_ns = TICK_NS, .dev = 8};
    assert_true(young_is(&site, -1, &st, &now));
    young_init(&site.young, t->root);
    st.st_dev = makedev(8, 1); /* a disk whose kind cannot be queried */
    assert_true(young_is(&site, -1, &st, &now));
}

/* A tick is what clock_getres() returns; file systems are distinguished by device and kind. */
static void learned(void **state)
{
    struct tree *t = *state;
    struct timespec tick;
    struct statfs fs;
    struct young young;
    struct stat st;
    int proc = open("/proc", O_PATH | O_CLOEXEC);

    young_init(&young, t->root);
    assert_int_equal(clock_getres(CLOCK_REALTIME_COARSE, &tick), 0);
    assert_int_equal(young.tick_ns, tick.tv_nsec);
    assert_int_equal(fstat(t->root, &st), 0);
    assert_int_equal(young.dev, st.st_dev);
    assert_int_equal(fstatfs(t->root, &fs), 0);
    if (major(st.st_dev) != 0 || fs.f_type == TMPFS_MAGIC || fs.f_type == OVERLAYFS_SUPER_MAGIC)
        assert_false(young.foreign);
    young_init(&young, proc);
    assert_true(young.foreign); /* none of the known ones */
    young_init(&young, -1);
    assert_true(young.foreign);
    close(proc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(another_file_system),
        TREE_TEST(learned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
