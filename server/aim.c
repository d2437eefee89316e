/* SPDX-License-Identifier: MIT */
/* aim.c - see aim.h.
 *
 * Cost of a request, with several sites: the host's name is copied, and looked up in a sorted
 * table.  If it is for another site than the one before, the loop's fields change, and the cache
 * that comes next looks for changes before it answers.
 *
 * RFC 9110 15.5.20: a client may use a connection for other names that its certificate covers, and
 * browsers do with HTTP/2.  A request for the site of another name, which this certificate does not
 * cover, gets 421 and is repeated on a connection of its own.  A client that did not say for which
 * name it connects is not refused.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "aim.h"
#include "cache.h"
#include "hosts.h"

struct aim {
    unsigned number; /* of the site that the loop is turned to */
    struct cache_reader *reader[]; /* of each */
};

/* --- What the sites have ---------------------------------------------------------------------- */

unsigned aim_sites(const struct server *srv)
{
    return srv->hosts ? srv->hosts->count : 1;
}

bool aim_needed(const struct server *srv)
{
    return aim_sites(srv) > 1;
}

static const struct route *route_of(const struct server *srv, unsigned i)
{
    const struct route *r = srv->hosts ? &srv->hosts->row[i].route : srv->route;

    return r && r->used ? r : NULL;
}

bool aim_asks_passwords(const struct server *srv)
{
    bool any = false;

    for (unsigned i = 0; i < aim_sites(srv); i++)
        any = any || (route_of(srv, i) && route_of(srv, i)->auth);
    return any;
}

bool aim_has_fields(const struct server *srv)
{
    bool any = false;

    for (unsigned i = 0; i < aim_sites(srv); i++)
        any = any || (route_of(srv, i) && route_of(srv, i)->fields);
    return any;
}

/* --- Caches ----------------------------------------------------------------------------------- */

struct cache *aim_share(struct server *srv, struct cache **shares)
{
    unsigned n = aim_sites(srv);
    const struct cache_limits limits = {.bytes = srv->cache_bytes / n,
                                        .reads = srv->tls && !srv->tls->kernel};

    for (unsigned i = 0; i < n; i++)
        shares[i] = cache_share(srv->hosts ? srv->hosts->row[i].site : srv->site, limits,
                                srv->stats);
    return shares[0];
}

void aim_leave(const struct server *srv, struct cache **shares)
{
    for (unsigned i = 0; i < aim_sites(srv); i++)
        cache_leave(shares[i]);
}

/* --- Turning ---------------------------------------------------------------------------------- */

static int find_in_cache(void *cache, const struct http_ask *ask, struct source **source)
{
    return cache_find(cache, ask, source);
}

static int list_in_cache(void *cache, const struct http_ask *ask, struct source **source)
{
    return cache_list(cache, ask, source);
}

void aim_offload(struct loop *l)
{
    struct offload_from from = {.site = l->site};

    if (!l->offload)
        return;
    if (l->cache)
        from = (struct offload_from){l->site, l->cache, 0, find_in_cache, list_in_cache};
    offload_ask(l->offload, from);
}

static void turn(struct loop *l, unsigned number)
{
    const struct server *srv = l->worker->server;

    l->aim->number = number;
    l->site = srv->hosts->row[number].site;
    l->route = route_of(srv, number);
    l->log = srv->hosts->row[number].log;
    l->upload = hosts_upload(srv->hosts, number);
    l->cache = l->aim->reader[number];
    l->looked = l->received - 1; /* this cache has not looked since then */
    aim_offload(l);
}

unsigned aim_number(const struct loop *l)
{
    return l->aim ? l->aim->number : 0;
}

int aim_open(struct loop *l)
{
    const struct server *srv = l->worker->server;
    unsigned n = aim_sites(srv);

    if (!aim_needed(srv))
        return 0;
    l->aim = calloc(1, sizeof(*l->aim) + n * sizeof(l->aim->reader[0]));
    if (!l->aim)
        return -ENOMEM;
    l->aim->reader[0] = l->cache;
    for (unsigned i = 1; i < n; i++)
        l->aim->reader[i] = cache_reader_open(cache_of(srv->hosts->row[i].site));
    return 0;
}

void aim_close(struct loop *l)
{
    if (!l->aim)
        return;
    l->cache = l->aim->reader[0];
    for (unsigned i = 1; i < aim_sites(l->worker->server); i++)
        cache_reader_close(l->aim->reader[i]);
    free(l->aim);
    l->aim = NULL;
}

/* Whether the connection was made for the name of another site, and has no certificate for this. */
static bool is_misdirected(const struct hosts *h, const struct conn *c, const char *name)
{
    const char *asked = h->tls.count ? tls_name(c) : NULL;
    char other[HOST_TEXT];

    if (!asked || strcasecmp(asked, name) == 0)
        return false;
    hosts_read((struct slice){asked, strlen(asked)}, other);
    return hosts_find(h, other) != hosts_find(h, name) && !tls_covers(c, name);
}

unsigned aim(void *ctx, const struct conn *conn, const struct http_head *head)
{
    struct loop *l = ctx;
    const struct hosts *h = l->worker->server->hosts;
    char name[HOST_TEXT];
    unsigned number;

    hosts_read(hosts_authority(head), name);
    number = hosts_find(h, name);
    if (number != l->aim->number)
        turn(l, number);
    return *name && is_misdirected(h, conn, name) ? 421 : 0;
}
