/* SPDX-License-Identifier: MIT */
/* answer.c - an answer is read, and judged while it is read.
 *
 * The head is parsed where it lies; only one that comes in pieces is gathered first.  Bodies are
 * walked in the runs that core's decoder finds, and compared run by run: nothing is kept.
 */
#include <stdlib.h>
#include "answer.h"

static void digest_word(struct digest *d, uint64_t word)
{
    d->state = (d->state << 5 | d->state >> 59) ^ word;
    d->state *= 0x9e3779b97f4a7c15ull;
}

static void digest_add(struct digest *d, const char *p, size_t n)
{
    uint64_t word;

    while (n && d->have) {
        d->word |= (uint64_t)(unsigned char)*p++ << 8 * d->have;
        d->have = (d->have + 1) % 8;
        n--;
        if (!d->have) {
            digest_word(d, d->word);
            d->word = 0;
        }
    }
    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&word, p, 8);
        if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
            word = __builtin_bswap64(word);
        digest_word(d, word);
    }
    for (; n; n--)
        d->word |= (uint64_t)(unsigned char)*p++ << 8 * d->have++;
}

static uint64_t digest_end(struct digest *d)
{
    digest_word(d, d->word);
    return d->state;
}

void answer_begin(struct answer *a)
{
    char *stash = a->stash;

    memset(a, 0, sizeof(*a));
    a->stash = stash;
}

static void fault(struct answer *a, enum fault what)
{
    if (a->fault == FAULT_NONE) {
        a->fault = (uint8_t)what;
        a->wrong_at = a->got;
    }
}

static int broken(struct answer *a, enum fault what)
{
    a->fault = FAULT_NONE; /* this one is worse */
    fault(a, what);
    return ANSWER_BROKEN;
}

/* --- The head --------------------------------------------------------------------------------- */

/* The length of the head at the front of *bytes, which it leaves; 0: more is needed, and all is
 * kept; < 0: malformed. */
static long read_head(struct answer *a, const struct question *q, struct slice *bytes,
                      struct http_head *head)
{
    size_t room, n = bytes->len;
    uint32_t before = a->stashed;
    long len;

    if (!before) {
        len = http_parse_response(bytes->ptr, n, q->plan->method, head);
        if (len) {
            bytes->ptr += len > 0 ? len : 0;
            bytes->len -= len > 0 ? (size_t)len : 0;
            return len;
        }
        if (!a->stash)
            a->stash = malloc(HEAD_BYTES_MAX);
        if (!a->stash)
            return -431;
    }
    room = HEAD_BYTES_MAX - before;
    n = n < room ? n : room;
    memcpy(a->stash + before, bytes->ptr, n);
    a->stashed += (uint32_t)n;
    len = before ? http_parse_response(a->stash, a->stashed, q->plan->method, head) : 0;
    if (len > 0)
        n = (size_t)len - before;
    bytes->ptr += n;
    bytes->len -= n;
    if (len > 0)
        a->stashed = 0;
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
    if (expected ? head->status != expected : head->status < 200 || head->status > 399)
        fault(a, FAULT_BAD_STATUS);
    else if (t->body && head->status == 200 && head->first[FIELD_CONTENT_LENGTH] &&
             head->content_length != t->body_bytes)
        fault(a, FAULT_WRONG_LENGTH);
}

/* --- The body --------------------------------------------------------------------------------- */

static void judge_bytes(struct answer *a, const struct question *q, struct slice data)
{
    const struct target *t = q->target;

    if (a->fault)
        return;
    if (q->reference)
        digest_add(&a->digest, data.ptr, data.len);
    if (!t->body || a->status != 200)
        return;
    if (a->got + data.len > t->body_bytes) {
        fault(a, FAULT_WRONG_LENGTH);
        a->wrong_at = t->body_bytes;
    } else if (memcmp(data.ptr, t->body + a->got, data.len) != 0) {
        fault(a, FAULT_WRONG_BODY);
        while (t->body[a->wrong_at] == data.ptr[a->wrong_at - a->got])
            a->wrong_at++;
    }
}

static int done(struct answer *a, const struct question *q)
{
    const struct target *t = q->target;
    struct reference *first = q->reference;

    if (a->fault)
        return ANSWER_DONE;
    if (t->body && a->status == 200 && a->got != t->body_bytes && q->plan->method == HTTP_GET)
        fault(a, FAULT_WRONG_LENGTH);
    if (!first || a->fault)
        return ANSWER_DONE;
    if (!first->known) {
        first->known = true;
        first->bytes = a->got;
        first->digest = digest_end(&a->digest);
    } else if (first->bytes != a->got) {
        fault(a, FAULT_WRONG_LENGTH);
    } else if (first->digest != digest_end(&a->digest)) {
        fault(a, FAULT_WRONG_BODY);
        a->wrong_at = 0;
    }
    return ANSWER_DONE;
}

int answer_feed(struct answer *a, const struct question *q, struct slice *bytes)
{
    struct http_head head;
    struct slice data;
    long n;

    while (!a->in_body) {
        n = read_head(a, q, bytes, &head);
        if (n < 0)
            return broken(a, FAULT_BAD_FRAMING);
        if (n == 0)
            return ANSWER_MORE;
        if (head.status >= 200 || head.status == 101)
            judge_head(a, q, &head);
        else if (!bytes->len)
            return ANSWER_MORE; /* an interim answer (RFC 9110 15.2), the true one follows */
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
        return broken(a, FAULT_WRONG_BODY); /* where the next message begins is lost */
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
    return broken(a, a->in_body || a->stashed || a->got ? FAULT_SHORT_BODY : FAULT_CLOSED_EARLY);
}
