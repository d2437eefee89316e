/* SPDX-License-Identifier: MIT */
/* rules.c - from the options to what is added to answers: see rules.h and route.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "route.h"
#include "serve.h"

/* --security-headers: what most scanners ask for, and what breaks few sites. */
static const char *const secure[] = {
    "X-Frame-Options: SAMEORIGIN",
    "Referrer-Policy: strict-origin-when-cross-origin",
    "Cross-Origin-Opener-Policy: same-origin",
    "Permissions-Policy: camera=(), geolocation=(), microphone=()", NULL};

static const char policy[] =
    "Content-Security-Policy: frame-ancestors 'self'; base-uri 'self'; object-src 'none'";

/* Visitors can accept an unknown certificate by hand; this field would forbid it. */
static bool is_https(const struct serve_options *opt)
{
    for (unsigned i = 0; i < opt->tls.count; i++)
        if (strcmp(opt->tls.item[i], "self") == 0)
            return false;
    return opt->tls.count > 0;
}

static int add_secure(struct fields *f, const struct serve_options *opt)
{
    int code = EXIT_DONE;

    for (unsigned i = 0; secure[i] && !code; i++)
        code = fields_add(f, FIELD_ALWAYS, secure[i]);
    if (!code)
        code = fields_add(f, FIELD_FILES, policy);
    if (!code && is_https(opt))
        code = fields_add(f, FIELD_SECURE, "Strict-Transport-Security: max-age=31536000");
    return code;
}

/* A page of another site may read all answers, errors too, and may send any field (Fetch, CORS
 * protocol).  The wildcard does not cover Authorization. */
static int add_cors(struct fields *f)
{
    int code = fields_add(f, FIELD_ALWAYS, "Access-Control-Allow-Origin: *");

    if (!code)
        code = fields_add(f, FIELD_ALWAYS, "Access-Control-Expose-Headers: *");
    if (!code)
        code = fields_add(f, FIELD_PREFLIGHT, "Access-Control-Allow-Headers: *, Authorization");
    if (!code)
        code = fields_add(f, FIELD_PREFLIGHT, "Access-Control-Max-Age: 86400");
    return code;
}

static int read_fields(struct fields *f, const struct serve_options *opt)
{
    enum { SECOND_MS = 1000 };
    char age[64];
    int code = opt->security_headers ? add_secure(f, opt) : EXIT_DONE;

    if (!code && opt->cors)
        code = add_cors(f);
    if (!code && opt->max_age) {
        snprintf(age, sizeof(age), "Cache-Control: max-age=%llu",
                 (unsigned long long)opt->max_age / SECOND_MS);
        code = fields_add(f, FIELD_FILES, age);
    }
    return code ? code : fields_read(f, &opt->header);
}

/* r->fields stays NULL if the options set no field. */
static int open_fields(struct route *r, const struct serve_options *opt)
{
    struct fields *f = calloc(1, sizeof(*f));
    int code;

    if (!f) {
        say_error("cannot start: %s", say_why(ENOMEM));
        return EXIT_FAILED;
    }
    code = read_fields(f, opt);
    if (!code && f->count)
        r->fields = f;
    else
        free(f);
    return code;
}

static int open_moves(struct route *r, const struct serve_options *opt)
{
    if (!opt->redirect.count)
        return EXIT_DONE;
    r->moves = calloc(1, sizeof(*r->moves));
    if (r->moves)
        return moves_read(r->moves, &opt->redirect);
    say_error("cannot start: %s", say_why(ENOMEM));
    return EXIT_FAILED;
}

int route_open(struct route *r, const struct serve_options *opt, const char *only)
{
    int code;

    *r = (struct route){.only = only, .only_len = only ? strlen(only) : 0,
                        .pretty = opt->pretty_urls, .spa = opt->spa, .hidden = opt->hidden,
                        .index = only ? only + 1 : opt->index};
    code = open_fields(r, opt);
    if (!code)
        code = open_moves(r, opt);
    if (!code)
        code = peers_open(&r->peers, opt);
    if (!code && opt->auth)
        code = auth_open(&r->auth, opt->auth);
    r->used = r->only || r->pretty || r->spa || r->fields || r->moves || r->peers || r->auth;
    if (code)
        route_close(r);
    return code;
}

void route_close(struct route *r)
{
    free(r->fields);
    free(r->moves);
    peers_close(r->peers);
    auth_close(r->auth);
    *r = (struct route){0};
}
