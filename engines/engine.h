/* SPDX-License-Identifier: MIT */
/* engine.h - what an engine is, and the list of all engines in the order to read them in. */
#ifndef ENGINES_ENGINE_H
#define ENGINES_ENGINE_H
#include "../server/server.h"

enum engine_model { ENGINE_BLOCKING, ENGINE_READINESS, ENGINE_COMPLETION, ENGINE_NONE };

struct engine {
    const char *name, *summary;
    const char *use;         /* when to choose it: ends the sentence "use it when" */
    enum engine_model model; /* for docs and plots; no code branches on it */
    bool may_block;          /* gets a host that blocks, and the watchdog */
    bool forks;              /* starts child processes, so its workers cannot be threads */
    bool thread_pool;        /* serves on --threads threads; if it may block, those are its slots */
    unsigned capacity;       /* connections at once: 1, or ENGINE_DESCRIPTORS; tests scale to it */
    unsigned stack_bytes;    /* stack of each connection; 0: a connection has none of its own */
    /* gives NULL if that many workers can run here, otherwise a sentence that says why not; the
     * member may be NULL */
    const char *(*probe)(unsigned workers);
    int (*run)(struct worker *w); /* serve until the server stops; 0 or -errno */
};

enum {
    ENGINE_DESCRIPTORS = 0, /* capacity: as many as there are descriptors */
    ENGINE_THREADS = 32     /* ... of a pool: the default of --threads */
};

/* One line each: X(name).  engine_NAME is defined in NAME.c. */
#define ENGINES(X) \
    X(naive) \
    X(fork) \
    X(thread) \
    X(pool) \
    X(nonblock) \
    X(select) \
    X(poll) \
    X(epoll) \
    X(dispatch) \
    X(coro) \
    X(uring) \
    X(null)

#define X(name) extern const struct engine engine_##name;
ENGINES(X)
#undef X

#endif
