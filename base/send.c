/* SPDX-License-Identifier: MIT */
/* send.c - how an answer is sent: 0, a count, otherwise -errno.
 *
 * There are two kinds of ways.  Some show the file's bytes in memory, so that one call can send
 * them with the head before them: copy reads into a buffer, mmap maps a window.  The others never
 * show them: sendfile() and splice() hand the pages of the cache from the file to the socket.  The
 * head is sent before them and marked that more follows, so that both share a packet.  auto copies
 * a small file and hands over a large one.
 *
 * A file may become shorter while it is sent.  Reading notices, a mapping does not.  Pages beyond
 * the end fault, therefore nothing here ever looks into a mapping: the kernel does, in sendmsg(),
 * and returns -EFAULT instead of raising a signal.  The rest of the last page reads as zeros,
 * therefore the size is queried just before each call; a process that shortens the file during that
 * one call can still put zeros into the answer.
 *
 * No call here raises SIGPIPE except sendfile() and splice(), which have no flag against it: the
 * server ignores that signal.
 */
#include "send.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    /* A file up to this size is sent with its head.  Beyond it two copies cost more than handing
     * over pages: docs/sending.md has the measurement. */
    SMALL_FILE_BYTES_MAX = 4096,
    COPY_BYTES = 65536            /* read at once: two copies that stay in a core's own cache */
};

struct sender {
    struct send_how how;
    int pipe[2]; /* -1: none.  Empty between two calls */
    size_t cap;  /* of buf[], touched only when it is used */
    char buf[];
};

static size_t buffer_bytes(enum send_method way)
{
    return way == SEND_AUTO ? SMALL_FILE_BYTES_MAX : way == SEND_COPY ? COPY_BYTES : 0;
}

int sender_open(struct sender **sender, const struct send_how *how)
{
    size_t cap = buffer_bytes(how->way);
    struct sender *s = malloc(sizeof(*s) + cap);

    if (!s)
        return -ENOMEM;
    *s = (struct sender){.how = *how, .pipe = {-1, -1}, .cap = cap};
    *sender = s;
    return 0;
}

void sender_rest(struct sender *s)
{
    if (s->pipe[0] < 0)
        return;
    close(s->pipe[0]);
    close(s->pipe[1]);
    s->pipe[0] = s->pipe[1] = -1;
}

void sender_close(struct sender *s)
{
    sender_rest(s);
    free(s);
}

/* --- Whether a range is in memory ------------------------------------------------------------- */

static size_t at_once(const struct segment *seg)
{
    return seg->len < TRANSFER_BYTES_MAX ? (size_t)seg->len : TRANSFER_BYTES_MAX;
}

/* 0: the byte at off is in memory; -ENODATA: it is not; -EOPNOTSUPP: the file system does not tell
 * (tmpfs, overlayfs, FUSE, NFS).  The call that sends the byte reports other errors and the end of
 * the file. */
static int byte_in_memory(int file, uint64_t off)
{
    char byte;
    struct iovec iov = {&byte, 1};

    if (preadv2(file, &iov, 1, (off_t)off, RWF_NOWAIT) >= 0)
        return 0;
    return errno == EAGAIN ? -ENODATA : errno == EOPNOTSUPP ? -EOPNOTSUPP : 0;
}

/* Like byte_in_memory(), for the part of seg that one call sends.  The kernel reads ahead and
 * evicts the oldest pages first, so pages between the first and the last are nearly always there if
 * those two are. */
static int in_memory(const struct segment *seg, int file)
{
    int err = byte_in_memory(file, seg->off + at_once(seg) - 1);

    return err || seg->len <= SMALL_FILE_BYTES_MAX ? err : byte_in_memory(file, seg->off);
}

/* -ENODATA: the range has to be read first; otherwise 0. */
static int asked(const struct segment *seg, struct send_file file)
{
    int err = file.asks ? in_memory(seg, file.fd) : 0;

    return err == -EOPNOTSUPP ? (file.far ? -ENODATA : 0) : err;
}

/* --- Bytes of a range in memory, for as long as one call takes -------------------------------- */

struct window {
    char *bytes;
    size_t len; /* of the range; less than asked for: the file has become shorter */
    char *map;  /* NULL: bytes are in the buffer */
};

static bool shows_bytes(const struct sender *s, const struct segment *seg)
{
    return s->how.way == SEND_COPY || s->how.way == SEND_MMAP ||
           (s->how.way == SEND_AUTO && seg->len <= s->cap);
}

static ssize_t read_at(int file, const struct iovec *iov, uint64_t off, int flags)
{
    ssize_t n;

    do
        n = preadv2(file, iov, 1, (off_t)off, flags);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

static int window_read(struct sender *s, const struct segment *seg, struct send_file file,
                       struct window *w)
{
    struct iovec iov = {s->buf, w->len < s->cap ? w->len : s->cap};
    ssize_t n = read_at(file.fd, &iov, seg->off, file.asks ? RWF_NOWAIT : 0);

    if (file.asks && n == -EOPNOTSUPP && !file.far)
        n = read_at(file.fd, &iov, seg->off, 0);
    w->bytes = s->buf;
    w->len = n < 0 ? 0 : (size_t)n;
    if (n >= 0)
        return 0;
    return file.asks && (n == -EAGAIN || n == -EOPNOTSUPP) ? -ENODATA : (int)n;
}

/* A mapping begins with a page. */
static int window_map(const struct segment *seg, int file, struct window *w)
{
    size_t before = (size_t)(seg->off % (uint64_t)sysconf(_SC_PAGESIZE));
    struct stat st;
    uint64_t left;

    if (fstat(file, &st) < 0)
        return -errno;
    left = (uint64_t)st.st_size > seg->off ? (uint64_t)st.st_size - seg->off : 0;
    w->len = left < w->len ? (size_t)left : w->len;
    if (w->len == 0)
        return 0;
    w->map = mmap(NULL, before + w->len, PROT_READ, MAP_SHARED, file,
                  (off_t)(seg->off - before));
    if (w->map == MAP_FAILED) {
        w->map = NULL;
        return -errno;
    }
    w->bytes = w->map + before;
    return 0;
}

/* The beginning of the range, at most w->len bytes.  0, with w->len 0: the file ends before it; or
 * -errno. */
static int window_open(struct sender *s, const struct segment *seg, struct send_file file,
                       struct window *w)
{
    int err;

    w->len = seg->len < w->len ? (size_t)seg->len : w->len;
    if (s->how.way != SEND_MMAP)
        return window_read(s, seg, file, w);
    err = asked(seg, file);
    return err ? err : window_map(seg, file.fd, w);
}

static void window_close(struct window *w)
{
    if (w->map)
        munmap(w->map, (size_t)(w->bytes - w->map) + w->len);
}

/* --- Ranges that never show their bytes ------------------------------------------------------- */

static long send_file(int fd, const struct segment *seg, int file)
{
    off_t off = (off_t)seg->off;
    ssize_t n;

    do
        n = sendfile(fd, file, &off, at_once(seg));
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

static bool pipe_ready(struct sender *s)
{
    if (s->pipe[0] >= 0)
        return true;
    if (pipe2(s->pipe, O_CLOEXEC) < 0) {
        s->pipe[0] = s->pipe[1] = -1;
        return false;
    }
    /* Room for a whole transfer, for fewer calls; if this user may not have that much, the pipe's
     * own size must do. */
    (void)fcntl(s->pipe[1], F_SETPIPE_SZ, (int)TRANSFER_BYTES_MAX);
    return true;
}

static long pipe_fill(const struct sender *s, const struct segment *seg, int file)
{
    off_t off = (off_t)seg->off;
    ssize_t n;

    do
        n = splice(file, &off, s->pipe[1], NULL, at_once(seg), 0);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

static long pipe_drain(const struct sender *s, int fd, size_t len, unsigned flags)
{
    ssize_t n;

    do
        n = splice(s->pipe[0], NULL, fd, NULL, len, flags);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

/* From the file to the pipe, which is empty, so that this does not wait for room; and on to the
 * socket, which may take less.  The rest in the pipe belongs to this connection, but the next call
 * may be for another: so the pipe is closed, and the rest is spliced again.  Without a pipe
 * sendfile() is used. */
static long send_spliced(struct sender *s, int fd, const struct segment *seg, int file)
{
    long filled, n;
    bool more;

    if (!pipe_ready(s))
        return send_file(fd, seg, file);
    filled = pipe_fill(s, seg, file);
    if (filled <= 0)
        return filled;
    more = (uint64_t)filled < seg->len && !s->how.apart;
    n = pipe_drain(s, fd, (size_t)filled, more ? SPLICE_F_MORE : 0);
    if (n < filled)
        sender_rest(s);
    return n;
}

/* --- One call's worth ------------------------------------------------------------------------- */

void gather_memory(struct gather *g, const struct conn_out *out, unsigned most)
{
    struct iovec *last = NULL;

    g->pieces = g->segments = 0;
    g->room = TRANSFER_BYTES_MAX;
    while (g->segments < most && out->seg[g->segments].bytes && g->room > 0) {
        const struct segment *seg = &out->seg[g->segments];
        size_t len = seg->len < g->room ? (size_t)seg->len : g->room;

        if (last && (char *)last->iov_base + last->iov_len == seg->bytes) {
            last->iov_len += len;
        } else if (g->pieces == GATHER_PIECES_MAX - 1) {
            return;
        } else {
            last = &g->iov[g->pieces++];
            last->iov_base = (void *)(uintptr_t)seg->bytes; /* sendmsg does not write there */
            last->iov_len = len;
        }
        g->room -= len;
        g->segments++;
    }
}

bool gather_reaches_file(const struct gather *g, const struct conn_out *out)
{
    return g->segments < out->count && !out->seg[g->segments].bytes && g->room > 0;
}

/* For one piece the kernel need not copy a list: with its receive it takes 0.97 of the time. */
static long send_gather(int fd, struct iovec *iov, unsigned count, bool more)
{
    const int flags = MSG_NOSIGNAL | (more ? MSG_MORE : 0);
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = count};
    ssize_t n;

    do
        n = count == 1 ? send(fd, iov->iov_base, iov->iov_len, flags) : sendmsg(fd, &msg, flags);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

static long send_pages(struct sender *s, int fd, const struct segment *seg, struct send_file file)
{
    int err = asked(seg, file);

    if (err)
        return err;
    return s->how.way == SEND_SPLICE ? send_spliced(s, fd, seg, file.fd)
                                     : send_file(fd, seg, file.fd);
}

static long send_range(struct sender *s, int fd, const struct segment *seg, struct send_file file)
{
    struct window w = {.len = TRANSFER_BYTES_MAX};
    struct iovec iov;
    long n;
    int err;

    if (!shows_bytes(s, seg))
        return send_pages(s, fd, seg, file);
    err = window_open(s, seg, file, &w);
    if (file.asks && err == -ENODATA)
        return err;
    if (err)
        return send_pages(s, fd, seg, file);
    if (w.len == 0)
        return 0;
    iov = (struct iovec){w.bytes, w.len};
    n = send_gather(fd, &iov, 1, w.len < seg->len && !s->how.apart);
    window_close(&w);
    return n;
}

/* Memory, and the range behind it if its bytes can be shown. */
static long send_memory(struct sender *s, int fd, const struct conn_out *out,
                        struct send_file file)
{
    struct window w = {0};
    struct gather g;
    bool more;
    long sent;

    gather_memory(&g, out, s->how.apart ? 1 : out->count);
    if (s->how.apart || g.segments == out->count || !g.room)
        return send_gather(fd, g.iov, g.pieces, out->more && !s->how.apart);
    more = true;
    if (gather_reaches_file(&g, out)) {
        const struct segment *range = &out->seg[g.segments];

        w.len = g.room;
        if (!shows_bytes(s, range) || window_open(s, range, file, &w) < 0)
            w.len = 0; /* the range goes alone; if it cannot be read, the next call says so */
        more = out->more || w.len < range->len;
    }
    if (w.len > 0)
        g.iov[g.pieces++] = (struct iovec){w.bytes, w.len};
    sent = send_gather(fd, g.iov, g.pieces, more);
    window_close(&w);
    return sent;
}

long sender_send_read(struct sender *s, int fd, struct iovec bytes, bool more)
{
    return send_gather(fd, &bytes, 1, more && !s->how.apart);
}

bool sender_at_hand(const struct conn_out *out, int file)
{
    const struct segment *seg = &out->seg[out->count - 1];

    return seg->len > SMALL_FILE_BYTES_MAX && !in_memory(seg, file);
}

long sender_send(struct sender *s, int fd, const struct conn_out *out, struct send_file file)
{
    core_assert(out->count > 0 && out->count <= OUT_SEGMENTS_MAX);
    return out->seg[0].bytes ? send_memory(s, fd, out, file)
                             : send_range(s, fd, &out->seg[0], file);
}
