/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* ksite_folder.c - the listing of a folder: names and paths for core/folder.c, which sorts and
 * streams.
 *
 * The walk holds the folder's inode lock while it calls us, so names are only copied there, as many
 * as there is room for; each is looked at when the lock is free again.  The target of a symbolic
 * link is looked up from the root like a request for it, except where it leads to another file
 * system, which may not answer.  The folder is closed before the first byte of a sorted listing is
 * sent.  A listing is streamed if it has more than rules.entries_max entries, or if all listings
 * together would need more than KSITE_LISTINGS_BYTES_MAX: then it needs only a buffer of
 * BUFFER_BYTES.  All of these buffers together have KSITE_DENTS_BYTES_MAX.
 */
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/stat.h>
#include "kcompat.h"
#include "ksite_inside.h"

/* An array that may be released in any context; freed by RCU, because kvfree() may sleep. */
struct lump {
    struct rcu_head rcu;
    char bytes[] __aligned(8);
};

enum {
    BUFFER_BYTES = 32768, /* with struct lump, so that no byte more is allocated */
    STREAM_NAMES = 128,   /* names described at a time, of those in the buffer */
    DENTS_BYTES = BUFFER_BYTES - sizeof(struct lump) - STREAM_NAMES * sizeof(struct listing_entry),
};

struct kfolder {
    struct rcu_head rcu;
    struct folder folder;
    struct roll roll;
    struct ksite *site;
    struct file *file;     /* NULL: all has been read */
    unsigned mounts;       /* LOOKUP_NO_XDEV, or 0: links may lead to other file systems */
    time64_t changed;      /* latest ctime of the folder and of all that was looked at */
    char path[];
};

static struct kfolder *kfolder_of(struct folder *folder)
{
    return container_of(folder, struct kfolder, folder);
}

/* --- The walk --------------------------------------------------------------------------------- */

struct walk {
    struct dir_context ctx;
    char *dents;
    size_t len;
    bool told; /* a name was reported, of use or not */
};

/* Called with the inode lock held.  False: no room; the next walk reports the name again. */
static bool told(struct dir_context *ctx, const char *name, int len, loff_t off, u64 inode,
                 unsigned type)
{
    struct walk *walk = container_of(ctx, struct walk, ctx);
    struct folder_name *d = (struct folder_name *)(walk->dents + walk->len);
    struct slice s = {name, (size_t)len};
    size_t bytes = ALIGN(offsetof(struct folder_name, name) + s.len + 1, sizeof(uint64_t));

    if (len > 0 && s.len <= FOLDER_NAME_BYTES_MAX && DENTS_BYTES - walk->len < bytes)
        return false;
    walk->told = true;
    if (len <= 0 || s.len > FOLDER_NAME_BYTES_MAX || memchr(name, '/', s.len) ||
        memchr(name, 0, s.len) || slice_is(s, ".") || slice_is(s, ".."))
        return true;
    d->bytes = (uint16_t)bytes;
    d->type = (uint8_t)type;
    memcpy(d->name, name, s.len);
    d->name[s.len] = '\0';
    walk->len += bytes;
    return true;
}

static long read_names(struct folder *folder, bool again)
{
    struct kfolder *f = kfolder_of(folder);
    struct walk walk = {.ctx.actor = told, .dents = folder->dents};
    loff_t at = again ? vfs_llseek(f->file, 0, SEEK_SET) : 0;
    int err;

    if (at < 0)
        return (long)at;
    do {
        atomic_long_inc(&f->site->walks);
        walk.told = false;
        err = iterate_dir(f->file, &walk.ctx);
        cond_resched();
    } while (!err && walk.told && !walk.len); /* nothing but "." and ".." */
    return err ?: (long)walk.len;
}

/* --- Entries ---------------------------------------------------------------------------------- */

/* -EXDEV: the target lies on another file system; it is shown as a file of unknown size, if it is
 * served at all. */
static int look_target(const struct kfolder *f, const char *name, struct path *path)
{
    int err = ksite_look(&f->site->root, name, LOOKUP_FOLLOW | f->mounts, path);

    return err == -EXDEV && !f->site->cross_mounts ? -EACCES : err;
}

static int stat_entry(struct folder *folder, const char *name, bool target, struct folder_stat *to)
{
    struct kfolder *f = kfolder_of(folder);
    struct kstat st;
    struct path path;
    int err;

    cond_resched();
    err = target ? look_target(f, name, &path)
                 : ksite_look(&f->file->f_path, name, f->mounts, &path);
    if (err)
        return err;
    err = vfs_getattr(&path, &st, STATX_BASIC_STATS, AT_STATX_SYNC_AS_STAT);
    path_put(&path);
    if (err)
        return err == -EXDEV ? -EACCES : err;
    if (st.ctime.tv_sec > f->changed)
        f->changed = st.ctime.tv_sec;
    *to = (struct folder_stat){
        .mode = st.mode, .size = (uint64_t)st.size, .mtime_s = st.mtime.tv_sec};
    return 0;
}

/* --- Memory ----------------------------------------------------------------------------------- */

static void *lump_new(size_t room)
{
    /* A listing that is too large must be streamed, and must not get a process killed. */
    struct lump *lump = kvmalloc(sizeof(*lump) + room,
                                 GFP_KERNEL | __GFP_NOWARN | __GFP_RETRY_MAYFAIL);

    return lump ? lump->bytes : NULL;
}

static void lump_free(void *bytes)
{
    if (bytes)
        kvfree_rcu(container_of(bytes, struct lump, bytes), rcu);
}

static void drop(struct folder *folder, const struct folder_array *array)
{
    lump_free(array->mem);
    atomic_long_sub((long)array->room, &kfolder_of(folder)->site->listings_bytes);
}

static void *grow(struct folder *folder, const struct folder_array *array, size_t more)
{
    struct ksite *site = kfolder_of(folder)->site;
    void *larger = NULL;

    if (atomic_long_add_return((long)more, &site->listings_bytes) <= KSITE_LISTINGS_BYTES_MAX)
        larger = lump_new(array->room + more);
    if (!larger) {
        atomic_long_sub((long)more, &site->listings_bytes);
        return NULL;
    }
    if (array->mem) {
        memcpy(larger, array->mem, array->used);
        kvfree(container_of(array->mem, struct lump, bytes));
    }
    return larger;
}

/* Allocates dents and batch, BUFFER_BYTES together. */
static int begin(struct folder *folder, bool shared)
{
    struct kfolder *f = kfolder_of(folder);

    f->roll.totals.view = folder->listing.view;
    folder->roll = &f->roll;
    if (atomic_long_add_return(BUFFER_BYTES, &f->site->dents_bytes) <= KSITE_DENTS_BYTES_MAX)
        folder->batch = lump_new(BUFFER_BYTES - sizeof(struct lump));
    if (!folder->batch) {
        atomic_long_sub(BUFFER_BYTES, &f->site->dents_bytes);
        return -ENOMEM;
    }
    folder->dents = (char *)(folder->batch + STREAM_NAMES);
    return 0;
}

static void buffer_free(struct folder *folder)
{
    if (!folder->batch)
        return;
    atomic_long_sub(BUFFER_BYTES, &kfolder_of(folder)->site->dents_bytes);
    lump_free(folder->batch);
    folder->batch = NULL;
}

static void forget(struct folder *folder, bool all)
{
    struct roll *roll = &kfolder_of(folder)->roll;

    drop(folder, &roll->entries);
    drop(folder, &roll->names);
    memset(roll, 0, sizeof(*roll));
    if (all)
        buffer_free(folder);
}

static void done(struct folder *folder)
{
    struct kfolder *f = kfolder_of(folder);

    buffer_free(folder);
    ksite_shut(f->site, f->file);
    f->file = NULL;
}

static int compare(const void *a, const void *b, const void *sort)
{
    const struct folder_sort *s = sort;

    cond_resched(); /* a hundred thousand names are some million comparisons */
    return s->compare(a, b, s->arg);
}

static void sort_all(const struct folder_sort *s)
{
    sort_r(s->base, s->count, s->bytes, compare, NULL, s);
}

static const struct folder_ops ops = {
    .begin = begin, .read = read_names, .stat = stat_entry,
    .grow = grow, .drop = drop, .sort = sort_all,
    .done = done, .forget = forget,
};

/* --- For ksite.c ------------------------------------------------------------------------------ */

int kfolder_open(struct ksite *site, const struct http_ask *ask, struct file *file,
                 struct folder **folder)
{
    struct kfolder *f = kvzalloc(struct_size(f, path, folder_room(ask)), GFP_KERNEL);
    int err;

    if (!f) {
        ksite_shut(site, file);
        return -ENOMEM;
    }
    f->site = site;
    f->file = file;
    f->mounts = file->f_path.mnt == site->root.mnt ? LOOKUP_NO_XDEV : 0;
    f->changed = kcompat_ctime(file_inode(file)).tv_sec;
    f->folder.ops = &ops;
    f->folder.rules = &site->rules;
    f->folder.path = f->path;
    f->folder.batch_max = STREAM_NAMES;
    f->folder.offered = true; /* a work item may sleep as long as it takes */
    err = folder_look(&f->folder, ask, UINT_MAX);
    if (err)
        kfolder_close(&f->folder);
    else
        *folder = &f->folder;
    return err;
}

/* Streaming looks things up, so it needs the site's credentials. */
size_t kfolder_next(struct source *source, char *buf, size_t cap)
{
    struct folder *folder = container_of(source, struct ksite_source, source)->folder;
    const struct cred *own = override_creds(kfolder_of(folder)->site->cred);
    size_t n = folder_next(folder, buf, cap);

    revert_creds(own);
    return n;
}

bool kfolder_rests(struct folder *folder, time64_t since)
{
    return kfolder_of(folder)->changed < since;
}

void kfolder_close(struct folder *folder)
{
    struct kfolder *f = folder ? kfolder_of(folder) : NULL;

    if (!f)
        return;
    forget(folder, true);
    if (f->file)
        ksite_shut(f->site, f->file);
    kvfree_rcu(f, rcu);
}
