/* SPDX-License-Identifier: MIT */
/* arrange_send.c - from options to how answers leave, and which of that is refused, with the
 * reason.
 *
 * As in arrange.c, what would have no effect is an error: whoever asks for a way to send wants to
 * see it at work.
 */
#include "serve.h"

const char *arrange_sending(struct arrangement *a, const struct engine *e,
                            const struct serve_options *o)
{
    bool own_way = o->send != SEND_AUTO || !o->gather;

    if (own_way && e->model == ENGINE_NONE)
        return "it has no sockets: --send and --gather would change nothing";
    if (own_way && e->model == ENGINE_COMPLETION)
        return "the kernel sends for it: --send and --gather are for engines that make the call";
    a->send = (struct send_how){.way = (enum send_way)o->send, .apart = !o->gather};
    return NULL;
}

/* --- Descriptors: a thread that splices keeps a pipe ------------------------------------------ */

/* A child of a forking engine has descriptors of its own. */
static bool thread_each(const struct engine *e)
{
    return e->may_block && !e->crew && !e->forks && e->capacity != 1;
}

unsigned arrange_pipes_each(const struct arrangement *a, const struct engine *e)
{
    return a->send.way == SEND_SPLICE && thread_each(e) ? 2 : 0;
}

unsigned arrange_pipes(const struct arrangement *a, const struct engine *e)
{
    unsigned threads = e->crew ? a->tuning.threads : 1;

    if (a->send.way != SEND_SPLICE || thread_each(e))
        return 0;
    return 2 * threads * (a->processes ? 1 : a->workers);
}
