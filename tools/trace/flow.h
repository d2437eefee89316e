/* SPDX-License-Identifier: MIT */
/* flow.h - events become requests: each connection is a flow with a queue of requests, and every
 * event is attributed by the sequence number of the bytes that it is about.
 *
 *   flow.c         which flow, and which request of it, an event belongs to
 *   flow_bytes.c   where a head, a body and an answer end, by the core's grammar
 *
 * No function here does I/O or asks for the time.
 */
#ifndef TRACE_FLOW_H
#define TRACE_FLOW_H
#include "../../core/http.h"
#include "event.h"
#include "stage.h"

enum {
    FLOWS_MAX = 65536,        /* a megabyte per 2000 of them */
    REQUESTS_MAX = 1024,      /* open on one connection: no client pipelines more */
    LOST_HELD = 32,           /* ... whose answers cannot be distinguished */
    SENDS_KEPT = 16,          /* sends whose answer is not yet known */
    FLOW_CHAINS = 16384,
    QUIET_MS = 1000           /* in which a server that owes an answer would have begun it */
};

struct flow_counts {
    uint64_t seen;     /* requests whose whole head arrived */
    uint64_t merged;   /* ... whose answer could not be distinguished from others */
    uint64_t late;     /* connections that were open before the trace began */
    uint64_t lost;     /* places in a stream where bytes were not seen */
    uint64_t crowded;  /* connections or requests beyond the limits above */
};

enum { STREAM_UNKNOWN, STREAM_HEAD, STREAM_BODY };

/* One direction of a connection. */
struct stream {
    uint32_t next;          /* sequence number of the next byte to read */
    uint8_t state, framing; /* STREAM_; enum http_framing of the body */
    uint64_t left;          /* FRAMING_LENGTH: bytes of the body that are to come */
    struct http_body body;  /* FRAMING_CHUNKED */
    char *partial;            /* a head that comes in pieces: HEAD_BYTES_MAX bytes, or NULL */
    uint32_t partial_len;
};

struct flow {
    struct flow *chain;
    uint64_t cookie;
    uint8_t peer[16];
    uint16_t peer_port;
    bool fresh;             /* seen from its beginning, and no byte has come yet */
    uint32_t requests;      /* that began, ever */
    uint32_t held;          /* of them, in the queue */
    bool told;              /* `ahead` is known: the server's ordinals are ours less that */
    uint32_t ahead;
    uint64_t opened, accepted; /* in ns; 0: not seen */
    struct stream in, out;
    struct request *first, *last;
    uint32_t out_high;      /* the end of what has left, */
    uint64_t out_ns;        /* ... and when that did */
    uint64_t in_ns, said_ns; /* last bytes came; last report of a decided answer */
    bool any_out;
    bool pipelined;         /* a request has begun before the answer to another was whole */
    struct {
        uint32_t seq;
        uint64_t ns;
    } sent[SENDS_KEPT];
    uint32_t sends;         /* ever; the last SENDS_KEPT are there */
};

struct flows {
    void (*finish)(void *arg, const struct request *r); /* each request, once, when it is over */
    void *arg;
    bool sends_known;       /* the kernel reports sends: a request waits for the end of its own */
    struct flow_counts counts;
    unsigned count;
    struct flow *chain[FLOW_CHAINS];
    struct request *spare;
};

void flows_init(struct flows *fs, void (*finish)(void *arg, const struct request *r), void *arg);
/* payload: e->kept bytes. */
void flows_event(struct flows *fs, const struct event *e, const char *payload);
/* The trace ends: requests that are still open are finished as they are.  Frees all memory. */
void flows_end(struct flows *fs);

/* --- flow_bytes.c, for flow.c ----------------------------------------------------------------- */

/* A piece of a stream: len bytes at seq, of which the first `kept` can be read at ptr. */
struct piece {
    const char *ptr;
    uint32_t seq, len, kept;
    uint64_t ns;
};

/* The stream is lost until the next request begins. */
void flow_lose(struct flows *fs, struct stream *s);
/* Whether the bytes at the front may be those of a request's head: a method and a blank. */
bool bytes_begin_request(const char *p, uint32_t n);
/* Read a piece that begins at stream->next. */
void bytes_in(struct flows *fs, struct flow *f, struct piece p);
void bytes_out(struct flows *fs, struct flow *f, struct piece p);

/* The request whose answer is going out or is next; NULL: none. */
static inline struct request *flow_asking(struct flow *f)
{
    struct request *r = f->first;

    while (r && r->at[STAGE_DONE])
        r = r->next;
    return r;
}

#endif
