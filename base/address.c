/* SPDX-License-Identifier: MIT */
/* address.c - host addresses as values.  inet_pton() decides what an address is; this file adds
 * ports, brackets and prefixes. */
#include "address.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

struct address address_of_bytes(const void *bytes, size_t n)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}; /* RFC 4291 2.5.5.2 */
    struct address a = {.family = n == 4 ? ADDRESS_IPV4 : ADDRESS_IPV6};

    memcpy(a.bytes, bytes, n);
    if (n == 16 && memcmp(bytes, mapped, sizeof(mapped)) == 0)
        return address_of_bytes((const uint8_t *)bytes + sizeof(mapped), 4);
    return a;
}

bool address_parse_bare(struct address *a, const char *text, size_t n)
{
    char copy[INET6_ADDRSTRLEN];
    uint8_t bytes[16];

    if (!n || n >= sizeof(copy) || memchr(text, '\0', n))
        return false;
    memcpy(copy, text, n);
    copy[n] = '\0';
    if (inet_pton(AF_INET, copy, bytes) == 1)
        *a = address_of_bytes(bytes, 4);
    else if (inet_pton(AF_INET6, copy, bytes) == 1)
        *a = address_of_bytes(bytes, 16);
    else
        return false;
    return true;
}

/* 1 to 5 digits up to 65535, and nothing else. */
static bool is_port(const char *text, size_t n)
{
    unsigned port = 0;

    if (n < 1 || n > 5)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        port = port * 10 + (unsigned)(text[i] - '0');
    }
    return port <= 65535;
}

bool address_parse(struct address *a, const char *text, size_t n)
{
    const char *end;
    size_t host;

    if (!n) /* text may be NULL then */
        return false;
    if (*text == '[') {
        end = memchr(text, ']', n);
        host = end ? (size_t)(end - text) : 0;
        return end && memchr(text, ':', host) && address_parse_bare(a, text + 1, host - 1) &&
               (host + 1 == n || (end[1] == ':' && is_port(end + 2, n - host - 2)));
    }
    if (address_parse_bare(a, text, n))
        return true;
    end = memchr(text, ':', n);
    host = end ? (size_t)(end - text) : n;
    return end && memchr(text, '.', host) && address_parse_bare(a, text, host) &&
           is_port(end + 1, n - host - 1);
}

struct address address_of_peer(int fd)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);

    if (getpeername(fd, (struct sockaddr *)&sa, &len) < 0)
        return (struct address){0};
    if (sa.ss_family == AF_INET)
        return address_of_bytes(&((const struct sockaddr_in *)&sa)->sin_addr, 4);
    if (sa.ss_family == AF_INET6)
        return address_of_bytes(&((const struct sockaddr_in6 *)&sa)->sin6_addr, 16);
    return (struct address){.family = ADDRESS_UNIX};
}

void address_text(const struct address *a, char text[ADDRESS_TEXT])
{
    if (a->family == ADDRESS_IPV4)
        inet_ntop(AF_INET, a->bytes, text, ADDRESS_TEXT);
    else if (a->family == ADDRESS_IPV6)
        inet_ntop(AF_INET6, a->bytes, text, ADDRESS_TEXT);
    else
        snprintf(text, ADDRESS_TEXT, "%s", a->family == ADDRESS_UNIX ? "unix" : "-");
}

/* --- Prefixes --------------------------------------------------------------------------------- */

bool prefix_parse(struct prefix *p, const char *text)
{
    const char *slash = strchr(text, '/');
    size_t n = slash ? (size_t)(slash - text) : strlen(text);
    unsigned most;

    *p = (struct prefix){.address.family = ADDRESS_UNIX};
    if (strcmp(text, "unix") == 0)
        return true;
    if (!address_parse_bare(&p->address, text, n))
        return false;
    most = p->address.family == ADDRESS_IPV4 ? 32 : 128;
    p->bits = most;
    if (!slash)
        return true;
    n = strlen(++slash);
    if (!is_port(slash, n) || n > 3)
        return false;
    p->bits = 0;
    for (size_t i = 0; i < n; i++)
        p->bits = p->bits * 10 + (unsigned)(slash[i] - '0');
    return p->bits <= most;
}

bool prefix_has(const struct prefix *p, const struct address *a)
{
    unsigned whole = p->bits / 8, rest = p->bits % 8;
    unsigned mask = 0xff00u >> rest & 0xff;

    return a->family == p->address.family && memcmp(a->bytes, p->address.bytes, whole) == 0 &&
           (!rest || ((a->bytes[whole] ^ p->address.bytes[whole]) & mask) == 0);
}
