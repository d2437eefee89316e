/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* ksite.c - a folder as representations, inside the kernel: what server/site.c is in user space.
 *
 * Names are looked up by ksite_links.c, never outside the root.  The path that is found is held, so
 * its kind, permission and attributes are those of the thing that is then opened.  Only regular
 * files and folders are opened, so a FIFO cannot block and a device not wake.
 *
 * Kernel threads are root, and a server that reads as root serves the shadow file of whoever points
 * it there.  So lookups, permission checks and opens are done as a user and group that own nothing:
 * what others may read is served and nothing else, by mode, access list and security module alike.
 * dentry_open() does not ask for permission by itself; readable() does.
 *
 * Every function here may sleep, except release in a bottom half.
 */
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/stat.h>
#include "../core/types.h"
#include "kcache.h"
#include "kcompat.h"
#include "ksite_inside.h"

enum {
    OWNS_NOTHING = 0xfffffffe, /* not 65534: files of "nobody" are found on disks */
};

/* One search: the path, which may grow by an index's name and a suffix. */
struct search {
    struct ksite *site;
    const struct http_ask *ask;
    unsigned mounts; /* LOOKUP_NO_XDEV, or 0: they are crossed */
    bool beyond;     /* some name could not be followed for that */
    size_t len;
    char *path;
};

/* What a name led to. */
struct thing {
    struct path path;
    u64 seen; /* ksite_seen(), before all else */
    bool young; /* kwitness_young() */
    struct kstat st;
};

/* --- The root --------------------------------------------------------------------------------- */

static const struct cred *visitor(void)
{
    struct cred *cred = prepare_kernel_cred(&init_task); /* it is in no group */

    if (!cred)
        return NULL;
    cred->uid = cred->euid = cred->suid = cred->fsuid = KUIDT_INIT(OWNS_NOTHING);
    cred->gid = cred->egid = cred->sgid = cred->fsgid = KGIDT_INIT(OWNS_NOTHING);
    cap_clear(cred->cap_effective);
    cap_clear(cred->cap_permitted);
    cap_clear(cred->cap_inheritable);
    cap_clear(cred->cap_ambient);
    cap_clear(cred->cap_bset);
    return cred;
}

/* 0, or why nothing could ever be served from the root. */
static int root_error(struct ksite *site)
{
    const struct cred *own = override_creds(site->cred);
    struct path here;
    int err = path_permission(&site->root, MAY_READ | MAY_EXEC);

    if (!err)
        err = ksite_look(&site->root, ".", LOOKUP_DIRECTORY, &here);
    if (!err)
        path_put(&here);
    revert_creds(own);
    return err;
}

int ksite_open(struct ksite **site, const struct ksite_options *opt)
{
    const char *index = opt->index ?: "index.html";
    struct ksite *s;
    int err;

    if (strlen(index) > NAME_BYTES_MAX || strchr(index, '/'))
        return -EINVAL;
    s = kzalloc(sizeof(*s), GFP_KERNEL);
    if (!s)
        return -ENOMEM;
    s->hidden = opt->hidden;
    s->listing = opt->listing;
    s->precompressed = opt->precompressed;
    s->cross_mounts = opt->cross_mounts;
    s->entries_max = opt->listing_max ? opt->listing_max : KSITE_ENTRIES_MAX;
    s->index_len = strlen(index);
    memcpy(s->index, index, s->index_len + 1);
    s->cred = visitor();
    err = s->cred ? kern_path(opt->root, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &s->root) : -ENOMEM;
    if (!err)
        err = root_error(s);
    if (!err)
        err = ksite_remember(s, opt);
    if (err) {
        ksite_close(s);
        return err;
    }
    *site = s;
    return 0;
}

void ksite_close(struct ksite *site)
{
    if (!site)
        return;
    kcache_close(site->cache);
    path_put(&site->root); /* nothing yet is fine, too */
    if (site->cred)
        put_cred(site->cred);
    /* Files whose closing was put off keep their mount busy.  But where others than local ones may
     * have been put off as well, that could be waited for without end. */
    if (READ_ONCE(site->put_off) && !site->cross_mounts)
        flush_delayed_fput();
    kfree(site);
}

static int error_of(int err)
{
    switch (err) {
    case -ENOTDIR: /* a file used as a folder */
        return -ENOENT;
    case -EPERM:
    case -EXDEV:   /* leaves the root, or what is mounted there */
    case -ELOOP:   /* a magic link, or links without end */
        return -EACCES;
    case -EINPROGRESS: /* of a file system that says what it likes: to the core it means "later" */
        return -EIO;
    default:
        return err;
    }
}

int ksite_look(const struct path *from, const char *name, unsigned flags, struct path *found)
{
    int err = ksite_walk(from, name, flags, found);

    return err == -EXDEV ? err : error_of(err);
}

/* --- What is found ---------------------------------------------------------------------------- */

/* The name of the search, as far as its file system goes. */
static int search_look(struct search *f, const char *name, unsigned flags, struct path *path)
{
    int err = ksite_look(&f->site->root, name, LOOKUP_FOLLOW | f->mounts | flags, path);

    f->beyond = f->beyond || err == -EXDEV;
    return error_of(err);
}

static int thing_look(struct search *f, const char *name, struct thing *thing)
{
    int err = search_look(f, name, 0, &thing->path);
    struct timespec64 now;

    if (err)
        return err;
    thing->seen = ksite_seen(f->site, &thing->path);
    ktime_get_coarse_real_ts64(&now);
    err = vfs_getattr(&thing->path, &thing->st, STATX_BASIC_STATS, AT_STATX_SYNC_AS_STAT);
    thing->young = !err && kwitness_young(thing->path.dentry->d_sb, &thing->st.ctime, &now);
    if (err)
        path_put(&thing->path);
    return error_of(err);
}

static int readable(const struct path *path)
{
    return error_of(path_permission(path, MAY_READ | MAY_OPEN));
}

static bool is_older(const struct kstat *a, const struct kstat *b)
{
    return timespec64_compare(&a->mtime, &b->mtime) < 0;
}

/* --- Sources ---------------------------------------------------------------------------------- */

static struct ksite_source *source_new(enum source_kind kind, const char *type)
{
    struct ksite_source *s = kzalloc(sizeof(*s), GFP_KERNEL);

    if (!s)
        return NULL;
    s->source.kind = kind;
    s->source.type = type;
    return s;
}

/* A regular file that may be read. */
static int source_of_file(const struct thing *thing, const char *type, struct ksite_source **source)
{
    struct ksite_source *s = source_new(SOURCE_BODY, type);
    struct file *file;

    if (!s)
        return -ENOMEM;
    s->source.size = (uint64_t)thing->st.size;
    s->source.inode = thing->st.ino;
    s->source.mtime_s = thing->st.mtime.tv_sec;
    s->source.mtime_ns = (uint32_t)thing->st.mtime.tv_nsec;
    s->source.ctime_s = thing->st.ctime.tv_sec;
    s->source.ctime_ns = (uint32_t)thing->st.ctime.tv_nsec;
    s->source.young = thing->young;
    if (thing->st.size == 0) { /* nothing to read, so nothing to open */
        s->source.bytes = "";
    } else {
        file = dentry_open(&thing->path, KSITE_OPEN_FLAGS, current_cred());
        if (IS_ERR(file)) {
            kfree(s);
            return error_of(PTR_ERR(file));
        }
        s->source.file = file;
    }
    *source = s;
    return 0;
}

void ksite_release(struct ksite *site, struct source *source)
{
    struct ksite_source *s = container_of(source, struct ksite_source, source);

    if (s->cached) {
        kcache_release(source);
        return;
    }
    kfolder_close(s->folder);
    if (s->source.file)
        ksite_shut(site, s->source.file);
    kfree(s);
}

/* --- Files ------------------------------------------------------------------------------------ */

/* The sibling in that coding, if it may stand for the original; else -ENOENT or why it is not
 * known. */
static int look_sibling(struct search *f, enum coding coding, const struct kstat *original,
                        struct thing *sibling)
{
    const char *suffix = http_coding_suffix(coding);
    int err;

    memcpy(f->path + f->len, suffix, strlen(suffix) + 1);
    err = thing_look(f, f->path, sibling);
    f->path[f->len] = '\0';
    if (err)
        return err;
    err = readable(&sibling->path);
    if (!err && (!S_ISREG(sibling->st.mode) || is_older(&sibling->st, original)))
        err = -ENOENT;
    if (err)
        path_put(&sibling->path);
    return err;
}

/* What a search has found so far; holds a path of its own. */
struct choice {
    struct thing thing;
    enum coding coding;
    bool vary;
};

/* Replace the original by the sibling the client likes best.  The rest are looked for only as long
 * as it is not known whether the answer varies. */
static void choose_coding(struct search *f, struct choice *best)
{
    struct kstat original = best->thing.st;
    struct thing sibling;
    enum coding coding;

    for (coding = CODINGS - 1; coding > CODING_IDENTITY; coding--) {
        bool better = http_prefers(f->ask->q, coding, best->coding);
        int err;

        if (best->vary && !better)
            continue;
        err = look_sibling(f, coding, &original, &sibling);
        /* One that may be there and cannot be looked at now varies the answer all the same. */
        best->vary = best->vary || !err || err == -ENFILE || err == -ENOMEM;
        if (err)
            continue;
        if (better) {
            swap(best->thing, sibling);
            best->coding = coding;
        }
        path_put(&sibling.path);
    }
}

/* A regular file was found. */
static int found_file(struct search *f, const struct thing *thing, struct ksite_source **source)
{
    const char *type = type_of(f->path, f->len);
    struct choice best = {.thing = *thing, .coding = CODING_IDENTITY};
    struct ksite_kept kept = {f->ask, f->path, &thing->path, &best.thing.path,
                              thing->seen};
    int err = readable(&thing->path);

    if (err)
        return err;
    path_get(&best.thing.path);
    if (f->site->precompressed && type_compresses(type))
        choose_coding(f, &best);
    if (f->site->compress && type_compresses(type) && thing->st.size >= COMPRESS_BYTES_MIN &&
        thing->st.size <= KCACHE_BODY_BYTES_MAX)
        best.vary = true; /* for others it may be compressed */
    err = source_of_file(&best.thing, type, source);
    if (err && best.coding != CODING_IDENTITY) { /* what was asked for can still be had */
        err = source_of_file(thing, type, source);
        if (!err)
            (*source)->source.vary = best.vary;
    } else if (!err) {
        (*source)->source.coding = best.coding;
        (*source)->source.vary = best.vary;
        ksite_keep(f->site, &kept, source);
    }
    path_put(&best.thing.path);
    return err;
}

static int find_file(struct search *f, struct ksite_source **source)
{
    struct thing thing;
    int err = thing_look(f, f->path, &thing);

    if (err)
        return err;
    if (S_ISREG(thing.st.mode)) {
        err = found_file(f, &thing, source);
    } else if (S_ISDIR(thing.st.mode)) {
        *source = source_new(SOURCE_REDIRECT, NULL);
        err = *source ? 0 : -ENOMEM;
    } else {
        err = -EACCES;
    }
    path_put(&thing.path);
    return err;
}

/* --- Folders ---------------------------------------------------------------------------------- */

/* 0 and the index page, -ENOENT: there is none, or -errno. */
static int find_index(struct search *f, struct ksite_source **source)
{
    size_t len = f->len;
    struct thing thing;
    int err;

    if (f->site->index_len == 0)
        return -ENOENT;
    memcpy(f->path + len, f->site->index, f->site->index_len + 1);
    f->len += f->site->index_len;
    err = thing_look(f, f->path, &thing);
    if (!err) {
        if (S_ISREG(thing.st.mode))
            err = found_file(f, &thing, source);
        else if (S_ISSOCK(thing.st.mode) || readable(&thing.path))
            err = -EACCES; /* as if it had been opened: a socket cannot be */
        else
            err = -ENOENT;
        path_put(&thing.path);
    }
    f->len = len;
    f->path[len] = '\0';
    return err == -ENAMETOOLONG ? -ENOENT : err;
}

static size_t no_entries(struct source *source, char *buf, size_t cap)
{
    return 0;
}

/* A folder that may be read was found. */
static int found_folder(struct search *f, const struct path *path, struct ksite_source **source)
{
    struct ksite_kept kept = {f->ask, f->len ? f->path : ".", path, path};
    struct listing_view view;
    struct ksite_source *s;
    struct file *file;
    int err;

    listing_view_read(&view, f->ask);
    s = source_new(SOURCE_MADE, listing_type(view.format));
    if (!s)
        return -ENOMEM;
    s->source.vary = f->site->compress; /* for others it may be compressed */
    *source = s;
    if (f->ask->head && !f->site->cache) { /* else its length is told, as in the answer to GET */
        s->source.next = no_entries;
        return 0;
    }
    s->source.next = kfolder_next;
    ksite_before(f->site, &kept);
    file = dentry_open(path, KSITE_OPEN_FLAGS | O_DIRECTORY, current_cred());
    err = IS_ERR(file) ? PTR_ERR(file) : kfolder_open(f->site, f->ask, file, &s->folder);
    if (err)
        kfree(s);
    else
        ksite_keep(f->site, &kept, source);
    return error_of(err);
}

static int find_listing(struct search *f, struct ksite_source **source)
{
    const char *name = f->len ? f->path : ".";
    struct path path;
    int err = search_look(f, name, LOOKUP_DIRECTORY, &path);

    if (err)
        return err;
    err = readable(&path);
    if (!err)
        err = f->site->listing ? found_folder(f, &path, source) : -EACCES;
    path_put(&path);
    return err;
}

static int find(struct search *f, struct ksite_source **source)
{
    const struct cred *own = override_creds(f->site->cred);
    int err;

    if (f->len && f->path[f->len - 1] != '/') {
        err = find_file(f, source);
    } else {
        err = find_index(f, source);
        if (err == -ENOENT)
            err = find_listing(f, source);
    }
    revert_creds(own);
    if (!f->beyond || !f->site->cross_mounts || !f->mounts)
        return err;
    if (!err) /* something that is beyond may be the better answer */
        ksite_release(f->site, &(*source)->source);
    return -EINPROGRESS;
}

int ksite_find(struct ksite *site, const struct http_ask *ask, bool away, struct source **source)
{
    struct search f = {.site = site, .ask = ask};
    struct ksite_source *found;
    int err;

    if (ask->path.len == 0 || ask->path.len > PATH_BYTES_MAX)
        return -ENAMETOOLONG;
    if (ksite_is_gone(site))
        return -ESTALE;
    if (ksite_try(site, ask, source) == 0)
        return 0;
    if (!site->hidden && path_is_hidden(ask->path))
        return -ENOENT;
    f.mounts = away && site->cross_mounts ? 0 : LOOKUP_NO_XDEV;
    f.len = ask->path.len - 1;
    f.path = kmalloc(f.len + site->index_len + CODING_SUFFIX_BYTES_MAX + 1, GFP_KERNEL);
    if (!f.path)
        return -ENOMEM;
    memcpy(f.path, ask->path.ptr + 1, f.len);
    f.path[f.len] = '\0';
    err = find(&f, &found);
    kfree(f.path);
    if (!err)
        *source = &found->source;
    return err;
}

int ksite_page(struct ksite *site, unsigned status, struct source **source)
{
    const struct cred *own = override_creds(site->cred);
    struct search f = {.site = site, .mounts = LOOKUP_NO_XDEV};
    struct ksite_source *found;
    struct thing thing;
    char name[16];
    int err;

    snprintf(name, sizeof(name), "%u.html", status);
    err = thing_look(&f, name, &thing);
    if (!err) {
        err = S_ISREG(thing.st.mode) ? readable(&thing.path) : -ENOENT;
        if (!err)
            err = source_of_file(&thing, type_of(name, strlen(name)), &found);
        path_put(&thing.path);
    }
    revert_creds(own);
    if (!err)
        *source = &found->source;
    return err;
}
