/* SPDX-License-Identifier: MIT */
/* site_place.c - whether a file lies in memory, on a disk of this machine, or with a server that
 * may not answer.
 *
 * statfs(2) would say, but it asks that server.  So the file's mount is looked up in the list of
 * mounts, by its number; a file system that is not known here is taken for a server's.  The result
 * is kept by device number for a second, because another file system may get that number later.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include "site_inside.h"

enum { PLACE_BITS = 2, SECOND_BITS = 30, MS_PER_S = 1000, LINE_BYTES = 2048 };

static const struct {
    const char *name; /* filesystems(5) */
    enum site_place place;
} kinds[] = {
    {"tmpfs", SITE_MEMORY},   {"ramfs", SITE_MEMORY},   {"hugetlbfs", SITE_MEMORY},
    {"ext4", SITE_DISK},      {"ext3", SITE_DISK},      {"ext2", SITE_DISK},
    {"xfs", SITE_DISK},       {"btrfs", SITE_DISK},     {"f2fs", SITE_DISK},
    {"zfs", SITE_DISK},       {"bcachefs", SITE_DISK},  {"overlay", SITE_DISK},
    {"squashfs", SITE_DISK},  {"erofs", SITE_DISK},     {"iso9660", SITE_DISK},
    {"udf", SITE_DISK},       {"vfat", SITE_DISK},      {"msdos", SITE_DISK},
    {"exfat", SITE_DISK},     {"ntfs3", SITE_DISK},     {"jfs", SITE_DISK},
    {"nilfs2", SITE_DISK},    {"reiserfs", SITE_DISK},  {"ubifs", SITE_DISK},
};

static enum site_place place_of_kind(const char *name, size_t len)
{
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strlen(kinds[i].name) == len && memcmp(kinds[i].name, name, len) == 0)
            return kinds[i].place;
    return SITE_FAR;
}

/* A line of proc_pid_mountinfo(5) has the kind after " - ". */
static enum site_place place_of_line(const char *line)
{
    const char *kind = strstr(line, " - ");

    return kind ? place_of_kind(kind + 3, strcspn(kind + 3, " ")) : SITE_FAR;
}

static enum site_place place_of_mount(uint64_t id)
{
    FILE *list = mounts_list();
    enum site_place place = SITE_FAR;
    char line[LINE_BYTES];
    bool begins = true; /* and is not the rest of a longer one */

    if (!list)
        return SITE_FAR;
    while (fgets(line, sizeof(line), list)) {
        if (begins && strtoull(line, NULL, 10) == id) {
            place = place_of_line(line);
            break;
        }
        begins = strchr(line, '\n') != NULL;
    }
    fclose(list);
    return place;
}

static enum site_place place_of_file(int fd)
{
    struct statx st;

    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &st) < 0 ||
        !(st.stx_mask & STATX_MNT_ID))
        return SITE_FAR;
    return place_of_mount(st.stx_mnt_id);
}

enum site_place site_place_of(struct site *site, int fd, dev_t dev)
{
    uint64_t number = (uint64_t)major(dev) << 20 | minor(dev); /* as the kernel has it: 32 bits */
    uint64_t now_s = clock_ms() / MS_PER_S & ((1u << SECOND_BITS) - 1);
    _Atomic uint64_t *known = &site->places[number % SITE_PLACES];
    uint64_t word = atomic_load_explicit(known, memory_order_relaxed);

    if (word >> PLACE_BITS == (number << SECOND_BITS | now_s) && number)
        return (enum site_place)(word & ((1u << PLACE_BITS) - 1));
    word = (number << SECOND_BITS | now_s) << PLACE_BITS | place_of_file(fd);
    atomic_store_explicit(known, word, memory_order_relaxed);
    return (enum site_place)(word & ((1u << PLACE_BITS) - 1));
}
