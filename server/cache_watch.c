/* SPDX-License-Identifier: MIT */
/* cache_watch.c - watches, and what an event ends.
 *
 * fsnotify queues an event inside the call that makes the change, under the queue's lock, before
 * the call returns (fs/notify/).  So "FIONREAD says 0" means: every change whose event was not yet
 * taken out of the queue is still to come.  Events taken out by another thread may not be acted
 * upon yet; that thread has set draining before its read(), and a thread that sees draining waits
 * for the lock.  Wake-ups prove nothing: an event that is merged with the last one sends none.
 *
 * A watch is placed with IN_MASK_ADD: replacing the mask of a watch that is there would lose what
 * happens in between.  A folder's watch says which of its names has changed its meaning; the
 * inode's own watch reports writes through other links, too.  An entry depends on both, because an
 * unlink is reported for the inode before the name is gone, and for the name afterwards.
 *
 * The lock guards all lists.  A watch is added and its dep is entered in one piece, so that no
 * other thread removes the watch in between.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "cache_inside.h"
#include "hash.h"

enum {
    FOLDER_EVENTS = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB |
                    IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR,
    INODE_EVENTS = IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_DELETE_SELF | IN_MOVE_SELF,
    EVENT_BYTES = 16384, /* of one read() */
    WATCHES_UNKNOWN = 8192, /* the kernel's default on small machines */
    PROC_NAME_BYTES = 32,
    DELS_MAX = 64, /* deps of a listing that are ended under one lock: 0.1 ms */
};

static const char ANY_NAME[] = ""; /* no name is empty: stands for all of a folder */

/* --- Nodes ------------------------------------------------------------------------------------ */

static struct cache_node **node_at(struct cache *c, int wd)
{
    struct cache_node **at = &c->node[(unsigned)wd % CACHE_WD_BUCKETS];

    while (*at && (*at)->wd != wd)
        at = &(*at)->next;
    return at;
}

/* The kernel has removed the watch already if the inode is gone: then this fails. */
static void node_free(struct cache *c, struct cache_node *node)
{
    *node_at(c, node->wd) = node->next;
    inotify_rm_watch(c->events, node->wd);
    c->watches--;
    free(node);
}

/* Whether names that differ only in case are equal in the folder (chattr +F): then an event may
 * carry another spelling than the one that was asked for.  A folder that cannot be opened may be
 * such a one. */
static bool folds_case(const char *name)
{
    int flags = 0, fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool folds;

    if (fd < 0)
        return true;
    folds = ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0 && flags & FS_CASEFOLD_FL;
    close(fd);
    return folds;
}

/* The node of the inode that has this path, with its watch; NULL: it cannot be watched. */
static struct cache_node *node_of(struct cache *c, const char *name, uint32_t events)
{
    struct cache_node **at;
    int wd;

    wd = inotify_add_watch(c->events, name, events | IN_MASK_ADD);
    if (wd < 0) {
        if (errno == ENOSPC && !cache_sweep_one(c)) /* other programs use them: room for the next */
            (void)cache_evict(c);
        return NULL;
    }
    at = node_at(c, wd);
    if (*at)
        return *at;
    *at = events & IN_ONLYDIR && folds_case(name) ? NULL : calloc(1, sizeof(**at));
    if (!*at) {
        inotify_rm_watch(c->events, wd);
        return NULL;
    }
    (*at)->wd = wd;
    c->watches++;
    return *at;
}

/* ... of the inode that fd names. */
static struct cache_node *node_get(struct cache *c, int fd, uint32_t events)
{
    char name[PROC_NAME_BYTES];

    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    return node_of(c, name, events);
}

/* --- Deps ------------------------------------------------------------------------------------- */

static uint64_t name_hash(const struct cache *c, const struct cache_node *node, const char *name,
                          size_t len)
{
    return hash_of(c->key, name, len) + ((uint64_t)(unsigned)node->wd << 32) + 1;
}

static void dep_add(struct cache *c, struct cache_deps *deps, struct cache_node *node,
                    uint64_t name)
{
    struct cache_dep *d = &deps->dep[deps->count++];
    struct cache_dep **bucket = &c->name[name % CACHE_BUCKETS];

    core_assert(deps->count <= deps->room);
    *d = (struct cache_dep){.node = node, .owner = deps, .name = name};
    d->next = node->deps;
    d->link = &node->deps;
    if (d->next)
        d->next->link = &d->next;
    node->deps = d;
    if (!name)
        return;
    d->name_next = *bucket;
    d->name_link = bucket;
    if (d->name_next)
        d->name_next->name_link = &d->name_next;
    *bucket = d;
}

static void dep_del(struct cache *c, struct cache_dep *d)
{
    if (!d->node)
        return;
    *d->link = d->next;
    if (d->next)
        d->next->link = d->link;
    if (d->name) {
        *d->name_link = d->name_next;
        if (d->name_next)
            d->name_next->name_link = d->name_link;
    }
    if (!d->node->deps && !d->node->held)
        node_free(c, d->node);
    d->node = NULL;
}

struct cache_deps *cache_deps_new(struct cache *c, unsigned room)
{
    struct cache_deps *deps = malloc(cache_deps_bytes(room)); /* dep[] is filled as it is used */

    if (!deps)
        return NULL;
    deps->cut = false;
    deps->entry = NULL;
    deps->count = 0;
    deps->room = room;
    pthread_mutex_lock(&c->lock);
    deps->next = c->all;
    deps->link = &c->all;
    if (deps->next)
        deps->next->link = &deps->next;
    c->all = deps;
    pthread_mutex_unlock(&c->lock);
    return deps;
}

/* Out of the list of all; locked. */
static void deps_unlink(struct cache_deps *deps)
{
    if (!deps->link)
        return;
    *deps->link = deps->next;
    if (deps->next)
        deps->next->link = deps->link;
    deps->link = NULL;
}

/* Takes the deps out of all lists; if there are very many, only some of them, so that other threads
 * can go on.  True: no more are left.  Locked. */
static bool deps_del(struct cache *c, struct cache_deps *deps)
{
    for (unsigned n = 0; deps->count && n < DELS_MAX; n++)
        dep_del(c, &deps->dep[--deps->count]);
    if (deps->count)
        return false;
    deps_unlink(deps);
    return true;
}

static void drain(struct cache *c);

void cache_deps_free(struct cache *c, struct cache_deps *deps)
{
    bool done;

    do {
        pthread_mutex_lock(&c->lock);
        done = deps_del(c, deps);
        if (!done)
            drain(c); /* the end of each watch is an event, which the loops need not read */
        pthread_mutex_unlock(&c->lock);
    } while (!done);
    free(deps);
}

/* The many watches of a listing are not removed here, by a loop that has connections to serve, but
 * by cache_sweep(). */
void cache_cut(struct cache *c, struct cache_deps *deps)
{
    struct cache_entry *e = deps->entry;

    deps->cut = true;
    deps_unlink(deps);
    deps->entry = NULL;
    if (e) {
        e->deps = NULL;
        cache_unpublish(c, e);
    }
    if (deps->room > CACHE_DEPS_MAX) {
        deps->next = e ? c->dying : NULL;
        c->dying = e ? deps : c->dying; /* without an entry its maker frees it */
        return;
    }
    (void)deps_del(c, deps);
    if (e)
        free(deps);
}

bool cache_sweep_one(struct cache *c)
{
    struct cache_deps *deps = c->dying;

    if (!deps)
        return false;
    c->dying = deps->next;
    while (!deps_del(c, deps))
        ;
    free(deps);
    return true;
}

void cache_sweep(struct cache *c)
{
    struct cache_deps *deps;

    do {
        pthread_mutex_lock(&c->lock);
        deps = c->dying;
        if (deps)
            c->dying = deps->next;
        pthread_mutex_unlock(&c->lock);
        if (deps)
            cache_deps_free(c, deps);
    } while (deps);
}

bool cache_evict(struct cache *c)
{
    struct cache_entry *e = cache_victim(c);

    if (e)
        cache_cut(c, e->deps);
    return e;
}

void cache_cut_entry(struct cache *c, struct cache_entry *e)
{
    pthread_mutex_lock(&c->lock);
    if (e->deps)
        cache_cut(c, e->deps);
    cache_reclaim(c);
    pthread_mutex_unlock(&c->lock);
}

bool cache_depend_names(struct cache *c, struct cache_deps *deps, int fd,
                        const struct cache_names *names)
{
    struct cache_node *node;

    pthread_mutex_lock(&c->lock);
    node = deps->cut ? NULL : node_get(c, fd, FOLDER_EVENTS);
    for (unsigned i = 0; node && i < names->count; i++)
        dep_add(c, deps, node, name_hash(c, node, names->name[i].ptr, names->name[i].len));
    pthread_mutex_unlock(&c->lock);
    return node;
}

bool cache_depend_inode(struct cache *c, struct cache_deps *deps, int fd)
{
    struct cache_node *node;

    pthread_mutex_lock(&c->lock);
    node = deps->cut ? NULL : node_get(c, fd, INODE_EVENTS);
    if (node)
        dep_add(c, deps, node, 0);
    pthread_mutex_unlock(&c->lock);
    return node;
}

bool cache_depend_child(struct cache *c, struct cache_deps *deps, const struct cache_child *child)
{
    char path[PROC_NAME_BYTES + CACHE_CHILD_BYTES_MAX + 2];
    uint32_t events = child->folder ? FOLDER_EVENTS : INODE_EVENTS;
    struct cache_node *node;
    int n = snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", child->parent, child->name);

    if (n < 0 || (size_t)n >= sizeof(path))
        return false;
    pthread_mutex_lock(&c->lock);
    node = deps->cut ? NULL : node_of(c, path, events | IN_DONT_FOLLOW);
    if (node)
        dep_add(c, deps, node, name_hash(c, node, ANY_NAME, 0));
    pthread_mutex_unlock(&c->lock);
    return node;
}

/* --- Events ----------------------------------------------------------------------------------- */

/* Cuts the deps that d belongs to; if those are being removed already, only d. */
static void cut_dep(struct cache *c, struct cache_dep *d)
{
    struct cache_deps *owner = d->owner;
    bool many = owner->room > CACHE_DEPS_MAX;

    if (many)
        dep_del(c, d);
    if (!owner->cut || !many)
        cache_cut(c, owner);
}

static void cut_all(struct cache *c)
{
    while (c->all)
        cache_cut(c, c->all);
}

static void cut_name(struct cache *c, const struct cache_node *node, uint64_t name)
{
    struct cache_dep *d = c->name[name % CACHE_BUCKETS];

    while (d) {
        if (d->name == name && d->node == node) {
            cut_dep(c, d);
            d = c->name[name % CACHE_BUCKETS]; /* its owner's other deps may have been here, too */
        } else {
            d = d->name_next;
        }
    }
}

/* Cuts everything that depends on this inode, or on a name in this folder. */
static void cut_node(struct cache *c, struct cache_node *node)
{
    node->held = true;
    while (node->deps)
        cut_dep(c, node->deps);
    node_free(c, node);
}

/* Cuts everything that depends on that name, or on all names. */
static void cut_names(struct cache *c, struct cache_node *node, const char *name)
{
    node->held = true;
    cut_name(c, node, name_hash(c, node, name, strlen(name)));
    cut_name(c, node, name_hash(c, node, ANY_NAME, 0));
    node->held = false;
    if (!node->deps)
        node_free(c, node);
}

static void act_upon(struct cache *c, const struct inotify_event *ev)
{
    struct cache_node *node = *node_at(c, ev->wd);

    if (ev->mask & IN_Q_OVERFLOW)
        cut_all(c);
    else if (node && ev->len > 0)
        cut_names(c, node, ev->name);
    else if (node)
        cut_node(c, node);
}

/* Acts upon events until none is queued.  Locked. */
static void drain(struct cache *c)
{
    _Alignas(struct inotify_event) char buf[EVENT_BYTES];
    ssize_t n;

    atomic_store(&c->draining, 1);
    do {
        n = read(c->events, buf, sizeof(buf));
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *ev = (const void *)(buf + at);

            act_upon(c, ev);
            at += (ssize_t)(sizeof(*ev) + ev->len);
        }
    } while (n > 0 || (n < 0 && errno == EINTR));
    atomic_store(&c->draining, 0);
    cache_reclaim(c);
}

/* A mount over a folder hides it without an event.  The list of mounts can be polled for changes;
 * once per tick of the clock is enough for something so rare. */
static void look_at_mounts(struct cache *c, uint32_t now_ms)
{
    struct pollfd p = {.fd = c->mounts, .events = POLLPRI};
    uint64_t below;

    if (atomic_load_explicit(&c->mounts_ms, memory_order_relaxed) == now_ms)
        return;
    atomic_store_explicit(&c->mounts_ms, now_ms, memory_order_relaxed);
    if (poll(&p, 1, 0) <= 0)
        return;
    pthread_mutex_lock(&c->lock);
    below = cache_mounts(c);
    if (!below || below != c->mounts_below)
        cut_all(c);
    c->mounts_below = below;
    cache_reclaim(c);
    pthread_mutex_unlock(&c->lock);
}

void cache_look(struct cache_reader *reader, uint64_t now_ms)
{
    struct cache *c = reader->cache;
    int queued = 0;

    if (ioctl(c->events, FIONREAD, &queued) < 0 || queued > 0 || atomic_load(&c->draining)) {
        pthread_mutex_lock(&c->lock);
        drain(c);
        pthread_mutex_unlock(&c->lock);
    }
    reader->now_ms = now_ms;
    look_at_mounts(c, (uint32_t)now_ms);
}

/* --- Open and close --------------------------------------------------------------------------- */

static unsigned watches_allowed(void)
{
    FILE *f = fopen("/proc/sys/fs/inotify/max_user_watches", "re");
    unsigned long n = WATCHES_UNKNOWN;

    if (f && fscanf(f, "%lu", &n) != 1)
        n = WATCHES_UNKNOWN;
    if (f)
        fclose(f);
    n /= CACHE_WATCH_SHARE;
    return n < INT32_MAX ? (unsigned)n : INT32_MAX;
}

int cache_watch_open(struct cache *c)
{
    struct pollfd p = {.events = POLLPRI};

    c->events = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (c->events < 0)
        return -errno;
    c->watches_max = watches_allowed();
    c->mounts = mounts_open();
    p.fd = c->mounts;
    (void)poll(&p, 1, 0); /* from now on it reports changes */
    c->mounts_below = cache_mounts(c);
    return 0;
}

void cache_watch_close(struct cache *c)
{
    pthread_mutex_lock(&c->lock);
    cut_all(c);
    pthread_mutex_unlock(&c->lock);
    cache_sweep(c);
    close(c->events);
    if (c->mounts >= 0)
        close(c->mounts);
}
