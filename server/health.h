/* SPDX-License-Identifier: MIT */
/* health.h - whether this server should get requests, as the answer to /.rung/health.
 *
 *   200 ok           it serves
 *   503 draining     it was asked to stop: what it has begun is finished, new clients go elsewhere
 *   503 no worker    the worker processes have died, and none has been replaced yet
 *
 * The metrics listener always answers it, the public listeners with --health.
 */
#ifndef SERVER_HEALTH_H
#define SERVER_HEALTH_H
#include "inside.h"

bool health_is_asked(struct slice path);
/* find() and page() of struct http_host.  -EAGAIN of health_find(): the answer is 503, and
 * health_page() gives its page. */
int health_find(const struct server *srv, struct source **source);
int health_page(const struct server *srv, struct source **source);
/* Workers that run now.  A process that was killed is missing until another takes its place. */
unsigned health_workers(const struct server *srv);
/* Whether it is one of these sources.  They are static: releasing one does nothing. */
bool health_owns(const struct source *source);

#endif
