/* SPDX-License-Identifier: MIT */
/* sniff.bpf.c - the program that runs in the kernel for each packet of an interface: it lets
 * through segments of TCP that have bytes, or begin or end a connection.
 *
 * The program saves the copying of all other packets, acknowledgements above all.  sniff_packet.c
 * reads the packets that pass with the same care as if there were no program.
 */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

enum {
    TYPE_IPV4 = 0x0800,
    TYPE_IPV6 = 0x86dd,
    TYPE_VLAN = 0x8100,
    TYPE_VLAN_OUTER = 0x88a8,
    VLAN_TAGS_MAX = 2,
    EXTENSIONS_MAX = 8,
    NEXT_HOP = 0,
    NEXT_TCP = 6,
    NEXT_ROUTING = 43,
    NEXT_FRAGMENT = 44,
    NEXT_AUTHENTICATION = 51,
    NEXT_DESTINATION = 60,
    TCP_FIN_SYN_RST = 7,
    OUTGOING = 4, /* PACKET_OUTGOING */
    DROP = 0,
    PASS = -1
};

/* sniff_filter.c sets these in this order (struct fixed). */
const volatile __u32 port = 0;       /* 0: any */
const volatile __u32 link_bytes = 0; /* before the network's header */
const volatile __u32 loopback = 0;   /* each packet comes twice: going out, and coming in */

static inline __u32 number16(const __u8 *p)
{
    return (__u32)p[0] << 8 | p[1];
}

/* The packet's TCP begins at `at` and its IP ends at `end`. */
static inline int pick_tcp(struct __sk_buff *skb, __u32 at, __u32 end)
{
    __u8 tcp[14];

    if (bpf_skb_load_bytes(skb, at, tcp, sizeof(tcp)))
        return DROP;
    if (port && number16(tcp) != port && number16(tcp + 2) != port)
        return DROP;
    if (!(tcp[13] & TCP_FIN_SYN_RST) && at + (tcp[12] >> 4) * 4u >= end)
        return DROP;
    return PASS;
}

static inline int pick_ipv4(struct __sk_buff *skb, __u32 at)
{
    __u8 ip[20];
    __u32 len;

    if (bpf_skb_load_bytes(skb, at, ip, sizeof(ip)) || ip[9] != NEXT_TCP)
        return DROP;
    if (number16(ip + 6) & 0x1fff)
        return DROP;
    len = number16(ip + 2);
    return pick_tcp(skb, at + (ip[0] & 15u) * 4, len ? at + len : skb->len);
}

static inline int pick_ipv6(struct __sk_buff *skb, __u32 at)
{
    __u8 ip[8], more[4];
    __u32 end, next;

    if (bpf_skb_load_bytes(skb, at, ip, sizeof(ip)))
        return DROP;
    at += 40;
    end = number16(ip + 4) ? at + number16(ip + 4) : skb->len;
    next = ip[6];
    for (int i = 0; i < EXTENSIONS_MAX; i++) {
        if (next == NEXT_TCP)
            break;
        if ((next != NEXT_HOP && next != NEXT_ROUTING && next != NEXT_DESTINATION &&
             next != NEXT_FRAGMENT && next != NEXT_AUTHENTICATION) ||
            bpf_skb_load_bytes(skb, at, more, sizeof(more)))
            return DROP;
        if (next == NEXT_FRAGMENT && number16(more + 2) & 0xfff8)
            return DROP;
        at += next == NEXT_FRAGMENT ? 8 : next == NEXT_AUTHENTICATION ? (more[1] + 2u) * 4
                                                                      : (more[1] + 1u) * 8;
        next = more[0];
    }
    return next == NEXT_TCP ? pick_tcp(skb, at, end) : DROP;
}

SEC("socket")
int pick(struct __sk_buff *skb)
{
    __u32 at = link_bytes, type = bpf_ntohs(skb->protocol);
    __u8 two[2], tag[4];

    if (loopback && skb->pkt_type == OUTGOING)
        return DROP;
    if (at) {
        if (bpf_skb_load_bytes(skb, at - 2, two, sizeof(two)))
            return DROP;
        type = number16(two);
    }
    for (int i = 0; i < VLAN_TAGS_MAX; i++) {
        if (!at || (type != TYPE_VLAN && type != TYPE_VLAN_OUTER))
            break;
        if (bpf_skb_load_bytes(skb, at, tag, sizeof(tag)))
            return DROP;
        at += 4;
        type = number16(tag + 2);
    }
    if (type == TYPE_IPV4)
        return pick_ipv4(skb, at);
    return type == TYPE_IPV6 ? pick_ipv6(skb, at) : DROP;
}

char terms[] SEC("license") = "Dual MIT/GPL";
