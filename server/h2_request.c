/* SPDX-License-Identifier: MIT */
/* h2_request.c - fields become the text of a request, which http_proto reads like any other.
 *
 * The library has checked what HTTP/2 asks for: order and number of pseudo fields, names in lower
 * case, no fields of a connection, no line ends in values, a body as long as announced. http_proto
 * decides what the request means, and refuses what it must: a head that is too long is cut where
 * the text ends, and gets the answer of such a head.
 *
 * A body is counted and thrown away, as by http_proto, unless the host keeps it (h2_body.c).  One
 * that becomes longer than is allowed, or that the client asks about first (Expect), is answered
 * before it ends.
 */
#include <stdlib.h>
#include "h2_inside.h"

enum pseudo { METHOD, PATH, AUTHORITY, PSEUDOS };

/* --- Text ------------------------------------------------------------------------------------- */

/* Bytes that do not fit are cut off. */
static void put(struct asking *a, const void *bytes, size_t n)
{
    size_t room = sizeof(a->text) - a->len;

    a->long_ = a->long_ || n > room;
    n = n < room ? n : room;
    memcpy(a->text + a->len, bytes, n);
    a->len += (uint32_t)n;
}

#define PUT_LITERAL(a, literal) put((a), (literal), sizeof(literal) - 1)

/* No byte of it may end a word of the request line. */
static void put_word(struct asking *a, nghttp2_rcbuf *word)
{
    nghttp2_vec v = nghttp2_rcbuf_get_buf(word);

    for (size_t i = 0; i < v.len; i++)
        a->bad = a->bad || v.base[i] <= ' ' || v.base[i] == 0x7f;
    put(a, v.base, v.len);
}

/* The pseudo fields are complete.  CONNECT has an authority and no path. */
static void put_line(struct asking *a)
{
    nghttp2_rcbuf *target = a->pseudo[PATH] ? a->pseudo[PATH] : a->pseudo[AUTHORITY];

    if (a->begun)
        return;
    a->begun = true;
    a->bad = !a->pseudo[METHOD] || !target;
    if (a->bad)
        return;
    put_word(a, a->pseudo[METHOD]);
    PUT_LITERAL(a, " ");
    put_word(a, target);
    PUT_LITERAL(a, " HTTP/1.1\r\n");
    if (!a->pseudo[AUTHORITY])
        return;
    PUT_LITERAL(a, "host: ");
    put_word(a, a->pseudo[AUTHORITY]);
    PUT_LITERAL(a, "\r\n");
}

static bool is(nghttp2_vec v, const char *text)
{
    return slice_is((struct slice){(const char *)v.base, v.len}, text);
}

static uint64_t number(nghttp2_vec v)
{
    uint64_t n = 0;

    for (size_t i = 0; i < v.len && n < INT64_MAX / 16; i++) /* digits: the library has checked */
        n = n * 10 + (uint64_t)(v.base[i] - '0');
    return n;
}

/* Fields that say how the message is framed or sent are not part of the text. */
static bool is_framing(struct asking *a, nghttp2_vec name, nghttp2_vec value)
{
    switch (name.len) {
    case 4: /* RFC 9113 8.3.1: Host means the same as the authority */
        return a->pseudo[AUTHORITY] && is(name, "host");
    case 6:
        if (!is(name, "expect") || !slice_is_nocase((struct slice){(char *)value.base, value.len},
                                                    "100-continue"))
            return false;
        a->expects = true;
        return true;
    case 8:
        a->prioritised = a->prioritised || is(name, "priority");
        return is(name, "priority");
    case 14:
        if (!is(name, "content-length"))
            return false;
        a->sized = true;
        a->length = number(value);
        return true;
    default:
        return false;
    }
}

static void put_field(struct asking *a, nghttp2_vec name, nghttp2_vec value)
{
    put_line(a);
    if (is_framing(a, name, value))
        return;
    put(a, name.base, name.len);
    PUT_LITERAL(a, ": ");
    put(a, value.base, value.len);
    PUT_LITERAL(a, "\r\n");
    if (is(name, "te")) /* which HTTP/1.1 names in Connection, too (RFC 9110 10.1.4) */
        PUT_LITERAL(a, "connection: te\r\n");
}

static void keep_pseudo(struct asking *a, nghttp2_vec name, nghttp2_rcbuf *value)
{
    enum pseudo which = is(name, ":method") ? METHOD : is(name, ":path") ? PATH : AUTHORITY;

    if (is(name, ":scheme") || a->pseudo[which])
        return;
    nghttp2_rcbuf_incref(value);
    a->pseudo[which] = value;
}

/* --- Streams ---------------------------------------------------------------------------------- */

static void forget(struct asking *a)
{
    for (unsigned i = 0; i < PSEUDOS; i++)
        if (a->pseudo[i])
            nghttp2_rcbuf_decref(a->pseudo[i]);
    memset(a, 0, offsetof(struct asking, text));
}

void h2_asking_free(struct h2 *h)
{
    if (!h->asking)
        return;
    forget(h->asking);
    free(h->asking);
    h->asking = NULL;
}

/* The request is complete, or answered before it is. */
static void stream_waits(struct h2 *h, struct stream *st)
{
    if (st->state != RECEIVES)
        return;
    st->state = WAITS;
    h->receiving--;
}

/* An answer that http_proto gives for a body that is too long. */
static void too_long(struct h2 *h, struct stream *st, uint64_t bytes)
{
    char digits[20];
    unsigned n = http_decimal(digits, bytes);
    char *at = st->text + st->text_len - 2; /* before the empty line */

    if (st->text_len + 16 + n + 2 > HEAD_BYTES_MAX) {
        h2_stream_reset(h, st, NGHTTP2_CANCEL); /* such a head would be too long itself */
        return;
    }
    memcpy(at, "content-length: ", 16);
    memcpy(at + 16, digits, n);
    memcpy(at + 16 + n, "\r\n\r\n", 4);
    st->text_len += 16 + n + 2;
    h->text_bytes += 16 + n + 2;
    st->unread = true;
    stream_waits(h, st);
}

static uint64_t body_bytes_max(const struct h2 *h)
{
    return ((const struct http_host *)h->c->host)->body_bytes_max;
}

/* RFC 9110 10.1.1: a request that is refused is refused before its body comes. */
static void judge_expectation(struct h2 *h, struct stream *st)
{
    static const nghttp2_nv go_on = {(uint8_t *)(uintptr_t)":status", (uint8_t *)(uintptr_t)"100",
                                     7, 3, NGHTTP2_NV_FLAG_NONE};
    struct slice text = {st->text, 4};

    if (slice_is(text, "GET ") || slice_is(text, "HEAD") || slice_is(text, "OPTI")) {
        if (nghttp2_submit_headers(h->session, NGHTTP2_FLAG_NONE, st->id, NULL, &go_on, 1, NULL))
            h2_give_up(h);
        return;
    }
    st->unread = true;
    stream_waits(h, st);
}

static struct stream *stream_make(struct h2 *h, const struct asking *a)
{
    struct stream *st;

    if (h->text_bytes + a->len > H2_TEXT_BYTES_MAX)
        return NULL;
    st = malloc(sizeof(*st) + a->len + H2_FRAMING_BYTES);
    if (!st)
        return NULL;
    *st = (struct stream){.id = a->id, .state = RECEIVES, .prev = h->last, .text_len = a->len};
    memcpy(st->text, a->text, a->len);
    st->head_only = slice_is((struct slice){st->text, 5}, "HEAD ");
    st->deadline_ms = h2_loop(h)->now_ms + h->c->host->send_ms;
    *(h->last ? &h->last->next : &h->first) = st;
    h->last = st;
    h->streams++;
    h->receiving++;
    h->text_bytes += a->len;
    return st;
}

/* All fields of a request have come. */
static void asked(struct h2 *h, struct asking *a, bool complete)
{
    static const nghttp2_extpri in_turns = {3, 1};
    struct stream *st = NULL;

    put_line(a);
    PUT_LITERAL(a, "\r\n");
    if (!a->bad)
        st = stream_make(h, a);
    if (!st) {
        h2_reset(h, a->id, a->bad ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_REFUSED_STREAM);
        return;
    }
    (void)nghttp2_session_set_stream_user_data(h->session, st->id, st);
    /* RFC 9218 4: without a wish, one answer after the other.  Clients that have none are mostly
     * those that do not know of priorities: they get a bit of each. */
    if (!a->prioritised && !h->prioritised)
        (void)nghttp2_session_change_extpri_stream_priority(h->session, st->id, &in_turns, 0);
    if (complete || a->long_)
        stream_waits(h, st);
    else if (h2_body_is_kept(h, st))
        h2_body_begin(h, st, a);
    else if (a->length > body_bytes_max(h))
        too_long(h, st, a->length);
    else if (a->expects)
        judge_expectation(h, st);
    st->unread = st->unread || !complete;
}

/* --- The library's calls ---------------------------------------------------------------------- */

/* The library ignores frames for a stream that it has forgotten. */
static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *head, void *user)
{
    struct h2 *h = user;
    int32_t id = head->stream_id;

    (void)session;
    if (head->type != NGHTTP2_HEADERS || id % 2 == 0)
        return 0;
    if (id > h->closed.last) {
        h2_opened(&h->closed, id);
        return 0;
    }
    h->wrong = h2_judge(h, id);
    return h->wrong ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

/* The library refuses a request before there is a stream of it. */
static int on_refused(nghttp2_session *session, const nghttp2_frame *frame, int error, void *user)
{
    struct h2 *h = user;

    (void)session;
    (void)error;
    if (frame->hd.type == NGHTTP2_HEADERS)
        h2_closed_add(&h->closed, frame->hd.stream_id);
    return 0;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2 *h = user;
    bool request = frame->headers.cat == NGHTTP2_HCAT_REQUEST;

    (void)session;
    if (h->asking) /* the one before may have been refused in the middle */
        forget(h->asking);
    else
        h->asking = calloc(1, sizeof(*h->asking));
    if (!h->asking) {
        h->wrong = NGHTTP2_INTERNAL_ERROR; /* no memory */
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    h->asking->id = request ? frame->hd.stream_id : 0; /* otherwise trailers, which are ignored */
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name,
                     nghttp2_rcbuf *value, uint8_t flags, void *user)
{
    struct h2 *h = user;
    struct asking *a = h->asking;
    nghttp2_vec n = nghttp2_rcbuf_get_buf(name), v = nghttp2_rcbuf_get_buf(value);

    (void)session;
    (void)frame;
    (void)flags;
    a->field_bytes += (uint32_t)(n.len + v.len + 32);
    if (a->field_bytes > H2_FIELD_BYTES_MAX)
        return NGHTTP2_ERR_CALLBACK_FAILURE; /* ends the connection */
    if (!a->id)
        return 0;
    if (*n.base == ':')
        keep_pseudo(a, n, value);
    else
        put_field(a, n, v);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2 *h = user;
    bool ends = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    struct stream *st;

    if (frame->hd.type == NGHTTP2_PRIORITY_UPDATE)
        h->prioritised = true;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && h->asking && h->asking->id) {
        asked(h, h->asking, ends);
        forget(h->asking);
        return 0;
    }
    st = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (!st || !ends)
        return 0;
    st->unread = false;
    if (st->state == TAKES)
        h2_body_ends(h, st);
    else
        stream_waits(h, st);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t n, void *user)
{
    struct stream *st = nghttp2_session_get_stream_user_data(session, id);
    struct h2 *h = user;

    (void)flags;
    if (st && st->state == TAKES) {
        h2_judge_memory(h, nghttp2_session_consume_connection(session, n));
        h2_body_take(h, st, bytes, n);
        return 0;
    }
    h2_judge_memory(h, nghttp2_session_consume(session, id, n));
    if (!st || st->state != RECEIVES)
        return 0;
    st->taken += n;
    if (st->taken > body_bytes_max(h))
        too_long(h, st, st->taken);
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    struct stream *st = nghttp2_session_get_stream_user_data(session, id);
    struct h2 *h = user;

    (void)code;
    if (st && st->state == UNREAD) /* by its last frame, which is judged later */
        h2_closed_add(&h->closed, id);
    if (st)
        h2_stream_free(h, st);
    return 0;
}

void h2_request_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_refused);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback2(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
}
