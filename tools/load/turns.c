/* SPDX-License-Identifier: MIT */
/* turns.c - which URL a connection asks for next: in turn, by its popularity, or as a log says. */
#include "workload.h"

/* Connections to the same peer share its URLs: each begins one URL after the connection before it,
 * and steps by the number of these connections.  If there are more connections than URLs, each asks
 * for all URLs. */
void turns_begin(const struct plan *p, struct client *c, unsigned number)
{
    uint32_t targets, together;

    c->peer = number % p->peers;
    targets = p->peer[c->peer].targets;
    together = p->connections / p->peers + (c->peer < p->connections % p->peers);
    c->turn = number / p->peers % targets;
    c->stride = together < targets ? together : 1;
}

/* The URL of the peer whose turn it is. */
static uint32_t next_turn(struct client *c, const struct peer *peer)
{
    uint32_t turn = c->turn;

    c->turn = (uint32_t)(((uint64_t)turn + c->stride) % peer->targets);
    return peer->target[turn];
}

/* With the log's times each thread has its own lines; otherwise all threads share a place in the
 * log. */
static uint32_t next_line(struct worker *w)
{
    const struct replay *log = w->plan->replay;
    uint64_t at;

    if (log->at_ns)
        at = w->arrivals * w->plan->threads + w->index;
    else
        at = atomic_fetch_add_explicit(&w->run->line, 1, memory_order_relaxed);
    return log->target[at % log->lines];
}

void turns_next(struct worker *w, struct client *c, struct shot *s)
{
    const struct plan *p = w->plan;
    const struct peer *peer = &p->peer[c->peer];

    if (p->replay)
        s->target = next_line(w);
    else if (peer->popular)
        s->target = peer->target[popular_draw(peer->popular, w)];
    else
        s->target = next_turn(c, peer);
    if (p->mix)
        mix_load(w, s);
}
