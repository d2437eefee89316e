/* SPDX-License-Identifier: MIT */
/* congestion.c - which algorithm decides how fast a TCP connection sends, and for which peers.
 *
 * BBR measures a path's bandwidth and sends at that pace, packet by packet, by a timer.  On a wide
 * path with losses that is a gain; to a peer on the same machine or network it costs far more than
 * the sending (docs/sending.md).  The algorithm can be changed on a connection, but the timer
 * cannot be turned off again: BBR turns it on when the handshake is complete (sk_pacing_status),
 * before accept() returns, and other algorithms then pace too.  Therefore a listener gets the
 * algorithm for near peers, and connections from far peers get the other one.
 */
#include "congestion.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { OFFERED_TEXT = 256 };

static int socket_of_no_use(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
}

int congestion_default(char name[CONGESTION_NAME])
{
    socklen_t len = CONGESTION_NAME - 1;
    int fd = socket_of_no_use(), err;

    memset(name, 0, CONGESTION_NAME);
    if (fd < 0)
        return fd;
    err = getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len) < 0 ? -errno : 0;
    close(fd);
    return err;
}

int congestion_set(int fd, const char *name)
{
    return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) < 0 ? -errno
                                                                                         : 0;
}

int congestion_try(const char *name)
{
    int fd = socket_of_no_use(), err;

    if (fd < 0)
        return fd;
    err = congestion_set(fd, name);
    close(fd);
    return err;
}

void congestion_offered(char *buf, size_t cap)
{
    FILE *f = fopen("/proc/sys/net/ipv4/tcp_allowed_congestion_control", "re");

    if (!f || !fgets(buf, (int)cap, f))
        snprintf(buf, cap, "reno");
    buf[strcspn(buf, "\n")] = '\0';
    if (f)
        fclose(f);
}

bool congestion_paces(const char *name)
{
    return strncmp(name, "bbr", 3) == 0; /* bbr2 and bbr3 of some distributions, too */
}

const char *congestion_prompt(void)
{
    char offered[OFFERED_TEXT], *rest = offered, *word;

    congestion_offered(offered, sizeof(offered));
    while ((word = strsep(&rest, " ")))
        if (strcmp(word, "cubic") == 0)
            return "cubic";
    return "reno";
}

/* --- Peers ------------------------------------------------------------------------------------ */

static bool within(uint32_t address, uint32_t net, unsigned bits)
{
    return (address ^ net) >> (32 - bits) == 0;
}

static uint32_t ipv4_of(const struct sockaddr_storage *sa)
{
    return ntohl(((const struct sockaddr_in *)sa)->sin_addr.s_addr);
}

bool congestion_loopback(const struct sockaddr_storage *sa)
{
    if (sa->ss_family == AF_INET)
        return within(ipv4_of(sa), 0x7f000000, 8);
    return sa->ss_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)sa)->sin6_addr);
}

/* Loopback, private and link-local addresses (RFC 1918, RFC 3927; RFC 4193, RFC 4291 2.5.6) are
 * near.  Those that carriers share (RFC 6598) count as far. */
bool congestion_near(const struct sockaddr_storage *sa)
{
    const struct in6_addr *in6 = &((const struct sockaddr_in6 *)sa)->sin6_addr;
    uint32_t a;

    if (congestion_loopback(sa))
        return true;
    if (sa->ss_family == AF_INET6)
        return (in6->s6_addr[0] & 0xfe) == 0xfc || IN6_IS_ADDR_LINKLOCAL(in6);
    if (sa->ss_family != AF_INET)
        return false;
    a = ipv4_of(sa);
    return within(a, 0x0a000000, 8) || within(a, 0xac100000, 12) || within(a, 0xc0a80000, 16) ||
           within(a, 0xa9fe0000, 16);
}

void congestion_far(int fd, const char *name)
{
    struct sockaddr_storage sa = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(sa);

    if (getpeername(fd, (struct sockaddr *)&sa, &len) < 0 || sa.ss_family == AF_UNIX ||
        congestion_near(&sa))
        return;
    (void)congestion_set(fd, name); /* the system's default: only lack of memory refuses it */
}
