/* SPDX-License-Identifier: MIT */
/* site_open.c - from a name to a descriptor: beneath the root, never a hidden thing, never a FIFO.
 *
 * Every open starts at the root's descriptor with openat2(RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS),
 * and the result is checked with fstat: there is no moment between a check and a use.
 *
 *   usual      RESOLVE_NO_SYMLINKS too: the path asked for is the path found, so its names were
 *              judged (path_is_hidden) before anything was opened
 *   linked     the kernel says -ELOOP, or the name is a link: what it leads to is opened by O_PATH,
 *              its own path is read from /proc and judged by the same rule, and it is opened again
 *              through its descriptor, which names that very thing.  Without /proc it is refused
 *
 * Opening a FIFO would wake a writer that waits for a reader, and closing it would break the pipe.
 * O_PATH first would cost every file a second open; so the name is looked at with fstatat, and only
 * a regular file is opened.  A FIFO that takes the name just then is opened, seen by fstat and
 * refused: O_NONBLOCK keeps it from blocking, and O_NOCTTY keeps a terminal from becoming our
 * controlling terminal.
 *
 * Root may open everything.  A server that is started as root and stays root serves only things
 * that others may read (site->world): files and folders by their modes, and folders on the way by
 * theirs, except the root itself, which was named on purpose.
 *
 * fstatat follows links among the folders above the name, and so might leave the root.  It is
 * called only when those folders were found to be no links less than a second ago
 * (SITE_NEGATIVE_MS), or just now if there is a cache.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "../base/say.h"
#include "site_inside.h"

enum {
    OPEN_FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY,
    OPEN_TRIES = 32, /* a rename anywhere may make openat2(2) give up on a link's "..": -EAGAIN */
    PROC_NAME_BYTES = 32,
    GONE_SAID_MS = 10000, /* how often to say that the root was removed */
};

/* A descriptor, or the kernel's own -errno. */
static int open_as(const struct site *site, const char *path, int flags, uint64_t resolve)
{
    struct open_how how = {
        .flags = (unsigned)flags | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve,
    };
    unsigned tries = 0;
    long fd;

    do
        fd = syscall(SYS_openat2, site->root_fd, path, &how, sizeof(how));
    while (fd < 0 && (errno == EINTR || (errno == EAGAIN && ++tries < OPEN_TRIES)));
    return fd < 0 ? -errno : (int)fd;
}

/* --- What everyone may read ------------------------------------------------------------------- */

/* 0, or -EACCES: root may open it, and others may not. */
static int mode_error(const struct site *site, mode_t mode, mode_t needed)
{
    return site->world && (mode & needed) != needed ? -EACCES : 0;
}

/* Whether others may pass the folders on a path without links; the last component is not one of
 * them.  0 or -errno. */
static int folders_error(const struct site *site, const char *path)
{
    char folder[PATH_MAX];
    struct stat st;
    size_t i;
    int err = 0;

    for (i = 0; site->world && !err && path[i] != '\0' && i < sizeof(folder); i++) {
        folder[i] = path[i];
        if (path[i] != '/')
            continue;
        folder[i] = '\0';
        if (fstatat(site->root_fd, folder, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
            return docroot_error(-errno);
        err = mode_error(site, st.st_mode, S_IXOTH);
        folder[i] = '/';
    }
    return err;
}

/* --- Links ------------------------------------------------------------------------------------ */

static void proc_name(char name[PROC_NAME_BYTES], int fd)
{
    snprintf(name, PROC_NAME_BYTES, "/proc/self/fd/%d", fd);
}

/* The path of what a descriptor names; ptr NULL: there is none. */
static struct slice path_of(int fd, char buf[PATH_MAX])
{
    char name[PROC_NAME_BYTES];
    ssize_t n;

    proc_name(name, fd);
    n = readlink(name, buf, PATH_MAX - 1);
    if (n <= 0 || n == PATH_MAX - 1)
        return (struct slice){NULL, 0};
    buf[n] = '\0';
    return (struct slice){buf, (size_t)n};
}

/* Whether visitors may see the thing that a link led to: 0, or -errno.  Its path must lie beneath
 * the root's and contain no hidden name, and visitors must be allowed to pass its folders. */
static int judge(const struct site *site, int fd)
{
    char of_root[PATH_MAX], of_thing[PATH_MAX];
    struct slice root = path_of(site->root_fd, of_root), thing = path_of(fd, of_thing);

    if (root.ptr && thing.ptr)
        thing = docroot_beneath(&site->rules, root, thing);
    if (!root.ptr || !thing.ptr)
        return -ENOENT; /* like a hidden name */
    return folders_error(site, thing.ptr);
}

/* Open by O_PATH the thing that a path with a link in it leads to.  A descriptor or -errno. */
static int open_linked(const struct site *site, const char *path, int flags)
{
    int fd = open_as(site, path, O_PATH | (flags & O_DIRECTORY), 0), err;

    if (fd < 0)
        return docroot_error(fd);
    err = site->rules.hidden && !site->world ? 0 : judge(site, fd);
    if (!err)
        return fd;
    close(fd);
    return err;
}

/* Open again the thing that fd, opened by O_PATH, names; fd is closed. */
static int open_again(int fd, int flags)
{
    char name[PROC_NAME_BYTES];
    int opened, err;

    proc_name(name, fd);
    do
        opened = open(name, flags | O_CLOEXEC);
    while (opened < 0 && errno == EINTR);
    err = opened < 0 ? -errno : 0;
    close(fd);
    if (err == -ENOENT) /* there is no /proc */
        return -EACCES;
    return err ? docroot_error(err) : opened;
}

/* Whether others may list that folder.  Not called for the root, from which everyone is served. */
static int list_error(const struct site *site, int fd)
{
    struct stat st;

    if (!site->world)
        return 0;
    return fstat(fd, &st) < 0 ? -errno : mode_error(site, st.st_mode, S_IROTH | S_IXOTH);
}

int site_open_beneath(const struct site *site, const char *path, int flags)
{
    int fd = open_as(site, path, flags, RESOLVE_NO_SYMLINKS), err;

    if (fd == -ELOOP) {
        fd = open_linked(site, path, flags);
        if (fd < 0 || (flags & O_PATH))
            return fd;
        fd = open_again(fd, flags);
        err = 0;
    } else {
        err = fd < 0 ? docroot_error(fd) : folders_error(site, path);
    }
    if (!err && fd >= 0 && !(flags & O_PATH) && strcmp(path, ".") != 0)
        err = list_error(site, fd);
    if (err && fd >= 0)
        close(fd);
    return err ? err : fd;
}

bool site_is_gone(const struct site *site)
{
    char path[PATH_MAX];
    struct slice root;
    uint64_t due_ms = atomic_load_explicit(&site->shared->gone_ms, memory_order_relaxed), now_ms;
    struct stat st;

    if (!site->counts_links || fstat(site->root_fd, &st) < 0 || st.st_nlink > 0)
        return false;
    now_ms = clock_ms();
    root = path_of(site->root_fd, path);
    if (now_ms >= due_ms &&
        atomic_compare_exchange_strong(&site->shared->gone_ms, &due_ms, now_ms + GONE_SAID_MS))
        say_error("the folder that is served was removed: %.*s; every request gets 503",
                  (int)root.len, root.ptr ? root.ptr : "");
    return true;
}

/* --- Files ------------------------------------------------------------------------------------ */

/* 0: no folder on the way to that name is a link, or none was less than SITE_NEGATIVE_MS ago.
 * -ELOOP: one may be; or -EACCES. */
static int way_error(struct site *site, const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_BYTES_MAX + NAME_BYTES_MAX];
    uint32_t now_ms;
    size_t len;
    int fd, err;

    if (!slash)
        return 0;
    len = (size_t)(slash - path);
    now_ms = (uint32_t)clock_ms();
    if (!site_is_exact(site) && negative_has(&site->no_symlinks, path, len, now_ms))
        return 0;
    if (len >= sizeof(folder))
        return -ELOOP;
    memcpy(folder, path, len);
    folder[len] = '\0';
    fd = open_as(site, folder, O_PATH | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
    if (fd < 0)
        return -ELOOP;
    close(fd);
    err = folders_error(site, path);
    if (!err)
        negative_add(&site->no_symlinks, path, len, now_ms);
    return err;
}

/* 0: it may be opened; otherwise -errno. */
static int error_of_kind(const struct site *site, const struct stat *st)
{
    if (S_ISREG(st->st_mode))
        return mode_error(site, st->st_mode, S_IROTH);
    return S_ISDIR(st->st_mode) ? -EISDIR : -EACCES;
}

static int open_linked_file(const struct site *site, const char *path, struct stat *st)
{
    int fd = open_linked(site, path, 0), err;

    if (fd < 0)
        return fd;
    err = fstat(fd, st) < 0 ? -errno : error_of_kind(site, st);
    if (!err)
        return open_again(fd, OPEN_FLAGS);
    close(fd);
    return err;
}

int site_open_file(struct site *site, const char *path, struct stat *st)
{
    int fd, err;

    st->st_mode = 0;
    err = way_error(site, path);
    if (err)
        return err == -ELOOP ? open_linked_file(site, path, st) : err;
    if (fstatat(site->root_fd, path, st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
        return docroot_error(-errno);
    if (S_ISLNK(st->st_mode))
        return open_linked_file(site, path, st);
    err = error_of_kind(site, st);
    if (err)
        return err;
    fd = open_as(site, path, OPEN_FLAGS, RESOLVE_NO_SYMLINKS);
    if (fd == -ELOOP) /* a link has appeared */
        return open_linked_file(site, path, st);
    if (fd < 0)
        return docroot_error(fd);
    err = fstat(fd, st) < 0 ? -errno : error_of_kind(site, st);
    if (err) {
        close(fd);
        return err;
    }
    return fd;
}
