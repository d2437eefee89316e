/* SPDX-License-Identifier: MIT */
/* answer_expect.c - what is expected of an answer, and the first thing that is wrong with it. */
#include "answer.h"

void answer_fault(struct answer *a, enum fault what)
{
    if (a->fault == FAULT_NONE) {
        a->fault = (uint8_t)what;
        a->wrong_at = a->got;
    }
}

void answer_expect_bytes(struct answer *a, const struct http_head *head, uint64_t bytes)
{
    a->due = true;
    a->expect_bytes = bytes;
    if (head->first[FIELD_CONTENT_LENGTH] && head->content_length != bytes)
        answer_fault(a, FAULT_WRONG_LENGTH);
}

void answer_expect_body(struct answer *a, const struct http_head *head, struct slice body)
{
    a->expect = body.ptr;
    answer_expect_bytes(a, head, body.len);
}

void answer_expect(struct answer *a, const struct http_head *head, struct slice body)
{
    if (body.ptr)
        answer_expect_body(a, head, body);
}
