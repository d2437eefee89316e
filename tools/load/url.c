/* SPDX-License-Identifier: MIT */
/* url.c - a URL as slices of its text, and the address of its host that answers.
 *
 * Only what a load generator needs: http:// (which may be left out), https:// and echo://, a host,
 * a port, a path with a query.  A URL that could mean two things is refused with a reason.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "load.h"

/* Ignores the case of letters, as schemes do (RFC 3986 3.1); the other prefixes here have no
 * letters. */
static bool starts(struct slice *s, const char *prefix)
{
    size_t n = strlen(prefix);

    if (s->len < n || strncasecmp(s->ptr, prefix, n) != 0)
        return false;
    s->ptr += n;
    s->len -= n;
    return true;
}

static struct slice until(struct slice *rest, const char *stops)
{
    struct slice s = *rest;

    for (s.len = 0; s.len < rest->len && !strchr(stops, rest->ptr[s.len]); s.len++)
        ;
    rest->ptr += s.len;
    rest->len -= s.len;
    return s;
}

/* host [":" port], or an IPv6 address in brackets. */
static const char *split_authority(struct url *u)
{
    struct slice rest = u->authority;
    unsigned port = 0;

    if (starts(&rest, "[")) {
        u->host = until(&rest, "]");
        if (!starts(&rest, "]"))
            return "the bracket of its IPv6 address is not closed";
        if (u->host.len && !memchr(u->host.ptr, ':', u->host.len))
            return "there is no IPv6 address in its brackets";
    } else {
        u->host = until(&rest, ":");
        if (rest.len && memchr(rest.ptr + 1, ':', rest.len - 1))
            return "an IPv6 address stands in brackets, as in http://[::1]:8080/";
    }
    if (u->host.len == 0)
        return "it has no host";
    if (u->host.len > 253)
        return "its host is longer than 253 characters";
    if (rest.len && !starts(&rest, ":"))
        return "there is something behind the bracket that is no port";
    u->port = rest;
    for (size_t i = 0; i < rest.len; i++) {
        if (rest.ptr[i] < '0' || rest.ptr[i] > '9' || rest.len > 5)
            return "its port is not a number from 1 to 65535";
        port = port * 10 + (unsigned)(rest.ptr[i] - '0');
    }
    return rest.len && (port < 1 || port > 65535) ? "its port is not a number from 1 to 65535"
                                                  : NULL;
}

/* The scheme is text that ends in :// before any other part of the URL; a path may hold another
 * one. */
static const char *take_scheme(struct url *u, struct slice *rest)
{
    const char *text = rest->ptr, *end = text + strcspn(text, "/?#");

    u->secure = starts(rest, "https://");
    if (u->secure)
        return NULL;
    u->echo = starts(rest, "echo://");
    if (u->echo || starts(rest, "http://"))
        return NULL;
    if (end > text && strncmp(end - 1, "://", 3) == 0)
        return "only http://, https:// and echo:// are known";
    if (starts(rest, "http:/") || starts(rest, "https:/") || starts(rest, "echo:/"))
        return "two slashes are due behind its scheme, as in http://HOST/";
    return NULL;
}

const char *url_parse(struct url *u, const char *text)
{
    struct slice rest = {text, strlen(text)};
    const char *wrong;

    memset(u, 0, sizeof(*u));
    for (size_t i = 0; i < rest.len; i++)
        if ((unsigned char)text[i] <= ' ' || (unsigned char)text[i] >= 127)
            return "it holds a space, a control character or a byte beyond ASCII; write it as %XX";
    wrong = take_scheme(u, &rest);
    if (wrong)
        return wrong;
    u->authority = until(&rest, "/?#");
    if (memchr(u->authority.ptr, '@', u->authority.len))
        return "a user in it is not sent; use -H 'Authorization: ...'";
    wrong = split_authority(u);
    if (wrong)
        return wrong;
    u->path = until(&rest, "#");
    if (u->echo)
        return u->port.len ? NULL : "echo:// needs a port: echo://HOST:PORT";
    if (u->path.len && u->path.ptr[0] != '/')
        return "a query needs a path before it";
    if (!u->path.len)
        u->path = (struct slice){"/", 1};
    return u->path.len > TARGET_BYTES_MAX ? "it is longer than any server takes" : NULL;
}

void url_put_host(const struct url *u, FILE *out)
{
    const char *text = u->authority.ptr, *end = text + u->authority.len, *rest = end;
    const char *zone = text[0] == '[' ? memchr(text, '%', u->authority.len) : NULL;

    if (zone)
        rest = memchr(zone, ']', (size_t)(end - zone));
    fprintf(out, "Host: %.*s%.*s\r\n", (int)((zone ? zone : end) - text), text,
            (int)(end - rest), rest);
}

/* --- Addresses -------------------------------------------------------------------------------- */

/* Whether a server listens at the address: 0 or -errno. */
static int answers(const struct addrinfo *a, uint64_t timeout_ms)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), err = 0;
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    socklen_t len = sizeof(err);

    if (fd < 0)
        return -errno;
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS)
        err = errno;
    else if (poll(&ready, 1, (int)timeout_ms) != 1)
        err = ETIMEDOUT;
    else
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
    close(fd);
    return -err;
}

static int unix_address(const struct load_options *opt, struct peer *peer)
{
    struct sockaddr_un *un = (struct sockaddr_un *)&peer->sa;
    size_t n = strlen(opt->unix_path);

    if (n > UNIX_PATH_MAX_BYTES)
        return -ENAMETOOLONG;
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, opt->unix_path, n + 1);
    peer->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
    return 0;
}

/* Writes the host as getaddrinfo() wants it.  A per cent sign comes before the zone of an IPv6
 * address; in a URL it is escaped (RFC 6874 2), or plain, as people write it. */
static void put_host(const struct url *u, char host[256])
{
    char *zone;

    snprintf(host, 256, "%.*s", (int)u->host.len, u->host.ptr);
    zone = strchr(host, '%');
    if (zone && strncmp(zone, "%25", 3) == 0 && zone[3])
        memmove(zone + 1, zone + 3, strlen(zone + 3) + 1);
}

/* Takes the first of several addresses that answers; a single address is not tried before the run
 * begins. */
int url_resolve(const struct url *u, const struct load_options *opt, struct peer *peer)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC}, *list, *a;
    char host[256], port[8];
    int code, err = 0;

    memset(&peer->sa, 0, sizeof(peer->sa));
    if (opt->unix_path)
        return unix_address(opt, peer);
    if (opt->ipv4 != opt->ipv6)
        hints.ai_family = opt->ipv4 ? AF_INET : AF_INET6;
    put_host(u, host);
    snprintf(port, sizeof(port), "%s", u->secure ? "443" : "80");
    if (u->port.len)
        snprintf(port, sizeof(port), "%.*s", (int)u->port.len, u->port.ptr);
    code = getaddrinfo(host, port, &hints, &list);
    if (code)
        return code > 0 ? code : -code; /* glibc's are negative */
    for (a = list; a; a = a->ai_next) {
        err = a == list && !a->ai_next ? 0 : answers(a, opt->timeout);
        if (!err)
            break;
    }
    if (a) {
        memcpy(&peer->sa, a->ai_addr, a->ai_addrlen);
        peer->len = a->ai_addrlen;
    }
    freeaddrinfo(list);
    return a ? 0 : err;
}
