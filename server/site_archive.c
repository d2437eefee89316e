/* SPDX-License-Identifier: MIT */
/* site_archive.c - a folder and all below it as one tar or zip, made while it is sent.
 *
 * pack.c writes the format; this file walks the folder.  Each slice looks at some names and reads
 * some bytes, until about SLICE_BYTES wait to be sent.  So memory does not grow with the folder,
 * except by the list at the end of a zip, which has a limit.  Slices are short because the helper
 * thread of a loop makes listings, too.
 *
 * An archive has the files that a visitor could ask for: hidden names are left out, and so is
 * everything that may not be read, is redirected (site_moves()) or is neither file nor folder.  A
 * link to a file becomes that file.  A link to a folder is left out, because it may lead back to a
 * folder above.  Folders with an index are walked like others.
 *
 * A client that takes trailers gets a digest of the archive behind it.  The thread that writes the
 * archive computes it; for other clients nothing is computed.
 *
 * The size of a file is written before its bytes.  If a file becomes shorter while it is read, the
 * archive cannot be finished, and its answer is cut off.  If it becomes longer, only its first
 * bytes are sent.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../core/types.h"
#include "digest.h"
#include "pack.h"
#include "site_archive.h"

enum {
    SLICE_BYTES = 64 << 10, /* that were written, */
    SLICE_READS = 4,        /* parts of files: READ_BYTES each, a millisecond to compress all, */
    SLICE_NAMES = 64,       /* or names: each is a few system calls */
    READ_BYTES = 32 << 10,
    DEPTH_MAX = 64,         /* folders in folders: each has a descriptor while it is walked */
    NAMES_BYTES = 16 << 10, /* ... and that many bytes of its names */
    LIST_BYTES_MAX = 16 << 20, /* of a zip: the list of 100,000 names, which also waits once */
    TREE_PATH_BYTES = PATH_BYTES_MAX + FOLDER_NAME_BYTES_MAX + 2,
    SUFFIX_BYTES_MAX = 8,
};

static const struct form {
    const char *suffix, *type;
} forms[PACK_FORMS] = {
    [PACK_TAR] = {"tar", "application/x-tar"},
    [PACK_TAR_GZ] = {"tar.gz", "application/gzip"},
    [PACK_ZIP] = {"zip", "application/zip"},
};

struct level {
    int fd;
    size_t path_len;  /* with the slash at the end */
    char *names;      /* struct folder_name: names[at..len) were not looked at */
    size_t at, len;
};

struct site_archive {
    struct site *site;
    enum pack_form form;
    struct pack *pack;
    enum http_digest kind; /* of the digest that follows; DIGEST_NONE: none does */
    struct digest *digest; /* of what was written; NULL: none is needed */
    int place;      /* see archive_place() */
    int client;     /* its socket, or -1 */
    bool helped, offered, ended;
    int error;
    size_t charged;
    size_t listed;  /* bytes of a zip's list */
    unsigned depth;
    struct level level[DEPTH_MAX];
    int file;       /* the one being read, or -1 */
    uint64_t left;  /* bytes of it */
    char *out;      /* what waits to be sent: out[at..len) */
    size_t at, len, cap;
    char path[TREE_PATH_BYTES]; /* of the thing that is looked at; begins with '/' */
    char top[NAME_BYTES_MAX + 1];  /* what names in the archive begin with */
    char save_as[NAME_BYTES_MAX + 1 + SUFFIX_BYTES_MAX];
    char digested[DIGEST_TEXT_BYTES];
    char name[NAME_BYTES_MAX + TREE_PATH_BYTES]; /* in the archive */
    char bytes[READ_BYTES];
};

static enum pack_form form_of(struct slice query)
{
    static const char key[] = "archive=";
    size_t n = sizeof(key) - 1;

    if (query.len <= n || memcmp(query.ptr, key, n) != 0)
        return PACK_NONE;
    for (enum pack_form form = PACK_NONE + 1; form < PACK_FORMS; form++)
        if (slice_is((struct slice){query.ptr + n, query.len - n}, forms[form].suffix))
            return form;
    return PACK_NONE;
}

bool site_archive_asked(const struct site *site, const struct http_ask *ask)
{
    return site->rules.archive && ask->query.len && ask->path.len &&
           ask->path.ptr[ask->path.len - 1] == '/' && form_of(ask->query) != PACK_NONE;
}

/* --- Memory ----------------------------------------------------------------------------------- */

static int charge_more(struct site_archive *a, size_t bytes)
{
    if (!charge(a->site, bytes))
        return -ENOMEM;
    a->charged += bytes;
    return 0;
}

static void charge_less(struct site_archive *a, size_t bytes)
{
    charge_back(a->site, bytes);
    a->charged -= bytes;
}

/* The pack's sink. */
static int keep(void *arg, const void *bytes, size_t n)
{
    struct site_archive *a = arg;

    if (n > a->cap - a->len) {
        size_t more = n - (a->cap - a->len) + SLICE_BYTES;
        char *out = charge_more(a, more) ? NULL : realloc(a->out, a->cap + more);

        if (!out)
            return -ENOMEM; /* the archive ends, and its charge with it */
        a->out = out;
        a->cap += more;
    }
    memcpy(a->out + a->len, bytes, n);
    a->len += n;
    return !a->digest || digest_add(a->digest, bytes, n) ? 0 : -EIO;
}

/* One more entry of a zip. */
static int list_more(struct site_archive *a)
{
    size_t bytes = PACK_LISTED_BYTES + strlen(a->name);

    if (a->form != PACK_ZIP)
        return 0;
    a->listed += bytes;
    return a->listed > LIST_BYTES_MAX ? -EFBIG : charge_more(a, bytes);
}

/* --- Walking ---------------------------------------------------------------------------------- */

/* The entry of a->path, which ends with a slash if it is a folder. */
static int put_entry(struct site_archive *a, const struct stat *st)
{
    const char *rest = a->path + a->level[0].path_len;
    struct pack_entry entry = {
        .name = a->name,
        .folder = S_ISDIR(st->st_mode),
        .compresses = type_compresses(type_of(a->path, strlen(a->path))),
        .size = S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size,
        .mtime_s = st->st_mtim.tv_sec,
    };
    int err;

    snprintf(a->name, sizeof(a->name), "%s/%s", a->top, rest);
    err = list_more(a);
    return err ? err : pack_begin(a->pack, &entry);
}

/* Makes fd, which is taken over, the innermost folder. */
static int add_level(struct site_archive *a, int fd, struct stat *st)
{
    struct level *level = &a->level[a->depth];
    int err = a->depth == DEPTH_MAX ? -ELOOP : fstat(fd, st) < 0 ? -errno : 0;

    if (!err)
        err = charge_more(a, NAMES_BYTES);
    if (!err) {
        *level = (struct level){.fd = fd, .names = malloc(NAMES_BYTES)};
        err = level->names ? 0 : -ENOMEM;
    }
    if (err)
        close(fd);
    else
        a->depth++;
    return err;
}

static void end_level(struct site_archive *a)
{
    struct level *level = &a->level[--a->depth];

    close(level->fd);
    free(level->names);
    charge_less(a, NAMES_BYTES);
}

/* The folder at a->path, which has no slash at its end. */
static int enter(struct site_archive *a)
{
    size_t len = strlen(a->path);
    int fd = site_open_beneath(a->site, len ? a->path + 1 : ".", O_RDONLY | O_DIRECTORY), err;
    struct stat st;

    if (fd >= 0 && len == 0 && site_is_gone(a->site)) {
        close(fd);
        fd = -ESTALE;
    }
    err = fd < 0 ? fd : add_level(a, fd, &st);
    if (err)
        return err;
    a->path[len] = '/';
    a->path[len + 1] = '\0';
    a->level[a->depth - 1].path_len = len + 1;
    err = put_entry(a, &st);
    return err ? err : pack_end(a->pack);
}

static int leave(struct site_archive *a)
{
    int err;

    end_level(a);
    if (a->depth)
        return 0;
    a->ended = true;
    err = pack_finish(a->pack);
    return err || !a->digest || digest_end(a->digest, a->digested) ? err : -EIO;
}

static int open_file(struct site_archive *a)
{
    struct stat st;
    int fd = site_open_file(a->site, a->path + 1, &st), err;

    if (fd < 0)
        return fd;
    err = put_entry(a, &st);
    if (err || st.st_size == 0) {
        close(fd);
        return err ? err : pack_end(a->pack);
    }
    a->file = fd;
    a->left = (uint64_t)st.st_size;
    return 0;
}

/* Whether err means that a visitor would not get the file either, or that it has gone. */
static bool is_left_out(int err)
{
    return err == -ENOENT || err == -EACCES || err == -EISDIR || err == -ENAMETOOLONG;
}

/* Whether visitors get a redirect in place of the thing at a->path. */
static bool is_moved(struct site_archive *a, bool folder)
{
    size_t len = strlen(a->path);
    bool moved;

    a->path[len] = '/';
    moved = site_moves(a->site, (struct slice){a->path, len + folder});
    a->path[len] = '\0';
    return moved;
}

/* The thing of that name in the innermost folder. */
static int take(struct site_archive *a, const char *text)
{
    static const struct listing_view all;
    const struct level *level = &a->level[a->depth - 1];
    struct slice folder = {a->path, level->path_len}, name = {text, strlen(text)};
    struct stat st;
    int err;

    if (!folder_shows(&a->site->rules, &all, name) || !path_links(folder, name, true))
        return 0;
    if (fstatat(level->fd, text, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
        return is_left_out(-errno) ? 0 : -errno;
    memcpy(a->path + level->path_len, text, name.len + 1);
    if (is_moved(a, S_ISDIR(st.st_mode)))
        return 0;
    if (S_ISDIR(st.st_mode))
        err = enter(a);
    else
        err = S_ISREG(st.st_mode) || S_ISLNK(st.st_mode) ? open_file(a) : 0;
    return is_left_out(err) ? 0 : err;
}

/* Names behind those that were looked at.  How many bytes, or -errno; 0 also if the
 * folder was removed. */
static long read_names(struct level *level)
{
    ssize_t n = getdents64(level->fd, level->names, NAMES_BYTES);

    level->at = 0;
    level->len = n > 0 ? (size_t)n : 0;
    return n >= 0 ? n : errno == ENOENT ? 0 : -errno;
}

static int next_name(struct site_archive *a)
{
    struct level *level = &a->level[a->depth - 1];
    const struct folder_name *name;

    if (level->at == level->len) {
        long n = read_names(level);

        return n < 0 ? (int)n : n == 0 ? leave(a) : 0;
    }
    name = (const struct folder_name *)(level->names + level->at);
    level->at += name->bytes;
    return take(a, name->name);
}

static int read_file(struct site_archive *a)
{
    size_t want = a->left < sizeof(a->bytes) ? (size_t)a->left : sizeof(a->bytes);
    ssize_t n = read(a->file, a->bytes, want);
    int err;

    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    if (n == 0)
        return -ENODATA; /* it has become shorter */
    err = pack_write(a->pack, a->bytes, (size_t)n);
    a->left -= (uint64_t)n;
    if (err || a->left)
        return err;
    close(a->file);
    a->file = -1;
    return pack_end(a->pack);
}

/* --- Open and close --------------------------------------------------------------------------- */

/* The last name of the path; the folder that is served has a name that visitors are not told. */
static void set_names(struct site_archive *a, struct slice path)
{
    size_t end = path.len - 1, start = end;

    while (start > 0 && path.ptr[start - 1] != '/')
        start--;
    if (start == end || end - start >= sizeof(a->top))
        snprintf(a->top, sizeof(a->top), "files");
    else
        snprintf(a->top, sizeof(a->top), "%.*s", (int)(end - start), path.ptr + start);
    snprintf(a->save_as, sizeof(a->save_as), "%s.%s", a->top, forms[a->form].suffix);
    memcpy(a->path, path.ptr, end);
}

static int begin(struct site_archive *a, bool head)
{
    int err;

    a->place = archive_place(a->site);
    if (a->place < 0)
        return a->place;
    err = charge_more(a, sizeof(*a) + PACK_BYTES);
    if (!err && a->kind && !head) {
        a->digest = digest_open(a->kind);
        err = a->digest ? 0 : -ENOMEM;
    }
    if (!err)
        err = pack_open(&a->pack, a->form, (struct pack_sink){keep, a});
    if (err == -ENOMEM)
        err = -EAGAIN;
    return err ? err : enter(a);
}

int site_archive_open(struct site *site, const struct http_ask *ask, struct site_archive **archive)
{
    struct site_archive *a;
    int err;

    if (ask->path.len > PATH_BYTES_MAX)
        return -ENAMETOOLONG;
    if (!site->rules.hidden && path_is_hidden(ask->path))
        return -ENOENT;
    if (!site->rules.listing)
        return -EACCES;
    a = calloc(1, sizeof(*a));
    if (!a)
        return -ENOMEM;
    a->site = site;
    a->form = form_of(ask->query);
    a->kind = digest_can(ask->digest) ? ask->digest : DIGEST_NONE;
    a->client = a->file = -1;
    set_names(a, ask->path);
    err = begin(a, ask->head);
    if (err)
        site_archive_close(a);
    else
        *archive = a;
    return err;
}

void site_archive_close(struct site_archive *a)
{
    if (!a)
        return;
    if (a->file >= 0)
        close(a->file);
    while (a->depth)
        end_level(a);
    pack_close(a->pack);
    digest_close(a->digest);
    charge_back(a->site, a->charged);
    archive_place_back(a->site, a->place);
    free(a->out);
    free(a);
}

/* --- For the code that sends it --------------------------------------------------------------- */

void site_archive_tell(const struct site_archive *a, struct source *source)
{
    source->type = forms[a->form].type;
    source->save_as = a->save_as;
    source->trailer = a->kind ? "Repr-Digest" : NULL;
    source->trailer_value = a->digested;
}

void site_archive_client(struct site_archive *a, int fd)
{
    a->client = fd;
}

void site_archive_help(struct site_archive *a)
{
    a->helped = true;
}

bool site_archive_ready(const struct site_archive *a)
{
    return a->error || a->ended || a->at < a->len;
}

int site_archive_step(struct site_archive *a)
{
    unsigned names = 0, reads = 0;

    if (!a->error && a->client >= 0 && net_gone(a->client))
        a->error = -ECONNRESET;
    if (site_archive_ready(a))
        return a->error;
    a->at = a->len = 0;
    while (!a->error && !a->ended && a->len < SLICE_BYTES && names < SLICE_NAMES &&
           reads < SLICE_READS) {
        bool reading = a->file >= 0;

        a->error = reading ? read_file(a) : next_name(a);
        names += !reading;
        reads += reading;
    }
    return a->error ? a->error : site_archive_ready(a) ? 0 : -EINPROGRESS;
}

size_t site_archive_next(struct site_archive *a, char *buf, size_t cap)
{
    size_t n;

    while (!site_archive_ready(a)) {
        if (a->helped || !a->offered) {
            a->offered = true;
            return SOURCE_LATER;
        }
        (void)site_archive_step(a);
    }
    if (a->error)
        return SOURCE_FAILED;
    n = a->len - a->at < cap ? a->len - a->at : cap;
    memcpy(buf, a->out + a->at, n);
    a->at += n;
    return n;
}
