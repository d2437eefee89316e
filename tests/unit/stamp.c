/* SPDX-License-Identifier: MIT */
/* stamp.c - when a file's times begin to show its next change: both sides of every step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <linux/magic.h>
#include "../../core/stamp.h"

enum { TICK_NS = 4000000, NOW_S = 1700000000, HALF_NS = 500000000, NS_PER_S = 1000000000 };

/* Whether a stamp with those nanoseconds is young, age_ns later. */
static bool young_at(bool foreign, uint32_t stamp_ns, int64_t age_ns)
{
    int64_t ns = stamp_ns + age_ns;
    struct stamp_clock clock = {NOW_S + ns / NS_PER_S, ns % NS_PER_S, TICK_NS, foreign};

    if (clock.now_ns < 0) {
        clock.now_s--;
        clock.now_ns += NS_PER_S;
    }
    return stamp_is_young(&clock, NOW_S, stamp_ns);
}

/* Four ticks for the write, plus the resolution that the stamp shows. */
static void a_step_later(void **state)
{
    static const struct {
        uint32_t stamp_ns;
        int64_t step_ns;
    } cases[] = {
        {123456789, 1}, {123456780, 10}, {123456700, 100}, {123456000, 1000},
        {120000000, 10000000}, {HALF_NS, 100000000}, {1, 1}, {999999999, 1},
        {0, 2000000000}, /* whole seconds may be only even ones */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t limit_ns = cases[i].step_ns + 4 * TICK_NS;

        assert_true(young_at(false, cases[i].stamp_ns, 0));
        assert_true(young_at(false, cases[i].stamp_ns, limit_ns));
        assert_false(young_at(false, cases[i].stamp_ns, limit_ns + 1));
        assert_false(young_at(false, cases[i].stamp_ns, 3600ll * NS_PER_S));
        assert_true(young_at(false, cases[i].stamp_ns, -1)); /* the clock was set back */
        assert_true(young_at(false, cases[i].stamp_ns, -3600ll * NS_PER_S));
    }
}

/* The clock of another machine may differ by a minute. */
static void another_clock(void **state)
{
    (void)state;
    assert_true(young_at(true, HALF_NS, 0));
    assert_true(young_at(true, HALF_NS, 60ll * NS_PER_S));
    assert_false(young_at(true, HALF_NS, 61ll * NS_PER_S));
    assert_false(young_at(false, HALF_NS, HALF_NS));
}

static void strange_times(void **state)
{
    static const int64_t old[] = {INT64_MIN, INT32_MIN, -1, 0};
    const struct stamp_clock clock = {NOW_S, 0, TICK_NS, false};

    (void)state;
    for (size_t i = 0; i < sizeof(old) / sizeof(old[0]); i++)
        assert_false(stamp_is_young(&clock, old[i], 0));
    assert_true(stamp_is_young(&clock, INT64_MAX, 0));
}

static void whose_clock(void **state)
{
    static const struct {
        uint32_t magic;
        bool device, local, foreign;
    } cases[] = {
        {EXT4_SUPER_MAGIC, true, true, false},
        {MSDOS_SUPER_MAGIC, true, true, false},
        {TMPFS_MAGIC, false, true, false},
        {RAMFS_MAGIC, false, true, false},
        {BTRFS_SUPER_MAGIC, false, true, false},
        {BTRFS_SUPER_MAGIC, true, true, false}, /* as the kernel sees it */
        {OVERLAYFS_SUPER_MAGIC, false, false, false},
        {NFS_SUPER_MAGIC, false, false, true},
        {PROC_SUPER_MAGIC, false, false, true},
        {FUSE_SUPER_MAGIC, false, false, true},
        {FUSE_SUPER_MAGIC, true, false, true}, /* fuseblk */
        {OCFS2_SUPER_MAGIC, true, false, true},
        {0x01161970 /* GFS2 */, true, false, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(stamp_is_local(cases[i].magic, cases[i].device), cases[i].local);
        assert_int_equal(stamp_is_foreign(cases[i].magic, cases[i].device), cases[i].foreign);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_later),
        cmocka_unit_test(another_clock),
        cmocka_unit_test(strange_times),
        cmocka_unit_test(whose_clock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
