/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* http_accept.c - what the client can take: Accept-Encoding and Accept (RFC 9110 12.5), trailers
 * (10.1.4), and a digest in one (RFC 9530).
 *
 * Weights are thousandths.  An element that is malformed is skipped: the client did not say what we
 * think it said, and no coding is sent that was not asked for.
 */
#include "byte.h"
#include "http_inside.h"

enum { WEIGHT_MAX = 1000, WEIGHT_NONE = -1 };

/* qvalue (RFC 9110 12.4.2): 0 to 1, with up to three digits after the point. */
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

    *name = slice_trimmed((struct slice){element.ptr, n});
    while (n < element.len) {
        element.ptr += n + 1;
        element.len -= n + 1;
        n = parameter_len(element);
        part = slice_trimmed((struct slice){element.ptr, n});
        if (part.len >= 2 && (part.ptr[0] | 0x20) == 'q' && part.ptr[1] == '=') {
            part.ptr += 2;
            part.len -= 2;
            weight = read_weight(part);
        }
    }
    return weight;
}

/* The elements of all fields of that id, one after the other; cursor and rest are zero at first. */
struct elements {
    const struct http_head *head;
    enum http_field_id id;
    unsigned cursor;
    struct slice rest;
};

/* The next one.  False: there are no more. */
static bool next_weighed(struct elements *e, struct slice *name, int *weight)
{
    struct slice element;

    while (!http_list(&e->rest, &element)) {
        e->rest = http_next(e->head, e->id, &e->cursor);
        if (!e->rest.ptr)
            return false;
    }
    *weight = weigh(element, name);
    return true;
}

/* CODINGS: "*"; -1: a coding we do not have. */
static int coding_named(struct slice name)
{
    switch (name.len) { /* the length distinguishes most names */
    case 1:
        return *name.ptr == '*' ? CODINGS : -1;
    case 2:
        return slice_is_nocase(name, "br") ? CODING_BR : -1;
    case 4:
        if (slice_is_nocase(name, "gzip"))
            return CODING_GZIP;
        return slice_is_nocase(name, "zstd") ? CODING_ZSTD : -1;
    case 6:
        return slice_is_nocase(name, "x-gzip") ? CODING_GZIP : -1; /* RFC 9110 8.4.1.3 */
    case 8:
        return slice_is_nocase(name, "identity") ? CODING_IDENTITY : -1;
    default:
        return -1;
    }
}

void http_accept_codings(const struct http_head *head, uint16_t q[CODINGS])
{
    struct elements e = {.head = head, .id = FIELD_ACCEPT_ENCODING};
    int said[CODINGS + 1], coding, weight, i;
    struct slice name;

    memset(q, 0, CODINGS * sizeof(*q));
    if (!head->first[FIELD_ACCEPT_ENCODING]) { /* any coding is acceptable: identity */
        q[CODING_IDENTITY] = 1;
        return;
    }
    for (i = 0; i <= CODINGS; i++)
        said[i] = WEIGHT_NONE;
    while (next_weighed(&e, &name, &weight)) {
        coding = coding_named(name);
        if (coding >= 0 && weight != WEIGHT_NONE)
            said[coding] = weight;
    }
    for (i = 0; i < CODINGS; i++) {
        if (said[i] == WEIGHT_NONE)
            said[i] = said[CODINGS]; /* "*": every coding not named (RFC 9110 12.5.3) */
        q[i] = said[i] == WEIGHT_NONE ? 0 : (uint16_t)said[i];
    }
    /* Identity is acceptable unless it was refused; unnamed, it is the last choice, however low the
     * other weights are. */
    if (said[CODING_IDENTITY] == WEIGHT_NONE)
        q[CODING_IDENTITY] = 1;
}

bool http_prefers(const uint16_t q[CODINGS], enum coding coding, enum coding to)
{
    return q[coding] && (q[coding] > q[to] || (q[coding] == q[to] && coding > to));
}

static uint8_t order_of_some(const uint16_t q[CODINGS])
{
    unsigned order = 0, place;
    bool taken[CODINGS] = {false};
    enum coding best, coding;

    for (place = 0; place < CODINGS - 1; place++) {
        best = CODING_IDENTITY;
        for (coding = CODINGS - 1; coding > CODING_IDENTITY; coding--)
            if (!taken[coding] && http_prefers(q, coding, best))
                best = coding;
        taken[best] = true;
        order |= (unsigned)best << 2 * place;
    }
    return (uint8_t)order;
}

uint8_t http_order(const uint16_t q[CODINGS])
{
    return q[CODING_BR] || q[CODING_ZSTD] || q[CODING_GZIP] ? order_of_some(q) : CODING_IDENTITY;
}

const char *http_coding_suffix(enum coding coding)
{
    static const char *const suffix[CODINGS] = {
        [CODING_IDENTITY] = "", [CODING_GZIP] = ".gz", [CODING_ZSTD] = ".zst", [CODING_BR] = ".br"};

    return suffix[coding];
}

/* What Accept says of the types that we make, and of the wildcards that cover them. */
enum media { HTML, JSON, TEXT, ANY_TEXT, ANY_APPLICATION, ANY, MEDIA };

static void read_accept(const struct http_head *head, int said[MEDIA])
{
    static const char *const name_of[MEDIA] = {
        "text/html", "application/json", "text/plain", "text/*", "application/*", "*/*"};
    struct elements e = {.head = head, .id = FIELD_ACCEPT};
    struct slice name;
    int i, weight;

    for (i = 0; i < MEDIA; i++)
        said[i] = WEIGHT_NONE;
    while (next_weighed(&e, &name, &weight)) {
        for (i = 0; i < MEDIA && !slice_is_nocase(name, name_of[i]); i++)
            continue;
        if (i < MEDIA)
            said[i] = weight;
    }
}

/* How much a type is wanted: by its own name, otherwise by the narrowest wildcard (RFC 9110
 * 12.5.1).  A type that is named beats one of the same weight that only a wildcard covers: the
 * lowest bit says so. */
static int wanted(const int said[MEDIA], enum media type, enum media subtypes)
{
    if (said[type] != WEIGHT_NONE)
        return said[type] ? 2 * said[type] + 1 : 0;
    if (said[subtypes] != WEIGHT_NONE)
        return 2 * said[subtypes];
    return said[ANY] != WEIGHT_NONE ? 2 * said[ANY] : 0;
}

/* The last valid format= in a query, or an empty slice. */
static struct slice query_format(struct slice query)
{
    struct slice format = {NULL, 0}, pair;
    size_t at = 0, n;

    while (query.ptr && at < query.len) {
        for (n = 0; at + n < query.len && query.ptr[at + n] != '&'; n++)
            continue;
        pair = (struct slice){query.ptr + at, n};
        if (slice_is(pair, "format=json") || slice_is(pair, "format=text") ||
            slice_is(pair, "format=html"))
            format = pair;
        at += n + 1;
    }
    return format;
}

void http_accept_listing(const struct http_head *head, struct http_ask *ask)
{
    struct slice format = query_format(ask->query);
    int said[MEDIA], html, json, text;

    ask->json = slice_is(format, "format=json");
    ask->text = slice_is(format, "format=text");
    if (format.len || !head->first[FIELD_ACCEPT])
        return;
    read_accept(head, said);
    html = wanted(said, HTML, ANY_TEXT);
    json = wanted(said, JSON, ANY_APPLICATION);
    text = wanted(said, TEXT, ANY_TEXT);
    /* At the same weight HTML comes first, then JSON.  A client that accepts none of them gets one
     * anyway (12.4.1), but not one that it refused by name. */
    if (!html && !json && !text) {
        ask->text = !said[HTML] && said[TEXT];
        ask->json = !said[HTML] && !said[TEXT] && said[JSON];
        return;
    }
    ask->json = json > html && json >= text;
    ask->text = !ask->json && text > html;
}

/* How narrowly a media range covers a type: 3: it is the name, 2: type, slash and asterisk, 1: any
 * type, 0: it does not. */
static unsigned range_covers(struct slice range, const char *type)
{
    size_t i;

    if (slice_is_nocase(range, type))
        return 3;
    if (slice_is(range, "*/*"))
        return 1;
    if (range.len < 3 || range.ptr[range.len - 1] != '*' || range.ptr[range.len - 2] != '/')
        return 0;
    for (i = 0; i + 1 < range.len; i++) /* a type has no asterisk, and ends with a NUL */
        if (byte_lower(range.ptr[i]) != byte_lower(type[i]))
            return 0;
    return 2;
}

unsigned http_accept_weight(const struct http_head *head, const char *type)
{
    struct elements e = {.head = head, .id = FIELD_ACCEPT};
    unsigned narrowest = 0, covers;
    struct slice name;
    int weight, best = 0;

    if (!head->first[FIELD_ACCEPT])
        return WEIGHT_MAX;
    while (next_weighed(&e, &name, &weight)) {
        covers = range_covers(name, type);
        if (weight == WEIGHT_NONE || !covers || covers < narrowest)
            continue;
        best = covers > narrowest || weight > best ? weight : best;
        narrowest = covers;
    }
    return (unsigned)best;
}

bool http_accept_html(const struct http_head *head)
{
    int said[MEDIA];

    read_accept(head, said);
    return said[HTML] > 0;
}

/* Whether a field of that id has an element of that name whose weight is not 0. */
static bool names(const struct http_head *head, enum http_field_id id, const char *name)
{
    struct elements e = {.head = head, .id = id};
    struct slice found;
    int weight;

    while (next_weighed(&e, &found, &weight))
        if (weight > 0 && slice_is_nocase(found, name))
            return true;
    return false;
}

/* RFC 9110 6.5.1.  TE is for the next hop alone, so Connection names it (10.1.4): otherwise a proxy
 * that does not know it may have passed it on, and would drop the trailer. */
static bool takes_trailers(const struct http_head *head)
{
    return head->minor > 0 && names(head, FIELD_TE, "trailers") &&
           names(head, FIELD_CONNECTION, "te");
}

/* A preference is an integer from 0 to 10, perhaps with parameters (RFC 9530 4); -1: this is
 * none. */
static int read_preference(struct slice s)
{
    size_t n = parameter_len(s), i;
    int preference = 0;

    if (n < 1 || n > 15) /* digits of an integer (RFC 9651 3.3.1) */
        return -1;
    for (i = 0; i < n; i++) {
        if (!byte_is(s.ptr[i], BYTE_DIGIT))
            return -1;
        preference = preference * 10 + (s.ptr[i] - '0');
        if (preference > 10)
            return -1;
    }
    return preference;
}

/* One member of Want-Repr-Digest: algorithm "=" preference. */
static void read_wish(struct slice member, int wish[DIGESTS])
{
    static const char *const start[DIGESTS] = {
        [DIGEST_SHA256] = "sha-256=", [DIGEST_SHA512] = "sha-512="};
    enum http_digest digest;
    size_t len;
    int preference;

    for (digest = DIGEST_NONE + 1; digest < DIGESTS; digest++) {
        len = strlen(start[digest]);
        if (member.len < len || memcmp(member.ptr, start[digest], len) != 0)
            continue;
        preference = read_preference((struct slice){member.ptr + len, member.len - len});
        if (preference >= 0)
            wish[digest] = preference;
    }
}

/* The digest that the client likes best.  A client that takes trailers and says nothing of digests
 * gets sha-256; one that wants others only, or none, gets none. */
static enum http_digest digest_wanted(const struct http_head *head)
{
    struct slice value, member;
    unsigned cursor = 0;
    int wish[DIGESTS] = {0};

    if (!takes_trailers(head))
        return DIGEST_NONE;
    if (!head->first[FIELD_WANT_REPR_DIGEST])
        return DIGEST_SHA256;
    while ((value = http_next(head, FIELD_WANT_REPR_DIGEST, &cursor)).ptr)
        while (http_list(&value, &member))
            read_wish(member, wish);
    if (wish[DIGEST_SHA512] > wish[DIGEST_SHA256])
        return DIGEST_SHA512;
    return wish[DIGEST_SHA256] ? DIGEST_SHA256 : DIGEST_NONE;
}

unsigned http_ask_set(struct http_ask *ask, char *path, const struct http_head *head)
{
    long len = path_decode(head->path, path);

    if (len < 0)
        return (unsigned)-len;
    ask->path = (struct slice){path, (size_t)len};
    ask->query = head->query;
    ask->head = head->method == HTTP_HEAD;
    ask->from = head;
    ask->conn = NULL;
    ask->again = 0;
    http_accept_codings(head, ask->q);
    /* Accept and TE matter only for listings and archives, whose paths end with a slash (without it
     * the answer is SOURCE_REDIRECT). */
    ask->json = ask->text = false;
    ask->digest = DIGEST_NONE;
    if (path[len - 1] != '/')
        return 0;
    http_accept_listing(head, ask);
    if (head->first[FIELD_TE])
        ask->digest = (uint8_t)digest_wanted(head);
    return 0;
}
