/* SPDX-License-Identifier: MIT */
/* steer.c - filter programs that the kernel runs on a listener: one chooses the listener of a port,
 * one ends its queue.
 *
 * net_steer(): three instructions, run once for each connection.  The result is an index into the
 * group of listeners, in the order in which they began to listen; for an index beyond the group the
 * kernel chooses by a hash of the addresses.
 *
 * net_deafen(): run once for each packet that the listener gets.  The first packet of a handshake
 * is dropped and all others pass, so that handshakes under way are completed, and then nothing more
 * can enter the queue between the last accept() and close().
 */
#include <errno.h>
#include <linux/filter.h>
#include <string.h>
#include "net.h"

enum { FLAGS_AT = 13, FLAG_SYN = 0x02, FLAG_ACK = 0x10 }; /* in a TCP header: RFC 9293 3.1 */

static int attach(int fd, int option, struct sock_filter *code, unsigned short len)
{
    struct sock_fprog program;

    memset(&program, 0, sizeof(program)); /* it has padding, and the kernel gets all of it */
    program.len = len;
    program.filter = code;
    return setsockopt(fd, SOL_SOCKET, option, &program, sizeof(program)) < 0 ? -errno : 0;
}

int net_steer(int fd, unsigned n)
{
    struct sock_filter code[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)(SKF_AD_OFF + SKF_AD_CPU)},
        {BPF_ALU | BPF_MOD | BPF_K, 0, 0, n},
        {BPF_RET | BPF_A, 0, 0, 0},
    };

    return attach(fd, SO_ATTACH_REUSEPORT_CBPF, code, sizeof(code) / sizeof(code[0]));
}

int net_deafen(int fd)
{
    struct sock_filter code[] = {
        {BPF_LD | BPF_B | BPF_ABS, 0, 0, FLAGS_AT},
        {BPF_ALU | BPF_AND | BPF_K, 0, 0, FLAG_SYN | FLAG_ACK},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, FLAG_SYN},
        {BPF_RET | BPF_K, 0, 0, 0},
        {BPF_RET | BPF_K, 0, 0, UINT32_MAX},
    };

    return attach(fd, SO_ATTACH_FILTER, code, sizeof(code) / sizeof(code[0]));
}
