/* SPDX-License-Identifier: MIT */
/* cache_way.c - the way to an answer is watched: from the root down, each folder before the next
 * name is looked up in it, and the file before it is read.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../core/types.h"
#include "cache_inside.h"

enum { PAGE_NAME_BYTES = 16 };

enum step { STEP_ON, STEP_END /* nothing is there */, STEP_NO /* cannot be kept */ };

static int open_name(int folder, struct slice name, const char *suffix, struct stat *st)
{
    char text[NAME_BYTES_MAX + CODING_SUFFIX_BYTES_MAX + 1];
    int fd, err;

    if (name.len > NAME_BYTES_MAX)
        return -ENAMETOOLONG;
    snprintf(text, sizeof(text), "%.*s%s", (int)name.len, name.ptr, suffix);
    fd = openat(folder, text, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, st) == 0)
        return fd;
    err = -errno;
    close(fd);
    return err;
}

/* A file server is not asked what it is: it might not answer. */
static bool is_known(const struct cache_way *w, int fd, const struct stat *st)
{
    return st->st_dev == w->c->dev ||
           (site_place_of(w->c->site, fd, st->st_dev) != SITE_FAR && cache_fits(fd));
}

static bool is_passed(const struct cache_way *w, const struct stat *st)
{
    return S_ISDIR(st->st_mode) && (!w->c->site->world || st->st_mode & S_IXOTH);
}

static bool is_lasting(const struct cache_way *w, int fd, const struct stat *st)
{
    return S_ISLNK(st->st_mode) || !is_known(w, fd, st);
}

/* Enters that folder. */
static enum step enter(struct cache_way *w, struct slice name)
{
    struct cache_names names = {.count = 1, .name = {name}};
    struct stat st;
    int fd;

    w->lasting = ++w->depth > CACHE_DEPTH_MAX;
    if (w->lasting || !cache_depend_names(w->c, w->deps, w->folder, &names))
        return STEP_NO;
    fd = open_name(w->folder, name, "", &st);
    if (fd < 0)
        return fd == -ENOENT ? STEP_END : STEP_NO;
    if (is_passed(w, &st) && is_known(w, fd, &st)) {
        if (w->folder != w->c->site->root_fd)
            close(w->folder);
        w->folder = fd;
        return STEP_ON;
    }
    w->lasting = is_lasting(w, fd, &st);
    close(fd);
    return S_ISREG(st.st_mode) ? STEP_END : STEP_NO;
}

/* Watches the file of that name and coding, if there is one.  False: it cannot be kept. */
static bool watch_file(struct cache_way *w, struct slice name, enum coding coding)
{
    struct stat st;
    int fd = open_name(w->folder, name, http_coding_suffix(coding), &st);
    bool good;

    if (fd < 0)
        return fd == -ENOENT;
    w->varies = w->varies || coding != CODING_IDENTITY;
    w->files |= (unsigned)S_ISREG(st.st_mode) << coding;
    good = S_ISDIR(st.st_mode) ||
           (S_ISREG(st.st_mode) && is_known(w, fd, &st) && cache_depend_inode(w->c, w->deps, fd));
    w->lasting = w->lasting || is_lasting(w, fd, &st);
    close(fd);
    return good;
}

static bool has_siblings(const struct cache *c, const struct cache_want *want, struct slice name)
{
    return want->kind == CACHE_FIND && c->site->rules.precompressed &&
           type_compresses(type_of(name.ptr, name.len));
}

unsigned cache_deps_room(const struct cache *c, const struct cache_want *want)
{
    const char *path = want->path.ptr;
    size_t last = want->path.len;
    unsigned folders = 0;
    struct slice name;

    for (size_t i = 1; i < want->path.len; i++)
        folders += path[i] == '/';
    while (last > 0 && path[last - 1] != '/')
        last--;
    name = (struct slice){path + last, want->path.len - last};
    if (name.len == 0)
        name = (struct slice){c->site->rules.index, c->site->rules.index_len};
    return (folders < CACHE_DEPTH_MAX ? folders : CACHE_DEPTH_MAX) +
           2 * (has_siblings(c, want, name) ? CACHE_NAMES : 1);
}

/* Watches the last name on the way, with its siblings' names. */
static bool watch_name(struct cache_way *w, const struct cache_want *want, struct slice name)
{
    char text[CODINGS][NAME_BYTES_MAX + CODING_SUFFIX_BYTES_MAX + 1];
    struct cache_names names = {.count = 0};
    unsigned codings = has_siblings(w->c, want, name) ? CODINGS : 1;

    if (name.len == 0 || name.len > NAME_BYTES_MAX)
        return false;
    for (enum coding coding = 0; coding < codings; coding++) {
        int n = snprintf(text[coding], sizeof(text[coding]), "%.*s%s", (int)name.len, name.ptr,
                         http_coding_suffix(coding));

        names.name[names.count++] = (struct slice){text[coding], (size_t)n};
    }
    if (!cache_depend_names(w->c, w->deps, w->folder, &names))
        return false;
    for (enum coding coding = 0; coding < codings; coding++)
        if (!watch_file(w, name, coding))
            return false;
    return true;
}

/* False: the answer cannot be kept. */
static bool watch_path(struct cache_way *w, const struct cache_want *want, struct slice path)
{
    const char *slash;
    enum step step = STEP_ON;

    while (step == STEP_ON && (slash = memchr(path.ptr, '/', path.len)) != NULL) {
        size_t len = (size_t)(slash - path.ptr);

        step = enter(w, (struct slice){path.ptr, len});
        path.ptr += len + 1;
        path.len -= len + 1;
    }
    if (step != STEP_ON)
        return step == STEP_END;
    if (path.len == 0)
        path = (struct slice){w->c->site->rules.index, w->c->site->rules.index_len};
    return watch_name(w, want, path);
}

bool cache_way_watch(struct cache_way *w, const struct cache_want *want)
{
    char page[PAGE_NAME_BYTES];
    struct slice path = {want->path.ptr + 1, want->path.len - 1};
    bool watched;

    w->folder = w->c->site->root_fd;
    if (want->kind == CACHE_PAGE) {
        int n = snprintf(page, sizeof(page), "%u.html", want->status);

        path = (struct slice){page, (size_t)n};
    }
    watched = watch_path(w, want, path);
    if (w->folder != w->c->site->root_fd)
        close(w->folder);
    return watched;
}

int cache_watch_folder(struct cache *c, struct cache_deps *deps, struct slice path, bool *lasting)
{
    const struct cache_names all = {.count = 1, .name = {{"", 0}}};
    struct cache_way w = {.c = c, .deps = deps, .folder = c->site->root_fd};
    struct slice rest = {path.ptr + 1, path.len - 1};
    enum step step = STEP_ON;

    while (step == STEP_ON && rest.len) {
        size_t len = (size_t)((const char *)memchr(rest.ptr, '/', rest.len) - rest.ptr);

        step = enter(&w, (struct slice){rest.ptr, len});
        rest.ptr += len + 1;
        rest.len -= len + 1;
    }
    *lasting = w.lasting;
    if (step == STEP_ON && cache_depend_names(c, deps, w.folder, &all))
        return w.folder == c->site->root_fd ? fcntl(w.folder, F_DUPFD_CLOEXEC, 0) : w.folder;
    if (w.folder != c->site->root_fd)
        close(w.folder);
    return -1;
}
