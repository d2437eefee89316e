/* SPDX-License-Identifier: MIT */
/* site.c - a folder as representations: files, their compressed siblings, index pages, redirects.
 *
 * A name becomes a descriptor in site_open.c: beneath the root, and only if it is a file or a
 * folder.  A symbolic link is followed while it stays below the root; one that leaves it, or is
 * absolute, is 403 like everything else that exists and is not served, and one that leads to a
 * hidden name is 404 like that name.  The usual file costs an fstatat, an openat2 and an fstat (and
 * once a second one failing fstatat for each coding where compressed siblings may be:
 * site_absent.c); its descriptor stays open until the source is released.  No lock is needed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../core/types.h"
#include "cache.h"
#include "compress.h"
#include "site_inside.h"

/* One search: the path with room for an index's name and a suffix. */
struct search {
    struct site *site;
    const struct http_ask *ask;
    struct timespec now; /* before anything was looked at */
    size_t len;
    char path[PATH_BYTES_MAX + NAME_BYTES_MAX + CODING_SUFFIX_BYTES_MAX + 1];
};

/* --- The root --------------------------------------------------------------------------------- */

int site_open(struct site **site, const struct site_options *opt, const char **why)
{
    struct site *s = calloc(1, sizeof(*s));
    const char *index = opt->index ? opt->index : "index.html";
    struct stat st;
    int fd;

    *why = "remember the site";
    if (!s)
        return -ENOMEM;
    s->hidden = opt->hidden;
    s->world = geteuid() == 0 && !opt->all;
    s->listing = opt->listing;
    s->precompressed = opt->precompressed;
    s->compress = opt->compress && compress_makes_any();
    s->entries_max = opt->listing_max ? opt->listing_max : SITE_ENTRIES_MAX;
    s->index_len = strlen(index);
    s->root_fd = -1;
    *why = "use the index's name";
    if (s->index_len > NAME_BYTES_MAX || strchr(index, '/')) {
        site_close(s);
        return -EINVAL;
    }
    memcpy(s->index, index, s->index_len + 1);
    *why = "open folder";
    s->root_fd = open(opt->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->root_fd < 0) {
        int err = -errno;

        site_close(s);
        return err;
    }
    *why = "have memory for listings";
    if (rolls_open(s)) {
        int err = -errno;

        site_close(s);
        return err;
    }
    s->counts_links = fstat(s->root_fd, &st) == 0 && st.st_nlink > 0;
    young_init(&s->young, s->root_fd);
    *why = "have a random number";
    if (absent_init(&s->absent) || absent_init(&s->straight)) {
        int err = -errno;

        site_close(s);
        return err;
    }
    *why = "confine lookups to the folder (openat2, Linux 5.6)";
    fd = site_open_beneath(s, ".", O_PATH | O_DIRECTORY);
    if (fd < 0) {
        site_close(s);
        return fd;
    }
    close(fd);
    *site = s;
    return 0;
}

void site_close(struct site *site)
{
    if (!site)
        return;
    if (site->root_fd >= 0)
        close(site->root_fd);
    rolls_close(site);
    free(site);
}

/* --- Sources ---------------------------------------------------------------------------------- */

static struct site_source *source_new(enum source_kind kind, const char *type)
{
    struct site_source *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->source.kind = kind;
    s->source.type = type;
    s->fd = -1;
    return s;
}

/* A regular file that was opened; fd is taken over, also on failure. */
static int source_of_file(int fd, const struct stat *st, const char *type,
                          struct site_source **source)
{
    struct site_source *s = source_new(SOURCE_BODY, type);

    if (!s) {
        close(fd);
        return -ENOMEM;
    }
    s->source.size = (uint64_t)st->st_size;
    s->source.inode = st->st_ino;
    s->source.mtime_s = st->st_mtim.tv_sec;
    s->source.mtime_ns = (uint32_t)st->st_mtim.tv_nsec;
    s->source.ctime_s = st->st_ctim.tv_sec;
    s->source.ctime_ns = (uint32_t)st->st_ctim.tv_nsec;
    if (st->st_size == 0) { /* nothing to read, so nothing to keep open */
        s->source.bytes = "";
        close(fd);
    } else {
        s->source.file = s;
        s->fd = fd;
    }
    *source = s;
    return 0;
}

void site_release(struct site *site, struct source *source)
{
    struct site_source *s = (struct site_source *)source;

    (void)site;
    if (s->entry) {
        cache_release(s->entry);
        return;
    }
    folder_close(s->folder);
    if (s->fd >= 0)
        close(s->fd);
    free(s);
}

int site_source_fd(const struct source *source)
{
    return ((const struct site_source *)source)->fd;
}

/* --- Listings that are made in slices --------------------------------------------------------- */

static struct folder *folder_of(const struct source *source)
{
    return ((const struct site_source *)source)->folder;
}

void site_listing_help(struct source *source, struct listing_help help)
{
    source->next = help.next;
    ((struct site_source *)source)->owner = help.owner;
    folder_help(folder_of(source));
}

void *site_listing_owner(const struct source *source)
{
    return ((const struct site_source *)source)->owner;
}

size_t site_listing_next(struct source *source, char *buf, size_t cap)
{
    return folder_next(source, buf, cap);
}

void site_listing_client(struct source *source, int fd)
{
    if (folder_of(source))
        folder_client(folder_of(source), fd);
}

bool site_listing_ready(const struct source *source)
{
    return !folder_of(source) || folder_ready(folder_of(source));
}

bool site_listing_long(const struct source *source)
{
    return folder_long(folder_of(source));
}

bool site_listing_plain(const struct source *source)
{
    return folder_of(source) && folder_plain(folder_of(source));
}

void site_listing_rewind(struct source *source)
{
    folder_rewind(folder_of(source));
}

int site_listing_step(struct source *source)
{
    return folder_step(folder_of(source));
}

/* --- Files ------------------------------------------------------------------------------------ */

static bool is_older(const struct stat *a, const struct stat *b)
{
    return a->st_mtim.tv_sec < b->st_mtim.tv_sec ||
        (a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec < b->st_mtim.tv_nsec);
}

/* The sibling in that coding, if it may stand for the original; -ENOENT: there is none; or why it
 * may not, or is not known. */
static int open_sibling(struct search *f, enum coding coding, const struct stat *original,
                        struct stat *st)
{
    const char *suffix = http_coding_suffix(coding);
    int fd;

    memcpy(f->path + f->len, suffix, strlen(suffix) + 1);
    fd = site_open_file(f->site, f->path, st);
    f->path[f->len] = '\0';
    if (fd >= 0 && is_older(st, original)) {
        close(fd);
        return -EACCES;
    }
    return fd;
}

/* The best representation found so far. */
struct choice {
    int fd;
    enum coding coding;
    bool vary;
    struct stat st;
};

/* Replace the original by the sibling the client likes best.  The rest are looked for only as long
 * as it is not known whether the answer varies. */
static void choose_coding(struct search *f, struct choice *best)
{
    struct stat original = best->st;
    uint32_t now_ms = (uint32_t)clock_ms();
    bool alone = true; /* no sibling is there, whatever it be */

    /* A client that refuses the file itself gets 406 only after its siblings were looked for. */
    if (f->ask->q[CODING_IDENTITY] && !site_is_exact(f->site) &&
        absent_lately(&f->site->absent, f->path, f->len, now_ms))
        return;
    for (enum coding coding = CODINGS - 1; coding > CODING_IDENTITY; coding--) {
        bool better = http_prefers(f->ask->q, coding, best->coding);
        struct stat st;
        int fd;

        if (best->vary && !better)
            continue;
        fd = open_sibling(f, coding, &original, &st);
        alone = alone && fd == -ENOENT;
        /* One that may be there and cannot be opened now varies the answer all the same. */
        best->vary = best->vary || fd >= 0 || fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM;
        if (fd >= 0 && better) {
            close(best->fd);
            best->fd = fd;
            best->st = st;
            best->coding = coding;
        } else if (fd >= 0) {
            close(fd);
        }
    }
    if (alone)
        absent_note(&f->site->absent, f->path, f->len, now_ms);
}

/* A regular file was opened; fd is taken over. */
static int found_file(struct search *f, int fd, const struct stat *st, struct site_source **source)
{
    const char *type = type_of(f->path, f->len);
    struct choice best = {.fd = fd, .coding = CODING_IDENTITY, .st = *st};
    bool young;
    int err;

    if (f->site->precompressed && type_compresses(type))
        choose_coding(f, &best);
    /* For another client, or a moment later, it may be compressed. */
    if (compress_may(type, (uint64_t)st->st_size, site_compress_max(f->site)))
        best.vary = true;
    young = young_is(&f->site->young, best.fd, &best.st, &f->now);
    err = source_of_file(best.fd, &best.st, type, source);
    if (!err) {
        (*source)->source.coding = best.coding;
        (*source)->source.vary = best.vary;
        (*source)->source.young = young;
    }
    return err;
}

static int find_file(struct search *f, struct site_source **source)
{
    struct stat st;
    int fd = site_open_file(f->site, f->path, &st);

    if (fd >= 0)
        return found_file(f, fd, &st, source);
    if (fd != -EISDIR)
        return fd;
    *source = source_new(SOURCE_REDIRECT, NULL);
    return *source ? 0 : -ENOMEM;
}

/* --- Folders ---------------------------------------------------------------------------------- */

/* A folder, FIFO or device of that name does not keep its folder from being listed. */
static bool is_no_index(int err, const struct stat *st)
{
    return err == -EISDIR || err == -ENAMETOOLONG ||
        (err == -EACCES && (S_ISFIFO(st->st_mode) || S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode)));
}

/* 0 and the index page, -ENOENT: there is none, or -errno. */
static int find_index(struct search *f, struct site_source **source)
{
    size_t len = f->len;
    struct stat st;
    int err, fd;

    if (f->site->index_len == 0)
        return -ENOENT;
    memcpy(f->path + len, f->site->index, f->site->index_len + 1);
    f->len += f->site->index_len;
    fd = site_open_file(f->site, f->path, &st);
    if (fd >= 0)
        err = found_file(f, fd, &st, source);
    else
        err = is_no_index(fd, &st) ? -ENOENT : fd;
    f->len = len;
    f->path[len] = '\0';
    return err;
}

static size_t no_entries(struct source *source, char *buf, size_t cap)
{
    (void)source;
    (void)buf;
    (void)cap;
    return 0;
}

static int find_listing(struct search *f, bool may_block, struct site_source **source)
{
    const struct http_ask *ask = f->ask;
    int fd = site_open_beneath(f->site, f->len ? f->path : ".", O_RDONLY | O_DIRECTORY);
    struct listing_view view;
    int err = 0;

    if (fd < 0)
        return fd;
    if (f->len == 0 && site_is_gone(f->site)) { /* it has no entries, but is no empty folder */
        close(fd);
        return -ESTALE;
    }
    if (!f->site->listing || (!ask->head && !may_block)) {
        close(fd);
        return f->site->listing ? -EINPROGRESS : -EACCES;
    }
    listing_view_read(&view, ask);
    *source = source_new(SOURCE_MADE, listing_type(view.format));
    if (!*source || ask->head) {
        close(fd);
        if (!*source)
            return -ENOMEM;
        (*source)->source.next = no_entries;
        return 0;
    }
    (*source)->source.next = folder_next;
    err = folder_open(f->site, ask, fd, &(*source)->folder);
    if (err) {
        site_release(f->site, &(*source)->source);
        *source = NULL;
    }
    return err;
}

int site_find(struct site *site, const struct http_ask *ask, bool may_block, struct source **source)
{
    struct search f; /* not cleared: only as much of the path as is used */
    struct site_source *found = NULL;
    int err;

    if (ask->path.len == 0 || ask->path.len > PATH_BYTES_MAX)
        return -ENAMETOOLONG;
    if (!site->hidden && path_is_hidden(ask->path))
        return -ENOENT;
    f.site = site;
    f.ask = ask;
    clock_gettime(CLOCK_REALTIME_COARSE, &f.now);
    f.len = ask->path.len - 1;
    memcpy(f.path, ask->path.ptr + 1, f.len);
    f.path[f.len] = '\0';
    if (ask->path.ptr[f.len] != '/') {
        err = find_file(&f, &found);
    } else {
        err = find_index(&f, &found);
        if (err == -ENOENT)
            err = find_listing(&f, may_block, &found);
    }
    if (err == -ENOENT && site_is_gone(site))
        err = -ESTALE;
    if (!err)
        *source = &found->source;
    return err;
}

int site_page(struct site *site, unsigned status, struct source **source)
{
    struct site_source *found;
    char name[16];
    struct stat st;
    int err, fd;

    snprintf(name, sizeof(name), "%u.html", status);
    fd = site_open_file(site, name, &st);
    if (fd < 0)
        return fd == -EISDIR || st.st_mode ? -ENOENT : fd;
    err = source_of_file(fd, &st, type_of(name, strlen(name)), &found);
    if (!err)
        *source = &found->source;
    return err;
}
