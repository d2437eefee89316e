/* SPDX-License-Identifier: MIT */
/* lacking.c - preloaded by a test, it makes this kernel look like one that lacks a feature:
 * LACKS=destroy or LACKS=list.
 *
 * The program's request is changed to one that every kernel refuses exactly as a kernel without
 * that feature would refuse ours: Unix sockets cannot be destroyed, and no kernel still lists
 * sockets of DCCP.
 */
#include <dlfcn.h>
#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

ssize_t mnl_socket_sendto(const struct mnl_socket *wire, const void *buf, size_t len)
{
    ssize_t (*real)(const struct mnl_socket *, const void *, size_t);
    struct nlmsghdr *msg = (struct nlmsghdr *)buf;
    struct inet_diag_req_v2 *ask = mnl_nlmsg_get_payload(msg);
    const char *lacks = getenv("LACKS");

    *(void **)&real = dlsym(RTLD_NEXT, "mnl_socket_sendto");
    if (lacks && strcmp(lacks, "destroy") == 0 && msg->nlmsg_type == SOCK_DESTROY)
        ask->sdiag_family = AF_UNIX;
    if (lacks && strcmp(lacks, "list") == 0 && msg->nlmsg_type == SOCK_DIAG_BY_FAMILY)
        ask->sdiag_protocol = IPPROTO_DCCP;
    return real(wire, buf, len);
}
