/* SPDX-License-Identifier: MIT */
/* steer.c - which listener of a port gets a connection: that of the processor which received it.
 *
 * The kernel asks a filter program of three instructions, once for each connection.  What it
 * answers is an index into the group of listeners, in the order in which they began to listen; an
 * index beyond the group would mean the kernel's own choice, by a hash of the addresses.
 */
#include <errno.h>
#include <linux/filter.h>
#include <string.h>
#include "net.h"

int net_steer(int fd, unsigned n)
{
    struct sock_filter code[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)(SKF_AD_OFF + SKF_AD_CPU)},
        {BPF_ALU | BPF_MOD | BPF_K, 0, 0, n},
        {BPF_RET | BPF_A, 0, 0, 0},
    };
    struct sock_fprog program;

    memset(&program, 0, sizeof(program)); /* it has a gap, and the kernel is given all of it */
    program.len = sizeof(code) / sizeof(code[0]);
    program.filter = code;
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) < 0
               ? -errno
               : 0;
}
