/* SPDX-License-Identifier: MIT */
/* aim.h - points a loop of a server with several sites to the site of its next request.
 *
 * The code that asks a site (host.c, gate.c, the helpers) finds the site in struct loop, and need
 * not know that there are several.  A server with one site never calls aim(), and costs nothing
 * more.
 */
#ifndef SERVER_AIM_H
#define SERVER_AIM_H
#include "inside.h"

struct cache;

/* Whether there are several sites. */
bool aim_needed(const struct server *srv);
/* Whether any site asks for passwords, or has fields for answers. */
bool aim_asks_passwords(const struct server *srv);
bool aim_has_fields(const struct server *srv);

/* http_host.aim: 421 if the connection's certificate is for another site. */
unsigned aim(void *ctx, const struct conn *conn, const struct http_head *head);

/* The number of the site that answers the request before the loop. */
unsigned aim_number(const struct loop *l);

/* Opens and closes what a loop needs to change sites: nothing if there is one site.  0 or
 * -errno. */
int  aim_open(struct loop *l);
void aim_close(struct loop *l);
/* The loop's helper asks this site from now on; nothing without a helper. */
void aim_offload(struct loop *l);

/* A worker's shares in the caches of all sites; the first of them is returned, and the others are
 * found by cache_of(). */
struct cache *aim_share(struct server *srv, struct cache **shares);
void aim_leave(const struct server *srv, struct cache **shares);
unsigned aim_sites(const struct server *srv); /* how many shares that are */

#endif
