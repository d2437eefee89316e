/* SPDX-License-Identifier: MIT */
/* cache_kind.c - the file systems on which every change sends its event.
 *
 * inotify sees what is done through this machine's kernel.  On a network file system other machines
 * change files; a FUSE server or the layers below overlayfs may change behind the kernel's back.
 * Nothing is kept there, nor on a file system that is not in the list: its behaviour is not known.
 * Tested by experiment: ext4, XFS, Btrfs, tmpfs.
 *
 * Before Linux 5.17 the event of a removal is sent before the name is gone (fsnotify_delete() moved
 * behind d_delete() then): a look-up in between would find the file, and no event would follow.
 */
#include <linux/magic.h>
#include <stdio.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include "cache_inside.h"

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342 /* since Linux 4.9 in <linux/magic.h> */
#endif

static const struct kind {
    uint32_t magic;
    const char *refusal; /* NULL: it fits */
} kinds[] = {
    {EXT4_SUPER_MAGIC, NULL}, /* ext2 and ext3, too */
    {XFS_SUPER_MAGIC, NULL},
    {BTRFS_SUPER_MAGIC, NULL},
    {TMPFS_MAGIC, NULL},
    {OVERLAYFS_SUPER_MAGIC, "overlayfs: its layers may change unseen"},
    {NFS_SUPER_MAGIC, "NFS: other machines change files"},
    {0xff534d42 /* CIFS */, "CIFS: other machines change files"},
    {0xfe534d42 /* SMB2 */, "SMB: other machines change files"},
    {V9FS_MAGIC, "9p: the host changes files"},
    {FUSE_SUPER_MAGIC, "FUSE: its server may change files unseen"},
};

enum { EXACT_MAJOR = 5, EXACT_MINOR = 17 };

static bool is_old_kernel(void)
{
    struct utsname name;
    unsigned major, minor;

    return uname(&name) < 0 || sscanf(name.release, "%u.%u", &major, &minor) != 2 ||
           major < EXACT_MAJOR || (major == EXACT_MAJOR && minor < EXACT_MINOR);
}

static const char *const other = "a file system that has not been tested";

const char *cache_refusal(int fd)
{
    struct statfs fs;

    if (is_old_kernel())
        return "Linux before 5.17: it reports a removal before the name is gone";
    if (fstatfs(fd, &fs) < 0)
        return other;
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (kinds[i].magic == (uint32_t)fs.f_type)
            return kinds[i].refusal;
    return other;
}

bool cache_fits(int fd)
{
    return !cache_refusal(fd);
}
