/* SPDX-License-Identifier: MIT */
/* accept.c - fuzz Accept-Encoding, Accept, TE and Want-Repr-Digest: the same bytes as the value of
 * all, and as the query.
 *
 * Two fields of a list are one field with a comma between them (RFC 9110 5.3), unless a quoted
 * string runs across.
 */
#include <strings.h>
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

/* The digest for a client with that TE and those wishes. */
static enum http_digest digest(struct slice te, struct slice wish)
{
    static const struct slice root = {"/", 1}, connection = {"TE", 2};
    struct http_head head = {.minor = 1, .path = root};
    struct http_ask ask;
    char path[PATH_BYTES_MAX];

    set(&head, FIELD_TE, te);
    set(&head, FIELD_CONNECTION, connection);
    if (wish.ptr)
        set(&head, FIELD_WANT_REPR_DIGEST, wish);
    promise(http_ask_set(&ask, path, &head) == 0);
    promise(ask.digest < DIGESTS);
    return ask.digest;
}

static bool says(struct slice value, const char *word)
{
    size_t n = strlen(word), i;

    for (i = 0; i + n <= value.len; i++)
        if (strncasecmp(value.ptr + i, word, n) == 0)
            return true;
    return false;
}

/* A client that does not say it takes trailers gets no digest, and another only one that it
 * names. */
static void check_digest(struct slice value)
{
    static const struct slice trailers = {"trailers", 8}, none = {NULL, 0};
    enum http_digest wanted = digest(trailers, value);

    promise(!digest(value, none) || says(value, "trailers"));
    promise(wanted != DIGEST_SHA256 || memmem(value.ptr, value.len, "sha-256=", 8));
    promise(wanted != DIGEST_SHA512 || memmem(value.ptr, value.len, "sha-512=", 8));
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
    if (n)
        check_digest(value);
    return 0;
}
