/* SPDX-License-Identifier: MIT */
/* kern.h - the members of the kernel's structs that trace.bpf.c reads, and no others.
 *
 * preserve_access_index makes libbpf look each one up by name in the running kernel (CO-RE), so
 * their order, and what lies between them, does not matter here.
 */
#ifndef TRACE_KERN_H
#define TRACE_KERN_H
#include <linux/bpf.h>
#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
    __u8 s6_addr[16];
};

struct sock_common {
    __be32 skc_daddr;
    __be16 skc_dport;
    __u16 skc_num;
    unsigned short skc_family;
    unsigned char skc_state;
    struct in6_addr skc_v6_daddr;
};

struct sock {
    struct sock_common __sk_common;
    __u16 sk_protocol;
};

struct inet_sock {
    __be16 inet_sport;
};

struct tcp_sock {
    __u32 copied_seq, write_seq;
};

struct task_struct {
    int pid;
    unsigned int __state;
};

#pragma clang attribute pop

#endif
