/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* drop_pair.c - reads a pair: 10.0.0.1:80 10.0.0.2:40000, [2001:db8::1]%eth0:80 [2001:db8::2]:4000
 *
 * The text comes from user space, has a length and no NUL; nothing is read behind its end.  The
 * pairs that are accepted are those that tools/drop/address.c accepts; tests/drop feeds both the
 * same.
 */
#include <linux/ctype.h>
#include <linux/errno.h>
#include <linux/inet.h>
#include <linux/netdevice.h>
#include <linux/string.h>
#include <net/ipv6.h>
#include "drop_pair.h"

enum { IPV4_AT = 12, PORT_DIGITS = 5 };

struct word {
    const char *at;
    size_t len;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Returns the next word of the line, and cuts the line to what follows the word. */
static struct word next_word(struct word *line)
{
    struct word word;
    size_t from = 0, to;

    while (from < line->len && is_blank(line->at[from]))
        from++;
    for (to = from; to < line->len && !is_blank(line->at[to]); to++)
        ;
    word = (struct word){line->at + from, to - from};
    *line = (struct word){line->at + to, line->len - to};
    return word;
}

static int read_port(struct word word, u16 *port)
{
    unsigned int n = 0;
    size_t i;

    if (!word.len || word.len > PORT_DIGITS)
        return -EINVAL;
    for (i = 0; i < word.len; i++) {
        if (!isdigit(word.at[i]))
            return -EINVAL;
        n = 10 * n + (word.at[i] - '0');
    }
    *port = n;
    return n && n <= U16_MAX ? 0 : -EINVAL;
}

/* "[ADDR]" for IPv6, "ADDR" for IPv4. */
static int read_host(struct word word, struct in6_addr *addr)
{
    const char *end = NULL;
    int good;

    if (word.len && *word.at == '[') {
        if (word.len < 2 || word.at[word.len - 1] != ']')
            return -EINVAL;
        word.at++;
        word.len -= 2;
        good = in6_pton(word.at, word.len, addr->s6_addr, -1, &end);
    } else {
        ipv6_addr_set_v4mapped(0, addr);
        good = in4_pton(word.at, word.len, addr->s6_addr + IPV4_AT, -1, &end);
    }
    return good && end == word.at + word.len ? 0 : -EINVAL;
}

static int read_device(struct net *net, struct word word, int *device)
{
    char name[IFNAMSIZ];
    struct net_device *found;

    if (!word.len || word.len >= sizeof(name))
        return -ENODEV;
    memcpy(name, word.at, word.len);
    name[word.len] = 0;
    rcu_read_lock();
    found = dev_get_by_name_rcu(net, name);
    if (found)
        *device = found->ifindex;
    rcu_read_unlock();
    return found ? 0 : -ENODEV;
}

/* Splits the word at the last `mark`: it keeps what is before, and the result is what follows.
 * Without a mark it stays as it is, and the result's `at` is NULL. */
static struct word cut(struct word *word, char mark)
{
    size_t i = word->len;
    struct word rest = {NULL, 0};

    while (i && word->at[i - 1] != mark)
        i--;
    if (i) {
        rest = (struct word){word->at + i, word->len - i};
        word->len = i - 1;
    }
    return rest;
}

/* ADDR[%DEVICE]:PORT */
static int read_end(struct net *net, struct word word, struct drop_end *end, int *device)
{
    struct word port = cut(&word, ':'), name = cut(&word, '%');
    int err = read_port(port, &end->port);

    if (!err && name.at)
        err = read_device(net, name, device);
    return err ? err : read_host(word, &end->addr);
}

int drop_pair_read(struct net *net, const char *line, size_t len, struct drop_pair *pair)
{
    struct word rest = {line, len}, local, peer, more;
    int none = 0, err;

    memset(pair, 0, sizeof(*pair));
    if (len >= DROP_LINE_MAX || memchr(line, 0, len))
        return -EINVAL;
    local = next_word(&rest);
    peer = next_word(&rest);
    more = next_word(&rest);
    if (more.len)
        return -EINVAL;
    err = read_end(net, local, &pair->local, &pair->device);
    err = err ? err : read_end(net, peer, &pair->peer, &none);
    if (err)
        return err;
    /* the socket is bound to the device, so only its own end may name one */
    if (none || ipv6_addr_v4mapped(&pair->local.addr) != ipv6_addr_v4mapped(&pair->peer.addr))
        return -EINVAL;
    return 0;
}
