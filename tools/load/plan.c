/* SPDX-License-Identifier: MIT */
/* plan.c - turns options into a plan: addresses found, requests written out.
 *
 * Every mistake in the command line is found here, before the first connection is made.  The bytes
 * of every request are made once and sent as they are.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include "../../base/say.h"
#include "../../base/version.h"
#include "workload.h"

enum { FILES_SPARE = 60, FILES_OF_THREAD = 2 /* descriptors other than connections */ };

static unsigned at_least(uint64_t n, unsigned least)
{
    return n > least ? (unsigned)n : least;
}

/* --- Requests --------------------------------------------------------------------------------- */

/* Whether the text is a field line; one that could end the head early is not. */
static bool header_is_fine(const char *text)
{
    size_t name = strcspn(text, ":");

    if (!text[name] || name == 0 || strpbrk(text, "\r\n"))
        return false;
    for (size_t i = 0; i < name; i++)
        if (text[i] <= ' ' || text[i] == 127)
            return false;
    return true;
}

static bool names(const char *header, const char *field)
{
    return strncasecmp(header, field, strlen(field)) == 0 && header[strlen(field)] == ':';
}

static int check_headers(const struct option_list *headers)
{
    for (unsigned i = 0; i < headers->count; i++) {
        const char *text = headers->item[i];

        if (!header_is_fine(text)) {
            say_error("--header: '%s' is not a field line such as 'Accept: text/html'", text);
            return EXIT_USAGE;
        }
        if (names(text, "Connection") || names(text, "Content-Length") ||
            names(text, "Transfer-Encoding")) {
            say_error("--header: '%s' would change where messages end; see --keep-alive", text);
            return EXIT_USAGE;
        }
    }
    return 0;
}

/* Whether a request may be the last one of its connection. */
static bool asks_to_close(const struct load_options *o)
{
    return !o->keep_alive || o->per_connection || o->trial;
}

static struct slice request_text(struct plan *p, const struct url *u,
                                 enum http_method method, bool last)
{
    static const char *const methods[] = {"GET", "HEAD", "OPTIONS"};
    const struct option_list *headers = &p->opt->header;
    struct slice s = {NULL, 0};
    bool host = false, agent = false;
    char *text = NULL;
    FILE *out = open_memstream(&text, &s.len);

    if (!out)
        return s;
    for (unsigned i = 0; i < headers->count; i++) {
        host = host || names(headers->item[i], "Host");
        agent = agent || names(headers->item[i], "User-Agent");
    }
    fprintf(out, "%s %.*s HTTP/1.1\r\n", methods[method], (int)u->path.len, u->path.ptr);
    if (!host)
        url_put_host(u, out);
    if (!agent)
        fprintf(out, "User-Agent: rung-load/" RUNG_VERSION "\r\n");
    for (unsigned i = 0; i < headers->count; i++)
        fprintf(out, "%s\r\n", headers->item[i]);
    fprintf(out, "%s\r\n", last ? "Connection: close\r\n" : "");
    if (fclose(out) == 0)
        s.ptr = plan_keep_copy(p, text, s.len);
    free(text);
    return s;
}

/* --- Targets and peers ------------------------------------------------------------------------ */

static int find_peer(struct plan *p, const struct url *u, unsigned *found)
{
    struct peer *peer;
    char authority[sizeof(peer->authority)];
    int err;

    snprintf(authority, sizeof(authority), "%.*s", (int)u->authority.len, u->authority.ptr);
    for (*found = 0; *found < p->peers; (*found)++)
        if (strcmp(p->peer[*found].authority, authority) == 0)
            return 0;
    peer = realloc(p->peer, (p->peers + 1) * sizeof(*peer));
    if (!peer)
        return EXIT_FAILED;
    p->peer = peer;
    peer += p->peers;
    memset(peer, 0, sizeof(*peer));
    memcpy(peer->authority, authority, sizeof(authority));
    err = url_resolve(u, p->opt, peer);
    if (err == -ENAMETOOLONG) {
        say_error("--unix: %s has more than %d bytes, which is all that the address of a socket "
                  "holds", p->opt->unix_path, UNIX_PATH_MAX_BYTES);
        return EXIT_USAGE;
    }
    if (err) {
        say_error("cannot connect to %s: %s", authority, err > 0 ? gai_strerror(-err)
                                                                  : say_why(err));
        return EXIT_CONNECT;
    }
    p->peers++;
    return 0;
}

/* Fills a target from t->url, its own copy of the URL. */
static int fill_target(struct plan *p, struct target *t, const struct wish *wish)
{
    struct url u;
    const char *wrong = url_parse(&u, t->url);
    int code;

    if (wrong) {
        say_error("'%s' is no URL that can be asked: %s", t->url, wrong);
        return EXIT_USAGE;
    }
    if (p->targets > 1 && p->echo != u.echo) {
        say_error("'%s': http:// and echo:// do not go together", t->url);
        return EXIT_USAGE;
    }
    p->echo = u.echo;
    code = find_peer(p, &u, &t->peer);
    if (!code && p->opt->check && !u.echo && !t->also)
        code = files_target(p, t, wish->may_lack_file);
    if (code || u.echo)
        return code;
    t->request[0] = request_text(p, &u, t->method, false);
    t->request[1] = asks_to_close(p->opt) ? request_text(p, &u, t->method, true) : t->request[0];
    return t->request[0].ptr && t->request[1].ptr ? 0 : EXIT_FAILED;
}

int plan_add(struct plan *p, const char *url, const struct wish *wish)
{
    struct target *t;

    if (p->targets == TARGETS_MAX) {
        say_error("more than %d URLs, which is all that one run takes", TARGETS_MAX);
        return EXIT_USAGE;
    }
    if ((p->targets & (p->targets - 1)) == 0) { /* full: 0, 1, 2, 4, 8 ... */
        t = realloc(p->target, (p->targets ? 2 * p->targets : 1) * sizeof(*t));
        if (!t)
            return EXIT_FAILED;
        p->target = t;
    }
    t = &p->target[p->targets];
    memset(t, 0, sizeof(*t));
    t->url = plan_keep_copy(p, url, strlen(url) + 1);
    t->method = (uint8_t)wish->method;
    t->also = (uint16_t)wish->also;
    if (!t->url)
        return EXIT_FAILED;
    p->targets++; /* even if the rest fails, plan_free() knows it */
    return fill_target(p, t, wish);
}

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

        wants = wants || (names(headers->item[i], "Accept-Encoding") &&
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
        {o->message_min > o->message_max, "--message-min: it is above --message-max"},
        {o->find_knee && (o->csv || o->hgrm || o->samples),
         "--find-knee: --csv, --hgrm and --samples are of one run; use --json for all steps"},
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
    p->depth = (unsigned)o->pipeline;
    for (p->ring = 1; p->ring < p->depth;)
        p->ring *= 2;
    p->per_connection = o->keep_alive ? (uint32_t)o->per_connection : 1;
    p->duration_ns = o->duration * 1000000;
    if (!o->duration && !p->requests)
        p->duration_ns = 10 * SECOND_NS;
    p->timeout_ns = o->timeout * 1000000;
    p->unix_socket = o->unix_path != NULL;
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
    code = check_headers(&opt->header);
    code = code ? code : workload_read(p, found);
    if (code)
        return code;
    set_numbers(p);
    code = code ? code : check_sense(p);
    code = code ? code : read_sources(p);
    code = code ? code : check_descriptors(p);
    code = code ? code : list_targets(p);
    code = code ? code : workload_make(p);
    code = code ? code : fill_pool(p);
    return code;
}

void plan_free(struct plan *p)
{
    workload_free(p);
    plan_keep_free(p);
    for (unsigned i = 0; i < p->peers; i++)
        free(p->peer[i].target);
    free(p->target);
    free(p->peer);
    free(p->pool);
}
