/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* drop_main.c - rung_drop: ends TCP sockets whose pairs are written to /proc/net/rung_drop.
 *
 *   echo '127.0.0.1:8080 127.0.0.1:40000' >/proc/net/rung_drop      this end, the other end
 *
 * For kernels without SOCK_DESTROY; rung drop (tools/drop) knows both ways.  Each network namespace
 * has its own file, which ends sockets of that namespace alone.  A write is whole lines.  All of
 * them are read before any socket is ended, so a write with a wrong line changes nothing.  Only the
 * table of connections is searched: a socket that listens is never found.  tcp_abort() does the
 * work and takes the locks; it handles TIME-WAIT, half-made connections and full sockets.
 *
 * A write returns its length if a socket was ended; pairs without a socket are then ignored.
 * EINVAL: a line is wrong, or the last one has no end; ENODEV: there is no such device; E2BIG: too
 * many lines; ENOENT: none of these sockets is there; EPERM: both the process that opened the file
 * and the one that writes need CAP_NET_ADMIN over the namespace.  The file's mode restricts no
 * process, because that right is not root's alone.  The opener is checked so that a process without
 * the right cannot have a privileged program write its errors here.
 */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/ipv6.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <net/inet6_hashtables.h>
#include <net/inet_hashtables.h>
#include <net/net_namespace.h>
#include <net/tcp.h>
#include "drop_pair.h"
#include "kcompat.h"

#define DROP_FILE "rung_drop"

/* --- One socket ------------------------------------------------------------------------------- */

/* Returns the socket with a reference, or NULL.  The search takes a packet's ends: its source is
 * the peer. */
static struct sock *find_socket(struct net *net, const struct drop_pair *pair)
{
    const struct in6_addr *local = &pair->local.addr, *peer = &pair->peer.addr;
    __be16 peer_port = htons(pair->peer.port);
    struct sock *sk = NULL;

    rcu_read_lock();
    if (ipv6_addr_v4mapped(local))
        sk = kcompat_tcp_lookup(__inet_lookup_established, net, peer->s6_addr32[3], peer_port,
                                local->s6_addr32[3], pair->local.port, pair->device, 0);
#if IS_ENABLED(CONFIG_IPV6)
    else
        sk = kcompat_tcp_lookup(__inet6_lookup_established, net, peer, peer_port, local,
                                pair->local.port, pair->device, 0);
#endif
    rcu_read_unlock();
    return sk;
}

static bool drop_socket(struct net *net, const struct drop_pair *pair)
{
    struct sock *sk = find_socket(net, pair);
    int err;

    if (!sk)
        return false;
    err = tcp_abort(sk, ECONNABORTED);
    sock_gen_put(sk);
    return !err;
}

/* --- A write ---------------------------------------------------------------------------------- */

static int count_lines(const char *text, size_t len)
{
    int lines = 0;
    size_t i;

    for (i = 0; i < len; i++)
        lines += text[i] == '\n';
    return lines;
}

/* The text ends with a newline. */
static int read_lines(struct net *net, const char *text, size_t len, struct drop_pair *pair)
{
    int err = 0;

    while (len && !err) {
        size_t line = (const char *)memchr(text, '\n', len) - text;

        err = drop_pair_read(net, text, line, pair++);
        text += line + 1;
        len -= line + 1;
    }
    return err;
}

static int drop_text(struct net *net, const char *text, size_t len)
{
    int lines = count_lines(text, len), dropped = 0, err, i;
    struct drop_pair *pairs;

    if (lines > DROP_LINES_MAX)
        return -E2BIG;
    pairs = kvmalloc_array(lines, sizeof(*pairs), GFP_KERNEL_ACCOUNT);
    if (!pairs)
        return -ENOMEM;
    err = read_lines(net, text, len, pairs);
    for (i = 0; i < lines && !err; i++) {
        dropped += drop_socket(net, &pairs[i]);
        cond_resched();
    }
    kvfree(pairs);
    return err ? err : dropped;
}

static ssize_t drop_write(struct file *file, const char __user *from, size_t len, loff_t *pos)
{
    struct net *net = pde_data(file_inode(file));
    int dropped = -EINVAL;
    char *text;

    if (!file_ns_capable(file, net->user_ns, CAP_NET_ADMIN) ||
        !ns_capable(net->user_ns, CAP_NET_ADMIN))
        return -EPERM;
    if (len > DROP_LINES_MAX * DROP_LINE_MAX)
        return -E2BIG;
    if (!len)
        return 0;
    text = vmemdup_user(from, len);
    if (IS_ERR(text))
        return PTR_ERR(text);
    if (text[len - 1] == '\n') /* otherwise the last line may have been cut, within its port */
        dropped = drop_text(net, text, len);
    kvfree(text);
    return dropped < 0 ? dropped : dropped ? (ssize_t)len : -ENOENT;
}

static const struct proc_ops drop_ops = {
    .proc_write = drop_write,
};

/* --- Each namespace, and the module ----------------------------------------------------------- */

static int __net_init space_begin(struct net *net)
{
    return proc_create_data(DROP_FILE, 0222, net->proc_net, &drop_ops, net) ? 0 : -ENOMEM;
}

/* Waits until no write is in progress. */
static void __net_exit space_end(struct net *net)
{
    remove_proc_entry(DROP_FILE, net->proc_net);
}

static struct pernet_operations drop_spaces = {
    .init = space_begin,
    .exit = space_end,
};

static int __init drop_init(void)
{
    return register_pernet_subsys(&drop_spaces);
}

static void __exit drop_exit(void)
{
    unregister_pernet_subsys(&drop_spaces);
}

module_init(drop_init);
module_exit(drop_exit);
MODULE_DESCRIPTION("rung: ends TCP sockets by their pairs of addresses");
MODULE_LICENSE("Dual MIT/GPL");
