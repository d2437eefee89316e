/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* drop_pair.h - a line of text as the four numbers of a TCP connection. */
#ifndef KERNEL_DROP_PAIR_H
#define KERNEL_DROP_PAIR_H
#include <linux/in6.h>
#include <net/net_namespace.h>

enum {
    DROP_LINE_MAX = 160,  /* bytes with the newline; the longest pair has 138, some are padded */
    DROP_LINES_MAX = 1024 /* in one write, which takes 200 KiB for a moment */
};

struct drop_end {
    struct in6_addr addr; /* IPv4 as IPv6 keeps it: ::ffff:1.2.3.4 */
    u16 port;
};

struct drop_pair {
    struct drop_end local, peer;
    int device; /* the one that the socket is bound to; 0: none */
};

/* "LOCAL:PORT PEER:PORT", as ss writes them; the device after % is one of that namespace.  len does
 * not count the newline.  Returns 0, -EINVAL, or -ENODEV: no such device. */
int drop_pair_read(struct net *net, const char *line, size_t len, struct drop_pair *pair);

#endif
