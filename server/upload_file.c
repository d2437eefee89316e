/* SPDX-License-Identifier: MIT */
/* upload_file.c - a file that gets its name when it is complete.
 *
 * The file's bytes are on the disk before it has its name (fdatasync), so a machine that stops has
 * the whole file or none.  A file system without O_TMPFILE (NFS, FAT, FUSE before Linux 6.2) is
 * refused at the start: a temporary name would show a part of a file, and outlive a crash.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "upload.h"

enum {
    OPEN_TRIES = 32, /* a rename anywhere may make openat2(2) give up: -EAGAIN */
    PROC_NAME_BYTES = 32
};

static int status_of(int err)
{
    switch (err) {
    case ENOENT:
    case ENOTDIR:
        return -404;
    case EACCES:
    case EPERM:
    case EROFS:
    case ELOOP: /* a link on the way */
    case EXDEV: /* out of the root */
        return -403;
    case EEXIST:
        return -409;
    case EFBIG:
        return -413;
    case ENAMETOOLONG:
        return -414;
    case ENOSPC:
    case EDQUOT:
        return -507;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN:
        return -503;
    default:
        return -500;
    }
}

int upload_folder_open(int root_fd, const char *path)
{
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    const char *name = path[1] ? path + 1 : ".";
    unsigned tries = 0;
    long fd;

    do
        fd = syscall(SYS_openat2, root_fd, name, &how, sizeof(how));
    while (fd < 0 && (errno == EINTR || (errno == EAGAIN && ++tries < OPEN_TRIES)));
    return fd < 0 ? status_of(errno) : (int)fd;
}

int upload_file_open(int folder)
{
    int fd = openat(folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);

    return fd < 0 ? status_of(errno) : fd;
}

bool upload_is_taken(int folder, const char *name)
{
    struct stat st;

    return fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0;
}

bool upload_fits(int folder, uint64_t bytes)
{
    struct statfs fs;

    return fstatfs(folder, &fs) < 0 || !fs.f_bsize || !fs.f_blocks ||
           bytes / (uint64_t)fs.f_bsize <= fs.f_bavail;
}

int upload_file_write(int fd, const char *bytes, size_t n)
{
    while (n) {
        ssize_t wrote = write(fd, bytes, n);

        if (wrote < 0 && errno != EINTR)
            return status_of(errno);
        bytes += wrote > 0 ? wrote : 0;
        n -= wrote > 0 ? (size_t)wrote : 0;
    }
    return 0;
}

int upload_file_name(int fd, int folder, const char *name)
{
    char proc[PROC_NAME_BYTES];

    if (fdatasync(fd) < 0)
        return status_of(errno);
    snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, proc, folder, name, AT_SYMLINK_FOLLOW) < 0 ? status_of(errno) : 0;
}
