/* SPDX-License-Identifier: MIT */
/* mix_judge.c - judges an answer by the kind of its request, and learns from it.
 *
 * A conditional request must get a 304.  A 200 is right only if it has another validator: the file
 * has changed (RFC 9110 13.2.2).  A range must get a 206 of just that part; a server may ignore
 * Range (14.2), but then something else was measured than was meant, so a 200 is an error here.  A
 * server may refuse a coding by sending the file as it is (12.5.3), but may not send a coding that
 * was not named.  A name that does not exist must get a 404.
 */
#include <stdio.h>
#include "workload.h"

static struct slice named(const struct http_head *head, const char *name)
{
    for (unsigned i = 0; i < head->fields; i++)
        if (slice_is_nocase(head->field[i].name, name))
            return head->field[i].value;
    return (struct slice){NULL, 0};
}

/* --- Validators ------------------------------------------------------------------------------- */

static void learn(struct learnt *l, const struct http_head *head)
{
    struct slice etag = named(head, "ETag"), date = named(head, "Last-Modified");
    struct slice value = etag.len ? etag : date;
    const char *field = etag.len ? "If-None-Match: " : "If-Modified-Since: ";
    size_t n = strlen(field);

    l->turn++;
    l->size = head->framing == FRAMING_LENGTH ? head->content_length : 0;
    l->bytes = 0;
    if (!value.len || n + value.len + 2 > sizeof(l->line))
        return;
    memcpy(l->line, field, n);
    memcpy(l->line + n, value.ptr, value.len);
    memcpy(l->line + n + value.len, "\r\n", 2);
    l->value = (uint16_t)n;
    l->value_bytes = (uint16_t)value.len;
    l->bytes = (uint16_t)(n + value.len + 2);
}

/* Entity tags by the weak comparison (RFC 9110 8.8.3.2). */
static bool is_same(const struct learnt *l, struct slice value)
{
    struct slice ours = {l->line + l->value, l->value_bytes};

    if (ours.len > 2 && memcmp(ours.ptr, "W/", 2) == 0)
        ours = (struct slice){ours.ptr + 2, ours.len - 2};
    if (value.len > 2 && memcmp(value.ptr, "W/", 2) == 0)
        value = (struct slice){value.ptr + 2, value.len - 2};
    return ours.len == value.len && memcmp(ours.ptr, value.ptr, ours.len) == 0;
}

/* Another answer may have changed the known validator since this request was sent; then only the
 * status is checked. */
static void judge_conditional(struct answer *a, const struct question *q,
                              const struct http_head *head)
{
    struct learnt *l = q->asked->learnt;
    bool known = l->turn == q->asked->turn && l->bytes;
    struct slice etag = named(head, "ETag"), value;

    a->as_meant = head->status == 304;
    if (head->status == 304 && known && etag.len && l->line[3] == 'N' && !is_same(l, etag))
        answer_fault(a, FAULT_WRONG_FIELD);
    if (head->status == 304)
        return;
    value = l->line[3] == 'N' ? etag : named(head, "Last-Modified");
    if (head->status != 200 || (known && (!value.len || is_same(l, value)))) {
        answer_fault(a, FAULT_BAD_STATUS);
        return;
    }
    answer_expect(a, head, q->target->body);
    learn(l, head);
}

/* --- Ranges ----------------------------------------------------------------------------------- */

/* Takes the digits at the front of *s; false: there are none. */
static bool take_number(struct slice *s, uint64_t *n)
{
    size_t i;

    for (*n = 0, i = 0; i < s->len && i < 19 && s->ptr[i] >= '0' && s->ptr[i] <= '9'; i++)
        *n = *n * 10 + (uint64_t)(s->ptr[i] - '0');
    *s = (struct slice){s->ptr + i, s->len - i};
    return i > 0;
}

static bool take_text(struct slice *s, const char *text)
{
    size_t n = strlen(text);

    if (s->len < n || strncasecmp(s->ptr, text, n) != 0)
        return false;
    *s = (struct slice){s->ptr + n, s->len - n};
    return true;
}

/* Whether Content-Range: bytes FIRST-LAST/SIZE is for the part that was asked for; it may end early
 * if the file has become shorter since its size was learnt. */
static bool range_is_ours(struct slice s, const struct asked *asked, uint64_t *bytes,
                          uint64_t *size)
{
    uint64_t first, last, end = asked->first + asked->count - 1;
    bool fine = take_text(&s, "bytes ") && take_number(&s, &first) && take_text(&s, "-") &&
                take_number(&s, &last) && take_text(&s, "/");

    *size = 0;
    if (!fine || first != asked->first || last < first)
        return false;
    *bytes = last - first + 1;
    if (take_text(&s, "*"))
        return !s.len && last == end;
    return take_number(&s, size) && !s.len && last < *size &&
           (last == end || (last < end && last + 1 == *size));
}

static void judge_range(struct answer *a, const struct question *q, const struct http_head *head)
{
    struct slice body = q->target->body, part = {NULL, 0};
    const struct asked *asked = q->asked;
    uint64_t bytes, size;

    a->as_meant = head->status == 206;
    if (head->status != 206) {
        answer_fault(a, FAULT_BAD_STATUS);
        return;
    }
    if (!range_is_ours(named(head, "Content-Range"), asked, &bytes, &size) ||
        (body.ptr && (bytes != asked->count || (size && size != body.len)))) {
        answer_fault(a, FAULT_WRONG_FIELD);
        return;
    }
    if (body.ptr)
        part = (struct slice){body.ptr + asked->first, asked->count};
    else if (size)
        asked->learnt->size = size;
    answer_expect(a, head, part);
    if (!part.ptr)
        answer_expect_bytes(a, head, bytes);
}

/* --- Codings, and all kinds ------------------------------------------------------------------- */

static void judge_coded(struct answer *a, const struct question *q, const struct http_head *head)
{
    static const char *const codings[CODED] = {"gzip", "br", "zstd"};
    unsigned at = q->asked->kind - KIND_GZIP;
    const struct target *t = &q->plan->target[q->asked->target];
    const struct file *sibling = mix_sibling(q->plan, t, q->asked->kind);
    struct slice coding = named(head, "Content-Encoding");

    if (head->status < 200 || head->status > 399) {
        answer_fault(a, FAULT_BAD_STATUS);
    } else if (coding.len && !slice_is_nocase(coding, "identity")) {
        a->as_meant = slice_is_nocase(coding, codings[at]) ||
                      (at == 0 && slice_is_nocase(coding, "x-gzip")); /* RFC 9110 8.4.1.3 */
        if (!a->as_meant)
            answer_fault(a, FAULT_WRONG_FIELD);
        else if (head->status == 200 && sibling && sibling->bytes.ptr)
            answer_expect(a, head, sibling->bytes);
        else
            a->uncompared = head->status == 200 && q->plan->opt->check;
    } else if (head->status == 200) {
        answer_expect(a, head, q->target->body);
    }
}

/* A 304 or a 206 belongs to a request that asked for it.  --header asks for neither if the mix
 * does. */
static bool is_of_another(const struct question *q, unsigned status)
{
    enum kind kind = status == 304 ? KIND_CONDITIONAL : KIND_RANGE;

    return (status == 304 || status == 206) && q->asked->kind != kind &&
           q->plan->mix->percent[kind] > 0;
}

bool mix_judge(struct answer *a, const struct question *q, const struct http_head *head)
{
    if (is_of_another(q, head->status)) {
        answer_fault(a, FAULT_BAD_STATUS);
        return true;
    }
    switch (q->asked->kind) {
    case KIND_CONDITIONAL:
        judge_conditional(a, q, head);
        break;
    case KIND_RANGE:
        judge_range(a, q, head);
        break;
    case KIND_MISSING:
        a->as_meant = head->status == 404;
        if (!a->as_meant)
            answer_fault(a, FAULT_BAD_STATUS);
        break;
    case KIND_PLAIN:
        if (head->status == 200 && !q->asked->learnt->turn)
            learn(q->asked->learnt, head);
        return false;
    default:
        judge_coded(a, q, head);
    }
    return true;
}

void mix_count(struct worker *w, const struct answer *a, const struct shot *s)
{
    struct kind_tally *k = &w->tally.kind[s->kind];

    k->answered++;
    k->as_meant += s->kind == KIND_PLAIN ? !a->fault : a->as_meant;
    k->wrong += a->fault != FAULT_NONE;
    k->uncompared += a->uncompared;
}
