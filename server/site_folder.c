/* SPDX-License-Identifier: MIT */
/* site_folder.c - the listing of a folder: sorted, or, when it has too many entries, streamed.
 *
 * Reading uses the folder's own descriptor; the target of a symbolic link is looked up from the
 * root like a request for it, so that a link is shown as what a visitor would get.  It may wait for
 * the disk, so it belongs on a thread that may block, and it goes in slices: between two of them
 * the client's socket is looked at, and the thread may turn to others.  The first slice is made at
 * once, and most folders are no longer than that.
 *
 * A longer one waits until the head of its answer has been sent.  Only then can the kernel know
 * that the client has gone: a close and a half-close look alike until something is sent, and
 * clients of the second kind want their answer.
 *
 * Sorted: struct roll holds the entries, and the descriptor is closed before the first byte is
 * sent.  Streamed, when there are more than rules.entries_max or all listings together would need
 * more than SITE_LISTINGS_BYTES_MAX: buffers of DENTS_BYTES and STREAM_NAMES entries, in the
 * folder's own order.
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
    NAME_FOREIGN_MAX = 3 * NAME_BYTES_MAX, /* some file systems count a name in characters */
    SLICE_NAMES = 4096, /* five milliseconds */
    STREAM_NAMES = 256, /* read ahead of sending: two or three chunks */
};

enum stage {
    STAGE_LONG,      /* it has more than SITE_FIRST_NAMES and has to be read from its beginning */
    STAGE_GATHERING,
    STAGE_SORTED,
    STAGE_STREAMED
};

struct folder {
    struct listing listing;
    struct site *site;
    enum stage stage;
    bool plain;           /* see site_listing_plain() */
    bool helped;          /* a helper calls folder_step() */
    bool offered;         /* SOURCE_LATER was said once, so that the head is sent */
    int client;           /* its socket, or -1 */
    int fd;               /* of the folder; -1: all has been read */
    dev_t dev;            /* where it lies */
    uint64_t asked;       /* rolls_now() then */
    struct roll *roll;
    size_t next;          /* of the roll's entries, or of batch[] */
    struct listing_entry *batch; /* streamed: names in dents */
    size_t batched;
    bool ended;           /* streamed: nothing follows the batch */
    char *dents;          /* what getdents64 gave */
    size_t dents_len, dents_at;
    unsigned budget;      /* names that may still be read in this slice */
    int error;
    char path[PATH_BYTES_MAX];
};

/* --- Reading ---------------------------------------------------------------------------------- */

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
        kind = docroot_kind(target.st_mode);
    }
    close(fd);
    return kind;
}

/* Fills e from its name (NUL-terminated) and what the folder says of its type; false: it has
 * gone. */
static bool describe(struct folder *f, struct slice name, unsigned char type,
                     struct listing_entry *e)
{
    struct stat st;

    memset(e, 0, sizeof(*e));
    e->name = name;
    if (fstatat(f->fd, name.ptr, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0) {
        e->unknown = true; /* a folder that may be read but not entered tells names only */
        e->kind = (uint8_t)docroot_kind(DTTOIF(type));
        e->link = type == DT_LNK;
        f->plain = false;
        return errno != ENOENT;
    }
    e->link = S_ISLNK(st.st_mode);
    e->kind = (uint8_t)(e->link ? kind_of_target(f, name, &st) : docroot_kind(st.st_mode));
    e->size = e->kind == LISTING_FILE ? (uint64_t)st.st_size : 0;
    e->mtime_s = st.st_mtim.tv_sec;
    f->plain = f->plain && !e->link && e->kind <= LISTING_FILE && st.st_dev == f->dev;
    return true;
}

bool folder_shows(const struct site *site, const struct listing_view *view, struct slice name)
{
    return !slice_is(name, ".") && !slice_is(name, "..") && name.len <= NAME_FOREIGN_MAX &&
           (site->rules.hidden || !name_is_hidden(name)) && listing_match(view, name);
}

enum reading { READ_ENTRY, READ_EMPTY /* the buffer */, READ_PAUSE /* the budget is used up */ };

/* Another buffer of names; false: the end, or f->error. */
static bool read_names(struct folder *f)
{
    ssize_t n = getdents64(f->fd, f->dents, DENTS_BYTES);

    f->error = n < 0 && errno != ENOENT ? -errno : 0; /* ENOENT: it was removed */
    f->dents_len = n > 0 ? (size_t)n : 0;
    f->dents_at = 0;
    return n > 0;
}

/* The next entry to be shown, whose name lies in the buffer. */
static enum reading read_entry(struct folder *f, struct listing_entry *e)
{
    for (; f->dents_at < f->dents_len; f->budget--) {
        struct dirent64 *d;
        struct slice name;

        if (f->budget == 0)
            return READ_PAUSE;
        d = (struct dirent64 *)(f->dents + f->dents_at);
        f->dents_at += d->d_reclen;
        name = (struct slice){d->d_name, strlen(d->d_name)};
        if (!folder_shows(f->site, &f->listing.view, name))
            continue;
        if (describe(f, name, d->d_type, e)) {
            f->budget--;
            return READ_ENTRY;
        }
    }
    return READ_EMPTY;
}

static int rewind_folder(struct folder *f)
{
    f->dents_at = f->dents_len = 0;
    return lseek(f->fd, 0, SEEK_SET) < 0 ? -errno : 0;
}

/* --- Streamed --------------------------------------------------------------------------------- */

static bool next_streamed(void *ctx, struct listing_entry *e)
{
    struct folder *f = ctx;

    f->listing.dry = f->next == f->batched && !f->ended;
    if (f->next == f->batched)
        return false;
    *e = f->batch[f->next++];
    return true;
}

/* Too much to sort: begin again and give entries out as they come. */
static int stream(struct folder *f)
{
    roll_put(f->site, f->roll);
    f->roll = NULL;
    f->batch = malloc(STREAM_NAMES * sizeof(*f->batch));
    if (!f->batch)
        return -ENOMEM;
    f->stage = STAGE_STREAMED;
    f->listing.streamed = true;
    f->listing.entry = next_streamed;
    return rewind_folder(f);
}

/* The next entries, as far as their names are in one buffer. */
static int refill(struct folder *f)
{
    f->next = f->batched = 0;
    if (f->dents_at == f->dents_len && !read_names(f)) {
        f->ended = true;
        return f->error;
    }
    f->budget = STREAM_NAMES; /* so no more entries than that */
    while (read_entry(f, &f->batch[f->batched]) == READ_ENTRY)
        f->batched++;
    return f->batched ? 0 : -EINPROGRESS;
}

/* --- Sorted ----------------------------------------------------------------------------------- */

static bool next_sorted(void *ctx, struct listing_entry *e)
{
    struct folder *f = ctx;

    if (f->next == f->roll->count)
        return false;
    *e = f->roll->entries[f->next++];
    return true;
}

/* The roll is made: nothing of the folder is needed any more. */
static int sorted(struct folder *f)
{
    f->stage = STAGE_SORTED;
    f->listing.folders = f->roll->totals.folders;
    f->listing.files = f->roll->totals.files;
    f->listing.others = f->roll->totals.others;
    f->listing.bytes = f->roll->totals.bytes;
    f->listing.entry = next_sorted;
    free(f->dents);
    f->dents = NULL;
    close(f->fd);
    f->fd = -1;
    return 0;
}

/* Read that many names.  0: the listing can be sent; -EINPROGRESS: there are more. */
static int gather(struct folder *f, unsigned names)
{
    f->budget = names;
    do {
        struct listing_entry e;
        enum reading got;

        while ((got = read_entry(f, &e)) == READ_ENTRY) {
            if (f->roll->count == f->site->rules.entries_max || roll_add(f->site, f->roll, &e)) {
                int err = stream(f);

                return err ? err : -EINPROGRESS;
            }
        }
        if (got == READ_PAUSE)
            return -EINPROGRESS;
    } while (read_names(f));
    if (f->error)
        return f->error;
    f->roll->plain = f->plain;
    roll_made(f->site, f->roll);
    return sorted(f);
}

/* Read it from the beginning, unless another listing has done so since this one was asked for. */
static int begin(struct folder *f)
{
    f->roll = roll_find(f->site, &f->listing, f->asked);
    if (f->roll)
        return sorted(f);
    f->roll = roll_open(f->site, &f->listing);
    f->dents = malloc(DENTS_BYTES);
    if (!f->roll || !f->dents)
        return -ENOMEM;
    f->stage = STAGE_GATHERING;
    f->plain = true;
    f->error = rewind_folder(f);
    return f->error ? f->error : -EINPROGRESS;
}

/* --- Slices ----------------------------------------------------------------------------------- */

/* An entry that listing_next() holds is written before the next batch is read: its name lies in
 * dents. */
bool folder_ready(const struct folder *f)
{
    return f->error || f->stage == STAGE_SORTED ||
           (f->stage == STAGE_STREAMED &&
            (f->listing.holds || f->next < f->batched || f->ended));
}

bool folder_long(const struct folder *f)
{
    return f->stage == STAGE_LONG || f->stage == STAGE_GATHERING;
}

int folder_step(struct folder *f)
{
    if (!f->error && f->client >= 0 && net_gone(f->client))
        f->error = -ECONNRESET;
    if (folder_ready(f))
        return f->error;
    switch (f->stage) {
    case STAGE_LONG:
        f->error = begin(f);
        break;
    case STAGE_GATHERING:
        f->error = gather(f, SLICE_NAMES);
        break;
    default:
        f->error = refill(f);
    }
    if (f->error != -EINPROGRESS)
        return f->error;
    f->error = 0;
    return -EINPROGRESS;
}

size_t folder_next(struct source *source, char *buf, size_t cap)
{
    struct folder *f = ((struct site_source *)source)->folder;
    size_t n;

    do {
        while (!folder_ready(f)) {
            if (f->helped || !f->offered) {
                f->offered = true;
                return SOURCE_LATER;
            }
            (void)folder_step(f);
        }
        if (f->error)
            return SOURCE_FAILED;
        f->listing.dry = false;
        n = listing_next(&f->listing, buf, cap);
    } while (n == 0 && f->listing.dry);
    return n;
}

bool folder_plain(const struct folder *f)
{
    return f->stage == STAGE_SORTED && f->roll->plain;
}

void folder_rewind(struct folder *f)
{
    listing_rewind(&f->listing);
    f->next = 0;
}

void folder_client(struct folder *f, int fd)
{
    f->client = fd;
}

void folder_help(struct folder *f)
{
    f->helped = true;
}

/* --- Open and close --------------------------------------------------------------------------- */

/* The first slice. */
static int look(struct folder *f)
{
    int err;

    f->roll = roll_open(f->site, &f->listing);
    f->dents = malloc(DENTS_BYTES);
    if (!f->roll || !f->dents)
        return -ENOMEM;
    f->stage = STAGE_GATHERING;
    err = gather(f, SITE_FIRST_NAMES);
    if (err != -EINPROGRESS || f->stage == STAGE_STREAMED)
        return err == -EINPROGRESS ? 0 : err;
    roll_put(f->site, f->roll);
    f->roll = NULL;
    free(f->dents);
    f->dents = NULL;
    f->stage = STAGE_LONG;
    return 0;
}

int folder_open(struct site *site, const struct http_ask *ask, int fd, struct folder **folder)
{
    struct folder *f = calloc(1, sizeof(*f));
    struct stat st;
    int err;

    if (!f || ask->path.len > sizeof(f->path)) {
        free(f);
        close(fd);
        return -ENOMEM;
    }
    f->site = site;
    f->fd = fd;
    f->client = -1;
    f->plain = fstat(fd, &st) == 0;
    f->dev = f->plain ? st.st_dev : 0;
    memcpy(f->path, ask->path.ptr, ask->path.len);
    f->listing.path = (struct slice){f->path, ask->path.len};
    f->listing.ctx = f;
    f->asked = rolls_now(site);
    listing_view_read(&f->listing.view, ask);
    err = look(f);
    if (err) {
        folder_close(f);
        return err;
    }
    *folder = f;
    return 0;
}

void folder_close(struct folder *f)
{
    if (!f)
        return;
    roll_put(f->site, f->roll);
    free(f->batch);
    free(f->dents);
    if (f->fd >= 0)
        close(f->fd);
    free(f);
}
