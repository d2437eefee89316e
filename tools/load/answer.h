/* SPDX-License-Identifier: MIT */
/* answer.h - turns bytes from a server into answers and checks each: framing by the core's strict
 * grammar, status, length, and the body against the file or against the first one of that URL.
 *
 * An answer belongs to one connection and is fed the bytes as they arrive.  It copies only a head
 * that arrived in pieces or that is new.  An error that leaves the beginning of the next answer
 * clear (a status, a body) is a fault of this answer alone; any other error breaks the connection.
 */
#ifndef LOAD_ANSWER_H
#define LOAD_ANSWER_H
#include "digest.h"
#include "load.h"

/* The first body of a URL that this thread received; or a file of --check whose bytes are not in
 * memory, which is known from the beginning and the same for all threads. */
struct reference {
    uint64_t digest, bytes;
    bool known, of_file;
};

/* The last head that was received for a target, and its meaning.  The meaning depends on the bytes
 * alone: if the same bytes come again, they are only compared.  Heads change when their date does,
 * once a second. */
enum { SEEN_PLACES = 16 /* of a thread; a power of two */, SEEN_BYTES_MAX = 1024 };
struct seen {
    uint32_t len; /* of bytes; 0: none */
    struct http_head head; /* points into bytes */
    char bytes[SEEN_BYTES_MAX];
};

struct answer {
    struct http_body body;
    uint64_t got;      /* bytes of the body */
    uint64_t wrong_at; /* the fault's place in it */
    struct digest digest;
    char *partial; /* HEAD_BYTES_MAX, once a head came in pieces */
    uint32_t partial_len;
    uint16_t status;
    uint8_t fault; /* enum fault: the first thing wrong */
    uint8_t framing;
    bool in_body, keep_alive;
    bool as_meant, uncompared; /* of a mix: see struct kind_tally */
    bool due;                  /* the body's length is known: */
    uint64_t expect_bytes;
    const char *expect;        /* ... and these are its bytes, or NULL */
};

/* The expectations for one answer. */
struct question {
    const struct plan *plan;
    const struct target *target;
    struct reference *reference; /* of the target, or NULL: no digest is compared */
    struct seen *seen;           /* of the target and others, or NULL: heads are not kept */
    const struct asked *asked;   /* of a mix: what was asked; or NULL */
    const char *message;         /* echo: what was sent */
    uint32_t message_bytes;
    unsigned shown;              /* --show: number of the request; 0: it is not shown */
};

enum { ANSWER_MORE, ANSWER_DONE, ANSWER_BROKEN };

void answer_begin(struct answer *a);
/* Take the answer's bytes from the front of *bytes.  MORE: all are taken, and the answer is not
 * complete.  DONE: the bytes left belong to the next answer; a->fault may say what was wrong.
 * BROKEN: a->fault says why, and no later byte can be trusted. */
int answer_feed(struct answer *a, const struct question *q, struct slice *bytes);
int answer_feed_echo(struct answer *a, const struct question *q, struct slice *bytes);
/* The stream has ended: DONE if that is how this answer ends, otherwise BROKEN. */
int answer_end(struct answer *a, const struct question *q);

/* --- answer_expect.c -------------------------------------------------------------------------- */

void answer_fault(struct answer *a, enum fault what); /* the first one counts */
/* The expected body.  ptr NULL: a digest stands for its bytes, and only its length is compared. */
void answer_expect_body(struct answer *a, const struct http_head *head, struct slice body);
/* Like answer_expect_body(), but with ptr NULL nothing is known of the body. */
void answer_expect(struct answer *a, const struct http_head *head, struct slice body);
/* Only its length is known. */
void answer_expect_bytes(struct answer *a, const struct http_head *head, uint64_t bytes);

/* --- show.c ----------------------------------------------------------------------------------- */

void show_answer(unsigned number, struct slice head);

#endif
