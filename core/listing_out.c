/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* listing_out.c - a listing's writer: numbers, dates, and names escaped for HTML, URLs, JSON and
 * terminals.
 *
 * A name has any bytes except NUL and '/'.  Three kinds of them are never written as they are:
 * bytes that are not UTF-8, controls (HTML forbids them, and terminals act on them), and characters
 * that reorder the text around them, so that "gpj.exe" looks like another file, or end a line.
 * HTML shows U+FFFD for each.  JSON has U+FFFD for the first kind and \uHHHH for the others.  Text
 * has \xHH for every byte of them.
 */
#include "byte.h"
#include "listing_out.h"

enum { DAY_S = 86400 };
static const int64_t LAST_S = 253402300799; /* the last second of the year 9999 */

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD, for what is not UTF-8 */

void out_number(struct listing_out *o, uint64_t n)
{
    char digit[20];

    out_bytes(o, digit, http_decimal(digit, n));
}

void out_grouped(struct listing_out *o, uint64_t n)
{
    char digit[20];
    unsigned count = http_decimal(digit, n), i;

    for (i = 0; i < count; i++) {
        if (i && (count - i) % 3 == 0)
            out_text(o, ",");
        out_bytes(o, digit + i, 1);
    }
}

void out_human(struct listing_out *o, uint64_t bytes)
{
    static const char *const unit[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
    unsigned scale = 0;
    unsigned whole, tenths;

    while (bytes >> (10 * scale) >= 1024)
        scale++;
    whole = (unsigned)(bytes >> (10 * scale));
    tenths = scale ? (unsigned)((bytes >> (10 * scale - 10)) & 1023) * 10 : 0;
    if (whole >= 100) { /* three digits are enough */
        whole += tenths >= 5120;
        tenths = 0;
    } else {
        tenths = (tenths + 512) >> 10;
        whole += tenths == 10;
        tenths %= 10;
    }
    if (whole == 1024) {
        whole = 1;
        scale++;
    }
    out_number(o, whole);
    if (scale && whole < 100) {
        out_text(o, ".");
        out_number(o, tenths);
    }
    out_text(o, unit[scale]);
}

/* From "Sun, 06 Nov 1994 08:49:37 GMT", so that there is one calendar in the core. */
void out_date(struct listing_out *o, int64_t unix_s)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    char date[HTTP_DATE_BYTES];
    char month[2] = {'0', '1'};
    unsigned i;

    http_date_write(date, unix_s);
    for (i = 0; i < 12; i++) {
        if (memcmp(months + 3 * i, date + 8, 3) == 0) {
            month[0] = (char)('0' + (i + 1) / 10);
            month[1] = (char)('0' + (i + 1) % 10);
        }
    }
    out_bytes(o, date + 12, 4);
    out_text(o, "-");
    out_bytes(o, month, 2);
    out_text(o, "-");
    out_bytes(o, date + 5, 2);
}

void out_time(struct listing_out *o, int64_t unix_s)
{
    char date[HTTP_DATE_BYTES];

    http_date_write(date, unix_s);
    out_bytes(o, date + 17, 8);
}

static void put_two(char *to, unsigned n)
{
    to[0] = (char)('0' + n / 10);
    to[1] = (char)('0' + n % 10);
}

/* The calendar is used once for neighbouring entries that changed on the same day. */
void listing_stamp(struct listing *l, struct listing_stamp *stamp)
{
    int64_t unix_s = l->held.mtime_s;
    uint64_t of_day = (uint64_t)unix_s - (uint64_t)l->day_s;
    unsigned s = (unsigned)of_day;

    if (!l->day[0] || of_day >= DAY_S) {
        struct listing_out date = {stamp->date, 0, sizeof(stamp->date), false};
        struct listing_out time = {stamp->time, 0, sizeof(stamp->time), false};
        const char *t = stamp->time;

        out_date(&date, unix_s);
        out_time(&time, unix_s);
        if (unix_s < 0 || unix_s > LAST_S) /* beyond the calendar's ends days have no length */
            return;
        memcpy(l->day, stamp->date, sizeof(l->day));
        s = (unsigned)((t[0] * 10 + t[1]) * 3600 + (t[3] * 10 + t[4]) * 60 + t[6] * 10 + t[7]) -
            '0' * 11 * (3600 + 60 + 1);
        l->day_s = unix_s - s;
        return;
    }
    memcpy(stamp->date, l->day, sizeof(l->day));
    memcpy(stamp->time, "00:00:00", sizeof(stamp->time));
    put_two(stamp->time, s / 3600);
    put_two(stamp->time + 3, s / 60 % 60);
    put_two(stamp->time + 6, s % 60);
}

size_t out_utf8_len(struct slice s)
{
    const unsigned char *p = (const unsigned char *)s.ptr;
    unsigned char low = 0x80, high = 0xBF; /* of the second byte */
    size_t len, i;

    if (s.len == 0)
        return 0;
    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xC2 || p[0] > 0xF4)
        return 0;
    len = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (s.len < len)
        return 0;
    if (p[0] == 0xE0)
        low = 0xA0; /* shorter forms exist */
    else if (p[0] == 0xED)
        high = 0x9F; /* surrogates */
    else if (p[0] == 0xF0)
        low = 0x90;
    else if (p[0] == 0xF4)
        high = 0x8F; /* beyond U+10FFFF */
    if (p[1] < low || p[1] > high)
        return 0;
    for (i = 2; i < len; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    }
    return len;
}

/* Takes the next character off s.  Returns it, of *len bytes, or NULL for a byte that is no
 * character (*len 1). */
static const char *next_char(struct slice *s, size_t *len)
{
    const char *text = s->ptr;
    size_t n = out_utf8_len(*s);

    *len = n ? n : 1;
    s->ptr += *len;
    s->len -= *len;
    return n ? text : NULL;
}

/* The number of a character that out_utf8_len() has measured; beyond U+FFFF it does not matter. */
static unsigned code_of(const char *c, size_t len)
{
    unsigned lead = (unsigned char)c[0];

    if (len == 1)
        return lead;
    if (len == 2)
        return (lead & 0x1F) << 6 | ((unsigned char)c[1] & 0x3F);
    return (lead & 0x0F) << 12 | ((unsigned)c[1] & 0x3F) << 6 | ((unsigned)c[2] & 0x3F);
}

/* A control of C0 or C1, or a character of Unicode's that ends a line (2028, 2029) or is one of
 * Bidi_Control (Unicode 15, PropList.txt). */
static bool is_unsafe(const char *c, size_t len)
{
    unsigned code = code_of(c, len);

    if (len > 3)
        return false;
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x061C || code == 0x200E ||
        code == 0x200F || (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

/* How many of the first characters every format writes unchanged: nearly all of most names. */
static size_t plain_len(struct slice s, bool spaces)
{
    size_t n = 0;

    while (n < s.len && (byte_is(s.ptr[n], BYTE_UNRESERVED) || (spaces && s.ptr[n] == ' ')))
        n++;
    return n;
}

static void out_plain_part(struct listing_out *o, struct slice *s)
{
    size_t n = plain_len(*s, true);

    out_bytes(o, s->ptr, n);
    s->ptr += n;
    s->len -= n;
}

void out_html(struct listing_out *o, struct slice s)
{
    while (out_plain_part(o, &s), s.len && !o->full) {
        size_t len;
        const char *c = next_char(&s, &len);

        if (!c || is_unsafe(c, len))
            out_text(o, REPLACEMENT);
        else if (*c == '&')
            out_text(o, "&amp;");
        else if (*c == '<')
            out_text(o, "&lt;");
        else if (*c == '>')
            out_text(o, "&gt;");
        else if (*c == '"')
            out_text(o, "&quot;");
        else if (*c == '\'')
            out_text(o, "&#39;");
        else
            out_bytes(o, c, len);
    }
}

void out_url(struct listing_out *o, struct slice s)
{
    size_t plain = plain_len(s, false);

    if (s.len > (o->cap - o->len) / 3) {
        o->full = true;
        o->cap = o->len;
        return;
    }
    out_bytes(o, s.ptr, plain);
    if (plain < s.len)
        o->len += path_encode(o->buf + o->len, s.ptr + plain, s.len - plain);
}

static void out_hex(struct listing_out *o, const char *prefix, unsigned char c)
{
    static const char digit[] = "0123456789abcdef";
    char pair[2] = {digit[c >> 4], digit[c & 15]};

    out_text(o, prefix);
    out_bytes(o, pair, 2);
}

/* RFC 8259 section 7. */
void out_json(struct listing_out *o, struct slice s)
{
    while (out_plain_part(o, &s), s.len && !o->full) {
        size_t len;
        const char *c = next_char(&s, &len);

        if (!c) {
            out_text(o, REPLACEMENT);
        } else if (*c == '"' || *c == '\\') {
            out_text(o, "\\");
            out_bytes(o, c, 1);
        } else if (is_unsafe(c, len)) {
            out_hex(o, "\\u", (unsigned char)(code_of(c, len) >> 8));
            out_hex(o, "", (unsigned char)code_of(c, len));
        } else {
            out_bytes(o, c, len);
        }
    }
}

/* A backslash is doubled so that \x is never ambiguous. */
void out_plain(struct listing_out *o, struct slice s)
{
    while (out_plain_part(o, &s), s.len && !o->full) {
        const char *raw = s.ptr;
        size_t len, i;
        const char *c = next_char(&s, &len);

        for (i = 0; (!c || is_unsafe(c, len)) && i < len; i++)
            out_hex(o, "\\x", (unsigned char)raw[i]);
        if (i == 0 && *c == '\\')
            out_text(o, "\\\\");
        else if (i == 0)
            out_bytes(o, c, len);
    }
}
