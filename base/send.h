/* SPDX-License-Identifier: MIT */
/* send.h - how an answer leaves: the ways to bring memory and a file's bytes to a socket.
 *
 * A sender is one thread's: its choice of way, and what that takes (a buffer, a pipe).  It knows no
 * connection; nothing of one answer is in it when a call has returned, so any number of connections
 * may take turns.  Bytes, sockets and files stay the caller's.
 */
#ifndef BASE_SEND_H
#define BASE_SEND_H
#include <sys/uio.h>
#include "../core/conn.h"

/* In the order of --send. */
enum send_way {
    SEND_AUTO,     /* a small file is copied and goes with its head, a larger one by sendfile() */
    SEND_COPY,     /* read, then sent: two copies, in the cache if they are short */
    SEND_MMAP,     /* sent from a mapping: one copy, and page tables */
    SEND_SENDFILE, /* the kernel hands the file's pages to the socket */
    SEND_SPLICE    /* the same by way of a pipe */
};

struct send_how { /* zeroed: what is best for most */
    enum send_way way;
    bool apart; /* head and body each in a call of its own, and none tells that more will follow */
    bool cork;  /* the kernel joins what the calls of an answer leave; for net_cork()'s callers */
};

/* Memory that leaves in one call.  Segments that lie behind each other, as the answers of an outbox
 * do, are one piece.  One more place is left for a range of a file. */
enum { GATHER_PIECES_MAX = 8 }; /* the kernel takes as many without asking for memory */
struct gather {
    struct iovec iov[GATHER_PIECES_MAX];
    unsigned pieces;
    unsigned segments; /* that are in it, the last one perhaps not to its end */
    size_t room;       /* of TRANSFER_BYTES_MAX */
};

/* The first segments of out, not more than most. */
void gather_memory(struct gather *g, const struct conn_out *out, unsigned most);
/* Whether the segment behind them is a range of a file whose turn has come. */
bool gather_reaches_file(const struct gather *g, const struct conn_out *out);

struct sender;

/* 0 or -ENOMEM. */
int  sender_open(struct sender **sender, const struct send_how *how);
void sender_close(struct sender *sender);
/* Gives back the descriptors it holds; it makes them again when it needs them. */
void sender_rest(struct sender *sender);

/* The descriptor of a range, and how to read it. */
struct send_file {
    int fd;
    bool asks; /* do not wait for the disk; report that the range must be read first */
    bool far;  /* asks: where the file system does not tell, take it for not in memory */
};

/* One call's worth: what is in memory, and as much of a range of the file as the way sends together
 * with it; at most TRANSFER_BYTES_MAX.  A range that comes first goes alone.  A count, 0: the file
 * has become shorter (-EFAULT: during the call), or -errno.  Blocks if the socket does.
 *
 * With asks, -ENODATA: a range that comes first is not in memory, and nothing was sent. */
long sender_send(struct sender *sender, int fd, const struct conn_out *out, struct send_file file);

/* Bytes that were read from a file; more: others of it follow.  A count or -errno. */
long sender_send_read(struct sender *sender, int fd, struct iovec bytes, bool more);

/* Whether the range of the descriptor file that out ends with is one whose pages auto hands over,
 * and the next transfer of it needs no disk: its first and its last byte are in the page cache
 * (RWF_NOWAIT; pages in between may have left), or the file ends before them.  False where the file
 * system does not tell. */
bool sender_at_hand(const struct conn_out *out, int file);

#endif
