/* SPDX-License-Identifier: MIT */
/* address_limits.h - how many connections and requests a client may have, by its address:
 * --limit-connections and --limit-requests.
 *
 *   rate.h            tokens: how many requests a second, and how many at once
 *   address_table.h   what is known of an address: its bucket, its open connections
 *   address_limits.c  counts connections and requests by address, and refuses some
 *
 * A connection counts from accept() until it is closed; with --proxy-protocol from the header,
 * which names its client.  Then it has a seat: the place of its address in the table, by
 * descriptor.  A request on such a connection is counted there by one atomic exchange.  A
 * connection of a trusted proxy or of a Unix socket carries the requests of many clients: it has no
 * seat and is not limited, and the address of each request is looked up (client.h).
 *
 * The table and the seats are in memory that all processes share, so the limits are the server's,
 * however many workers it has.  If a worker process dies, the supervisor gives its seats back.
 * Without the options there is no table, and no function here is called.
 */
#ifndef SERVER_ADDRESS_LIMITS_H
#define SERVER_ADDRESS_LIMITS_H
#include "serve.h"

enum {
    /* Connections of an address beyond its limit that may wait for their 429 at the same time.
     * Each has a slot until its head has come; more than these are closed without an answer. */
    LIMITS_ANSWERED_MAX = 16
};

/* srv->limits stays NULL if the options set none.  Call it when clients_open() was called, and
 * before proxy_before().  An exit code. */
int limits_open(struct server *srv);
void limits_close(struct limits *limits); /* NULL is fine */
/* In a worker process that was just forked: its number. */
void limits_use(struct limits *limits, unsigned number);
/* The worker process of that number died: none of its connections counts any more. */
void limits_lose(struct limits *limits, unsigned number);

/* --- Connections ------------------------------------------------------------------------------ */

/* LIMITS_ANSWER: the connection has a seat as one too many, and limits_protocol() gives it its
 * answer.  LIMITS_CLOSE: it has none, and the caller closes it. */
enum limits_verdict { LIMITS_SERVE, LIMITS_ANSWER, LIMITS_CLOSE };
/* The connection's client is known now. */
enum limits_verdict limits_enter(struct server *srv, int fd);
/* A connection was accepted.  False: it was refused, and is closed. */
bool limits_accept(struct server *srv, int fd);
/* Before the descriptor is closed. */
void limits_leave(struct limits *limits, int fd);
static inline void connection_close(struct server *srv, int fd)
{
    if (srv->limits)
        limits_leave(srv->limits, fd);
    close(fd);
}
/* The connection's protocol: proto, or the one that sends a refusal. */
const struct conn_proto *limits_protocol(const struct limits *limits, int fd,
                                         const struct conn_proto *proto);

/* --- Requests --------------------------------------------------------------------------------- */

/* --limit-requests was given. */
bool limits_requests(const struct limits *limits);
/* What Retry-After says. */
uint32_t limits_retry_s(const struct limits *limits);
/* Counts a request, and returns whether its client may have an answer.  Called by find(), and as
 * http_host.admit, where head may be NULL. */
bool limits_admit(void *loop, const struct conn *c, const struct http_head *head);
/* A stream of HTTP/2 ends before its request was read: the request counts anyway. */
void limits_spend(struct loop *l, const struct conn *c);

#endif
