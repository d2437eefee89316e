/* SPDX-License-Identifier: MIT */
/* net.h - sockets as plain calls: a count, a descriptor or 0, else -errno; EINTR is dealt with
 * inside.
 *
 * Everything that touches a socket in user space goes through here, so that a test can make any
 * call fail.
 */
#ifndef BASE_NET_H
#define BASE_NET_H
#include <sys/socket.h>
#include "../core/conn.h"

enum { NET_ADDRESS_TEXT = 128 };

/* Where to listen: "127.0.0.1", "::1", "*", "[::]", "unix:/path". */
struct net_address {
    struct sockaddr_storage sa;
    socklen_t len;
};

/* Parse; port ignored for unix paths.  -EINVAL: not an address. */
int net_address_parse(struct net_address *a, const char *text, uint16_t port);
/* "127.0.0.1:8080", "[::1]:8080", "unix:/path"; always NUL-terminated. */
void net_address_text(const struct net_address *a, char text[NET_ADDRESS_TEXT]);

/* A listening, non-blocking, close-on-exec socket.  Port 0: the kernel chooses, see net_port(). */
int net_listen(const struct net_address *a, int backlog, bool reuseport);
int net_port(int fd); /* of a bound socket, or -errno */

/* One connection from a non-blocking listener: -EAGAIN none; -EMFILE, -ENFILE, -ENOBUFS, -ENOMEM
 * shortage; a peer that died in the queue is skipped.  TCP_NODELAY is inherited from
 * net_listen().  blocking: the new socket's mode. */
int net_accept(int listener, bool blocking);

long net_recv(int fd, char *buf, size_t cap);           /* 0: end of stream */
/* One call's worth: what is in memory, or a range of the descriptor file if that is the first
 * segment (at most TRANSFER_BYTES_MAX either way); a small range goes out together with the
 * memory before it.  0: the file has become shorter. */
long net_send(int fd, const struct conn_out *out, int file);
/* The connection is over, whoever else holds the socket. */
void net_end(int fd);
void net_shut(int fd);                                  /* no more will be sent */
/* bytes that have arrived and were not read (SIOCINQ) */
long net_unread(int fd);
/* how many bytes of those sent the peer has */
uint64_t net_acked(int fd, uint64_t sent);
/* address without port, for the log; "unix" */
int  net_peer(int fd, char text[NET_ADDRESS_TEXT]);

#endif
