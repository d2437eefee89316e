/* SPDX-License-Identifier: MIT */
/* proxy_header.c - reads the header of the PROXY protocol.
 *
 * Strict, and as early as possible: a byte that no header can have at its place ends the wait for
 * more.  Checksums and other remarks behind the addresses are skipped.
 */
#include "proxy_header.h"
#include <errno.h>
#include <string.h>

enum { V2_HEAD_BYTES = 16, COMMAND_PROXY = 1 /* 0: LOCAL */ };
static const char signature[] = "\r\n\r\n\0\r\nQUIT\n";

struct text {
    const char *at, *end;
};

/* Whether the first bytes are those of `word`, as far as there are some. */
static bool begins(const char *bytes, size_t n, const char *word, size_t len)
{
    return memcmp(bytes, word, n < len ? n : len) == 0;
}

/* --- Version 1: a line ------------------------------------------------------------------------ */

/* Takes a word and the blank behind it, or the end of the line behind the last one. */
static bool take_word(struct text *t, bool last, struct text *word)
{
    const char *blank = last ? t->end : memchr(t->at, ' ', (size_t)(t->end - t->at));

    if (!blank || blank == t->at)
        return false;
    *word = (struct text){t->at, blank};
    t->at = last ? blank : blank + 1;
    return true;
}

static bool is_port(const struct text *word)
{
    size_t n = (size_t)(word->end - word->at);
    unsigned port = 0;

    if (n > 5 || (n > 1 && *word->at == '0'))
        return false;
    for (const char *p = word->at; p < word->end; p++) {
        if (*p < '0' || *p > '9')
            return false;
        port = port * 10 + (unsigned)(*p - '0');
    }
    return port <= 65535;
}

static bool is_address(const struct text *word, bool ipv6, struct address *a)
{
    size_t n = (size_t)(word->end - word->at);

    return (memchr(word->at, ':', n) != NULL) == ipv6 && address_parse_bare(a, word->at, n);
}

/* A line without its CRLF. */
static bool read_line(struct text t, struct address *source)
{
    struct text word[6]; /* PROXY, the family, source, destination, and their ports */
    struct address destination;
    bool ipv6;

    if (!take_word(&t, false, &word[0]))
        return false;
    if (begins(t.at, (size_t)(t.end - t.at), "UNKNOWN", 7) && t.end - t.at >= 7)
        return t.end - t.at == 7 || t.at[7] == ' ';
    for (unsigned i = 1; i < 6; i++)
        if (!take_word(&t, i == 5, &word[i]))
            return false;
    if (word[1].end - word[1].at != 4 || memcmp(word[1].at, "TCP", 3) != 0)
        return false;
    ipv6 = word[1].at[3] == '6';
    return (ipv6 || word[1].at[3] == '4') && is_address(&word[2], ipv6, source) &&
           is_address(&word[3], ipv6, &destination) && is_port(&word[4]) && is_port(&word[5]);
}

static long parse_v1(const char *bytes, size_t n, struct address *source)
{
    size_t most = n < PROXY_V1_BYTES_MAX ? n : PROXY_V1_BYTES_MAX;
    const char *end = memchr(bytes, '\r', most);

    if (!end || end + 1 == bytes + most)
        return n < PROXY_V1_BYTES_MAX ? 0 : -EPROTO;
    if (end[1] != '\n' || !read_line((struct text){bytes, end}, source))
        return -EPROTO;
    return end + 2 - bytes;
}

/* --- Version 2: binary ------------------------------------------------------------------------ */

static long parse_v2(const char *bytes, size_t n, struct address *source)
{
    static const uint8_t address_bytes[4] = {0, 4, 16, 108}; /* none, IPv4, IPv6, unix */
    const uint8_t *head = (const uint8_t *)bytes;
    unsigned command = n > 12 ? head[12] & 15 : 0, family = 0, transport = 0;
    size_t len;

    if (n > 12 && (head[12] >> 4 != 2 || command > COMMAND_PROXY))
        return -EPROTO;
    if (n > 13 && command == COMMAND_PROXY) { /* LOCAL's are not looked at */
        family = head[13] >> 4;
        transport = head[13] & 15;
    }
    if (family > 3 || transport > 2)
        return -EPROTO;
    if (n < V2_HEAD_BYTES)
        return 0;
    len = (size_t)head[14] << 8 | head[15];
    if (len > PROXY_V2_BYTES_MAX - V2_HEAD_BYTES)
        return -EPROTO;
    if (family && transport && len < 2u * address_bytes[family] + (family < 3 ? 4 : 0))
        return -EPROTO; /* two addresses, and two ports */
    if (n < V2_HEAD_BYTES + len)
        return 0;
    if ((family == 1 || family == 2) && transport == 1)
        *source = address_of_bytes(head + V2_HEAD_BYTES, address_bytes[family]);
    return (long)(V2_HEAD_BYTES + len);
}

long proxy_header_parse(const char *bytes, size_t n, struct address *source)
{
    *source = (struct address){0};
    if (!n)
        return 0;
    if (begins(bytes, n, signature, sizeof(signature) - 1))
        return n < sizeof(signature) ? 0 : parse_v2(bytes, n, source);
    if (begins(bytes, n, "PROXY ", 6))
        return n < 6 ? 0 : parse_v1(bytes, n, source);
    return -EPROTO;
}
