/* SPDX-License-Identifier: MIT */
/* h2.c - HTTP/2 on the client's side by nghttp2.
 *
 * The library does frames, header compression and flow control; windows are so large that the
 * server never waits for one.  An answer's fields become the text of a head, so that answer.c reads
 * and judges it as it does with HTTP/1.1.
 *
 * A request is counted when its stream closes, in on_close(): as answered if the server has ended
 * the stream, otherwise as lost.  A stream that we reset closes when its RST_STREAM is made.
 */
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include "h2.h"
#include "h2_fields.h"
#include "question.h"

enum {
    WINDOW_BYTES = (1 << 30) - 1,
    STREAM_ID_LATE = 0x7fff0000 /* from here on a new connection is due soon */
};

struct stream {
    struct answer answer;
    int32_t id;     /* 0: the place is free */
    bool done;      /* the answer is complete */
    bool ended;     /* the server has ended the stream */
    bool was_reset; /* ... by RST_STREAM */
    uint8_t fault;  /* enum fault: why we reset it */
};

struct h2 {
    struct worker *w;
    struct client *c;
    nghttp2_session *session;
    struct bytes text; /* of the head that is being received */
    bool greeted, goaway, leaves;
    uint32_t open, places;
    uint32_t *free; /* those from open on are free places */
    struct stream stream[];
};

static struct shot *shot_of(const struct h2 *h, const struct stream *st)
{
    return &h->c->shot[st - h->stream];
}

static struct stream *find(const struct h2 *h, int32_t id)
{
    return nghttp2_session_get_stream_user_data(h->session, id);
}

/* This answer is of no more use. */
static void reset(struct h2 *h, struct stream *st, enum fault what)
{
    if (!st->fault)
        st->fault = (uint8_t)what;
    (void)nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, st->id,
                                    what == FAULT_TIMED_OUT ? NGHTTP2_CANCEL
                                                            : NGHTTP2_PROTOCOL_ERROR);
}

/* --- Answers ---------------------------------------------------------------------------------- */

static void feed(struct h2 *h, struct stream *st, struct slice bytes)
{
    struct question q = question_of(h->w, shot_of(h, st));
    int r = st->done ? ANSWER_DONE : answer_feed(&st->answer, &q, &bytes);

    if (r == ANSWER_BROKEN)
        reset(h, st, st->answer.fault);
    else if (bytes.len)
        reset(h, st, FAULT_BAD_FRAMING); /* more than the head announced */
    st->done = r == ANSWER_DONE;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2 *h = user;

    (void)session;
    (void)frame;
    h->text.at = h->text.len = 0;
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user)
{
    struct h2 *h = user;
    struct stream *st = find(h, frame->hd.stream_id);
    struct h2_field field = {{(const char *)name, name_len}, {(const char *)value, value_len}};

    (void)session;
    (void)flags;
    if (!st || st->answer.in_body || h2_fields_join(&h->text, field))
        return 0; /* of a trailer nothing is kept */
    st->fault = FAULT_BAD_FRAMING;
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t n, void *user)
{
    struct h2 *h = user;
    struct stream *st = find(h, id);

    (void)session;
    (void)flags;
    if (st && !st->fault)
        feed(h, st, (struct slice){(const char *)bytes, n});
    return 0;
}

/* The server may allow fewer streams than --streams says. */
static void settle(struct h2 *h)
{
    uint32_t most = nghttp2_session_get_remote_settings(h->session,
                                                        NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

    h->greeted = true;
    h->c->depth = most < h->places ? most : h->places;
    if (!h->c->depth)
        h->c->depth = 1; /* it waits for its place, and may be too late */
}

static void go_away(struct h2 *h, uint32_t error)
{
    struct tally *t = &h->w->tally;

    t->h2.goaways++;
    if (error)
        t->h2.goaway_error = nghttp2_http2_strerror(error);
    h->leaves = !h->goaway && !h->c->leaving;
    h->goaway = h->c->leaving = true;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2 *h = user;
    struct stream *st = find(h, frame->hd.stream_id);

    (void)session;
    if (frame->hd.type == NGHTTP2_SETTINGS && !(frame->hd.flags & NGHTTP2_FLAG_ACK))
        settle(h);
    if (frame->hd.type == NGHTTP2_GOAWAY)
        go_away(h, frame->goaway.error_code);
    if (frame->hd.type == NGHTTP2_RST_STREAM) {
        h->w->tally.h2.resets++;
        if (st)
            st->was_reset = true;
    }
    if (!st || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && !st->answer.in_body && !st->fault) {
        if (bytes_add(&h->text, "\r\n", 2))
            feed(h, st, (struct slice){h->text.ptr, h->text.len});
        else
            reset(h, st, FAULT_BAD_FRAMING);
    }
    st->ended = st->ended || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM);
    return 0;
}

/* Why a request has no answer. */
static enum fault fault_of(const struct h2 *h, const struct stream *st, uint32_t error)
{
    if (st->fault)
        return st->fault;
    if (error == NGHTTP2_REFUSED_STREAM && (st->was_reset || h->goaway))
        return FAULT_UNPROCESSED;
    return st->was_reset ? FAULT_STREAM_RESET : FAULT_BAD_FRAMING;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *user)
{
    struct h2 *h = user;
    struct stream *st = find(h, id);
    struct shot *s;
    struct question q;

    (void)session;
    if (!st)
        return 0;
    s = shot_of(h, st);
    q = question_of(h->w, s);
    if (!st->ended || st->fault || st->was_reset || error)
        st->answer.fault = (uint8_t)fault_of(h, st, error);
    else if (!st->done)
        st->done = answer_end(&st->answer, &q) == ANSWER_DONE;
    if (st->done && st->ended && !st->fault && !error)
        count_answer(h->w, h->c, s, &st->answer);
    else
        count_lost(h->w, h->c, s, &st->answer);
    st->id = 0;
    h->c->oldest++;
    h->free[--h->open] = (uint32_t)(st - h->stream);
    return 0;
}

/* --- Requests --------------------------------------------------------------------------------- */

struct shot *h2_place(struct h2 *h)
{
    return &h->c->shot[h->free[h->open]];
}

void h2_ask(struct h2 *h, const struct shot *s)
{
    struct stream *st = &h->stream[h->free[h->open++]];
    struct h2_field field[H2_FIELDS_MAX];
    nghttp2_nv nv[H2_FIELDS_MAX];
    size_t n = h2_fields_split(shot_text(h->w, s), h->w->plan->secure, field);

    for (size_t i = 0; i < n; i++)
        nv[i] = (nghttp2_nv){(uint8_t *)(uintptr_t)field[i].name.ptr,
                             (uint8_t *)(uintptr_t)field[i].value.ptr, field[i].name.len,
                             field[i].value.len, NGHTTP2_NV_FLAG_NONE};
    st->done = st->ended = st->was_reset = false;
    st->fault = FAULT_NONE;
    answer_begin(&st->answer);
    st->id = nghttp2_submit_request(h->session, NULL, nv, n, NULL, st);
    h->c->leaving = h->c->leaving || st->id > STREAM_ID_LATE || st->id < 0;
}

struct shot *h2_shot(struct h2 *h, uint32_t number)
{
    struct stream *st = h->stream;

    for (; st < h->stream + h->places; st++)
        if (st->id && number-- == 0)
            return shot_of(h, st);
    return NULL;
}

uint64_t h2_give_up(struct h2 *h, uint64_t sent_ns)
{
    uint64_t oldest = UINT64_MAX;

    for (struct stream *st = h->stream; st < h->stream + h->places; st++) {
        uint64_t sent = shot_of(h, st)->sent_ns;

        if (st->id && sent <= sent_ns && !st->fault)
            reset(h, st, FAULT_TIMED_OUT);
        else if (st->id && sent < oldest)
            oldest = sent;
    }
    return oldest;
}

/* --- The connection --------------------------------------------------------------------------- */

enum fault h2_hear(struct h2 *h, struct slice bytes)
{
    /* A frame that begins with this letter is far too long; an answer of HTTP/1 begins so. */
    if (!h->greeted && bytes.len && bytes.ptr[0] == 'H')
        return FAULT_NOT_HTTP2;
    if (nghttp2_session_mem_recv(h->session, (const uint8_t *)bytes.ptr, bytes.len) >= 0)
        return FAULT_NONE;
    return h->greeted ? FAULT_BAD_FRAMING : FAULT_NOT_HTTP2;
}

enum fault h2_make(struct h2 *h, struct bytes *to)
{
    const uint8_t *bytes;
    ssize_t n;

    while ((n = nghttp2_session_mem_send(h->session, &bytes)) > 0)
        if (!bytes_add(to, (const char *)bytes, (size_t)n))
            return FAULT_BAD_FRAMING;
    if (n == 0 && (nghttp2_session_want_read(h->session) || (h->goaway && !h->open)))
        return FAULT_NONE;
    return h->greeted ? FAULT_BAD_FRAMING : FAULT_NOT_HTTP2; /* the library has given up */
}

bool h2_has_frames(const struct h2 *h)
{
    return nghttp2_session_want_write(h->session);
}

bool h2_is_greeted(const struct h2 *h)
{
    return h->greeted;
}

bool h2_leaves(const struct h2 *h)
{
    return h->leaves;
}

void h2_say_goaway(struct h2 *h)
{
    (void)nghttp2_session_terminate_session(h->session, NGHTTP2_NO_ERROR);
}

static bool open_session(struct h2 *h)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}, {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW_BYTES}};
    nghttp2_session_callbacks *callbacks;
    int err = nghttp2_session_callbacks_new(&callbacks);

    if (err)
        return false;
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    err = nghttp2_session_client_new(&h->session, callbacks, h);
    nghttp2_session_callbacks_del(callbacks);
    err = err ? err : nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings, 2);
    err = err ? err : nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0,
                                                            WINDOW_BYTES);
    return !err;
}

struct h2 *h2_begin(struct worker *w, struct client *c)
{
    uint32_t places = w->plan->depth;
    struct h2 *h = calloc(1, sizeof(*h) + places * sizeof(h->stream[0]));

    if (!h)
        return NULL;
    h->w = w;
    h->c = c;
    h->places = places;
    h->free = malloc(places * sizeof(*h->free));
    for (uint32_t i = 0; h->free && i < places; i++)
        h->free[i] = i;
    if (h->free && open_session(h))
        return h;
    h2_end(h);
    return NULL;
}

void h2_end(struct h2 *h)
{
    if (!h)
        return;
    nghttp2_session_del(h->session);
    bytes_free(&h->text);
    free(h->free);
    free(h);
}

bool h2_is_built(void)
{
    return true;
}
