/* SPDX-License-Identifier: MIT */
/* sniff_socket.c - the socket that has an interface's packets (packet(7)), with the filter, a large
 * buffer, and the kernel's count of the packets that did not fit.
 *
 * The socket is bound only when the filter is in place, so that no packet passes before.  The
 * interface stays as it is: packets for other machines are seen only if it takes them anyway.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "sniff.h"

enum {
    BATCH = 16,
    FRAME_BYTES = 65536 + 64, /* the longest packet whose length fits 16 bits */
    CONTROL_BYTES = 128,
    ARPHRD_WITHOUT = 0xfffe /* ARPHRD_NONE of linux/if_arp.h, which net/if.h excludes */
};

struct tap {
    int fd, index;
    unsigned link;
    bool loopback;
    uint64_t dropped;
    struct mmsghdr message[BATCH];
    struct iovec bytes[BATCH];
    uint64_t control[BATCH][CONTROL_BYTES / 8];
    uint8_t *frames; /* FRAME_BYTES each */
};

/* --- Which interface -------------------------------------------------------------------------- */

/* Finds the interface's index and kind: 0, or an exit code after a message. */
static int look(struct tap *t, const char *name)
{
    struct ifreq req = {0};
    int fd = t->fd;

    if (strlen(name) >= sizeof(req.ifr_name)) {
        say_error("-i %s: the name of an interface has at most %d letters", name, IFNAMSIZ - 1);
        return EXIT_USAGE;
    }
    memcpy(req.ifr_name, name, strlen(name) + 1);
    if (ioctl(fd, SIOCGIFINDEX, &req) != 0) {
        say_error("-i %s: there is no such interface in this network namespace; ip -brief link "
                  "lists them", name);
        return EXIT_FAILED;
    }
    t->index = req.ifr_ifindex;
    if (ioctl(fd, SIOCGIFFLAGS, &req) != 0 || !(req.ifr_flags & IFF_UP)) {
        say_error("-i %s: the interface is down, so no packet passes it: ip link set %s up", name,
                  name);
        return EXIT_FAILED;
    }
    t->loopback = req.ifr_flags & IFF_LOOPBACK;
    if (ioctl(fd, SIOCGIFHWADDR, &req) != 0)
        req.ifr_hwaddr.sa_family = ARPHRD_VOID;
    switch (req.ifr_hwaddr.sa_family) {
    case ARPHRD_ETHER:
    case ARPHRD_LOOPBACK:
        t->link = LINK_ETHER;
        return 0;
    case ARPHRD_WITHOUT:
    case ARPHRD_PPP:
    case ARPHRD_TUNNEL:
    case ARPHRD_TUNNEL6:
    case ARPHRD_SIT:
        t->link = LINK_NONE;
        return 0;
    default:
        say_error("-i %s: packets of this kind of interface (%u) cannot be read; Ethernet, "
                  "loopback and tunnels can", name, req.ifr_hwaddr.sa_family);
        return EXIT_FAILED;
    }
}

/* --- Opening ---------------------------------------------------------------------------------- */

static int refused(const char *what)
{
    say_error("cannot %s: %s", what, say_why(errno));
    return EXIT_FAILED;
}

/* FORCE goes beyond net.core.rmem_max, with CAP_NET_ADMIN. */
static void set_buffer(int fd, uint64_t bytes)
{
    int half = (int)(bytes / 2); /* the kernel doubles it, for the overhead of packets */

    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &half, sizeof(half)) != 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &half, sizeof(half));
}

static int listen_at(struct tap *t, const struct sniff_options *opt)
{
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    int on = 1, code = 0, filter;

    t->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (t->fd < 0 && (errno == EPERM || errno == EACCES)) {
        say_error("not permitted to read an interface's packets: sniffing needs root, or "
                  "CAP_NET_RAW and CAP_BPF");
        return EXIT_FAILED;
    }
    if (t->fd < 0)
        return refused("open a packet socket");
    code = look(t, opt->interface);
    if (code)
        return code;
    filter = filter_load((unsigned)opt->port, t->link, t->loopback, &code);
    if (filter < 0)
        return code;
    code = setsockopt(t->fd, SOL_SOCKET, SO_ATTACH_BPF, &filter, sizeof(filter));
    close(filter);
    if (code != 0)
        return refused("attach the filter to the socket");
    set_buffer(t->fd, opt->buffer);
    if (setsockopt(t->fd, SOL_PACKET, PACKET_AUXDATA, &on, sizeof(on)) != 0 ||
        setsockopt(t->fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)) != 0)
        return refused("ask for the packets' VLANs and times");
    at.sll_ifindex = t->index;
    return bind(t->fd, (struct sockaddr *)&at, sizeof(at)) == 0 ? 0 : refused("bind the socket");
}

int tap_open(struct tap **to, const struct sniff_options *opt)
{
    struct tap *t = calloc(1, sizeof(*t));

    *to = t;
    if (t)
        t->fd = -1;
    if (!t || !(t->frames = malloc((size_t)BATCH * FRAME_BYTES))) {
        say_error("out of memory");
        return EXIT_FAILED;
    }
    for (unsigned i = 0; i < BATCH; i++)
        t->bytes[i] = (struct iovec){t->frames + (size_t)i * FRAME_BYTES, FRAME_BYTES};
    return listen_at(t, opt);
}

/* --- Reading ---------------------------------------------------------------------------------- */

static void read_control(struct msghdr *m, struct frame *f)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        struct tpacket_auxdata aux;
        struct timespec time;

        if (c->cmsg_level == SOL_PACKET && c->cmsg_type == PACKET_AUXDATA) {
            memcpy(&aux, CMSG_DATA(c), sizeof(aux));
            f->wire = aux.tp_len;
            f->tag = aux.tp_status & TP_STATUS_VLAN_VALID ? aux.tp_vlan_tci : 0;
        } else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
            memcpy(&time, CMSG_DATA(c), sizeof(time));
            f->ns = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
        }
    }
}

int tap_read(struct tap *t, int wait_ms, void (*take)(void *, const struct frame *), void *arg)
{
    struct pollfd ready = {.fd = t->fd, .events = POLLIN};
    int n;

    for (unsigned i = 0; i < BATCH; i++)
        t->message[i].msg_hdr = (struct msghdr){
            .msg_iov = &t->bytes[i], .msg_iovlen = 1, .msg_control = t->control[i],
            .msg_controllen = sizeof(t->control[i])};
    n = recvmmsg(t->fd, t->message, BATCH, 0, NULL);
    if (n < 0 && errno == EAGAIN && wait_ms && poll(&ready, 1, wait_ms) > 0)
        n = recvmmsg(t->fd, t->message, BATCH, 0, NULL);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    for (int i = 0; i < n; i++) {
        struct frame f = {.bytes = t->bytes[i].iov_base, .n = t->message[i].msg_len,
                          .wire = t->message[i].msg_len, .link = t->link};

        read_control(&t->message[i].msg_hdr, &f);
        take(arg, &f);
    }
    return n;
}

uint64_t tap_dropped(struct tap *t)
{
    struct tpacket_stats stats = {0};
    socklen_t len = sizeof(stats);

    if (getsockopt(t->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len) == 0)
        t->dropped += stats.tp_drops; /* the kernel begins again at 0 */
    return t->dropped;
}

void tap_close(struct tap *t)
{
    if (!t)
        return;
    if (t->fd >= 0)
        close(t->fd);
    free(t->frames);
    free(t);
}
