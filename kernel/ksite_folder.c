/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* ksite_folder.c - the entries of a folder: gathered and sorted, or, when there are too many,
 * streamed.
 *
 * The walk holds the folder's inode lock while it calls us, so there names are copied and nothing
 * else is done, DENTS_BYTES at a time; each is looked at when the lock is free again.  The target
 * of a symbolic link is looked up from the root like a request for it, so that a link is shown as
 * what a visitor would get, except where it leads to another file system, which may not answer.
 * Sorted: 40 bytes and the name for each entry, a quarter more while
 * growing; the folder is closed before the first byte is sent.  Streamed, when there are more than
 * rules.entries_max or all listings together would need more than KSITE_LISTINGS_BYTES_MAX: one
 * buffer of DENTS_BYTES, entries in the folder's order.  All of these buffers together have
 * KSITE_DENTS_BYTES_MAX.
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

enum {
    DENTS_BYTES = 32768, /* with what the allocator is told of it, not a byte more */
    NAME_FOREIGN_MAX = 3 * NAME_BYTES_MAX, /* some file systems count a name in characters */
    MODE_OF_TYPE_SHIFT = 12,               /* DT_DIR is S_IFDIR >> 12, and so on */
};

/* An array that is let go of in any context: kvfree() may sleep. */
struct lump {
    struct rcu_head rcu;
    size_t room; /* bytes */
    char bytes[] __aligned(8);
};

/* A name as the walk told it; its bytes with a NUL follow. */
struct dent {
    uint16_t len;
    unsigned char type; /* DT_... */
    char name[];
};

struct kfolder {
    struct rcu_head rcu;
    struct listing listing;
    struct ksite *site;
    struct file *file;     /* NULL: all has been read */
    unsigned mounts;       /* LOOKUP_NO_XDEV, or 0: links may lead to other file systems */
    time64_t changed;      /* last, of itself and all that was looked at */
    size_t charged;        /* bytes of ours in site->listings_bytes */
    struct lump *entries;  /* of struct listing_entry */
    size_t count, next;
    struct lump *names;
    size_t names_len;
    struct lump *dents;    /* of struct dent */
    size_t dents_len, dents_at;
    int error;
    char path[];           /* the folder's, and room for a name */
};

/* --- The walk --------------------------------------------------------------------------------- */

struct walk {
    struct dir_context ctx;
    struct kfolder *folder;
    bool told; /* anything, be it of use or not */
};

static size_t dent_bytes(size_t name_len)
{
    return ALIGN(sizeof(struct dent) + name_len + 1, sizeof(uint16_t));
}

/* Called with the inode lock held.  False: no room; it is told again by the next walk. */
static bool told(struct dir_context *ctx, const char *name, int len, loff_t off, u64 inode,
                 unsigned type)
{
    struct walk *walk = container_of(ctx, struct walk, ctx);
    struct kfolder *f = walk->folder;
    struct slice s = {name, (size_t)len};
    struct dent *d;

    if (len > 0 && s.len <= NAME_FOREIGN_MAX && f->dents->room - f->dents_len < dent_bytes(s.len))
        return false;
    walk->told = true;
    if (len <= 0 || s.len > NAME_FOREIGN_MAX || memchr(name, '/', s.len) ||
        memchr(name, 0, s.len) || slice_is(s, ".") || slice_is(s, ".."))
        return true;
    d = (struct dent *)(f->dents->bytes + f->dents_len);
    d->len = (uint16_t)s.len;
    d->type = (unsigned char)type;
    memcpy(d->name, name, s.len);
    d->name[s.len] = '\0';
    f->dents_len += dent_bytes(s.len);
    return true;
}

/* More names in f->dents; false: there are no more, or f->error. */
static bool walk_on(struct kfolder *f)
{
    struct walk walk = {.ctx.actor = told, .folder = f};
    int err;

    f->dents_len = f->dents_at = 0;
    do {
        atomic_long_inc(&f->site->walks);
        walk.told = false;
        err = iterate_dir(f->file, &walk.ctx);
        cond_resched();
    } while (!err && walk.told && !f->dents_len); /* nothing but "." and ".." */
    f->error = err != -ENOENT ? err : 0;          /* -ENOENT: it was removed */
    return !err && f->dents_len;
}

/* --- Entries ---------------------------------------------------------------------------------- */

static int look_at(struct kfolder *f, const struct path *path, struct kstat *st)
{
    int err = vfs_getattr(path, st, STATX_BASIC_STATS, AT_STATX_SYNC_AS_STAT);

    if (!err && st->ctime.tv_sec > f->changed)
        f->changed = st->ctime.tv_sec;
    return err;
}

/* A link's target as a visitor would get it; *st becomes the target's.  A target on another file
 * system is shown as a file of unknown size, if it is served at all. */
static enum listing_kind kind_of_target(struct kfolder *f, const struct dent *d, struct kstat *st,
                                        bool *unknown)
{
    size_t len = f->listing.path.len;
    enum listing_kind kind = LISTING_DEAD;
    struct kstat target;
    struct path path;
    int err;

    memcpy(f->path + len, d->name, d->len + 1u);
    err = ksite_look(&f->site->root, f->path + 1, LOOKUP_FOLLOW | f->mounts, &path);
    *unknown = err == -EXDEV && f->site->cross_mounts;
    if (err)
        return *unknown ? LISTING_FILE : kind;
    if (!look_at(f, &path, &target)) {
        *st = target;
        kind = docroot_kind(target.mode);
    }
    path_put(&path);
    return kind;
}

/* Fills e from its name and what the folder says of its type; false: it has gone. */
static bool describe(struct kfolder *f, const struct dent *d, struct listing_entry *e)
{
    struct kstat st;
    struct path path;
    int err = ksite_look(&f->file->f_path, d->name, f->mounts, &path);
    bool unknown = false;

    memset(e, 0, sizeof(*e));
    e->name = (struct slice){d->name, d->len};
    if (!err) {
        err = look_at(f, &path, &st);
        path_put(&path);
    }
    if (err) {
        e->unknown = true; /* a folder that may be read but not entered tells names only */
        e->kind = (uint8_t)docroot_kind((unsigned)(d->type << MODE_OF_TYPE_SHIFT));
        e->link = d->type == DT_LNK;
        return err != -ENOENT;
    }
    e->link = S_ISLNK(st.mode);
    e->kind = (uint8_t)(e->link ? kind_of_target(f, d, &st, &unknown) : docroot_kind(st.mode));
    e->unknown = unknown;
    e->size = e->kind == LISTING_FILE ? (uint64_t)st.size : 0;
    e->mtime_s = st.mtime.tv_sec;
    return true;
}

/* The next entry to be shown, whose name lies in the buffer; false: the end, or f->error. */
static bool read_entry(struct kfolder *f, struct listing_entry *e)
{
    const struct dent *d;
    struct slice name;

    for (;;) {
        if (f->dents_at == f->dents_len && !walk_on(f))
            return false;
        d = (const struct dent *)(f->dents->bytes + f->dents_at);
        name = (struct slice){d->name, d->len};
        f->dents_at += dent_bytes(d->len);
        cond_resched();
        if ((!f->site->rules.hidden && name_is_hidden(name)) ||
            !listing_match(&f->listing.view, name))
            continue;
        if (describe(f, d, e))
            return true;
    }
}

/* --- Gathering -------------------------------------------------------------------------------- */

static struct lump *lump_new(size_t room)
{
    /* Too large a listing is to be streamed, not to end somebody's process. */
    struct lump *lump = kvmalloc(sizeof(*lump) + room,
                                 GFP_KERNEL | __GFP_NOWARN | __GFP_RETRY_MAYFAIL);

    if (lump)
        lump->room = room;
    return lump;
}

/* Room for `more` bytes behind the first `used`; at least `step` are added.  -EAGAIN: there is no
 * memory, or all listings together have too much. */
static int grow(struct kfolder *f, struct lump **lump, size_t used, size_t step)
{
    struct lump *old = *lump, *larger = NULL;
    size_t room = old ? old->room : 0;
    size_t more = round_down(room / 4, sizeof(struct listing_entry)) + step;
    long all = atomic_long_add_return((long)more, &f->site->listings_bytes);

    if (all <= KSITE_LISTINGS_BYTES_MAX)
        larger = lump_new(room + more);
    if (!larger) {
        atomic_long_sub((long)more, &f->site->listings_bytes);
        return -EAGAIN;
    }
    f->charged += more;
    if (old)
        memcpy(larger->bytes, old->bytes, used);
    kvfree(old);
    *lump = larger;
    return 0;
}

static struct listing_entry *entry_at(const struct kfolder *f, size_t i)
{
    return (struct listing_entry *)f->entries->bytes + i;
}

/* Keep an entry; its name's place is an offset until all are there, for the names may move. */
static int keep(struct kfolder *f, const struct listing_entry *e)
{
    size_t used = f->count * sizeof(*e);
    int err = 0;

    if (!f->entries || f->entries->room - used < sizeof(*e))
        err = grow(f, &f->entries, used, 64 * sizeof(*e));
    if (!err && (!f->names || f->names->room - f->names_len < e->name.len))
        err = grow(f, &f->names, f->names_len, 4096); /* the longest name fits */
    if (err)
        return err;
    memcpy(f->names->bytes + f->names_len, e->name.ptr, e->name.len);
    *entry_at(f, f->count) = *e;
    entry_at(f, f->count)->name.ptr = NULL;
    f->names_len += e->name.len;
    f->count++;
    return 0;
}

static void lump_free(struct lump **lump)
{
    if (*lump)
        kvfree_rcu(*lump, rcu);
    *lump = NULL;
}

static void forget_entries(struct kfolder *f)
{
    lump_free(&f->entries);
    lump_free(&f->names);
    f->count = f->names_len = 0;
    atomic_long_sub((long)f->charged, &f->site->listings_bytes);
    f->charged = 0;
}

static int dents_new(struct kfolder *f)
{
    if (atomic_long_add_return(DENTS_BYTES, &f->site->dents_bytes) <= KSITE_DENTS_BYTES_MAX)
        f->dents = lump_new(DENTS_BYTES - sizeof(*f->dents));
    if (!f->dents)
        atomic_long_sub(DENTS_BYTES, &f->site->dents_bytes);
    return f->dents ? 0 : -ENOMEM;
}

static void dents_free(struct kfolder *f)
{
    if (f->dents)
        atomic_long_sub(DENTS_BYTES, &f->site->dents_bytes);
    lump_free(&f->dents);
}

static int compare(const void *a, const void *b, const void *view)
{
    cond_resched(); /* a hundred thousand names are some million comparisons */
    return listing_compare(view, a, b);
}

static bool next_sorted(void *ctx, struct listing_entry *e)
{
    struct kfolder *f = ctx;

    if (f->next == f->count)
        return false;
    *e = *entry_at(f, f->next++);
    return true;
}

static bool next_streamed(void *ctx, struct listing_entry *e)
{
    return read_entry(ctx, e);
}

/* Too much to sort: begin again and give entries out as they come. */
static int stream(struct kfolder *f)
{
    loff_t at = vfs_llseek(f->file, 0, SEEK_SET);

    forget_entries(f);
    if (at < 0)
        return (int)at;
    f->dents_at = f->dents_len = 0;
    f->listing.streamed = true;
    f->listing.entry = next_streamed;
    f->listing.folders = f->listing.files = f->listing.others = f->listing.bytes = 0;
    return 0;
}

static int gather(struct kfolder *f)
{
    struct listing_entry e;
    size_t at = 0, i;

    while (read_entry(f, &e)) {
        if (f->count == f->site->rules.entries_max || keep(f, &e))
            return stream(f);
        listing_count(&f->listing, &e);
    }
    if (f->error)
        return f->error;
    for (i = 0; i < f->count; i++) {
        entry_at(f, i)->name.ptr = f->names->bytes + at;
        at += entry_at(f, i)->name.len;
    }
    if (f->count)
        sort_r(entry_at(f, 0), f->count, sizeof(e), compare, NULL, &f->listing.view);
    f->listing.entry = next_sorted;
    dents_free(f);
    ksite_shut(f->site, f->file);
    f->file = NULL;
    return 0;
}

/* --- For ksite.c ------------------------------------------------------------------------------ */

int kfolder_open(struct ksite *site, const struct http_ask *ask, struct file *file,
                 struct kfolder **folder)
{
    size_t len = ask->path.len;
    struct kfolder *f = kvzalloc(sizeof(*f) + len + NAME_FOREIGN_MAX + 1, GFP_KERNEL);
    int err;

    if (!f) {
        ksite_shut(site, file);
        return -ENOMEM;
    }
    f->site = site;
    f->file = file;
    f->mounts = file->f_path.mnt == site->root.mnt ? LOOKUP_NO_XDEV : 0;
    f->changed = kcompat_ctime(file_inode(file)).tv_sec;
    memcpy(f->path, ask->path.ptr, len);
    f->listing.path = (struct slice){f->path, len};
    f->listing.ctx = f;
    listing_view_read(&f->listing.view, ask);
    err = dents_new(f) ?: gather(f);
    if (err) {
        kfolder_close(f);
        return err;
    }
    *folder = f;
    return 0;
}

/* Streaming looks things up, so it needs the site's credentials. */
size_t kfolder_next(struct source *source, char *buf, size_t cap)
{
    struct kfolder *f = container_of(source, struct ksite_source, source)->folder;
    const struct cred *own = override_creds(f->site->cred);
    size_t n = listing_next(&f->listing, buf, cap);

    revert_creds(own);
    return n;
}

bool kfolder_streams(const struct kfolder *f)
{
    return f->listing.streamed;
}

bool kfolder_rests(const struct kfolder *f, time64_t since)
{
    return f->changed < since;
}

void kfolder_rewind(struct kfolder *f)
{
    f->next = 0;
    listing_rewind(&f->listing);
}

void kfolder_close(struct kfolder *f)
{
    if (!f)
        return;
    forget_entries(f);
    dents_free(f);
    if (f->file)
        ksite_shut(f->site, f->file);
    kvfree_rcu(f, rcu);
}
