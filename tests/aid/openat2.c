/* SPDX-License-Identifier: MIT */
/* openat2.c - openat2(2) where there is none: under valgrind, whose 3.19 does not know the call.
 *
 * Linked into a rung of its own (-Wl,--wrap=syscall) that only the valgrind layers run.  It opens by openat()
 * and then looks where the descriptor led: right for a tree that nobody changes meanwhile, which is why
 * the server itself does nothing of the kind.
 */
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

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* The path behind a descriptor, or "". */
static void path_of_fd(int fd, char path[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = '\0';
}

static bool is_beneath(int root_fd, int fd)
{
    char root[PATH_MAX], path[PATH_MAX];
    path_of_fd(root_fd, root);
    path_of_fd(fd, path);
    size_t n = strlen(root);
    return strncmp(root, path, n) == 0 && (path[n] == '/' || path[n] == '\0' || n == 1);
}

/* A link on the way whose target begins with '/': RESOLVE_BENEATH refuses it wherever it leads. */
static bool has_absolute_link(int root_fd, const char *path)
{
    char part[PATH_MAX], target[2];
    for (size_t n = 1; path[n - 1] != '\0' && n < sizeof(part); n++) {
        if (path[n] != '/' && path[n] != '\0')
            continue;
        memcpy(part, path, n);
        part[n] = '\0';
        if (readlinkat(root_fd, part, target, sizeof(target)) > 0 && target[0] == '/')
            return true;
    }
    return false;
}

static long open_beneath(int root_fd, const char *path, const struct open_how *how)
{
    if (path[0] == '/' || has_absolute_link(root_fd, path)) {
        errno = EXDEV;
        return -1;
    }
    int fd = openat(root_fd, path, (int)how->flags, (mode_t)how->mode);
    if (fd >= 0 && !is_beneath(root_fd, fd)) {
        close(fd);
        errno = EXDEV;
        return -1;
    }
    return fd;
}

long __wrap_syscall(long number, ...)
{
    long arg[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        arg[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_openat2)
        return open_beneath((int)arg[0], (const char *)arg[1], (const struct open_how *)arg[2]);
    return __real_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}
