/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* http_more.c - bodies that leave in pieces: made as they are sent, and several ranges of one
 * source.
 *
 * Between two pieces all state is in the send queue (struct http_state); a piece is queued when
 * there is room for it, so memory is bounded however long the body is.  The source is held until
 * its last piece is queued.
 */
#include "http_inside.h"

static void finish(struct conn *c, struct http_state *state)
{
    conn_more(c, false);
    conn_put_end(c, state->note);
    state->phase = PHASE_IDLE;
    if (state->close)
        conn_close_after(c);
}

/* --- Several ranges (RFC 9110 14.6) ----------------------------------------------------------- */

/* A boundary must not occur in the body, and reading gigabytes to make sure takes too long.  So it
 * is derived from inode, size, mtime and ctime: a file cannot hold the nanosecond at which writing
 * it will end.  (splitmix64's mixing.) */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static void boundary_set(struct http_state *state)
{
    const struct source *s = state->source;
    uint64_t x = mix(s->inode + 0x9e3779b97f4a7c15u);

    x = mix(x ^ s->size);
    x = mix(x ^ (uint64_t)s->mtime_s) ^ s->mtime_ns;
    state->boundary[0] = mix(x ^ (uint64_t)s->ctime_s);
    state->boundary[1] = mix(state->boundary[0] ^ s->ctime_ns);
}

static void put_boundary(struct text *t, const struct http_state *state)
{
    TEXT_LITERAL(t, "rung-");
    text_hex(t, state->boundary[0]);
    TEXT_LITERAL(t, "-");
    text_hex(t, state->boundary[1]);
}

void http_parts_type(struct text *t, const struct http_state *state)
{
    TEXT_LITERAL(t, "Content-Type: multipart/byteranges; boundary=");
    put_boundary(t, state);
    TEXT_LITERAL(t, "\r\n");
}

void http_parts_content_range(struct text *t, const struct http_range *range, uint64_t size)
{
    TEXT_LITERAL(t, "Content-Range: bytes ");
    text_number(t, range->off);
    TEXT_LITERAL(t, "-");
    text_number(t, range->off + range->len - 1);
    TEXT_LITERAL(t, "/");
    text_number(t, size);
    TEXT_LITERAL(t, "\r\n");
}

/* Writes the head of that part, or the end behind the last one. */
static void put_part_head(struct text *t, const struct http_state *state, unsigned part)
{
    if (part)
        TEXT_LITERAL(t, "\r\n");
    TEXT_LITERAL(t, "--");
    put_boundary(t, state);
    if (part == state->ranges.count) {
        TEXT_LITERAL(t, "--\r\n");
        return;
    }
    TEXT_LITERAL(t, "\r\nContent-Type: ");
    text_string(t, state->source->type);
    TEXT_LITERAL(t, "\r\n");
    http_parts_content_range(t, &state->ranges.range[part], state->source->size);
    TEXT_LITERAL(t, "\r\n");
}

uint64_t http_parts_bytes(struct http_state *state)
{
    char buf[TYPE_BYTES_MAX + 256]; /* type; boundary, three numbers, names */
    struct text t;
    uint64_t bytes = 0;
    unsigned part;

    boundary_set(state);
    for (part = 0; part <= state->ranges.count; part++) {
        t = (struct text){buf, buf + sizeof(buf)};
        put_part_head(&t, state, part);
        bytes += (uint64_t)(t.at - buf);
        if (part < state->ranges.count)
            bytes += state->ranges.range[part].len;
    }
    return bytes;
}

static void more_parts(struct conn *c, struct http_state *state)
{
    const struct http_range *range;
    struct text t;
    char *start;
    size_t cap;

    while (state->phase == PHASE_PARTS && conn_room(c)) {
        start = conn_space(c, &cap);
        t = (struct text){start, start + cap};
        put_part_head(&t, state, state->part);
        conn_wrote(c, (size_t)(t.at - start), true);
        if (state->part == state->ranges.count) {
            finish(c, state);
            return;
        }
        range = &state->ranges.range[state->part++];
        if (state->part < state->ranges.count) {
            conn_lend_source(c, state->source, range->off, range->len);
        } else {
            conn_put_source(c, state->source, range->off, range->len);
            state->source = NULL;
        }
    }
}

/* --- Made bodies ------------------------------------------------------------------------------ */

enum { SIZE_LINE = 6 /* "2000\r\n": CHUNK_BYTES_MAX has four digits */ };

_Static_assert(CHUNK_BYTES_MAX <= 0xffff, "four digits say how long a chunk is");
_Static_assert(SIZE_LINE + CHUNK_BYTES_MAX + 2 <= REPLY_HEAD_BYTES_MAX, "a chunk fits like a head");

/* The last chunk, and the trailer that the head announced (RFC 9112 7.1.2).  It is queued in one
 * piece, so that HTTP/2, which decodes the chunks, finds the trailer whole. */
static void put_last(struct conn *c, const struct source *s)
{
    size_t cap;
    char *start = conn_space(c, &cap);
    struct text t = {start, start + cap};

    TEXT_LITERAL(&t, "0\r\n");
    if (s->trailer) {
        text_string(&t, s->trailer);
        TEXT_LITERAL(&t, ": ");
        text_string(&t, s->trailer_value);
        TEXT_LITERAL(&t, "\r\n");
    }
    TEXT_LITERAL(&t, "\r\n");
    conn_wrote(c, (size_t)(t.at - start), true);
}

static void made_end(struct conn *c, struct http_state *state)
{
    const struct http_host *host = http_host_of(c);

    if (state->chunked)
        put_last(c, state->source);
    host->conn.release(host->conn.ctx, state->source);
    state->source = NULL;
    finish(c, state);
}

/* One chunk (RFC 9112 7.1).  Its size line is counted as body, so that all chunks of a turn are one
 * segment.  False: there is none now, and perhaps never will be. */
static bool made_next(struct conn *c, struct http_state *state)
{
    char *at, line[20];
    size_t cap, n, lead;

    at = conn_space(c, &cap);
    lead = state->chunked ? SIZE_LINE : 0;
    n = state->source->next(state->source, at + lead, CHUNK_BYTES_MAX);
    if (n == SOURCE_LATER)
        conn_wait(c);
    else if (n == SOURCE_FAILED)
        conn_fail(c); /* and http_reply_drop() releases the source */
    else if (n == 0)
        made_end(c, state);
    if (n == SOURCE_LATER || n == SOURCE_FAILED || n == 0)
        return false;
    core_assert(n <= CHUNK_BYTES_MAX);
    if (!state->chunked) {
        conn_wrote(c, n, true);
        return true;
    }
    cap = http_chunk_head(line, n);
    if (cap < SIZE_LINE) /* a short chunk, the last as a rule, moves up to its shorter size line */
        memmove(at + cap, at + lead, n);
    memcpy(at, line, cap);
    memcpy(at + cap + n, "\r\n", 2);
    conn_wrote(c, cap + n + 2, true);
    return true;
}

/* --- Both ------------------------------------------------------------------------------------- */

void http_reply_more(struct conn *c)
{
    struct http_state *state = conn_state(c);

    if (state->phase == PHASE_PARTS) {
        more_parts(c, state);
        return;
    }
    while (state->phase == PHASE_MADE && conn_room(c) && made_next(c, state))
        continue;
}

void http_more_begin(struct answer *a, struct http_state *state, void *note)
{
    state->note = note;
    state->close = !a->keep_alive;
    conn_more(a->c, true);
    http_reply_more(a->c); /* pieces that fit are sent together with the head */
}

void http_reply_drop(struct conn *c)
{
    struct http_state *state = conn_state(c);
    const struct http_host *host = http_host_of(c);

    if (state->phase == PHASE_BODY)
        http_store_drop(c);
    if (state->phase != PHASE_MADE && state->phase != PHASE_PARTS)
        return;
    if (state->source)
        host->conn.release(host->conn.ctx, state->source);
    conn_put_end(c, state->note);
    state->phase = PHASE_IDLE;
}
