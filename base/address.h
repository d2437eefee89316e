/* SPDX-License-Identifier: MIT */
/* address.h - a host's address as a value: read, compared, written.
 *
 * An IPv4 address inside IPv6 (::ffff:192.0.2.1) is the IPv4 address.
 */
#ifndef BASE_ADDRESS_H
#define BASE_ADDRESS_H
#include <sys/socket.h>
#include "../core/env.h"

struct address {
    uint8_t family; /* enum address_family */
    uint8_t bytes[16];
};
enum address_family { ADDRESS_NONE, ADDRESS_IPV4, ADDRESS_IPV6, ADDRESS_UNIX };

/* From text of n bytes: 192.0.2.1, 192.0.2.1:80, 2001:db8::1, [2001:db8::1], [2001:db8::1]:80; the
 * port is checked and forgotten.  False: it is none. */
bool address_parse(struct address *a, const char *text, size_t n);
/* ... exactly as it is: no brackets, no port. */
bool address_parse_bare(struct address *a, const char *text, size_t n);
/* From 4 or 16 bytes in network order. */
struct address address_of_bytes(const void *bytes, size_t n);
/* The address of the other end of a socket; ADDRESS_NONE: it has gone. */
struct address address_of_peer(int fd);
enum { ADDRESS_TEXT = 48 };
/* Without brackets; "unix", "-". */
void address_text(const struct address *a, char text[ADDRESS_TEXT]);

/* Addresses that begin with the same bits. */
struct prefix {
    struct address address;
    unsigned bits;
};
/* 10.0.0.0/8, 2001:db8::/32, an address alone, or unix: every Unix socket.  False: it is none. */
bool prefix_parse(struct prefix *p, const char *text);
bool prefix_has(const struct prefix *p, const struct address *a);

#endif
