/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* ksite_links.c - lookups beneath the root: a link is one more name for a thing, not a way around
 * the rule for hidden names.
 *
 * Most names have no link in them, and are found with LOOKUP_NO_SYMLINKS: the path asked for, whose
 * names have been judged, is the path found.  If there is a link, the path of what it leads to is
 * judged by the same rule, as server/site_open.c does.
 */
#include <linux/dcache.h>
#include <linux/file.h>
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include "kcache.h"
#include "kcompat.h"
#include "ksite_inside.h"

enum {
    GONE_SAID_S = 10, /* how often to say that the root was removed */
    LOOK_TRIES = 32, /* a rename anywhere may end a lookup of a link's "..": -EAGAIN */
};

static int look(const struct path *from, const char *name, unsigned flags, struct path *found)
{
    unsigned tries = 0;
    int err;

    flags |= LOOKUP_BENEATH | LOOKUP_NO_MAGICLINKS;
    do
        err = vfs_path_lookup(from->dentry, from->mnt, name, flags, found);
    while (err == -EAGAIN && ++tries < LOOK_TRIES);
    return err;
}

/* Whether visitors may see the target of a link.  names: 2 * PATH_MAX bytes. */
static bool is_shown(const struct ksite *site, const struct path *path, char *names)
{
    const char *of_root = d_path(&site->root, names, PATH_MAX);
    const char *of_path = d_path(path, names + PATH_MAX, PATH_MAX);
    struct slice root = {of_root, 0}, thing = {of_path, 0};

    if (IS_ERR(of_root) || IS_ERR(of_path))
        return false;
    root.len = strlen(of_root);
    thing.len = strlen(of_path);
    return docroot_beneath(&site->rules, root, thing).ptr;
}

/* Returns 0, or -errno (-ENOENT, as for hidden names) after releasing the path. */
static int judge(const struct ksite *site, struct path *found)
{
    char *names = kmalloc(2 * PATH_MAX, GFP_KERNEL);
    int err = -ENOMEM;

    if (names)
        err = is_shown(site, found, names) ? 0 : -ENOENT;
    kfree(names);
    if (err)
        path_put(found);
    return err;
}

bool ksite_is_gone(struct ksite *site)
{
    unsigned long due = READ_ONCE(site->gone_next);

    if (!IS_DEADDIR(d_inode(site->root.dentry)))
        return false;
    if ((!due || time_after_eq(jiffies, due)) &&
        cmpxchg(&site->gone_next, due, (jiffies + GONE_SAID_S * HZ) | 1) == due)
        pr_notice("rung_http: the folder that is served was removed; every request gets 503\n");
    return true;
}

int ksite_walk(const struct path *from, const char *name, unsigned flags, struct path *found)
{
    const struct ksite *site = container_of(from, struct ksite, root);
    int err;

    if (!(flags & LOOKUP_FOLLOW))
        return look(from, name, flags, found);
    err = look(from, name, flags | LOOKUP_NO_SYMLINKS, found);
    if (err != -ELOOP)
        return err;
    err = look(from, name, flags, found);
    return err || site->rules.hidden ? err : judge(site, found);
}

int ksite_look(const struct path *from, const char *name, unsigned flags, struct path *found)
{
    int err = ksite_walk(from, name, flags, found);

    return err == -EXDEV ? err : docroot_error(err);
}

/* In a kernel thread fput() puts the close off, to one list for the whole machine.  A file on a
 * dead NFS server delays all files that come after it in the list, so a local file is closed here.
 * Closing a removed file frees it, which waits for the disk, so that goes to the list as well. */
void ksite_shut(struct ksite *site, struct file *file)
{
    const struct inode *inode = file_inode(file);
    bool local = kstamp_local(inode->i_sb);

    if (local && !in_interrupt() && current->flags & PF_KTHREAD && data_race(inode->i_nlink)) {
        __fput_sync(file);
        return;
    }
    if (local)
        WRITE_ONCE(site->put_off, true);
    fput(file);
}
