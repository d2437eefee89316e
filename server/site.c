/* SPDX-License-Identifier: MIT */
/* site.c - a folder as representations: the names and descriptors that core/docroot.c asks for when
 * it decides which file answers a path, or which listing.
 *
 * A name becomes a descriptor in site_open.c: beneath the root, and only if it is a file or a
 * folder.  A symbolic link is followed while it stays below the root; one that leaves it, or is
 * absolute, is 403 like everything else that exists and is not served, and one that leads to a
 * hidden name is 404 like that name.  The usual file costs an fstatat, an openat2 and an fstat (and
 * once a second one failing fstatat for each coding where compressed siblings may be:
 * site_negative.c); its descriptor stays open until the source is released.  No lock is needed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../core/types.h"
#include "compress.h"
#include "site_archive.h"

struct search {
    struct docroot_search search; /* first */
    struct site *site;
    bool may_block;
    dev_t dev;           /* of the file found last */
    enum site_place place;
    struct timespec now; /* read before anything was looked at */
    uint32_t siblings_ms; /* clock_ms() before siblings were looked for */
    char path[DOCROOT_PATH_BYTES_MAX];
};

/* --- The root --------------------------------------------------------------------------------- */

/* 0, or -errno; *why says what failed. */
static int root_open(struct site *s, const struct site_options *opt, const char **why)
{
    struct stat st;
    int fd;

    *why = "use the index's name";
    if (docroot_settle(&s->rules))
        return -EINVAL;
    *why = "open folder";
    s->root_fd = open(opt->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->root_fd < 0)
        return -errno;
    *why = "have memory for listings";
    if (rolls_open(s))
        return -errno;
    s->counts_links = fstat(s->root_fd, &st) == 0 && st.st_nlink > 0;
    young_init(&s->young, s->root_fd);
    s->place = site_place_of(s, s->root_fd, s->young.dev);
    *why = "have a random number";
    if (negative_init(&s->negative) || negative_init(&s->no_symlinks))
        return -errno;
    *why = "confine lookups to the folder (openat2: Linux 5.6, no RestrictSUIDSGID= of systemd)";
    fd = site_open_beneath(s, ".", O_PATH | O_DIRECTORY);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? fd : 0;
}

int site_open(struct site **site, const struct site_options *opt, const char **why)
{
    struct site *s = calloc(1, sizeof(*s));
    int err;

    *why = "remember the site";
    if (!s)
        return -ENOMEM;
    s->rules = opt->rules;
    s->world = geteuid() == 0 && !opt->all;
    s->readme = opt->readme;
    s->compress = opt->compress && compress_makes_any();
    s->moves = opt->moves;
    s->root_fd = -1;
    err = root_open(s, opt, why);
    if (!err && opt->beside)
        s->archive = opt->beside->archive;
    if (err)
        site_close(s);
    else
        *site = s;
    return err;
}

int site_root(const struct site *site)
{
    return site->root_fd;
}

const struct docroot_rules *site_rules(const struct site *site)
{
    return &site->rules;
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

static struct site_source *source_new(const struct source *source)
{
    struct site_source *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->source = *source;
    s->fd = -1;
    return s;
}

int site_move(unsigned status, struct slice start, struct slice rest, struct source **source)
{
    struct site_source *s = calloc(1, sizeof(*s) + start.len + 3 * rest.len);
    char *text = (char *)(s + 1);

    if (!s)
        return -ENOMEM;
    memcpy(text, start.ptr, start.len);
    s->source = (struct source){.kind = SOURCE_MOVED, .status = (uint16_t)status, .bytes = text};
    s->source.size = start.len + path_encode(text + start.len, rest.ptr, rest.len);
    s->fd = -1;
    *source = &s->source;
    return 0;
}

void site_release(struct site *site, struct source *source)
{
    struct site_source *s = (struct site_source *)source;

    (void)site;
    site_folder_close(s->folder);
    site_archive_close(s->archive);
    if (s->fd >= 0)
        close(s->fd);
    free(s);
}

int site_source_fd(const struct source *source)
{
    return ((const struct site_source *)source)->fd;
}

enum site_place site_source_place(const struct source *source)
{
    return ((const struct site_source *)source)->place;
}

dev_t site_source_dev(const struct source *source)
{
    return ((const struct site_source *)source)->dev;
}

void site_source_give(struct source *source)
{
    ((struct site_source *)source)->fd = -1;
}

/* --- What the core asks of it ----------------------------------------------------------------- */

static int search_look(struct docroot_search *search, const char *name, struct docroot_thing *thing)
{
    struct search *f = (struct search *)search;
    struct stat st;
    int fd = site_open_file(f->site, name, &st);

    if (st.st_mode)
        thing->kind = (uint8_t)docroot_kind(st.st_mode);
    if (fd < 0)
        return fd;
    f->dev = st.st_dev;
    f->place = st.st_dev == f->site->young.dev ? f->site->place
                                               : site_place_of(f->site, fd, st.st_dev);
    thing->fd = fd;
    thing->source = (struct source){
        .size = (uint64_t)st.st_size,
        .inode = st.st_ino,
        .mtime_s = st.st_mtim.tv_sec,
        .mtime_ns = (uint32_t)st.st_mtim.tv_nsec,
        .ctime_s = st.st_ctim.tv_sec,
        .ctime_ns = (uint32_t)st.st_ctim.tv_nsec,
        .young = young_is(f->site, fd, &st, &f->now),
    };
    return 0;
}

static void search_put(struct docroot_search *search, struct docroot_thing *thing)
{
    (void)search;
    if (thing->fd >= 0)
        close(thing->fd);
}

/* The source takes the descriptor, but not an empty file's, from which nothing is read. */
static int search_open(struct docroot_search *search, struct docroot_thing *asked,
                       struct docroot_thing *sent, struct source **source)
{
    const struct search *f = (const struct search *)search;
    struct site_source *s = source_new(&sent->source);

    (void)asked;
    if (!s)
        return -ENOMEM;
    s->dev = f->dev;
    s->place = f->place;
    if (s->source.size) {
        s->source.file = s;
        s->fd = sent->fd;
        sent->fd = -1;
    }
    *source = &s->source;
    return 0;
}

static int search_folder(struct docroot_search *search, const char *name,
                         struct docroot_thing *thing)
{
    struct search *f = (struct search *)search;
    int fd = site_open_beneath(f->site, name, O_RDONLY | O_DIRECTORY);

    if (fd >= 0 && search->len == 0 && site_is_gone(f->site)) {
        close(fd);
        fd = -ESTALE; /* the root has no entries, but is no empty folder */
    }
    thing->fd = fd;
    return fd < 0 ? fd : 0;
}

static int search_list(struct docroot_search *search, struct docroot_thing *thing,
                       struct source **source)
{
    struct search *f = (struct search *)search;
    struct site_source *s = f->may_block ? source_new(&thing->source) : NULL;
    int err;

    if (!s)
        return f->may_block ? -ENOMEM : -EINPROGRESS;
    s->source.next = site_listing_next;
    err = site_folder_open(f->site, search->ask, thing->fd, &s->folder);
    thing->fd = -1;
    if (err)
        free(s);
    else
        *source = &s->source;
    return err;
}

static bool search_alone(struct docroot_search *search, bool found)
{
    struct search *f = (struct search *)search;
    struct slice path = {search->path, search->len};

    if (found) {
        negative_add(&f->site->negative, path.ptr, path.len, f->siblings_ms);
        return true;
    }
    f->siblings_ms = (uint32_t)clock_ms();
    return !site_is_exact(f->site) &&
           negative_has(&f->site->negative, path.ptr, path.len, f->siblings_ms);
}

static const struct docroot_ops search_ops = {
    .look = search_look, .put = search_put, .open = search_open,
    .folder = search_folder, .list = search_list, .alone = search_alone,
};

/* The struct is not cleared: only the part of its path that is in use counts. */
static void search_init(struct search *f, struct site *site)
{
    f->site = site;
    f->search.ops = &search_ops;
    f->search.rules = &site->rules;
    f->search.path = f->path;
    clock_gettime(CLOCK_REALTIME_COARSE, &f->now);
}

static int find_archive(struct site *site, const struct http_ask *ask, struct source **source)
{
    struct site_source *s =
        source_new(&(struct source){.kind = SOURCE_MADE, .next = site_listing_next});
    int err = s ? site_archive_open(site, ask, &s->archive) : -ENOMEM;

    if (err) {
        free(s);
        return err;
    }
    site_archive_tell(s->archive, &s->source);
    *source = &s->source;
    return 0;
}

int site_find(struct site *site, const struct http_ask *ask, bool may_block, struct source **source)
{
    bool archive = site_archive_asked(site, ask);
    struct search f;
    int err;

    if (archive && !may_block)
        return -EINPROGRESS;
    if (archive)
        return find_archive(site, ask, source);
    search_init(&f, site);
    f.search.ask = ask;
    f.search.compress_max = site_compress_max(site);
    f.search.head_lists = false;
    f.may_block = may_block;
    err = docroot_find(&f.search, source);
    return err == -ENOENT && site_is_gone(site) ? -ESTALE : err;
}

int site_page(struct site *site, unsigned status, struct source **source)
{
    struct search f;

    search_init(&f, site);
    f.search.ask = NULL;
    f.search.compress_max = 0;
    return docroot_page(&f.search, status, source);
}
