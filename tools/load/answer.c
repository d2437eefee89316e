/* SPDX-License-Identifier: MIT */
/* answer.c - reads an answer, and judges it while it is read.
 *
 * A head that arrives in pieces is gathered first.  A head that is byte for byte the same as an
 * earlier one is not parsed again; it is judged again.  Bodies are walked in the runs that core's
 * decoder finds, and compared run by run: nothing is kept.
 */
#include <stdlib.h>
#include "workload.h"

/* body and expect_bytes are left as they are: judge_head() sets them. */
void answer_begin(struct answer *a)
{
    a->got = a->wrong_at = 0;
    a->digest = (struct digest){0};
    a->expect = NULL;
    a->partial_len = 0;
    a->status = 0;
    a->fault = FAULT_NONE;
    a->framing = 0;
    a->in_body = a->keep_alive = a->due = a->as_meant = a->uncompared = false;
}

static int broken(struct answer *a, enum fault what)
{
    a->fault = FAULT_NONE; /* this one is worse */
    answer_fault(a, what);
    return ANSWER_BROKEN;
}

/* --- The head --------------------------------------------------------------------------------- */

/* A parsed head: that of a struct seen, or room; and its text. */
struct parsed {
    struct slice text;
    const struct http_head *head;
    struct http_head room;
};

/* Returns http_parse_response() of the bytes at the front, or its result when the same bytes came
 * before. */
static long parse(const struct question *q, struct slice bytes, struct parsed *p)
{
    const enum http_method asked = q->target->method;
    struct seen *s = q->seen;
    size_t n = bytes.len < SEEN_BYTES_MAX ? bytes.len : SEEN_BYTES_MAX;
    long len;

    if (s) {
        p->head = &s->head;
        if (s->len && s->len <= n && s->head.method == asked &&
            memcmp(s->bytes, bytes.ptr, s->len) == 0)
            return s->len;
        memcpy(s->bytes, bytes.ptr, n);
        len = http_parse_response(s->bytes, n, asked, &s->head);
        s->len = len > 0 ? (uint32_t)len : 0;
        if (len)
            return len;
    }
    p->head = &p->room;
    return http_parse_response(bytes.ptr, bytes.len, asked, &p->room);
}

/* Takes a head, or the rest of one whose beginning is in a->partial, from the front of *bytes, and
 * returns the head's length.  0: it is not complete, and *bytes went to a->partial; < 0: malformed,
 * too long, or out of memory. */
static long read_head(struct answer *a, const struct question *q, struct slice *bytes,
                      struct parsed *p)
{
    size_t room, n = bytes->len;
    uint32_t before = a->partial_len;
    long len;

    if (!before) {
        len = parse(q, *bytes, p);
        p->text = (struct slice){bytes->ptr, len > 0 ? (size_t)len : bytes->len};
        if (len) {
            bytes->ptr += len > 0 ? len : 0;
            bytes->len -= len > 0 ? (size_t)len : 0;
            return len;
        }
        if (!a->partial)
            a->partial = malloc(HEAD_BYTES_MAX);
        if (!a->partial)
            return -431;
    }
    room = HEAD_BYTES_MAX - before;
    n = n < room ? n : room;
    memcpy(a->partial + before, bytes->ptr, n);
    a->partial_len += (uint32_t)n;
    p->head = &p->room;
    len = before ? http_parse_response(a->partial, a->partial_len, q->target->method, &p->room) : 0;
    p->text = (struct slice){a->partial, len > 0 ? (size_t)len : a->partial_len};
    if (len > 0)
        n = (size_t)len - before;
    bytes->ptr += n;
    bytes->len -= n;
    if (len > 0)
        a->partial_len = 0;
    return len;
}

static void judge_head(struct answer *a, const struct question *q, const struct http_head *head)
{
    uint64_t expected = q->plan->opt->status;
    const struct target *t = q->target;

    a->status = (uint16_t)head->status;
    a->keep_alive = head->keep_alive;
    a->framing = (uint8_t)head->framing;
    a->in_body = true;
    http_body_init(&a->body, head->framing, head->content_length);
    if (q->asked && mix_judge(a, q, head))
        return;
    if (expected ? head->status != expected
                 : (head->status < 200 || head->status > 399) && head->status != t->also)
        answer_fault(a, FAULT_BAD_STATUS);
    else if (head->status == 200 && t->has_body)
        answer_expect_body(a, head, t->body);
}

/* --- The body --------------------------------------------------------------------------------- */

static void judge_bytes(struct answer *a, const struct question *q, struct slice data)
{
    if (a->fault)
        return;
    if (q->reference)
        digest_add(&a->digest, data.ptr, data.len);
    if (!a->due)
        return;
    if (a->got + data.len > a->expect_bytes) {
        answer_fault(a, FAULT_WRONG_LENGTH);
        a->wrong_at = a->expect_bytes;
    } else if (a->expect && memcmp(data.ptr, a->expect + a->got, data.len) != 0) {
        answer_fault(a, FAULT_WRONG_BODY);
        /* A mapped file may have changed since, and be equal now. */
        while (a->wrong_at + 1 < a->got + data.len &&
               a->expect[a->wrong_at] == data.ptr[a->wrong_at - a->got])
            a->wrong_at++;
    }
}

static int done(struct answer *a, const struct question *q)
{
    struct reference *first = q->reference;

    if (a->fault)
        return ANSWER_DONE;
    if (a->due && a->got != a->expect_bytes && q->target->method == HTTP_GET)
        answer_fault(a, FAULT_WRONG_LENGTH);
    if (!first || a->fault || (first->of_file && !a->due)) /* another status has another body */
        return ANSWER_DONE;
    if (!first->known) {
        first->known = true;
        first->bytes = a->got;
        first->digest = digest_end(&a->digest);
    } else if (first->bytes != a->got) {
        answer_fault(a, FAULT_WRONG_LENGTH);
    } else if (first->digest != digest_end(&a->digest)) {
        answer_fault(a, FAULT_WRONG_BODY);
        a->wrong_at = 0; /* a digest does not say where */
    }
    return ANSWER_DONE;
}

int answer_feed(struct answer *a, const struct question *q, struct slice *bytes)
{
    struct parsed p;
    struct slice data;
    long n;

    while (!a->in_body) {
        n = read_head(a, q, bytes, &p);
        if (q->shown && n)
            show_answer(q->shown, p.text);
        if (n < 0)
            return broken(a, FAULT_BAD_FRAMING);
        if (n == 0)
            return ANSWER_MORE;
        if (p.head->status >= 200 || p.head->status == 101)
            judge_head(a, q, p.head);
        else if (!bytes->len)
            return ANSWER_MORE; /* an interim answer (RFC 9110 15.2), the final one follows */
    }
    while (bytes->len && !http_body_done(&a->body)) {
        n = http_body_next(&a->body, bytes->ptr, bytes->len, &data);
        if (n < 0)
            return broken(a, FAULT_BAD_FRAMING);
        if (data.len)
            judge_bytes(a, q, data);
        a->got += data.len;
        bytes->ptr += n;
        bytes->len -= (size_t)n;
    }
    return http_body_done(&a->body) ? done(a, q) : ANSWER_MORE;
}

int answer_feed_echo(struct answer *a, const struct question *q, struct slice *bytes)
{
    size_t n = q->message_bytes - a->got;

    n = bytes->len < n ? bytes->len : n;
    if (memcmp(bytes->ptr, q->message + a->got, n) != 0)
        return broken(a, FAULT_WRONG_BODY); /* the beginning of the next message is lost */
    a->got += n;
    a->keep_alive = true;
    bytes->ptr += n;
    bytes->len -= n;
    return a->got == q->message_bytes ? ANSWER_DONE : ANSWER_MORE;
}

int answer_end(struct answer *a, const struct question *q)
{
    if (a->in_body && a->framing == FRAMING_CLOSE)
        return done(a, q);
    return broken(a, a->in_body || a->partial_len || a->got ? FAULT_SHORT_BODY
                                                            : FAULT_CLOSED_EARLY);
}
