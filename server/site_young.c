/* SPDX-License-Identifier: MIT */
/* site_young.c - whether a file changed so lately that the next change may leave its times as they
 * are.
 *
 * A change stamps a file's ctime with the kernel's coarse clock, which moves in ticks, cut to what
 * the file system can store.  So two changes can have one stamp, and an ETag made between them
 * stands for both.  Once that clock is a whole step beyond the stamp, every later change gets
 * another one.  The step is learned, not assumed:
 *
 *   the clock's      clock_getres() says.  Since Linux 6.13 some file systems refine a stamp that
 *                    was looked at; then the rule is stricter than it needs to be
 *   the file's       no call says, but the stamp shows it: cut to microseconds, 10 ms (exFAT), 1 s
 *                    (HFS+, small ext3 inodes) or 2 s (FAT), it ends in that many zeros
 *   another clock's  NFS, SMB, FUSE and others take stamps from a machine or process whose clock
 *                    may be ahead of or behind ours: FOREIGN_S have to pass
 *
 * write(2) stamps first and copies its bytes afterwards, hence a few ticks more.  Two kinds of
 * write take longer than their stamps say, and nothing here can see them: one write(2) of very many
 * bytes, and stores through a shared mapping (docs/http.md).
 */
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include "site_inside.h"

enum {
    WRITE_TICKS = 4, /* between a stamp and the bytes that it stands for; as in kernel/kwitness.c */
    FOREIGN_S = 60,  /* what RFC 7232 2.2.2 allowed for dates that come from different clocks */
    NS_PER_S = 1000000000,
};

/* Changes that go through this kernel alone, stamped by its clock: a block device, or memory. */
static bool is_foreign(int fd, const struct stat *st)
{
    struct statfs fs;

    if (major(st->st_dev) != 0)
        return false;
    if (fstatfs(fd, &fs) < 0)
        return true;
    switch (fs.f_type) {
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC: /* on devices, but each subvolume has a number of its own */
        return false;
    default:
        return true;
    }
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

/* At least the step in which such a stamp is stored. */
static int64_t step_of(long ns)
{
    int64_t step = 1;

    if (ns == 0)
        return 2 * (int64_t)NS_PER_S;
    while (ns % (10 * step) == 0)
        step *= 10;
    return step;
}

bool young_is(const struct young *young, int fd, const struct stat *st, const struct timespec *now)
{
    const struct timespec *changed = &st->st_ctim;
    int64_t age_ns;

    if (changed->tv_sec > now->tv_sec) /* the clock was set back */
        return true;
    if (changed->tv_sec < now->tv_sec - FOREIGN_S)
        return false;
    if (st->st_dev == young->dev ? young->foreign : is_foreign(fd, st))
        return true;
    age_ns = (now->tv_sec - changed->tv_sec) * (int64_t)NS_PER_S + now->tv_nsec - changed->tv_nsec;
    return age_ns <= step_of(changed->tv_nsec) + WRITE_TICKS * young->tick_ns;
}
