/* SPDX-License-Identifier: MIT */
/* diag.c - TCP sockets by the kernel's sock_diag, as ss does: listing them, and dropping one.
 *
 * Dropping by addresses and ports alone would be careless: if the connection has ended since it was
 * listed, the kernel's search goes on to a socket that listens at that port, and SOCK_DESTROY ends
 * the listener.  With the cookie of the listing the kernel finds that socket or none.  libmnl takes
 * care of the details of netlink that are easy to get wrong: alignment, sequence numbers, the
 * origin of a message.
 */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <stdlib.h>
#include <string.h>
#include "drop.h"

enum { DIAG_BYTES = 32768 /* a part of a listing; the kernel fills up to as much */ };

struct diag {
    struct mnl_socket *wire;
    unsigned seq;
    char buf[DIAG_BYTES];
};

struct listing {
    struct filter *filter;
    struct haul *haul;
};

int diag_open(struct diag **out)
{
    struct diag *diag = calloc(1, sizeof(*diag));
    int err = -ENOMEM;

    if (!diag)
        return err;
    diag->wire = mnl_socket_open2(NETLINK_SOCK_DIAG, SOCK_CLOEXEC);
    if (diag->wire && mnl_socket_bind(diag->wire, 0, MNL_SOCKET_AUTOPID) == 0) {
        *out = diag;
        return 0;
    }
    err = -errno;
    diag_close(diag);
    return err;
}

void diag_close(struct diag *diag)
{
    if (diag && diag->wire)
        mnl_socket_close(diag->wire);
    free(diag);
}

/* An acknowledgement, or the end of a listing: both begin with 0 or -errno.  libmnl would not look
 * into the end of a listing, where a kernel without tcp_diag reports its error. */
static int ended(const struct nlmsghdr *msg, void *ctx)
{
    const int *error = mnl_nlmsg_get_payload(msg);

    (void)ctx;
    if (mnl_nlmsg_get_payload_len(msg) < sizeof(*error) || !*error)
        return MNL_CB_STOP;
    errno = -*error;
    return MNL_CB_ERROR;
}

/* Sends the message in the buffer and reads the answer to its end: 0 or -errno. */
static int converse(struct diag *diag, struct nlmsghdr *msg, mnl_cb_t each, void *ctx)
{
    mnl_cb_t control[] = {[NLMSG_ERROR] = ended, [NLMSG_DONE] = ended};
    unsigned port = mnl_socket_get_portid(diag->wire);
    ssize_t n;
    int more;

    msg->nlmsg_seq = ++diag->seq;
    if (mnl_socket_sendto(diag->wire, msg, msg->nlmsg_len) < 0)
        return -errno;
    do {
        n = mnl_socket_recvfrom(diag->wire, diag->buf, sizeof(diag->buf));
        if (n < 0)
            return -errno;
        more = mnl_cb_run2(diag->buf, (size_t)n, diag->seq, port, each, ctx, control,
                           sizeof(control) / sizeof(control[0]));
    } while (more > MNL_CB_STOP);
    return more < 0 ? -errno : 0;
}

static struct nlmsghdr *request(struct diag *diag, uint16_t type, uint16_t flags,
                                const struct inet_diag_req_v2 *body)
{
    struct nlmsghdr *msg = mnl_nlmsg_put_header(diag->buf);

    msg->nlmsg_type = type;
    msg->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
    memcpy(mnl_nlmsg_put_extra_header(msg, sizeof(*body)), body, sizeof(*body));
    return msg;
}

/* --- Listing ---------------------------------------------------------------------------------- */

static void take_address(struct in6_addr *addr, uint8_t family, const __be32 *from)
{
    memset(addr, 0, sizeof(*addr));
    if (family == AF_INET6) {
        memcpy(addr, from, sizeof(*addr));
        return;
    }
    addr->s6_addr[10] = addr->s6_addr[11] = 0xff;
    memcpy(addr->s6_addr + 12, from, sizeof(*from));
}

static int keep(struct haul *haul, const struct entry *entry)
{
    if (haul->count == haul->most) {
        haul->too_many = true;
        errno = E2BIG;
        return MNL_CB_ERROR;
    }
    if (haul->count == haul->room) {
        size_t room = haul->room ? 2 * haul->room : 64;
        struct entry *larger = reallocarray(haul->entry, room, sizeof(*larger));

        if (!larger)
            return MNL_CB_ERROR;
        haul->entry = larger;
        haul->room = room;
    }
    haul->entry[haul->count++] = *entry;
    return MNL_CB_OK;
}

static int take(const struct nlmsghdr *msg, void *ctx)
{
    const struct inet_diag_msg *m = mnl_nlmsg_get_payload(msg);
    const struct listing *listing = ctx;
    struct entry entry;

    if (mnl_nlmsg_get_payload_len(msg) < sizeof(*m))
        return MNL_CB_OK;
    entry = (struct entry){.id = m->id, .family = m->idiag_family, .state = m->idiag_state,
                           .uid = m->idiag_uid, .inode = m->idiag_inode};
    take_address(&entry.pair.local.addr, m->idiag_family, m->id.idiag_src);
    take_address(&entry.pair.peer.addr, m->idiag_family, m->id.idiag_dst);
    entry.pair.local.port = ntohs(m->id.idiag_sport);
    entry.pair.peer.port = ntohs(m->id.idiag_dport);
    entry.pair.device = m->id.idiag_if;
    switch (filter_judge(listing->filter, &entry)) {
    case VERDICT_WANTED:
        return keep(listing->haul, &entry);
    case VERDICT_LISTENS:
        listing->haul->listens++;
        break;
    case VERDICT_FOREIGN:
        listing->haul->foreign++;
        break;
    case VERDICT_OTHER:
        break;
    }
    return MNL_CB_OK;
}

int diag_list(struct diag *diag, struct filter *f, struct haul *haul)
{
    static const uint8_t families[] = {AF_INET, AF_INET6};
    struct listing listing = {f, haul};
    int err = 0;

    for (unsigned i = 0; i < 2 && !err; i++) {
        struct inet_diag_req_v2 ask = {.sdiag_family = families[i], .sdiag_protocol = IPPROTO_TCP,
                                       .idiag_states = f->states};

        err = converse(diag, request(diag, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &ask), take, &listing);
    }
    return err;
}

/* --- Dropping --------------------------------------------------------------------------------- */

int diag_drop(struct diag *diag, const struct entry *entry)
{
    struct inet_diag_req_v2 ask = {.sdiag_family = entry->family, .sdiag_protocol = IPPROTO_TCP,
                                   .idiag_states = 1u << entry->state, .id = entry->id};

    return converse(diag, request(diag, SOCK_DESTROY, NLM_F_ACK, &ask), NULL, NULL);
}
