/* SPDX-License-Identifier: MIT */
/* cache_mounts.c - what is mounted below the folder that is served.
 *
 * A mount hides files without an event, and the kernel tells only that the list of mounts has
 * changed (proc_pid_mountinfo(5)).  On a machine with containers that is often, and hardly ever has
 * it to do with the folder.  So the lines of mounts below the folder are summed up in a number: as
 * long as it is the same, what is kept stays true.  A mount on the folder itself, or above it, does
 * not change what the root's descriptor leads to.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "cache_inside.h"
#include "hash.h"

enum { MOUNT_POINT = 4, ESCAPED_BYTES = 4 }; /* the field before which so many spaces are; \040 */

/* The root's path as the list has it, with a slash behind.  0: it is not known. */
static size_t root_of(const struct cache *c, char root[PATH_MAX * ESCAPED_BYTES + 2])
{
    char name[32], path[PATH_MAX];
    size_t len = 0;
    ssize_t n;

    snprintf(name, sizeof(name), "/proc/self/fd/%d", c->site->root_fd);
    n = readlink(name, path, sizeof(path));
    if (n <= 0 || n == (ssize_t)sizeof(path) || path[0] != '/')
        return 0;
    for (ssize_t i = 0; i < n; i++) {
        if (strchr(" \t\n\\", path[i]))
            len += (size_t)snprintf(root + len, ESCAPED_BYTES + 1, "\\%03o",
                                    (unsigned char)path[i]);
        else
            root[len++] = path[i];
    }
    if (root[len - 1] != '/')
        root[len++] = '/';
    root[len] = '\0';
    return len;
}

static bool is_below(const char *line, const char *root, size_t len)
{
    for (unsigned field = 0; line && field < MOUNT_POINT; field++) {
        line = strchr(line, ' ');
        line = line ? line + 1 : NULL;
    }
    return line && strncmp(line, root, len) == 0 && line[len] != ' ';
}

uint64_t cache_mounts(const struct cache *c)
{
    char root[PATH_MAX * ESCAPED_BYTES + 2], *line = NULL;
    FILE *list = fopen("/proc/self/mountinfo", "re");
    size_t len = root_of(c, root), room = 0;
    uint64_t sum = 1;
    ssize_t n;

    if (!list)
        return 0;
    while (len && (n = getline(&line, &room, list)) > 0)
        if (is_below(line, root, len))
            sum = sum * HASH_MIX ^ hash_of(c->key, line, (size_t)n);
    if (ferror(list) || !feof(list))
        sum = 0;
    free(line);
    fclose(list);
    return sum;
}
