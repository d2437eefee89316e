/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* klisten.c - listening sockets, and accepting connections.
 *
 * A listener's callback queues one work item, which accepts without waiting, with a budget.  When
 * all slots are taken, or memory is short, connections wait in the kernel's own queue.  Some of the
 * connections that make least use of their slots (core/room.h) are asked to leave, and accepting is
 * tried again when a connection has ended, or after PAUSE_MS.  Nothing spins.  No connection is
 * dropped while it waits in that queue; an accepted one is closed if there is no memory or thread
 * for it (`refused`).
 */
#include <linux/inet.h>
#include <linux/jiffies.h>
#include <linux/timekeeping.h>
#include <net/inet_connection_sock.h>
#include <net/ipv6.h>
#include <net/sock.h>
#include <net/tcp.h>
#include "../core/room.h"
#include "kinside.h"
#include "ktrace.h"

enum {
    ACCEPT_BUDGET = 64,   /* connections accepted in one turn, then the established ones run */
    PAUSE_MS = 40,        /* accepting is tried again after this time */
    VICTIMS_MAX = 8,      /* connections asked to leave at a time */
    LOOKS_MAX = 64,       /* connections looked at to find those; other ones the next time */

    /* TCP drops an answer that was sent whole and stays unread after this many times send_ms.  An
     * answer that is not sent whole is ended sooner by our own timer, which may be late by one
     * send_ms. */
    STALLS_MAX = 3
};

/* --- All slots are taken ---------------------------------------------------------------------- */

struct victims {
    unsigned most, count;
    struct room_victim row[VICTIMS_MAX];
};

/* Connections in the listeners' queues, which wait to be accepted. */
static unsigned waiting(const struct kserve *s)
{
    unsigned i, n = 0;

    for (i = 0; i < s->listeners; i++)
        n += READ_ONCE(s->listener[i].sock->sk->sk_ack_backlog);
    return n;
}

/* Whether the connection has been asked to leave, or is about to end. */
static bool is_leaving(const struct kconn *k)
{
    return test_bit(KCONN_EVICT, &k->flags) || test_bit(KCONN_GOES, &k->flags);
}

/* Looks at the first connections of the list.  Adds those that should leave to v, and returns how
 * many others are leaving already. */
static unsigned victims_find(struct victims *v, struct kserve *s, const struct room *room)
{
    const struct conn_host times = {.head_ms = s->opt.head_ms, .idle_ms = s->opt.idle_ms,
                               .send_ms = s->opt.send_ms};
    unsigned i, leaving = 0, looks = min_t(unsigned, s->listed, LOOKS_MAX);

    for (i = 0; i < looks; i++) {
        struct kconn *k = list_first_entry(&s->conns, struct kconn, node);
        const struct room_peer peer = {.acked = ksock_acked(k), .heard_ms = U64_MAX};
        struct room_victim new = {data_race(room_look(&k->conn, &times, room, &peer)), &k->conn};

        list_move_tail(&k->node, &s->conns);
        if (is_leaving(k))
            leaving++;
        else if (new.place.claim != ROOM_KEEPS && !ksock_has_all(k))
            v->count = room_row_add(v->row, v->count, v->most, new);
    }
    return leaving;
}

/* Asks as many connections to leave as are waiting, minus those that are leaving already, and at
 * most `most` of them at once.  Another thread may be pumping a connection that is looked at here,
 * so this only proposes: the connection's owner decides (kconn_unwanted()). */
static void make_room(struct kserve *s, unsigned most)
{
    struct room room = {(u64)ktime_to_ms(ktime_get_coarse()), s->conn_max, 0};
    struct victims v = {.most = most};
    unsigned i, leaving;

    spin_lock(&s->lock);
    room.waiting = waiting(s);
    WRITE_ONCE(s->waiting, room.waiting);
    WRITE_ONCE(s->asked_ms, room.now_ms);
    leaving = victims_find(&v, s, &room) + (unsigned)atomic_read(&s->live) - s->listed;
    for (i = 0; i < v.count && i + leaving < room.waiting; i++) {
        struct kconn *k = container_of(v.row[i].conn, struct kconn, conn);

        set_bit(KCONN_EVICT, &k->flags);
        smp_mb__after_atomic(); /* its owner sees it at the next pump */
        s->ops->kick(k);
    }
    spin_unlock(&s->lock);
}

/* Stops accepting until a connection has ended, or for PAUSE_MS.  most: as for make_room(). */
static void pause_accepting(struct klistener *d, unsigned most)
{
    WRITE_ONCE(d->serve->paused, true);
    make_room(d->serve, most);
    queue_delayed_work(d->serve->listen_wq, &d->accept, msecs_to_jiffies(PAUSE_MS));
}

void klisteners_room(struct kserve *s)
{
    unsigned i;

    spin_lock(&s->lock); /* against klisteners_close() */
    WRITE_ONCE(s->paused, false);
    for (i = 0; i < s->listeners; i++)
        mod_delayed_work(s->listen_wq, &s->listener[i].accept, 0);
    spin_unlock(&s->lock);
}

/* --- Accepting -------------------------------------------------------------------------------- */

/* Errors that only say that this one client has gone (accept(2)). */
static bool peer_died(int err)
{
    switch (-err) {
    case ECONNABORTED:
    case ECONNRESET:
    case ENETDOWN:
    case EPROTO:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EOPNOTSUPP:
    case EPERM:
    case ETIMEDOUT:
        return true;
    default:
        return false;
    }
}

static bool awaited(const struct klistener *d)
{
    return !reqsk_queue_empty(&inet_csk(d->sock->sk)->icsk_accept_queue);
}

/* 0: go on; -EAGAIN: the queue is empty; other: a shortage. */
static int accept_one(struct klistener *d)
{
    struct kserve *s = d->serve;
    struct socket *sock;
    int err = kernel_accept(d->sock, &sock, O_NONBLOCK);

    if (err && peer_died(err))
        return 0;
    if (err) {
        if (err != -EAGAIN)
            kstat_add(s, KSTAT_ACCEPT_ERRORS, 1);
        return err;
    }
    trace_rung_accepted(sock->sk);
    ksock_unhook(s, sock); /* its callbacks are copies of the listener's */
    err = s->ops->accept(s, sock);
    if (err)
        kstat_add(s, KSTAT_REFUSED, 1);
    return err == -EAGAIN ? -ENOMEM : err; /* -EAGAIN: no thread can be started */
}

static void listener_accept(struct work_struct *work)
{
    struct klistener *d = container_of(to_delayed_work(work), struct klistener, accept);
    unsigned n;
    int err;

    for (n = 0; n < ACCEPT_BUDGET; n++) {
        if (atomic_read(&d->serve->live) >= (int)d->serve->conn_max) {
            if (awaited(d))
                pause_accepting(d, VICTIMS_MAX);
            return;
        }
        err = accept_one(d);
        if (err == -EAGAIN)
            return;
        if (err) {
            pause_accepting(d, 1);
            return;
        }
    }
    queue_delayed_work(d->serve->listen_wq, &d->accept, 0);
}

/* Called for connections in the queue, too: they have the listener's callbacks. */
static void listener_data_ready(struct sock *sk)
{
    struct klistener *d;

    read_lock_bh(&sk->sk_callback_lock);
    d = sk->sk_user_data;
    if (d && sk->sk_state == TCP_LISTEN)
        queue_delayed_work(d->serve->listen_wq, &d->accept, 0);
    read_unlock_bh(&sk->sk_callback_lock);
}

/* --- Listening -------------------------------------------------------------------------------- */

static void port_set(struct sockaddr_storage *at, u16 port)
{
    if (at->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)at)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)at)->sin_port = htons(port);
}

static u16 port_of(const struct sockaddr_storage *at)
{
    return ntohs(at->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)at)->sin6_port
                                           : ((const struct sockaddr_in *)at)->sin_port);
}

/* Accepted sockets are copies, so they have these options too.  TCP_NODELAY: an answer is gathered
 * before it is sent, so there is nothing to wait for.  TCP_USER_TIMEOUT (RFC 5482): bytes that are
 * never acknowledged do not stay in memory. */
static int socket_listen(struct kserve *s, struct socket *sock, struct sockaddr_storage *at)
{
    int err;

    sock_set_reuseaddr(sock->sk);
    tcp_sock_set_nodelay(sock->sk);
    tcp_sock_set_user_timeout(sock->sk, STALLS_MAX * s->opt.send_ms);
    if (at->ss_family == AF_INET6)
        ip6_sock_set_v6only(sock->sk);
    err = kcompat_bind(sock, at, at->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                           : sizeof(struct sockaddr_in));
    if (!err)
        err = kernel_getsockname(sock, (struct sockaddr *)at);
    if (err < 0)
        return err;
    s->port = port_of(at); /* with port=0 the next address gets the same port */
    return kernel_listen(sock, s->opt.backlog);
}

static void listener_hook(struct klistener *d)
{
    struct kcalls *calls = &d->serve->calls;
    struct sock *sk = d->sock->sk;

    write_lock_bh(&sk->sk_callback_lock);
    calls->data_ready = sk->sk_data_ready;
    calls->write_space = sk->sk_write_space;
    calls->state_change = sk->sk_state_change;
    sk->sk_user_data = d;
    sk->sk_data_ready = listener_data_ready;
    write_unlock_bh(&sk->sk_callback_lock);
}

static int listener_open(struct klistener *d, struct kserve *s, const char *address)
{
    struct sockaddr_storage at = {0};
    int err;

    err = inet_pton_with_scope(&init_net, AF_UNSPEC, strcmp(address, "*") ? address : "0.0.0.0",
                               NULL, &at);
    if (err)
        return err;
    port_set(&at, s->port);
    /* Created as for a process: if the listener were one of the kernel's own (sock_create_kern),
     * tcp_close() would end the timers of the sockets that it has accepted, and bytes that are lost
     * after that would never be sent again. */
    err = __sock_create(&init_net, at.ss_family, SOCK_STREAM, IPPROTO_TCP, &d->sock, 0);
    if (err)
        return err;
    d->serve = s;
    INIT_DELAYED_WORK(&d->accept, listener_accept);
    err = socket_listen(s, d->sock, &at);
    if (err) {
        sock_release(d->sock);
        return err;
    }
    listener_hook(d);
    spin_lock(&s->lock); /* against make_room() of the listener before this one */
    s->listeners++;
    spin_unlock(&s->lock);
    queue_delayed_work(s->listen_wq, &d->accept, 0); /* some connections came before the callback */
    return 0;
}

static void listener_close(struct klistener *d)
{
    struct sock *sk = d->sock->sk;

    write_lock_bh(&sk->sk_callback_lock);
    sk->sk_user_data = NULL;
    sk->sk_data_ready = d->serve->calls.data_ready;
    write_unlock_bh(&sk->sk_callback_lock);
    cancel_delayed_work_sync(&d->accept);
    sock_release(d->sock); /* connections in its queue are reset */
}

void klisteners_close(struct kserve *s)
{
    unsigned listeners = s->listeners;

    spin_lock(&s->lock);
    s->listeners = 0; /* klisteners_room() queues no more */
    spin_unlock(&s->lock);
    while (listeners)
        listener_close(&s->listener[--listeners]);
}

static bool lacks_protocol(int err)
{
    return err == -EAFNOSUPPORT || err == -EADDRNOTAVAIL;
}

int klisteners_open(struct kserve *s)
{
    unsigned i;
    int err = -EINVAL;

    s->port = s->opt.port;
    for (i = 0; i < s->opt.binds; i++) {
        err = listener_open(&s->listener[s->listeners], s, s->opt.bind[i]);
        if (!err || (s->opt.some_binds && lacks_protocol(err)))
            continue;
        pr_err("%s: cannot listen on %s port %u: %pe\n", s->name, s->opt.bind[i], s->port,
               ERR_PTR(err));
        klisteners_close(s);
        return err;
    }
    return s->listeners ? 0 : err;
}
