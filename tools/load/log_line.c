/* SPDX-License-Identifier: MIT */
/* log_line.c - a line of an access log in Common or Combined form:
 *
 *   HOST IDENT USER [10/Oct/2000:13:55:36 +0000] "GET /path HTTP/1.1" 200 2326 ...
 *
 * The text before the time and after the status is ignored, so a virtual host in front or further
 * fields do no harm.  Servers escape what they log in quotes as \xHH (rung, nginx) or like C
 * (Apache); both are undone.
 */
#include <ctype.h>
#include "workload.h"

/* rung cuts what is longer than 1999 characters, and ends it with dots. */
enum { CUT_FROM = 1990 };

#define X(id, key, words) [LEFT_##id] = key,
const char *const left_keys[LEFT_KINDS] = {LEFTS(X)};
#undef X
#define X(id, key, words) [LEFT_##id] = words,
const char *const left_words[LEFT_KINDS] = {LEFTS(X)};
#undef X

/* The value of n characters that are known to be digits. */
static unsigned number(const char *text, unsigned n)
{
    unsigned value = 0;

    while (n--)
        value = value * 10 + (unsigned)(*text++ - '0');
    return value;
}

/* Days from 1970-01-01, month from 0; right for all years that have logs. */
static int64_t days(unsigned year, unsigned month, unsigned day)
{
    static const unsigned short before[] = {0,   31,  59,  90,  120, 151,
                                            181, 212, 243, 273, 304, 334};
    unsigned leaps = month < 2 ? year - 1 : year; /* a leap day counts when it is over */

    return (int64_t)year * 365 + leaps / 4 - leaps / 100 + leaps / 400 + before[month] + day -
           719528;
}

/* Reads dd/Mon/yyyy:HH:MM:SS +hhmm] at the front of text; returns the text after it, or NULL. */
static const char *read_time(const char *text, int64_t *unix_s)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    static const char form[] = "00/Aaa/0000:00:00:00 +0000]";
    unsigned month, hour, minute, second, zone;

    for (size_t i = 0; form[i]; i++) {
        char c = text[i];

        if (form[i] == '0' ? c < '0' || c > '9' : form[i] == '+' ? c != '+' && c != '-' :
            form[i] == 'A' || form[i] == 'a' ? !isalpha((unsigned char)c) : c != form[i])
            return NULL;
    }
    for (month = 0; month < 12 && memcmp(months + 3 * month, text + 3, 3) != 0; month++)
        ;
    hour = number(text + 12, 2);
    minute = number(text + 15, 2);
    second = number(text + 18, 2);
    zone = number(text + 22, 2) * 60 + number(text + 24, 2);
    if (month == 12 || number(text, 2) < 1 || number(text, 2) > 31 || number(text + 7, 4) < 1 ||
        hour > 23 || minute > 59 || second > 60)
        return NULL;
    *unix_s = days(number(text + 7, 4), month, number(text, 2)) * 86400 + hour * 3600 +
              minute * 60 + second + (text[21] == '-' ? 60 : -60) * (int64_t)zone;
    return text + sizeof(form) - 1;
}

static int hex(char c)
{
    if (isdigit((unsigned char)c))
        return c - '0';
    return isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10 : -1;
}

/* Undoes the escapes of a quoted field in place; returns the text after its end, or NULL. */
static char *read_quoted(char *text, struct slice *field)
{
    static const char letters[] = "n\nt\tr\rb\bf\fv\v";
    char *from = text, *to = text;
    const char *found;

    for (; *from && *from != '"'; from++) {
        if (*from != '\\') {
            *to++ = *from;
            continue;
        }
        if (!*++from)
            return NULL;
        if (*from == 'x' && hex(from[1]) >= 0 && hex(from[2]) >= 0) {
            *to++ = (char)(hex(from[1]) << 4 | hex(from[2]));
            from += 2;
        } else {
            found = strchr(letters, *from);
            *to++ = found && (found - letters) % 2 == 0 ? found[1] : *from;
        }
    }
    if (!*from)
        return NULL;
    *field = (struct slice){text, (size_t)(to - text)};
    return from + 1;
}

/* Escapes the bytes that a URL cannot have: the server got the byte itself, and decodes the escape
 * to the same byte. */
static struct slice escaped(struct slice raw, char *buf)
{
    static const char digits[] = "0123456789ABCDEF";
    char *to = buf;

    for (size_t i = 0; i < raw.len; i++) {
        unsigned char c = (unsigned char)raw.ptr[i];

        if (c > ' ' && c < 127 && c != '#') {
            *to++ = (char)c;
        } else {
            *to++ = '%';
            *to++ = digits[c >> 4];
            *to++ = digits[c & 15];
        }
    }
    return (struct slice){buf, (size_t)(to - buf)};
}

/* Reads METHOD target HTTP/x.y.  In the log it was longer by `escapes` bytes. */
static int read_request(struct log_line *l, struct slice request, long escapes, char *buf)
{
    const char *end = request.ptr + request.len, *space, *last;
    struct slice method = {request.ptr, 0};

    space = memchr(request.ptr, ' ', request.len);
    last = space ? memrchr(space + 1, ' ', (size_t)(end - space - 1)) : NULL;
    if (!last || end - last < 6 || memcmp(last, " HTTP/", 6) != 0 || last == space + 1 ||
        memchr(space + 1, ' ', (size_t)(last - space - 1)))
        return LEFT_MALFORMED;
    method.len = (size_t)(space - request.ptr);
    l->method = slice_is(method, "HEAD") ? HTTP_HEAD : HTTP_GET;
    if (l->method == HTTP_GET && !slice_is(method, "GET"))
        return LEFT_METHOD;
    if (space[1] != '/')
        return LEFT_TARGET;
    if (last - space + escapes > CUT_FROM && memcmp(last - 3, "...", 3) == 0)
        return LEFT_CUT;
    l->target = escaped((struct slice){space + 1, (size_t)(last - space - 1)}, buf);
    return l->target.len > TARGET_BYTES_MAX ? LEFT_TARGET : -1;
}

int log_line_read(struct log_line *l, char *line, char *buf)
{
    const char *rest = NULL;
    struct slice request;

    for (char *at = strchr(line, '['); at && !rest; at = strchr(at + 1, '['))
        rest = read_time(at + 1, &l->unix_s);
    if (!rest || rest[0] != ' ' || rest[1] != '"')
        return LEFT_MALFORMED;
    rest = read_quoted(line + (rest + 2 - line), &request);
    if (!rest || rest[0] != ' ' || strspn(rest + 1, "0123456789") != 3)
        return LEFT_MALFORMED;
    l->status = number(rest + 1, 3);
    return read_request(l, request, rest - 1 - request.ptr - (long)request.len, buf);
}
