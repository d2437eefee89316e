/* SPDX-License-Identifier: MIT */
/* gate.c - whether a client may have an answer at all, decided before its path is looked at.
 *
 * A password's hash takes a tenth of a second or more.  So a helper thread computes it for a loop,
 * through a queue like that of listings (offload.c), and only the client that sent the password
 * waits.  A loop that may block computes it where it is.
 */
#include <errno.h>
#include "client.h"
#include "route.h"

enum { GATE_JOBS_MAX = 64 /* passwords that wait to be checked: some seconds */ };

/* The queue is made for searches, so the credentials travel as the path that is asked for.  There
 * is no source to return: "yes" is an error, too. */
static int gate_known(void *auth, const struct http_ask *ask, struct source **source)
{
    int err = auth_known(auth, ask->path);

    (void)source;
    return err ? err : -EALREADY;
}

static int gate_check(void *auth, const struct http_ask *ask, struct source **source)
{
    int err = auth_check(auth, ask->path);

    (void)source;
    return err ? err : -EALREADY;
}

int gate_open(struct loop *l)
{
    return offload_open(&l->gate, l->site, l->wake_fd, 0);
}

bool gate_lets_in(struct loop *l, const struct http_ask *ask)
{
    const struct server *srv = l->worker->server;
    struct address client;

    if (!l->route || !l->route->peers)
        return true;
    client_address(srv->clients, session_of_conn(ask->conn)->fd, ask->from, &client);
    return peers_admit(l->route->peers, &client);
}

/* Whether the password is right. */
static int check(struct loop *l, const struct http_ask *ask)
{
    struct auth *auth = l->route->auth;
    struct http_ask said = {.path = auth_credentials(ask->from), .conn = ask->conn};
    struct source *none;
    int err;

    if (!said.path.ptr)
        return -EKEYREJECTED;
    if (l->gate) {
        offload_ask(l->gate, (struct offload_from){l->site, auth, GATE_JOBS_MAX, gate_known,
                                                   gate_check});
        err = offload_find(l->gate, &said, &none);
        return err == -EALREADY ? 0 : err;
    }
    err = auth_known(auth, said.path);
    return err == -EINPROGRESS ? auth_check(auth, said.path) : err;
}

int gate_admit(struct loop *l, const struct http_ask *ask)
{
    if (!gate_lets_in(l, ask))
        return -EACCES;
    return l->route->auth ? check(l, ask) : 0;
}
