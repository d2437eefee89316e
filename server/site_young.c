/* SPDX-License-Identifier: MIT */
/* site_young.c - the facts that core/stamp.c needs about the clocks that stamp files: the kernel's
 * tick, and whether the kernel stamps them.  The root's file system is asked once.  Another one is
 * asked at each file that was changed in the last minute, unless it is a server's, which might not
 * answer.
 */
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include "../core/stamp.h"
#include "site_inside.h"

enum { NS_PER_S = 1000000000 };

static bool is_foreign(int fd, const struct stat *st)
{
    struct statfs fs;

    return fstatfs(fd, &fs) < 0 ||
           stamp_is_foreign((uint32_t)fs.f_type, major(st->st_dev) != 0);
}

void young_init(struct young *young, int root_fd)
{
    struct timespec tick;
    struct stat st;

    if (clock_getres(CLOCK_REALTIME_COARSE, &tick) < 0)
        tick = (struct timespec){.tv_nsec = NS_PER_S / 100}; /* the longest tick there is */
    young->tick_ns = tick.tv_nsec + (int64_t)tick.tv_sec * NS_PER_S;
    if (fstat(root_fd, &st) < 0)
        *young = (struct young){.tick_ns = young->tick_ns, .foreign = true};
    else
        *young = (struct young){young->tick_ns, st.st_dev, is_foreign(root_fd, &st)};
}

bool young_is(struct site *site, int fd, const struct stat *st, const struct timespec *now)
{
    const struct young *young = &site->young;
    struct stamp_clock clock = {now->tv_sec, now->tv_nsec, young->tick_ns, true};
    int64_t changed_s = st->st_ctim.tv_sec;
    uint32_t changed_ns = (uint32_t)st->st_ctim.tv_nsec;

    if (!stamp_is_young(&clock, changed_s, changed_ns)) /* whatever the clock */
        return false;
    if (st->st_dev == young->dev)
        clock.foreign = young->foreign;
    else
        clock.foreign = site_place_of(site, fd, st->st_dev) == SITE_FAR || is_foreign(fd, st);
    return stamp_is_young(&clock, changed_s, changed_ns);
}
