/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* ksock.c - the core's idea of a socket, inside the kernel: bytes, or -errno.
 *
 * Two transports.  One calls the socket as a process does; whether it waits is the line's flag.
 * The other is the bottom half's: the socket's lock is held as a spin lock, memory is taken without
 * waiting, and nothing is sent that is not in memory.
 *
 * A file's bytes are its page cache's, where that is the truth: on a local file system
 * (kwitness_local()).  A small file is read behind its head, for one packet; of a larger one the
 * pages themselves are handed to the socket, without a copy.  All other bytes are read through the
 * file system, which brings pages in with what follows them, and copied.  A lane does not read: it
 * hands the connection on to where a file system may be waited for.  A file may become shorter
 * meanwhile: its size is asked for just before, and the bytes that were cut off are 0 bytes, as
 * everywhere.
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/tcp.h>
#include <net/sock.h>
#include <net/tcp.h>
#include "../core/conn_inside.h"
#include "kcache.h"
#include "kinside.h"

enum {
    SMALL_FILE_BYTES_MAX = 4096, /* read behind its head */
    PAGES_MAX = 16               /* of one call: their list is on the stack */
};

/* --- Questions -------------------------------------------------------------------------------- */

bool ksock_unread(const struct kconn *k)
{
    const struct sock *sk = k->sock->sk;

    return !skb_queue_empty_lockless(&sk->sk_receive_queue) ||
           READ_ONCE(sk->sk_shutdown) & RCV_SHUTDOWN;
}

bool kline_has_input(const struct kline *line)
{
    return !line->empty && ksock_unread(line->k);
}

u64 ksock_acked(const struct kconn *k)
{
    return READ_ONCE(tcp_sk(k->sock->sk)->bytes_acked);
}

void ksock_shut(struct kconn *k)
{
    kernel_sock_shutdown(k->sock, SHUT_WR);
}

void ksock_deafen(struct kconn *k)
{
    kernel_sock_shutdown(k->sock, SHUT_RD);
}

void ksock_end(struct kconn *k)
{
    kernel_sock_shutdown(k->sock, SHUT_RDWR);
}

void ksock_reset(struct sock *sk)
{
    tcp_abort(sk, ECONNRESET);
}

void ksock_unhook(const struct kserve *s, struct socket *sock)
{
    struct sock *sk = sock->sk;

    write_lock_bh(&sk->sk_callback_lock);
    sk->sk_user_data = NULL;
    sk->sk_data_ready = s->calls.data_ready;
    sk->sk_write_space = s->calls.write_space;
    sk->sk_state_change = s->calls.state_change;
    write_unlock_bh(&sk->sk_callback_lock);
}

/* --- Counting --------------------------------------------------------------------------------- */

static long received(struct kline *line, long n)
{
    struct kserve *s = line->k->serve;

    line->empty = n == -EAGAIN;
    if (n > 0)
        kstat_add(s, KSTAT_RECEIVES, 1);
    else if (n == 0)
        kstat_add(s, KSTAT_ENDS, 1);
    else if (n != -EAGAIN)
        kstat_add(s, KSTAT_RECEIVE_ERRORS, 1);
    return n;
}

static long sent(struct kline *line, long n)
{
    struct kserve *s = line->k->serve;

    if (n > 0)
        kstat_add(s, KSTAT_SENDS, 1);
    else if (n != -EAGAIN)
        kstat_add(s, KSTAT_SEND_ERRORS, 1);
    return n;
}

/* --- Gathering -------------------------------------------------------------------------------- */

struct gather {
    struct kvec vec[OUT_SEGMENTS_MAX];
    unsigned count; /* of vec */
    size_t len;
    unsigned segments; /* of out that are in it, or their beginning */
    bool full;         /* what follows is another call's, and a packet of its own (send_bytes) */
};

static void gather_memory(struct gather *g, const struct conn_out *out, size_t most)
{
    g->count = g->segments = 0;
    g->len = 0;
    while (g->segments < out->count && g->len < most) {
        const struct segment *seg = &out->seg[g->segments];

        if (!seg->bytes)
            break;
        g->vec[g->count].iov_base = (void *)(uintptr_t)seg->bytes; /* never written to */
        g->vec[g->count].iov_len = min_t(u64, seg->len, most - g->len);
        g->len += g->vec[g->count++].iov_len;
        g->segments++;
    }
    g->full = g->len == most && most < TRANSFER_BYTES_MAX;
}

/* --- Files ------------------------------------------------------------------------------------ */

struct piece {
    struct file *file;
    loff_t pos;
    size_t len;
    bool more; /* something follows it */
};

static struct piece piece_of(const struct segment *seg)
{
    size_t len = min_t(u64, seg->len, TRANSFER_BYTES_MAX);

    return (struct piece){.file = seg->source->file, .pos = (loff_t)seg->off, .len = len,
                          .more = len < seg->len};
}

/* Pages of the range that are in memory and hold what the file does, each with a reference: how
 * many.  File systems that learn of changes from elsewhere have none: their pages may be older than
 * the head that was sent. */
static unsigned pages_get(const struct piece *r, struct bio_vec *pages)
{
    struct address_space *mapping = r->file->f_mapping;
    size_t done = 0;
    unsigned n = 0;

    if (!kwitness_local(file_inode(r->file)->i_sb))
        return 0;
    while (n < PAGES_MAX && done < r->len) {
        loff_t pos = r->pos + (loff_t)done;
        struct page *page = find_get_page(mapping, (pgoff_t)(pos >> PAGE_SHIFT));

        if (!page)
            break;
        if (!PageUptodate(page) || !sendpage_ok(page)) {
            put_page(page);
            break;
        }
        pages[n].bv_page = page;
        pages[n].bv_offset = (unsigned)(pos & ~PAGE_MASK);
        pages[n].bv_len = (unsigned)min_t(size_t, PAGE_SIZE - pages[n].bv_offset, r->len - done);
        done += pages[n++].bv_len;
    }
    return n;
}

/* 0: there are none. */
static long send_pages(struct kline *line, struct piece r)
{
    struct bio_vec pages[PAGES_MAX];
    loff_t size = i_size_read(r.file->f_mapping->host);
    unsigned i, n;
    size_t len = 0;
    long err;

    if (r.pos >= size)
        return 0;
    r.len = min_t(u64, r.len, (u64)(size - r.pos));
    n = pages_get(&r, pages);
    if (!n)
        return 0;
    for (i = 0; i < n; i++)
        len += pages[i].bv_len;
    err = kcompat_send_pages(line->k->sock, pages, n,
                             line->flags | MSG_NOSIGNAL | (r.more || len < r.len ? MSG_MORE : 0));
    for (i = 0; i < n; i++)
        put_page(pages[i].bv_page);
    if (err > 0)
        kstat_add(line->k->serve, KSTAT_PAGES, n);
    return err;
}

/* What is sent is copied into pages, a task's as a rule.  A socket that takes memory without
 * waiting has pages of its own, 32 KiB, and keeps them for as long as it lives (sk_page_frag()).
 * Of idle ones that would be most of what they cost: a lane's are lent for one send, and back. */
static void frag_swap(struct kline *line)
{
    if (line->k->serve->soft)
        swap(line->k->sock->sk->sk_frag, line->lane->frag);
}

static long send_vec(struct kline *line, struct gather *g, bool more)
{
    struct msghdr msg = {.msg_flags = line->flags | MSG_NOSIGNAL | (more ? MSG_MORE : 0)};
    long n;

    frag_swap(line);
    n = kernel_sendmsg(line->k->sock, &msg, g->vec, g->count, g->len);
    frag_swap(line);
    return n;
}

/* Appends the beginning of the range, as much as the scratch holds: that is free while sending. */
static long gather_file(struct kline *line, struct gather *g, const struct piece *r)
{
    loff_t pos = r->pos;
    ssize_t n = kernel_read(r->file, line->lane->scratch, min_t(size_t, r->len, RECV_BYTES_MAX),
                            &pos);

    if (n <= 0)
        return n;
    g->vec[g->count].iov_base = line->lane->scratch;
    g->vec[g->count++].iov_len = (size_t)n;
    g->len += (size_t)n;
    return n;
}

static bool may_read(const struct kline *line)
{
    return line->lane->reach != KREACH_MEMORY || !line->k->serve->far_wq[0];
}

static long hand_on(struct kline *line)
{
    line->hand = true;
    return -EAGAIN;
}

static long send_file(struct kline *line, const struct segment *seg)
{
    struct piece r = piece_of(seg);
    struct gather g = {.count = 0};
    long n = send_pages(line, r);

    if (n)
        return n;
    if (!may_read(line))
        return hand_on(line);
    n = gather_file(line, &g, &r);
    return n > 0 ? send_vec(line, &g, (u64)n < seg->len) : n;
}

/* --- A process's transport -------------------------------------------------------------------- */

static long line_recv(void *io, char *buf, size_t cap)
{
    struct kline *line = io;
    const struct conn *c = &line->k->conn;
    struct kvec vec = {.iov_base = buf, .iov_len = cap};
    struct msghdr msg = {.msg_flags = 0};
    long n = kernel_recvmsg(line->k->sock, &msg, &vec, 1, cap, line->flags);

    /* Half a message is refused with a page of the site's own, and looking for it cannot wait. */
    if (!n && !may_read(line) && (c->stash || c->flags & CONN_BODY))
        return hand_on(line);
    return received(line, n);
}

/* Memory, and behind it a file that is small enough to be read.  A larger one is said to follow, so
 * that its first bytes share the packet. */
static long line_send(void *io, const struct conn_out *out)
{
    struct kline *line = io;
    struct gather g;
    bool more;

    if (!may_read(line) && line->k->conn.flags & CONN_MORE) /* a folder may be read on the way */
        return hand_on(line);
    gather_memory(&g, out, line->k->serve->opt.send_bytes);
    if (!g.count)
        return sent(line, send_file(line, &out->seg[0]));
    more = g.segments < out->count && !g.full;
    if (more && !out->seg[g.segments].bytes && out->seg[g.segments].len <= SMALL_FILE_BYTES_MAX) {
        struct piece r = piece_of(&out->seg[g.segments]);

        if (!may_read(line))
            return hand_on(line);
        more = gather_file(line, &g, &r) < (long)r.len; /* an error is the next call's */
    }
    return sent(line, send_vec(line, &g, more));
}

static void line_shut(void *io)
{
    struct kline *line = io;

    ksock_shut(line->k);
}

const struct transport kline_transport = {line_recv, line_send, line_shut};

/* --- The bottom half's: the socket is locked, nobody uses it ---------------------------------- */

struct grab {
    char *buf;
    size_t cap, len;
};

static int grab_bytes(read_descriptor_t *desc, struct sk_buff *skb, unsigned int off, size_t len)
{
    struct grab *g = desc->arg.data;
    size_t n = min(len, g->cap - g->len);

    if (skb_copy_bits(skb, (int)off, g->buf + g->len, (int)n))
        return -EFAULT;
    g->len += n;
    desc->count = g->cap - g->len; /* 0 ends it */
    return (int)n;
}

/* The end of the stream, an error, and what tcp_read_sock() stops at (urgent data, which a process
 * does not see either) are the work item's to find. */
static long soft_recv(void *io, char *buf, size_t cap)
{
    struct kline *line = io;
    struct sock *sk = line->k->sock->sk;
    struct grab g = {.buf = buf, .cap = cap};
    read_descriptor_t desc = {.arg.data = &g, .count = cap};
    long n = tcp_read_sock(sk, &desc, grab_bytes);

    if (n > 0)
        return received(line, (long)g.len);
    line->hand = n < 0 || sk->sk_err || ksock_unread(line->k);
    return received(line, -EAGAIN);
}

static long soft_send(void *io, const struct conn_out *out)
{
    struct kline *line = io;
    struct msghdr msg = {.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL};
    struct gather g;
    long n;

    gather_memory(&g, out, line->k->serve->opt.send_bytes);
    if (WARN_ON_ONCE(!g.count))
        return -EIO; /* a world gave a file where it was not to sleep */
    if (g.segments < out->count && !g.full)
        msg.msg_flags |= MSG_MORE;
    iov_iter_kvec(&msg.msg_iter, ITER_SOURCE, g.vec, g.count, g.len);
    frag_swap(line);
    n = tcp_sendmsg_locked(line->k->sock->sk, &msg, g.len);
    frag_swap(line);
    return sent(line, n);
}

/* It needs the socket as a process has it: left to the work item. */
static void soft_shut(void *io)
{
    struct kline *line = io;

    set_bit(KCONN_SHUT, &line->k->flags);
}

const struct transport kline_soft_transport = {soft_recv, soft_send, soft_shut};
