/* SPDX-License-Identifier: MIT */
/* loop.h - one thread's event loop, for the server's own files.  To engines the type is opaque. */
#ifndef SERVER_LOOP_H
#define SERVER_LOOP_H
#include "../core/http.h"
#include "probe.h"
#include "server.h"

struct received;
struct batch;

/* What one thread needs to run sessions. */
struct loop {
    struct worker *worker;
    uint64_t now_ms;      /* monotonic; loop_tick() refreshes it */
    struct wheel wheel;   /* deadlines, lazily */
    struct http_host host; /* what the core asks; ctx calls with this loop's buffers and date */
    unsigned live;        /* sessions open */
    uint32_t generation;  /* of the session opened last */
    /* All sessions, least recently looked at first: see victims_find() in loop.c */
    struct session *first, *last;
    struct buffers *buffers;
    /* The site that answers the request before us.  With several, aim.c changes these, what the
     * two helpers ask, and the cache below, from one request to the next. */
    struct site *site;         /* NULL for echo */
    const struct upload_to *upload; /* NULL: it takes none */
    const struct route *route; /* NULL: each path is answered by itself alone */
    struct log *log;           /* NULL: off */
    struct aim *aim;           /* NULL: there is one site at most */
    struct offload *offload;
    struct offload *gate; /* checks passwords; NULL: this thread does so, or there are none */
    struct offload *store; /* writes uploads; NULL: this thread does so, or there are none */
    /* The answer that is being made: its file's path, or NULL, and whether it is a listing. */
    const char *seen_path;
    bool seen_made;
    struct fetch *fetch;  /* NULL: this thread waits for the disk itself */
    unsigned resumed;     /* sessions given out by loop_resumed() in this turn */
    struct cache_reader *cache; /* or NULL */
    /* Receives so far, or batches of them; and how many there were when the cache last looked for
     * changes.  The cache looks again before the loop answers from what was received since. */
    uint32_t received, looked;
    /* Requests that were received and are not yet answered: session_receive(). */
    unsigned batched;
    struct batch *batch;            /* NULL: none yet */
    const struct received *ahead;   /* what the next session_pump() receives first; or NULL */
    uint32_t busy_mark;    /* receives and new connections when the loop last looked */
    uint64_t busy_us;      /* ... and until when it looks for events without sleeping */
    struct sender *sender;
    struct probe_stamps stamps; /* of the answer that is being made, while it is watched */
    bool health_asked;          /* --health: ... is the one about this server's health */
    struct bench *bench; /* null engine only */
    struct victims *victims; /* sessions that give up their slots, from loop_expired(); or NULL */
    int wake_fd;          /* readable: call loop_woken(); engines wait on it as on the sockets */
    int set_fd;           /* the engine's: loop_has_set() */
    /* no descriptor or no room for another connection: do not wait for listeners */
    bool paused;
    bool awaited;         /* stepped back: a client waited at the last look */
    bool closed;          /* stopping, and the listeners' queues are empty */
    uint64_t call_ms;     /* stopping: handshakes under way may still complete until then */
    unsigned taken;       /* stopping: connections accepted since */
    bool edge;            /* the engine's: readiness is reported once, so pump until -EAGAIN */
    bool more;            /* the last session_pump() was stopped by its budget, not by the socket */
    uint64_t retry_ms;    /* when to try again after a pause */
    uint64_t drain_ms;    /* stopping: when the last sessions are cut off; 0 while serving */
    char date[32];
    char scratch[RECV_BYTES_MAX];
    char plain[RECV_BYTES_MAX]; /* TLS: what was decrypted, or is to be encrypted */
};

#endif
