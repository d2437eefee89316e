/* SPDX-License-Identifier: MIT */
/* space.c - enters a network namespace, named as ip netns names it or by a path.
 *
 * The namespace is entered before anything else, because devices and the module's file are looked
 * up by name in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>
#include "drop.h"

#define SPACES "/run/netns/"

static int refuse(const char *name, const char *path, int error)
{
    if (error == EPERM)
        say_error("cannot enter the network namespace %s: not permitted; it needs root", name);
    else if (error == EINVAL)
        say_error("%s is no network namespace", path);
    else if (error == ENOENT && path != name)
        say_error("there is no network namespace '%s': ip netns list has the names, and a path "
                  "such as /proc/PID/ns/net names one too", name);
    else
        say_error("cannot enter the network namespace %s: %s", path, say_why(error));
    return EXIT_FAILED;
}

int space_enter(const char *name)
{
    char path[PATH_MAX];
    const char *at = name;
    int fd, error;

    if (!name)
        return EXIT_DONE;
    if (!strchr(name, '/')) {
        if (snprintf(path, sizeof(path), SPACES "%s", name) >= (int)sizeof(path))
            return refuse(name, name, ENAMETOOLONG);
        at = path;
    }
    fd = open(at, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return refuse(name, at, errno);
    error = setns(fd, CLONE_NEWNET) < 0 ? errno : 0;
    close(fd);
    return error ? refuse(name, at, error) : EXIT_DONE;
}
