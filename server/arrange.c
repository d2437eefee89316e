/* SPDX-License-Identifier: MIT */
/* arrange.c - from options to an arrangement of workers, and which options are refused, with the
 * reason.
 *
 * A combination that makes no sense is an error, not ignored: a queue for an engine that has none
 * would be measured without being there.  0 stands for "not given" and becomes the default here.
 */
#include "serve.h"

enum { QUEUE_LENGTH = 256, NAP_MS = 1, ONLY_FOR_TEXT = 320 };
enum { ACCEPT_SHARED, ACCEPT_REUSEPORT, ACCEPT_STEERED }; /* the choices of --accept */

static bool has_pool(const struct engine *e)
{
    return e->thread_pool;
}

static bool has_loop_that_sleeps(const struct engine *e)
{
    return !e->may_block && !e->thread_pool && e->model != ENGINE_NONE &&
           e != engine_find("nonblock");
}

/* "WHAT for a, b and c: WHY", of the engines that have it; valid until the next call. */
static const char *only_for(const char *what, bool (*have)(const struct engine *), const char *why)
{
    static char text[ONLY_FOR_TEXT];
    unsigned count = 0, seen = 0;
    int len = snprintf(text, sizeof(text), "%s for ", what);

    for (unsigned i = 0; engine_list[i]; i++)
        count += have(engine_list[i]);
    for (unsigned i = 0; engine_list[i] && len < ONLY_FOR_TEXT; i++) {
        if (!have(engine_list[i]))
            continue;
        seen++;
        len += snprintf(text + len, (size_t)(ONLY_FOR_TEXT - len), "%s%s",
                        seen == 1 ? "" : seen == count ? " and " : ", ", engine_list[i]->name);
    }
    if (len < ONLY_FOR_TEXT)
        snprintf(text + len, (size_t)(ONLY_FOR_TEXT - len), ": %s", why);
    return text;
}

/* A sentence, or NULL: the options fit the engine. */
static const char *refusal(const struct engine *e, const struct serve_options *o)
{
    bool queue = o->pool_queue || o->queue_length || o->pool_drain || o->pool_yield ||
                 o->pool_balance;
    if (e->model == ENGINE_NONE && (o->workers > 1 || o->workers_as || o->accept || o->pin))
        return "it has no connections to share among workers: --workers, --workers-as, --accept "
               "and --pin would change nothing";
    if (o->workers > 1 && e->forks && !o->workers_as)
        return "it forks, and children belong to a process, not to a thread: add --workers-as "
               "process";
    if (o->workers > 1 && e->may_block && e->capacity != 1 && !e->forks && !o->workers_as)
        return "it makes its own threads: use --threads, or --workers-as process";
    if (o->threads && !has_pool(e))
        return only_for("--threads is", has_pool, "others have no fixed number of threads");
    if (queue && !has_pool(e))
        return only_for("--pool-queue, --pool-balance, --queue-length, --pool-drain and "
                        "--pool-yield are", has_pool, "it has no queue");
    if (o->pool_queue == 1 + QUEUE_ACCEPT && !e->may_block)
        return "its queue holds ready connections, not new ones: choose mutex or lockfree";
    if (o->pool_queue == 1 + QUEUE_ACCEPT && (o->queue_length || o->pool_drain || o->pool_yield))
        return "--pool-queue accept uses the kernel's queue: its length is --backlog, and no "
               "thread drains it";
    if (o->pool_balance && o->pool_queue != 1 + QUEUE_LOCKFREE)
        return "--pool-balance chooses among the threads' own queues: add --pool-queue lockfree";
    if (o->queue_length && o->pool_queue == 1 + QUEUE_LOCKFREE &&
        o->queue_length < (o->threads ? o->threads : ENGINE_THREADS))
        return "--queue-length is divided among the threads' own queues: it must be at least the "
               "number of --threads";
    if (o->nap && e != engine_find("nonblock"))
        return "--nap is for nonblock: every other engine is woken by the kernel";
    if (o->busy && !has_loop_that_sleeps(e))
        return only_for("--busy is", has_loop_that_sleeps,
                        "each has a loop that sleeps until the kernel reports an event");
    if (o->epoll_trigger && e != engine_find("epoll"))
        return "--epoll-trigger is for epoll: no other engine has such a choice";
    return NULL;
}

/* A sentence, or NULL: that many workers can share the port in that way. */
static const char *sharing_refusal(unsigned workers, unsigned accept)
{
    if (accept == ACCEPT_REUSEPORT && workers == 1)
        return "--accept reuseport with one worker is the same as shared: add --workers";
    if (accept == ACCEPT_STEERED && workers == 1)
        return "--accept steered chooses among workers, and there is one worker: add --workers";
    if (accept == ACCEPT_STEERED && workers > processors_all())
        return "--accept steered chooses by processor, and there are more workers than processors: "
               "some workers would never get a connection";
    return NULL;
}

unsigned arrange_workers(const struct engine *e, const struct serve_options *o)
{
    if (o->workers)
        return (unsigned)o->workers;
    return e->may_block || e->model == ENGINE_NONE ? 1 : processors_usable();
}

const char *arrange_refusal(const struct engine *e, const struct serve_options *o)
{
    struct arrangement unused = {0};
    const char *why = refusal(e, o);

    if (!why)
        why = sharing_refusal(arrange_workers(e, o), o->accept);
    return why ? why : arrange_sending(&unused, e, o);
}

int arrange(struct server *srv, const struct serve_options *o)
{
    const struct engine *e = srv->engine;
    struct arrangement *a = &srv->arrangement;
    const char *why = arrange_refusal(e, o);

    a->workers = arrange_workers(e, o);
    if (!why)
        why = arrange_sending(a, e, o);
    if (why) {
        say_error("engine %s does not support these options: %s", e->name, why);
        return EXIT_USAGE;
    }
    a->processes = o->workers_as == 1;
    a->reuseport = o->accept != ACCEPT_SHARED;
    a->steered = o->accept == ACCEPT_STEERED;
    a->pinned = o->pin;
    if (a->pinned && a->workers > processors_usable())
        say("--pin on: %u workers share %u processors", a->workers, processors_usable());
    a->tuning = (struct tuning){
        .threads = o->threads ? (unsigned)o->threads : ENGINE_THREADS,
        .queue = o->pool_queue ? o->pool_queue - 1 : QUEUE_MUTEX,
        .queue_length = o->queue_length ? (unsigned)o->queue_length : QUEUE_LENGTH,
        .in_turn = o->pool_balance == 2,
        .drain_all = o->pool_drain == 1,
        .yield = o->pool_yield == 1,
        .nap_ms = o->nap ? (unsigned)o->nap : NAP_MS,
        .busy_us = (unsigned)o->busy,
        .trigger = o->epoll_trigger ? o->epoll_trigger - 1 : TRIGGER_LEVEL,
    };
    return EXIT_DONE;
}
