/* SPDX-License-Identifier: MIT */
/* naive.c - accept, serve, repeat: the server of every textbook's first page.
 *
 * The idea: one blocking loop.  Whoever is being served has the server to himself; all others wait
 * in the kernel's accept queue.  What it costs: nothing but the calls that move bytes; no set of
 * descriptors, no wake-ups, no second thread's stack.  For one client at a time nothing is faster.
 * But the wait of each is the sum of all before him: a client that thinks for a second between two
 * requests makes everybody wait a second.  The watcher softens that (a connection that idles goes
 * when another waits, and no one may dawdle past a deadline); it cannot mend it.  Why there is
 * more: while one peer is slow, a server should do something else.  Either it gives each connection
 * a thread that may wait, or it asks the kernel which of them is ready: see epoll.c.
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
    .model = ENGINE_BLOCKING,
    .may_block = true,
    .capacity = 1,
    .run = naive_run,
};
