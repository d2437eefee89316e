/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* http_parse.c - bytes to a message head: requests, and responses by the same grammar.
 *
 * Two steps.  The grammar is read byte by byte, in order, once.  It may refuse at any byte, and
 * looks at nothing behind the byte it judges, so the first error in byte order wins, and a cut
 * changes nothing except "more".  When the head is whole, its meaning is judged: Host, framing,
 * expectations.  There is no state between calls: a head that comes in k pieces is read k times,
 * which the limit of 16 KiB keeps cheap.
 *
 * Nothing is repaired.  Bytes that two readers could read in two ways are refused (RFC 9112 11.2).
 */
#include "http.h"
#include "skip.h"

/* Results of the steps, in addition to -status. */
enum { DONE = 0, MORE = 1 };

struct scan {
    const char *p, *end;
};

/* A fixed name of the protocol. */
struct word {
    const char *text;
    uint8_t len, id;
};
#define WORD(text, id) {text, sizeof(text) - 1, id}

static const struct word field_words[] = {
    WORD("accept", FIELD_ACCEPT),
    WORD("accept-encoding", FIELD_ACCEPT_ENCODING),
    WORD("connection", FIELD_CONNECTION),
    WORD("content-length", FIELD_CONTENT_LENGTH),
    WORD("expect", FIELD_EXPECT),
    WORD("host", FIELD_HOST),
    WORD("if-match", FIELD_IF_MATCH),
    WORD("if-modified-since", FIELD_IF_MODIFIED_SINCE),
    WORD("if-none-match", FIELD_IF_NONE_MATCH),
    WORD("if-range", FIELD_IF_RANGE),
    WORD("if-unmodified-since", FIELD_IF_UNMODIFIED_SINCE),
    WORD("range", FIELD_RANGE),
    WORD("referer", FIELD_REFERER),
    WORD("te", FIELD_TE),
    WORD("transfer-encoding", FIELD_TRANSFER_ENCODING),
    WORD("user-agent", FIELD_USER_AGENT),
    WORD("want-repr-digest", FIELD_WANT_REPR_DIGEST),
};

/* Rows of field_words by the name's length: at most two, as index + 1. */
static const uint8_t field_words_of[20][2] = {
    [2] = {14},    [4] = {6},  [5] = {12}, [6] = {1, 5}, [7] = {13},  [8] = {7, 10},
    [10] = {3, 16}, [13] = {9}, [14] = {4}, [15] = {2},   [16] = {17}, [17] = {8, 15}, [19] = {11},
};

/* IANA's registry of methods, without those in enum http_method: these get 405, methods that are
 * not registered 501. */
static const char *const known_methods[] = {
    "POST", "PUT", "DELETE", "CONNECT", "TRACE", "PATCH", "QUERY", "PROPFIND", "PROPPATCH",
    "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "SEARCH", "REPORT", "ACL", "BASELINE-CONTROL",
    "BIND", "CHECKIN", "CHECKOUT", "LABEL", "LINK", "MERGE", "MKACTIVITY", "MKCALENDAR",
    "MKREDIRECTREF", "MKWORKSPACE", "ORDERPATCH", "PRI", "REBIND", "UNBIND", "UNCHECKOUT",
    "UNLINK", "UPDATE", "UPDATEREDIRECTREF", "VERSION-CONTROL",
};

/* --- Grammar ---------------------------------------------------------------------------------- */

static int read_crlf(struct scan *s)
{
    if (s->end - s->p >= 2 && memcmp(s->p, "\r\n", 2) == 0) {
        s->p += 2;
        return DONE;
    }
    if (s->p == s->end)
        return MORE;
    if (*s->p != '\r')
        return -400; /* a bare LF too: RFC 9112 2.2 allows it, request smuggling relies on it */
    return s->end - s->p == 1 ? MORE : -400;
}

/* The word from s->p to its end, which has one to max bytes, and the space behind. */
static int read_word(struct scan *s, const char *end, long max, int too_long)
{
    const char *start = s->p;

    if (end - start > max)
        return too_long;
    if (end == s->end)
        return MORE;
    if (*end != ' ' || end == start)
        return -400;
    s->p = end + 1;
    return DONE;
}

/* HTTP/d.d and a terminator.  Versions we do not speak get 505, once they are known to be
 * versions. */
static int read_version(struct scan *s, char after, struct http_head *h)
{
    const char *form = "HTTP/d.d", *start = s->p;
    bool digit;

    if (s->end - s->p > 8 && memcmp(s->p, "HTTP/1.1", 8) == 0 && s->p[8] == after) {
        s->p += 8; /* nearly always; the loop would give the same result */
        return DONE;
    }
    for (; *form; form++, s->p++) {
        if (s->p == s->end)
            return MORE;
        digit = *form == 'd' && byte_is(*s->p, BYTE_DIGIT);
        if (!digit && (*form == 'd' || *s->p != *form))
            return -400;
    }
    if (s->p == s->end)
        return MORE;
    if (*s->p != after)
        return -400;
    if (start[5] != '1')
        return -505;
    h->minor = start[7] != '0'; /* a higher minor version is 1.1 to us (RFC 9110 2.5) */
    return DONE;
}

static enum http_method method_of(struct slice m)
{
    unsigned i;

    if (slice_is(m, "GET"))
        return HTTP_GET;
    if (slice_is(m, "HEAD"))
        return HTTP_HEAD;
    if (slice_is(m, "OPTIONS"))
        return HTTP_OPTIONS;
    for (i = 0; i < sizeof(known_methods) / sizeof(known_methods[0]); i++)
        if (slice_is(m, known_methods[i]))
            return HTTP_KNOWN;
    return HTTP_UNKNOWN;
}

static struct slice slice_to(const char *start, const char *end)
{
    struct slice s = {start, (size_t)(end - start)};

    return s;
}

static int read_request_line(struct scan *s, struct http_head *h)
{
    const char *start;
    int r;

    /* RFC 9112 2.2: an empty line before a request is ignored.  Only one: old clients end a body
     * with it. */
    if (s->p < s->end && *s->p == '\r') {
        r = read_crlf(s);
        if (r)
            return r;
    }
    start = s->p;
    r = read_word(s, skip_run(start, s->end, BYTE_TOKEN), METHOD_BYTES_MAX, -501);
    if (r)
        return r;
    h->method_text = slice_to(start, s->p - 1);
    h->method = method_of(h->method_text);
    start = s->p;
    r = read_word(s, skip_run(start, s->end, BYTE_TARGET), TARGET_BYTES_MAX, -414);
    if (r)
        return r;
    h->target = slice_to(start, s->p - 1);
    r = read_version(s, '\r', h);
    return r ? r : read_crlf(s);
}

static int read_status_line(struct scan *s, struct http_head *h)
{
    int i, r = read_version(s, ' ', h);

    if (r)
        return r;
    s->p++;
    for (i = 0; i < 3; i++, s->p++) {
        if (s->p == s->end)
            return MORE;
        if (!byte_is(*s->p, BYTE_DIGIT) || (i == 0 && *s->p == '0'))
            return -400;
        h->status = h->status * 10 + (unsigned)(*s->p - '0');
    }
    if (s->p == s->end)
        return MORE;
    if (*s->p != ' ') /* there is one even before an empty reason (RFC 9112 4) */
        return -400;
    s->p = skip_run(s->p + 1, s->end, BYTE_VALUE);
    return read_crlf(s);
}

/* Tokens are compared eight bytes at a time with 0x20 set: that folds letters.  The only other
 * tchar that become equal are '^' and '~', which no word here has. */
static bool word_is(const struct word *w, const char *name)
{
    const uint64_t fold = ~0ull / 255 * 0x20;
    unsigned i, len = w->len;

    if (len < 8) {
        for (i = 0; i < len; i++)
            if ((name[i] | 0x20) != w->text[i])
                return false;
        return true;
    }
    for (i = 0; i + 8 < len; i += 8)
        if ((skip_load(name + i) | fold) != skip_load(w->text + i))
            return false;
    return (skip_load(name + len - 8) | fold) == skip_load(w->text + len - 8);
}

static unsigned field_id(struct slice name)
{
    const struct word *w;
    unsigned i, row;

    if (name.len >= sizeof(field_words_of) / sizeof(field_words_of[0]))
        return FIELD_OTHER;
    for (i = 0; i < 2; i++) {
        row = field_words_of[name.len][i];
        if (row == 0)
            break;
        w = &field_words[row - 1];
        if (word_is(w, name.ptr))
            return w->id;
    }
    return FIELD_OTHER;
}

/* field-line CRLF, whose first byte is there and is not CR (RFC 9112 5). */
static int read_field(struct scan *s, struct http_head *h)
{
    const char *start = s->p, *end = s->end, *p = skip_run(start, end, BYTE_TOKEN);
    struct http_field *f;

    if (p == start) /* folding too: a server must refuse or repair it, RFC 9112 5.2 */
        return -400;
    if (h->fields == HEAD_FIELDS_MAX)
        return -431;
    if (p == end)
        return MORE;
    if (*p != ':') /* white space before the colon is refused: RFC 9112 5.1 */
        return -400;
    f = &h->field[h->fields];
    f->name = slice_to(start, p);
    for (p++; p < end && (*p == ' ' || *p == '\t'); p++)
        ;
    start = p;
    p = skip_run(p, end, BYTE_VALUE);
    s->p = p;
    while (p > start && (p[-1] == ' ' || p[-1] == '\t'))
        p--;
    f->value = slice_to(start, p);
    f->id = (uint8_t)field_id(f->name);
    h->fields++;
    if (h->first[f->id] == 0)
        h->first[f->id] = (uint8_t)h->fields;
    else
        h->repeated |= 1u << f->id;
    return read_crlf(s);
}

static int read_fields(struct scan *s, struct http_head *h)
{
    int r;

    while (s->p < s->end && *s->p != '\r') {
        r = read_field(s, h);
        if (r)
            return r;
    }
    return read_crlf(s);
}

/* --- Meaning ---------------------------------------------------------------------------------- */

static bool is_repeated(const struct http_head *h, enum http_field_id id)
{
    return (h->repeated >> id & 1) != 0;
}

/* RFC 9112 7.2 and 6.1: one Host in 1.1; its syntax in any version. */
static int judge_host(const struct http_head *h)
{
    struct slice host = http_field(h, FIELD_HOST);

    if (!host.ptr)
        return h->minor == 0 ? DONE : -400;
    if (is_repeated(h, FIELD_HOST))
        return -400;
    /* Empty where the target has no authority (RFC 9110 7.2). */
    return host.len == 0 || authority_is_valid(host, false) ? DONE : -400;
}

/* Digits; no sign, no list, not beyond 2^63 - 1. */
static bool read_length(struct slice text, uint64_t *length)
{
    const uint64_t max = INT64_MAX;
    uint64_t n = 0;
    size_t i;

    for (i = 0; i < text.len; i++) {
        if (!byte_is(text.ptr[i], BYTE_DIGIT) || n > max / 10)
            return false;
        n = n * 10 + (uint64_t)(text.ptr[i] - '0');
        if (n > max)
            return false;
    }
    *length = n;
    return text.len > 0;
}

/* The name of a transfer coding, without its parameters. */
static struct slice coding_name(struct slice coding)
{
    const char *end = memchr(coding.ptr, ';', coding.len);

    if (end)
        coding.len = (size_t)(end - coding.ptr);
    while (coding.len > 0 && memchr(" \t", coding.ptr[coding.len - 1], 2))
        coding.len--;
    return coding;
}

/* IANA's registry of transfer codings, without chunked. */
static bool is_registered(struct slice name)
{
    static const char *const names[] = {
        "gzip", "x-gzip", "compress", "x-compress", "deflate", "identity"};
    unsigned i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (slice_is_nocase(name, names[i]))
            return true;
    return false;
}

/* Why codings that are not just "chunked" are refused.  501 (RFC 9112 6.1): chunked behind another
 * coding, or a last coding that is not registered.  400 (6.3): a malformed list, or a last coding
 * that is registered and does not mark the end of the body. */
static int refuse_codings(const struct http_head *h)
{
    bool chunked = false, coded = false, unknown = false;
    struct slice value, element, name;
    unsigned cursor = 0;

    while ((value = http_next(h, FIELD_TRANSFER_ENCODING, &cursor)).ptr) {
        while (http_list(&value, &element)) {
            name = coding_name(element);
            if (chunked || name.len == 0 ||
                skip_run(name.ptr, name.ptr + name.len, BYTE_TOKEN) != name.ptr + name.len)
                return -400;
            chunked = slice_is_nocase(name, "chunked");
            if (chunked && name.len < element.len) /* it has no parameters (7.1) */
                return -400;
            coded = coded || !chunked;
            unknown = !chunked && !is_registered(name);
        }
    }
    return unknown || (coded && chunked) ? -501 : -400;
}

/* RFC 9112 6.3, without its allowances: repeated equal lengths, both framings at once, other
 * codings. */
static int judge_framing(struct http_head *h)
{
    struct slice length = http_field(h, FIELD_CONTENT_LENGTH);
    struct slice coding = http_field(h, FIELD_TRANSFER_ENCODING);

    if (length.ptr && (coding.ptr || is_repeated(h, FIELD_CONTENT_LENGTH)))
        return -400;
    if (coding.ptr) {
        if (h->minor == 0)
            return -400;
        if (is_repeated(h, FIELD_TRANSFER_ENCODING) || !slice_is_nocase(coding, "chunked"))
            return refuse_codings(h);
        h->framing = FRAMING_CHUNKED;
    } else if (length.ptr) {
        if (!read_length(length, &h->content_length))
            return -400;
        h->framing = FRAMING_LENGTH;
    }
    return DONE;
}

/* RFC 9112 9.3: close wins; 1.0 must ask to be kept. */
static void judge_connection(struct http_head *h)
{
    struct slice value, option;
    bool close = false, keep = h->minor > 0;
    unsigned cursor = 0;

    while ((value = http_next(h, FIELD_CONNECTION, &cursor)).ptr) {
        while (http_list(&value, &option)) {
            close = close || slice_is_nocase(option, "close");
            keep = keep || slice_is_nocase(option, "keep-alive");
        }
    }
    h->keep_alive = keep && !close;
}

/* RFC 9110 10.1.1: there is one expectation; 1.0 knows none. */
static int judge_expect(struct http_head *h)
{
    struct slice value, member;
    unsigned cursor = 0;

    while (h->minor > 0 && (value = http_next(h, FIELD_EXPECT, &cursor)).ptr) {
        while (http_list(&value, &member)) {
            if (!slice_is_nocase(member, "100-continue"))
                return -417;
            h->expect_continue = true;
        }
    }
    return DONE;
}

static int judge_request(struct http_head *h)
{
    int r = target_read(h) ? DONE : -400;

    if (r == DONE)
        r = judge_host(h);
    if (r == DONE)
        r = judge_framing(h);
    judge_connection(h);
    return r == DONE ? judge_expect(h) : r;
}

/* RFC 9112 6.3.  (A 2xx to CONNECT has no framing either; no tool of ours asks for a tunnel.) */
static int judge_response(struct http_head *h, enum http_method asked)
{
    int r = judge_framing(h);

    if (r != DONE)
        return r;
    if (asked == HTTP_HEAD || h->status < 200 || h->status == 204 || h->status == 304)
        h->framing = FRAMING_NONE;
    else if (h->framing == FRAMING_NONE)
        h->framing = FRAMING_CLOSE;
    judge_connection(h);
    if (h->framing == FRAMING_CLOSE)
        h->keep_alive = false;
    return DONE;
}

/* --- Both ------------------------------------------------------------------------------------- */

static void head_clear(struct http_head *h)
{
    memset(h, 0, offsetof(struct http_head, field));
    h->method = HTTP_UNKNOWN;
    h->minor = 1;
}

/* The length of a head that ends at s->p; 0: more is needed; < 0: what is wrong with it.  One that
 * has no end within HEAD_BYTES_MAX is too long. */
static long verdict(int r, const struct scan *s, const char *bytes, size_t n)
{
    if (r == MORE)
        return n < HEAD_BYTES_MAX ? 0 : -431;
    return r == DONE ? s->p - bytes : r;
}

long http_parse_request(const char *bytes, size_t n, struct http_head *head)
{
    struct scan s = {bytes, bytes + (n < HEAD_BYTES_MAX ? n : HEAD_BYTES_MAX)};
    int r;

    head_clear(head);
    r = read_request_line(&s, head);
    if (r == DONE)
        r = read_fields(&s, head);
    if (r == DONE)
        r = judge_request(head);
    return verdict(r, &s, bytes, n);
}

long http_parse_response(const char *bytes, size_t n, enum http_method asked,
                         struct http_head *head)
{
    struct scan s = {bytes, bytes + (n < HEAD_BYTES_MAX ? n : HEAD_BYTES_MAX)};
    int r;

    head_clear(head);
    head->method = asked;
    r = read_status_line(&s, head);
    if (r == DONE)
        r = read_fields(&s, head);
    if (r == DONE)
        r = judge_response(head, asked);
    return verdict(r, &s, bytes, n);
}
