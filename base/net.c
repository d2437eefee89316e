/* SPDX-License-Identifier: MIT */
/* net.c - sockets as plain calls: 0, a count or a descriptor, otherwise -errno.
 *
 * Owns nothing: descriptors are passed as numbers.  Options that connections inherit are set once,
 * on the listener.  One decision is made here, which errors the caller sees: a peer that died in
 * the accept queue is skipped, a shortage of descriptors is reported.  send.c sends answers.
 */
#include "net.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h> /* not <netinet/tcp.h>: its struct tcp_info ends before bytes_acked */
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "congestion.h"

/* Dead peers that one net_accept() skips: it must return some day. */
enum { ACCEPT_SKIPS_MAX = 16 };

/* net_written(): looks until two in a row agree.  And a state of struct tcp_info, which is in a
 * header that does not go together with the one that has all its fields. */
enum { LOOKS = 4, STATE_CLOSE = 7 };

/* A socket whose process is dead may answer for a second: that many tries, that far apart. */
enum { DYING_TIMES = 10, DYING_NS = 100000000 };

/* --- Addresses -------------------------------------------------------------------------------- */

static int unix_parse(struct net_address *a, const char *path)
{
    struct sockaddr_un *un = (struct sockaddr_un *)&a->sa;
    size_t n = strlen(path);

    if (n == 0 || n >= sizeof(un->sun_path))
        return -EINVAL;
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, path, n + 1);
    a->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
    return 0;
}

static int ipv6_parse(struct net_address *a, const char *text, uint16_t port)
{
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&a->sa;
    char bare[INET6_ADDRSTRLEN];
    size_t n = strlen(text);

    if (n >= 2 && text[0] == '[' && text[n - 1] == ']') {
        text++;
        n -= 2;
    }
    if (n >= sizeof(bare))
        return -EINVAL;
    memcpy(bare, text, n);
    bare[n] = '\0';
    if (inet_pton(AF_INET6, bare, &in6->sin6_addr) != 1)
        return -EINVAL;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    a->len = sizeof(*in6);
    return 0;
}

int net_address_parse(struct net_address *a, const char *text, uint16_t port)
{
    struct sockaddr_in *in = (struct sockaddr_in *)&a->sa;

    memset(a, 0, sizeof(*a));
    if (strncmp(text, "unix:", 5) == 0)
        return unix_parse(a, text + 5);
    if (strcmp(text, "localhost") == 0)
        text = "127.0.0.1";
    if (strcmp(text, "*") == 0)
        text = "0.0.0.0";
    if (inet_pton(AF_INET, text, &in->sin_addr) != 1)
        return ipv6_parse(a, text, port);
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    a->len = sizeof(*in);
    return 0;
}

/* The address alone: no port. */
static void host_text(const struct sockaddr_storage *sa, char text[NET_ADDRESS_TEXT])
{
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)sa;
    const struct sockaddr_in *in = (const struct sockaddr_in *)sa;

    text[0] = '\0';
    if (sa->ss_family == AF_INET)
        inet_ntop(AF_INET, &in->sin_addr, text, NET_ADDRESS_TEXT);
    else if (sa->ss_family == AF_INET6)
        inet_ntop(AF_INET6, &in6->sin6_addr, text, NET_ADDRESS_TEXT);
    else if (sa->ss_family == AF_UNIX)
        memcpy(text, "unix", 5);
}

void net_address_text(const struct net_address *a, char text[NET_ADDRESS_TEXT])
{
    char host[NET_ADDRESS_TEXT];

    host_text(&a->sa, host);
    if (a->sa.ss_family == AF_INET)
        snprintf(text, NET_ADDRESS_TEXT, "%.64s:%u", host,
                 ntohs(((const struct sockaddr_in *)&a->sa)->sin_port));
    else if (a->sa.ss_family == AF_INET6)
        snprintf(text, NET_ADDRESS_TEXT, "[%.64s]:%u", host,
                 ntohs(((const struct sockaddr_in6 *)&a->sa)->sin6_port));
    else
        snprintf(text, NET_ADDRESS_TEXT, "unix:%.108s",
                 ((const struct sockaddr_un *)&a->sa)->sun_path);
}

int net_port(int fd)
{
    struct net_address a;

    a.len = sizeof(a.sa);
    if (getsockname(fd, (struct sockaddr *)&a.sa, &a.len) < 0)
        return -errno;
    if (a.sa.ss_family == AF_INET)
        return ntohs(((struct sockaddr_in *)&a.sa)->sin_port);
    if (a.sa.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&a.sa)->sin6_port);
    return -EAFNOSUPPORT;
}

int net_peer(int fd, char text[NET_ADDRESS_TEXT])
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);

    text[0] = '\0';
    if (getpeername(fd, (struct sockaddr *)&sa, &len) < 0)
        return -errno;
    host_text(&sa, text);
    return 0;
}

/* --- Listening -------------------------------------------------------------------------------- */

static bool is_refused(const struct net_address *a)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool refused;

    if (fd < 0)
        return false;
    refused = connect(fd, (const struct sockaddr *)&a->sa, a->len) < 0 && errno == ECONNREFUSED;
    close(fd);
    return refused;
}

/* A socket file without a listener is left over from a server that died: only such a file is
 * removed.  A listener that io_uring holds outlives its killed process for a moment, therefore
 * several tries. */
static bool stale_removed(const struct net_address *a, unsigned times)
{
    static const struct timespec moment = {.tv_nsec = DYING_NS};
    const char *path = ((const struct sockaddr_un *)&a->sa)->sun_path;
    struct stat st;

    if (a->sa.ss_family != AF_UNIX || lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
        return false;
    while (!is_refused(a)) {
        if (--times == 0)
            return false;
        nanosleep(&moment, NULL);
    }
    return unlink(path) == 0;
}

/* Whether fd is a unix socket with a name in the file system; a becomes that name. */
static bool unix_name(int fd, struct net_address *a)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)&a->sa;

    *a = (struct net_address){.len = sizeof(a->sa) - 1}; /* leaves a NUL at the end */
    return getsockname(fd, (struct sockaddr *)&a->sa, &a->len) == 0 &&
           a->sa.ss_family == AF_UNIX && un->sun_path[0];
}

void net_unlisten(int fd)
{
    struct net_address a;
    bool named;

    if (fd < 0)
        return;
    named = unix_name(fd, &a);
    close(fd);
    if (named)
        (void)stale_removed(&a, 1); /* if another server has the name by now, it answers */
}

int net_close_keep(int fd, int inert)
{
    int err;

    do
        err = dup3(inert, fd, O_CLOEXEC) < 0 ? -errno : 0;
    while (err == -EINTR);
    return err;
}

int net_unlisten_keep(int fd, int inert)
{
    struct net_address a;
    bool named = unix_name(fd, &a);
    int err = net_close_keep(fd, inert);

    if (!err && named)
        (void)stale_removed(&a, 1);
    return err;
}

static int set(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof(value)) < 0 ? -errno : 0;
}

/* What the connections of a TCP listener inherit from it. */
static int tcp_options(int fd, const struct net_listening *how)
{
    int err = how->delay ? 0 : set(fd, IPPROTO_TCP, TCP_NODELAY, 1);

    if (!err && how->defer_s)
        err = set(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, (int)how->defer_s);
    if (!err && how->stall_ms)
        err = set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)how->stall_ms);
    if (!err && how->congestion)
        err = congestion_set(fd, how->congestion);
    return err;
}

int net_listener_set(int fd, const struct net_listening *how)
{
    struct net_address a = {.len = sizeof(a.sa)};

    if (getsockname(fd, (struct sockaddr *)&a.sa, &a.len) < 0)
        return -errno;
    return a.sa.ss_family == AF_UNIX ? 0 : tcp_options(fd, how);
}

static int listener_options(int fd, int family, const struct net_listening *how)
{
    int err;

    if (family == AF_UNIX)
        return 0; /* unix sockets are shared by their name alone */
    err = set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (!err && how->reuseport)
        err = set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    if (!err)
        err = tcp_options(fd, how);
    if (!err && family == AF_INET6)
        err = set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    return err;
}

/* The name of a unix socket has its permissions from the first moment: a client that connects
 * before a chmod() would stay connected. */
static int bind_to(int fd, const struct net_address *a, const struct net_listening *how)
{
    bool masked = a->sa.ss_family == AF_UNIX && how->mode;
    mode_t before = masked ? umask(0777 & ~how->mode) : 0;
    int err = bind(fd, (const struct sockaddr *)&a->sa, a->len) < 0 ? -errno : 0;

    if (masked)
        umask(before);
    return err;
}

int net_listen(const struct net_address *a, const struct net_listening *how)
{
    int fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int err;

    if (fd < 0)
        return -errno;
    err = listener_options(fd, a->sa.ss_family, how);
    if (!err)
        err = bind_to(fd, a, how);
    if (err == -EADDRINUSE && stale_removed(a, DYING_TIMES))
        err = bind_to(fd, a, how);
    if (!err && listen(fd, how->backlog) < 0)
        err = -errno;
    if (err) {
        close(fd);
        return err;
    }
    return fd;
}

/* accept(2): errors of the new connection are reported by the listener and must be treated like
 * EAGAIN.  They say that this peer has gone, not that the queue is empty. */
bool net_peer_died(int err)
{
    static const int dead[] = {ECONNABORTED, ENETDOWN,     EPROTO,     ENOPROTOOPT,
                               EHOSTDOWN,    ENONET,       EHOSTUNREACH, EOPNOTSUPP,
                               ENETUNREACH,  EPERM,        ETIMEDOUT,  ECONNRESET};

    for (size_t i = 0; i < sizeof(dead) / sizeof(dead[0]); i++)
        if (err == dead[i])
            return true;
    return false;
}

int net_accept(int listener, bool blocking)
{
    int flags = SOCK_CLOEXEC | (blocking ? 0 : SOCK_NONBLOCK);

    for (int skips = 0; skips < ACCEPT_SKIPS_MAX;) {
        int fd = accept4(listener, NULL, NULL, flags);

        if (fd >= 0)
            return fd;
        if (errno == EINTR)
            continue;
        if (!net_peer_died(errno))
            return -errno;
        skips++;
    }
    return -EAGAIN;
}

/* --- Transfers -------------------------------------------------------------------------------- */

long net_recv(int fd, char *buf, size_t cap)
{
    ssize_t n;

    do
        n = recv(fd, buf, cap, 0);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

long net_recv_now(int fd, char *buf, size_t cap)
{
    ssize_t n;

    do
        n = recv(fd, buf, cap, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

long net_send_now(int fd, const char *bytes, size_t n)
{
    ssize_t sent = send(fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);

    return sent < 0 ? -errno : sent;
}

void net_keep_near(int fd, int bytes)
{
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes));
}

void net_end(int fd)
{
    (void)shutdown(fd, SHUT_RDWR);
}

void net_cut(int fd)
{
    const struct linger at_once = {.l_onoff = 1};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

void net_shut(int fd)
{
    (void)shutdown(fd, SHUT_WR); /* the peer may have gone: the next receive says so */
}

void net_cork(int fd, bool on)
{
    (void)set(fd, IPPROTO_TCP, TCP_CORK, on); /* without it the answer goes in more packets */
}

void net_may_block(int fd, bool on)
{
    (void)fcntl(fd, F_SETFL, on ? 0 : O_NONBLOCK); /* sockets have no other flags of ours */
}

bool net_gone(int fd)
{
    struct pollfd p = {.fd = fd};

    return poll(&p, 1, 0) > 0;
}

long net_unread(int fd)
{
    int n = 0;

    return ioctl(fd, SIOCINQ, &n) < 0 ? -errno : n;
}

static int tcp_info(int fd, struct tcp_info *info, size_t least)
{
    socklen_t len = sizeof(*info);

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &len) < 0)
        return -errno;
    return len >= least ? 0 : -EOPNOTSUPP;
}

long net_silent_ms(int fd)
{
    struct tcp_info info;
    int err = tcp_info(fd, &info, offsetof(struct tcp_info, tcpi_last_ack_recv));

    return err ? err : (long)info.tcpi_last_data_recv;
}

/* For a listener the kernel reports the length of its queue in the field that otherwise counts
 * unacknowledged packets. */
long net_queued(int listener)
{
    struct tcp_info info;
    int err = tcp_info(listener, &info, offsetof(struct tcp_info, tcpi_sacked));

    return err ? err : (long)info.tcpi_unacked;
}

/* The bytes that the kernel says the peer acknowledged, including those of a send that is still
 * under way: a blocked thread cannot tell how far it has come.  If the kernel does not say (unix
 * sockets), the bytes sent less those still queued. */
uint64_t net_acked(int fd, uint64_t sent)
{
    struct tcp_info info;
    int queued = 0;

    if (!tcp_info(fd, &info, offsetof(struct tcp_info, tcpi_bytes_received)))
        return info.tcpi_bytes_acked;
    if (ioctl(fd, SIOCOUTQ, &queued) < 0 || queued < 0 || (uint64_t)queued > sent)
        return sent;
    return sent - (uint64_t)queued;
}

/* Acknowledged, and those that are not: two questions, between which a packet may come. */
int64_t net_written(int fd)
{
    struct tcp_info info, again;
    const size_t least = offsetof(struct tcp_info, tcpi_bytes_received);
    int queued = 0, err = tcp_info(fd, &info, least);

    for (unsigned looks = 0; !err && looks < LOOKS; looks++) {
        if (ioctl(fd, SIOCOUTQ, &queued) < 0)
            return -errno;
        err = tcp_info(fd, &again, least);
        if (!err && again.tcpi_state == STATE_CLOSE)
            return -ENOTCONN;
        if (!err && again.tcpi_bytes_acked == info.tcpi_bytes_acked)
            return (int64_t)info.tcpi_bytes_acked + queued;
        info = again;
    }
    return err ? err : -EAGAIN;
}
