/* SPDX-License-Identifier: MIT */
/* plan.c - turns options into a plan.
 *
 * Every mistake in the command line is found before the first connection is made.  plan_target.c
 * finds addresses and writes requests.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include "../../base/say.h"
#include "h2.h"
#include "tls.h"
#include "workload.h"

enum { FILES_SPARE = 60, FILES_OF_THREAD = 2 /* descriptors other than connections */ };

static unsigned at_least(uint64_t n, unsigned least)
{
    return n > least ? (unsigned)n : least;
}

/* --- Targets ---------------------------------------------------------------------------------- */

static int list_targets(struct plan *p)
{
    for (unsigned i = 0; i < p->targets; i++) {
        struct peer *peer = &p->peer[p->target[i].peer];

        if (!peer->target)
            peer->target = calloc(p->targets, sizeof(*peer->target));
        if (!peer->target)
            return EXIT_FAILED;
        peer->target[peer->targets++] = i;
    }
    return 0;
}

/* --- The rest --------------------------------------------------------------------------------- */

/* Whether this machine has that address: 0 or -errno.  No port need be free: ports in TIME-WAIT
 * serve a connection once more, but are not given to a bind() that only asks for a port. */
static int try_source(const struct sockaddr_storage *sa)
{
    int fd = socket(sa->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1, err;

    if (fd < 0)
        return -errno;
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    err = bind(fd, (const struct sockaddr *)sa, sizeof(*sa)) != 0 ? -errno : 0;
    close(fd);
    return err;
}

static int read_source(struct plan *p, const char *text)
{
    struct sockaddr_storage *sa = &p->source[p->sources];
    int err;

    if (p->sources == SOURCES_MAX) {
        say_error("--source: at most %d addresses", SOURCES_MAX);
        return EXIT_USAGE;
    }
    sa->ss_family = strchr(text, ':') ? AF_INET6 : AF_INET;
    if (inet_pton(sa->ss_family, text,
                  sa->ss_family == AF_INET ? (void *)&((struct sockaddr_in *)sa)->sin_addr
                                           : &((struct sockaddr_in6 *)sa)->sin6_addr) != 1) {
        say_error("--source: '%s' is not an IPv4 or IPv6 address", text);
        return EXIT_USAGE;
    }
    for (unsigned i = 0; i < p->peers; i++)
        if (p->peer[i].sa.ss_family != sa->ss_family) {
            say_error("--source: %s cannot reach %s: another family of addresses", text,
                      p->peer[i].authority);
            return EXIT_USAGE;
        }
    err = try_source(sa);
    if (err) {
        say_error("--source: cannot connect from %s: %s", text, say_why(err));
        return EXIT_USAGE;
    }
    p->sources++;
    return 0;
}

static int read_sources(struct plan *p)
{
    char *text = p->opt->source ? strdup(p->opt->source) : NULL, *save = NULL;
    int code = p->opt->source && !text ? EXIT_FAILED : 0;

    for (char *s = code || !text ? NULL : strtok_r(text, ", ", &save); s && !code;
         s = strtok_r(NULL, ", ", &save))
        code = read_source(p, s);
    if (!code && text && !p->sources) {
        say_error("--source: '%s' names no address", p->opt->source);
        code = EXIT_USAGE;
    }
    free(text);
    return code;
}

/* Raises the limit as far as the system allows. */
static int check_descriptors(const struct plan *p)
{
    unsigned spare = FILES_SPARE + FILES_OF_THREAD * p->threads;
    unsigned needed = p->connections + p->idle + spare;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur >= needed)
        return 0;
    say_error("%u connections need %u descriptors, and this process may have %llu; raise the hard "
              "limit (ulimit -Hn), or make at most %llu connections",
              p->connections + p->idle, needed, (unsigned long long)limit.rlim_cur,
              limit.rlim_cur > spare ? (unsigned long long)limit.rlim_cur - spare : 0);
    return EXIT_USAGE;
}

/* Whether a header asks for a form other than that of the file. */
static bool wants_coding(const struct option_list *headers)
{
    bool wants = false;

    for (unsigned i = 0; i < headers->count; i++) {
        const char *value = headers->item[i] + strcspn(headers->item[i], ":") + 1;

        wants = wants || (plan_names(headers->item[i], "Accept-Encoding") &&
                          strcasecmp(value + strspn(value, " \t"), "identity") != 0);
    }
    return wants;
}

static int check_sense(const struct plan *p)
{
    const struct load_options *o = p->opt;
    const struct {
        bool wrong;
        const char *why;
    } rules[] = {
        {p->echo && (o->check || o->body_check || o->header.count || o->method || o->mix),
         "echo:// has messages, and no heads or files; every message is compared"},
        {p->echo && o->show, "--show: messages of echo:// are random bytes, and have no heads"},
        {o->message_min > o->message_max, "--message-min: it is above --message-max"},
        {o->find_knee && (o->csv || o->hgrm || o->samples || o->show),
         "--find-knee: --csv, --hgrm, --samples and --show are of one run; --json has all steps"},
        {o->samples && (!o->requests || o->requests > SAMPLES_MAX),
         "--samples: of how many requests? -n says it, 50 million at most"},
        {o->find_knee && o->requests,
         "--find-knee: a step lasts a time (-d); of a number of requests (-n) all would leave in "
         "the end, and any rate would pass for kept"},
        {o->arrivals && !o->rate && !o->find_knee,
         "--arrivals: of which rate? -R says it"},
        {o->thinking && !o->think, "--thinking: how long? --think says it"},
        {o->check && wants_coding(&o->header),
         "--check: files are compared as they are; leave Accept-Encoding to --mix gzip=100%"},
        {o->check && o->method == METHOD_OPTIONS, "--check: an answer to OPTIONS is no file"},
        {o->cacert && !p->secure, "--cacert: it is about certificates; the URL is not https://"},
        {o->resume && !p->secure, "--resume: it is about TLS; the URL is not https://"},
        {o->http2 && p->echo, "--http2: messages of echo:// have no frames"},
        {o->http2 && o->pipeline > 1,
         "--pipeline: it is HTTP/1's; with --http2 requests in flight are --streams"},
        {o->streams > 1 && !o->http2, "--streams: HTTP/1 has none; add --http2"},
        {o->streams > 1 && !o->keep_alive,
         "--streams: they need connections that stay: --keep-alive on"},
        {o->status && o->status < 100, "--status: it has three digits, such as 304"},
        {o->pipeline > 1 && !o->keep_alive,
         "--pipeline: it needs connections that stay: --keep-alive on"},
    };

    for (unsigned i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (rules[i].wrong) {
            say_error("%s", rules[i].why);
            return EXIT_USAGE;
        }
    for (unsigned i = 0; i < o->fail_if.count; i++)
        if (limit_judge(o->fail_if.item[i], NULL, NULL) != 0) {
            say_error("--fail-if: '%s' is not a limit such as p99>5ms, errors>0 or rps<1000",
                      o->fail_if.item[i]);
            return EXIT_USAGE;
        }
    return 0;
}

static int fill_pool(struct plan *p)
{
    uint64_t x = p->opt->seed * 0x9e3779b97f4a7c15ull + 1;

    if (!p->echo)
        return 0;
    p->pool = malloc(POOL_BYTES);
    if (!p->pool)
        return EXIT_FAILED;
    for (unsigned i = 0; i < POOL_BYTES; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        p->pool[i] = (char)(x >> 32);
    }
    return 0;
}

static void set_numbers(struct plan *p)
{
    const struct load_options *o = p->opt;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    p->connections = (unsigned)o->connections;
    p->idle = (unsigned)o->idle;
    p->threads = o->threads ? (unsigned)o->threads : at_least((uint64_t)(cpus > 0 ? cpus : 1), 1);
    p->requests = p->replay ? replay_requests(p) : o->requests;
    p->open = o->rate || (p->replay && p->replay->at_ns);
    if (p->requests && p->requests < p->connections)
        p->connections = (unsigned)p->requests; /* the others would have nothing to ask */
    if (p->threads > p->connections)
        p->threads = p->connections;
    p->h2 = o->http2;
    p->wired = p->h2 || p->secure;
    p->depth = (unsigned)(p->h2 ? o->streams : o->pipeline);
    for (p->ring = 1; p->ring < p->depth;)
        p->ring *= 2;
    p->per_connection = o->keep_alive ? (uint32_t)o->per_connection : 1;
    p->duration_ns = o->duration * 1000000;
    if (!o->duration && !p->requests)
        p->duration_ns = 10 * SECOND_NS;
    p->timeout_ns = o->timeout * 1000000;
    p->unix_socket = o->unix_path != NULL;
}

static int check_http2(void)
{
    if (h2_is_built())
        return 0;
    say_error("--http2: this program was built without HTTP/2; install libnghttp2-dev and build "
              "it again");
    return EXIT_MISSING;
}

int plan_make(struct plan *p, const struct load_options *opt, const struct option_found *found)
{
    int code;

    memset(p, 0, sizeof(*p));
    p->opt = opt;
    p->method = opt->method == METHOD_HEAD ? HTTP_HEAD :
                opt->method == METHOD_OPTIONS ? HTTP_OPTIONS : HTTP_GET;
    if (!found->operands && !opt->urls) {
        say_error("no URL is given: rung load URL; rung load --help shows examples");
        return EXIT_USAGE;
    }
    code = plan_check_headers(opt);
    code = code ? code : workload_read(p, found);
    if (code)
        return code;
    set_numbers(p);
    code = code ? code : check_sense(p);
    code = code ? code : read_sources(p);
    code = code ? code : check_descriptors(p);
    code = code || !p->h2 ? code : check_http2();
    code = code || !p->secure ? code : tls_open(&p->tls, p);
    code = code ? code : list_targets(p);
    code = code ? code : workload_make(p);
    code = code ? code : fill_pool(p);
    return code;
}

void plan_free(struct plan *p)
{
    workload_free(p);
    plan_keep_free(p);
    tls_close(p->tls);
    for (unsigned i = 0; i < p->peers; i++)
        free(p->peer[i].target);
    free(p->target);
    free(p->peer);
    free(p->pool);
}
