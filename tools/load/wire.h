/* SPDX-License-Identifier: MIT */
/* wire.h - the layers between a connection's socket and its requests, where there are any: TLS,
 * HTTP/2, or both.
 *
 *   client.c, h2.c   requests and answers, of HTTP/1.1 or in frames   bytes in plain
 *   wire.c           both directions, and the greeting                w->clear, w->plain
 *   tls.c            records                                          wire->out, what recv() gave
 *
 * A connection without it has no wire, and costs nothing more than a look at that pointer.
 */
#ifndef LOAD_WIRE_H
#define LOAD_WIRE_H
#include "h2.h"
#include "tls.h"
#include "worker.h"

struct wire {
    struct tls *tls;  /* NULL: http:// */
    struct h2 *h2;    /* NULL: HTTP/1.1, or not yet */
    struct bytes out; /* for the socket */
    bool heard;       /* a byte has come */
    bool greeted;     /* requests may be sent */
    bool ended;       /* the server has said that it sends nothing more */
};

/* False: no memory. */
bool wire_begin(struct worker *w, struct client *c);
/* Takes leave, unless the connection has failed, and frees it. */
void wire_end(struct worker *w, struct client *c);

/* Goes on with the greeting: takes received bytes from the front of *in, and sends what is due.
 * Returns what went wrong, after it was noted, or 0.  Once wire->greeted is set, *in may have bytes
 * left. */
enum fault wire_greet(struct worker *w, struct client *c, struct slice *in);

/* Takes bytes from the front of *in, until *plain has some or there are no more.  Returns enum
 * TLS_... or how many. */
long wire_hear(struct worker *w, struct client *c, struct slice *in, struct slice *plain);

/* Sends w->clear, frames, and what waits.  0, even if some has to wait; -EPROTO: what the server
 * sends is not HTTP/2; or -errno. */
int wire_send(struct worker *w, struct client *c);

/* Notes why a greeting failed, the first reason of a thread. */
enum fault wire_note(struct worker *w, enum fault what, const char *why);
/* Like wire_note(), when the server has ended the connection, and when it took too long. */
enum fault wire_note_end(struct worker *w, const struct client *c, const char *how);
enum fault wire_note_late(struct worker *w, const struct client *c);

#endif
