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
#include <stdbool.h>
#define __VMLINUX_H__ /* libbpf's headers take struct pt_regs from here */

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
    struct {
        __s64 counter;
    } skc_cookie;
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

struct socket {
    struct file *file;
    struct sock *sk;
};

struct file {
    void *private_data;
};

struct fdtable {
    unsigned int max_fds;
    struct file **fd;
};

struct files_struct {
    struct fdtable *fdt;
};

struct task_struct {
    unsigned int __state;
    int pid, tgid;
    struct files_struct *files;
};

/* usdt.bpf.h reads it where the kernel cannot report itself which trace point was hit. */
struct pt_regs {
    unsigned long ip;
};

struct user_pt_regs { /* of arm64, which gives programs this part of its pt_regs */
    __u64 pc;
};

#pragma clang attribute pop

#endif
