/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* http_text.c - appending to a buffer: all the formatting that answers need.
 *
 * A text never grows past its end.  The caller promises that each text fits, which is asserted; the
 * sizes are worked out where the buffers are declared.
 */
#include "byte.h"
#include "http_inside.h"

static const char hex[] = "0123456789abcdef";
static const char upper_hex[] = "0123456789ABCDEF"; /* RFC 3986 2.1 */

void text_string(struct text *t, const char *string)
{
    text_put(t, string, strlen(string));
}

static unsigned short_decimal(char out[20], uint32_t n)
{
    char digit[10];
    unsigned at = sizeof(digit);

    do {
        digit[--at] = (char)('0' + n % 10);
        n /= 10;
    } while (n);
    memcpy(out, digit + at, sizeof(digit) - at);
    return (unsigned)sizeof(digit) - at;
}

/* By subtraction: a 32-bit kernel has no 64-bit division. */
static unsigned long_decimal(char out[20], uint64_t n)
{
    static const uint64_t power[20] = {
        1u, 10u, 100u, 1000u, 10000u, 100000u, 1000000u, 10000000u, 100000000u, 1000000000u,
        10000000000u, 100000000000u, 1000000000000u, 10000000000000u, 100000000000000u,
        1000000000000000u, 10000000000000000u, 100000000000000000u, 1000000000000000000u,
        10000000000000000000u};
    unsigned len = 1, i;

    while (len < 20 && n >= power[len])
        len++;
    for (i = 0; i < len; i++)
        for (out[i] = '0'; n >= power[len - 1 - i]; out[i]++)
            n -= power[len - 1 - i];
    return len;
}

unsigned http_decimal(char out[20], uint64_t n)
{
    return n <= UINT32_MAX ? short_decimal(out, (uint32_t)n) : long_decimal(out, n);
}

void text_number(struct text *t, uint64_t number)
{
    char digits[20];

    text_put(t, digits, http_decimal(digits, number));
}

void text_hex(struct text *t, uint64_t number)
{
    char buf[16];
    size_t at = sizeof(buf);

    do {
        buf[--at] = hex[number & 15];
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

/* RFC 3986 3.4: pchar, '/' and '?'.  '%' stays: the client's escapes are not escaped again. */
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
        escape[1] = upper_hex[(unsigned char)s.ptr[i] >> 4];
        escape[2] = upper_hex[s.ptr[i] & 15];
        text_put(t, escape, 3);
    }
}
