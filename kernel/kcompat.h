/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kcompat.h - all differences between the kernels that this code compiles for, 6.1 to 7.2, and the
 * only file that asks for a version.
 *
 * Kbuild searches the headers for features that no version number shows (HAVE_WQ_PERCPU,
 * HAVE_TASK_FRAG).
 */
#ifndef KERNEL_KCOMPAT_H
#define KERNEL_KCOMPAT_H
#include <linux/bvec.h>
#include <linux/fs.h>
#include <linux/interrupt.h>
#include <linux/net.h>
#include <linux/shrinker.h>
#include <linux/socket.h>
#include <linux/uio.h>
#include <linux/version.h>
#include <linux/workqueue.h>
#include <net/sock.h>
#include <net/tcp.h>

/* Since 6.19 kernel_bind() takes a struct sockaddr_unsized, an address of any size. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 19, 0)
#define kcompat_sockaddr sockaddr_unsized
#else
#define kcompat_sockaddr sockaddr
#endif

static inline int kcompat_bind(struct socket *sock, struct sockaddr_storage *at, int len)
{
    return kernel_bind(sock, (struct kcompat_sockaddr *)at, len);
}

/* Newer kernels warn about a queue that is neither bound to processors nor unbound. */
#ifdef HAVE_WQ_PERCPU
enum { KCOMPAT_WQ_PERCPU = WQ_PERCPU };
#else
enum { KCOMPAT_WQ_PERCPU = 0 };
#endif

/* Work in the bottom half: a work item since 6.9, a tasklet before. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 9, 0)
#define kcompat_bh work_struct
#define kcompat_bh_init(bh, run) INIT_WORK(bh, run)
#define kcompat_bh_queue(bh) queue_work(system_bh_wq, bh)
#define kcompat_bh_end(bh) cancel_work_sync(bh)
#else
#define kcompat_bh tasklet_struct
#define kcompat_bh_init(bh, run) tasklet_setup(bh, run)
#define kcompat_bh_queue(bh) tasklet_schedule(bh)
#define kcompat_bh_end(bh) tasklet_kill(bh)
#endif

/* Hands pieces of pages to a locked TCP socket, which takes references of its own.  Returns the
 * number of bytes taken, or -errno.  A piece may continue into the pages that follow its first one.
 * 6.1 defines MSG_SPLICE_PAGES, but TCP ignores it there, so only the version decides. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
static inline long kcompat_send_pages(struct sock *sk, struct bio_vec *pieces, unsigned count,
                                      int flags)
{
    struct msghdr msg = {.msg_flags = flags | MSG_SPLICE_PAGES};
    size_t len = 0;
    unsigned i;

    for (i = 0; i < count; i++)
        len += pieces[i].bv_len;
    iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, pieces, count, len);
    return tcp_sendmsg_locked(sk, &msg, len);
}
#else
/* Where a device cannot take pieces, TCP copies them.  tcp_sendpage_locked() maps the page for that
 * with kmap(), which may sleep, even where every page has an address. */
static inline long kcompat_copy_piece(struct sock *sk, const struct bio_vec *piece, int flags)
{
    struct kvec vec = {.iov_base = page_address(piece->bv_page) + piece->bv_offset,
                       .iov_len = piece->bv_len};
    struct msghdr msg = {.msg_flags = flags};

    return kernel_sendmsg_locked(sk, &msg, &vec, 1, vec.iov_len);
}

/* Sends one piece.  Each call stays within the memory that one reference holds: a page, or all
 * pages of a compound one. */
static inline long kcompat_send_piece(struct sock *sk, const struct bio_vec *piece, int flags)
{
    size_t whole = page_size(piece->bv_page), done = 0;

    if (!(sk->sk_route_caps & NETIF_F_SG) && !PageHighMem(piece->bv_page))
        return kcompat_copy_piece(sk, piece, flags);
    while (done < piece->bv_len) {
        size_t at = piece->bv_offset + done, len = min(piece->bv_len - done, whole - at % whole);
        int more = done + len < piece->bv_len ? MSG_MORE | MSG_SENDPAGE_NOTLAST : 0;
        int n = tcp_sendpage_locked(sk, piece->bv_page + at / whole, (int)(at % whole), len,
                                    flags | more);

        if (n <= 0)
            return done ? (long)done : n;
        done += (size_t)n;
        if ((size_t)n < len)
            break;
    }
    return (long)done;
}

static inline long kcompat_send_pages(struct sock *sk, struct bio_vec *pieces, unsigned count,
                                      int flags)
{
    long sent = 0;
    unsigned i;

    for (i = 0; i < count; i++) {
        int more = i + 1 < count ? MSG_MORE | MSG_SENDPAGE_NOTLAST : 0;
        long n = kcompat_send_piece(sk, &pieces[i], flags | more);

        if (n <= 0)
            return sent ? sent : n;
        sent += n;
        if ((size_t)n < pieces[i].bv_len)
            break;
    }
    return sent;
}
#endif

/* A socket that copies what it sends does so into a page of the running task (sk_page_frag()).  In
 * the bottom half that is any task, and it may be filling the page just then.  A socket whose
 * memory must not be waited for has a page of its own instead; since 6.2 that is not enough: the
 * socket has to ask for one. */
static inline void kcompat_own_frag(struct sock *sk)
{
#ifdef HAVE_TASK_FRAG
    sk->sk_use_task_frag = false;
#endif
}

/* Always exported, but declared in a public header only since 6.5. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
int vfs_path_lookup(struct dentry *dentry, struct vfsmount *mnt, const char *name, unsigned flags,
                    struct path *found);
#endif

/* Before 6.18 a search for a connection takes the table as an argument.  It is always the
 * namespace's table, because tcp_hashinfo, that of the first namespace, is not exported since
 * 6.12. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0)
#define kcompat_tcp_lookup(search, net, ...) search(net, __VA_ARGS__)
#else
#define kcompat_tcp_lookup(search, net, ...) \
    search(net, (net)->ipv4.tcp_death_row.hashinfo, __VA_ARGS__)
#endif

/* Times of an inode. */
static inline struct timespec64 kcompat_ctime(const struct inode *inode)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
    return inode_get_ctime(inode);
#else
    return inode->i_ctime;
#endif
}

static inline struct timespec64 kcompat_mtime(const struct inode *inode)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
    return inode_get_mtime(inode);
#else
    return inode->i_mtime;
#endif
}

/* A shrinker, which frees memory when it is short: inside its owner, or since 6.7 the kernel's. */
struct kcompat_shrinker {
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
    struct shrinker *kernels;
#else
    struct shrinker own;
#endif
};

struct kcompat_shrinking {
    const char *name;
    unsigned long (*count)(struct shrinker *shrinker, struct shrink_control *control);
    unsigned long (*scan)(struct shrinker *shrinker, struct shrink_control *control);
};

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
static inline struct kcompat_shrinker *kcompat_shrinker_of(const struct shrinker *shrinker)
{
    return shrinker->private_data;
}

static inline int kcompat_shrinker_open(struct kcompat_shrinker *s,
                                        const struct kcompat_shrinking *how)
{
    s->kernels = shrinker_alloc(0, "%s", how->name);
    if (!s->kernels)
        return -ENOMEM;
    s->kernels->count_objects = how->count;
    s->kernels->scan_objects = how->scan;
    s->kernels->seeks = DEFAULT_SEEKS;
    s->kernels->private_data = s;
    shrinker_register(s->kernels);
    return 0;
}

static inline void kcompat_shrinker_close(struct kcompat_shrinker *s)
{
    shrinker_free(s->kernels);
}
#else
static inline struct kcompat_shrinker *kcompat_shrinker_of(struct shrinker *shrinker)
{
    return container_of(shrinker, struct kcompat_shrinker, own);
}

static inline int kcompat_shrinker_open(struct kcompat_shrinker *s,
                                        const struct kcompat_shrinking *how)
{
    s->own.count_objects = how->count;
    s->own.scan_objects = how->scan;
    s->own.seeks = DEFAULT_SEEKS;
    return register_shrinker(&s->own, "%s", how->name);
}

static inline void kcompat_shrinker_close(struct kcompat_shrinker *s)
{
    unregister_shrinker(&s->own);
}
#endif

#endif
