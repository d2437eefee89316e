/* SPDX-License-Identifier: MIT */
/* serve.c - rung serve: from options to a running server, and back.
 *
 * The order matters.  Signals are blocked before any thread exists.  Ports are bound while we may
 * still be root.  Everything else is opened as the user that remains, so that a log that can be
 * opened now can be reopened later.  Failures are reported here,
 * and what was opened is closed in reverse order.
 */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../base/version.h"
#include "address_limits.h"
#include "client.h"
#include "h2.h"
#include "handover.h"
#include "hosts.h"
#include "metrics.h"
#include "tls.h"

enum ktls { KTLS_OFF, KTLS_LARGE, KTLS_ALWAYS }; /* in the order of --ktls */

enum {
    DESCRIPTORS_RESERVED = 32, /* stdio, listeners, log, root, and a few for every loop */
    DESCRIPTORS_PER_HOST = 3,  /* ... and of each further host the folder, the log, what watches */
    DESCRIPTORS_PER_CONNECTION = 2 /* the socket, and the file it is sent */
};

/* --- Descriptors ------------------------------------------------------------------------------ */

/* Raise the limit of descriptors as far as possible.  Returns the limit. */
static uint64_t raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return 1024; /* Linux's default */
    if (limit.rlim_cur < limit.rlim_max) {
        rlim_t before = limit.rlim_cur;

        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
            return before;
    }
    return limit.rlim_cur;
}

/* Descriptors of connections that tls_last.c has at most: their session has ended, not yet their
 * stream. */
static unsigned descriptors_of_lasts(const struct server *srv, uint64_t descriptors)
{
    bool any = srv->hosts && srv->hosts->tls.count && srv->opt->ktls != KTLS_OFF;

    return any ? tls_last_limit(descriptors) : 0;
}

/* The limit of descriptors holds for each process by itself. */
static uint64_t connections_allowed(const struct server *srv, uint64_t descriptors)
{
    const struct serve_options *opt = srv->opt;
    uint64_t each = DESCRIPTORS_PER_CONNECTION + arrange_pipes_each(&srv->arrangement, srv->engine);
    uint64_t beside = DESCRIPTORS_RESERVED + arrange_pipes(&srv->arrangement, srv->engine) +
                      (opt->metrics ? METRICS_DESCRIPTORS : 0) +
                      descriptors_of_lasts(srv, descriptors) +
                      (srv->hosts ? (srv->hosts->count - 1) * DESCRIPTORS_PER_HOST : 0);
    uint64_t most = descriptors > beside + each ? (descriptors - beside) / each : 1;

    most *= srv->arrangement.processes ? srv->arrangement.workers : 1;
    if (!opt->max_connections)
        return most;
    if (opt->max_connections > most)
        say("--max-connections %llu: %llu descriptors allow only %llu connections that send files; "
            "raise ulimit -n",
            (unsigned long long)opt->max_connections, (unsigned long long)descriptors,
            (unsigned long long)most);
    return opt->max_connections;
}

/* --- User and options ------------------------------------------------------------------------- */

/* Give the Unix sockets to the user, leave a process behind that can remove their names, and become
 * the user. */
static int drop_privileges(const char *name, const struct server *srv, struct sweep **sweep)
{
    int code, err;
    const struct passwd *user = user_find(name, &code);

    if (!user)
        return code;
    if (user->pw_uid == 0) /* on purpose: see --user in options.def */
        return EXIT_DONE;
    err = listen_give(srv, user->pw_uid, user->pw_gid);
    if (!err)
        err = sweep_begin(sweep, srv);
    if (!err)
        return user_become_for_good(user);
    say_error("cannot give the Unix socket to user %s: %s; use a folder that only root may change",
              name, say_why(err));
    return EXIT_FAILED;
}

/* In the sandbox no name of a Unix socket can be removed: a process stays behind for that. */
static int leave_sweep(struct server *srv, struct sweep **sweep)
{
    bool needed = sandbox_wanted(srv->opt) && !srv->passed;
    int err = *sweep || !needed ? 0 : sweep_begin(sweep, srv);

    srv->sweep = *sweep;
    srv->swept = *sweep && needed;
    if (!err)
        return EXIT_DONE;
    say_error("cannot start: %s", say_why(err));
    return EXIT_FAILED;
}

/* Three octal digits, or four with a zero in front; at least the owner must be able to connect. */
static bool is_socket_mode(const char *text)
{
    size_t n = strlen(text);

    if (n == 4 && *text == '0') {
        text++;
        n--;
    }
    return n == 3 && strspn(text, "01234567") == 3 && (*text == '6' || *text == '7');
}

/* Checks that a single row of options.def cannot make; those of a site are in hosts_open.c. */
static int check_options(const struct serve_options *opt)
{
    if (!is_socket_mode(opt->socket_mode)) {
        say_error("--socket-mode '%s': write three octal digits, such as 660 or 0666, of which the "
                  "first is 6 or 7", opt->socket_mode);
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

/* --- Opening ---------------------------------------------------------------------------------- */

static int open_sites(struct server *srv)
{
    int code = hosts_open_sites(srv->hosts, srv->opt);

    srv->site = srv->hosts->row[0].site;
    if (!code)
        code = hosts_open_logs(srv->hosts, srv);
    srv->log = srv->hosts->row[0].log;
    return code;
}

static int open_rest(struct server *srv)
{
    int code = srv->hosts ? open_sites(srv) : EXIT_DONE, err;

    if (code)
        return code;
    err = stats_open_hosts(&srv->stats, srv->arrangement.workers + 1, /* and the supervisor */
                           srv->metrics && srv->hosts ? hosts_labelled(srv->hosts) : 0);
    if (!err) {
        srv->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        err = srv->stop_fd < 0 ? -errno : 0;
    }
    if (!err)
        return EXIT_DONE;
    say_error("cannot start: %s", say_why(err));
    return EXIT_FAILED;
}

static void close_rest(struct server *srv)
{
    if (srv->stop_fd >= 0)
        close(srv->stop_fd);
    if (srv->stats)
        stats_close(srv->stats);
    if (srv->hosts)
        hosts_close_logs(srv->hosts);
    tls_close(srv->tls);
    metrics_close(srv->metrics);
    clients_close(srv->clients);
    limits_close(srv->limits);
}

/* --- Running ---------------------------------------------------------------------------------- */

static void say_hello(const struct server *srv, const char *why,
                      const struct listen_around *around)
{
    const char *folder = srv->hosts ? srv->hosts->row[0].what.folder : NULL;
    const char *by = srv->opt->engine ? "" : "auto: ";
    char urls[SAY_LINE_BYTES];

    if (srv->engine->model == ENGINE_NONE) {
        say("%s: no sockets, nothing to open in a browser", srv->engine->name);
        return;
    }
    listen_text(srv, urls, sizeof(urls));
    if (folder)
        say("serving %s%s at %s", srv->only && !folder[1] ? "" : folder,
            srv->only ? srv->only : "", urls);
    else
        say("echoing at %s", urls);
    if (srv->plain_port)
        say("http on port %u is redirected to https", srv->plain_port);
    if (srv->hosts)
        hosts_say(srv->hosts);
    listen_say_public(srv, around);
    metrics_say(srv->metrics);
    if (srv->arrangement.workers > 1)
        say("engine %s (%s%s), %u workers; Ctrl-C stops", srv->engine->name, by, why,
            srv->arrangement.workers);
    else
        say("engine %s (%s%s); Ctrl-C stops", srv->engine->name, by, why);
}

static void say_farewell(const struct server *srv)
{
    uint64_t answers = stats_sum(srv->stats, STAT_ANSWERS);
    uint64_t connections = stats_sum(srv->stats, STAT_ACCEPTED);
    uint64_t stack = stats_sum(srv->stats, STAT_STACK_MOST);

    say("stopped after %llu answer%s on %llu connection%s, %llu bytes sent",
        (unsigned long long)answers, answers == 1 ? "" : "s", (unsigned long long)connections,
        connections == 1 ? "" : "s", (unsigned long long)stats_sum(srv->stats, STAT_BYTES));
    if (stack)
        say("the deepest connection touched %llu of its stack's %u bytes",
            (unsigned long long)stack, srv->engine->stack_bytes);
}

/* The last thing that is done with all rights. */
static int enter_sandbox(const struct server *srv, const char *why)
{
    struct listen_around around;
    int code;

    listen_around_look(&around, srv);
    code = sandbox_enter(srv);
    if (!code)
        say_hello(srv, why, &around);
    listen_around_drop(&around);
    return code;
}

static int run(struct server *srv, const char *why)
{
    struct signals *signals;
    int err = signals_open(&signals, srv), code;

    if (!err) {
        code = enter_sandbox(srv, why);
        if (code) {
            signals_close(signals);
            return code;
        }
    }
    if (!err && srv->arrangement.processes)
        srv->signals = signals;
    else if (!err && (err = signals_watch(signals)) != 0)
        signals_close(signals);
    if (err) {
        say_error("cannot wait for signals: %s", say_why(err));
        return EXIT_FAILED;
    }
    notify("READY=1"); /* clients that connect from now on are queued, and then served */
    err = server_run(srv);
    signals_close(signals);
    if (err) {
        say_error("engine %s failed: %s", srv->engine->name, say_why(err));
        return EXIT_FAILED;
    }
    if (srv->engine->model != ENGINE_NONE)
        say_farewell(srv);
    return EXIT_DONE;
}

static void fill_server(struct server *srv, const struct serve_options *opt)
{
    srv->opt = opt;
    srv->proto = &http_proto;
    srv->stop_fd = -1;
    srv->head_ms = opt->head_timeout;
    srv->idle_ms = opt->idle_timeout;
    srv->send_ms = opt->send_timeout;
    srv->drain_ms = opt->drain_timeout;
    srv->backlog = (unsigned)opt->backlog;
    srv->progress_bytes = (uint32_t)opt->min_progress;
    srv->body_bytes_max = (uint32_t)opt->max_body;
    if (opt->send == SEND_AUTO && opt->gather) /* otherwise a way to send was asked for */
        srv->cache_bytes = opt->cache;
    srv->server_field = opt->server_name ? "rung/" RUNG_VERSION : "rung";
    srv->server_timing = opt->server_timing;
    srv->health = opt->health;
    if (srv->server_timing || opt->metrics)
        probe_watch();
}

/* Reads certificates while we may still be root, because some keys are readable only by root.
 * Asking the kernel for TLS as root also makes it load its module. */
static int open_tls(struct server *srv)
{
    struct tls_offer offer = {.kernel = srv->opt->ktls != KTLS_OFF && !tls_kernel_refusal()};
    const struct conn_proto *h2;
    int code;

    if (srv->engine->model == ENGINE_NONE) {
        say_error("--tls: engine %s has no clients", srv->engine->name);
        return EXIT_USAGE;
    }
    if (!srv->hosts->tls.count) {
        say_error("--tls-client-ca: without TLS no client shows a certificate; add --tls");
        return EXIT_USAGE;
    }
    h2 = srv->proto == &http_proto ? h2_protocol() : NULL;
    offer.h2 = h2 != NULL;
    code = tls_open(&srv->tls, &srv->hosts->tls, offer);
    if (code)
        return code;
    srv->tls->inner = srv->proto;
    srv->tls->h2 = h2;
    srv->tls->kernel = offer.kernel ? &tls_kernel : NULL;
    srv->tls->kernel_always = srv->opt->ktls == KTLS_ALWAYS;
    srv->proto = &tls_proto;
    return EXIT_DONE;
}

static int open_handover(struct server *srv)
{
    if (srv->engine->model == ENGINE_NONE)
        say_error("--handover: engine %s has no clients", srv->engine->name);
    else if (passed_count())
        say_error("--handover: what systemd passes outlives a server anyway; leave it out");
    else
        return handover_open(srv, srv->opt->handover);
    return EXIT_USAGE;
}

static int open_metrics(struct server *srv)
{
    if (srv->engine->model != ENGINE_NONE)
        return metrics_open(srv);
    say_error("--metrics: engine %s has no clients to count", srv->engine->name);
    return EXIT_USAGE;
}

/* From the choice of an engine to the last message; whatever was opened is closed. */
static int serve(struct server *srv, const struct serve_options *opt)
{
    struct sweep *sweep = NULL;
    const char *why;
    int code;

    srv->engine = engine_choose(opt, &why);
    if (!srv->engine)
        return EXIT_MISSING;
    if (signals_block() != 0)
        return EXIT_FAILED;
    fill_server(srv, opt);
    if (!srv->hosts)
        srv->proto = &echo_proto;
    notify_open();
    code = arrange(srv, opt);
    if (!code)
        srv->connections_max = connections_allowed(srv, raise_descriptors());
    if (!code && opt->handover)
        code = open_handover(srv);
    if (!code && srv->engine->model != ENGINE_NONE)
        code = listen_open(srv, opt);
    if (!code && opt->metrics)
        code = open_metrics(srv);
    handover_rest(srv->handover);
    if (!code && srv->hosts && (srv->hosts->tls.count || opt->tls_client_ca))
        code = open_tls(srv);
    if (!code)
        code = clients_open(srv);
    if (!code)
        code = limits_open(srv);
    if (opt->proxy_protocol)
        srv->proto = proxy_before(srv->proto);
    if (!code && opt->user)
        code = drop_privileges(opt->user, srv, &sweep);
    if (!code)
        code = leave_sweep(srv, &sweep);
    if (!code)
        code = open_rest(srv);
    if (!code)
        code = run(srv, why);
    listen_close(srv);
    handover_close(srv->handover);
    close_rest(srv);
    sweep_end(sweep);
    notify_close();
    return code;
}

/* hosts: NULL for echo. */
static int serve_hosts(const struct serve_options *opt, struct hosts *hosts)
{
    /* Zeroed; workers that are processes see the same counters and the same stop flag. */
    struct server *srv = mmap(NULL, sizeof(*srv), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int code;

    if (srv == MAP_FAILED) {
        say_error("cannot start: %s", say_why(errno));
        return EXIT_FAILED;
    }
    srv->hosts = hosts;
    if (hosts) {
        srv->only = hosts->row[0].what.file;
        srv->route = hosts->row[0].route.used ? &hosts->row[0].route : NULL;
    }
    code = serve(srv, opt);
    munmap(srv, sizeof(*srv));
    return code;
}

int serve_run(const struct serve_config *config)
{
    bool files = config->root || config->hosts;
    struct hosts *hosts = NULL;
    int code;

    say_quiet(config->opt.quiet);
    code = check_options(&config->opt);
    if (!code && files)
        code = hosts_open(&hosts, config);
    if (!code && files)
        code = hosts_check_logs(hosts, config->opt.config);
    if (!code)
        code = serve_hosts(&config->opt, hosts);
    hosts_close(hosts);
    return code;
}
