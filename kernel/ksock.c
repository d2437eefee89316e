/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* ksock.c - the core's idea of a socket, inside the kernel: bytes, or -errno.
 *
 * Two transports.  One calls the socket as a process does; the line's flags say whether it waits.
 * The other is the bottom half's: the socket's lock is held as a spin lock, memory is taken without
 * waiting, and nothing is sent that is not in memory.
 *
 * Bytes leave as pages, to which the socket holds references until the client has acknowledged
 * them, so they must not change after the call.  The pages of a kept body never do.  Everything
 * else in memory is copied into the context's page fragment, behind earlier bytes.
 *
 * A file's bytes come from its page cache where that is current: on a local file system
 * (kstamp_local()).  A small file is read behind its head, for one packet; the pages of a larger
 * one are handed to the socket without a copy.  All other bytes are read through the file system,
 * which reads ahead, and copied.  A context does not read: it hands the connection on to a place
 * that may wait for a file system.  A file may become shorter while it is sent: its size is read
 * just before each send, and bytes that were cut off are sent as 0 bytes, as everywhere.
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
    COPIED_BYTES_MAX = 4096, /* a body behind its head; a larger one leaves as its pages */
    PIECES_MAX = 16          /* of one call: their list is on the stack */
};

/* --- Questions -------------------------------------------------------------------------------- */

bool ksock_unread(const struct kconn *k)
{
    const struct sock *sk = k->sock->sk;

    return !skb_queue_empty_lockless(&sk->sk_receive_queue) ||
           READ_ONCE(sk->sk_shutdown) & RCV_SHUTDOWN;
}

bool ksock_gone(const struct kconn *k)
{
    const struct sock *sk = k->sock->sk;

    return READ_ONCE(sk->sk_err) || inet_sk_state_load(sk) == TCP_CLOSE;
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

void ksock_shut_receive(struct kconn *k)
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
        kstat_received(s, n);
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

/* Pieces of pages, in their order, that leave in one call.  The socket itself never copies: a copy
 * in the bottom half would be written into the page that the interrupted process is filling
 * (kcompat_own_frag()), or into a page of the socket's own, 32 KiB, which an idle connection would
 * keep.  There is one exception, a device that cannot gather pieces (no NETIF_F_SG). */
struct gather {
    struct kcontext *context;
    struct bio_vec piece[PIECES_MAX];
    unsigned count;
    size_t len;
    size_t copied;  /* of len: into the context's fragment, behind what it holds already */
    unsigned whole; /* segments of out that are gathered to their end */
    bool alone;     /* there is only one segment */
    bool full;      /* the rest is for another call, in its own packet (send_bytes) */
};

static void gather_add(struct gather *g, struct page *page, size_t offset, size_t len)
{
    g->piece[g->count++] = (struct bio_vec){page, (unsigned)len, (unsigned)offset};
    g->len += len;
}

/* Many pieces share the page of a context that lasts, so each costs little.  In a context that
 * lives for one pump they do not: a client that does not read would keep 32 KiB for a head of
 * 300 bytes, and the socket's accounts would show only the 300.  There the page is as small as
 * possible. */
static bool frag_refill(struct kcontext *cx, size_t want)
{
    struct page_frag *frag = &cx->frag;
    unsigned order;

    if (!want)
        return true;
    order = get_order(want);
    if (!cx->brief)
        return skb_page_frag_refill((unsigned)want, frag,
                                    cx->may_sleep ? GFP_KERNEL : GFP_ATOMIC | __GFP_NOWARN);
    if (frag->page && frag->offset + want <= frag->size)
        return true;
    if (frag->page)
        put_page(frag->page);
    frag->offset = 0;
    frag->page = alloc_pages(GFP_KERNEL | __GFP_COMP | __GFP_NOWARN | __GFP_NORETRY, order);
    if (!frag->page) { /* memory is fragmented: frag_room() says how much there is */
        order = 0;
        frag->page = alloc_page(GFP_KERNEL);
    }
    frag->size = PAGE_SIZE << order;
    return frag->page != NULL;
}

/* Bytes that fit into the context's fragment behind its last piece, at most want of them; 0 if
 * there is no memory.  Pieces of this call stay where they are, so only the first one can get a
 * new page.  A page whose last reference is the fragment's is used again from its beginning. */
static size_t frag_room(struct gather *g, size_t want)
{
    struct page_frag *frag = &g->context->frag;

    if (!g->copied && !frag_refill(g->context, min_t(size_t, want, RECV_BYTES_MAX)))
        return 0;
    return min_t(size_t, want, frag->size - frag->offset - g->copied);
}

static char *frag_end(const struct gather *g)
{
    return (char *)page_address(g->context->frag.page) + g->context->frag.offset + g->copied;
}

/* Adds the len bytes at frag_end() to those that leave. */
static void frag_add(struct gather *g, size_t len)
{
    const struct page_frag *frag = &g->context->frag;

    if (g->count && g->piece[g->count - 1].bv_page == frag->page) {
        g->piece[g->count - 1].bv_len += (unsigned)len;
        g->len += len;
    } else {
        gather_add(g, frag->page, frag->offset + g->copied, len);
    }
    g->copied += len;
}

/* Takes the beginning of a segment, at most that many bytes; returns how many.  A body that names
 * its pages (kserve.h) is never written again, so it leaves as those pages.  A few bytes of it that
 * follow others are copied anyway, because a reference to a page costs as much. */
static size_t gather_segment(struct gather *g, const struct segment *seg, size_t most)
{
    size_t len = min_t(u64, seg->len, most);

    if (seg->source && seg->source->file && (len > COPIED_BYTES_MAX || g->alone)) {
        gather_add(g, virt_to_page(seg->bytes), offset_in_page(seg->bytes), len);
        return len;
    }
    len = frag_room(g, len);
    if (len) {
        memcpy(frag_end(g), seg->bytes, len);
        frag_add(g, len);
    }
    return len;
}

/* Takes the segments that lie in memory, as many as fit; a place is left for a file's beginning.
 * False: there is no page to copy them to. */
static bool gather_memory(struct gather *g, const struct conn_out *out, size_t most)
{
    g->alone = out->count == 1;
    while (g->whole < out->count && g->len < most && out->seg[g->whole].bytes &&
           g->count < PIECES_MAX - 1) {
        const struct segment *seg = &out->seg[g->whole];
        size_t n = gather_segment(g, seg, most - g->len);

        if (n < seg->len)
            break;
        g->whole++;
    }
    g->full = g->len == most && most < TRANSFER_BYTES_MAX;
    return g->len || !out->seg[0].bytes;
}

/* Whether more bytes follow that should share the last packet. */
static bool gather_more(const struct gather *g, const struct conn_out *out)
{
    return g->whole < out->count && !g->full;
}

/* The socket has taken n bytes: their copies must stay, and room for the others is free again. */
static void gather_taken(struct kline *line, struct gather *g, size_t n)
{
    struct page_frag *frag = &line->context->frag;
    unsigned long pages = 0;
    unsigned i;

    for (i = 0; i < g->count && n; i++) {
        size_t len = min_t(size_t, n, g->piece[i].bv_len);

        if (g->copied && g->piece[i].bv_page == frag->page)
            frag->offset += (unsigned)len;
        else
            pages += DIV_ROUND_UP(offset_in_page(g->piece[i].bv_offset) + len, PAGE_SIZE);
        n -= len;
    }
    kstat_add(line->k->serve, KSTAT_PAGES, pages);
}

/* A process's transport locks the socket here; a bottom half did so before it began to pump. */
static long gather_send(struct kline *line, struct gather *g, bool more)
{
    struct sock *sk = line->k->sock->sk;
    int flags = line->flags | MSG_NOSIGNAL | (more ? MSG_MORE : 0);
    bool late = ksock_has_all(line->k);
    long n;

    if (line->context->may_sleep)
        lock_sock(sk);
    n = kcompat_send_pages(sk, g->piece, g->count, flags);
    if (line->context->may_sleep)
        release_sock(sk);
    if (n > 0) {
        gather_taken(line, g, (size_t)n);
        line->late = late;
    }
    return n;
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

/* Takes pages of the range that are in memory and up to date, each with a reference.  File systems
 * that learn of changes from elsewhere have none: their pages may be older than the head that was
 * sent. */
static void gather_pages(struct gather *g, const struct piece *r)
{
    struct address_space *mapping = r->file->f_mapping;

    if (!kstamp_local(file_inode(r->file)->i_sb))
        return;
    while (g->count < PIECES_MAX && g->len < r->len) {
        loff_t pos = r->pos + (loff_t)g->len;
        struct page *page = find_get_page(mapping, (pgoff_t)(pos >> PAGE_SHIFT));
        size_t offset = (size_t)(pos & ~PAGE_MASK);

        if (!page)
            break;
        if (!PageUptodate(page) || !sendpage_ok(page)) {
            put_page(page);
            break;
        }
        gather_add(g, page, offset, min_t(size_t, PAGE_SIZE - offset, r->len - g->len));
    }
}

/* 0: no page can be taken. */
static long send_pages(struct kline *line, struct piece r)
{
    struct gather g = {.context = line->context};
    loff_t size = i_size_read(r.file->f_mapping->host);
    unsigned i;
    long n;

    if (r.pos >= size)
        return 0;
    r.len = min_t(u64, r.len, (u64)(size - r.pos));
    gather_pages(&g, &r);
    if (!g.count)
        return 0;
    n = gather_send(line, &g, r.more || g.len < r.len);
    for (i = 0; i < g.count; i++)
        put_page(g.piece[i].bv_page);
    return n;
}

/* Reads the beginning of the range behind the other pieces, as much as there is room for.  Returns
 * how many bytes, 0 at the file's end, or -errno. */
static long gather_file(struct gather *g, const struct piece *r)
{
    size_t room = frag_room(g, min_t(size_t, r->len, RECV_BYTES_MAX));
    loff_t pos = r->pos;
    ssize_t n = room ? kernel_read(r->file, frag_end(g), room, &pos) : -ENOMEM;

    if (n == -EAGAIN) /* from the file system: the socket will not call us about it */
        n = -EIO;
    if (n > 0)
        frag_add(g, (size_t)n);
    return n;
}

static bool may_read(const struct kline *line)
{
    return line->context->reach != KREACH_MEMORY || !line->k->serve->far_wq[0];
}

static long hand_on(struct kline *line)
{
    line->hand = true;
    return -EAGAIN;
}

static long send_file(struct kline *line, const struct segment *seg)
{
    struct gather g = {.context = line->context};
    struct piece r = piece_of(seg);
    long n = send_pages(line, r);

    if (n)
        return n;
    if (!may_read(line))
        return hand_on(line);
    if (ksock_gone(line->k)) /* do not ask a file system for bytes that cannot arrive */
        return -EPIPE;
    n = gather_file(&g, &r);
    return n > 0 ? gather_send(line, &g, (u64)n < seg->len) : n;
}

/* --- A process's transport -------------------------------------------------------------------- */

static long line_recv(void *io, char *buf, size_t cap)
{
    struct kline *line = io;
    const struct conn *c = &line->k->conn;
    struct kvec vec = {.iov_base = buf, .iov_len = cap};
    struct msghdr msg = {.msg_flags = 0};
    long n = kernel_recvmsg(line->k->sock, &msg, &vec, 1, cap, line->flags);

    /* An incomplete message is refused with a page of the site's own, and looking for that cannot
     * wait. */
    if (!n && !may_read(line) && (c->in || c->flags & CONN_BODY))
        return hand_on(line);
    return received(line, n);
}

/* Sends memory, and behind it a file that is small enough to be read.  A larger one is announced to
 * the socket, so that its first bytes share the packet. */
static long line_send(void *io, const struct conn_out *out)
{
    struct kline *line = io;
    struct gather g = {.context = line->context};
    const struct segment *next;
    bool more;

    if (!may_read(line) && line->k->conn.flags & CONN_MORE) /* a folder may be read on the way */
        return hand_on(line);
    if (!gather_memory(&g, out, line->k->serve->opt.send_bytes))
        return sent(line, -ENOMEM);
    if (!g.count)
        return sent(line, send_file(line, &out->seg[0]));
    more = gather_more(&g, out);
    next = &out->seg[g.whole];
    if (more && !next->bytes && next->len <= COPIED_BYTES_MAX) {
        struct piece r = piece_of(next);

        if (!may_read(line))
            return hand_on(line);
        more = gather_file(&g, &r) < (long)r.len; /* the next call reports an error */
    }
    return sent(line, gather_send(line, &g, more));
}

static void line_shut(void *io)
{
    struct kline *line = io;

    ksock_shut(line->k);
}

const struct transport kline_transport = {line_recv, line_send, line_shut};

/* --- The bottom half's: the socket is locked and not in use ----------------------------------- */

struct grab {
    char *buf;
    size_t cap, len;
};

static int grab_bytes(read_descriptor_t *desc, struct sk_buff *skb, unsigned int off, size_t len)
{
    struct grab *g = desc->arg.data;
    size_t n = min(len, g->cap - g->len);

    if (off + n <= skb_headlen(skb))
        memcpy(g->buf + g->len, skb->data + off, n);
    else if (skb_copy_bits(skb, (int)off, g->buf + g->len, (int)n))
        return -EFAULT;
    g->len += n;
    desc->count = g->cap - g->len; /* 0 ends it */
    return (int)n;
}

/* The end of the stream, an error, and what tcp_read_sock() stops at (urgent data, which a process
 * does not see either) are left to the work item. */
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
    struct gather g = {.context = line->context};

    if (!gather_memory(&g, out, line->k->serve->opt.send_bytes)) {
        line->hand = true; /* where memory may be waited for */
        return sent(line, -EAGAIN);
    }
    if (WARN_ON_ONCE(!g.count))
        return -EIO; /* a world gave a file where it must not sleep */
    return sent(line, gather_send(line, &g, gather_more(&g, out)));
}

/* Shutting down needs the socket as a process has it, so the work item does it. */
static void soft_shut(void *io)
{
    struct kline *line = io;

    set_bit(KCONN_SHUT, &line->k->flags);
}

const struct transport kline_soft_transport = {soft_recv, soft_send, soft_shut};
