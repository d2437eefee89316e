/* SPDX-License-Identifier: MIT */
/* send.h - how an answer is sent: the ways to bring memory and a file's bytes to a socket.
 *
 * A sender belongs to one thread.  It has the choice of way and what that way needs (a buffer, a
 * pipe).  It knows no connection; when a call has returned, nothing of the answer is left in it, so
 * any number of connections may take turns.  Bytes, sockets and files stay the caller's.
 */
#ifndef BASE_SEND_H
#define BASE_SEND_H
#include <sys/uio.h>
#include "../core/conn.h"

/* In the order of --send. */
enum send_method {
    SEND_AUTO,     /* a small file is copied and goes with its head, a larger one by sendfile() */
    SEND_COPY,     /* read, then sent: two copies, in the cache if they are short */
    SEND_MMAP,     /* sent from a mapping: one copy, and page tables */
    SEND_SENDFILE, /* the kernel hands the file's pages to the socket */
    SEND_SPLICE    /* the same by way of a pipe */
};

struct send_how { /* zeroed: what is best for most */
    enum send_method way;
    bool apart; /* head and body are sent in a call each, and neither says that more follows */
    bool cork;  /* the kernel joins the bytes of an answer's calls; for net_cork()'s callers */
};

/* Memory that is sent in one call.  Segments that are adjacent in memory, as the answers of an
 * send queue are, form one piece.  One more place is left for a range of a file. */
enum { GATHER_PIECES_MAX = 8 }; /* the kernel takes that many without allocating */
struct gather {
    struct iovec iov[GATHER_PIECES_MAX];
    unsigned pieces;
    unsigned segments; /* segments in iov, the last one perhaps not to its end */
    size_t room;       /* of TRANSFER_BYTES_MAX */
};

/* Gathers the first segments of out, not more than `most`. */
void gather_memory(struct gather *g, const struct conn_out *out, unsigned most);
/* Whether the next segment is a range of a file whose turn has come. */
bool gather_reaches_file(const struct gather *g, const struct conn_out *out);

struct sender;

/* 0 or -ENOMEM. */
int  sender_open(struct sender **sender, const struct send_how *how);
void sender_close(struct sender *sender);
/* Closes the descriptors that the sender holds; it opens them again when it needs them. */
void sender_rest(struct sender *sender);

/* The descriptor of a range, and how to read it. */
struct send_file {
    int fd;
    bool asks; /* do not wait for the disk; report that the range must be read first */
    bool far;  /* asks: if the file system does not tell, assume: not in memory */
};

/* Sends one call's worth: the bytes in memory, and as much of a range of the file as the way sends
 * together with them; at most TRANSFER_BYTES_MAX.  A range that comes first goes alone.  A
 * count, 0: the file has become shorter (-EFAULT: during the call), or -errno.  Blocks if the
 * socket does.
 *
 * With asks, -ENODATA: a range that comes first is not in memory, and nothing was sent. */
long sender_send(struct sender *sender, int fd, const struct conn_out *out, struct send_file file);

/* Sends bytes that were read from a file; more: further bytes of it follow.  A count or -errno. */
long sender_send_read(struct sender *sender, int fd, struct iovec bytes, bool more);

/* Whether out ends with a range of the descriptor `file` whose pages auto hands over, and the next
 * transfer of that range needs no disk: its first and its last byte are in the page cache
 * (RWF_NOWAIT; pages in between may have been evicted), or the file ends before them.  False if the
 * file system does not tell. */
bool sender_at_hand(const struct conn_out *out, int file);

#endif
