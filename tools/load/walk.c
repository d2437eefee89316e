/* SPDX-License-Identifier: MIT */
/* walk.c - the files below a folder become URLs, as a server of that folder names them (--walk).
 *
 * By the rules of rung serve: percent-encoded; nothing hidden but /.well-known (RFC 8615); a link
 * to a file counts while it stays below the folder.  Links to folders are not followed, for they
 * may lead in circles.  index.html is asked by its folder's name, as people do.
 */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
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
    char url[3 * PATH_BYTES_MAX + TARGET_BYTES_MAX];
};

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static bool is_hidden(const char *name)
{
    return name[0] == '.' && strcmp(name, ".well-known") != 0;
}

/* A link that a server may follow: to a file, and beneath the folder all the way. */
static bool leads_to_file(const struct walk *walk, const char *name)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    long fd = syscall(SYS_openat2, walk->root_fd, name, &how, sizeof(how));
    struct stat st;
    bool file;

    if (fd < 0)
        return false;
    file = fstat((int)fd, &st) == 0 && S_ISREG(st.st_mode);
    close((int)fd);
    return file;
}

static int add(struct walk *walk, const char *name)
{
    const struct wish wish = {.method = walk->plan->method};
    size_t n = strlen(name), base = strlen(walk->base), index = strlen(INDEX);

    if (n >= index && strcmp(name + n - index, INDEX) == 0 &&
        (n == index || name[n - index - 1] == '/'))
        n -= index;
    if (base + 3 * n >= sizeof(walk->url)) {
        say_error("--walk: the path of %s is longer than any server takes", name);
        return EXIT_USAGE;
    }
    memcpy(walk->url, walk->base, base);
    walk->url[base + path_encode(walk->url + base, name, n)] = 0;
    return plan_add(walk->plan, walk->url, &wish);
}

static int visit(struct walk *walk, FTS *tree, FTSENT *entry, const char *name)
{
    if (entry->fts_level > 0 && is_hidden(entry->fts_name)) {
        fts_set(tree, entry, FTS_SKIP);
        return 0;
    }
    switch (entry->fts_info) {
    case FTS_F:
        return add(walk, name);
    case FTS_SL:
        return leads_to_file(walk, name) ? add(walk, name) : 0;
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        say_error("--walk: cannot read %s: %s", entry->fts_path, say_why(entry->fts_errno));
        return EXIT_USAGE;
    default:
        return 0;
    }
}

static int walk_tree(struct walk *walk, char *root)
{
    char *const roots[] = {root, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    FTSENT *entry;
    int code = 0;

    if (!tree) {
        say_error("--walk: cannot read %s: %s", root, say_why(errno));
        return EXIT_FAILED;
    }
    while (!code && (entry = fts_read(tree))) {
        const char *name = entry->fts_path + strlen(root);

        code = visit(walk, tree, entry, name + strspn(name, "/"));
    }
    fts_close(tree);
    if (!code && !walk->plan->targets) {
        say_error("--walk: there is no file below %s that would be served", root);
        code = EXIT_USAGE;
    }
    return code;
}

int walk_read(struct plan *p, const char *base)
{
    struct walk *walk = calloc(1, sizeof(*walk));
    char *root = realpath(p->opt->walk, NULL); /* itself it may be a link */
    int code = EXIT_FAILED;

    if (walk && root) {
        walk->plan = p;
        walk->base = base;
        walk->root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (!root || (walk && walk->root_fd < 0)) {
        say_error("--walk: cannot read the folder %s: %s", p->opt->walk, say_why(errno));
        code = EXIT_USAGE;
    } else if (walk) {
        code = walk_tree(walk, root);
        close(walk->root_fd);
    }
    free(root);
    free(walk);
    return code;
}
