/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* http_body.c - where a body ends: Content-Length and chunked, in any pieces (RFC 9112 6 and 7).
 *
 *     SIZE -> [EXTENSION] -> SIZE_LF -> PAYLOAD -> DATA_CR -> DATA_LF -> SIZE ...
 *      size 0: SIZE_LF -> TRAILER -> [NAME -> VALUE -> VALUE_LF -> TRAILER]... -> LAST_LF -> END
 *
 *     EXTENSION: SIZE_GAP -> EXT_START -> EXT_NAME -> EXT_NAME_GAP -> EXT_EQUALS
 *                -> EXT_TOKEN, or EXT_QUOTED -> EXT_CLOSED -> SIZE_GAP ...
 *
 * Payload is taken in runs, framing byte by byte.  The state is sixteen bytes and is all that is
 * kept between two calls, so a cut cannot change what is read.  Framing costs its sender nothing
 * and its reader time.  So chunk lines are bounded one by one, and all together by their bytes
 * beyond a plain line each (CVE-2023-39326).
 */
#include "byte.h"
#include "http.h"

enum {
    UNSET, /* a body that was never initialised */
    REFUSED,
    END,
    PAYLOAD,   /* `left` bytes, then the end */
    ENDLESS,   /* until end of stream */
    CHUNK,     /* `left` bytes of a chunk */
    DATA_CR,   /* behind them */
    DATA_LF,
    SIZE,      /* hex digits */
    /* Chunk extensions (RFC 9112 7.1.1) are read by their grammar and ignored.  A gap is the "bad
     * white space" (RFC 9110 5.6.3) in front of a ';' or '='. */
    SIZE_GAP,
    EXT_START, /* behind ';' */
    EXT_NAME,
    EXT_NAME_GAP,
    EXT_EQUALS, /* behind '=' */
    EXT_TOKEN,
    EXT_QUOTED,
    EXT_ESCAPED, /* behind a backslash */
    EXT_CLOSED,  /* behind the closing quote */
    SIZE_LF,
    /* From here on: http_body_trails(). */
    TRAILER, /* at the start of a line */
    NAME,
    VALUE,
    VALUE_LF,
    LAST_LF
};

enum { PLAIN_LINE_BYTES = 16, SIZE_DIGITS_MAX = 16 };

void http_body_init(struct http_body *b, enum http_framing framing, uint64_t content_length)
{
    memset(b, 0, sizeof(*b));
    b->state = END;
    if (framing == FRAMING_CHUNKED) {
        b->state = SIZE;
    } else if (framing == FRAMING_CLOSE) {
        b->state = ENDLESS;
    } else if (framing == FRAMING_LENGTH && content_length > 0) {
        b->state = PAYLOAD;
        b->left = content_length;
    }
}

bool http_body_done(const struct http_body *b)
{
    return b->state == END;
}

bool http_body_trails(const struct http_body *b)
{
    return b->state >= TRAILER;
}

uint64_t http_body_left(const struct http_body *b)
{
    return b->state == PAYLOAD || b->state == CHUNK ? b->left : 0;
}

static int expect_byte(struct http_body *b, char c, char wanted, uint8_t next)
{
    if (c != wanted)
        return -400;
    b->state = next;
    return 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Behind a size, a name or a value: the end of the line, another extension, or blanks before it. */
static int end_word(struct http_body *b, char c, uint8_t gap)
{
    if (!is_blank(c) && c != ';')
        return expect_byte(b, c, '\r', SIZE_LF);
    b->state = c == ';' ? EXT_START : gap;
    return 0;
}

/* No sign, no 0x, no space before: each has misled more than one reader. */
static int read_size(struct http_body *b, char c)
{
    if (byte_is(c, BYTE_HEX)) {
        if (b->digits == SIZE_DIGITS_MAX)
            return -413;
        b->digits++;
        b->left = b->left << 4 | byte_hex(c);
        return b->left > INT64_MAX ? -413 : 0;
    }
    return b->digits > 0 ? end_word(b, c, SIZE_GAP) : -400;
}

static int read_quoted(struct http_body *b, char c)
{
    if (!byte_is(c, BYTE_VALUE))
        return -400;
    if (b->state == EXT_ESCAPED)
        b->state = EXT_QUOTED;
    else if (c == '"')
        b->state = EXT_CLOSED;
    else if (c == '\\')
        b->state = EXT_ESCAPED;
    return 0;
}

/* The first byte of a name or a value, which has one at least. */
static int begin_word(struct http_body *b, char c, uint8_t next)
{
    if (is_blank(c))
        return 0;
    b->state = next;
    return byte_is(c, BYTE_TOKEN) ? 0 : -400;
}

/* *( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] ) */
static int read_extension(struct http_body *b, char c)
{
    switch (b->state) {
    case SIZE_GAP:
        return is_blank(c) ? 0 : expect_byte(b, c, ';', EXT_START);
    case EXT_START:
        return begin_word(b, c, EXT_NAME);
    case EXT_EQUALS:
        if (c != '"')
            return begin_word(b, c, EXT_TOKEN);
        b->state = EXT_QUOTED;
        return 0;
    case EXT_NAME:
    case EXT_NAME_GAP:
        if (c == '=')
            return expect_byte(b, c, '=', EXT_EQUALS);
        if (b->state == EXT_NAME)
            return byte_is(c, BYTE_TOKEN) ? 0 : end_word(b, c, EXT_NAME_GAP);
        return is_blank(c) ? 0 : expect_byte(b, c, ';', EXT_START);
    case EXT_TOKEN:
        return byte_is(c, BYTE_TOKEN) ? 0 : end_word(b, c, SIZE_GAP);
    case EXT_CLOSED:
        return end_word(b, c, SIZE_GAP);
    default:
        return read_quoted(b, c);
    }
}

static int read_size_line(struct http_body *b, char c)
{
    b->line++;
    b->extra += b->line > PLAIN_LINE_BYTES;
    if (b->line > CHUNK_LINE_BYTES_MAX || b->extra > CHUNK_OVERHEAD_BYTES_MAX)
        return -400;
    if (b->state == SIZE)
        return read_size(b, c);
    if (b->state != SIZE_LF)
        return read_extension(b, c);
    b->line = 0;
    b->digits = 0;
    if (b->left == 0) /* the last chunk: from here on trailers are counted */
        b->extra = 0;
    return expect_byte(b, c, '\n', b->left > 0 ? CHUNK : TRAILER);
}

/* Trailers have the grammar of fields.  They are dropped, not merged into the head's fields (RFC
 * 9110 6.5.1). */
static int read_trailer(struct http_body *b, char c)
{
    if (b->state == TRAILER && c == '\r')
        return expect_byte(b, c, '\r', LAST_LF);
    if (++b->extra > TRAILER_BYTES_MAX)
        return -431;
    if (b->state == VALUE)
        return byte_is(c, BYTE_VALUE) ? 0 : expect_byte(b, c, '\r', VALUE_LF);
    if (b->state == VALUE_LF)
        return expect_byte(b, c, '\n', TRAILER);
    if (b->state == NAME && c == ':') {
        b->state = VALUE;
        return 0;
    }
    b->state = NAME;
    return byte_is(c, BYTE_TOKEN) ? 0 : -400;
}

static int read_framing(struct http_body *b, char c)
{
    switch (b->state) {
    case DATA_CR:
        return expect_byte(b, c, '\r', DATA_LF);
    case DATA_LF:
        return expect_byte(b, c, '\n', SIZE);
    case TRAILER:
    case NAME:
    case VALUE:
    case VALUE_LF:
        return read_trailer(b, c);
    case LAST_LF:
        return expect_byte(b, c, '\n', END);
    default:
        return read_size_line(b, c);
    }
}

/* How many of n bytes are payload; when all of it is taken, the state moves on. */
static size_t take_payload(struct http_body *b, size_t n)
{
    if (b->state == ENDLESS)
        return n;
    if (n < b->left) {
        b->left -= n;
        return n;
    }
    n = (size_t)b->left;
    b->left = 0;
    b->state = b->state == CHUNK ? DATA_CR : END;
    return n;
}

long http_body_next(struct http_body *b, const char *bytes, size_t n, struct slice *data)
{
    bool trails = http_body_trails(b);
    size_t used = 0;
    int r;

    core_assert(b->state != UNSET);
    data->ptr = bytes;
    data->len = 0;
    if (b->state == REFUSED)
        return -(long)b->line;
    for (; used < n && b->state != END && http_body_trails(b) == trails; used++) {
        if (b->state == PAYLOAD || b->state == ENDLESS || b->state == CHUNK) {
            data->ptr = bytes + used;
            data->len = take_payload(b, n - used);
            return (long)(used + data->len);
        }
        r = read_framing(b, bytes[used]);
        if (r < 0) {
            b->state = REFUSED;
            b->line = (uint16_t)-r;
            return r;
        }
    }
    return (long)used;
}

size_t http_chunk_head(char *buf, size_t n)
{
    static const char hex[] = "0123456789abcdef";
    size_t len = 1, i;

    while (len < 2 * sizeof(n) && n >> 4 * len != 0)
        len++;
    for (i = 0; i < len; i++)
        buf[i] = hex[n >> 4 * (len - 1 - i) & 15];
    buf[len] = '\r';
    buf[len + 1] = '\n';
    return len + 2;
}
