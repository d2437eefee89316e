/* SPDX-License-Identifier: MIT */
/* stage.h - one request as it was seen, and the stages that it went through.
 *
 * A stage is a moment.  The time that a stage took is counted from the stage before it that is
 * known, so that the times always add up to the whole.  A missing stage is shown as missing, not as
 * zero: its time is in that of the next one.  No function here asks for the time or for memory.
 *
 * Not every request has every stage (STAGE_NONE): only the first on a connection was accepted, and
 * only some answers are compressed.
 *
 * A connection is accepted before its first request comes, or after, because it waits in the
 * listener's queue.  The time of `accepted` is that wait, from the end of the handshake.  If the
 * head has come meanwhile, the next stages count from the moment of acceptance; if not, the time
 * that the client took to send it is in no stage.
 *
 * The times at which bytes were queued are a second clock: if the connection is corked, a send ends
 * before the packet leaves; on the loopback interface it ends after the client has acknowledged it.
 * They are therefore no stage, and never part of a sum.
 */
#ifndef TRACE_STAGE_H
#define TRACE_STAGE_H
#include <stdbool.h>
#include <stdint.h>

enum stage {
#define STAGE(id, ...) STAGE_##id,
#include "stage.def"
#undef STAGE
    STAGES,
    STAGE_SHOWN = STAGE_ACCEPTED /* the first that is shown: before it no time has passed */
};

enum { METHOD_TEXT = 16, TARGET_TEXT = 256 };

enum ending {
    ENDED_ANSWERED, /* the whole answer has left */
    ENDED_CUT,      /* the connection was closed before */
    ENDED_OPEN,     /* the trace ended before */
    ENDED_MERGED    /* the beginning or end of its answer is not known */
};

struct request {
    uint64_t at[STAGES];     /* when each stage was reached, in ns; 0: not known */
    uint64_t opened;         /* the handshake's end, if it is the first on a connection that was
                              * seen from there; otherwise 0 */
    uint64_t queued, queued_all; /* ... when the answer's first and last byte were handed to TCP */
    uint64_t cookie;         /* of the socket */
    uint32_t ordinal;        /* of the request on its connection, as far as it was seen; from 1 */
    uint32_t tid;            /* the thread that received the head's end; 0: not known */
    uint32_t begin, head_end, out_begin, out_end; /* sequence numbers */
    uint64_t answer_bytes;
    uint8_t peer[16];
    uint16_t peer_port, status; /* status 0: not known */
    uint8_t ending;
    bool busy;               /* the thread was awake when the head arrived: nothing to wake */
    bool head_whole, begun, bounded; /* head_end, out_begin, out_end are known */
    char method[METHOD_TEXT], target[TARGET_TEXT]; /* with a NUL; cut to fit */
    struct request *next;    /* on the same connection */
};

enum stage_state { STAGE_MISSING, STAGE_BUSY, STAGE_KNOWN, STAGE_NONE };

struct stages {
    uint8_t state[STAGES];   /* enum stage_state */
    uint64_t took_ns[STAGES]; /* of those known: since the one known before; the first: 0 */
    uint64_t end_ns[STAGES]; /* when each known one was over, as took_ns counts it */
    uint64_t answer_ns[STAGES]; /* the part of each that belongs to server_ns; their sum is that */
    uint64_t total_ns;       /* the sum */
    uint64_t server_ns;      /* from the head's last byte to the answer's last byte */
    bool server_known;
};

/* A stage whose time lies before that of an earlier stage is missing. */
void stages_of(const struct request *r, struct stages *s);

/* The known stage that took the most time, of those up to the answer's last byte; -1: none took
 * any.  Later stages are the client's. */
int stages_slowest(const struct stages *s);

const char *stage_name(enum stage stage);

#endif
