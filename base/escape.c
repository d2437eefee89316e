/* SPDX-License-Identifier: MIT */
/* escape.c - escaping: one loop, two notations.
 *
 * Whether all of a text fits is known before its first byte is written, so that a text that will be
 * cut keeps room for the dots that show the cut.
 */
#include "escape.h"
#include <stdbool.h>
#include <string.h>

#define DOTS "..."

enum { JSON_WIDE = 6 /* \u00HH */, QUOTED_WIDE = 4 /* \xHH */ };

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c <= 0x7e && c != '"' && c != '\\';
}

/* The bytes that the whole text would take. */
static size_t whole(const char *bytes, size_t n, size_t wide)
{
    size_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += is_plain((unsigned char)bytes[i]) ? 1 : wide;
    return sum;
}

static void escape(char *buf, size_t cap, struct slice s, size_t wide)
{
    static const char hex[] = "0123456789abcdef";
    const char *prefix = wide == JSON_WIDE ? "\\u00" : "\\x";
    bool cut = s.len >= cap || whole(s.ptr, s.len, wide) >= cap;
    size_t used = 0, end = cut ? cap - sizeof(DOTS) : cap - 1;

    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        size_t need = is_plain(c) ? 1 : wide;

        if (used + need > end)
            break;
        if (is_plain(c)) {
            buf[used] = (char)c;
        } else {
            memcpy(buf + used, prefix, wide - 2);
            buf[used + wide - 2] = hex[c >> 4];
            buf[used + wide - 1] = hex[c & 15];
        }
        used += need;
    }
    if (cut)
        memcpy(buf + used, DOTS, sizeof(DOTS) - 1);
    buf[used + (cut ? sizeof(DOTS) - 1 : 0)] = 0;
}

void escape_json(char *buf, size_t cap, struct slice s)
{
    escape(buf, cap, s, JSON_WIDE);
}

void escape_quoted(char *buf, size_t cap, struct slice s)
{
    escape(buf, cap, s, QUOTED_WIDE);
}
