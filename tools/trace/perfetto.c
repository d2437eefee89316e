/* SPDX-License-Identifier: MIT */
/* perfetto.c - requests as slices of a timeline, in the Trace Event Format that Perfetto,
 * speedscope and chrome://tracing read.
 *
 * A connection is a track.  A request is a slice of it, and its stages are slices within.
 * Pipelined requests overlap, which slices of one track cannot: the connection then has further
 * tracks.  The file is an array of events, and can be read without its end, too.
 */
#include <errno.h>
#include <stdlib.h>
#include "../../base/escape.h"
#include "trace.h"

enum { TRACK_CHAINS = 16384, NAME_TEXT = 6 * (METHOD_TEXT + 1 + TARGET_TEXT) + 8 };

struct track {
    struct track *chain;
    uint64_t cookie, until_ns; /* the end of its last request */
    unsigned number;           /* the file's name for it: a thread */
};

struct perfetto {
    FILE *file;
    unsigned port, tracks;
    int err; /* the first one */
    struct track *chain[TRACK_CHAINS];
};

struct span {
    const char *name;
    uint64_t from_ns, to_ns;
};

int perfetto_begin(struct perfetto **to, const char *path, unsigned port)
{
    struct perfetto *p = calloc(1, sizeof(*p));

    *to = p;
    if (!p)
        return -ENOMEM;
    p->port = port;
    p->file = fopen(path, "we");
    if (!p->file)
        return -errno;
    fprintf(p->file, "[\n{\"ph\": \"M\", \"pid\": %u, \"name\": \"process_name\", "
            "\"args\": {\"name\": \"port %u\"}}", port, port);
    return 0;
}

/* The first track of a connection is named after its client, the others have numbers. */
static void put_track(const struct perfetto *p, const struct track *t, const struct request *r,
                      unsigned others)
{
    char name[PEER_TEXT + 32];

    report_peer(r, name);
    if (others)
        snprintf(name + strlen(name), 32, " pipelined %u", others);
    fprintf(p->file, ",\n{\"ph\": \"M\", \"pid\": %u, \"tid\": %u, \"name\": \"thread_name\", "
            "\"args\": {\"name\": \"%s\"}}", p->port, t->number, name);
}

/* A track of the connection on which nothing happens at that time; NULL: no memory. */
static struct track *track_at(struct perfetto *p, const struct request *r, uint64_t ns)
{
    struct track **at = &p->chain[r->cookie % TRACK_CHAINS], *t;
    unsigned others = 0;

    for (t = *at; t; t = t->chain) {
        if (t->cookie == r->cookie && t->until_ns <= ns)
            return t;
        others += t->cookie == r->cookie;
    }
    t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->cookie = r->cookie;
    t->number = ++p->tracks;
    t->chain = *at;
    *at = t;
    put_track(p, t, r, others);
    return t;
}

/* Writes where a slice begins ("B") or ends ("E"): an object that is left open.  A beginning and a
 * length would be enough, but readers take the numbers as floating point: the sum of both could end
 * slightly after the beginning of the next slice, which was then taken for a part of this one. */
static void put_edge(const struct perfetto *p, const struct track *t, char edge, uint64_t ns)
{
    fprintf(p->file, ",\n{\"ph\": \"%c\", \"pid\": %u, \"tid\": %u, \"ts\": %llu.%03u", edge,
            p->port, t->number, (unsigned long long)(ns / 1000), (unsigned)(ns % 1000));
}

static void put_begin(const struct perfetto *p, const struct track *t, const struct request *r,
                      const struct span *whole)
{
    put_edge(p, t, 'B', whole->from_ns);
    fprintf(p->file, ", \"name\": \"%s\", \"args\": {\"connection\": \"%llx\", \"ordinal\": %u, "
            "\"ended\": \"%s\"", whole->name, (unsigned long long)r->cookie, r->ordinal,
            report_ending((enum ending)r->ending));
    if (r->status)
        fprintf(p->file, ", \"status\": %u", r->status);
    if (r->tid)
        fprintf(p->file, ", \"thread\": %u", r->tid);
    fprintf(p->file, "}}");
}

static void put_stages(const struct perfetto *p, const struct track *t, const struct stages *s)
{
    for (unsigned i = STAGE_SHOWN; i < STAGES; i++) {
        if (!s->took_ns[i])
            continue;
        put_edge(p, t, 'B', s->end_ns[i] - s->took_ns[i]);
        fprintf(p->file, ", \"name\": \"%s\"}", stage_name((enum stage)i));
        put_edge(p, t, 'E', s->end_ns[i]);
        fprintf(p->file, ", \"name\": \"%s\"}", stage_name((enum stage)i));
    }
}

/* The span from the beginning of the first stage, perhaps the wait to be accepted, to the end of
 * the last. */
static struct span span_of(const struct stages *s)
{
    struct span whole = {NULL, UINT64_MAX, 0};

    for (unsigned i = 0; i < STAGES; i++) {
        uint64_t end = s->end_ns[i], begin = end - s->took_ns[i];

        if (s->state[i] != STAGE_KNOWN)
            continue;
        whole.from_ns = begin < whole.from_ns ? begin : whole.from_ns;
        whole.to_ns = end > whole.to_ns ? end : whole.to_ns;
    }
    return whole;
}

void perfetto_request(struct perfetto *p, const struct request *r, const struct stages *s)
{
    char text[METHOD_TEXT + TARGET_TEXT + 2], name[NAME_TEXT];
    struct span whole = span_of(s);
    struct track *t = track_at(p, r, whole.from_ns);

    if (!t) {
        p->err = p->err ? p->err : -ENOMEM;
        return;
    }
    t->until_ns = whole.to_ns;
    snprintf(text, sizeof(text), "%s %s", r->method, r->target);
    escape_json(name, sizeof(name), (struct slice){text, strlen(text)});
    whole.name = name;
    put_begin(p, t, r, &whole);
    put_stages(p, t, s);
    put_edge(p, t, 'E', whole.to_ns);
    fprintf(p->file, ", \"name\": \"%s\"}", name);
    if (ferror(p->file) && !p->err)
        p->err = -errno;
}

int perfetto_end(struct perfetto *p)
{
    int err;

    if (!p)
        return 0;
    err = p->err;
    for (unsigned i = 0; i < TRACK_CHAINS; i++)
        while (p->chain[i]) {
            struct track *next = p->chain[i]->chain;

            free(p->chain[i]);
            p->chain[i] = next;
        }
    if (p->file) {
        fprintf(p->file, "\n]\n");
        if (fclose(p->file) != 0 && !err)
            err = -errno;
    }
    free(p);
    return err;
}
