/* SPDX-License-Identifier: MIT */
/* ksite_test.c - a device that queries the kernel's site for user space, so that the unit tests of
 * server/site.c also test kernel/ksite.c, and both must answer alike (twin.h).
 *
 * For the laboratory only: any process that opens the device may have any folder served to it.
 */
#include <linux/bottom_half.h>
#include <linux/delay.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include "../kernel/kcache.h"
#include "twin.h"

struct table {
    struct ksite *site;
    char *index;             /* the option's string */
    struct mutex lock;       /* protects the fields below */
    struct source *source[TWIN_SOURCES_MAX];
    long charged;
};

/* The witness reads the time before it looks (ksite.py makes it call this).  A delay here makes the
 * time between the search and that look as long as a slow disk could make it. */
static unsigned late_us;

void twin_late_real_ts64(struct timespec64 *now);
void twin_late_real_ts64(struct timespec64 *now)
{
    if (late_us)
        fsleep(get_random_u32() % late_us);
    ktime_get_coarse_real_ts64(now);
}

void core_failed(const char *promise, const char *file, int line)
{
    WARN_ONCE(1, "rung: broken promise: %s (%s:%d)\n", promise, file, line);
}

/* Copy the user's bytes and append a NUL; address 0 gives NULL. */
static char *words_of(__u64 address, __u64 len)
{
    if (!address)
        return NULL;
    if (len > 2 * PATH_BYTES_MAX)
        return ERR_PTR(-E2BIG);
    return memdup_user_nul(u64_to_user_ptr(address), len);
}

static int site_begin(struct table *t, const struct twin *w, char *root, char *index)
{
    struct ksite_options opt = {
        .root = root,
        .rules = {.index = index, .hidden = w->hidden, .listing = w->listing,
                  .precompressed = w->precompressed, .entries_max = w->listing_max},
        .cache_bytes = w->cache_bytes,
        .cache_ms = w->cache_ms,
        .compress = w->compress,
    };

    late_us = w->late_us;
    return t->site ? -EBUSY : ksite_open(&t->site, &opt);
}

/* Put the source into the table and return its number. */
static int slot(struct table *t, struct source *s)
{
    int i;

    mutex_lock(&t->lock);
    for (i = 0; i < TWIN_SOURCES_MAX && t->source[i]; i++)
        continue;
    if (i < TWIN_SOURCES_MAX)
        t->source[i] = s;
    mutex_unlock(&t->lock);
    return i < TWIN_SOURCES_MAX ? i : -ENOSPC;
}

static void tell(const struct source *s, struct twin *w)
{
    w->kind = s->kind;
    w->coding = s->coding;
    w->vary = s->vary;
    w->in_memory = s->bytes != NULL;
    w->size = s->size;
    w->inode = s->inode;
    w->mtime_s = s->mtime_s;
    w->mtime_ns = s->mtime_ns;
    w->ctime_s = s->ctime_s;
    w->ctime_ns = s->ctime_ns;
    w->young = s->young;
    snprintf(w->type, sizeof(w->type), "%s", s->type ? s->type : "");
}

static int find(struct table *t, struct twin *w, const char *path, const char *query)
{
    struct http_ask ask = {
        .path = {path, w->first_len},
        .query = {query, query ? w->second_len : 0},
        .json = w->json,
        .text = w->text,
        .head = w->head,
    };
    struct source *s;
    int err;

    BUILD_BUG_ON(sizeof(ask.q) != sizeof(w->q));
    memcpy(ask.q, w->q, sizeof(ask.q));
    if (w->op == TWIN_TRY) {
        local_bh_disable(); /* as in real use; a call that sleeps now is reported */
        err = ksite_try(t->site, &ask, &s);
        local_bh_enable();
    } else if (w->op == TWIN_PAGE) {
        err = ksite_page(t->site, w->status, &s);
    } else {
        err = ksite_find(t->site, &ask, true, &s);
    }
    if (err)
        return err;
    err = slot(t, s);
    if (err < 0) {
        ksite_release(t->site, s);
        return err;
    }
    w->source = (__u32)err;
    tell(s, w);
    return 0;
}

static int descriptor_of(const struct source *s)
{
    int fd;

    if (!s->file)
        return -EBADF;
    fd = get_unused_fd_flags(O_CLOEXEC);
    if (fd >= 0)
        fd_install(fd, get_file(s->file));
    return fd;
}

/* Copy the next bytes of a made body, or all bytes of one in memory. */
static long bytes_of(struct source *s, const struct twin *w)
{
    void __user *to = u64_to_user_ptr(w->first);
    size_t n = w->first_len;
    char *buf;

    if (s->bytes) {
        n = min_t(size_t, n, s->size);
        return copy_to_user(to, s->bytes, n) ? -EFAULT : (long)n;
    }
    if (!s->next || n < CHUNK_BYTES_MAX || n > (1 << 20))
        return -EINVAL;
    buf = kvmalloc(n, GFP_KERNEL);
    if (!buf)
        return -ENOMEM;
    n = s->next(s, buf, n);
    if (copy_to_user(to, buf, n))
        n = -EFAULT;
    kvfree(buf);
    return (long)n;
}

static long of_source(struct table *t, const struct twin *w)
{
    struct source *s = w->source < TWIN_SOURCES_MAX ? t->source[w->source] : NULL;

    if (!s)
        return -EBADF;
    if (w->op == TWIN_FILE)
        return descriptor_of(s);
    if (w->op == TWIN_NEXT)
        return bytes_of(s, w);
    mutex_lock(&t->lock);
    t->source[w->source] = NULL;
    mutex_unlock(&t->lock);
    local_bh_disable();
    ksite_release(t->site, s);
    local_bh_enable();
    return 0;
}

static int count(struct table *t, struct twin *w)
{
    struct ksite_counts counts;

    if (!t->site)
        return -EINVAL;
    ksite_count(t->site, &counts);
    w->hits = counts.hits;
    w->misses = counts.misses;
    w->stale = counts.stale;
    w->expired = counts.expired;
    w->evicted = counts.evicted;
    w->entries = counts.entries;
    w->bytes = counts.bytes;
    w->walks = counts.walks;
    return 0;
}

static long by_words(struct table *t, struct twin *w)
{
    char *first = words_of(w->first, w->first_len);
    char *second = words_of(w->second, w->second_len);
    long err = -EINVAL;

    if (IS_ERR(first) || IS_ERR(second))
        err = -EFAULT;
    else if (w->op == TWIN_OPEN && first)
        err = site_begin(t, w, first, second);
    else if (t->site && (w->op == TWIN_PAGE || first))
        err = find(t, w, first, second);
    if (!IS_ERR(first))
        kfree(first);
    if (w->op == TWIN_OPEN && !err)
        t->index = second;
    else if (!IS_ERR(second))
        kfree(second);
    return err;
}

static long ask(struct file *file, unsigned int command, unsigned long address)
{
    struct table *t = file->private_data;
    struct twin w;
    long result;

    if (command != TWIN_ASK)
        return -ENOTTY;
    if (copy_from_user(&w, (void __user *)address, sizeof(w)))
        return -EFAULT;
    if (t->site) {
        mutex_lock(&t->lock);
        atomic_long_add(w.charged - t->charged, &t->site->listings_bytes);
        t->charged = w.charged;
        mutex_unlock(&t->lock);
    }
    if (w.op == TWIN_COUNT)
        result = count(t, &w);
    else if (w.op <= TWIN_PAGE)
        result = by_words(t, &w);
    else
        result = of_source(t, &w);
    w.listings_bytes = t->site ? atomic_long_read(&t->site->listings_bytes) - t->charged : 0;
    if (copy_to_user((void __user *)address, &w, sizeof(w)))
        return -EFAULT;
    return result;
}

static int begin(struct inode *inode, struct file *file)
{
    struct table *t = kzalloc(sizeof(*t), GFP_KERNEL);

    if (!t)
        return -ENOMEM;
    mutex_init(&t->lock);
    file->private_data = t;
    return 0;
}

static int end(struct inode *inode, struct file *file)
{
    struct table *t = file->private_data;
    int i;

    for (i = 0; i < TWIN_SOURCES_MAX; i++)
        if (t->source[i])
            ksite_release(t->site, t->source[i]);
    ksite_close(t->site);
    kfree(t->index);
    kfree(t);
    return 0;
}

static const struct file_operations operations = {
    .owner = THIS_MODULE,
    .open = begin,
    .release = end,
    .unlocked_ioctl = ask,
};

static struct miscdevice device = {
    .minor = MISC_DYNAMIC_MINOR,
    .name = "rung_ksite_test", /* some of the tests run as another user for a while */
    .mode = 0666,
    .fops = &operations,
};

module_misc_device(device);
MODULE_DESCRIPTION("rung: the kernel's site, asked from user space");
MODULE_LICENSE("Dual MIT/GPL");
