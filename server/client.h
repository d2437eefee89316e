/* SPDX-License-Identifier: MIT */
/* client.h - a client's address: that of its connection, or the one that a proxy reports.
 *
 * Two ways to report one: a header before the connection's first bytes (--proxy-protocol), and a
 * field of each request (--trust).  docs/proxies.md says which reports are believed.  The address
 * is looked up when it is needed: for the log, --allow and --deny, and --limit-requests.
 */
#ifndef SERVER_CLIENT_H
#define SERVER_CLIENT_H
#include "../base/address.h"
#include "serve.h"

/* srv->clients stays NULL if the options report no addresses.  Call it once connections_max is
 * known.  An exit code. */
int clients_open(struct server *srv);
void clients_close(struct clients *clients); /* NULL is fine */

/* Keeps the address that a header gave for the connection with that descriptor, until the next
 * connection with the descriptor gives its own.  False: there is no place for it. */
bool clients_tell(struct clients *clients, int fd, const struct address *source);

/* The client of a connection: the address that its header reported, or that of its other end;
 * ADDRESS_NONE: it has gone, or the connection is a proxy's, and of many clients. */
struct address client_of_connection(const struct clients *clients, int fd);

/* The address of the client that sent a request; clients may be NULL: that of the connection.
 * ADDRESS_NONE: it has gone. */
void client_address(const struct clients *clients, int fd, const struct http_head *head,
                    struct address *a);
/* ... as text; "-": it has gone. */
void client_text(const struct clients *clients, int fd, const struct http_head *head,
                 char text[NET_ADDRESS_TEXT]);

/* proxy.c: the protocol that reads the header, and then is `inner`. */
const struct conn_proto *proxy_before(const struct conn_proto *inner);

#endif
