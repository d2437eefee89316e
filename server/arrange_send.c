/* SPDX-License-Identifier: MIT */
/* arrange_send.c - from options to how answers are sent, and which options are refused, with the
 * reason.
 *
 * As in arrange.c, an option without effect is an error: a way to send is chosen to see it at
 * work.
 */
#include <string.h>
#include "serve.h"

static bool speaks_tcp(const struct serve_options *o)
{
    for (unsigned i = 0; i < o->bind.count; i++)
        if (strncmp(o->bind.item[i], "unix:", 5) != 0)
            return true;
    return o->public;
}

const char *arrange_sending(struct arrangement *a, const struct engine *e,
                            const struct serve_options *o)
{
    bool calls = o->send != SEND_AUTO || !o->gather || o->tcp_cork;
    bool named = strcmp(o->congestion, "auto") != 0;
    bool tcp = !o->tcp_nodelay || o->tcp_cork || o->defer_accept || named;

    if ((calls || tcp) && e->model == ENGINE_NONE)
        return "it has no sockets: --send, --gather, --tcp-nodelay, --tcp-cork, --congestion and "
               "--defer-accept would change nothing";
    if (calls && e->model == ENGINE_COMPLETION)
        return "the kernel sends for it: --send, --gather and --tcp-cork are for engines that make "
               "the call, such as epoll";
    if (tcp && !speaks_tcp(o))
        return "no listener speaks TCP: --tcp-nodelay, --tcp-cork, --congestion and --defer-accept "
               "would change nothing";
    a->send = (struct send_how){
        .way = (enum send_method)o->send, .apart = !o->gather, .cork = o->tcp_cork};
    a->delay = !o->tcp_nodelay;
    a->defer_s = (unsigned)((o->defer_accept + 999) / 1000);
    return NULL;
}

/* --- Descriptors: a thread that splices keeps a pipe ------------------------------------------ */

/* A child of a forking engine has descriptors of its own. */
static bool thread_each(const struct engine *e)
{
    return e->may_block && !e->thread_pool && !e->forks && e->capacity != 1;
}

unsigned arrange_pipes_each(const struct arrangement *a, const struct engine *e)
{
    return a->send.way == SEND_SPLICE && thread_each(e) ? 2 : 0;
}

unsigned arrange_pipes(const struct arrangement *a, const struct engine *e)
{
    unsigned threads = e->thread_pool ? a->tuning.threads : 1;

    if (a->send.way != SEND_SPLICE || thread_each(e))
        return 0;
    return 2 * threads * (a->processes ? 1 : a->workers);
}
