/* SPDX-License-Identifier: MIT */
/* handover_take.c - the next server: receives the listeners of the one before, and takes those that
 * its own options ask for.
 *
 * Listeners are found by their addresses, so the options decide what is served: a new address is
 * opened, and one that is not asked for any more is closed.  Received descriptors are checked: each
 * must be a listener.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include "handover.h"

enum {
    ANSWER_S = 10, /* a server that does not send its listeners in this time is not one */
    TRIES = 3      /* a server that stopped just now is asked again, and then it is not there */
};

unsigned handover_sets(const struct server *srv)
{
    return srv->arrangement.reuseport ? srv->arrangement.workers : 1;
}

bool handover_trusts(int fd, pid_t *pid)
{
    struct ucred peer = {0};
    socklen_t len = sizeof(peer);
    bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0;

    if (pid)
        *pid = peer.pid;
    return known && (peer.uid == 0 || peer.uid == geteuid());
}

/* --- Receiving -------------------------------------------------------------------------------- */

static int is_listener(int fd)
{
    int type = 0, listens = 0;
    socklen_t len = sizeof(int);

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_STREAM)
        return false;
    len = sizeof(int);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 && listens;
}

static bool makes_sense(const struct parcel *p, const struct parcel *first, unsigned had)
{
    return memcmp(p->magic, HANDOVER_MAGIC, sizeof(p->magic)) == 0 && p->all > 0 &&
           p->all <= FDS_MAX && p->metrics <= 1 && p->metrics < p->all && p->here > 0 &&
           p->here <= FDS_EACH && had + p->here <= p->all && (!had || p->all == first->all);
}

/* Adds descriptors to those of h.  -ECONNRESET: the other end has gone. */
static int receive(struct handover *h, struct parcel *first)
{
    union handover_fds control;
    struct parcel p;
    struct iovec iov = {.iov_base = &p, .iov_len = sizeof(p)};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};
    ssize_t n = recvmsg(h->before, &m, MSG_CMSG_CLOEXEC | MSG_WAITALL);
    struct cmsghdr *c = n == sizeof(p) ? CMSG_FIRSTHDR(&m) : NULL;
    unsigned had = h->taken;

    if (n <= 0)
        return n < 0 ? -errno : -ECONNRESET;
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
        !makes_sense(&p, first, had) || c->cmsg_len != CMSG_LEN(p.here * sizeof(int)))
        return -EPROTO;
    memcpy(h->fd + had, CMSG_DATA(c), p.here * sizeof(int));
    h->taken += p.here;
    for (unsigned i = had; i < h->taken; i++)
        if (!is_listener(h->fd[i]))
            return -ENOTSOCK;
    *first = p;
    return 0;
}

/* Connects to the server that has the socket.  -ENOENT: there is none. */
static int find_before(const struct net_address *a)
{
    const struct timeval patience = {.tv_sec = ANSWER_S};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), err;

    if (fd < 0)
        return -errno;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) == 0 &&
        connect(fd, (const struct sockaddr *)&a->sa, a->len) == 0)
        return fd;
    err = errno == ECONNREFUSED ? -ENOENT : -errno;
    close(fd);
    return err;
}

static int say_refusal(const char *why)
{
    say_error("cannot take the listeners over: %s; the server that has them goes on", why);
    return EXIT_LISTEN;
}

/* One attempt.  -ENOENT: there is no server. */
static int ask(struct handover *h, const struct net_address *a, struct parcel *p)
{
    int err = 0;

    h->before = find_before(a);
    if (h->before < 0)
        return h->before;
    if (!handover_trusts(h->before, NULL))
        return -EPERM;
    do
        err = receive(h, p);
    while (!err && h->taken < p->all);
    if (err == -ECONNRESET && !h->taken) {
        close(h->before);
        h->before = -1;
    }
    return err;
}

static const char *why_not(int err)
{
    if (err == -EAGAIN)
        return "it does not answer";
    if (err == -EPERM)
        return "it belongs to another user";
    return say_why(err);
}

int handover_take(struct handover *h, const struct net_address *a)
{
    struct parcel p = {.all = 1};
    int err = -ECONNRESET;

    for (unsigned i = 0; i < TRIES && err == -ECONNRESET; i++)
        err = ask(h, a, &p);
    if (err == -ENOENT)
        return EXIT_DONE;
    if (err)
        return say_refusal(why_not(err));
    if (p.sets != handover_sets(h->srv))
        return say_refusal("--accept gives each worker a listener, so both servers need the same "
                           "--accept and --workers");
    h->control = h->fd[0];
    h->used[0] = true;
    h->taken_served = h->taken - p.metrics;
    atomic_store(&h->srv->handed, true); /* until we serve */
    return EXIT_DONE;
}

/* --- Finding ---------------------------------------------------------------------------------- */

/* Port 0 of a is any. */
static bool is_at(int fd, const struct net_address *a)
{
    struct net_address b = {.len = sizeof(b.sa) - 1};
    const struct sockaddr_in *in = (const void *)&a->sa;
    const struct sockaddr_in6 *in6 = (const void *)&a->sa;
    const struct sockaddr_un *un = (const void *)&a->sa;

    if (getsockname(fd, (struct sockaddr *)&b.sa, &b.len) < 0 || b.sa.ss_family != a->sa.ss_family)
        return false;
    if (a->sa.ss_family == AF_UNIX)
        return strncmp(un->sun_path, ((struct sockaddr_un *)&b.sa)->sun_path,
                       sizeof(un->sun_path)) == 0;
    if (a->sa.ss_family == AF_INET) {
        const struct sockaddr_in *his = (const void *)&b.sa;

        return his->sin_addr.s_addr == in->sin_addr.s_addr &&
               (!in->sin_port || his->sin_port == in->sin_port);
    }
    return IN6_ARE_ADDR_EQUAL(&((struct sockaddr_in6 *)&b.sa)->sin6_addr, &in6->sin6_addr) &&
           ((struct sockaddr_in6 *)&b.sa)->sin6_scope_id == in6->sin6_scope_id &&
           (!in6->sin6_port || ((struct sockaddr_in6 *)&b.sa)->sin6_port == in6->sin6_port);
}

int handover_find(struct handover *h, enum handover_kind kind, const struct net_address *a,
                  const struct net_listening *how)
{
    unsigned from = h && kind == HANDOVER_METRICS ? h->taken_served : 1;
    unsigned end = !h ? 0 : kind == HANDOVER_METRICS ? h->taken : h->taken_served;

    for (unsigned i = from; i < end; i++) {
        if (h->used[i] || h->fd[i] < 0 || !is_at(h->fd[i], a))
            continue;
        if (listen(h->fd[i], how->backlog) < 0)
            return -errno;
        h->used[i] = true;
        return net_listener_set(h->fd[i], how) < 0 ? -errno : h->fd[i];
    }
    return -ENOENT;
}

bool handover_put_back(struct handover *h, int fd)
{
    for (unsigned i = 1; h && fd >= 0 && i < h->taken; i++)
        if (h->fd[i] == fd) {
            h->used[i] = false;
            return true;
        }
    return false;
}

void handover_rest(struct handover *h)
{
    for (unsigned i = 1; h && i < h->taken; i++)
        if (!h->used[i]) {
            close(h->fd[i]);
            h->fd[i] = -1;
        }
}

int handover_control(const struct handover *h)
{
    return h ? h->control : -1;
}
