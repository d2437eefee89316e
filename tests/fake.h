/* SPDX-License-Identifier: MIT */
/* fake.h - a host for tests of the core: memory, sources, jobs and notes that are counted, and can
 * be refused.
 *
 * Names mean what they say: /pN is N bytes in memory, /fN a file of N bytes, /tN a file that says N
 * bytes and has half of them, /mN a body made in N pieces, /wN like /pN but the first two calls of
 * find() return -EINPROGRESS, /d a directory; every other name is -ENOENT.  Byte i of every body is
 * fake_byte(i).  A trailer follows the body of /mN/ if the client takes a digest: the number of
 * pieces.
 */
#ifndef TESTS_FAKE_H
#define TESTS_FAKE_H
#include <stdio.h>
#include <stdlib.h>
#include "../core/http.h"

/* Fuzz targets have no cmocka: a broken promise ends the program, and says where. */
#define must(promise) \
    do { \
        if (!(promise)) \
            core_failed(#promise, __FILE__, __LINE__); \
    } while (0)

enum { FAKE_NOTES_MAX = 65536, FAKE_BYTES_MAX = 1 << 22, FAKE_PIECES_MAX = 64 };

/* How often each thing was done; what was got must have been given back in the end. */
struct fake_counts {
    unsigned allocs, frees, finds, sources, releases, answers, answered, complete, jobs, forgets;
};

struct fake {
    struct http_host host;
    struct fake_counts n;
    unsigned fail_alloc, fail_find; /* the n-th is refused; 0: none */
    const struct conn *job;         /* one connection at a time waits here */
    bool job_done;
    uint64_t body_bytes;            /* as reported to answered() */
    unsigned char note[FAKE_NOTES_MAX];
};

/* What a test reads of a file: how much there really is. */
struct fake_source {
    struct source source;
    uint64_t there;
    uint64_t pieces;
    char made[24]; /* the trailer's value */
};

static inline char fake_byte(uint64_t i)
{
    return (char)('A' + i % 61 % 26);
}

static inline char *fake_bytes(void)
{
    static char bytes[FAKE_BYTES_MAX];

    if (!bytes[0])
        for (uint64_t i = 0; i < FAKE_BYTES_MAX; i++)
            bytes[i] = fake_byte(i);
    return bytes;
}

/* --- Memory: filled with rubbish, of a known size --------------------------------------------- */

static inline void *fake_alloc(void *site, size_t bytes)
{
    struct fake *f = site;
    size_t *mem;

    f->n.allocs++;
    if (f->n.allocs == f->fail_alloc) {
        f->n.frees++; /* the balance holds */
        return NULL;
    }
    mem = malloc(bytes + 16);
    must(mem);
    *mem = bytes;
    memset(mem + 2, 0xa5, bytes < 1024 ? bytes : 1024);
    return mem + 2;
}

static inline void fake_free(void *site, void *mem, size_t bytes)
{
    struct fake *f = site;
    size_t *head = (size_t *)mem - 2;

    must(*head == bytes);
    f->n.frees++;
    free(head);
}

/* --- Sources ---------------------------------------------------------------------------------- */

static inline size_t fake_next(struct source *source, char *buf, size_t cap)
{
    struct fake_source *s = (struct fake_source *)source;

    must(cap >= CHUNK_BYTES_MAX);
    if (!s->pieces)
        s->source.trailer_value = s->made;
    if (!s->pieces)
        return 0;
    return (size_t)snprintf(buf, cap, "piece %u\n", (unsigned)s->pieces--);
}

static inline struct source *fake_source(struct fake *f, char kind, uint64_t size)
{
    struct fake_source *s = calloc(1, sizeof(*s));

    must(s);
    f->n.sources++;
    s->source = (struct source){.type = "text/plain", .size = size, .inode = 7};
    s->source.mtime_s = s->source.ctime_s = 784111777;
    s->there = kind == 't' ? size / 2 : size;
    if (kind == 'm') {
        s->source.kind = SOURCE_MADE;
        s->source.next = fake_next;
        s->pieces = size < FAKE_PIECES_MAX ? size : FAKE_PIECES_MAX;
    } else if (kind == 'd') {
        s->source.kind = SOURCE_REDIRECT;
    } else if (kind == 'f' || kind == 't') {
        s->source.file = s;
    } else {
        s->source.bytes = fake_bytes();
    }
    return &s->source;
}

static inline void fake_release(void *site, struct source *source)
{
    struct fake *f = site;

    f->n.releases++;
    free(source);
}

/* A name is one letter and a number; the number's value, or -1. */
static inline long fake_number(struct slice name)
{
    long n = 0;

    for (size_t i = 1; i < name.len; i++) {
        if (name.ptr[i] < '0' || name.ptr[i] > '9' || n > FAKE_BYTES_MAX / 10)
            return -1;
        n = n * 10 + name.ptr[i] - '0';
    }
    return n > FAKE_BYTES_MAX ? -1 : n;
}

/* The trailer has its value only at the end of the body. */
static inline void fake_trailer(struct source *source)
{
    struct fake_source *s = (struct fake_source *)source;

    snprintf(s->made, sizeof(s->made), "%u pieces", (unsigned)s->pieces);
    s->source.trailer = "X-Made";
}

static inline int fake_find(void *site, const struct http_ask *ask, struct source **source)
{
    struct fake *f = site;
    struct slice name = ask->path;
    long n;

    must(!f->job || (f->job == ask->conn && f->job_done)); /* never asked before it was resumed */
    if (name.len && name.ptr[0] == '/') {
        name.ptr++;
        name.len--;
        if (name.len > 1 && name.ptr[0] == 'm' && name.ptr[name.len - 1] == '/')
            name.len--;
    }
    n = fake_number(name);
    if (f->job) {
        f->job = NULL;
        f->n.jobs++; /* taken */
    } else if (name.len && name.ptr[0] == 'w' && n >= 0) {
        f->job = ask->conn;
        f->job_done = false;
        f->n.jobs++;
        return -EINPROGRESS;
    }
    if (++f->n.finds == f->fail_find)
        return -EMFILE;
    if (!name.len || !memchr("pftmwd", name.ptr[0], 6) || n < 0)
        return -ENOENT;
    *source = fake_source(f, name.ptr[0], (uint64_t)n);
    if (name.ptr[0] == 'm' && ask->digest)
        fake_trailer(*source);
    return 0;
}

static inline void fake_forget(void *site, const struct conn *conn)
{
    struct fake *f = site;

    must(f->job == conn);
    f->job = NULL;
    f->n.jobs++;
    f->n.forgets++;
}

static inline int fake_page(void *site, unsigned status, struct source **source)
{
    (void)site;
    (void)status;
    (void)source;
    return -ENOENT;
}

/* --- Notes: each comes back once -------------------------------------------------------------- */

static inline void *fake_answer(void *site, const struct conn *conn,
                                const struct http_receipt *receipt)
{
    struct fake *f = site;

    (void)conn;
    (void)receipt;
    must(f->n.answers < FAKE_NOTES_MAX);
    return &f->note[f->n.answers++];
}

static inline void fake_answered(void *site, void *note, uint64_t body_bytes, bool complete)
{
    struct fake *f = site;
    unsigned char *seen = note;

    must(seen >= f->note && seen < f->note + f->n.answers);
    must(*seen == 0);
    *seen = 1;
    f->n.answered++;
    f->n.complete += complete;
    f->body_bytes += body_bytes;
}

/* --- Life ------------------------------------------------------------------------------------- */

static inline struct fake *fake_open(void)
{
    struct fake *f = calloc(1, sizeof(*f));

    must(f);
    f->host = (struct http_host){
        .conn = {
            .ctx = f,
            .alloc = fake_alloc,
            .free = fake_free,
            .release = fake_release,
            .answered = fake_answered,
            .forget = fake_forget,
            .head_ms = 5000,
            .idle_ms = 15000,
            .send_ms = 10000,
            .progress_bytes = 1024,
        },
        .find = fake_find,
        .page = fake_page,
        .answer = fake_answer,
        .date = "Sun, 06 Nov 1994 08:49:37 GMT",
        .date_s = 784111777,
        .body_bytes_max = BODY_BYTES_MAX,
    };
    return f;
}

/* Whatever was got was given back. */
static inline void fake_balance(const struct fake *f)
{
    must(f->n.allocs == f->n.frees);
    must(f->n.sources == f->n.releases);
    must(f->n.answers == f->n.answered);
    must(f->n.jobs % 2 == 0);
    must(!f->job);
}

static inline void fake_close(struct fake *f)
{
    fake_balance(f);
    free(f);
}

#endif
