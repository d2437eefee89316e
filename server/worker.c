/* SPDX-License-Identifier: MIT */
/* worker.c - one worker: its limits, its watchdog, its cache, and its engine's run. */
#include <string.h>
#include "../base/say.h"
#include "aim.h"
#include "inside.h"
#include "tls.h"

/* A worker's share of the server's connections, limited to what the engine can serve. */
static unsigned conn_max(const struct server *srv)
{
    const struct engine *e = srv->engine;
    uint64_t part = srv->connections_max / srv->arrangement.workers;
    uint64_t share = part ? part : 1; /* without a slot the worker would keep a client waiting */
    uint64_t most = e->capacity ? e->capacity : share;

    if (e->thread_pool && e->may_block)
        most = srv->arrangement.tuning.threads;
    else if (!e->may_block && e->capacity && !srv->arrangement.processes)
        most = e->capacity / srv->arrangement.workers; /* the limit is the process's */
    return (unsigned)(most < share ? most : share);
}

void worker_copy(struct worker *to, const struct worker *from)
{
    *to = (struct worker){
        .server = from->server,
        .number = from->number,
        .listeners = from->listeners,
        .used_before = from->used_before,
        .shared = from->shared,
        .stop_fd = from->stop_fd,
        .stopping = from->stopping,
        .watchdog = from->watchdog,
        .siblings = from->siblings,
        .conn_max = from->conn_max,
        .tuning = from->tuning,
        .cache = from->cache,
    };
    memcpy(to->listener, from->listener, sizeof(to->listener));
}

static void pin(unsigned number)
{
    int err = processors_pin(number);

    if (err) /* the processor was taken away: better to serve on others than not to serve */
        say_error("worker %u cannot be pinned: %s; it runs unpinned", number, say_why(err));
}

int worker_run(struct server *srv, unsigned number)
{
    struct worker w = {
        .server = srv,
        .number = number,
        .listeners = srv->listeners,
        .used_before = srv->used_before || srv->passed,
        .shared = srv->handover != NULL,
        .stop_fd = srv->stop_fd,
        .stopping = &srv->stopping,
        .siblings = srv->arrangement.processes ? 1 : srv->arrangement.workers,
        .conn_max = conn_max(srv),
        .tuning = srv->arrangement.tuning,
    };
    struct cache *shares[HOSTS_MAX + 1] = {NULL};
    int err = 0;

    /* The children of an engine that forks would share one queue of changes, and each would take
     * from it what the others need. */
    if (srv->site && srv->listeners && !srv->engine->forks)
        w.cache = aim_share(srv, shares);
    if (srv->arrangement.pinned)
        pin(number);
    if (srv->engine->may_block && w.tuning.threads > w.conn_max)
        w.tuning.threads = w.conn_max; /* more of them would serve more than --max-connections */
    if (srv->listeners)
        memcpy(w.listener, srv->listener[srv->arrangement.reuseport ? number : 0],
               sizeof(w.listener));
    if (srv->engine->may_block)
        err = watchdog_open(&w.watchdog, &w);
    if (!srv->engine->may_block) /* this thread serves, and no other of this worker */
        stats_own_begin(srv->stats, number + 1);
    if (!err)
        err = srv->engine->run(&w);
    if (srv->tls && srv->tls->kernel)
        tls_last_wait(srv);
    stats_own_end();
    worker_accept_over(&w);
    if (w.watchdog)
        watchdog_close(w.watchdog);
    aim_leave(srv, shares);
    if (err && w.siblings > 1) /* the others would serve on, and the failure would go unnoticed */
        server_stop(srv);
    if (atomic_load(&srv->stopping))
        worker_leave(&w); /* cut off, or failed: the others need not wait for this worker */
    return err;
}
