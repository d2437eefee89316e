/* SPDX-License-Identifier: MIT */
/* listen_say.c - where the server can be reached, for the people who started it.
 *
 * On a terminal a public server also shows its address as a QR code, for phones.
 */
#include <ifaddrs.h>
#include <langinfo.h>
#include <locale.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "qr.h"
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

        if (is_redirected(srv, srv->listener[0][i]) || !listen_address(srv->listener[0][i], &a))
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

/* Whether the environment's locale is of UTF-8.  The process keeps its own: C. */
static bool is_utf8(void)
{
    locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    bool is = locale && strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;

    if (locale)
        freelocale(locale);
    return is;
}

/* Whether a code can be drawn there: it needs exact colours and half blocks. */
static bool draws(int fd)
{
    const char *term = getenv("TERM");

    return isatty(fd) && term && *term && strcmp(term, "dumb") != 0 && is_utf8();
}

void listen_around_look(struct listen_around *around, const struct server *srv)
{
    if (getifaddrs(&around->interfaces) < 0)
        around->interfaces = NULL;
    around->draws = !srv->opt->quiet && draws(STDERR_FILENO);
}

void listen_around_drop(struct listen_around *around)
{
    if (around->interfaces)
        freeifaddrs(around->interfaces);
}

void listen_say_public(const struct server *srv, const struct listen_around *around)
{
    bool drawn = !around->draws;
    char url[NET_ADDRESS_TEXT + URL_PATH_BYTES + 16], path[URL_PATH_BYTES];

    url_path(srv, path);
    for (unsigned n = 0; n < srv->listeners; n++) {
        struct net_address a, b;
        char text[NET_ADDRESS_TEXT];

        if (is_redirected(srv, srv->listener[0][n]) || !listen_address(srv->listener[0][n], &a) ||
            !to_loopback(&a))
            continue;
        for (const struct ifaddrs *i = around->interfaces; i; i = i->ifa_next) {
            b = a;
            if (!is_reachable(i, &b))
                continue;
            net_address_text(&b, text);
            snprintf(url, sizeof(url), "%s://%s%s", srv->proto->name, text, path);
            say("on the network (%s): %s", i->ifa_name, url);
            if (!drawn)
                qr_print(url, stderr);
            drawn = true;
        }
    }
}
