/* SPDX-License-Identifier: MIT */
/* h2.h - HTTP/2 on the client's side, without a socket: h2.c by nghttp2, or h2_absent.c where its
 * header is not installed.
 *
 * A request is a stream, whose shot and answer have a place of their own: answers come in any
 * order.
 */
#ifndef LOAD_H2_H
#define LOAD_H2_H
#include "bytes.h"
#include "worker.h"

struct h2;

bool h2_is_built(void);

/* NULL: no memory.  Its preface and SETTINGS are made by h2_make(). */
struct h2 *h2_begin(struct worker *w, struct client *c);
void h2_end(struct h2 *h); /* NULL is fine */

/* The place of the next request; then the request is filled in, and: */
struct shot *h2_place(struct h2 *h);
void h2_ask(struct h2 *h, const struct shot *s);

/* Reads frames, and counts the answers that are complete.  What is wrong with the connection, or
 * FAULT_NONE. */
enum fault h2_hear(struct h2 *h, struct slice bytes);
/* Appends the frames that are to be sent; the same. */
enum fault h2_make(struct h2 *h, struct bytes *to);
bool h2_has_frames(const struct h2 *h); /* there are some */

bool h2_is_greeted(const struct h2 *h); /* the server's SETTINGS have come */
bool h2_leaves(const struct h2 *h);     /* the server has sent GOAWAY, and was the first to go */
void h2_say_goaway(struct h2 *h);

/* The request under way that has that number. */
struct shot *h2_shot(struct h2 *h, uint32_t number);
/* Resets the streams of requests that were sent at that time or before; they count as not answered
 * in time.  Returns when the oldest of the others was sent; UINT64_MAX: there is none. */
uint64_t h2_give_up(struct h2 *h, uint64_t sent_ns);

#endif
