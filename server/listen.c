/* SPDX-License-Identifier: MIT */
/* listen.c - the addresses of the options become listeners, all on one port.
 *
 * The first address settles port 0; the others must get the same number, so when one is taken all
 * are closed and the kernel chooses again.  After them come the same addresses with the port of
 * --redirect-http.  An address that this machine lacks is left out only if it was not asked for by
 * name.  Errors are reported here, with the process that holds the port and what to try.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "../base/net.h"
#include "handover.h"
#include "hosts.h"
#include "metrics.h"

_Static_assert((int)OPTION_LIST_MAX <= (int)LISTENERS_MAX,
                "every address asked for has a place");

enum { PORT_TRIES = 32, SUGGEST_TRIES = 100, DYING_NS = 30000000 };

struct plan {
    struct option_list bind;
    bool lenient; /* the addresses are the defaults: one of the two protocols may be missing */
    bool skip[OPTION_LIST_MAX];
    unsigned plain_from; /* from this address on the port is plain_port */
    unsigned plain_port;
    struct net_listening how;
    struct handover *before; /* has listeners of the server before; NULL: none */
    unsigned failed; /* which address the error is about */
};

static bool is_unix(const char *text)
{
    return strncmp(text, "unix:", 5) == 0;
}

static bool is_missing(int err)
{
    return err == -EADDRNOTAVAIL || err == -EAFNOSUPPORT;
}

/* The port of the i-th address, if others have that one. */
static unsigned port_of(const struct plan *plan, unsigned i, unsigned port)
{
    return i < plan->plain_from ? port : plan->plain_port;
}

static int open_one(const struct plan *plan, const struct net_address *a)
{
    int fd = handover_find(plan->before, HANDOVER_SERVED, a, &plan->how);

    return fd == -ENOENT ? net_listen(a, &plan->how) : fd;
}

static void close_one(const struct plan *plan, int fd)
{
    if (!handover_put_back(plan->before, fd))
        net_unlisten(fd);
}

/* One attempt at all addresses: fills fd[], 0 or -errno with nothing open. */
static int open_all(struct plan *plan, unsigned *port, int fd[OPTION_LIST_MAX])
{
    struct net_address a;
    int err = 0;
    unsigned i;

    for (i = 0; i < plan->bind.count && !err; i++) {
        fd[i] = -1;
        plan->failed = i;
        if (plan->skip[i])
            continue;
        err = net_address_parse(&a, plan->bind.item[i], (uint16_t)port_of(plan, i, *port));
        if (!err)
            fd[i] = open_one(plan, &a);
        if (fd[i] < 0 && !err)
            err = fd[i];
        if (is_missing(err) && plan->lenient) {
            plan->skip[i] = true;
            err = 0;
        }
        if (fd[i] >= 0 && !*port && a.sa.ss_family != AF_UNIX)
            *port = (unsigned)net_port(fd[i]);
    }
    while (err && i-- > 0)
        close_one(plan, fd[i]);
    return err;
}

/* With SO_REUSEPORT a second server of the same user would share the port unnoticed: so ask
 * without it first. */
static int open_set(struct plan *plan, unsigned *port, int fd[OPTION_LIST_MAX])
{
    bool reuseport = plan->how.reuseport;
    int err;

    plan->how.reuseport = false;
    err = open_all(plan, port, fd);
    plan->how.reuseport = reuseport;
    if (err || !reuseport)
        return err;
    for (unsigned i = 0; i < plan->bind.count; i++)
        close_one(plan, fd[i]);
    return open_all(plan, port, fd);
}

/* The first port above `port` that is free at every address; 0: none found. */
static unsigned free_port(const struct plan *plan, unsigned port)
{
    struct plan trial = *plan;
    int fd[OPTION_LIST_MAX];

    trial.bind.count = 0;
    trial.before = NULL;
    for (unsigned i = 0; i < plan->plain_from; i++)
        if (!is_unix(plan->bind.item[i]))
            trial.bind.item[trial.bind.count++] = plan->bind.item[i];
    for (unsigned i = 0; i < SUGGEST_TRIES && ++port < 65536; i++) {
        unsigned asked = port;
        if (open_all(&trial, &asked, fd) != 0)
            continue;
        for (unsigned k = 0; k < trial.bind.count; k++)
            net_unlisten(fd[k]);
        return port;
    }
    return 0;
}

/* Descriptors that io_uring holds, listeners too, outlive a killed process for some milliseconds.
 * No process is seen to hold the port then, and after a moment it is free. */
static bool may_be_dying(const struct plan *plan, unsigned port)
{
    static const struct timespec moment = {.tv_nsec = DYING_NS};
    char owner[80];

    port = port_of(plan, plan->failed, port);
    if (is_unix(plan->bind.item[plan->failed]) || port_owner(port, owner, sizeof(owner)))
        return false;
    nanosleep(&moment, NULL);
    return true;
}

static void say_taken(const struct plan *plan, unsigned port)
{
    const char *address = plan->bind.item[plan->failed];
    char owner[80], advice[64] = "choose another with --port (0: any free one)";
    bool known = port_owner(port, owner, sizeof(owner));
    bool plain = plan->failed >= plan->plain_from;
    unsigned next = free_port(plan, port);

    if (plain)
        snprintf(advice, sizeof(advice), "stop it, or choose another with --redirect-http");
    else if (next)
        snprintf(advice, sizeof(advice), "stop it, or try --port %u", next);
    say_error("port %u on %s is taken by %s; %s", port, address, known ? owner : "another process",
              advice);
}

static int say_bad_address(const char *address)
{
    if (is_unix(address))
        say_error("cannot listen on '%s': a path of 1 to 107 bytes belongs after unix:", address);
    else
        say_error("cannot listen on '%s': not an address; write 127.0.0.1, ::1, * or unix:PATH",
                  address);
    return EXIT_USAGE;
}

static int say_failure(const struct plan *plan, unsigned port, int err)
{
    const char *address = plan->bind.item[plan->failed];

    port = port_of(plan, plan->failed, port);
    if (err == -EINVAL)
        return say_bad_address(address);
    if (is_unix(address) && err == -EADDRINUSE)
        say_error("cannot listen on %s: another server answers there, or it is no socket; "
                  "choose another path", address);
    else if (is_unix(address))
        say_error("cannot listen on %s: %s; its folder must exist and be writable", address,
                  say_why(err));
    else if (err == -EADDRINUSE)
        say_taken(plan, port);
    else if (err == -EACCES)
        say_error("cannot listen on port %u: low ports are for root; try --%s 8080, or start as "
                  "root with --user NAME", port,
                  plan->failed < plan->plain_from ? "port" : "redirect-http");
    else
        say_error("cannot listen on %s, port %u: %s; 'ip address' shows what this machine has",
                  address, port, say_why(err));
    return EXIT_LISTEN;
}

static int plan_fill(struct plan *plan, const struct serve_options *opt)
{
    plan->bind = opt->bind;
    if (opt->public) { /* unix sockets asked for are kept: they are no address of the network */
        plan->bind = (struct option_list){.item = {"*", "::"}, .count = 2};
        for (unsigned i = 0; i < opt->bind.count; i++) {
            if (!is_unix(opt->bind.item[i]))
                continue;
            if (plan->bind.count == OPTION_LIST_MAX)
                return -E2BIG;
            plan->bind.item[plan->bind.count++] = opt->bind.item[i];
        }
    }
    plan->how = (struct net_listening){.backlog = (int)opt->backlog,
                                       .mode = (unsigned)strtoul(opt->socket_mode, NULL, 8)};
    plan->lenient = opt->public ||
                    (opt->bind.count == 2 && strcmp(opt->bind.item[0], "127.0.0.1") == 0 &&
                     strcmp(opt->bind.item[1], "::1") == 0);
    memset(plan->skip, 0, sizeof(plan->skip));
    return 0;
}

/* The addresses of --redirect-http behind the others. */
static int plan_plain(struct plan *plan, const struct serve_options *opt)
{
    unsigned count = plan->bind.count;

    plan->plain_from = count;
    plan->plain_port = (unsigned)opt->redirect_http;
    for (unsigned i = 0; plan->plain_port && i < count; i++) {
        if (is_unix(plan->bind.item[i]))
            continue;
        if (plan->bind.count == OPTION_LIST_MAX) {
            say_error("--redirect-http: with it each address counts twice, and there may be %d; "
                      "leave some -b out", OPTION_LIST_MAX);
            return EXIT_USAGE;
        }
        plan->bind.item[plan->bind.count++] = plan->bind.item[i];
    }
    return EXIT_DONE;
}

/* What --redirect-http needs. */
static int check_plain(const struct server *srv, const struct serve_options *opt)
{
    if (!opt->redirect_http)
        return EXIT_DONE;
    if (!srv->hosts || !srv->hosts->tls.count)
        say_error("--redirect-http: there is no https to redirect to; add --tls");
    else if (opt->redirect_http == opt->port && !passed_count())
        say_error("--redirect-http: %u is the port of https, where plain requests are redirected "
                  "already; choose another", (unsigned)opt->port);
    else
        return EXIT_DONE;
    return EXIT_USAGE;
}

/* Which port is which: also of listeners that were passed. */
static void set_ports(struct server *srv, const struct serve_options *opt)
{
    srv->plain_port = (unsigned)opt->redirect_http;
    for (unsigned i = 0; i < srv->listeners && !srv->port; i++) {
        int port = net_port(srv->listener[0][i]);

        if (port > 0 && (unsigned)port != srv->plain_port)
            srv->port = (unsigned)port;
    }
}

/* The listeners of the other workers; a unix socket has one queue, and they share it. */
static int more_sets(struct server *srv, struct plan *plan, unsigned port)
{
    struct net_address a;
    int fd;

    for (unsigned set = 1; plan->how.reuseport && set < srv->arrangement.workers; set++) {
        for (unsigned i = 0, n = 0; i < plan->bind.count; i++) {
            if (plan->skip[i])
                continue;
            plan->failed = i;
            fd = net_address_parse(&a, plan->bind.item[i], (uint16_t)port_of(plan, i, port));
            if (is_unix(plan->bind.item[i]))
                fd = srv->listener[0][n];
            else if (!fd)
                fd = open_one(plan, &a);
            if (fd < 0)
                return say_failure(plan, port, fd);
            srv->listener[set][n++] = fd;
        }
    }
    return EXIT_DONE;
}

/* Once for each address: the listeners of a group are numbered as they were opened, which is by
 * worker.  Not for unix sockets, which all share. */
static int steer(const struct server *srv)
{
    int err = 0;

    for (unsigned i = 0; i < srv->listeners && !err; i++)
        if (srv->listener[1][i] != srv->listener[0][i])
            err = net_steer(srv->listener[0][i], srv->arrangement.workers);
    if (!err)
        return EXIT_DONE;
    say_error("cannot steer connections to workers: %s; try --accept reuseport", say_why(err));
    return EXIT_LISTEN;
}

/* All sets of listeners, on the port that was asked for or any free one. */
static int open_plan(struct server *srv, struct plan *plan, unsigned asked)
{
    int fd[OPTION_LIST_MAX], err = -EADDRINUSE, code;
    unsigned port = 0;

    for (unsigned i = 0; i < PORT_TRIES && err == -EADDRINUSE; i++) {
        port = asked;
        err = open_set(plan, &port, fd);
        if (asked && (err != -EADDRINUSE || !may_be_dying(plan, port)))
            break;
    }
    if (err)
        return say_failure(plan, port, err);
    srv->listener = calloc(srv->arrangement.workers, sizeof(*srv->listener));
    if (!srv->listener)
        return say_failure(plan, port, -ENOMEM);
    srv->listeners = 0;
    for (unsigned i = 0; i < plan->bind.count; i++) {
        if (fd[i] >= 0)
            srv->listener[0][srv->listeners++] = fd[i];
        else if (i < plan->plain_from)
            say("%s is not available on this machine: %s is left out",
                strchr(plan->bind.item[i], ':') ? "IPv6" : "IPv4", plan->bind.item[i]);
    }
    if (srv->listeners) {
        code = more_sets(srv, plan, port);
        return !code && srv->arrangement.steered ? steer(srv) : code;
    }
    say_error("cannot listen: this machine has neither IPv4 nor IPv6 on loopback; bring it up, or "
              "use -b unix:PATH");
    return EXIT_LISTEN;
}

int listen_open(struct server *srv, const struct serve_options *opt)
{
    struct plan plan;
    int code;

    if (plan_fill(&plan, opt)) {
        say_error("--public: it takes two of at most %d addresses; leave some -b out",
                  OPTION_LIST_MAX);
        return EXIT_USAGE;
    }
    code = check_plain(srv, opt);
    if (!code)
        code = plan_plain(&plan, opt);
    if (!code)
        code = listen_congestion(srv, opt->congestion, &plan.bind);
    if (code)
        return code;
    plan.how.reuseport = srv->arrangement.reuseport;
    plan.how.delay = srv->arrangement.delay;
    plan.how.defer_s = srv->arrangement.defer_s;
    plan.how.congestion = srv->arrangement.congestion;
    /* Two windows of --send-timeout may pass before the server ends a connection; the third is for
     * a server that is late.  If the kernel came first, the end would be counted as an error. */
    plan.how.stall_ms = (unsigned)srv->send_ms * 3;
    plan.before = srv->handover;
    code = passed_count() ? passed_take(srv, &plan.how)
                          : open_plan(srv, &plan, (unsigned)opt->port);
    if (!code)
        set_ports(srv, opt);
    return code;
}

bool listen_address(int fd, struct net_address *a)
{
    memset(a, 0, sizeof(*a));
    a->len = sizeof(a->sa);
    return getsockname(fd, (struct sockaddr *)&a->sa, &a->len) == 0;
}

/* Only the socket that was bound is given away, whatever the path means by now.  The owner of a
 * socket's file has no more of it than its permissions say. */
static int give(const char *path, uid_t uid, gid_t gid)
{
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    int err = 0;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0)
        err = -errno;
    else if (S_ISSOCK(st.st_mode) && st.st_uid == uid)
        ; /* the server before gave it */
    else if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1)
        err = -EEXIST;
    else if (fchownat(fd, "", uid, gid, AT_EMPTY_PATH) < 0)
        err = -errno;
    close(fd);
    return err;
}

unsigned listen_own(const struct server *srv, int fd[LISTENERS_MAX + 2])
{
    unsigned n = 0;

    for (unsigned i = 0; !srv->passed && i < srv->listeners; i++)
        fd[n++] = srv->listener[0][i];
    if (srv->metrics)
        fd[n++] = metrics_listener(srv->metrics);
    if (srv->handover)
        fd[n++] = handover_control(srv->handover);
    return n;
}

int listen_give(const struct server *srv, uid_t uid, gid_t gid)
{
    int fd[LISTENERS_MAX + 2], err = 0;
    unsigned n = listen_own(srv, fd);

    for (unsigned i = 0; i < n && !err; i++) {
        char text[NET_ADDRESS_TEXT];
        struct net_address a;

        if (fd[i] == handover_control(srv->handover) || !listen_address(fd[i], &a))
            continue; /* only those who start the server may ask it for its listeners */
        net_address_text(&a, text);
        if (is_unix(text))
            err = give(text + strlen("unix:"), uid, gid);
    }
    return err;
}

void listen_close(struct server *srv)
{
    for (unsigned i = 0; i < srv->listeners; i++) {
        if (srv->passed || srv->swept || srv->handed)
            close(srv->listener[0][i]);
        else
            net_unlisten(srv->listener[0][i]);
    }
    for (unsigned set = 1; srv->arrangement.reuseport && set < srv->arrangement.workers; set++)
        for (unsigned i = 0; i < srv->listeners; i++)
            if (srv->listener[set][i] > 0 && srv->listener[set][i] != srv->listener[0][i])
                close(srv->listener[set][i]);
    free(srv->listener);
    srv->listener = NULL;
    srv->listeners = 0;
}
