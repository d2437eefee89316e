/* SPDX-License-Identifier: MIT */
/* peers.c - which clients are served, by their address: --deny refuses the clients that it names,
 * --allow all that it does not name.
 *
 * The address is the client's own if a trusted proxy reports it (client.h).  One that cannot be
 * found, because the connection has gone, is refused. */
#include <stdlib.h>
#include <string.h>
#include "client.h"
#include "rules.h"

enum { PEERS_MAX = 64 };

struct nets {
    unsigned count;
    struct prefix net[PEERS_MAX];
};

struct peers {
    struct nets allow, deny;
};

/* --- Reading ---------------------------------------------------------------------------------- */

/* Whether all bits behind the net's are zero: 10.0.0.1/8 may be a slip for 10.0.0.1 or 10.0.0.0. */
static bool is_whole(const struct prefix *net)
{
    for (unsigned bit = net->bits; bit < 8 * sizeof(net->address.bytes); bit++)
        if (net->address.bytes[bit / 8] >> (7 - bit % 8) & 1)
            return false;
    return true;
}

static bool read_net(struct prefix *net, const char *text, size_t n)
{
    char copy[64];

    if (n >= sizeof(copy))
        return false;
    memcpy(copy, text, n);
    copy[n] = '\0';
    return prefix_parse(net, copy) && is_whole(net);
}

/* Several with commas. */
static int read_item(struct nets *nets, const char *item, const char *name)
{
    do {
        size_t n = strcspn(item, ",");

        if (nets->count == PEERS_MAX) {
            say_error("--%s: more than %d networks; use shorter prefixes", name, PEERS_MAX);
            return EXIT_USAGE;
        }
        if (!read_net(&nets->net[nets->count++], item, n)) {
            say_error("--%s '%.*s': write an address, a network or unix, such as 192.0.2.7 or "
                      "10.0.0.0/8; bits behind those of a network are 0", name, (int)n, item);
            return EXIT_USAGE;
        }
        item += n;
    } while (*item++);
    return EXIT_DONE;
}

static int read_list(struct nets *nets, const struct option_list *list, const char *name)
{
    int code = EXIT_DONE;

    for (unsigned i = 0; i < list->count && !code; i++)
        code = read_item(nets, list->item[i], name);
    return code;
}

int peers_open(struct peers **peers, const struct serve_options *opt)
{
    struct peers *p;
    int code;

    if (!opt->allow.count && !opt->deny.count)
        return EXIT_DONE;
    *peers = p = calloc(1, sizeof(*p));
    if (!p) {
        say_error("cannot start: %s", say_why(ENOMEM));
        return EXIT_FAILED;
    }
    code = read_list(&p->allow, &opt->allow, "allow");
    return code ? code : read_list(&p->deny, &opt->deny, "deny");
}

void peers_close(struct peers *peers)
{
    free(peers);
}

/* --- Asking ----------------------------------------------------------------------------------- */

static bool is_in(const struct nets *nets, const struct address *a)
{
    for (unsigned i = 0; i < nets->count; i++)
        if (prefix_has(&nets->net[i], a))
            return true;
    return false;
}

bool peers_admit(const struct peers *p, const struct address *client)
{
    return client->family != ADDRESS_NONE && !is_in(&p->deny, client) &&
           (!p->allow.count || is_in(&p->allow, client));
}
