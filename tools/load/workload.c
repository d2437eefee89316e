/* SPDX-License-Identifier: MIT */
/* workload.c - what is requested and in which order: the options for it, as part of the plan.
 *
 * URLs come from the command line, a file, a folder or a log.  They are requested in turn, by
 * Zipf's law, or as the log says.  Options that do not go together are refused here, with the
 * reason.
 */
#include <stdlib.h>
#include "../../base/say.h"
#include "workload.h"

enum { ZIPF_MOST = 10 };

/* --- What goes together ----------------------------------------------------------------------- */

static int check_sense(const struct load_options *o, unsigned operands)
{
    bool log = o->replay, walk = o->walk;
    const struct {
        bool wrong;
        const char *why;
    } rules[] = {
        {walk + log + (o->urls != NULL) > 1,
         "--urls, --walk and --replay: each says what is asked; use one of them"},
        {walk && operands != 1, "--walk: it needs one URL, of the server that has the folder"},
        {log && operands != 1, "--replay: it needs one URL, of the server that is to be asked"},
        {log && o->zipf, "--zipf: the order of a replay is the log's"},
        {log && o->mix, "--mix: a replay asks what the log says"},
        {log && o->method, "--method: the log says which it is"},
        {log && o->body_check, "--body-check: a log has heads and failures too; use --check"},
        {o->replay_speed && !log, "--replay-speed: of what? --replay LOG says it"},
        {o->replay_speed && o->rate,
         "--replay-speed and --rate: requests leave at the log's times or at a rate, not both"},
        {o->replay_speed && o->find_knee,
         "--find-knee: it needs a rate that can rise; leave --replay-speed out"},
        {o->mix && o->method, "--mix: only GET has all these kinds"},
        {o->mix && o->status, "--status: with --mix each kind has its own"},
        {o->think && (o->rate || o->find_knee || o->replay_speed),
         "--think: an open loop has its times already; a pause after each answer needs a closed "
         "one, without --rate, --find-knee and --replay-speed"},
        {o->think && o->pipeline > 1,
         "--think: who pauses after each answer has one request under way; leave --pipeline out"},
        {o->think && (!o->keep_alive || o->per_connection == 1),
         "--think: there is no next request on a connection that has only one"},
    };

    for (unsigned i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (rules[i].wrong) {
            say_error("%s", rules[i].why);
            return EXIT_USAGE;
        }
    return 0;
}

static int read_zipf(struct plan *p)
{
    const char *text = p->opt->zipf;
    char *end;

    if (!text)
        return 0;
    p->zipf = strtod(text, &end);
    if (end == text || *end || !(p->zipf >= 0) || p->zipf > ZIPF_MOST) {
        say_error("--zipf: '%s' is not a number from 0 (all alike) to %d; 1 is usual", text,
                  ZIPF_MOST);
        return EXIT_USAGE;
    }
    return 0;
}

/* --- URLs ------------------------------------------------------------------------------------- */

/* A walk's URL may be that of a folder; a log has whole paths. */
static int read_below(struct plan *p, const char *operand)
{
    const char *option = p->opt->walk ? "--walk" : "--replay", *wrong;
    char base[TARGET_BYTES_MAX + 512];
    struct url u;

    wrong = url_parse(&u, operand);
    if (!wrong && u.echo)
        wrong = "echo:// has no files";
    if (!wrong && (u.path.ptr[u.path.len - 1] != '/' || memchr(u.path.ptr, '?', u.path.len)))
        wrong = "the URL of a folder ends with a slash";
    if (!wrong && p->opt->replay && u.path.len > 1)
        wrong = "a log has whole paths; name the server alone";
    if (wrong) {
        say_error("%s: '%s': %s", option, operand, wrong);
        return EXIT_USAGE;
    }
    snprintf(base, sizeof(base), "http://%.*s%.*s", (int)u.authority.len, u.authority.ptr,
             p->opt->walk ? (int)u.path.len : 0, u.path.ptr);
    return p->opt->walk ? walk_read(p, base) : replay_read(p, base);
}

static int read_urls_of(struct plan *p, struct lines *in)
{
    const struct wish wish = {.method = p->method};
    char *text;
    size_t n;
    int code = 0, more;

    while (!code && (more = lines_next(in, &text, &n)) != 0) {
        if (more < 0)
            return lines_refuse(in, "--urls", p->opt->urls, more);
        text += strspn(text, " \t");
        text[strcspn(text, "\r")] = 0;
        if (*text && *text != '#')
            code = plan_add(p, text, &wish);
    }
    return code;
}

/* A line is a URL; empty ones and those that begin with # are not. */
static int read_urls(struct plan *p)
{
    struct lines *in = malloc(sizeof(*in));
    int err, code;

    if (!in)
        return EXIT_FAILED;
    err = lines_open(in, p->opt->urls);
    code = err ? lines_refuse(in, "--urls", p->opt->urls, err) : read_urls_of(p, in);
    lines_close(in);
    free(in);
    if (!code && !p->targets) {
        say_error("--urls: there is no URL in %s", p->opt->urls);
        code = EXIT_USAGE;
    }
    return code;
}

int workload_read(struct plan *p, const struct option_found *found)
{
    const struct load_options *o = p->opt;
    const struct wish wish = {.method = p->method};
    int code = check_sense(o, found->operands);

    code = code ? code : read_zipf(p);
    if (!code && o->mix)
        code = mix_read(p);
    if (!code && (o->walk || o->replay))
        return read_below(p, found->operand[0]);
    for (unsigned i = 0; i < found->operands && !code; i++)
        code = plan_add(p, found->operand[i], &wish);
    if (!code && o->urls)
        code = read_urls(p);
    return code;
}

/* --- Order ------------------------------------------------------------------------------------ */

/* The names of a folder say nothing about how popular its files are. */
static void shuffle(struct peer *peer, uint64_t seed)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;
    unsigned at, kept;

    for (unsigned i = peer->targets; i > 1; i--) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        at = (unsigned)((x >> 8) % i);
        kept = peer->target[at];
        peer->target[at] = peer->target[i - 1];
        peer->target[i - 1] = kept;
    }
}

int workload_make(struct plan *p)
{
    for (unsigned i = 0; i < p->peers && p->opt->zipf; i++) {
        if (p->opt->walk)
            shuffle(&p->peer[i], p->opt->seed);
        p->peer[i].popular = popular_make(p->peer[i].targets, p->zipf);
        if (!p->peer[i].popular)
            return EXIT_FAILED;
    }
    p->fixed = !p->echo && !p->mix;
    return p->mix ? mix_make(p) : 0;
}

void workload_free(struct plan *p)
{
    for (unsigned i = 0; i < p->peers; i++)
        free(p->peer[i].popular);
    replay_free(p->replay);
    mix_free(p);
}
