/* SPDX-License-Identifier: MIT */
/* site_folder.c - the entries of a folder: gathered and sorted, or, when there are too many,
 * streamed.
 *
 * Reading uses the folder's own descriptor; the target of a symbolic link is looked up from the
 * root like a request for it, so that a link is shown as what a visitor would get.  Sorted: 40
 * bytes and the name for each entry, a quarter more while growing, so 100,000 names of 20 bytes
 * need about 7.5 MB and the longest ones 37 MB; the descriptor is closed before the first byte is
 * sent.  Streamed, when there are more than site->entries_max or all listings together would need
 * more than SITE_LISTINGS_BYTES_MAX: one buffer of DENTS_BYTES, entries in the folder's order.
 * Reading may wait for the disk: it belongs on a thread that may block.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "site_inside.h"

enum {
    DENTS_BYTES = 32768,
    NAME_FOREIGN_MAX = 3 * NAME_BYTES_MAX, /* some file systems count a name in characters */
};

struct folder {
    struct listing listing;
    struct site *site;
    int fd;               /* of the folder; -1: all has been read */
    size_t charged;       /* bytes of ours in site->listings_bytes */
    struct listing_entry *entries;
    size_t count, room, next;
    char *names;
    size_t names_len, names_room;
    char *dents;          /* what getdents64 gave */
    size_t dents_len, dents_at;
    int error;
    char path[PATH_BYTES_MAX];
};

/* --- Reading ---------------------------------------------------------------------------------- */

static enum listing_kind kind_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR: return LISTING_FOLDER;
    case S_IFREG: return LISTING_FILE;
    case S_IFIFO: return LISTING_FIFO;
    case S_IFSOCK: return LISTING_SOCKET;
    case S_IFLNK: return LISTING_DEAD;
    default: return LISTING_DEVICE;
    }
}

/* A link's target as a visitor would get it; *st becomes the target's. */
static enum listing_kind kind_of_target(const struct folder *f, struct slice name, struct stat *st)
{
    char path[PATH_BYTES_MAX + NAME_FOREIGN_MAX + 1];
    size_t len = f->listing.path.len - 1;
    enum listing_kind kind = LISTING_DEAD;
    struct stat target;
    int fd;

    memcpy(path, f->path + 1, len);
    memcpy(path + len, name.ptr, name.len);
    path[len + name.len] = '\0';
    fd = site_open_beneath(f->site, path, O_PATH);
    if (fd < 0)
        return kind;
    if (fstat(fd, &target) == 0) {
        *st = target;
        kind = kind_of(target.st_mode);
    }
    close(fd);
    return kind;
}

/* Fills e from its name (NUL-terminated) and what the folder says of its type; false: it has
 * gone. */
static bool describe(const struct folder *f, struct slice name, unsigned char type,
                     struct listing_entry *e)
{
    struct stat st;

    memset(e, 0, sizeof(*e));
    e->name = name;
    if (fstatat(f->fd, name.ptr, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0) {
        e->unknown = true; /* a folder that may be read but not entered tells names only */
        e->kind = (uint8_t)kind_of(DTTOIF(type));
        e->link = type == DT_LNK;
        return errno != ENOENT;
    }
    e->link = S_ISLNK(st.st_mode);
    e->kind = (uint8_t)(e->link ? kind_of_target(f, name, &st) : kind_of(st.st_mode));
    e->size = e->kind == LISTING_FILE ? (uint64_t)st.st_size : 0;
    e->mtime_s = st.st_mtim.tv_sec;
    return true;
}

/* The next entry to be shown, whose name lies in the buffer; false: the end, or f->error. */
static bool read_entry(struct folder *f, struct listing_entry *e)
{
    for (;;) {
        struct dirent64 *d;
        struct slice name;

        if (f->dents_at == f->dents_len) {
            ssize_t n = getdents64(f->fd, f->dents, DENTS_BYTES);

            if (n <= 0) {
                f->error = n < 0 && errno != ENOENT ? -errno : 0; /* ENOENT: it was removed */
                return false;
            }
            f->dents_len = (size_t)n;
            f->dents_at = 0;
        }
        d = (struct dirent64 *)(f->dents + f->dents_at);
        f->dents_at += d->d_reclen;
        name = (struct slice){d->d_name, strlen(d->d_name)};
        if (slice_is(name, ".") || slice_is(name, "..") || name.len > NAME_FOREIGN_MAX)
            continue;
        if ((!f->site->hidden && name_is_hidden(name)) || !listing_match(&f->listing.view, name))
            continue;
        if (describe(f, name, d->d_type, e))
            return true;
    }
}

/* --- Gathering -------------------------------------------------------------------------------- */

/* What an array is made of, and how many of them it grows by at least. */
struct unit {
    size_t bytes, step;
};

/* More room in *mem, which has *room units.  -EAGAIN: there is no memory, or all listings together
 * have too much. */
static int grow(struct folder *f, void **mem, size_t *room, struct unit unit)
{
    size_t more = *room / 4 + unit.step;
    size_t bytes = more * unit.bytes;
    size_t before = atomic_fetch_add(&f->site->listings_bytes, bytes);
    void *moved = NULL;

    if (before + bytes <= SITE_LISTINGS_BYTES_MAX)
        moved = realloc(*mem, (*room + more) * unit.bytes);
    if (!moved) {
        atomic_fetch_sub(&f->site->listings_bytes, bytes);
        return -EAGAIN;
    }
    f->charged += bytes;
    *mem = moved;
    *room += more;
    return 0;
}

/* Keep an entry; its name's place is an offset until all are there, for the names may move. */
static int keep(struct folder *f, const struct listing_entry *e)
{
    const struct unit entry = {sizeof(*e), 64};
    const struct unit character = {1, 4096}; /* the longest name fits */
    void *mem = f->entries;
    int err;

    if (f->count == f->room) {
        err = grow(f, &mem, &f->room, entry);
        if (err)
            return err;
        f->entries = mem;
    }
    mem = f->names;
    if (f->names_room - f->names_len < e->name.len) {
        err = grow(f, &mem, &f->names_room, character);
        if (err)
            return err;
        f->names = mem;
    }
    memcpy(f->names + f->names_len, e->name.ptr, e->name.len);
    f->entries[f->count] = *e;
    f->entries[f->count].name.ptr = NULL;
    f->names_len += e->name.len;
    f->count++;
    return 0;
}

static void forget_entries(struct folder *f)
{
    free(f->entries);
    free(f->names);
    f->entries = NULL;
    f->names = NULL;
    f->count = f->room = f->names_len = f->names_room = 0;
    atomic_fetch_sub(&f->site->listings_bytes, f->charged);
    f->charged = 0;
}

static int compare(const void *a, const void *b, void *view)
{
    return listing_compare(view, a, b);
}

static bool next_sorted(void *ctx, struct listing_entry *e)
{
    struct folder *f = ctx;

    if (f->next == f->count)
        return false;
    *e = f->entries[f->next++];
    return true;
}

static bool next_streamed(void *ctx, struct listing_entry *e)
{
    return read_entry(ctx, e);
}

/* Too much to sort: begin again and give entries out as they come. */
static int stream(struct folder *f)
{
    forget_entries(f);
    if (lseek(f->fd, 0, SEEK_SET) < 0)
        return -errno;
    f->dents_at = f->dents_len = 0;
    f->listing.streamed = true;
    f->listing.entry = next_streamed;
    f->listing.folders = f->listing.files = f->listing.others = f->listing.bytes = 0;
    return 0;
}

static int gather(struct folder *f)
{
    struct listing_entry e;
    size_t at = 0;

    while (read_entry(f, &e)) {
        if (f->count == f->site->entries_max || keep(f, &e))
            return stream(f);
        listing_count(&f->listing, &e);
    }
    if (f->error)
        return f->error;
    for (size_t i = 0; i < f->count; i++) {
        f->entries[i].name.ptr = f->names + at;
        at += f->entries[i].name.len;
    }
    if (f->count)
        qsort_r(f->entries, f->count, sizeof(*f->entries), compare, &f->listing.view);
    f->listing.entry = next_sorted;
    free(f->dents);
    f->dents = NULL;
    close(f->fd);
    f->fd = -1;
    return 0;
}

int folder_open(struct site *site, const struct http_ask *ask, int fd, struct folder **folder)
{
    struct folder *f = calloc(1, sizeof(*f));
    int err;

    if (f)
        f->dents = malloc(DENTS_BYTES);
    if (!f || !f->dents || ask->path.len > sizeof(f->path)) {
        free(f ? f->dents : NULL);
        free(f);
        close(fd);
        return -ENOMEM;
    }
    f->site = site;
    f->fd = fd;
    memcpy(f->path, ask->path.ptr, ask->path.len);
    f->listing.path = (struct slice){f->path, ask->path.len};
    f->listing.ctx = f;
    listing_view_read(&f->listing.view, ask);
    err = gather(f);
    if (err) {
        folder_close(f);
        return err;
    }
    *folder = f;
    return 0;
}

size_t folder_next(struct source *source, char *buf, size_t cap)
{
    return listing_next(&((struct site_source *)source)->folder->listing, buf, cap);
}

void folder_close(struct folder *f)
{
    if (!f)
        return;
    forget_entries(f);
    free(f->dents);
    if (f->fd >= 0)
        close(f->fd);
    free(f);
}
