/* SPDX-License-Identifier: MIT */
/* lines.h - a protocol that does all a protocol can do, and says beforehand what must come out.
 *
 * A message is a line; lines_model() computes the whole output from the whole input, without a
 * machine.
 *
 *   eTEXT        the line is sent back
 *   pN fN tN wN  "+", the line, then that source of fake.h; "-" if there is none
 *   rN           three ranges of a file, lent
 *   mN           a body made in N pieces, one each time more() is called
 *   bN xN yN     a body of N bytes follows; x: with an interim "go"; y: answered by a job
 *   c            answer, then close
 *   q            close
 *   else         "?", then close
 *
 * A line longer than HEAD_BYTES_MAX is "!", then close; a partial one at the end of stream "~"
 * and its length.
 */
#ifndef TESTS_LINES_H
#define TESTS_LINES_H
#include "fake.h"

enum { LINES_BODY = 1, LINES_JOB = 2 /* conn->proto_flags */ };

struct lines_state {
    uint64_t left; /* LINES_BODY: bytes to come, and the sum of those that came */
    uint32_t sum;
    struct source *source;
    void *note;
    unsigned part;
    bool ranges;
};

static inline void lines_say(struct conn *c, const char *text, size_t n, bool body)
{
    size_t cap;
    char *space = conn_space(c, &cap);

    must(n <= cap);
    memcpy(space, text, n);
    conn_wrote(c, n, body);
}

static inline void *lines_note(struct conn *c)
{
    return http_host_of(c)->answer(c->host->ctx, c, NULL);
}

/* "e" is cut at what always fits. */
enum { LINES_TEXT_MAX = REPLY_HEAD_BYTES_MAX - 64 };

static inline void lines_answer(struct conn *c, const char *text, size_t n, bool close)
{
    lines_say(c, text, n < LINES_TEXT_MAX ? n : LINES_TEXT_MAX, false);
    lines_say(c, "\n", 1, false);
    conn_put_end(c, lines_note(c));
    if (close)
        conn_close_after(c);
}

static inline int lines_find(struct conn *c, const char *name, size_t n, struct source **source)
{
    struct http_ask ask = {.path = {name, n}, .conn = c};

    return http_host_of(c)->find(c->host->ctx, &ask, source);
}

static inline void lines_more(struct conn *c)
{
    struct lines_state *st = conn_state(c);
    uint64_t size = st->source->size, from = size / 3 * st->part;
    size_t cap, n;
    char *space;

    must(conn_room(c));
    if (st->ranges) {
        lines_say(c, "range\n", 6, true);
        if (st->part++ < 2) {
            conn_lend_source(c, st->source, from, size / 3);
            return;
        }
        conn_put_source(c, st->source, from, size - from);
    } else {
        space = conn_space(c, &cap);
        n = st->source->next(st->source, space, cap);
        if (n) {
            conn_wrote(c, n, true);
            return;
        }
        c->host->release(c->host->ctx, st->source);
    }
    st->source = NULL;
    conn_put_end(c, st->note);
    conn_more(c, false);
}

static inline void lines_drop(struct conn *c)
{
    struct lines_state *st = conn_state(c);

    if (!st->source)
        return;
    c->host->release(c->host->ctx, st->source);
    conn_put_end(c, st->note);
}

/* The source asked for by the line.  0 or -EINPROGRESS. */
static inline int lines_source(struct conn *c, const char *line, size_t n)
{
    struct lines_state *st;
    struct source *source;
    char name[16];
    int err;

    if (n > sizeof(name)) {
        lines_answer(c, "-", 1, false);
        return 0;
    }
    memcpy(name, line, n);
    if (*name == 'r')
        *name = 'f';
    err = lines_find(c, name, n, &source);
    if (err == -EINPROGRESS)
        return err;
    if (err) {
        lines_answer(c, "-", 1, false);
        return 0;
    }
    lines_say(c, "+", 1, false);
    lines_say(c, line, n, false);
    lines_say(c, "\n", 1, false);
    if (*line == 'r' || *line == 'm') {
        st = conn_state(c);
        must(!st->source && !st->note && !st->part && !st->ranges);
        *st = (struct lines_state){.source = source, .note = lines_note(c), .ranges = *line == 'r'};
        conn_more(c, true);
        return 0;
    }
    conn_put_source(c, source, 0, source->size);
    conn_put_end(c, lines_note(c));
    return 0;
}

static inline long lines_body(struct conn *c, const char *bytes, size_t n)
{
    struct lines_state *st = conn_state(c);
    uint64_t left = st->left;
    struct source *source;
    size_t part = n < left ? n : (size_t)left;
    char text[64];
    int err, len;

    if (c->proto_flags & LINES_JOB && part == left) {
        err = lines_find(c, "w0", 2, &source);
        if (err == -EINPROGRESS)
            return err;
        if (!err)
            c->host->release(c->host->ctx, source);
    }
    for (size_t i = 0; i < part; i++)
        st->sum = st->sum * 31 + (unsigned char)bytes[i];
    st->left -= part;
    if (st->left)
        return (long)part;
    len = snprintf(text, sizeof(text), "%.8s %08x", conn_keep(c), (unsigned)st->sum);
    lines_answer(c, text, (size_t)len, false);
    conn_in_body(c, false);
    c->proto_flags = 0;
    return (long)part;
}

static inline long lines_input(struct conn *c, const char *bytes, size_t n)
{
    const char *end = memchr(bytes, '\n', n < HEAD_BYTES_MAX ? n : HEAD_BYTES_MAX);
    size_t len = end ? (size_t)(end - bytes) : 0;
    long number = end ? fake_number((struct slice){bytes, len}) : 0;

    if (!end && n < HEAD_BYTES_MAX && !(c->proto_flags & LINES_BODY))
        return 0;
    if (!conn_room(c))
        return 0;
    if (c->proto_flags & LINES_BODY)
        return lines_body(c, bytes, n);
    if (!end) {
        lines_answer(c, "!", 1, true);
    } else if (len && memchr("pftwrm", *bytes, 6)) {
        if (lines_source(c, bytes, len))
            return -EINPROGRESS;
    } else if (len && memchr("bxy", *bytes, 3) && number > 0) {
        memset(conn_keep(c), 0, 9);
        memcpy(conn_keep(c), bytes, len < 8 ? len : 8);
        *(struct lines_state *)conn_state(c) = (struct lines_state){.left = (uint64_t)number};
        c->proto_flags = *bytes == 'y' ? LINES_BODY | LINES_JOB : LINES_BODY;
        conn_in_body(c, true);
        if (*bytes == 'x')
            lines_say(c, "go\n", 3, false);
    } else if (len && *bytes == 'e') {
        lines_answer(c, bytes, len, false);
    } else if (len && *bytes == 'q') {
        conn_close_after(c);
    } else {
        lines_answer(c, len && *bytes == 'c' ? "c" : "?", 1, true);
    }
    return (long)len + (end != NULL);
}

static inline void lines_end(struct conn *c, size_t unused)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "~%zu", unused);

    if (unused && conn_room(c))
        lines_answer(c, text, (size_t)len, false);
}

static const struct conn_proto lines_proto = {.name = "lines",
                                              .input = lines_input,
                                              .more = lines_more,
                                              .end = lines_end,
                                              .drop = lines_drop};

/* --- What must come out ----------------------------------------------------------------------- */

struct text {
    char *bytes;
    size_t len, cap;
};

static inline void text_add(struct text *t, const void *bytes, size_t n)
{
    while (t->len + n > t->cap) {
        t->cap = t->cap ? 2 * t->cap : 4096;
        t->bytes = realloc(t->bytes, t->cap);
        must(t->bytes);
    }
    if (n)
        memcpy(t->bytes + t->len, bytes, n);
    t->len += n;
}

static inline void text_free(struct text *t)
{
    free(t->bytes);
    *t = (struct text){0};
}

static inline void model_source(struct text *out, const char *line, size_t len, uint64_t size)
{
    char piece[32];

    text_add(out, "+", 1);
    text_add(out, line, len);
    text_add(out, "\n", 1);
    if (*line == 'm') {
        for (uint64_t i = size < FAKE_PIECES_MAX ? size : FAKE_PIECES_MAX; i; i--)
            text_add(out, piece, (size_t)snprintf(piece, sizeof(piece), "piece %u\n", (unsigned)i));
    } else if (*line == 'r') {
        for (uint64_t part = 0; part < 3; part++) {
            text_add(out, "range\n", 6);
            text_add(out, fake_bytes() + size / 3 * part,
                     part < 2 ? size / 3 : size - size / 3 * 2);
        }
    } else {
        text_add(out, fake_bytes(), *line == 't' ? size / 2 : size);
    }
}

/* A body's answer.  Bytes of the body used. */
static inline size_t model_body(struct text *out, const char *line, size_t len, struct slice rest)
{
    size_t size = (size_t)fake_number((struct slice){line, len});
    unsigned sum = 0;
    char text[64];

    if (*line == 'x')
        text_add(out, "go\n", 3);
    if (rest.len < size)
        return rest.len;
    for (size_t i = 0; i < size; i++)
        sum = sum * 31 + (unsigned char)rest.ptr[i];
    text_add(out, text, (size_t)snprintf(text, sizeof(text), "%.*s %08x\n",
                                         (int)(len < 8 ? len : 8), line, sum));
    return size;
}

/* The output for n bytes and then the end of the stream.  (A 't' ends the connection half way.) */
static inline void lines_model(struct text *out, const char *in, size_t n)
{
    char text[32];

    while (n) {
        const char *end = memchr(in, '\n', n < HEAD_BYTES_MAX ? n : HEAD_BYTES_MAX);
        size_t len = end ? (size_t)(end - in) : 0, used = len + 1;
        long number = end ? fake_number((struct slice){in, len}) : 0;

        if (!end && n < HEAD_BYTES_MAX)
            text_add(out, text, (size_t)snprintf(text, sizeof(text), "~%zu\n", n));
        else if (!end)
            text_add(out, "!\n", 2);
        else if (len && memchr("pftwrm", *in, 6) && (number < 0 || len > 16))
            text_add(out, "-\n", 2);
        else if (len && memchr("pftwrm", *in, 6))
            model_source(out, in, len, (uint64_t)number);
        else if (len && memchr("bxy", *in, 3) && number > 0)
            used += model_body(out, in, len, (struct slice){in + len + 1, n - len - 1});
        else if (len && *in == 'e') {
            text_add(out, in, len < LINES_TEXT_MAX ? len : LINES_TEXT_MAX);
            text_add(out, "\n", 1);
        } else if (!len || *in != 'q')
            text_add(out, len && *in == 'c' ? "c\n" : "?\n", 2);
        if (!end || !len || !memchr("epftwrmbxy", *in, 10) || (*in == 't' && number > 0) ||
            (memchr("bxy", *in, 3) && number <= 0))
            return;
        in += used;
        n -= used;
    }
}

#endif
