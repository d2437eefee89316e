/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* khook.c - how a socket calls its connection, for event and softirq.
 *
 * Three of a socket's callbacks are replaced: bytes, room, state.  They run where the packet was
 * handled, mostly in the bottom half and under the socket's own lock, so they only mark and queue,
 * except that softirq may pump at once when bytes have come.  sk_user_data points to the
 * connection, under sk_callback_lock: once it is NULL, no callback touches the connection.
 */
#include <linux/jiffies.h>
#include <linux/slab.h>
#include <net/sock.h>
#include "kready.h"

/* --- Called by the socket and the clock ------------------------------------------------------- */

static void ready_called(struct sock *sk)
{
    struct kready *r;

    read_lock_bh(&sk->sk_callback_lock);
    r = sk->sk_user_data;
    if (r)
        kready_mark(r);
    read_unlock_bh(&sk->sk_callback_lock);
}

/* Bytes have come.  In the bottom half no other context uses the socket, because the one that
 * handles the packet has locked it: TCP calls this last, so the pump may send from here.  A process
 * that is releasing the socket handles the packets that came meanwhile, and still owns it: then the
 * connection is only queued. */
static void ready_data(struct sock *sk)
{
    struct kready *r;

    read_lock_bh(&sk->sk_callback_lock); /* held to the end of the pump: kserve.c, ready_close() */
    r = sk->sk_user_data;
    if (r && in_serving_softirq() && !sock_owned_by_user(sk))
        kready_call(r);
    else if (r)
        kready_mark(r);
    read_unlock_bh(&sk->sk_callback_lock);
}

/* The bit asks TCP to call this; while it stays set, every acknowledgement would. */
static void ready_write_space(struct sock *sk)
{
    if (!sk_stream_is_writeable(sk))
        return;
    if (sk->sk_socket)
        clear_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
    ready_called(sk);
}

static void ready_timer(struct timer_list *timer)
{
    struct kready *r = container_of(timer, struct kready, timer);

    set_bit(KCONN_DUE, &r->k.flags);
    smp_mb__after_atomic(); /* a pump that has not begun sees it */
    kready_mark(r);
}

/* --- Beginning -------------------------------------------------------------------------------- */

/* The hooks are set under the socket's lock, so that no packet is handled at the same time: bytes
 * that came before are seen here, later ones call a hook. */
static void ready_hook(struct kready *r, struct sock *sk)
{
    lock_sock(sk);
    write_lock_bh(&sk->sk_callback_lock);
    sk->sk_user_data = r;
    sk->sk_data_ready = r->soft ? ready_data : ready_called;
    sk->sk_write_space = ready_write_space;
    sk->sk_state_change = ready_called;
    write_unlock_bh(&sk->sk_callback_lock);
    if (r->soft) {
        sk->sk_allocation = GFP_ATOMIC;
        kcompat_own_frag(sk);
    }
    if (!skb_queue_empty(&sk->sk_receive_queue) || sk->sk_shutdown || sk->sk_err)
        kready_mark(r);
    release_sock(sk);
}

int khook_accept(struct kserve *s, struct socket *sock)
{
    struct kready *r = kmalloc(sizeof(*r), GFP_KERNEL);

    if (!r) {
        sock_release(sock);
        return -ENOMEM;
    }
    atomic_set(&r->state, KREADY_RUNNING); /* ours until all is set up */
    r->soft = s->soft != NULL;
    r->called = false;
    kfar_init(r);
    timer_setup(&r->timer, ready_timer, 0);
    kconn_begin(&r->k, s, sock, &s->context[0].host.conn);
    kready_time(r, (u64)ktime_to_ms(ktime_get_coarse()));
    ready_hook(r, sock->sk);
    if (atomic_cmpxchg(&r->state, KREADY_RUNNING, KREADY_IDLE) != KREADY_RUNNING) {
        atomic_set(&r->state, KREADY_QUEUED); /* something happened during the setup */
        kready_queue(r);
    }
    return 0;
}
