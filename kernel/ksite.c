/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* ksite.c - a folder as representations, inside the kernel: the names and files that core/docroot.c
 * asks for, as server/site.c has them in user space.
 *
 * Names are looked up by ksite_links.c, never outside the root.  The path that is found is held, so
 * its kind, permission and attributes are those of the thing that is then opened.  Only regular
 * files and folders are opened, so a FIFO cannot block and a device is not woken.
 *
 * Kernel threads are root, and a server that reads as root would serve the shadow file if a name
 * led there.  So lookups, permission checks and opens are done as a user and group that own
 * nothing: only files that others may read are served, by mode, access list and security module
 * alike.  dentry_open() does not check permission by itself; readable() does.
 *
 * Every function here may sleep, except release in a bottom half.
 */
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/stat.h>
#include "kcache.h"
#include "kcompat.h"
#include "ksite_inside.h"

enum {
    OWNS_NOTHING = 0xfffffffe, /* not 65534: files of "nobody" are found on disks */
};

struct search {
    struct docroot_search search; /* first */
    struct ksite *site;
    unsigned mounts; /* LOOKUP_NO_XDEV, or 0: mounts are crossed */
    bool beyond;     /* some name could not be followed because of mounts */
    char path[];
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
    struct ksite *s = kzalloc(sizeof(*s), GFP_KERNEL);
    int err;

    if (!s)
        return -ENOMEM;
    s->rules = opt->rules;
    s->cross_mounts = opt->cross_mounts;
    s->cred = visitor();
    err = s->cred ? docroot_settle(&s->rules) : -ENOMEM;
    if (!err)
        err = kern_path(opt->root, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &s->root);
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
    path_put(&site->root); /* fine if it is not set yet */
    if (site->cred)
        put_cred(site->cred);
    /* Files whose closing was put off keep their mount busy.  But if files of other mounts may have
     * been put off as well, that wait might never end. */
    if (READ_ONCE(site->put_off) && !site->cross_mounts)
        flush_delayed_fput();
    kfree(site);
}

/* --- What the core asks of the site ----------------------------------------------------------- */

static struct path path_of(const struct docroot_thing *thing)
{
    return (struct path){.mnt = thing->path[0], .dentry = thing->path[1]};
}

/* Looks a name up, as far as f->mounts allows; the thing holds its path. */
static int find_path(struct search *f, const char *name, unsigned flags,
                     struct docroot_thing *thing)
{
    struct path path;
    int err = ksite_look(&f->site->root, name, LOOKUP_FOLLOW | f->mounts | flags, &path);

    f->beyond = f->beyond || err == -EXDEV;
    if (err)
        return docroot_error(err);
    thing->path[0] = path.mnt;
    thing->path[1] = path.dentry;
    return 0;
}

static int readable(const struct path *path)
{
    return docroot_error(path_permission(path, MAY_READ | MAY_OPEN));
}

static int search_look(struct docroot_search *search, const char *name, struct docroot_thing *thing)
{
    struct search *f = container_of(search, struct search, search);
    int err = find_path(f, name, 0, thing);
    struct stamp_clock clock;
    struct path path;
    struct kstat st;

    if (err)
        return err;
    path = path_of(thing);
    thing->seen = ksite_seen(f->site, &path); /* before all else */
    clock = kstamp_clock(path.dentry->d_sb);
    err = docroot_error(vfs_getattr(&path, &st, STATX_BASIC_STATS, AT_STATX_SYNC_AS_STAT));
    if (!err) {
        thing->kind = (uint8_t)docroot_kind(st.mode);
        thing->source = (struct source){
            .size = (uint64_t)st.size,
            .inode = st.ino,
            .mtime_s = st.mtime.tv_sec,
            .mtime_ns = (uint32_t)st.mtime.tv_nsec,
            .ctime_s = st.ctime.tv_sec,
            .ctime_ns = (uint32_t)st.ctime.tv_nsec,
            .young = stamp_is_young(&clock, st.ctime.tv_sec, (u32)st.ctime.tv_nsec),
        };
        err = S_ISREG(st.mode) ? readable(&path) : S_ISDIR(st.mode) ? -EISDIR : -EACCES;
    }
    if (err)
        path_put(&path);
    return err;
}

static void search_put(struct docroot_search *search, struct docroot_thing *thing)
{
    struct path path = path_of(thing);

    path_put(&path);
}

static struct ksite_source *source_new(const struct source *source)
{
    struct ksite_source *s = kzalloc(sizeof(*s), GFP_KERNEL);

    if (s)
        s->source = *source;
    return s;
}

/* The file is opened, unless it is empty. */
static int source_of(const struct docroot_thing *thing, struct ksite_source **source)
{
    struct ksite_source *s = source_new(&thing->source);
    struct path path = path_of(thing);
    struct file *file;

    if (!s)
        return -ENOMEM;
    if (s->source.size) {
        file = dentry_open(&path, KSITE_OPEN_FLAGS, current_cred());
        if (IS_ERR(file)) {
            kfree(s);
            return docroot_error(PTR_ERR(file));
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

/* The cache's source, if there is one, takes the place of ours. */
static void keep(struct ksite *site, const struct ksite_kept *kept, struct ksite_source **source)
{
    struct source *cached = ksite_keep(site, kept, *source);

    if (!cached)
        return;
    ksite_release(site, &(*source)->source);
    *source = container_of(cached, struct ksite_source, source);
}

static int search_open(struct docroot_search *search, struct docroot_thing *asked,
                       struct docroot_thing *sent, struct source **source)
{
    struct search *f = container_of(search, struct search, search);
    const struct path a = path_of(asked), s = path_of(sent);
    struct ksite_kept kept = {search->ask, search->path, &a, &s, asked->seen};
    struct ksite_source *opened;
    int err = source_of(sent, &opened);

    if (err && sent != asked) /* the file that was asked for may still open */
        err = source_of(asked, &opened);
    else if (!err && search->ask && opened->source.kind == SOURCE_BODY)
        keep(f->site, &kept, &opened);
    if (!err)
        *source = &opened->source;
    return err;
}

static int search_folder(struct docroot_search *search, const char *name,
                         struct docroot_thing *thing)
{
    struct search *f = container_of(search, struct search, search);
    int err = find_path(f, name, LOOKUP_DIRECTORY, thing);
    struct path path;

    if (err)
        return err;
    path = path_of(thing);
    err = readable(&path);
    if (err)
        path_put(&path);
    return err;
}

static int search_list(struct docroot_search *search, struct docroot_thing *thing,
                       struct source **source)
{
    struct search *f = container_of(search, struct search, search);
    const struct path path = path_of(thing);
    struct ksite_kept kept = {search->ask, search->len ? search->path : ".", &path, &path};
    struct ksite_source *s = source_new(&thing->source);
    struct file *file;
    int err;

    if (!s)
        return -ENOMEM;
    s->source.vary = f->site->compress; /* for other clients it may be compressed */
    s->source.next = kfolder_next;
    ksite_before(f->site, &kept);
    file = dentry_open(&path, KSITE_OPEN_FLAGS | O_DIRECTORY, current_cred());
    err = IS_ERR(file) ? PTR_ERR(file) : kfolder_open(f->site, search->ask, file, &s->folder);
    if (err) {
        kfree(s);
        return docroot_error(err);
    }
    keep(f->site, &kept, &s);
    *source = &s->source;
    return 0;
}

static const struct docroot_ops search_ops = {
    .look = search_look, .put = search_put, .open = search_open,
    .folder = search_folder, .list = search_list,
};

/* --- Finding ---------------------------------------------------------------------------------- */

/* NULL: no memory.  The caller frees it with kfree(). */
static struct search *search_new(struct ksite *site, size_t room)
{
    struct search *f = kzalloc(struct_size(f, path, room), GFP_KERNEL);

    if (!f)
        return NULL;
    f->site = site;
    f->mounts = LOOKUP_NO_XDEV;
    f->search.ops = &search_ops;
    f->search.rules = &site->rules;
    f->search.path = f->path;
    return f;
}

static int find(struct search *f, struct source **source)
{
    const struct cred *own = override_creds(f->site->cred);
    int err = docroot_find(&f->search, source);

    revert_creds(own);
    if (!f->beyond || !f->site->cross_mounts || !f->mounts)
        return err;
    if (!err) /* a file on another mount may be the better answer */
        ksite_release(f->site, *source);
    return -EINPROGRESS;
}

int ksite_find(struct ksite *site, const struct http_ask *ask, bool away, struct source **source)
{
    struct search *f;
    int err;

    if (ksite_is_gone(site))
        return -ESTALE;
    if (ksite_try(site, ask, source) == 0)
        return 0;
    f = search_new(site, docroot_room(&site->rules, ask));
    if (!f)
        return -ENOMEM;
    f->search.ask = ask;
    f->search.compress_max = site->compress ? KCACHE_BODY_BYTES_MAX : 0;
    f->search.head_lists = site->cache;
    if (away && site->cross_mounts)
        f->mounts = 0;
    err = find(f, source);
    kfree(f);
    return err;
}

int ksite_page(struct ksite *site, unsigned status, struct source **source)
{
    struct search *f = search_new(site, sizeof("4294967295.html"));
    const struct cred *own;
    int err;

    if (!f)
        return -ENOMEM;
    own = override_creds(site->cred);
    err = docroot_page(&f->search, status, source);
    revert_creds(own);
    kfree(f);
    return err;
}
