/* SPDX-License-Identifier: MIT */
/* cache_mounts.c - what is mounted below the folder that is served.
 *
 * A mount hides files without an event, and the kernel reports only that the list of mounts has
 * changed (proc_pid_mountinfo(5)).  On a machine with containers that happens often, and hardly
 * ever concerns the folder.  So the lines of mounts below the folder are summed up in a number: as
 * long as it is the same, the kept answers stay true.  A mount on the folder itself, or above it,
 * does not change what the root's descriptor leads to.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cache_inside.h"
#include "hash.h"

enum {
    MOUNT_POINT = 4,   /* spaces before that field */
    ESCAPED_BYTES = 4, /* \040 */
    LINE_BYTES = 8192
};

/* Too large for the stack of a coroutine. */
struct scratch {
    char path[PATH_MAX], root[PATH_MAX * ESCAPED_BYTES + 2], line[LINE_BYTES];
};

/* The root's path as the list has it, followed by a slash.  0: it is not known. */
static size_t root_of(const struct cache *c, struct scratch *s)
{
    const char *path = s->path;
    char name[32], *root = s->root;
    size_t len = 0;
    ssize_t n;

    snprintf(name, sizeof(name), "/proc/self/fd/%d", c->site->root_fd);
    n = readlink(name, s->path, sizeof(s->path));
    if (n <= 0 || n == (ssize_t)sizeof(s->path) || path[0] != '/')
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

/* True, too, if the line does not fit in the buffer with its mount point: it may be below. */
static bool is_below(const char *line, const char *root, size_t len)
{
    for (unsigned field = 0; line && field < MOUNT_POINT; field++) {
        line = strchr(line, ' ');
        line = line ? line + 1 : NULL;
    }
    return !line || (strncmp(line, root, len) == 0 && line[len] != ' ');
}

static uint64_t sum_of(const struct cache *c, FILE *list, struct scratch *s)
{
    size_t len = root_of(c, s);
    bool below = false, begins = true; /* of a line; false: its rest follows */
    uint64_t sum = 1;

    while (len && fgets(s->line, sizeof(s->line), list)) {
        below = begins ? is_below(s->line, s->root, len) : below;
        begins = strchr(s->line, '\n') != NULL;
        if (below)
            sum = sum * HASH_MIX ^ hash_of(c->key, s->line, strlen(s->line));
    }
    return ferror(list) || !feof(list) ? 0 : sum;
}

uint64_t cache_mounts(const struct cache *c)
{
    FILE *list = mounts_list();
    struct scratch *s = malloc(sizeof(*s));
    uint64_t sum = list && s ? sum_of(c, list, s) : 0;

    free(s);
    if (list)
        fclose(list);
    return sum;
}
