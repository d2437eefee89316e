/* SPDX-License-Identifier: MIT */
/* openat2.c - openat2(2) for programs under valgrind, whose version 3.19 does not know the call.
 *
 * A shared object that is preloaded (LD_PRELOAD) only under valgrind.  It resolves the links of a
 * path itself, refuses what RESOLVE_BENEATH refuses, and opens the resulting path.  That is correct
 * only for a tree that does not change during the call, so the server itself does nothing of the
 * kind.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LINKS_MAX = 40 }; /* the kernel's limit */

/* Appends a component to a path.  Returns 0 or -errno; ".." may not leave the root. */
static int step(char at[PATH_MAX], const char *name, size_t n)
{
    size_t len = strlen(at);

    if (n == 0 || (n == 1 && name[0] == '.'))
        return 0;
    if (n == 2 && name[0] == '.' && name[1] == '.') {
        char *slash = strrchr(at, '/');

        if (len == 0)
            return -EXDEV;
        *(slash ? slash : at) = '\0';
        return 0;
    }
    if (len + n + 2 > PATH_MAX)
        return -ENAMETOOLONG;
    snprintf(at + len, PATH_MAX - len, "%s%.*s", len ? "/" : "", (int)n, name);
    return 0;
}

/* Writes the path without links and dots to at.  Returns 0 or -errno. */
static int resolve(int root_fd, const char *path, bool no_links, char at[PATH_MAX])
{
    char rest[2 * PATH_MAX], target[PATH_MAX], tail[PATH_MAX];
    int links = 0;

    snprintf(rest, sizeof(rest), "%s", path);
    at[0] = '\0';
    while (rest[0] != '\0') {
        size_t n = strcspn(rest, "/"), before = strlen(at);

        if (rest[0] == '/' && links == 0 && before == 0)
            return -EXDEV;
        int err = step(at, rest, n);
        if (err)
            return err;
        snprintf(tail, sizeof(tail), "%s", rest + n + (rest[n] == '/'));
        ssize_t got = readlinkat(root_fd, at, target, sizeof(target) - 1);
        if (got <= 0 || strlen(at) <= before) {
            memmove(rest, rest + n + (rest[n] == '/'), strlen(rest) - n + (rest[n] != '/'));
            continue;
        }
        target[got] = '\0';
        if (no_links)
            return -ELOOP;
        if (target[0] == '/')
            return -EXDEV;
        if (++links > LINKS_MAX)
            return -ELOOP;
        at[before] = '\0';
        snprintf(rest, sizeof(rest), "%s%s%s", target, tail[0] ? "/" : "", tail);
    }
    return 0;
}

static long open_beneath(int root_fd, const char *path, const struct open_how *how)
{
    char at[PATH_MAX];
    int err = how ? resolve(root_fd, path, how->resolve & RESOLVE_NO_SYMLINKS, at) : -EFAULT;

    if (err) {
        errno = -err;
        return -1;
    }
    size_t len = strlen(path);
    if (len > 1 && path[len - 1] == '/' && at[0] != '\0' && step(at, "/", 1) < 0)
        at[0] = '\0';
    return openat(root_fd, at[0] ? at : ".", (int)how->flags, (mode_t)how->mode);
}

long syscall(long number, ...)
{
    static long (*libc_syscall)(long, ...);
    long arg[6];
    va_list list;

    va_start(list, number);
    for (int i = 0; i < 6; i++)
        arg[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_openat2)
        return open_beneath((int)arg[0], (const char *)arg[1], (const struct open_how *)arg[2]);
    if (!libc_syscall)
        *(void **)&libc_syscall = dlsym(RTLD_NEXT, "syscall");
    return libc_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}
