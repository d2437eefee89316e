/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* http_text.c - appending to a buffer: all the formatting that answers need.
 *
 * A text never grows past its end.  That what is written fits is a promise of the caller,
 * asserted; the sizes are worked out where the buffers are declared.
 */
#include "byte.h"
#include "http_inside.h"

static const char digits[] = "0123456789abcdef";
static const char upper[] = "0123456789ABCDEF";

void text_put(struct text *t, const char *bytes, size_t n)
{
    bool fits = n <= (size_t)(t->end - t->at);

    core_assert(fits);
    if (!fits)
        return;
    memcpy(t->at, bytes, n);
    t->at += n;
}

void text_string(struct text *t, const char *string)
{
    text_put(t, string, strlen(string));
}

void text_number(struct text *t, uint64_t number)
{
    char buf[20]; /* 2^64 has 20 digits */
    size_t at = sizeof(buf);

    do {
        buf[--at] = digits[number % 10];
        number /= 10;
    } while (number);
    text_put(t, buf + at, sizeof(buf) - at);
}

void text_hex(struct text *t, uint64_t number)
{
    char buf[16];
    size_t at = sizeof(buf);

    do {
        buf[--at] = digits[number & 15];
        number >>= 4;
    } while (number);
    text_put(t, buf + at, sizeof(buf) - at);
}

void text_html(struct text *t, struct slice s)
{
    size_t i;

    for (i = 0; i < s.len; i++) {
        switch (s.ptr[i]) {
        case '&': TEXT_LITERAL(t, "&amp;"); break;
        case '<': TEXT_LITERAL(t, "&lt;"); break;
        case '>': TEXT_LITERAL(t, "&gt;"); break;
        case '"': TEXT_LITERAL(t, "&quot;"); break;
        case '\'': TEXT_LITERAL(t, "&#39;"); break;
        default: text_put(t, s.ptr + i, 1);
        }
    }
}

/* RFC 3986 3.4: pchar, '/' and '?'.  '%' stays: escapes of the client's are not escaped again. */
static bool is_query(char c)
{
    static const char others[] = "%!$&'()*+,;=:@/?";

    return byte_is(c, BYTE_UNRESERVED) || memchr(others, c, sizeof(others) - 1);
}

void text_query(struct text *t, struct slice s)
{
    char escape[3] = {'%', 0, 0};
    size_t i;

    for (i = 0; i < s.len; i++) {
        if (is_query(s.ptr[i])) {
            text_put(t, s.ptr + i, 1);
            continue;
        }
        escape[1] = upper[(unsigned char)s.ptr[i] >> 4];
        escape[2] = upper[s.ptr[i] & 15];
        text_put(t, escape, 3);
    }
}
