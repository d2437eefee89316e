/* SPDX-License-Identifier: MIT */
/* site_folder.c - the listing of a folder: names and descriptors for core/folder.c, which sorts and
 * streams.
 *
 * Reading uses the folder's own descriptor; the target of a symbolic link is looked up from the
 * root like a request for it.  Reading may wait for the disk, so it belongs on a thread that may
 * block.  Between two slices the client's socket is checked.
 *
 * A sorted listing has its entries in struct site_roll, and the descriptor is closed before the
 * first byte is sent.  A listing is streamed when it has more than rules.entries_max entries, or
 * when all listings together would need more than SITE_LISTINGS_BYTES_MAX: then its buffers are
 * DENTS_BYTES and STREAM_NAMES entries.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../base/net.h"
#include "site_inside.h"

enum {
    DENTS_BYTES = 65536, /* more than SITE_FIRST_NAMES usual names */
    STREAM_NAMES = 256, /* read ahead of sending: two or three chunks */
};
_Static_assert(offsetof(struct folder_name, bytes) == offsetof(struct dirent64, d_reclen) &&
               offsetof(struct folder_name, name) == offsetof(struct dirent64, d_name),
               "getdents64() writes what the core reads");

struct site_folder {
    struct folder folder; /* first */
    struct site *site;
    int client;           /* its socket, or -1 */
    int fd;               /* of the folder; -1: all has been read */
    dev_t dev;            /* the device that the folder lies on */
    uint64_t asked;       /* rolls_now() when the listing was asked for */
    char path[];
};

/* --- What the core asks of it ----------------------------------------------------------------- */

static int begin(struct folder *folder, bool shared)
{
    struct site_folder *f = (struct site_folder *)folder;

    folder->roll = shared ? roll_find(f->site, &folder->listing, f->asked) : NULL;
    if (folder->roll)
        return 1;
    folder->roll = roll_open(f->site, &folder->listing);
    folder->batch = malloc(STREAM_NAMES * sizeof(*folder->batch) + DENTS_BYTES);
    if (!folder->roll || !folder->batch)
        return -ENOMEM;
    folder->dents = (char *)(folder->batch + STREAM_NAMES);
    return 0;
}

static long read_names(struct folder *folder, bool again)
{
    const struct site_folder *f = (struct site_folder *)folder;
    ssize_t n = again ? lseek(f->fd, 0, SEEK_SET) : 0;

    if (n >= 0)
        n = getdents64(f->fd, folder->dents, DENTS_BYTES);
    return n < 0 ? -errno : n;
}

/* A link's target as a visitor would get it. */
static int stat_target(const struct site_folder *f, const char *path, struct stat *st)
{
    int fd = site_open_beneath(f->site, path, O_PATH), err;

    if (fd < 0)
        return fd;
    err = fstat(fd, st) < 0 ? -errno : 0;
    close(fd);
    return err;
}

static int stat_entry(struct folder *folder, const char *name, bool target, struct folder_stat *to)
{
    const struct site_folder *f = (struct site_folder *)folder;
    struct stat st;
    int err = 0;

    if (target)
        err = stat_target(f, name, &st);
    else if (fstatat(f->fd, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
        err = -errno;
    if (!err)
        *to = (struct folder_stat){
            st.st_mode, st.st_dev != f->dev, (uint64_t)st.st_size, st.st_mtim.tv_sec};
    return err;
}

static void *grow(struct folder *folder, const struct folder_array *array, size_t more)
{
    struct site *site = ((struct site_folder *)folder)->site;
    void *mem;

    if (!charge(site, more))
        return NULL;
    mem = realloc(array->mem, array->room + more);
    if (!mem)
        charge_back(site, more);
    return mem;
}

static void drop(struct folder *folder, const struct folder_array *array)
{
    charge_back(((struct site_folder *)folder)->site, array->room);
    free(array->mem);
}

static void sort(const struct folder_sort *s)
{
    qsort_r(s->base, s->count, s->bytes, s->compare, s->arg);
}

static void buffers_free(struct folder *folder)
{
    free(folder->batch);
    folder->batch = NULL;
    folder->dents = NULL;
}

static void done(struct folder *folder)
{
    struct site_folder *f = (struct site_folder *)folder;

    roll_made(f->site, folder->roll);
    buffers_free(folder);
    close(f->fd);
    f->fd = -1;
}

static void forget(struct folder *folder, bool all)
{
    roll_put(((struct site_folder *)folder)->site, folder->roll);
    folder->roll = NULL;
    if (all)
        buffers_free(folder);
}

static bool gone(struct folder *folder)
{
    int client = ((struct site_folder *)folder)->client;

    return client >= 0 && net_gone(client);
}

static const struct folder_ops ops = {
    .begin = begin, .read = read_names, .stat = stat_entry,
    .grow = grow, .drop = drop, .sort = sort,
    .done = done, .forget = forget, .gone = gone,
};

/* --- Open and close --------------------------------------------------------------------------- */

int site_folder_open(struct site *site, const struct http_ask *ask, int fd, struct folder **folder)
{
    struct site_folder *f = calloc(1, sizeof(*f) + folder_room(ask));
    struct stat st;
    int err;

    if (!f) {
        close(fd);
        return -ENOMEM;
    }
    f->site = site;
    f->fd = fd;
    f->client = -1;
    f->dev = fstat(fd, &st) == 0 ? st.st_dev : 0;
    f->folder.ops = &ops;
    f->folder.rules = &site->rules;
    f->folder.path = f->path;
    f->folder.batch_max = STREAM_NAMES;
    f->asked = rolls_now(site);
    err = folder_look(&f->folder, ask, SITE_FIRST_NAMES);
    if (err) {
        site_folder_close(&f->folder);
        return err;
    }
    site_readme_open(site, &f->folder.listing);
    *folder = &f->folder;
    return 0;
}

void site_folder_close(struct folder *folder)
{
    struct site_folder *f = (struct site_folder *)folder;

    if (!f)
        return;
    forget(folder, true);
    site_readme_close(f->site, &folder->listing);
    if (f->fd >= 0)
        close(f->fd);
    free(f);
}

void site_folder_client(struct folder *folder, int fd)
{
    ((struct site_folder *)folder)->client = fd;
}
