/* SPDX-License-Identifier: MIT */
/* route.h - requests that are answered by another path than theirs, because an option says so.
 *
 * The site finds one path at a time, and the cache keeps what it found together with what that
 * depends on.  So a second path is a second question to both, and nothing here is ever kept: an
 * answer is as new as the answers to both questions.
 */
#ifndef SERVER_ROUTE_H
#define SERVER_ROUTE_H
#include "rules.h"

struct serve_options;

struct route {
    const char *only; /* the one path that is served ("/" stands for it); NULL: all are */
    size_t only_len;
    bool pretty; /* NAME.html stands for NAME */
    bool spa;    /* the index at the top stands for what is not there */
    bool hidden; /* see struct docroot_rules */
    const char *index;
    /* NULL: none. */
    struct fields *fields;
    struct moves *moves;
    struct peers *peers;
    struct auth *auth;
    bool used;   /* one of these says something */
};

/* rules.c.  An exit code. */
int  route_open(struct route *r, const struct serve_options *opt, const char *only);
void route_close(struct route *r);

/* gate.c: clients and passwords.  gate_admit(): 0, -EACCES, -EKEYREJECTED, -EAGAIN: too many wait,
 * or -EINPROGRESS as in struct http_host.  gate_lets_in(): whether
 * the client's address is right, which is asked first. */
struct loop;
int  gate_open(struct loop *l); /* a helper for passwords: 0 or -errno */
int  gate_admit(struct loop *l, const struct http_ask *ask);
bool gate_lets_in(struct loop *l, const struct http_ask *ask);

/* One request's way through the paths that may answer it. */
struct route_way {
    unsigned tried;
    struct http_ask ask; /* what to find next */
    char path[PATH_BYTES_MAX];
};

/* The ask itself, or one for the only file in its place, which is way->ask; NULL: its path is not
 * served. */
const struct http_ask *route_first(const struct route *r, const struct http_ask *ask,
                                   struct route_way *way);
/* Nothing was found for the ask.  Whether there is another path to try; then way->ask has it. */
bool route_other(const struct route *r, const struct http_ask *ask, struct route_way *way);

#endif
