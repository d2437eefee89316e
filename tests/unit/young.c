/* SPDX-License-Identifier: MIT */
/* young.c - from when on a file's times show its next change: both sides of every step. */
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <linux/magic.h>
#include "tree.h"

enum { TICK_NS = 4000000, NOW_S = 1700000000, HALF_NS = 500000000 };

static const struct young here = {.tick_ns = TICK_NS, .dev = 7};

/* Whether a file is young whose stamp has those nanoseconds, age_ns later. */
static bool young_at(const struct young *young, long stamp_ns, int64_t age_ns)
{
    struct stat st = {.st_dev = 7, .st_ctim = {.tv_sec = NOW_S, .tv_nsec = stamp_ns}};
    int64_t ns = stamp_ns + age_ns;
    struct timespec now = {.tv_sec = NOW_S + ns / 1000000000, .tv_nsec = ns % 1000000000};

    if (now.tv_nsec < 0) {
        now.tv_sec--;
        now.tv_nsec += 1000000000;
    }
    return young_is(young, -1, &st, &now);
}

/* Four ticks for the write, and the step that the stamp shows. */
static void a_step_later(void **state)
{
    static const struct {
        long stamp_ns;
        int64_t step_ns;
    } cases[] = {
        {123456789, 1}, {123456780, 10}, {123456700, 100}, {123456000, 1000},
        {120000000, 10000000}, {HALF_NS, 100000000}, {1, 1},
        {0, 2000000000}, /* whole seconds may be even ones alone */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t limit_ns = cases[i].step_ns + 4 * TICK_NS;

        assert_true(young_at(&here, cases[i].stamp_ns, 0));
        assert_true(young_at(&here, cases[i].stamp_ns, limit_ns));
        assert_false(young_at(&here, cases[i].stamp_ns, limit_ns + 1));
        assert_false(young_at(&here, cases[i].stamp_ns, 3600ll * 1000000000));
        assert_true(young_at(&here, cases[i].stamp_ns, -1)); /* the clock was set back */
        assert_true(young_at(&here, cases[i].stamp_ns, -3600ll * 1000000000));
    }
}

/* Another clock may be a minute apart. */
static void another_clock(void **state)
{
    struct young there = here;

    (void)state;
    there.foreign = true;
    assert_true(young_at(&there, HALF_NS, 0));
    assert_true(young_at(&there, HALF_NS, 60ll * 1000000000));
    assert_false(young_at(&there, HALF_NS, 61ll * 1000000000));
    /* Another file system is looked at, and one that cannot be looked at is not trusted. */
    there.dev = 8;
    assert_true(young_at(&there, HALF_NS, HALF_NS - 1));
    there.foreign = false;
    there.dev = 7;
    assert_false(young_at(&there, HALF_NS, HALF_NS));
}

static void strange_times(void **state)
{
    static const int64_t old[] = {INT64_MIN, INT32_MIN, -1, 0};
    const struct timespec now = {.tv_sec = NOW_S};
    struct stat st = {.st_dev = 7};

    (void)state;
    for (size_t i = 0; i < sizeof(old) / sizeof(old[0]); i++) {
        st.st_ctim.tv_sec = old[i];
        assert_false(young_is(&here, -1, &st, &now));
    }
    st.st_ctim.tv_sec = INT64_MAX;
    assert_true(young_is(&here, -1, &st, &now));
}

/* A tick is what clock_getres() says, and file systems are told apart by device and kind. */
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
    assert_true(young.foreign); /* none of those that are known */
    young_init(&young, -1);
    assert_true(young.foreign);
    close(proc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_later),
        cmocka_unit_test(another_clock),
        cmocka_unit_test(strange_times),
        TREE_TEST(learned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
