/* SPDX-License-Identifier: MIT */
/* plan_target.c - a URL becomes a target of the plan: its address is found, and the bytes of its
 * request are written once.
 */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include "../../base/say.h"
#include "../../base/version.h"
#include "h2_fields.h"
#include "workload.h"

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

bool plan_names(const char *header, const char *field)
{
    return strncasecmp(header, field, strlen(field)) == 0 && header[strlen(field)] == ':';
}

int plan_check_headers(const struct load_options *o)
{
    const struct option_list *headers = &o->header;

    for (unsigned i = 0; i < headers->count; i++) {
        const char *text = headers->item[i];

        if (!header_is_fine(text)) {
            say_error("--header: '%s' is not a field line such as 'Accept: text/html'", text);
            return EXIT_USAGE;
        }
        if (plan_names(text, "Connection") || plan_names(text, "Content-Length") ||
            plan_names(text, "Transfer-Encoding")) {
            say_error("--header: '%s' would change where messages end; see --keep-alive", text);
            return EXIT_USAGE;
        }
        if (o->http2 && h2_fields_forbid(text)) {
            say_error("--header: '%s' is a matter of HTTP/1; leave it out with --http2", text);
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
        host = host || plan_names(headers->item[i], "Host");
        agent = agent || plan_names(headers->item[i], "User-Agent");
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
    snprintf(peer->host, sizeof(peer->host), "%.*s", (int)u->host.len, u->host.ptr);
    peer->host[strcspn(peer->host, "%")] = 0;
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
    if (p->targets > 1 && (p->echo != u.echo || p->secure != u.secure)) {
        say_error("'%s': URLs of http://, https:// and echo:// do not go together", t->url);
        return EXIT_USAGE;
    }
    p->echo = u.echo;
    p->secure = u.secure;
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
