/* SPDX-License-Identifier: MIT */
/* escape.c - escaping: one loop, two notations. */
#include "escape.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c <= 0x7e && c != '"' && c != '\\';
}

/* Room for an escape and the dots is kept until the end is known to fit. */
static void escape_as(char *buf, size_t cap, const char *bytes, size_t n, const char *prefix)
{
    size_t used = 0, wide = strlen(prefix) + 2, dots = 3;
    size_t rest = 0; /* what is still to come needs this much */
    for (size_t i = 0; i < n && rest < cap; i++)
        rest += is_plain((unsigned char)bytes[i]) ? 1 : wide;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)bytes[i];
        size_t need = is_plain(c) ? 1 : wide;
        if (rest >= cap && used + need + dots >= cap) {
            memcpy(buf + used, "...", dots);
            used += dots;
            break;
        }
        if (is_plain(c))
            buf[used] = (char)c;
        else
            snprintf(buf + used, wide + 1, "%s%02x", prefix, c);
        used += need;
    }
    buf[used] = 0;
}

void escape_json(char *buf, size_t cap, const char *bytes, size_t n)
{
    escape_as(buf, cap, bytes, n, "\\u00");
}

void escape_quoted(char *buf, size_t cap, const char *bytes, size_t n)
{
    escape_as(buf, cap, bytes, n, "\\x");
}
