/* SPDX-License-Identifier: MIT */
/* seeds_calls.h - the system calls that the linker sends here (seeds.ldflags): those about virtual
 * descriptors and time are answered by the simulated network, all others by the kernel.
 *
 * Each does what Linux does, as far as an engine can tell; where Linux is free to choose, the run's
 * seed chooses.  Included by one source file: it defines functions.
 */
#ifndef TESTS_SEEDS_CALLS_H
#define TESTS_SEEDS_CALLS_H
#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include "seeds_helper.h"

static inline int sim_fail(int err)
{
    errno = err;
    return -1;
}

static inline struct peer *sim_peer_of(int fd)
{
    struct thing *t = sim_thing(fd);

    if (t->kind != KIND_SOCKET)
        sim_broken("a transfer on what is no connection");
    sim.calls++;
    sim_spend(sim_random(4));
    return t->peer;
}

/* A short transfer now and then, or always. */
static inline size_t sim_part(size_t n)
{
    return n > 1 && sim_chance(sim.short_in) ? 1 + sim_random(n - 1) : n;
}

/* --- Connections ------------------------------------------------------------------------------ */

int __real_accept4(int fd, struct sockaddr *sa, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *sa, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *sa, socklen_t *len, int flags)
{
    struct peer *p = NULL;

    if (!sim_has(fd))
        return __real_accept4(fd, sa, len, flags);
    if (sim_thing(fd)->kind != KIND_LISTENER || !(flags & SOCK_NONBLOCK))
        sim_broken("accept on what is no listener, or of a blocking connection");
    sim_spend(sim_random(4));
    if (sim_chance(40))
        return sim_fail(sim_chance(2) ? EINTR : ECONNABORTED);
    for (unsigned i = 0; i < sim.peers && !p; i++)
        if (sim.peer[i].queued)
            p = &sim.peer[i];
    if (!p)
        return sim_fail(EAGAIN);
    fd = sim_open(KIND_SOCKET);
    if (fd < 0)
        return -1;
    sim.thing[fd - FD_FIRST].peer = p;
    p->queued = false;
    p->fd = fd;
    sim.progress++;
    return fd;
}

ssize_t __real_recv(int fd, void *buf, size_t n, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t n, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t n, int flags)
{
    struct peer *p;
    size_t there;

    if (!sim_has(fd))
        return __real_recv(fd, buf, n, flags);
    p = sim_peer_of(fd);
    if (sim_chance(60))
        return sim_fail(EINTR);
    there = p->arrived - p->consumed;
    if (there) {
        n = sim_part(n < there ? n : there);
        memcpy(buf, p->script->in.bytes + p->consumed, n);
        p->consumed += n;
        sim.progress++;
        return (ssize_t)n;
    }
    if (!p->err && !p->rst && !p->fin)
        return sim_fail(EAGAIN);
    sim.progress += !p->eof_told;
    p->eof_told = true;
    if (p->err) {
        errno = p->err;
        p->err = 0;
        return -1;
    }
    return 0;
}

/* How many of n bytes fit; 0: errno says why none do. */
static inline size_t sim_fits(struct peer *p, size_t n)
{
    size_t room = peer_room(p);

    if (p->err || p->rst || p->shut) {
        errno = p->err ? p->err : EPIPE;
        p->err = 0;
        sim.progress++;
        return 0;
    }
    if (room < n)
        p->no_space = true;
    if (!room) {
        errno = EAGAIN;
        return 0;
    }
    return sim_part(n < room ? n : room);
}

/* Bytes leave; the self-check flips a bit in one of them that will be read. */
static inline void sim_sent(struct peer *p, const char *bytes, size_t n)
{
    text_add(&p->out, bytes, n);
    if (sim.flip && p->script->stall_at == SIZE_MAX && p->script->manner != MANNER_RESET &&
        !--sim.flip)
        p->out.bytes[p->out.len - 1] ^= 1;
    sim.progress++;
    peer_hears(p);
}

ssize_t __real_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    size_t n = 0, left;
    struct peer *p;

    if (!sim_has(fd))
        return __real_sendmsg(fd, msg, flags);
    if (!(flags & MSG_NOSIGNAL))
        sim_broken("a send that may raise SIGPIPE");
    p = sim_peer_of(fd);
    if (sim_chance(60))
        return sim_fail(EINTR);
    for (size_t i = 0; i < msg->msg_iovlen; i++)
        n += msg->msg_iov[i].iov_len;
    n = sim_fits(p, n);
    if (!n)
        return -1;
    left = n;
    for (size_t i = 0; left; i++) {
        size_t part = msg->msg_iov[i].iov_len < left ? msg->msg_iov[i].iov_len : left;

        if (part)
            sim_sent(p, msg->msg_iov[i].iov_base, part);
        left -= part;
    }
    return (ssize_t)n;
}

/* send() sends one piece; to the tests it is the same as sendmsg(). */
ssize_t __wrap_send(int fd, const void *bytes, size_t n, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t n, int flags)
{
    struct iovec one = {(void *)(uintptr_t)bytes, n};
    const struct msghdr msg = {.msg_iov = &one, .msg_iovlen = 1};

    return __wrap_sendmsg(fd, &msg, flags);
}

ssize_t __real_sendfile64(int to, int from, off_t *off, size_t n);
ssize_t __wrap_sendfile64(int to, int from, off_t *off, size_t n);
ssize_t __wrap_sendfile64(int to, int from, off_t *off, size_t n)
{
    static char part[65536];
    struct peer *p;
    ssize_t got;

    if (!sim_has(to))
        return __real_sendfile64(to, from, off, n);
    p = sim_peer_of(to);
    n = sim_fits(p, n < sizeof(part) ? n : sizeof(part));
    if (!n)
        return -1;
    got = pread(from, part, n, *off);
    if (got <= 0)
        return got;
    *off += got;
    sim_sent(p, part, (size_t)got);
    return got;
}

int __real_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how)
{
    struct peer *p;

    if (!sim_has(fd))
        return __real_shutdown(fd, how);
    p = sim_peer_of(fd);
    if (how != SHUT_WR)
        sim_broken("a loop ends no more than its own sending");
    if (p->rst)
        return sim_fail(ENOTCONN);
    p->shut = true;
    sim.progress++;
    sim_ring(fd, EPOLLOUT | (p->fin ? EPOLLHUP : 0));
    peer_hears(p);
    return 0;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    struct thing *t;

    if (!sim_has(fd))
        return __real_close(fd);
    t = sim_thing(fd);
    if (t->kind == KIND_SOCKET)
        peer_closed(t->peer);
    *t = (struct thing){.kind = KIND_NONE};
    sim.progress++;
    return 0;
}

int __real_ioctl(int fd, unsigned long what, ...);
int __wrap_ioctl(int fd, unsigned long what, ...);
int __wrap_ioctl(int fd, unsigned long what, ...)
{
    struct peer *p;
    va_list ap;
    void *arg;

    va_start(ap, what);
    arg = va_arg(ap, void *);
    va_end(ap);
    if (!sim_has(fd))
        return __real_ioctl(fd, what, arg);
    p = sim_peer_of(fd);
    if (what != SIOCINQ)
        sim_broken("an ioctl that is not known here");
    *(int *)arg = (int)(p->arrived - p->consumed);
    return 0;
}

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    struct tcp_info info = {0};

    if (!sim_has(fd))
        return __real_getsockopt(fd, level, name, value, len);
    if (level != IPPROTO_TCP || name != TCP_INFO)
        sim_broken("a socket option that is not known here");
    info.tcpi_bytes_acked = sim_peer_of(fd)->taken;
    *len = *len < sizeof(info) ? *len : (socklen_t)sizeof(info);
    memcpy(value, &info, *len);
    return 0;
}

/* Either a listener refuses new handshakes (a client that has not connected yet may still do so
 * here), or a connection will be reset when it is closed. */
int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    if (!sim_has(fd))
        return __real_setsockopt(fd, level, name, value, len);
    if (sim_thing(fd)->kind == KIND_SOCKET && name == SO_LINGER)
        sim_peer_of(fd)->abrupt = ((const struct linger *)value)->l_onoff;
    else if (sim_thing(fd)->kind != KIND_LISTENER || name != SO_ATTACH_FILTER)
        sim_broken("a socket option that is not set here");
    return 0;
}

/* A listener's number becomes a copy of a descriptor that is readable once the server stops. */
int __real_dup3(int from, int to, int flags);
int __wrap_dup3(int from, int to, int flags);
int __wrap_dup3(int from, int to, int flags)
{
    struct thing *t;

    if (!sim_has(from) || !sim_has(to))
        return __real_dup3(from, to, flags);
    t = sim_thing(to);
    if (t->kind != KIND_LISTENER || t->in_set || sim_thing(from)->kind != KIND_EVENT)
        sim_broken("a listener is closed that is still waited for");
    for (unsigned i = 0; i < sim.peers; i++)
        if (sim.peer[i].queued)
            sim_broken("a listener is closed while a connection is in its queue");
    *t = (struct thing){.kind = KIND_EVENT, .count = sim_thing(from)->count};
    sim.progress++;
    return to;
}

/* --- Wake-ups --------------------------------------------------------------------------------- */

int __real_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags)
{
    return sim.on ? sim_open(KIND_EVENT) : __real_eventfd(count, flags);
}

/* The helper writes while the simulation waits for it. */
ssize_t __real_write(int fd, const void *buf, size_t n);
ssize_t __wrap_write(int fd, const void *buf, size_t n);
ssize_t __wrap_write(int fd, const void *buf, size_t n)
{
    if (!sim_has(fd))
        return __real_write(fd, buf, n);
    if (sim_thing(fd)->kind != KIND_EVENT || n != sizeof(uint64_t))
        sim_broken("a write to what is no counter");
    sim_thing(fd)->count++;
    sim_ring(fd, EPOLLIN);
    return (ssize_t)n;
}

ssize_t __real_read(int fd, void *buf, size_t n);
ssize_t __wrap_read(int fd, void *buf, size_t n);
ssize_t __wrap_read(int fd, void *buf, size_t n)
{
    struct thing *t;

    if (!sim_has(fd))
        return __real_read(fd, buf, n);
    t = sim_thing(fd);
    if (t->kind != KIND_EVENT || n != sizeof(t->count))
        sim_broken("a read from what is no counter");
    if (!t->count)
        return sim_fail(EAGAIN);
    memcpy(buf, &t->count, n);
    t->count = 0;
    sim.progress++;
    return (ssize_t)n;
}

/* --- Time ------------------------------------------------------------------------------------- */

/* The date does not change, so answers of different runs can be compared.  Coarse clocks lag by up
 * to a tick. */
int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
    uint64_t us = sim.now_us;

    if (!sim.on)
        return __real_clock_gettime(clock, ts);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
        *ts = (struct timespec){.tv_sec = 4102444800}; /* the files are old, so their tags stay */
        return 0;
    }
    us -= clock == CLOCK_MONOTONIC_COARSE ? us % sim.tick_us : 0;
    ts->tv_sec = (time_t)(1000 + us / 1000000);
    ts->tv_nsec = (long)(us % 1000000 * 1000);
    return 0;
}

static inline bool sim_never(void *who)
{
    (void)who;
    return false;
}

int __real_nanosleep(const struct timespec *ts, struct timespec *left);
int __wrap_nanosleep(const struct timespec *ts, struct timespec *left);
int __wrap_nanosleep(const struct timespec *ts, struct timespec *left)
{
    int64_t us = ts->tv_sec * 1000000 + ts->tv_nsec / 1000;

    if (!sim.on)
        return __real_nanosleep(ts, left);
    if (us <= 0)
        sim_broken("a nap that is none");
    sim.waits++;
    if (sim_chance(50))
        us = 1 + (int64_t)sim_random((uint64_t)us); /* a signal */
    sim_sleep(us, sim_never, NULL);
    return 0;
}

#endif
