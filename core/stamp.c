/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* stamp.c - from which moment on every change of a file shows in its times.
 *
 * A change stamps a file's ctime with the kernel's coarse clock, which moves in ticks, cut to what
 * the file system can store.  So two changes can have one stamp, and an ETag made between them
 * stands for both.  Once that clock is a whole step beyond the stamp, every later change gets
 * another one.  The step is learned, not assumed:
 *
 *   the clock's      the host knows.  Since Linux 6.13 some file systems refine a stamp that was
 *                    looked at; then the rule is stricter than it needs to be
 *   the file's       no call says, and what the kernel notes of a file system (s_time_gran) is
 *                    wrong for FAT; but the stamp shows it: cut to microseconds, 10 ms (exFAT), 1 s
 *                    (HFS+, small ext3 inodes) or 2 s (FAT), it ends in that many zeros
 *   another clock's  NFS, SMB, FUSE and others take stamps from a machine or process whose clock
 *                    may be ahead of or behind ours: FOREIGN_S have to pass
 *
 * write(2) stamps first and copies its bytes afterwards, hence a few ticks more.  Two kinds of
 * write take longer than their stamps say, and nothing here can see them: one write(2) of very many
 * bytes, and stores through a shared mapping (docs/http.md).
 */
#include "stamp.h"

enum {
    WRITE_TICKS = 4, /* between a stamp and the bytes that it stands for */
    FOREIGN_S = 60,  /* what RFC 7232 2.2.2 allowed for dates that come from different clocks */
    NS_PER_S = 1000000000,
};

/* At least the step in which such a stamp is stored. */
static int64_t step_of(uint32_t ns)
{
    uint32_t step = 1;

    if (ns == 0)
        return 2 * (int64_t)NS_PER_S;
    while (ns % (10 * step) == 0)
        step *= 10;
    return step;
}

bool stamp_is_young(const struct stamp_clock *clock, int64_t changed_s, uint32_t changed_ns)
{
    int64_t age_ns;

    if (changed_s > clock->now_s) /* the clock was set back */
        return true;
    if (changed_s < clock->now_s - FOREIGN_S)
        return false;
    if (clock->foreign)
        return true;
    age_ns = (clock->now_s - changed_s) * NS_PER_S + clock->now_ns - changed_ns;
    return age_ns <= step_of(changed_ns) + WRITE_TICKS * clock->tick_ns;
}

bool stamp_is_local(uint32_t magic, bool device)
{
    switch (magic) { /* linux/magic.h */
    case 0x01021994: /* tmpfs */
    case 0x858458f6: /* ramfs */
    case 0x9123683e: /* Btrfs: on devices, but each subvolume has a number of its own */
        return true;
    case 0x65735546: /* FUSE: a process answers, though it may have a device (fuseblk) */
    case 0x7461636f: /* OCFS2: machines share the device */
    case 0x01161970: /* GFS2, too */
        return false;
    default:
        return device;
    }
}

/* An overlay has its pages elsewhere, but its changes show in its inodes; if a layer learns of
 * changes from elsewhere its dentries say so. */
bool stamp_is_foreign(uint32_t magic, bool device)
{
    return magic != 0x794c7630 /* overlayfs */ && !stamp_is_local(magic, device);
}
