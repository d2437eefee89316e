/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* byte.h - the classes to which a byte of a message belongs, by one load and one test.
 *
 * The classes are the RFCs' own character sets; slice.c holds the table, tests/unit/slice.c
 * spells the sets out.
 */
#ifndef CORE_BYTE_H
#define CORE_BYTE_H
#include "env.h"

enum {
    BYTE_TOKEN = 1,       /* tchar: methods and field names (RFC 9110 5.6.2) */
    BYTE_VALUE = 2,       /* field values: HTAB, SP, VCHAR, obs-text (RFC 9110 5.5) */
    BYTE_TARGET = 4,      /* a request target: visible ASCII without '#': no fragment is sent */
    BYTE_HOST = 8,        /* reg-name without escapes: unreserved, sub-delims (RFC 3986 3.2.2) */
    BYTE_HEX = 16,        /* HEXDIG of either case */
    BYTE_DIGIT = 32,      /* DIGIT */
    BYTE_UNRESERVED = 64, /* what no URL needs to escape (RFC 3986 2.3) */
};

extern const uint8_t byte_class[256];

static inline bool byte_is(char c, unsigned class)
{
    return (byte_class[(unsigned char)c] & class) != 0;
}

/* The value of a BYTE_HEX byte. */
static inline unsigned byte_hex(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a' + 10);
}

/* ASCII letters in lower case; all other bytes unchanged. */
static inline unsigned char byte_lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

#endif
