/* SPDX-License-Identifier: MIT */
/* h2.c - HTTP/2 as a protocol: frames outside, a connection of its own for each request inside.
 *
 * The connection is duplex: requests, windows and resets are heard between two sends.  Input is
 * used at once and in full.  Frames are made while there is room for one in the send queue, and
 * then again when the queue is empty: so memory is bounded, and the next frame is chosen late.
 *
 * Times.  A stream has those of http_proto: a body and an answer must make progress in send_ms, or
 * the stream is reset.  The connection waits as long as any of its streams may: it ends when the
 * last one's time is up.  Without streams it is idle, or has a head's time for the part of a frame,
 * or of a header block, that has come.  Streams for which the host makes an answer wait for ever.
 *
 * The state of a connection hangs on conn->proto, as that of TLS does (tls.c).
 */
#include <stdlib.h>
#include "h2.h"
#include "h2_inside.h"

static const struct conn_proto h2_proto;

/* NULL: no byte has come yet. */
static struct h2 *h2_of(const struct conn *c)
{
    if (c->proto == &h2_proto)
        return NULL;
    return (struct h2 *)(uintptr_t)((const char *)c->proto - offsetof(struct h2, proto));
}

/* The state of the connection; h->c is valid during this call. */
static struct h2 *enter(struct conn *c)
{
    struct h2 *h = h2_of(c);

    if (h)
        h->c = c;
    return h;
}

/* --- Begin and end ---------------------------------------------------------------------------- */

static void *take(size_t n, void *heap)
{
    return heap_take(heap, n);
}

static void *take_zeroed(size_t count, size_t n, void *heap)
{
    return heap_take_zeroed(heap, count, n);
}

static void *resize(void *mem, size_t n, void *heap)
{
    return heap_resize(heap, mem, n);
}

static void give(void *mem, void *heap)
{
    (void)heap;
    heap_give(mem);
}

static int open_session(struct h2 *h)
{
    nghttp2_mem mem = {&h->heap, take, give, take_zeroed, resize};
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    int err = nghttp2_session_callbacks_new(&callbacks);

    if (!err)
        err = nghttp2_option_new(&option);
    if (!err) {
        h2_request_callbacks(callbacks);
        h2_answer_callbacks(callbacks);
        nghttp2_option_set_no_closed_streams(option, 1);
        nghttp2_option_set_no_auto_window_update(option, 1);
        nghttp2_option_set_builtin_recv_extension_type(option, NGHTTP2_PRIORITY_UPDATE);
        err = nghttp2_session_server_new3(&h->session, callbacks, h, option, &mem);
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return err;
}

static struct h2 *begin(struct conn *c)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, H2_STREAMS_MAX},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEAD_BYTES_MAX},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1}};
    struct h2 *h = calloc(1, sizeof(*h));

    if (!h)
        return NULL;
    h->proto = h2_proto;
    h->c = c;
    heap_init(&h->heap);
    h->quiet_ms = h2_loop(h)->now_ms;
    h2_frames_begin(&h->frames, h->quiet_ms);
    if (open_session(h) ||
        nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings,
                                sizeof(settings) / sizeof(*settings))) {
        heap_drop(&h->heap);
        free(h);
        return NULL;
    }
    net_keep_near(session_of_conn(c)->fd, H2_NEAR_BYTES);
    c->proto = &h->proto;
    conn_duplex(c);
    return h;
}

/* If it has got no memory, nghttp2_session_del() of nghttp2 1.52 may free an item twice. */
static void h2_fini(struct conn *c)
{
    struct h2 *h = enter(c);

    if (!h)
        return;
    while (h->first)
        h2_stream_free(h, h->first);
    h2_asking_free(h);
    heap_drop(&h->heap);
    c->proto = &h2_proto;
    free(h);
}

/* --- Output ----------------------------------------------------------------------------------- */

/* Makes frames while there is room for one. */
static void write_frames(struct h2 *h)
{
    for (;;) {
        const uint8_t *bytes;
        size_t cap;
        char *space;
        ssize_t n;

        (void)conn_space(h->c, &cap);
        if (cap < H2_FRAME_BYTES)
            return;
        n = nghttp2_session_mem_send(h->session, &bytes);
        space = conn_space(h->c, &cap); /* DATA frames before this one were written there */
        if (n > 0) {
            core_assert((size_t)n <= cap);
            memcpy(space, bytes, (size_t)n);
            conn_wrote(h->c, (size_t)n, false);
            continue;
        }
        if (n < 0)
            h2_give_up(h);
        if (n < 0 || cap >= H2_FRAME_BYTES)
            return;
    }
}

/* The next request that waits, if its answer may be begun. */
static struct stream *next_waiting(const struct h2 *h)
{
    struct stream *st = h->working < H2_WORKING_MAX ? h->first : NULL;

    while (st && st->state != WAITS)
        st = st->next;
    return st;
}

static void look_at_made(struct h2 *h)
{
    struct stream *st, *next;

    for (st = h->first; st && h->making; st = next) {
        next = st->next;
        if (st->state == WORKS && st->nested.conn.want != CONN_WAIT)
            h2_stream_look(h, st);
    }
}

/* The host may take more of the bodies that it keeps. */
static void pump_bodies(struct h2 *h)
{
    struct stream *st, *next;

    for (st = h->first; st && h->taking; st = next) {
        next = st->next;
        if (st->state == TAKES)
            h2_body_pump(h, st);
    }
}

/* The server stops: first a notice, then, when requests under way have come, which ones are
 * answered. */
static void say_closing(struct h2 *h, uint64_t now_ms)
{
    if (h->terminated || h->goaway)
        return;
    if (!h->notice_ms) {
        h->notice_ms = now_ms;
        (void)nghttp2_submit_shutdown_notice(h->session);
    } else if (now_ms >= h->notice_ms + H2_NOTICE_MS) {
        h->goaway = true;
        if (nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE,
                                  nghttp2_session_get_last_proc_stream_id(h->session),
                                  NGHTTP2_NO_ERROR, NULL, 0))
            h2_give_up(h);
    }
}

/* The resets of UNREAD streams are sent after their answers, and in another record of TLS: curl
 * 7.88 loses an answer that it reads together with the reset. */
static void reset_unread(struct h2 *h)
{
    size_t cap;

    if (!h->unread)
        return;
    (void)conn_space(h->c, &cap);
    if (cap < OUTQ_BYTES)
        return;
    h->unread = false;
    for (struct stream *st = h->first; st; st = st->next)
        if (st->state == UNREAD)
            h2_stream_reset(h, st, NGHTTP2_NO_ERROR);
}

/* A small answer is in its frame, and its memory free, before the next is begun. */
static void produce(struct h2 *h)
{
    struct stream *st;
    size_t cap;

    if (((const struct http_host *)h->c->host)->closing)
        say_closing(h, h2_loop(h)->now_ms);
    reset_unread(h);
    look_at_made(h);
    pump_bodies(h);
    h2_streams_resume(h);
    write_frames(h);
    while ((void)conn_space(h->c, &cap), cap >= H2_FRAME_BYTES && h->c->want != CONN_CLOSE) {
        st = next_waiting(h);
        if (!st)
            return;
        h2_stream_begin(h, st);
        write_frames(h);
    }
}

/* Whether a client waits for the host: for an answer, or until the host takes more of its body. */
static bool owes(const struct h2 *h)
{
    const struct stream *st = h->first;

    while (h->taking && st && !(st->state == TAKES && st->nested.conn.want == CONN_WAIT))
        st = st->next;
    return h->making || (h->taking && st);
}

/* Sets what the connection wants, by the state of its streams. */
static void settle(struct h2 *h)
{
    struct conn *c = h->c;
    size_t cap;

    (void)conn_space(c, &cap);
    conn_in_body(c, h->receiving);
    conn_owes(c, owes(h));
    if (!h->streams && h->asking && !h->asking->id)
        h2_asking_free(h);
    conn_more(c, true);
    if (cap < OUTQ_BYTES)
        return;
    if (h->ended || (!nghttp2_session_want_read(h->session) &&
                     !nghttp2_session_want_write(h->session))) {
        conn_in_body(c, false);
        conn_more(c, false);
        conn_close_after(c);
    } else if (h->deferred && fetch_waits(session_of_conn(c))) {
        conn_wait(c);
    } else {
        conn_more(c, false);
    }
}

/* --- Times ------------------------------------------------------------------------------------ */

static bool is_overdue(struct h2 *h, struct stream *st, uint64_t now_ms)
{
    struct conn *c;

    if (st->state == TAKES || st->state == WORKS || st->state == ANSWERS) {
        c = stream_conn(h, st);
        return conn_overdue(c, c->sent, now_ms);
    }
    if (st->state != RECEIVES || now_ms < st->deadline_ms)
        return false;
    if (st->taken - st->mark < h->c->host->progress_bytes)
        return true;
    st->mark = st->taken;
    st->deadline_ms = now_ms + h->c->host->send_ms;
    return false;
}

/* Resets streams whose time is up. */
static void check(struct h2 *h, uint64_t now_ms)
{
    if (now_ms < h->check_ms)
        return;
    h->check_ms = now_ms + H2_CHECK_MS;
    for (struct stream *st = h->first; st; st = st->next)
        if (is_overdue(h, st, now_ms))
            h2_stream_reset(h, st, NGHTTP2_CANCEL);
    if (h2_frames_partial(&h->frames) && now_ms >= h->frames.begun_ms + h->c->host->head_ms)
        h2_terminate(h, NGHTTP2_ENHANCE_YOUR_CALM);
}

static uint64_t h2_due(struct conn *c, uint64_t now_ms)
{
    struct h2 *h = enter(c);
    uint64_t due_ms = 0, ms;

    if (!h)
        return 0;
    for (const struct stream *st = h->first; st; st = st->next) {
        ms = now_ms + c->host->send_ms;
        if (st->state == ANSWERS || st->state == TAKES)
            ms = st->nested.conn.deadline_ms;
        due_ms = ms + H2_GRACE_MS > due_ms ? ms + H2_GRACE_MS : due_ms;
    }
    if (h2_frames_partial(&h->frames)) {
        ms = h->frames.begun_ms + c->host->head_ms;
        return ms > due_ms ? ms : due_ms;
    }
    return due_ms ? due_ms : h->quiet_ms + c->host->idle_ms;
}

static bool h2_begun(const struct conn *c)
{
    const struct h2 *h = h2_of(c);

    return !h || h->streams || h2_frames_partial(&h->frames);
}

/* --- The waist's side ------------------------------------------------------------------------- */

/* Lets the library use bytes: at most one frame of DATA, whose head is the last of them. */
static void hear_some(struct h2 *h, const char *bytes, size_t n)
{
    ssize_t used = nghttp2_session_mem_recv(h->session, (const uint8_t *)bytes, n);
    uint32_t code;

    if (used == NGHTTP2_ERR_NOMEM)
        h2_give_up(h);
    else if (used == NGHTTP2_ERR_CALLBACK_FAILURE && h->wrong)
        h2_terminate(h, h->wrong);
    else if (used == NGHTTP2_ERR_CALLBACK_FAILURE || used == NGHTTP2_ERR_FLOODED)
        h2_terminate(h, NGHTTP2_ENHANCE_YOUR_CALM);
    else if (used < 0)
        h2_terminate(h, NGHTTP2_PROTOCOL_ERROR); /* unless the library has said so already */
    code = h->frames.data ? h2_judge(h, (int32_t)h->frames.data) : NGHTTP2_NO_ERROR;
    if (code)
        h2_terminate(h, code);
}

static void hear(struct h2 *h, const char *bytes, size_t n)
{
    size_t part;

    for (size_t at = 0; at < n && !h->terminated; at += part) { /* the rest is not looked at */
        part = h2_frames_follow(&h->frames, bytes + at, n - at, h2_loop(h)->now_ms);
        if (h->frames.code != H2_FINE)
            h2_terminate(h, h->frames.code);
        else
            hear_some(h, bytes + at, part);
    }
}

static void go_on(struct h2 *h)
{
    if (h->c->want == CONN_CLOSE)
        return; /* the library must not be called again */
    check(h, h2_loop(h)->now_ms);
    produce(h);
    settle(h);
}

static long h2_input(struct conn *c, const char *bytes, size_t n)
{
    struct h2 *h = enter(c);

    if (!conn_queue(c))
        return 0;
    if (!h)
        h = begin(c);
    if (!h) {
        conn_close_after(c);
        return (long)n;
    }
    hear(h, bytes, n);
    go_on(h);
    return (long)n;
}

static void h2_more(struct conn *c)
{
    struct h2 *h = enter(c);

    if (!h || !conn_queue(c)) {
        conn_more(c, false);
        return;
    }
    go_on(h);
}

/* Answers that are complete, or whose windows are open, are still sent. */
static void h2_end(struct conn *c, size_t unused)
{
    struct h2 *h = enter(c);

    (void)unused;
    if (!h || !conn_queue(c))
        return;
    h->ended = true;
    produce(h);
    settle(h);
}

/* The last GOAWAY says which requests were answered: the client may send the others to another
 * server. */
static void h2_leave(struct conn *c)
{
    struct h2 *h = enter(c);

    if (!h || !conn_queue(c))
        return;
    h2_terminate(h, NGHTTP2_NO_ERROR);
    write_frames(h);
    settle(h);
}

static const struct conn_proto h2_proto = {
    .name = "http",
    .input = h2_input,
    .more = h2_more,
    .end = h2_end,
    .begun = h2_begun,
    .due = h2_due,
    .leave = h2_leave,
    .fini = h2_fini,
};

const struct conn_proto *h2_protocol(void)
{
    return &h2_proto;
}
