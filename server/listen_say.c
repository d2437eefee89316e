/* SPDX-License-Identifier: MIT */
/* listen_say.c - where the server can be reached, for the people who started it. */
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include "serve.h"

/* A path in a URL: that of the only file that is served, or "/". */
enum { URL_PATH_BYTES = 3 * NAME_BYTES_MAX + 2 };

static void url_path(const struct server *srv, char path[URL_PATH_BYTES])
{
    const char *only = srv->only ? srv->only : "/";

    path[path_encode(path, only, strlen(only))] = '\0';
}

/* Whether the listener is bound to every address; if so it becomes loopback, which a browser can
 * open. */
static bool to_loopback(struct net_address *a)
{
    struct sockaddr_in *in = (struct sockaddr_in *)&a->sa;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&a->sa;

    if (a->sa.ss_family == AF_INET && in->sin_addr.s_addr == htonl(INADDR_ANY)) {
        in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return true;
    }
    if (a->sa.ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr)) {
        in6->sin6_addr = in6addr_loopback;
        return true;
    }
    return false;
}

void listen_text(const struct server *srv, char *buf, size_t cap)
{
    char path[URL_PATH_BYTES];
    size_t used = 0;

    *buf = 0;
    url_path(srv, path);
    for (unsigned i = 0; i < srv->listeners && used < cap; i++) {
        char text[NET_ADDRESS_TEXT];
        struct net_address a;
        bool local;

        if (!listen_address(srv->listener[0][i], &a))
            continue;
        to_loopback(&a);
        net_address_text(&a, text);
        local = strncmp(text, "unix:", 5) == 0;
        used += (size_t)snprintf(buf + used, cap - used, "%s%s%s%s%s", used ? " and " : "",
                                 local ? "" : srv->proto->name, local ? "" : "://",
                                 text, local ? "" : path);
    }
}

/* The interface's address in the place of the listener's.  False: it is of another family, or is a
 * loopback or link-local one, which needs a zone to be opened. */
static bool is_reachable(const struct ifaddrs *i, struct net_address *a)
{
    struct in6_addr in6;

    if (!i->ifa_addr || i->ifa_addr->sa_family != a->sa.ss_family ||
        (i->ifa_flags & IFF_LOOPBACK) || !(i->ifa_flags & IFF_UP))
        return false;
    if (a->sa.ss_family == AF_INET) {
        ((struct sockaddr_in *)&a->sa)->sin_addr =
            ((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr;
        return true;
    }
    in6 = ((struct sockaddr_in6 *)(void *)i->ifa_addr)->sin6_addr;
    ((struct sockaddr_in6 *)&a->sa)->sin6_addr = in6;
    return !IN6_IS_ADDR_LINKLOCAL(&in6);
}

void listen_say_public(const struct server *srv, const struct ifaddrs *list)
{
    char url[NET_ADDRESS_TEXT + URL_PATH_BYTES + 16], path[URL_PATH_BYTES];

    url_path(srv, path);
    for (unsigned n = 0; n < srv->listeners; n++) {
        struct net_address a, b;
        char text[NET_ADDRESS_TEXT];

        if (!listen_address(srv->listener[0][n], &a) || !to_loopback(&a))
            continue;
        for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
            b = a;
            if (!is_reachable(i, &b))
                continue;
            net_address_text(&b, text);
            snprintf(url, sizeof(url), "%s://%s%s", srv->proto->name, text, path);
            say("on the network (%s): %s", i->ifa_name, url);
        }
    }
}
