/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* http_accept.c - what the client can take: Accept-Encoding and Accept (RFC 9110 12.5).
 *
 * Weights are thousandths.  An element that is malformed is skipped: the client did not say what
 * we think it said, and nothing is sent coded that was not asked for.
 */
#include "byte.h"
#include "http_inside.h"

enum { WEIGHT_MAX = 1000, WEIGHT_NONE = -1 };

static struct slice trimmed(const char *ptr, size_t len)
{
    struct slice s = {ptr, len};

    while (s.len && (s.ptr[0] == ' ' || s.ptr[0] == '\t')) {
        s.ptr++;
        s.len--;
    }
    while (s.len && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t'))
        s.len--;
    return s;
}

/* qvalue (RFC 9110 12.4.2): 0 or 1 with up to three digits after the point, and not more than 1. */
static int read_weight(struct slice s)
{
    int weight, unit = 100;
    size_t i;

    if (s.len < 1 || s.len > 5 || (s.ptr[0] != '0' && s.ptr[0] != '1'))
        return WEIGHT_NONE;
    if (s.len > 1 && s.ptr[1] != '.')
        return WEIGHT_NONE;
    weight = (s.ptr[0] - '0') * WEIGHT_MAX;
    for (i = 2; i < s.len; i++, unit /= 10) {
        if (!byte_is(s.ptr[i], BYTE_DIGIT))
            return WEIGHT_NONE;
        weight += (s.ptr[i] - '0') * unit;
    }
    return weight <= WEIGHT_MAX ? weight : WEIGHT_NONE;
}

/* Bytes up to the next semicolon that is not inside a quoted string. */
static size_t parameter_len(struct slice s)
{
    bool quoted = false;
    size_t i;

    for (i = 0; i < s.len && (quoted || s.ptr[i] != ';'); i++) {
        if (s.ptr[i] == '"')
            quoted = !quoted;
        else if (s.ptr[i] == '\\' && quoted && i + 1 < s.len)
            i++;
    }
    return i;
}

/* Split `name ; parameters` and find the weight among them: 1 unless q says otherwise. */
static int weigh(struct slice element, struct slice *name)
{
    int weight = WEIGHT_MAX;
    size_t n = parameter_len(element);
    struct slice part;

    *name = trimmed(element.ptr, n);
    while (n < element.len) {
        element.ptr += n + 1;
        element.len -= n + 1;
        n = parameter_len(element);
        part = trimmed(element.ptr, n);
        if (part.len >= 2 && (part.ptr[0] | 0x20) == 'q' && part.ptr[1] == '=') {
            part.ptr += 2;
            part.len -= 2;
            weight = read_weight(part);
        }
    }
    return weight;
}

/* CODINGS: "*"; -1: a coding we do not have. */
static int coding_named(struct slice name)
{
    if (slice_is_nocase(name, "gzip") || slice_is_nocase(name, "x-gzip")) /* RFC 9110 8.4.1.3 */
        return CODING_GZIP;
    if (slice_is_nocase(name, "br"))
        return CODING_BR;
    if (slice_is_nocase(name, "zstd"))
        return CODING_ZSTD;
    if (slice_is_nocase(name, "identity"))
        return CODING_IDENTITY;
    return slice_is(name, "*") ? CODINGS : -1;
}

void http_accept_codings(const struct http_head *head, uint16_t q[CODINGS])
{
    int said[CODINGS + 1], coding, weight, i;
    unsigned cursor = 0;
    struct slice value, element, name;

    for (i = 0; i <= CODINGS; i++)
        said[i] = WEIGHT_NONE;
    for (;;) {
        value = http_next(head, FIELD_ACCEPT_ENCODING, &cursor);
        if (!value.ptr)
            break;
        while (http_list(&value, &element)) {
            weight = weigh(element, &name);
            coding = coding_named(name);
            if (coding >= 0 && weight != WEIGHT_NONE)
                said[coding] = weight;
        }
    }
    for (i = 0; i < CODINGS; i++) {
        if (said[i] == WEIGHT_NONE)
            said[i] = said[CODINGS]; /* "*": whatever was not named (RFC 9110 12.5.3) */
        q[i] = said[i] == WEIGHT_NONE ? 0 : (uint16_t)said[i];
    }
    /* Identity is acceptable unless it was refused; unnamed it is the last choice, however low
     * the others are. */
    if (said[CODING_IDENTITY] == WEIGHT_NONE)
        q[CODING_IDENTITY] = 1;
}

/* How much a media type is wanted.  Named itself it beats one that only a wildcard covers,
 * hence the last bit. */
static int wanted(const struct http_head *head, const char *type, const char *any_subtype)
{
    int exact = WEIGHT_NONE, sub = WEIGHT_NONE, any = WEIGHT_NONE, weight;
    unsigned cursor = 0;
    struct slice value, element, name;

    for (;;) {
        value = http_next(head, FIELD_ACCEPT, &cursor);
        if (!value.ptr)
            break;
        while (http_list(&value, &element)) {
            weight = weigh(element, &name);
            if (slice_is_nocase(name, type))
                exact = weight;
            else if (slice_is_nocase(name, any_subtype))
                sub = weight;
            else if (slice_is(name, "*/*"))
                any = weight;
        }
    }
    if (exact != WEIGHT_NONE)
        return exact ? 2 * exact + 1 : 0;
    if (sub != WEIGHT_NONE)
        return 2 * sub;
    return any != WEIGHT_NONE ? 2 * any : 0;
}

/* The value of format= in a query, or ptr NULL. */
static struct slice query_format(struct slice query)
{
    static const char key[] = "format=";
    struct slice value = {NULL, 0};
    size_t at = 0, n;

    while (query.ptr && at < query.len) {
        for (n = 0; at + n < query.len && query.ptr[at + n] != '&'; n++)
            continue;
        if (n >= sizeof(key) - 1 && memcmp(query.ptr + at, key, sizeof(key) - 1) == 0) {
            value.ptr = query.ptr + at + sizeof(key) - 1;
            value.len = n - (sizeof(key) - 1);
            break;
        }
        at += n + 1;
    }
    return value;
}

void http_accept_listing(const struct http_head *head, struct http_ask *ask)
{
    struct slice format = query_format(ask->query);
    int html, json, text;

    ask->json = slice_is(format, "json");
    ask->text = slice_is(format, "text");
    if (ask->json || ask->text || slice_is(format, "html") || !head->first[FIELD_ACCEPT])
        return;
    html = wanted(head, "text/html", "text/*");
    json = wanted(head, "application/json", "application/*");
    text = wanted(head, "text/plain", "text/*");
    /* Odd: named itself.  Wildcards alone get HTML. */
    ask->json = (json & 1) && json > html && json >= text;
    ask->text = !ask->json && (text & 1) && text > html;
}

bool http_accept_html(const struct http_head *head)
{
    return head->first[FIELD_ACCEPT] && (wanted(head, "text/html", "text/html") & 1);
}
