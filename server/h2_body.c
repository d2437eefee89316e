/* SPDX-License-Identifier: MIT */
/* h2_body.c - request bodies that the host keeps (--upload): fed to http_proto as they come.
 *
 * A stream with such a body has its own connection as soon as its head has come.  By the head,
 * http_proto decides whether it refuses, sends 100 Continue, or takes the body.  The body is framed
 * as in HTTP/1.1, by the client's Content-Length, or in chunks if it has none.
 *
 * While the host does not take more, bytes wait here: at most a stream's window, which is opened
 * again as they are fed.  The connection's window is opened at once, so that a body that waits for
 * a disk delays no other stream.
 */
#include <stdlib.h>
#include "h2_inside.h"

enum {
    WINDOW_BYTES = NGHTTP2_INITIAL_WINDOW_SIZE,
    CHUNK_LINE_BYTES = 16, /* "3fe0", and both line ends */
    PIECE_BYTES = RECV_BYTES_MAX - CHUNK_LINE_BYTES
};

struct intake {
    size_t len;   /* of held */
    bool chunked;
    bool last;    /* the last chunk was fed */
    char piece[RECV_BYTES_MAX];
    char held[WINDOW_BYTES];
};

bool h2_body_is_kept(const struct h2 *h, const struct stream *st)
{
    const struct slice put = {st->text, 4}, post = {st->text, 5};

    return ((const struct http_host *)h->c->host)->store &&
           (slice_is(put, "PUT ") || slice_is(post, "POST "));
}

static void put(struct stream *st, const char *text, size_t n)
{
    memcpy(st->text + st->text_len, text, n);
    st->text_len += (uint32_t)n;
}

/* Writes the fields that are HTTP/1.1's before the empty line.  False: the head would be too
 * long. */
static bool put_framing(struct h2 *h, struct stream *st, const struct asking *a)
{
    static const char length[] = "content-length: ", chunked[] = "transfer-encoding: chunked\r\n";
    static const char expect[] = "expect: 100-continue\r\n";
    uint32_t before = st->text_len;
    char digits[20];

    if (st->text_len + H2_FRAMING_BYTES > HEAD_BYTES_MAX)
        return false;
    st->text_len -= 2;
    if (a->sized) {
        put(st, length, sizeof(length) - 1);
        put(st, digits, http_decimal(digits, a->length));
        put(st, "\r\n", 2);
    } else {
        put(st, chunked, sizeof(chunked) - 1);
    }
    if (a->expects)
        put(st, expect, sizeof(expect) - 1);
    put(st, "\r\n", 2);
    h->text_bytes += st->text_len - before;
    return true;
}

void h2_body_begin(struct h2 *h, struct stream *st, const struct asking *a)
{
    struct intake *in = h->working < H2_WORKING_MAX ? malloc(sizeof(*in)) : NULL;

    if (!in) {
        h2_stream_reset(h, st, NGHTTP2_REFUSED_STREAM); /* its client may ask again */
        return;
    }
    if (!put_framing(h, st, a)) {
        free(in);
        h2_stream_reset(h, st, NGHTTP2_CANCEL);
        return;
    }
    in->len = 0;
    in->chunked = !a->sized;
    in->last = false;
    st->in = in;
    st->open = true;
    h->taking++;
    h2_stream_feed(h, st, TAKES);
    h2_body_pump(h, st);
}

/* A chunk of n bytes of what is held. */
static size_t make_chunk(struct intake *in, size_t n)
{
    size_t len = http_chunk_head(in->piece, n);

    memcpy(in->piece + len, in->held, n);
    memcpy(in->piece + len + n, "\r\n", 2);
    return len + n + 2;
}

/* Feeds one piece.  False: there is none. */
static bool feed(struct h2 *h, struct stream *st)
{
    struct conn *c = stream_conn(h, st);
    struct intake *in = st->in;
    size_t n = in->len < PIECE_BYTES ? in->len : PIECE_BYTES;

    if (!n && (st->open || !in->chunked || in->last))
        return false;
    if (!n) {
        in->last = true;
        conn_feed(c, "0\r\n\r\n", 5, h2_loop(h)->now_ms);
        return true;
    }
    if (in->chunked)
        conn_feed(c, in->piece, make_chunk(in, n), h2_loop(h)->now_ms);
    else
        conn_feed(c, in->held, n, h2_loop(h)->now_ms);
    in->len -= n;
    memmove(in->held, in->held + n, in->len);
    h2_judge_memory(h, nghttp2_session_consume_stream(h->session, st->id, n));
    return true;
}

void h2_body_pump(struct h2 *h, struct stream *st)
{
    while (st->state == TAKES && st->nested.conn.want != CONN_WAIT) {
        if (st->nested.conn.want != CONN_RECV)
            h2_stream_look(h, st);
        else if (!feed(h, st))
            return;
    }
}

void h2_body_take(struct h2 *h, struct stream *st, const uint8_t *bytes, size_t n)
{
    struct intake *in = st->in;

    if (n > WINDOW_BYTES - in->len) { /* the library hands over bytes beyond the window, too */
        h2_stream_reset(h, st, NGHTTP2_FLOW_CONTROL_ERROR);
        return;
    }
    memcpy(in->held + in->len, bytes, n);
    in->len += n;
    h2_body_pump(h, st);
}

void h2_body_ends(struct h2 *h, struct stream *st)
{
    st->open = false;
    h->receiving--;
    h2_body_pump(h, st);
}
