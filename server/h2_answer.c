/* SPDX-License-Identifier: MIT */
/* h2_answer.c - the answer of http_proto becomes HEADERS and DATA, and its trailer HEADERS again.
 *
 * The head is text of our own making, so it is split at its line ends instead of parsed again.  The
 * body is taken when the library makes a frame, straight into the connection's send queue: what is
 * sent next is decided as late as possible, and a file is read once, into its frame.  When the last
 * byte is in a frame the stream's connection is over, and its memory serves the next stream.
 */
#include "h2_inside.h"
#include "rules.h"

enum {
    ANSWER_FIELDS_MAX = FIELDS_MAX + 24, /* those of options, and those of http_proto */
    STATUS_AT = 9 /* behind "HTTP/1.1 " */
};

/* --- Bodies ----------------------------------------------------------------------------------- */

/* The result of one run of the answer's output. */
struct run {
    size_t used; /* bytes of it */
    long n;      /* of them payload; or -errno */
};

static struct run take_memory(struct stream *st, const struct segment *seg, struct iovec to)
{
    size_t n = seg->len < to.iov_len ? (size_t)seg->len : to.iov_len;
    struct slice data;
    long used;

    if (!st->chunked) {
        memcpy(to.iov_base, seg->bytes, n);
        return (struct run){n, (long)n};
    }
    used = http_body_next(&st->body, seg->bytes, n, &data);
    if (used < 0)
        return (struct run){0, -EIO};
    memcpy(to.iov_base, data.ptr, data.len);
    return (struct run){(size_t)used, (long)data.len};
}

/* A file that has become shorter gives 0 bytes. */
static struct run take_file(const struct h2 *h, const struct segment *seg, struct iovec to,
                            bool alone)
{
    long n;

    to.iov_len = seg->len < to.iov_len ? (size_t)seg->len : to.iov_len;
    n = part_read(h->c, seg, to, alone);
    return (struct run){n > 0 ? (size_t)n : 0, n ? n : -EIO};
}

static bool is_complete(const struct stream *st)
{
    return st->chunked ? http_body_done(&st->body) : !st->left;
}

/* A whole trailer section: one field, which http_proto has written, and an empty line. */
static bool submit_trailer(struct h2 *h, const struct stream *st, struct slice section)
{
    const char *end = section.ptr + section.len - 4, *colon;
    nghttp2_nv field;

    colon = memchr(section.ptr, ':', section.len);
    if (!colon || colon + 2 > end || memchr(section.ptr, '\r', section.len) != end)
        return false;
    field = (nghttp2_nv){(uint8_t *)(uintptr_t)section.ptr, (uint8_t *)(uintptr_t)colon + 2,
                         (size_t)(colon - section.ptr), (size_t)(end - colon - 2),
                         NGHTTP2_NV_FLAG_NONE};
    return nghttp2_submit_trailer(h->session, st->id, &field, 1) == 0; /* it copies the field */
}

/* What follows the last chunk; http_proto writes it in one piece.  How many bytes, or -errno. */
static long take_trailer(struct h2 *h, struct stream *st, const struct segment *seg)
{
    struct slice section = {seg->bytes, (size_t)seg->len}, data;
    long used = http_body_next(&st->body, section.ptr, section.len, &data);

    if (used < 2 || !http_body_done(&st->body))
        return -EIO;
    section.len = (size_t)used;
    st->trails = used > 2;
    return !st->trails || submit_trailer(h, st, section) ? used : -EIO;
}

/* Returns how many bytes of the body it wrote; -EAGAIN: none are ready; or -EIO. */
static long fill(struct h2 *h, struct stream *st, struct iovec to, bool alone)
{
    struct conn *c = stream_conn(h, st);
    size_t have = 0;

    while (have < to.iov_len && c->want == CONN_SEND && !is_complete(st)) {
        struct segment seg = conn_out(c).seg[0];
        struct iovec room = {(char *)to.iov_base + have, to.iov_len - have};
        struct run run = {0};
        long trailer = 0;

        if (st->chunked && http_body_trails(&st->body))
            trailer = take_trailer(h, st, &seg);
        else if (seg.bytes)
            run = take_memory(st, &seg, room);
        else
            run = take_file(h, &seg, room, alone && !have);
        if (trailer < 0)
            return trailer;
        if (run.n < 0)
            return have ? (long)have : run.n;
        have += (size_t)run.n;
        st->left -= st->chunked ? 0 : (uint64_t)run.n;
        conn_sent(c, run.used + (size_t)trailer, h2_loop(h)->now_ms);
    }
    if (have || is_complete(st))
        return (long)have;
    return c->want == CONN_WAIT ? -EAGAIN : -EIO;
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *buf, size_t length,
                         uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct h2 *h = user;
    struct stream *st = source->ptr;
    size_t cap;
    char *space = conn_space(h->c, &cap);
    bool alone = cap == OUTQ_BYTES;
    long n;

    (void)session;
    (void)id;
    (void)buf;
    if (st->state != ANSWERS)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (cap < H2_FRAME_HEAD_BYTES + H2_PIECE_BYTES)
        return NGHTTP2_ERR_PAUSE;
    cap -= H2_FRAME_HEAD_BYTES;
    cap = cap < H2_BODY_BYTES ? cap : H2_BODY_BYTES;
    n = fill(h, st, (struct iovec){space + H2_FRAME_HEAD_BYTES, cap < length ? cap : length},
             alone);
    if (n == -EAGAIN) {
        h->deferred += !st->deferred;
        st->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n < 0) {
        h2_stream_over(h, st);
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* RST_STREAM: the body is not whole */
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (is_complete(st)) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | (st->trails ? NGHTTP2_DATA_FLAG_NO_END_STREAM : 0);
        h2_stream_over(h, st);
        h2_frames_earn(&h->frames, H2_EARN_ANSWER);
    }
    return n;
}

/* The payload is there already. */
static int send_frame(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head,
                      size_t length, nghttp2_data_source *source, void *user)
{
    struct h2 *h = user;
    size_t cap;

    (void)session;
    (void)frame;
    (void)source;
    memcpy(conn_space(h->c, &cap), head, H2_FRAME_HEAD_BYTES);
    conn_wrote(h->c, H2_FRAME_HEAD_BYTES + length, false);
    h2_frames_earn(&h->frames, H2_EARN_FRAME);
    return cap < H2_FRAME_HEAD_BYTES + length + H2_FRAME_BYTES ? NGHTTP2_ERR_PAUSE : 0;
}

void h2_streams_resume(struct h2 *h)
{
    for (struct stream *st = h->first; st && h->deferred; st = st->next) {
        if (!st->deferred || st->nested.conn.want == CONN_WAIT)
            continue;
        st->deferred = false;
        h->deferred--;
        h2_judge_memory(h, nghttp2_session_resume_data(h->session, st->id));
    }
}

/* --- Heads ------------------------------------------------------------------------------------ */

/* The fields of an answer, and what they say of its body. */
struct answered {
    nghttp2_nv field[ANSWER_FIELDS_MAX];
    size_t fields;
    uint64_t length;
    bool chunked;
};

static bool add(struct answered *a, struct slice name, struct slice value)
{
    if (a->fields == ANSWER_FIELDS_MAX)
        return false;
    a->field[a->fields++] = (nghttp2_nv){
        (uint8_t *)(uintptr_t)name.ptr, (uint8_t *)(uintptr_t)value.ptr, name.len, value.len,
        NGHTTP2_NV_FLAG_NONE};
    return true;
}

/* Connection and Transfer-Encoding are HTTP/1's (RFC 9113 8.2.2). */
static bool add_line(struct answered *a, struct slice line)
{
    const char *colon = memchr(line.ptr, ':', line.len);
    struct slice name, value;

    if (!colon || colon + 2 > line.ptr + line.len)
        return false;
    name = (struct slice){line.ptr, (size_t)(colon - line.ptr)};
    value = (struct slice){colon + 2, line.len - name.len - 2};
    if (slice_is(name, "Connection"))
        return true;
    if (slice_is(name, "Transfer-Encoding")) {
        a->chunked = true;
        return true;
    }
    if (slice_is(name, "Content-Length"))
        for (size_t i = 0; i < value.len; i++)
            a->length = a->length * 10 + (uint64_t)(value.ptr[i] - '0');
    return add(a, name, value);
}

/* Splits the head at the start of bytes; its length, 0: it is none of ours. */
static size_t split(struct answered *a, const char *bytes, size_t n)
{
    const char *at = bytes, *end = bytes + n, *eol;

    a->fields = 0;
    a->length = 0;
    a->chunked = false;
    while ((eol = memchr(at, '\r', (size_t)(end - at))) != NULL && end - eol >= 2) {
        struct slice line = {at, (size_t)(eol - at)};

        if (!line.len)
            return (size_t)(eol + 2 - bytes);
        if (at != bytes && !add_line(a, line))
            return 0;
        if (at == bytes)
            add(a, (struct slice){":status", 7}, (struct slice){bytes + STATUS_AT, 3});
        at = eol + 2;
    }
    return 0;
}

static bool submit(struct h2 *h, struct stream *st, const struct answered *a, bool body)
{
    nghttp2_data_provider from = {.source = {.ptr = st}, .read_callback = read_body};

    return nghttp2_submit_response(h->session, st->id, a->field, a->fields,
                                   body ? &from : NULL) == 0;
}

/* The answer's head is in the output of the stream's connection. */
static void answer(struct h2 *h, struct stream *st)
{
    struct conn *c = stream_conn(h, st);
    struct segment seg = conn_out(c).seg[0];
    struct answered a;
    size_t head = seg.bytes ? split(&a, seg.bytes, (size_t)seg.len) : 0;
    bool none, submitted;

    if (head && memcmp(seg.bytes + STATUS_AT, "100", 3) == 0) {
        h2_judge_memory(h, nghttp2_submit_headers(h->session, NGHTTP2_FLAG_NONE, st->id, NULL,
                                                  a.field, a.fields, NULL));
        conn_sent(c, head, h2_loop(h)->now_ms);
        return;
    }

    if (!head) {
        h2_stream_reset(h, st, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    none = st->head_only || memcmp(seg.bytes + STATUS_AT, "304", 3) == 0 ||
           (!a.chunked && !a.length);
    submitted = submit(h, st, &a, !none); /* it copies the fields */
    h2_stream_fed(h, st);
    h->making -= st->state == WORKS;
    st->state = ANSWERS;
    st->chunked = a.chunked;
    st->left = a.length;
    http_body_init(&st->body, FRAMING_CHUNKED, 0);
    conn_sent(c, head, h2_loop(h)->now_ms);
    if (!submitted) {
        h2_stream_reset(h, st, NGHTTP2_INTERNAL_ERROR);
    } else if (none) {
        h2_stream_over(h, st);
        h2_frames_earn(&h->frames, H2_EARN_ANSWER);
    }
}

/* --- Requests --------------------------------------------------------------------------------- */

void h2_stream_look(struct h2 *h, struct stream *st)
{
    struct conn *c = stream_conn(h, st);

    if (c->want == CONN_SEND)
        answer(h, st);
    else if (c->want != CONN_WAIT)
        h2_stream_reset(h, st, NGHTTP2_INTERNAL_ERROR); /* no memory */
}

void h2_stream_feed(struct h2 *h, struct stream *st, enum stream_state state)
{
    struct conn *c = &st->nested.conn;

    conn_init(c, &http_proto, h->c->host, h2_loop(h)->now_ms);
    c->nested = true;
    st->nested.outer = h->c;
    st->state = (uint8_t)state;
    h->working++;
    conn_feed(c, st->text, st->text_len, h2_loop(h)->now_ms);
    h->text_bytes -= st->text_len;
}

void h2_stream_begin(struct h2 *h, struct stream *st)
{
    h->making++;
    h2_stream_feed(h, st, WORKS);
    h2_stream_look(h, st);
}

/* The answer is in the send queue, and the rest of the request is not wanted (RFC 9113 8.1). */
static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct stream *st;
    struct h2 *h = user;

    if (frame->hd.type == NGHTTP2_RST_STREAM) {
        h2_closed_add(&h->closed, frame->hd.stream_id);
        if (frame->rst_stream.error_code != NGHTTP2_NO_ERROR &&
            !h2_frames_pay(&h->frames, H2_COST_RESET))
            h2_terminate(h, NGHTTP2_ENHANCE_YOUR_CALM);
        return 0;
    }
    if ((frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) ||
        !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    st = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (st && st->unread) {
        st->state = UNREAD;
        h->unread = true;
    }
    return 0;
}

void h2_answer_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_send_data_callback(callbacks, send_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
}
