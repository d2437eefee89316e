/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* http_proto.c - HTTP/1.1 as the machine sees it: bytes in, answers queued.
 *
 *   head --------------------------------> answer       the usual case
 *   head -> copy of the head -> body ----> answer       a body is consumed before it is answered,
 *                                                       or kept by the host: http_store.c
 *
 * Between two calls nothing is kept except the state in the send queue while a body is read.  A
 * request whose answer the host does not have yet uses no bytes, so the same bytes are shown again:
 * everything here is a function of them.
 */
#include "http_inside.h"

enum { IN_BODY = 1 }; /* conn->proto_flags */

/* A client that asks for a tunnel may send the tunnel's bytes right behind the head (RFC 9110
 * 9.3.6): they are neither a body nor the next request, so the connection ends. */
static bool asks_tunnel(const struct http_head *head)
{
    return head->method == HTTP_KNOWN && slice_is(head->method_text, "CONNECT");
}

static bool keeps_alive(const struct conn *c, const struct http_head *head)
{
    return head->keep_alive && !http_host_of(c)->closing && !asks_tunnel(head);
}

/* RFC 9112 9.6: a client that sends the close option sends no further request, nor does one of 1.0
 * that does not ask for more (9.3).  So a request without a body is the last thing that such a
 * client sends.  This is assumed for GET and HEAD only. */
static void take_promise(struct conn *c, const struct http_head *head)
{
    if (!head->keep_alive && (head->method == HTTP_GET || head->method == HTTP_HEAD))
        conn_promise(c);
}

static int refuse(struct conn *c, struct http_head *head, unsigned status)
{
    head_forget(head);
    status = answer_admit(c, NULL, status);
    return http_reply_status(c, head, status, false);
}

/* --- Request bodies --------------------------------------------------------------------------- */

static void leave_body(struct conn *c)
{
    http_store_drop(c);
    c->proto_flags &= (uint8_t)~IN_BODY;
    conn_in_body(c, false);
}

/* The head of the request whose body is being read, from the copy. */
static struct http_head *kept_head(struct conn *c)
{
    struct http_state *state = conn_state(c);
    struct http_work *work = conn_work(c);
    long used = http_parse_request(conn_keep(c), state->head_bytes, &work->head);

    core_assert(used == (long)state->head_bytes); /* it was a head before */
    return &work->head;
}

static void enter_body(struct conn *c, const char *bytes, size_t n)
{
    struct http_work *work = conn_work(c);
    struct http_state *state = conn_state(c);

    core_assert(n <= HEAD_BYTES_MAX);
    memcpy(conn_keep(c), bytes, n);
    state->head_bytes = (uint32_t)n;
    state->body_bytes = 0;
    state->into = NULL;
    state->ahead = 0;
    state->refused = 0;
    state->phase = PHASE_BODY;
    http_body_init(&state->body, work->head.framing, work->head.content_length);
    c->proto_flags |= IN_BODY;
    conn_in_body(c, true);
}

/* A body that cannot be followed to its end: where the next request begins is not known.  A refusal
 * that was decided before goes first. */
static int refuse_body(struct conn *c, unsigned status)
{
    const struct http_state *state = conn_state(c);
    struct http_head *head = kept_head(c);
    int err = http_reply_status(
        c, head, state->refused ? state->refused : answer_admit(c, head, status), false);

    if (!err)
        leave_body(c);
    return err;
}

/* The body is complete, so the request is answered.  state is as it was before these bytes, and
 * remains so if the host returns -EINPROGRESS. */
static int answer_body(struct conn *c)
{
    const struct http_state *state = conn_state(c);
    struct http_head *head = kept_head(c);
    int err;

    if (state->refused)
        err = http_reply_status(c, head, state->refused, keeps_alive(c, head));
    else
        err = http_reply(c, head, keeps_alive(c, head));
    if (!err)
        leave_body(c);
    return err;
}

static long input_body(struct conn *c, const char *bytes, size_t n)
{
    struct http_state *state = conn_state(c);
    struct http_body body = state->body;
    uint64_t body_bytes = state->body_bytes;
    struct slice data;
    size_t at = 0;
    long used;

    while (at < n && !http_body_done(&body)) {
        used = http_body_next(&body, bytes + at, n - at, &data);
        if (used < 0)
            return refuse_body(c, (unsigned)-used) ? -EINPROGRESS : (long)n;
        at += (size_t)used;
        body_bytes += data.len;
        /* A chunk is judged by the size it announces (RFC 9110 15.5.14); a Content-Length was
         * judged with the head. */
        if (body_bytes + http_body_left(&body) > http_host_of(c)->body_bytes_max)
            return refuse_body(c, 413) ? -EINPROGRESS : (long)n;
    }
    if (http_body_done(&body))
        return answer_body(c) ? -EINPROGRESS : (long)at;
    state->body = body;
    state->body_bytes = body_bytes;
    return (long)at;
}

/* --- Bodies that the host keeps --------------------------------------------------------------- */

/* The host has all of the body, in bytes[0..at). */
static long answer_kept(struct conn *c, size_t at)
{
    struct http_state *state = conn_state(c);
    struct http_head *head = kept_head(c);
    long result = state->refused ? -(long)state->refused
                                 : http_store_done(c, head, keeps_alive(c, head));

    state->ahead = at;
    if (result == -EINPROGRESS)
        return result;
    state->refused = (uint16_t)-result; /* so that the host is not asked again */
    if (result < 0 && http_reply_status(c, head, state->refused, keeps_alive(c, head)))
        return -EINPROGRESS;
    leave_body(c);
    return (long)at;
}

static long input_kept(struct conn *c, const char *bytes, size_t n)
{
    struct http_state *state = conn_state(c);
    long used = http_body_done(&state->body) ? (long)state->ahead : 0;

    if (!used && !state->refused)
        used = http_store_input(c, bytes, n);
    if (used >= 0 && http_body_done(&state->body))
        return answer_kept(c, (size_t)used);
    if (used <= 0 && state->refused)
        return refuse_body(c, state->refused) ? -EINPROGRESS : (long)n;
    return used;
}

/* --- Heads ------------------------------------------------------------------------------------ */

static bool has_body(const struct http_head *head)
{
    if (asks_tunnel(head))
        return false;
    return head->framing == FRAMING_CHUNKED ||
           (head->framing == FRAMING_LENGTH && head->content_length > 0);
}

/* RFC 9110 10.1.1: the client waits for 100 Continue before it sends the body.  100 is sent even if
 * some of the body is here already, so that the answer does not depend on how the bytes were cut.
 * HTTP/1.0 does not have it. */
static void say_continue(struct conn *c, const struct http_head *head)
{
    static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    size_t cap;

    if (!head->expect_continue || head->minor == 0)
        return;
    memcpy(conn_space(c, &cap), line, sizeof(line) - 1);
    conn_wrote(c, sizeof(line) - 1, false);
}

/* 0: read the body.  A client that asks first gets its refusal at once; whether it still sends the
 * body is unknown, so the connection ends. */
static unsigned refusal(const struct conn *c, const struct http_head *head)
{
    if (head->framing == FRAMING_LENGTH && head->content_length > http_host_of(c)->body_bytes_max)
        return 413;
    if (!head->expect_continue || head->minor == 0)
        return 0;
    if (head->method == HTTP_KNOWN)
        return 405;
    return head->method == HTTP_UNKNOWN ? 501 : 0;
}

/* Whether the body of a request that is refused is read, so that the connection stays: a client
 * that asks first may never send it, and a large one costs more than a new connection.  One that is
 * too large for its path is refused at once, like any other that is too large. */
static bool skips(const struct conn *c, const struct http_head *head, long refused)
{
    return has_body(head) && refused != -413 && !(head->expect_continue && head->minor > 0) &&
           (head->framing == FRAMING_CHUNKED ||
            head->content_length <= http_host_of(c)->body_bytes_max);
}

/* A head whose body the host may keep. */
static long input_store(struct conn *c, const char *bytes, size_t used)
{
    struct http_head *head = &((struct http_work *)conn_work(c))->head;
    struct http_state *state = conn_state(c);
    void *into = NULL;
    long result = http_store_begin(c, head, &into);
    int err;

    if (result == -EINPROGRESS)
        return result;
    if (result < 0 && !skips(c, head, result)) {
        err = http_reply_status(c, head, (unsigned)-result,
                                !has_body(head) && keeps_alive(c, head));
        return err ? err : (long)used;
    }
    if (has_body(head) && !result)
        say_continue(c, head);
    enter_body(c, bytes, used);
    state->into = into;
    state->refused = (uint16_t)-result;
    return has_body(head) ? (long)used : answer_kept(c, used);
}

/* Answers a head that was seen before, whose meaning is known.  0: it was not. */
static long input_known(struct conn *c, const char *bytes, size_t n)
{
    struct http_recent *recent = http_host_of(c)->recent;
    struct http_known *known;
    size_t used = 0;
    int err;

    known = recent ? http_recent_find(recent, bytes, n, &used) : NULL;
    if (!known)
        return 0;
    known->ask.conn = c;
    err = http_reply_ask(c, &known->head, &known->ask, keeps_alive(c, &known->head));
    if (err)
        return err;
    take_promise(c, &known->head);
    return (long)used;
}

/* Whether these bytes, the first of the connection, are of another protocol: as http_host.other. */
static int other(struct conn *c, const char *bytes, size_t n)
{
    const struct http_host *host = http_host_of(c);

    return host->other && !c->requests ? host->other(c->host->ctx, c, bytes, n) : 0;
}

static long input(struct conn *c, const char *bytes, size_t n)
{
    struct http_head *head;
    unsigned status;
    long used;
    int err;

    if (!conn_room(c))
        return 0;
    if (c->proto_flags & IN_BODY)
        return ((struct http_state *)conn_state(c))->into ? input_kept(c, bytes, n)
                                                           : input_body(c, bytes, n);
    used = input_known(c, bytes, n);
    if (used)
        return used;
    head = &((struct http_work *)conn_work(c))->head;
    used = http_parse_request(bytes, n, head);
    if (used == 0)
        return 0;
    if (used < 0) {
        err = used == -505 ? other(c, bytes, n) : 0;
        if (err)
            return err == 1 ? c->proto->input(c, bytes, n) : 0;
        err = refuse(c, head, (unsigned)-used);
        return err ? err : (long)n;
    }
    if (http_store_is_asked(c, head))
        return input_store(c, bytes, (size_t)used);
    if (!has_body(head)) {
        if (http_host_of(c)->recent)
            http_recent_keep(http_host_of(c), bytes, (size_t)used, head);
        err = http_reply(c, head, keeps_alive(c, head));
        if (err)
            return err;
        take_promise(c, head);
        return used;
    }
    status = refusal(c, head);
    if (status) {
        err = http_reply_status(c, head, answer_admit(c, head, status), false);
        return err ? err : used;
    }
    say_continue(c, head);
    enter_body(c, bytes, (size_t)used);
    return used;
}

/* RFC 9112 8: a message cut short.  A client that only shut its sending side reads the answer.  Two
 * bytes may be the empty line that some clients send behind a body (2.2). */
static void end(struct conn *c, size_t unused)
{
    struct http_work *work;

    if (!conn_room(c))
        return;
    if (c->proto_flags & IN_BODY) {
        refuse_body(c, 400);
    } else if (unused > 2) {
        work = conn_work(c);
        memset(&work->head, 0, sizeof(work->head));
        work->head.method = HTTP_UNKNOWN;
        http_reply_status(c, &work->head, 400, false);
    }
}

const struct conn_proto http_proto = {
    .name = "http",
    .input = input,
    .more = http_reply_more,
    .end = end,
    .drop = http_reply_drop,
};
