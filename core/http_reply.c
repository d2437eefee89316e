/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* http_reply.c - a whole request head becomes an answer: ask the host, judge preconditions and
 * ranges, write the head.
 *
 * Heads are put together from prebuilt pieces straight into the send queue; bodies are the host's
 * and are not copied.  A source found here is the connection's from then on: queued, kept in the
 * state for http_more.c, or released at once where nothing of it is sent (HEAD, 304, an empty
 * file).
 */
#include "http_inside.h"
#include "listing.h"

/* --- Representations -------------------------------------------------------------------------- */

/* A source that was found, and its answer. */
struct found {
    struct answer a;
    struct source *source;
    struct http_mark mark;
};

/* RFC 9110 12.5.5: the fields that chose this representation among several, on each of them. */
static void put_vary(struct text *t, const struct source *s)
{
    bool coded = s->vary || s->coding != CODING_IDENTITY;

    if (s->save_as)
        TEXT_LITERAL(t, "Cache-Control: no-cache\r\n");
    else if (s->kind == SOURCE_MADE && coded)
        TEXT_LITERAL(t, "Cache-Control: no-cache\r\nVary: Accept, Accept-Encoding\r\n");
    else if (s->kind == SOURCE_MADE)
        TEXT_LITERAL(t, "Cache-Control: no-cache\r\nVary: Accept\r\n");
    else if (coded)
        TEXT_LITERAL(t, "Vary: Accept-Encoding\r\n");
}

static void put_etag(struct text *t, const struct http_mark *mark)
{
    if (!mark->etag_len)
        return;
    TEXT_LITERAL(t, "ETag: ");
    if (!mark->strong)
        TEXT_LITERAL(t, "W/");
    text_put(t, mark->etag, mark->etag_len);
    TEXT_LITERAL(t, "\r\n");
}

static void put_type(struct text *t, const struct source *s)
{
    TEXT_LITERAL(t, "Content-Type: ");
    text_string(t, s->type);
    TEXT_LITERAL(t, "\r\n");
    if (s->kind != SOURCE_MADE ||
        !slice_is((struct slice){s->type, strlen(s->type)}, listing_type(LISTING_HTML)))
        return;
    TEXT_LITERAL(t, "Content-Security-Policy: ");
    text_string(t, listing_policy);
    TEXT_LITERAL(t, "\r\n");
}

static void put_modified(struct text *t, const struct http_mark *mark)
{
    char date[HTTP_DATE_BYTES];

    if (!mark->dated)
        return;
    http_date_write(date, mark->mtime_s);
    TEXT_LITERAL(t, "Last-Modified: ");
    text_put(t, date, sizeof(date));
    TEXT_LITERAL(t, "\r\n");
}

/* The fields of 200 and 206 for a body of known length, except its length and type. */
static void put_fields(struct text *t, const struct source *s, const struct http_mark *mark)
{
    http_put_coding(t, s->coding);
    put_vary(t, s);
    put_modified(t, mark);
    put_etag(t, mark);
    if (s->kind == SOURCE_BODY)
        TEXT_LITERAL(t, "Accept-Ranges: bytes\r\n");
}

static void put_whole(struct text *t, const struct source *s, const struct http_mark *mark)
{
    put_type(t, s);
    http_put_length(t, s->size);
    put_fields(t, s, mark);
}

size_t http_fields_write(char out[HTTP_FIELDS_BYTES_MAX], const struct source *source,
                         int64_t now_s)
{
    struct text t = {out, out + HTTP_FIELDS_BYTES_MAX};
    struct http_mark mark;

    if (source->kind != SOURCE_BODY || source->mtime_s >= now_s || source->young)
        return 0;
    http_mark_set(&mark, source, now_s);
    put_whole(&t, source, &mark);
    return (size_t)(t.at - out);
}

/* RFC 9110 15.4.5: of the file's fields those that guide a cache, which are Vary, ETag and
 * Last-Modified; the last is for caches that compare dates. */
static void reply_unmodified(struct found *f)
{
    answer_open(&f->a, 304);
    put_vary(&f->a.text, f->source);
    put_modified(&f->a.text, &f->mark);
    put_etag(&f->a.text, &f->mark);
    answer_close(&f->a);
    answer_send(&f->a, f->source, (struct http_range){0, 0});
}

/* For a client to save it under that name.  Clients that do not know filename* get the name in
 * ASCII (RFC 6266 appendix D); the other form may have all bytes that path_encode() leaves as they
 * are (RFC 8187 3.2.1). */
static void put_disposition(struct text *t, const char *name)
{
    size_t len = strlen(name);
    const char *at;

    TEXT_LITERAL(t, "Content-Disposition: attachment; filename=\"");
    for (at = name; *at; at++) {
        bool plain = *at >= ' ' && *at <= '~' && *at != '"' && *at != '\\' && *at != '%';

        text_put(t, plain ? at : "_", 1);
    }
    TEXT_LITERAL(t, "\"; filename*=UTF-8''");
    core_assert(3 * len <= (size_t)(t->end - t->at));
    t->at += path_encode(t->at, name, len);
    TEXT_LITERAL(t, "\r\nAccept-Ranges: none\r\n");
}

/* Which field follows the body (RFC 9110 6.6.2). */
static void put_trailer(struct text *t, const char *name)
{
    TEXT_LITERAL(t, "Trailer: ");
    text_string(t, name);
    TEXT_LITERAL(t, "\r\n");
}

/* Chunked, or for 1.0, which knows no chunks, up to the end of the connection. */
static void reply_made(struct found *f)
{
    struct http_state *state = conn_state(f->a.c);
    bool chunked = f->a.head->minor > 0;
    void *note;

    f->a.keep_alive = f->a.keep_alive && chunked;
    answer_open(&f->a, 200);
    put_type(&f->a.text, f->source);
    put_vary(&f->a.text, f->source);
    if (f->source->save_as)
        put_disposition(&f->a.text, f->source->save_as);
    if (chunked && f->source->trailer)
        put_trailer(&f->a.text, f->source->trailer);
    if (chunked)
        TEXT_LITERAL(&f->a.text, "Transfer-Encoding: chunked\r\n");
    answer_close(&f->a);
    if (f->a.head->method == HTTP_HEAD) {
        answer_send(&f->a, f->source, (struct http_range){0, 0});
        return;
    }
    note = answer_note(&f->a, ~0ull);
    state->phase = PHASE_MADE;
    state->chunked = chunked;
    state->source = f->source;
    http_more_begin(&f->a, state, note);
}

/* Several ranges: multipart/byteranges (RFC 9110 14.6). */
static void reply_parts(struct found *f, const struct http_ranges *ranges)
{
    struct http_state *state = conn_state(f->a.c);
    uint64_t bytes;

    state->phase = PHASE_PARTS;
    state->part = 0;
    state->source = f->source;
    state->ranges = *ranges;
    bytes = http_parts_bytes(state);
    answer_open(&f->a, 206);
    http_parts_type(&f->a.text, state);
    http_put_length(&f->a.text, bytes);
    put_fields(&f->a.text, f->source, &f->mark);
    answer_close(&f->a);
    http_more_begin(&f->a, state, answer_note(&f->a, bytes));
}

static void reply_part(struct found *f, struct http_range range)
{
    answer_open(&f->a, 206);
    put_type(&f->a.text, f->source);
    http_parts_content_range(&f->a.text, &range, f->source->size);
    http_put_length(&f->a.text, range.len);
    put_fields(&f->a.text, f->source, &f->mark);
    answer_close(&f->a);
    answer_send(&f->a, f->source, range);
}

static bool is_written(const struct found *f)
{
    const struct whole *whole = f->source->whole;
    const struct http_host *host = http_host_of(f->a.c);

    return whole && whole->date_s == host->date_s && f->a.keep_alive && f->a.head->minor &&
           f->a.head->method == HTTP_GET && !host->fields;
}

static void reply_written(struct found *f)
{
    void *note;

    f->a.status = 200;
    note = answer_note(&f->a, f->source->size);
    conn_put_whole(f->a.c, f->source);
    answer_end(&f->a, note);
}

static void reply_whole(struct found *f)
{
    if (is_written(f)) {
        reply_written(f);
        return;
    }
    answer_open(&f->a, 200);
    if (f->source->fields)
        text_put(&f->a.text, f->source->fields, f->source->fields_len);
    else
        put_whole(&f->a.text, f->source, &f->mark);
    answer_close(&f->a);
    answer_send(&f->a, f->source, (struct http_range){0, f->source->size});
}

static void release(struct found *f)
{
    const struct http_host *host = http_host_of(f->a.c);

    host->conn.release(host->conn.ctx, f->source);
}

/* RFC 9110 14.2: Range has a meaning for GET only.  It is not a list field, so two of them count as
 * none.  A made body may be different the next time. */
static enum http_range_want range_wanted(const struct found *f, struct http_ranges *ranges)
{
    const struct http_head *head = f->a.head;
    unsigned cursor = 0;
    struct slice value;

    if (head->method != HTTP_GET || !head->first[FIELD_RANGE] || f->source->kind != SOURCE_BODY)
        return RANGE_WHOLE;
    value = http_next(head, FIELD_RANGE, &cursor);
    if (http_next(head, FIELD_RANGE, &cursor).ptr || !http_cond_range(head, &f->mark))
        return RANGE_WHOLE;
    return http_range(value, f->source->size, ranges);
}

static int reply_body(struct found *f)
{
    struct http_ranges ranges;

    switch (range_wanted(f, &ranges)) {
    case RANGE_WHOLE:
        reply_whole(f);
        break;
    case RANGE_NONE:
        f->a.size = f->source->size;
        release(f);
        return http_status_write(&f->a, 416);
    case RANGE_SOME:
        if (ranges.count == 1) /* a single part even if several were asked (RFC 9110 15.3.7.2) */
            reply_part(f, ranges.range[0]);
        else
            reply_parts(f, &ranges);
    }
    return 0;
}

/* --- The request ------------------------------------------------------------------------------ */

/* Whether the request has a condition or a range.  If it has none, no validator need be
 * computed. */
static bool is_conditional(const struct http_head *head)
{
    return head->first[FIELD_IF_MATCH] || head->first[FIELD_IF_NONE_MATCH] ||
           head->first[FIELD_IF_MODIFIED_SINCE] || head->first[FIELD_IF_UNMODIFIED_SINCE] ||
           head->first[FIELD_RANGE];
}

static int reply_elsewhere(struct found *f, const struct http_ask *ask)
{
    int err;

    if (f->source->kind == SOURCE_REDIRECT) {
        release(f);
        return http_status_redirect(&f->a, ask);
    }
    err = http_status_moved(&f->a, ask, f->source);
    release(f);
    return err;
}

static int reply_found(struct found *f, const struct http_ask *ask)
{
    unsigned status = 0;

    if (f->source->kind >= SOURCE_REDIRECT)
        return reply_elsewhere(f, ask);
    /* RFC 9110 12.5.3: without an acceptable coding identity is sent, unless that was refused
     * by name. */
    if (f->source->coding == CODING_IDENTITY && !ask->q[CODING_IDENTITY])
        status = 406;
    if (!status && f->source->fields && !is_conditional(f->a.head)) {
        reply_whole(f); /* nearly always */
        return 0;
    }
    http_mark_set(&f->mark, f->source, http_host_of(f->a.c)->date_s);
    if (!status)
        status = http_cond(f->a.head, &f->mark);
    if (!status && f->source->vary && f->source->coding == CODING_IDENTITY &&
        http_cond_made(f->a.head, ask, &f->mark))
        status = 304;
    if (status == 304) {
        reply_unmodified(f);
    } else if (status) {
        release(f);
        return http_status_write(&f->a, status);
    } else if (f->source->kind == SOURCE_MADE && !f->source->bytes) {
        reply_made(f);
    } else {
        return reply_body(f);
    }
    return 0;
}

/* OPTIONS has the same answer for every path that could be asked for: 0, or the status of the
 * refusal. */
static unsigned options_status(struct conn *c, const struct http_head *head)
{
    struct http_work *work = conn_work(c);
    long len;

    if (slice_is(head->path, "*"))
        return 0;
    len = path_decode(head->path, work->path);
    return len < 0 ? (unsigned)-len : 0;
}

int http_reply_ask(struct conn *c, const struct http_head *head, const struct http_ask *ask,
                   bool keep_alive)
{
    struct found f;
    int err;

    f.a = (struct answer){.c = c, .head = head, .keep_alive = keep_alive};
    err = http_host_of(c)->find(c->host->ctx, ask, &f.source);
    if (err == -EINPROGRESS)
        return err;
    return err ? http_status_write(&f.a, http_status_of_error(err)) : reply_found(&f, ask);
}

int http_reply(struct conn *c, const struct http_head *head, bool keep_alive)
{
    struct answer a = {.c = c, .head = head, .keep_alive = keep_alive};
    struct http_work *work = conn_work(c);
    struct http_ask ask;
    unsigned status, refused;

    if (head->method == HTTP_GET || head->method == HTTP_HEAD) {
        status = http_ask_set(&ask, work->path, head);
        ask.conn = c;
        if (!status)
            return http_reply_ask(c, head, &ask, keep_alive);
    } else if (head->method == HTTP_OPTIONS) {
        status = options_status(c, head);
    } else {
        status = head->method == HTTP_KNOWN ? 405 : 501;
    }
    refused = answer_aim(c, head);
    if (refused)
        status = refused;
    status = answer_admit(c, head, status);
    if (status)
        return http_status_write(&a, status);
    http_status_options(&a);
    return 0;
}
