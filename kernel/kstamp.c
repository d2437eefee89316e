/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kstamp.c - has anything changed that a cached answer rests on?  Checked from memory, in any
 * context, without a lock: the names from the file up to the root, and the attributes of what they
 * lead to, are summed up when the answer is kept, and again at every hit.
 *
 *   a name     its dentry is held, and counts its own moves, removals and replacements (d_seq)
 *   a folder   its mode, which says which users may pass.  For the file's own folder, where a new
 *              sibling may be the better answer, also its ctime, which moves with every entry
 *   the body   size, mtime, ctime
 *
 * ctime cannot be set, but it moves in ticks, on some disks in seconds: a file that changed in this
 * very tick could change again and look the same, so it is not vouched for yet (core/stamp.c).  A
 * file that is being written is not vouched for either, because its times move first and its bytes
 * some time after.  Nothing is vouched for on file systems that learn of changes from elsewhere
 * (their dentries ask to be revalidated), or that are unknown here: there every request looks for
 * itself.  Three changes are seen only when the entry is old.  The first is a write through a
 * mapping.  The second is an update in place of a sibling that was older than its original: the
 * sibling becomes the better answer, but the kept one is no less right.  The third is a change of
 * the sizes and times that a listing shows: the names are the folder's own, but these are not.
 */
#include <linux/dcache.h>
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/mount.h>
#include <linux/rcupdate.h>
#include "kcompat.h"
#include "kcache.h"

enum { DEPTH_MAX = KCACHE_PATH_BYTES_MAX / 2 + 1 };

/* What is seen at one moment. */
struct sight {
    u64 sum;
    const struct stamp_clock *clock; /* NULL: the age of changes does not matter */
    bool young; /* the next change of something may look like the last one */
};

static void see(struct sight *s, u64 word)
{
    s->sum = (rol64(s->sum, 23) ^ word) * GOLDEN_RATIO_64;
}

static void see_time(struct sight *s, struct timespec64 t)
{
    see(s, (u64)t.tv_sec * NSEC_PER_SEC + (u64)t.tv_nsec);
}

static void see_change(struct sight *s, const struct inode *inode)
{
    struct timespec64 t = kcompat_ctime(inode);

    see_time(s, t);
    if (s->clock && stamp_is_young(s->clock, t.tv_sec, (u32)t.tv_nsec))
        s->young = true;
}

static void see_body(struct sight *s, const struct inode *inode)
{
    see(s, (u64)i_size_read(inode));
    see_time(s, kcompat_mtime(inode));
    see_change(s, inode);
}

/* Adds the name and what it leads to, and returns the inode.  NULL: changes cannot be seen, or the
 * name is being changed. */
static const struct inode *see_name(struct sight *s, const struct dentry *d, bool root)
{
    unsigned seq = raw_read_seqcount(&d->d_seq);
    unsigned flags = READ_ONCE(d->d_flags);
    const struct inode *inode = d_inode_rcu(d);

    if (!inode || (flags & (DCACHE_OP_REVALIDATE | DCACHE_OP_WEAK_REVALIDATE)))
        return NULL;
    if (!root) { /* the root's own name and mount do not matter: lookups begin below it */
        if ((seq & 1) || d_unhashed(d) || (flags & DCACHE_MANAGED_DENTRY))
            return NULL;
        see(s, seq);
    }
    see(s, (uintptr_t)inode);
    see(s, READ_ONCE(inode->i_mode));
    return inode;
}

/* s is all zero except for the clock.  False: changes cannot be seen. */
static bool look(const struct kstamp *w, struct sight *s)
{
    const struct dentry *d = w->asked.dentry;
    const struct inode *inode;
    unsigned depth;

    if (w->sent != d) {
        inode = see_name(s, w->sent, false);
        if (!inode)
            return false;
        see_body(s, inode);
    }
    for (depth = 0; depth <= DEPTH_MAX; depth++) {
        inode = see_name(s, d, d == w->root);
        if (!inode)
            return false;
        if (depth == 0)
            see_body(s, inode);
        else if (depth == 1 && w->siblings)
            see_change(s, inode);
        if (d == w->root)
            return true;
        if (IS_ROOT(d))
            return false;
        d = READ_ONCE(d->d_parent);
    }
    return false;
}

bool kstamp_local(const struct super_block *sb)
{
    return stamp_is_local((u32)sb->s_magic, sb->s_type->fs_flags & FS_REQUIRES_DEV);
}

struct stamp_clock kstamp_clock(const struct super_block *sb)
{
    struct timespec64 now;

    ktime_get_coarse_real_ts64(&now);
    return (struct stamp_clock){
        .now_s = now.tv_sec,
        .now_ns = now.tv_nsec,
        .tick_ns = TICK_NSEC,
        .foreign = stamp_is_foreign((u32)sb->s_magic, sb->s_type->fs_flags & FS_REQUIRES_DEV),
    };
}

/* Sets w and returns the sum of what is seen.  0: changes cannot be seen, or something has changed
 * too lately. */
static u64 look_first(struct kstamp *w, const struct kcache_fill *fill)
{
    const struct stamp_clock clock = kstamp_clock(fill->root->dentry->d_sb);
    struct sight s = {.clock = &clock};
    bool told;

    if (fill->asked->mnt != fill->root->mnt || fill->sent->mnt != fill->root->mnt ||
        clock.foreign)
        return 0;
    w->asked = *fill->asked;
    w->sent = fill->sent->dentry;
    w->root = fill->root->dentry;
    w->siblings = fill->siblings;
    rcu_read_lock();
    told = look(w, &s);
    rcu_read_unlock();
    return told && !s.young ? s.sum : 0;
}

u64 kstamp_sum(const struct kcache_fill *fill)
{
    struct kstamp w;

    return look_first(&w, fill);
}

/* A writer holds the inode's lock from before the times move until the bytes are there, or, if it
 * writes to the disk directly, is counted in i_dio_count.  This does not wait for a writer. */
static bool is_being_written(struct inode *inode)
{
    bool direct;

    if (!inode_trylock(inode))
        return true;
    direct = atomic_read(&inode->i_dio_count) != 0;
    inode_unlock(inode);
    return direct;
}

/* Whether the inode is what the source says of it.  A folder is read under its own lock. */
static bool is_current(const struct kcache_fill *fill)
{
    struct inode *inode = d_inode(fill->sent->dentry);
    const struct source *source = fill->source;
    struct timespec64 changed;

    if (source->kind == SOURCE_MADE)
        return true;
    changed = kcompat_ctime(inode);
    return source->size == (u64)i_size_read(inode) && source->ctime_s == changed.tv_sec &&
           source->ctime_ns == changed.tv_nsec && !is_being_written(inode);
}

bool kstamp_begin(struct kstamp *w, const struct kcache_fill *fill)
{
    u64 sum = look_first(w, fill);

    if (!sum || sum != fill->seen || !is_current(fill)) {
        *w = (struct kstamp){0};
        return false;
    }
    path_get(&w->asked);
    dget(w->sent);
    w->sum = sum;
    return true;
}

bool kstamp_valid(const struct kstamp *w)
{
    struct sight s = {0};
    bool told;

    rcu_read_lock();
    told = look(w, &s);
    rcu_read_unlock();
    return told && s.sum == w->sum;
}

void kstamp_end(struct kstamp *w)
{
    dput(w->sent);
    path_put(&w->asked);
}
