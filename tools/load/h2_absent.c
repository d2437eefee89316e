/* SPDX-License-Identifier: MIT */
/* h2_absent.c - is built in place of h2.c where nghttp2's header is not installed: no connection
 * ever has HTTP/2. */
#include "h2.h"

bool h2_is_built(void)
{
    return false;
}

struct h2 *h2_begin(struct worker *w, struct client *c)
{
    (void)w;
    (void)c;
    return NULL;
}

void h2_end(struct h2 *h)
{
    (void)h;
}

struct shot *h2_place(struct h2 *h)
{
    (void)h;
    return NULL;
}

void h2_ask(struct h2 *h, const struct shot *s)
{
    (void)h;
    (void)s;
}

enum fault h2_hear(struct h2 *h, struct slice bytes)
{
    (void)h;
    (void)bytes;
    return FAULT_NOT_HTTP2;
}

enum fault h2_make(struct h2 *h, struct bytes *to)
{
    (void)h;
    (void)to;
    return FAULT_NOT_HTTP2;
}

bool h2_has_frames(const struct h2 *h)
{
    (void)h;
    return false;
}

bool h2_is_greeted(const struct h2 *h)
{
    (void)h;
    return false;
}

bool h2_leaves(const struct h2 *h)
{
    (void)h;
    return false;
}

void h2_say_goaway(struct h2 *h)
{
    (void)h;
}

struct shot *h2_shot(struct h2 *h, uint32_t number)
{
    (void)h;
    (void)number;
    return NULL;
}

uint64_t h2_give_up(struct h2 *h, uint64_t sent_ns)
{
    (void)h;
    (void)sent_ns;
    return UINT64_MAX;
}
