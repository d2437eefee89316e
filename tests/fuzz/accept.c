/* SPDX-License-Identifier: MIT */
/* accept.c - fuzz Accept-Encoding and Accept: the same bytes as the value of both, and as the
 * query.
 *
 * Two fields of a list are one field with a comma between them (RFC 9110 5.3), unless a quoted
 * string runs across.
 */
#include "../../core/http_inside.h"
#include "fuzz.h"

static void set(struct http_head *head, enum http_field_id id, struct slice value)
{
    struct http_field *field = &head->field[head->fields++];

    field->value = value;
    field->id = (uint8_t)id;
    if (!head->first[id])
        head->first[id] = (uint8_t)head->fields;
}

/* The value as it is, and split into two fields at its first comma. */
static void check_split(const struct http_head *whole, enum http_field_id id)
{
    struct slice value = http_field(whole, id), rest;
    const char *comma = value.len ? memchr(value.ptr, ',', value.len) : NULL;
    uint16_t q[CODINGS], p[CODINGS];
    struct http_head cut = {0};

    if (!comma || memchr(value.ptr, '"', (size_t)(comma - value.ptr)))
        return;
    rest = (struct slice){comma + 1, value.len - (size_t)(comma - value.ptr) - 1};
    value.len = (size_t)(comma - value.ptr);
    set(&cut, id, value);
    set(&cut, id, rest);
    if (id == FIELD_ACCEPT) {
        promise(http_accept_html(whole) == http_accept_html(&cut));
        return;
    }
    http_accept_codings(whole, q);
    http_accept_codings(&cut, p);
    promise(memcmp(q, p, sizeof(q)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct slice value = {(const char *)data, n};
    struct http_head head = {0};
    struct http_ask ask = {0};

    set(&head, FIELD_ACCEPT_ENCODING, value);
    set(&head, FIELD_ACCEPT, value);
    ask.query = value;
    http_accept_codings(&head, ask.q);
    for (int i = 0; i < CODINGS; i++)
        promise(ask.q[i] <= 1000);
    http_accept_listing(&head, &ask);
    promise(!(ask.json && ask.text));
    check_split(&head, FIELD_ACCEPT_ENCODING);
    check_split(&head, FIELD_ACCEPT);
    return 0;
}
