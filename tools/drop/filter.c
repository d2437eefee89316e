/* SPDX-License-Identifier: MIT */
/* filter.c - which sockets are wanted, and which of these are left alone.
 *
 * Options of one kind are alternatives; different kinds must all match.  Only root drops a socket
 * that a process of another user holds, although the kernel asks for CAP_NET_ADMIN alone: a user
 * that was given this capability to look after ports need not be able to cut every user's
 * connections.  Sockets in TIME-WAIT, and others that no process holds, have no user, for the
 * kernel too.
 */
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "drop.h"

static const char *const names[] = {
    [TCP_ESTABLISHED] = "established", [TCP_SYN_SENT] = "syn-sent",
    [TCP_SYN_RECV] = "syn-recv",       [TCP_FIN_WAIT1] = "fin-wait-1",
    [TCP_FIN_WAIT2] = "fin-wait-2",    [TCP_TIME_WAIT] = "time-wait",
    [TCP_CLOSE_WAIT] = "close-wait",   [TCP_LAST_ACK] = "last-ack",
    [TCP_LISTEN] = "listen",           [TCP_CLOSING] = "closing",
};
enum {
    STATES = sizeof(names) / sizeof(names[0]),
    /* TCP_CLOSE has no name here: such a socket has no other end, and is in no list. */
    CONNECTED = ((1 << STATES) - 1) & ~(1 << 0 | 1 << TCP_CLOSE | 1 << TCP_LISTEN)
};

const char *state_name(unsigned state)
{
    return state < STATES && names[state] ? names[state] : "other";
}

static int set_state(struct filter *f, const char *name)
{
    const char *words[STATES + 1] = {"all"}, *near;
    unsigned n = 1;

    for (unsigned i = 0; i < STATES; i++) {
        if (!names[i])
            continue;
        words[n++] = names[i];
        if (strcmp(names[i], name) != 0)
            continue;
        f->states |= 1u << i;
        f->listening = f->listening || i == TCP_LISTEN;
        return EXIT_DONE;
    }
    if (strcmp(name, "all") == 0) {
        f->states |= CONNECTED | 1 << TCP_LISTEN; /* listening ones are counted and left alone */
        return EXIT_DONE;
    }
    words[n] = NULL;
    near = option_nearest(name, words);
    if (near)
        say_error("--state: there is no '%s'; did you mean %s?", name, near);
    else
        say_error("--state: there is no '%s'; time-wait, established, all ... (rung drop "
                  "--help-all)", name);
    return EXIT_USAGE;
}

/* N or N-M */
static int set_port(struct filter *f, const char *text)
{
    struct port_range *range = &f->port[f->ports++];
    unsigned long low, high;
    char *rest;

    low = high = strtoul(text, &rest, 10);
    if (*rest == '-' && rest[1] >= '0' && rest[1] <= '9')
        high = strtoul(rest + 1, &rest, 10);
    if (*text < '0' || *text > '9' || *rest || low > high || high > UINT16_MAX || !low) {
        say_error("--port: '%s' is not a port from 1 to 65535, nor a range such as 30000-40000",
                  text);
        return EXIT_USAGE;
    }
    *range = (struct port_range){(uint16_t)low, (uint16_t)high};
    return EXIT_DONE;
}

static int set_peer(struct filter *f, const char *text)
{
    const char *why = peer_read(text, &f->peer[f->peers++]);

    if (!why)
        return EXIT_DONE;
    say_error("--peer: '%s': %s", text, why);
    return EXIT_USAGE;
}

static int set_list(struct filter *f, const struct option_list *list,
                    int (*set)(struct filter *, const char *))
{
    int code = EXIT_DONE;

    for (unsigned i = 0; i < list->count && !code; i++)
        code = set(f, list->item[i]);
    return code;
}

int filter_make(struct filter *f, const struct drop_options *opt, const struct option_found *found)
{
    int code;

    if (opt->ipv4 && opt->ipv6) {
        say_error("--ipv4 and --ipv6: no socket is both; leave out one, or both for either");
        return EXIT_USAGE;
    }
    f->ipv4 = !opt->ipv6;
    f->ipv6 = !opt->ipv4;
    f->uid = geteuid();
    f->states_given = opt->state.count > 0;
    code = set_list(f, &opt->port, set_port);
    code = code ? code : set_list(f, &opt->peer, set_peer);
    code = code ? code : set_list(f, &opt->state, set_state);
    code = code ? code : pairs_make(&f->pairs, found, opt->pairs);
    f->by_pairs = opt->pairs || found->operands;
    if (!f->states_given)
        f->states = f->by_pairs ? CONNECTED : 1 << TCP_TIME_WAIT;
    return code;
}

void filter_free(struct filter *f)
{
    pairs_free(&f->pairs);
}

bool filter_chooses(const struct filter *f)
{
    return f->ports || f->peers || f->by_pairs || f->states_given;
}

static bool starts_alike(const struct in6_addr *a, const struct in6_addr *b, unsigned bits)
{
    unsigned bytes = bits / 8, rest = bits % 8;

    if (memcmp(a, b, bytes) != 0)
        return false;
    return !rest || (a->s6_addr[bytes] ^ b->s6_addr[bytes]) >> (8 - rest) == 0;
}

static bool port_fits(const struct filter *f, uint16_t port)
{
    for (unsigned i = 0; i < f->ports; i++)
        if (port >= f->port[i].low && port <= f->port[i].high)
            return true;
    return !f->ports;
}

static bool peer_fits(const struct filter *f, const struct end *peer)
{
    for (unsigned i = 0; i < f->peers; i++) {
        const struct peer_rule *rule = &f->peer[i];

        if (starts_alike(&peer->addr, &rule->addr, rule->bits) &&
            (!rule->port || rule->port == peer->port))
            return true;
    }
    return !f->peers;
}

enum verdict filter_judge(struct filter *f, const struct entry *entry)
{
    bool ipv4 = address_is_ipv4(&entry->pair.local.addr);

    if (!(ipv4 ? f->ipv4 : f->ipv6) || !port_fits(f, entry->pair.local.port) ||
        !peer_fits(f, &entry->pair.peer) || (f->by_pairs && !pairs_have(&f->pairs, &entry->pair)))
        return VERDICT_OTHER;
    if (entry->state == TCP_LISTEN && !f->listening)
        return VERDICT_LISTENS;
    if (f->uid && entry->inode && entry->uid != f->uid)
        return VERDICT_FOREIGN;
    return VERDICT_WANTED;
}
