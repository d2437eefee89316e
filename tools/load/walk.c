/* SPDX-License-Identifier: MIT */
/* walk.c - the files below a folder become URLs, as a server of that folder names them (--walk).
 *
 * By the rules of rung serve: percent-encoded; nothing hidden except /.well-known (RFC 8615); a
 * link to a file counts while it stays below the folder.  Links to folders are not followed,
 * because they may lead in circles.  index.html is requested by its folder's name, as people do.
 *
 * A file or folder that cannot be read is reported and ends the walk: a load on a part of a folder
 * would pass for one on the whole.  fts(3) is not used, because it takes an error of reading a
 * folder for its end.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "../../base/say.h"
#include "workload.h"

#define INDEX "index.html"

struct walk {
    struct plan *plan;
    const char *base; /* ends with a slash */
    int root_fd;
    char path[PATH_BYTES_MAX]; /* below the root, of the current entry */
    char url[3 * PATH_BYTES_MAX + TARGET_BYTES_MAX];
};

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Whether an entry is visited: not . and .., and no hidden one except .well-known. */
static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.' || strcmp(entry->d_name, ".well-known") == 0;
}

static int refuse(const struct walk *walk, int error)
{
    const char *root = walk->plan->opt->walk, *slash = root[strlen(root) - 1] == '/' ? "" : "/";

    say_error("--walk: cannot read %s%s%s: %s%s", root, *walk->path ? slash : "", walk->path,
              say_why(error), error == ENOENT ? " any more" : "");
    return EXIT_USAGE;
}

/* The reason comes first, because the path is longer than a line may be. */
static int refuse_long(const char *path)
{
    say_error("--walk: too long a path for any server: %s", path);
    return EXIT_USAGE;
}

/* Whether a link leads to a file and stays beneath the folder all the way, so that a server may
 * follow it: 1, 0, or -errno if that is unknown. */
static int leads_to_file(const struct walk *walk)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    long fd = syscall(SYS_openat2, walk->root_fd, walk->path, &how, sizeof(how));
    struct stat st;
    int file;

    if (fd < 0) /* it leaves the folder, dangles, or leads in a circle */
        return errno == EXDEV || errno == ENOENT || errno == ELOOP || errno == ENOTDIR ? 0 : -errno;
    file = fstat((int)fd, &st) == 0 ? S_ISREG(st.st_mode) : -errno;
    close((int)fd);
    return file;
}

static int add(struct walk *walk)
{
    const struct wish wish = {.method = walk->plan->method};
    const char *name = walk->path;
    size_t n = strlen(name), base = strlen(walk->base), index = strlen(INDEX);

    if (n >= index && strcmp(name + n - index, INDEX) == 0 &&
        (n == index || name[n - index - 1] == '/'))
        n -= index;
    if (base + 3 * n >= sizeof(walk->url))
        return refuse_long(name);
    memcpy(walk->url, walk->base, base);
    walk->url[base + path_encode(walk->url + base, name, n)] = 0;
    return plan_add(walk->plan, walk->url, &wish);
}

static int visit_folder(struct walk *walk, size_t len);

/* Visits the entry of that name in the folder whose path has len bytes. */
static int visit(struct walk *walk, size_t len, const char *name)
{
    const size_t room = sizeof(walk->path) - len;
    size_t n = (size_t)snprintf(walk->path + len, room, "%s%s", len ? "/" : "", name);
    struct stat st;
    int file;

    if (n >= room)
        return refuse_long(walk->path);
    if (fstatat(walk->root_fd, walk->path, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return refuse(walk, errno);
    if (S_ISDIR(st.st_mode))
        return visit_folder(walk, len + n);
    file = S_ISLNK(st.st_mode) ? leads_to_file(walk) : S_ISREG(st.st_mode);
    return file < 0 ? refuse(walk, -file) : file ? add(walk) : 0;
}

static int visit_folder(struct walk *walk, size_t len)
{
    struct dirent **entry;
    int n = scandirat(walk->root_fd, len ? walk->path : ".", &entry, is_shown, by_name), code = 0;

    if (n < 0)
        return refuse(walk, errno);
    for (int i = 0; i < n; i++) {
        if (!code)
            code = visit(walk, len, entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
    return code;
}

int walk_read(struct plan *p, const char *base)
{
    struct walk *walk = calloc(1, sizeof(*walk));
    int code = EXIT_FAILED;

    if (!walk)
        return code;
    walk->plan = p;
    walk->base = base;
    walk->root_fd = open(p->opt->walk, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* it may be a link */
    if (walk->root_fd < 0) {
        say_error("--walk: cannot read the folder %s: %s", p->opt->walk, say_why(errno));
        code = EXIT_USAGE;
    } else {
        code = visit_folder(walk, 0);
        close(walk->root_fd);
    }
    if (!code && !p->targets) {
        say_error("--walk: there is no file below %s that would be served", p->opt->walk);
        code = EXIT_USAGE;
    }
    free(walk);
    return code;
}
