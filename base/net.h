/* SPDX-License-Identifier: MIT */
/* net.h - sockets as plain calls: a count, a descriptor or 0, otherwise -errno; EINTR is dealt
 * with inside.
 *
 * Owns nothing: descriptors are passed as numbers, bytes stay the caller's.  A call blocks only on
 * a socket in blocking mode.  Answers are sent by send.h.
 */
#ifndef BASE_NET_H
#define BASE_NET_H
#include <sys/socket.h>
#include "../core/env.h"

enum { NET_ADDRESS_TEXT = 128 }; /* the longest address as text, with its NUL */

/* Where to listen: "127.0.0.1", "localhost" (the same), "*" (0.0.0.0), "::1", "[::]",
 * "unix:/path". */
struct net_address {
    struct sockaddr_storage sa;
    socklen_t len;
};

/* Parse; port ignored for unix paths.  -EINVAL: not an address. */
int net_address_parse(struct net_address *a, const char *text, uint16_t port);
/* "127.0.0.1:8080", "[::1]:8080", "unix:/path"; always NUL-terminated. */
void net_address_text(const struct net_address *a, char text[NET_ADDRESS_TEXT]);

/* How to listen.  On Linux connections inherit it, so that nothing is set per connection. */
struct net_listening {
    int backlog;
    bool reuseport;
    unsigned mode;    /* permissions of a unix socket's name; 0: by the umask */
    /* TCP only: */
    bool delay;       /* a small segment waits while another is unacknowledged (Nagle) */
    unsigned defer_s; /* accept once the client has sent bytes, or after about defer_s seconds */
    const char *congestion; /* the algorithm that decides how fast to send; NULL: the default */
    /* A connection ends, even after it was closed, if the peer acknowledges nothing for this time
     * although data is under way; 0: the kernel's patience, which is a quarter of an hour. */
    unsigned stall_ms;
};

/* A listening, non-blocking, close-on-exec socket.  Port 0: the kernel chooses, see net_port(). */
int net_listen(const struct net_address *a, const struct net_listening *how);
/* fd listens with reuseport, as do or will n - 1 others on the same address.  A connection goes to
 * the listener whose number is that of the processor that received it, modulo n; listeners are
 * numbered from 0 in the order in which they were opened.  0 or -errno. */
int net_steer(int fd, unsigned n);
/* The listener takes no new handshake: the first packet of each is dropped, and its client sends
 * it again after a second.  Handshakes under way are completed and queued.  A unix socket knows no
 * handshake, and is left as it is.  0 or -errno. */
int net_deafen(int fd);
/* Close the listener (-1: nothing).  A unix socket's name is removed, too, unless another process
 * listens there by now. */
void net_unlisten(int fd);
/* As net_unlisten(), but the number stays taken: from now on it is a copy of `inert`.  A thread
 * that still uses the number does not reach a connection that was given the same one.  0 or
 * -errno. */
int net_unlisten_keep(int fd, int inert);
/* Like net_unlisten_keep(), for a listener whose name another server removes. */
int net_close_keep(int fd, int inert);
/* What net_listen() sets on a listener, for one that another process opened.  0 or -errno. */
int net_listener_set(int fd, const struct net_listening *how);
int net_port(int fd); /* of a bound socket, or -errno */

/* Accept a connection from a non-blocking listener.  -EAGAIN: none waits, or the first few had all
 * died while they waited; -EMFILE, -ENFILE, -ENOBUFS, -ENOMEM: a shortage.  blocking: the new
 * socket's mode. */
int net_accept(int listener, bool blocking);
/* Whether an error of accepting says that only this peer has gone: the next one may be there. */
bool net_peer_died(int err);

long net_recv(int fd, char *buf, size_t cap);           /* 0: end of stream */
/* net_recv_now() and net_send_now() never wait, whatever the socket's mode: they return -EAGAIN. */
long net_recv_now(int fd, char *buf, size_t cap);
long net_send_now(int fd, const char *bytes, size_t n);
/* At most that many bytes wait to be sent in the kernel, so that what is decided later is not far
 * behind.  Does nothing to a socket that is not TCP's. */
void net_keep_near(int fd, int bytes);
/* End the connection, even if other processes hold the socket. */
void net_end(int fd);
void net_shut(int fd);                                  /* no more will be sent */
/* Closing it will reset the connection, so that the kernel frees what is still queued: up to
 * megabytes, which it would keep for minutes for a peer that does not read. */
void net_cut(int fd);
/* On: bytes that do not fill a segment wait (200 ms at most); off: they are sent.  Does nothing to
 * a socket that is not TCP's. */
void net_cork(int fd, bool on);

/* Whether calls wait for the peer.  It cannot fail for an open socket. */
void net_may_block(int fd, bool on);

/* Whether the connection is dead: reset, or shut in both directions.  A peer that has only finished
 * sending looks like one that has closed until something is sent to it. */
bool net_gone(int fd);

/* Bytes that have arrived and were not read (SIOCINQ), or -errno. */
long net_unread(int fd);

/* How many of `sent` bytes the peer has: acknowledged, or out of our queue; all of them where the
 * kernel cannot tell. */
uint64_t net_acked(int fd, uint64_t sent);

/* Bytes written to the connection so far, sent or not; -EAGAIN: they changed meanwhile; or -errno:
 * the kernel cannot tell, or the connection is dead. */
int64_t net_written(int fd);

/* How long ago bytes came from the peer, or its connection was complete: milliseconds, or -errno
 * where the kernel cannot tell (unix sockets). */
long net_silent_ms(int fd);

/* Connections in a listener's queue, or -errno (unix sockets). */
long net_queued(int listener);

/* The peer's address without its port, for the log; "unix".  0 or -errno: it has gone. */
int net_peer(int fd, char text[NET_ADDRESS_TEXT]);

#endif
