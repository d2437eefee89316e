/* SPDX-License-Identifier: MIT */
/* address.c - addresses, ends and pairs as text, the way ss writes them:
 *
 *   10.0.0.1:80    [2001:db8::1]:80    [fe80::1]%eth0:80
 *
 * The device after % is the one that the socket is bound to.  In a pair it belongs to the local
 * end, which comes first.  The module reads the same form (kernel/drop_pair.c), and tests/drop
 * feeds both the same texts.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include "drop.h"

enum { IPV4_AT = 12, IPV4_BITS = 96, ALL_BITS = 128, PORT_DIGITS = 5, PORT_MAX = 65535 };

bool address_is_ipv4(const struct in6_addr *addr)
{
    return IN6_IS_ADDR_V4MAPPED(addr);
}

static bool read_ipv4(const char *text, struct in6_addr *addr)
{
    memcpy(addr->s6_addr, "\0\0\0\0\0\0\0\0\0\0\xff\xff", IPV4_AT);
    return inet_pton(AF_INET, text, addr->s6_addr + IPV4_AT) == 1;
}

/* Digits alone, up to max. */
static bool read_number(const char *text, unsigned max, unsigned *n)
{
    size_t len = strspn(text, "0123456789");

    *n = len && len <= PORT_DIGITS && !text[len] ? (unsigned)strtoul(text, NULL, 10) : max + 1;
    return *n <= max;
}

static const char *read_port(const char *text, uint16_t *port)
{
    unsigned n;

    if (!read_number(text, PORT_MAX, &n) || !n)
        return "a port is a number from 1 to 65535";
    *port = (uint16_t)n;
    return NULL;
}

/* "[ADDR]" or "ADDR" of IPv4; the brackets are taken away. */
static const char *read_host(char *text, struct in6_addr *addr)
{
    size_t len = strlen(text);

    if (*text != '[')
        return read_ipv4(text, addr) ? NULL :
               strchr(text, ':') ? "an IPv6 address stands in brackets before its port: [::1]:80" :
               "the address is wrong: write 10.0.0.1:80 or [2001:db8::1]:80, and no name";
    if (text[len - 1] != ']')
        return "after the bracket comes a colon and the port: [::1]:80";
    text[len - 1] = 0;
    return inet_pton(AF_INET6, text + 1, addr) == 1 ? NULL : "the address in brackets is wrong";
}

/* ADDR[%DEVICE]:PORT */
static const char *read_end(char *text, struct end *end, unsigned *device)
{
    char *colon = strrchr(text, ':'), *percent;
    const char *why = colon ? read_port(colon + 1, &end->port) : "it has no port: 10.0.0.1:80";

    if (why)
        return why;
    *colon = 0;
    percent = strrchr(text, '%');
    if (percent) {
        *percent = 0;
        *device = if_nametoindex(percent + 1);
        if (!*device)
            return "there is no network device of the name after %";
    }
    return read_host(text, &end->addr);
}

const char *pair_read(char *text, struct pair *pair)
{
    char *save = NULL, *local = strtok_r(text, " \t\r\n", &save);
    char *peer = strtok_r(NULL, " \t\r\n", &save);
    unsigned none = 0;
    const char *why;

    memset(pair, 0, sizeof(*pair));
    if (!local || !peer || strtok_r(NULL, " \t\r\n", &save))
        return "a pair is two ends with a blank between: 10.0.0.1:80 10.0.0.2:40000";
    why = read_end(local, &pair->local, &pair->device);
    why = why ? why : read_end(peer, &pair->peer, &none);
    if (!why && none)
        return "a device stands at this machine's end, the first";
    if (!why && address_is_ipv4(&pair->local.addr) != address_is_ipv4(&pair->peer.addr))
        return "one end is IPv4 and the other IPv6";
    return why;
}

/* ADDR[/BITS] */
static const char *read_row(char *text, struct peer_rule *rule)
{
    char *slash = strchr(text, '/');
    bool ipv4 = !strchr(text, ':');
    unsigned bits = ipv4 ? ALL_BITS - IPV4_BITS : ALL_BITS;

    if (slash) {
        *slash = 0;
        if (!read_number(slash + 1, bits, &bits))
            return "after the slash comes how many bits matter: 10.0.0.0/8";
    }
    rule->bits = ipv4 ? bits + IPV4_BITS : bits;
    if (ipv4 ? read_ipv4(text, &rule->addr) : inet_pton(AF_INET6, text, &rule->addr) == 1)
        return NULL;
    return "it is no address: 10.0.0.1, 10.0.0.0/8, 10.0.0.1:80, [2001:db8::1]:80 or :80";
}

const char *peer_read(const char *given, struct peer_rule *rule)
{
    char copy[END_TEXT], *text = copy, *port = NULL, *close;

    memset(rule, 0, sizeof(*rule));
    if (strlen(given) >= sizeof(copy))
        return "it is too long for an address";
    memcpy(copy, given, strlen(given) + 1);
    if (*text == '[') {
        close = strchr(text++, ']');
        if (!close || (close[1] && close[1] != ':'))
            return "after the bracket comes nothing, or a colon and the port: [::1]:80";
        port = close[1] ? close + 2 : NULL;
        *close = 0;
        if (!strchr(text, ':'))
            return "in brackets stand IPv6 addresses alone";
    } else if (strchr(text, ':') && strchr(text, ':') == strrchr(text, ':')) {
        port = strchr(text, ':') + 1;
        port[-1] = 0;
        if (!*text)
            return read_port(port, &rule->port); /* of any address */
    }
    if (port && read_port(port, &rule->port))
        return read_port(port, &rule->port);
    return read_row(text, rule);
}

void address_write(const struct in6_addr *addr, char text[END_TEXT])
{
    bool ipv4 = address_is_ipv4(addr);

    inet_ntop(ipv4 ? AF_INET : AF_INET6, ipv4 ? addr->s6_addr + IPV4_AT : addr->s6_addr, text,
              END_TEXT);
}

void end_write(const struct end *end, unsigned device, char text[END_TEXT])
{
    char addr[END_TEXT], name[IF_NAMESIZE] = "";
    bool ipv4 = address_is_ipv4(&end->addr);

    address_write(&end->addr, addr);
    if (device && !if_indextoname(device, name))
        device = 0;
    snprintf(text, END_TEXT, "%s%.45s%s%s%s:%u", ipv4 ? "" : "[", addr, ipv4 ? "" : "]",
             device ? "%" : "", name, end->port);
}

static int compare_ends(const struct end *a, const struct end *b)
{
    int order = memcmp(&a->addr, &b->addr, sizeof(a->addr));

    return order ? order : (a->port > b->port) - (a->port < b->port);
}

int pair_compare(const struct pair *a, const struct pair *b)
{
    int order = compare_ends(&a->peer, &b->peer);

    return order ? order : compare_ends(&a->local, &b->local);
}
