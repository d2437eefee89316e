/* SPDX-License-Identifier: MIT */
/* mounts.c - the list of mounts (proc_pid_mountinfo(5)), also in a sandbox that cannot open it by
 * name.
 *
 * Each reader needs an opening of its own.  A descriptor that was opened before leads to the same
 * file under /proc/self/fd, and it keeps that file's inode in memory, which a rule of Landlock is
 * bound to.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "inside.h"

static int kept = -1;

int mounts_keep(void)
{
    if (kept < 0)
        kept = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    return kept < 0 ? -errno : kept;
}

int mounts_open(void)
{
    char name[32] = "/proc/self/mountinfo";

    if (kept >= 0)
        snprintf(name, sizeof(name), "/proc/self/fd/%d", kept);
    return open(name, O_RDONLY | O_CLOEXEC);
}

FILE *mounts_list(void)
{
    int fd = mounts_open();
    FILE *list = fd < 0 ? NULL : fdopen(fd, "re");

    if (fd >= 0 && !list)
        close(fd);
    return list;
}
