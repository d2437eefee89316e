/* SPDX-License-Identifier: MIT */
/* naive.c - accept, serve, repeat: the server of every textbook's first page.
 *
 * The idea: one blocking loop.  The connection that is being served has the server to itself; all
 * others wait in the kernel's accept queue.
 *
 * What it costs: the calls that move bytes and nothing else; no set of descriptors, no queue
 * between threads.  For one client at a time there is nothing left to take away.  But each client
 * waits for all clients before it: one that thinks for a second between two requests makes all
 * others wait a second.  The watchdog (a thread that looks at the clock while this one cannot)
 * softens that: it ends an idle connection when another waits, and a slow one at its deadline.  It
 * cannot remove the wait.  Why there is more: while one peer is slow, a server should do something
 * else.  Either each connection gets a process or a thread that may wait for it (fork.c, thread.c,
 * pool.c), or one thread asks the kernel which connections are ready (select.c and those after it).
 */
#include "engine.h"

static int naive_run(struct worker *w)
{
    struct loop *l;
    int fd, err = loop_open(w, &l);

    if (err)
        return err;
    while ((fd = worker_accept(w)) >= 0)
        session_serve(l, fd);
    loop_close(l);
    return 0;
}

const struct engine engine_naive = {
    .name = "naive",
    .summary = "accept, serve, repeat: one connection at a time",
    .use = "you want the shortest server to read",
    .model = ENGINE_BLOCKING,
    .may_block = true,
    .capacity = 1,
    .run = naive_run,
};
