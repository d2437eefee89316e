/* SPDX-License-Identifier: MIT */
/* sniff_packet.c - turns a frame that passes an interface into a segment of TCP.
 *
 * Nothing in a frame is trusted: every length is compared with the bytes that are there.  A frame
 * may be longer than its packet (Ethernet fills up to 60 bytes), so the packet's own length counts.
 * Checksums are not checked: on the way out, and on loopback, they are not filled in yet.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include "sniff.h"

enum {
    TYPE_IPV4 = 0x0800,
    TYPE_IPV6 = 0x86dd,
    TYPE_VLAN = 0x8100,
    TYPE_VLAN_OUTER = 0x88a8,
    NEXT_HOP = 0,
    NEXT_TCP = 6,
    NEXT_ROUTING = 43,
    NEXT_FRAGMENT = 44,
    NEXT_AUTHENTICATION = 51,
    NEXT_DESTINATION = 60,
    IPV4_BYTES = 20,
    IPV6_BYTES = 40,
    TCP_BYTES = 20
};

/* The bytes that are left: n can be read, of `wire` bytes in all. */
struct rest {
    const uint8_t *at;
    uint32_t n, wire;
};

static unsigned number16(const uint8_t *p)
{
    return (unsigned)p[0] << 8 | p[1];
}

static uint32_t number32(const uint8_t *p)
{
    return (uint32_t)number16(p) << 16 | number16(p + 2);
}

static bool step(struct rest *r, uint32_t bytes)
{
    if (bytes > r->n)
        return false;
    r->at += bytes;
    r->n -= bytes;
    r->wire -= bytes;
    return true;
}

/* Ends the packet here, whatever the frame is filled up with.  False: the packet is longer. */
static bool cut(struct rest *r, uint32_t bytes)
{
    if (bytes > r->wire)
        return false;
    r->wire = bytes;
    r->n = r->n < bytes ? r->n : bytes;
    return true;
}

static enum packet_kind read_tcp(struct rest r, struct tcp_segment *seg)
{
    const uint8_t *p = r.at;

    if (r.n < TCP_BYTES || (p[12] >> 4) * 4u < TCP_BYTES || !step(&r, (p[12] >> 4) * 4u))
        return PACKET_BROKEN;
    seg->from.port = (uint16_t)number16(p);
    seg->to.port = (uint16_t)number16(p + 2);
    seg->seq = number32(p + 4);
    seg->flags = p[13] & (SEGMENT_FIN | SEGMENT_SYN | SEGMENT_RST);
    seg->payload = (const char *)r.at;
    seg->len = r.wire;
    seg->kept = r.n;
    return PACKET_TCP;
}

static void mapped(uint8_t to[16], const uint8_t *ipv4)
{
    memset(to, 0, 10);
    to[10] = to[11] = 0xff;
    memcpy(to + 12, ipv4, 4);
}

static enum packet_kind read_ipv4(struct rest r, struct tcp_segment *seg)
{
    const uint8_t *p = r.at;
    uint32_t head, len;

    if (r.n < IPV4_BYTES || p[0] >> 4 != 4)
        return PACKET_BROKEN;
    if (p[9] != NEXT_TCP)
        return PACKET_OTHER;
    head = (p[0] & 15u) * 4;
    len = number16(p + 2);
    /* A length of 0: the packet is cut to size later, and is longer than 16 bits can say. */
    if (head < IPV4_BYTES || (len && (len < head || !cut(&r, len))))
        return PACKET_BROKEN;
    if (number16(p + 6) & 0x3fff) /* more fragments, or not the first */
        return PACKET_FRAGMENT;
    if (!step(&r, head))
        return PACKET_BROKEN;
    mapped(seg->from.address, p + 12);
    mapped(seg->to.address, p + 16);
    return read_tcp(r, seg);
}

static bool is_extension(unsigned next)
{
    return next == NEXT_HOP || next == NEXT_ROUTING || next == NEXT_DESTINATION ||
           next == NEXT_FRAGMENT || next == NEXT_AUTHENTICATION;
}

/* r is behind IPv6's own header; skips the headers before TCP. */
static enum packet_kind skip_extensions(struct rest *r, unsigned next)
{
    for (unsigned i = 0; i < EXTENSIONS_MAX && is_extension(next); i++) {
        uint32_t len;

        if (r->n < 8)
            return PACKET_BROKEN;
        len = next == NEXT_AUTHENTICATION ? (r->at[1] + 2u) * 4 : (r->at[1] + 1u) * 8;
        if (next == NEXT_FRAGMENT) {
            len = 8;
            if (number16(r->at + 2) & 0xfff9)
                return PACKET_FRAGMENT;
        }
        next = r->at[0];
        if (!step(r, len))
            return PACKET_BROKEN;
    }
    return next == NEXT_TCP ? PACKET_TCP : PACKET_OTHER;
}

static enum packet_kind read_ipv6(struct rest r, struct tcp_segment *seg)
{
    const uint8_t *p = r.at;
    uint32_t len;
    enum packet_kind kind;

    if (r.n < IPV6_BYTES || p[0] >> 4 != 6)
        return PACKET_BROKEN;
    len = number16(p + 4);
    if (!step(&r, IPV6_BYTES) || (len && !cut(&r, len)))
        return PACKET_BROKEN;
    kind = skip_extensions(&r, p[6]);
    memcpy(seg->from.address, p + 8, 16);
    memcpy(seg->to.address, p + 24, 16);
    return kind == PACKET_TCP ? read_tcp(r, seg) : kind;
}

enum packet_kind packet_read(const struct frame *f, struct tcp_segment *seg)
{
    struct rest r = {f->bytes, f->n < f->wire ? f->n : f->wire, f->wire};
    unsigned type;

    *seg = (struct tcp_segment){.vlan = f->tag & 0xfff};
    if (f->link == LINK_NONE && r.n)
        return r.at[0] >> 4 == 4 ? read_ipv4(r, seg) : read_ipv6(r, seg);
    if (f->link == LINK_NONE || !step(&r, LINK_ETHER))
        return PACKET_BROKEN;
    type = number16(r.at - 2);
    for (unsigned i = 0; i < VLAN_TAGS_MAX && (type == TYPE_VLAN || type == TYPE_VLAN_OUTER);
         i++) {
        if (!step(&r, 4))
            return PACKET_BROKEN;
        seg->vlan = seg->vlan << 12 | (number16(r.at - 4) & 0xfff);
        type = number16(r.at - 2);
    }
    if (type == TYPE_IPV4)
        return read_ipv4(r, seg);
    return type == TYPE_IPV6 ? read_ipv6(r, seg) : PACKET_OTHER;
}

void endpoint_text(const struct endpoint *e, char text[ENDPOINT_TEXT])
{
    static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff};
    bool is_ipv4 = memcmp(e->address, ipv4, sizeof(ipv4)) == 0;
    char address[INET6_ADDRSTRLEN];

    inet_ntop(is_ipv4 ? AF_INET : AF_INET6, e->address + (is_ipv4 ? sizeof(ipv4) : 0), address,
              sizeof(address));
    snprintf(text, ENDPOINT_TEXT, is_ipv4 ? "%s:%u" : "[%s]:%u", address, e->port);
}
