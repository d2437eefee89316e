/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* http_inside.h - how the files that answer fit together; only core/http_*.c and their tests
 * include it.
 *
 *   http_proto.c   bytes -> head and body -> http_reply()
 *   http_recent.c  heads seen before, with what they mean
 *   http_store.c   bodies that the host keeps
 *   http_reply.c   chooses the answer: find, conditions, ranges, and the heads of 200, 206, 304
 *   http_status.c  answers that are a status with a short page: errors, the redirect, OPTIONS
 *   http_more.c    bodies in pieces: made ones (chunked), several ranges (multipart)
 *   http_cond.c    validators and preconditions      http_range.c  Range
 *   http_refused.c, http_secure.c  protocols that give one answer, whatever is asked for
 *   http_accept.c  Accept-Encoding and Accept        http_text.c   appends text to a buffer
 */
#ifndef CORE_HTTP_INSIDE_H
#define CORE_HTTP_INSIDE_H
#include "http.h"

/* --- http_recent.c: heads seen before --------------------------------------------------------- */

/* What a head means. */
struct http_known {
    struct http_head head;
    struct http_ask ask; /* conn: the connection that asks now */
};

/* What the head at the start of bytes[0..n) means, and its length; NULL: it is not kept, or more is
 * needed.  Valid until http_recent_keep(). */
struct http_known *http_recent_find(struct http_recent *recent, const char *bytes, size_t n,
                                    size_t *used);

/* After http_recent_find() found nothing: bytes[0..used) is a head, and this is what it means.  A
 * head that is worth it is kept from the second time on. */
void http_recent_keep(const struct http_host *host, const char *bytes, size_t used,
                      const struct http_head *head);

/* http_accept.c: sets the ask of find() for GET and HEAD, except the connection.  path receives the
 * decoded path: as many bytes as the head's are enough, and PATH_BYTES_MAX always.  0, or the
 * status of the refusal. */
unsigned http_ask_set(struct http_ask *ask, char *path, const struct http_head *head);

/* --- http_text.c: bytes being written; never beyond end: that they fit is asserted ------------ */
struct text {
    char *at, *end;
};

/* Inline, so that a literal is copied by a few instructions. */
static inline void text_put(struct text *t, const char *bytes, size_t n)
{
    bool fits = n <= (size_t)(t->end - t->at);

    core_assert(fits);
    if (!fits)
        return;
    memcpy(t->at, bytes, n);
    t->at += n;
}

void text_string(struct text *t, const char *string);
void text_number(struct text *t, uint64_t number);
void text_hex(struct text *t, uint64_t number);
void text_html(struct text *t, struct slice s);  /* characters special to HTML are escaped */
void text_query(struct text *t, struct slice s); /* bytes that a URI may not hold become %XX */

/* A literal: its length is known to the compiler. */
#define TEXT_LITERAL(t, literal) text_put((t), (literal), sizeof(literal) - 1)

/* --- http_cond.c: validators and preconditions (RFC 9110 8.8, 13) ----------------------------- */

/* Quote, four 64-bit numbers in hex with three dashes, a coding's suffix, a dash and another number
 * if the host has made the bytes, quote. */
enum { ETAG_BYTES_MAX = 1 + 4 * 16 + 3 + 4 + 17 + 1 };

struct http_mark {
    int64_t mtime_s;
    int64_t now_s;
    uint8_t etag_len; /* 0: there is no ETag, and no date either */
    bool strong;      /* no other bytes ever had this tag or will have it; false: W/ precedes it */
    bool dated;       /* mtime_s can be written as a date */
    bool varies;      /* other codings of the file may have the same date */
    uint8_t stem_len; /* bytes of the tag that identify the file and its state */
    char etag[ETAG_BYTES_MAX]; /* the opaque-tag (8.8.3): with its quotes, without W/ */
};

/* Sets what an answer at now_s says about a source: a made one has neither tag nor date. */
void http_mark_set(struct http_mark *mark, const struct source *source, int64_t now_s);

/* 0: go on; 304 or 412: a precondition says so (RFC 9110 13.2.2, steps 1 to 4). */
unsigned http_cond(const struct http_head *head, const struct http_mark *mark);

/* http_cond() did not return 304, but If-None-Match may name bytes that were made of this file, in
 * this state and in a coding that the client prefers, and that are not in memory now.  True: 304,
 * and the mark has their tag. */
bool http_cond_made(const struct http_head *head, const struct http_ask *ask,
                    struct http_mark *mark);

/* Step 5: whether Range may be used: there is no If-Range, or it names what we have. */
bool http_cond_range(const struct http_head *head, const struct http_mark *mark);

/* --- http_range.c: Range (RFC 9110 14) -------------------------------------------------------- */
struct http_range {
    uint64_t off, len;
};

struct http_ranges {
    unsigned count;
    struct http_range range[RANGES_MAX];
};

enum http_range_want { RANGE_WHOLE, RANGE_SOME, RANGE_NONE /* 416 */ };

/* Which of `size` bytes a Range asks for.  RANGE_SOME: ranges has them, none empty, in the order
 * given.  RANGE_WHOLE: the Range is malformed, in another unit or a list of too many, or its ranges
 * together are longer than the whole.  RANGE_NONE: no range can be satisfied. */
enum http_range_want http_range(struct slice value, uint64_t size, struct http_ranges *ranges);

/* --- http_accept.c: what the client takes (RFC 9110 12.5) ------------------------------------- */
void http_accept_codings(const struct http_head *head, uint16_t q[CODINGS]);
/* Fills json and text; query is set. */
void http_accept_listing(const struct http_head *head, struct http_ask *ask);
/* Whether a browser asks, which gets errors as a page. */
bool http_accept_html(const struct http_head *head);

/* --- What lies in the send queue -------------------------------------------------------------- */
enum http_phase { PHASE_IDLE, PHASE_BODY /* a request's is read */, PHASE_MADE, PHASE_PARTS };

/* conn_state() */
struct http_state {
    struct http_body body;    /* PHASE_BODY */
    uint64_t body_bytes;      /* ... payload so far */
    uint32_t head_bytes;      /* ... of the head in conn_keep() */
    void *into;               /* ... where the host keeps it; NULL: it is thrown away */
    size_t ahead;             /* ... bytes of the input that were used, but not reported as used */
    uint16_t refused;         /* ... the answer that is decided already; 0: none is */
    uint8_t phase;            /* enum http_phase */
    bool chunked;             /* PHASE_MADE */
    bool close;               /* after this answer */
    unsigned part;            /* PHASE_PARTS: the next one */
    struct source *source;    /* held until its last piece is queued */
    void *note;               /* for host->answered() */
    uint64_t boundary[2];     /* PHASE_PARTS */
    struct http_ranges ranges;
};

/* conn_work() */
struct http_work {
    struct http_head head;
    char path[PATH_BYTES_MAX];
    char page[2048]; /* a body is written before its head, which says how long it is */
};

_Static_assert(sizeof(struct http_state) <= CONN_STATE_BYTES, "state fits the outq");
_Static_assert(sizeof(struct http_work) <= CONN_WORK_BYTES, "work fits the outq");

/* --- Heads (http_answer.c) -------------------------------------------------------------------- */

/* One answer being written. */
struct answer {
    struct conn *c;
    const struct http_head *head; /* the request's */
    struct text text;             /* its head, at conn_space() */
    uint64_t size;                /* 416: of the representation */
    uint32_t retry_s;             /* 429; 0: the host's */
    unsigned status;
    bool keep_alive;
};

/* Status line and the fields of every answer; what is special is appended; then Connection and
 * the empty line. */
void answer_open(struct answer *a, unsigned status);
void answer_close(struct answer *a);
/* Reports the answer to the host; the note is for conn_put_end(). */
void *answer_note(const struct answer *a, uint64_t body_bytes);
/* A head that is no message: what it says about itself is not to be believed, so its fields are
 * forgotten. */
static inline void head_forget(struct http_head *head)
{
    head->fields = 0;
    memset(head->first, 0, sizeof(head->first));
}
/* Tells the host which request is answered without find(), as http_host.aim. */
static inline unsigned answer_aim(const struct conn *c, const struct http_head *head)
{
    const struct http_host *host = http_host_of(c);

    return host->aim ? host->aim(host->conn.ctx, c, head) : 0;
}
/* The status of an answer that is given without find(): this one, or 429.  head NULL: it could not
 * be read. */
static inline unsigned answer_admit(const struct conn *c, const struct http_head *head,
                                    unsigned status)
{
    const struct http_host *host = http_host_of(c);

    return host->admit && !host->admit(host->conn.ctx, c, head) ? 429 : status;
}
/* The last piece of the answer is queued. */
void answer_end(struct answer *a, void *note);
/* Sends a piece of a source as the body, and takes over the reference.  Includes answer_note() and
 * answer_end(). */
void answer_send(struct answer *a, struct source *source, struct http_range piece);

void http_put_coding(struct text *t, enum coding coding); /* Content-Encoding, unless identity */
void http_put_length(struct text *t, uint64_t bytes);
const char *http_status_meaning(unsigned status);

/* --- http_status.c ---------------------------------------------------------------------------- */
/* Whole answers; a has c, head and keep_alive.  0, or -EINPROGRESS: nothing was queued. */
int http_status_write(struct answer *a, unsigned status);
int http_status_redirect(struct answer *a, const struct http_ask *ask);
/* To the URL of a SOURCE_MOVED, with the ask's query unless the URL has one. */
int http_status_moved(struct answer *a, const struct http_ask *ask, const struct source *to);
/* A redirect to the address that was asked for, under https at that authority. */
void http_status_secure(struct answer *a, struct slice authority);
void http_status_options(struct answer *a);
void http_status_stored(struct answer *a, const struct http_stored *stored);
unsigned http_status_of_error(int err); /* of find() */

/* --- http_store.c ----------------------------------------------------------------------------- */
/* Whether the host is asked to keep the body of that request. */
bool http_store_is_asked(const struct conn *c, const struct http_head *head);
/* 0 and *into; or -EINPROGRESS, or -status of a refusal. */
long http_store_begin(struct conn *c, const struct http_head *head, void **into);
/* Gives bytes of the body to the host, as conn_proto.input().  If it returns 0 or more,
 * state->refused may say that no more are taken. */
long http_store_input(struct conn *c, const char *bytes, size_t n);
/* The body is complete: 0: its answer is queued; or -EINPROGRESS, or -status. */
long http_store_done(struct conn *c, const struct http_head *head, bool keep_alive);
void http_store_drop(struct conn *c); /* of conn_state(); none is fine */

/* --- http_more.c ------------------------------------------------------------------------------ */
/* The head is queued, the body follows: phase, source and what belongs to the phase are in
 * state. */
void http_more_begin(struct answer *a, struct http_state *state, void *note);
/* Bytes of a whole multipart body; chooses its boundary. */
uint64_t http_parts_bytes(struct http_state *state);
void http_parts_type(struct text *t, const struct http_state *state);
void http_parts_content_range(struct text *t, const struct http_range *range, uint64_t size);

#endif
