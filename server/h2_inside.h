/* SPDX-License-Identifier: MIT */
/* h2_inside.h - how the files that speak HTTP/2 fit together; see h2.h. */
#ifndef SERVER_H2_INSIDE_H
#define SERVER_H2_INSIDE_H
#include <nghttp2/nghttp2.h>
#include "h2_frames.h"
#include "heap.h"
#include "inside.h"

enum {
    /* Answers that a client may ask for at the same time (RFC 9113 recommends 100 at least). */
    H2_STREAMS_MAX = 100,
    /* The number of them that are made and sent at the same time.  Each may hold a send queue of
     * 64 KiB, and an input queue while it waits for a listing; the others wait as text. */
    H2_WORKING_MAX = 32,
    /* Text of requests that wait, of one connection: a hundred with many cookies.  A stream beyond
     * it is refused, and its client may ask again (REFUSED_STREAM). */
    H2_TEXT_BYTES_MAX = 262144,
    /* The fields of a request that is too long, and trailers, are still read up to this limit,
     * because they change the meaning of later fields (HPACK). */
    H2_FIELD_BYTES_MAX = 4 * HEAD_BYTES_MAX,
    /* One frame as it is sent, with its head.  Another is begun while there is room for it. */
    H2_FRAME_BYTES = H2_FRAME_HEAD_BYTES + 16384,
    /* Bytes of a body in one frame, which with its head fills one record of TLS. */
    H2_BODY_BYTES = 16384 - H2_FRAME_HEAD_BYTES,
    /* A smaller piece of a body waits until the send queue is empty. */
    H2_PIECE_BYTES = 4096,
    /* Bytes that wait in the kernel: a small answer is never far behind a large one. */
    H2_NEAR_BYTES = 131072,
    /* Between the notice that no further requests are wanted and the last GOAWAY: requests under
     * way are still answered (RFC 9113 6.8). */
    H2_NOTICE_MS = 250,
    /* How often deadlines of single streams are looked at. */
    H2_CHECK_MS = 100,
    /* After the last stream's deadline the connection ends, unless something was heard or said
     * meanwhile, and so only that stream was reset. */
    H2_GRACE_MS = 500
};

/* RECEIVES: its body is coming, and is thrown away.  TAKES: http_proto has the request, and is fed
 * the body as it comes (h2_body.c).  WAITS: to be begun.  WORKS: http_proto has the request, and
 * has made no head yet.  ANSWERS: fields are submitted, the body follows.  OVER: nothing is held
 * for it any more, and the library has to say so yet.  UNREAD: the same, and the stream is reset
 * once its whole answer has left the send queue, as the client's body has not ended. */
enum stream_state { RECEIVES, TAKES, WAITS, WORKS, ANSWERS, OVER, UNREAD };

struct stream {
    struct nested nested; /* speaks http_proto; TAKES, WORKS and ANSWERS */
    struct stream *prev, *next;
    int32_t id;
    uint8_t state;        /* enum stream_state */
    bool head_only;       /* HEAD: its answer has no body */
    bool unread;          /* answered before its body has come */
    bool chunked;         /* how http_proto writes the answer's body */
    bool trails;          /* a trailer follows the body */
    bool deferred;        /* the body had no byte ready when the library asked */
    struct http_body body;
    struct intake *in;    /* TAKES; otherwise NULL */
    bool open;            /* TAKES: more of its body may come */
    uint64_t left;        /* of a body that is not chunked */
    uint64_t taken, mark; /* RECEIVES: bytes of the body; and how many at the last deadline */
    uint64_t deadline_ms; /* RECEIVES */
    uint32_t text_len;
    char text[];          /* the request */
};

/* A request whose fields arrive. */
struct asking {
    int32_t id;           /* 0: none */
    bool long_;           /* the text is full */
    bool begun;           /* the request line and Host are written */
    bool bad;             /* it cannot be written as text */
    bool expects;         /* Expect: 100-continue */
    bool prioritised;     /* Priority */
    bool sized;           /* Content-Length */
    uint64_t length;      /* ... its value, or 0 */
    nghttp2_rcbuf *pseudo[3]; /* method, path, authority; NULL: not yet */
    uint32_t len;         /* of text */
    uint32_t field_bytes; /* all fields of this block, as RFC 9113 10.5.1 counts them */
    char text[HEAD_BYTES_MAX];
};

/* Which streams the client may not use any more.  Frames for a stream that we have reset may have
 * been on their way; the client knew that the other streams were closed (RFC 9113 5.1). */
enum { H2_RESETS_KEPT = 16 };
struct closed {
    int32_t last;            /* the highest stream that it has opened */
    int32_t gap, gap_end;    /* those that it has left out last: gap < id < gap_end */
    int32_t reset[H2_RESETS_KEPT]; /* by us, the last ones */
    unsigned resets;         /* all of them so far */
};

struct h2 {
    struct conn_proto proto; /* the connection's alone; its address leads here */
    struct conn *c;          /* of the current call */
    nghttp2_session *session;
    struct heap heap;        /* all that the library has of this connection */
    struct stream *first, *last;
    unsigned streams;        /* all of them */
    unsigned working;        /* TAKES, WORKS and ANSWERS */
    unsigned receiving;      /* RECEIVES, and TAKES whose body has not ended */
    unsigned taking;         /* TAKES */
    unsigned making;         /* WORKS: their answers are being made by the host */
    unsigned deferred;
    uint32_t text_bytes;     /* of RECEIVES and WAITS */
    struct asking *asking;   /* NULL: no request's fields arrive */
    struct h2_frames frames;
    uint64_t quiet_ms;       /* when the last stream ended */
    uint64_t check_ms;       /* when streams' deadlines are looked at next */
    uint64_t notice_ms;      /* when the notice of the end was given; 0: not yet */
    struct closed closed;
    uint32_t wrong;          /* the code of an error in what is received now; 0: none */
    bool prioritised;        /* the client has sent PRIORITY_UPDATE */
    bool ended;              /* the client sends nothing more */
    bool unread;             /* there are UNREAD streams */
    bool goaway;             /* requests that come from now on are not answered */
    bool terminated;         /* GOAWAY is submitted, and nothing else is said or heard */
};

static inline struct loop *h2_loop(const struct h2 *h)
{
    return h->c->host->ctx;
}

/* A stream's connection, on the thread that has it now. */
static inline struct conn *stream_conn(const struct h2 *h, struct stream *st)
{
    st->nested.conn.host = h->c->host;
    return &st->nested.conn;
}

/* --- h2_stream.c ------------------------------------------------------------------------------ */
/* No more of a body that is kept is fed: its bytes are released.  A stream without them is fine. */
void h2_stream_fed(struct h2 *h, struct stream *st);
/* Releases what the stream holds.  It stays in the list until the library has closed it. */
void h2_stream_over(struct h2 *h, struct stream *st);
/* ... and ends it for the client. */
void h2_stream_reset(struct h2 *h, struct stream *st, uint32_t code);
/* The library has closed it. */
void h2_stream_free(struct h2 *h, struct stream *st);
/* The client has opened a stream; we have reset one. */
void h2_opened(struct closed *closed, int32_t id);
void h2_closed_add(struct closed *closed, int32_t id);
/* HEADERS or DATA of a stream have come: the code of the error, if it is closed, and the client had
 * to know; NO_ERROR: the library judges. */
uint32_t h2_judge(const struct h2 *h, int32_t id);
/* RST_STREAM, for a stream that may have no state of ours. */
void h2_reset(struct h2 *h, int32_t id, uint32_t code);
/* Ends the connection: GOAWAY. */
void h2_terminate(struct h2 *h, uint32_t code);
/* ... at once: there is no memory for a frame without which the client would wait. */
void h2_give_up(struct h2 *h);
/* ... if that is why the library has refused. */
static inline void h2_judge_memory(struct h2 *h, int err)
{
    if (err == NGHTTP2_ERR_NOMEM)
        h2_give_up(h);
}

/* --- h2_request.c ----------------------------------------------------------------------------- */
void h2_request_callbacks(nghttp2_session_callbacks *callbacks);
void h2_asking_free(struct h2 *h);

/* --- h2_body.c -------------------------------------------------------------------------------- */
enum { H2_FRAMING_BYTES = 64 }; /* room for more fields: Content-Length, Expect */
/* Whether the body of a stream, of which the head has come, goes to the host. */
bool h2_body_is_kept(const struct h2 *h, const struct stream *st);
/* Begins such a stream: it TAKES, or is answered or reset already. */
void h2_body_begin(struct h2 *h, struct stream *st, const struct asking *a);
void h2_body_take(struct h2 *h, struct stream *st, const uint8_t *bytes, size_t n);
void h2_body_ends(struct h2 *h, struct stream *st);
/* Feeds the waiting bytes, as far as the host takes them. */
void h2_body_pump(struct h2 *h, struct stream *st);

/* --- h2_answer.c ------------------------------------------------------------------------------ */
void h2_answer_callbacks(nghttp2_session_callbacks *callbacks);
/* Feeds the text of a request to http_proto: the stream is in that state from then on. */
void h2_stream_feed(struct h2 *h, struct stream *st, enum stream_state state);
/* ... of a stream that WAITS, and submits its answer. */
void h2_stream_begin(struct h2 *h, struct stream *st);
/* A stream that WORKS or TAKES may have its answer now. */
void h2_stream_look(struct h2 *h, struct stream *st);
/* Asks again for the bodies that had no byte ready. */
void h2_streams_resume(struct h2 *h);

#endif
