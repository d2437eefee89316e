/* SPDX-License-Identifier: MIT */
/* replay.c - replays an access log (--replay): its GETs and HEADs in its order, and with
 * --replay-speed at its times.
 *
 * A log knows neither what a client had cached nor which part it wanted, so every line becomes a
 * plain request.  A request that failed then may fail now: if the log says 4xx, that status is
 * right, and so is a success.  Lines that cannot be asked again are counted by their reason.  Times
 * have whole seconds, so the requests of one second are spread over it.  A log is written when
 * answers end, so lines are put in the order of their times first.
 */
#include <stdlib.h>
#include "../../base/say.h"
#include "workload.h"

enum { LINES_MOST = 4000000, SPEED_MOST = 1000000 };
#define FAR_NS ((uint64_t)1 << 62) /* 146 years: no run lasts that long, and a clock can be added */

struct stamp {
    int64_t unix_s;
    uint32_t line, target;
};

struct reading {
    struct plan *plan;
    struct replay *replay;
    size_t base_bytes; /* of the url: the server's part, without a slash at its end */
    struct stamp *stamp;
    uint32_t room;
    uint32_t *slot, slots; /* targets by method, status and URL; 0: free, otherwise target + 1 */
    struct lines in;
    char url[2 * TARGET_BYTES_MAX], target[3 * LINE_BYTES_MAX];
};

/* --- One target for all lines that ask the same ----------------------------------------------- */

static uint64_t hash_of(const char *url, const struct wish *wish)
{
    uint64_t h = 0xcbf29ce484222325ull ^ (uint64_t)wish->method << 32 ^ wish->also;

    for (; *url; url++)
        h = (h ^ (unsigned char)*url) * 0x100000001b3ull;
    return h ^ h >> 29;
}

static int grow(struct reading *r)
{
    uint32_t slots = r->slots ? 2 * r->slots : 1024, *slot = calloc(slots, sizeof(*slot));

    if (!slot)
        return EXIT_FAILED;
    for (uint32_t i = 0; i < r->plan->targets; i++) {
        const struct target *t = &r->plan->target[i];
        const struct wish wish = {.method = t->method, .also = t->also};
        uint64_t at = hash_of(t->url, &wish);

        while (slot[at % slots])
            at++;
        slot[at % slots] = i + 1;
    }
    free(r->slot);
    r->slot = slot;
    r->slots = slots;
    return 0;
}

static int find_target(struct reading *r, const struct wish *wish, uint32_t *found)
{
    uint64_t at = hash_of(r->url, wish);
    int code = r->plan->targets >= r->slots / 2 ? grow(r) : 0;

    for (; !code && r->slot[at % r->slots]; at++) {
        const struct target *t = &r->plan->target[*found = r->slot[at % r->slots] - 1];

        if (t->method == wish->method && t->also == wish->also && strcmp(t->url, r->url) == 0)
            return 0;
    }
    code = code ? code : plan_add(r->plan, r->url, wish);
    if (!code) {
        *found = r->plan->targets - 1;
        r->slot[at % r->slots] = *found + 1;
    }
    return code;
}

/* --- Lines ------------------------------------------------------------------------------------ */

static int add(struct reading *r, const struct log_line *line)
{
    struct wish wish = {.method = line->method, .may_lack_file = true};
    struct replay *log = r->replay;
    struct stamp *stamp;
    uint32_t target;
    int code;

    if (log->lines == LINES_MOST) {
        say_error("--replay: more than %d lines; replay a part of it", LINES_MOST);
        return EXIT_USAGE;
    }
    if (log->lines == r->room) {
        r->room = r->room ? 2 * r->room : 1024;
        stamp = realloc(r->stamp, r->room * sizeof(*stamp));
        if (!stamp)
            return EXIT_FAILED;
        r->stamp = stamp;
    }
    if (line->status >= 400 && line->status < 500)
        wish.also = line->status;
    memcpy(r->url + r->base_bytes, line->target.ptr, line->target.len);
    r->url[r->base_bytes + line->target.len] = 0;
    code = find_target(r, &wish, &target);
    if (!code) {
        r->stamp[log->lines] = (struct stamp){line->unix_s, log->lines, target};
        log->lines++;
    }
    return code;
}

static int read_lines(struct reading *r)
{
    struct log_line line;
    char *text;
    size_t n;
    int code = 0, left, more;

    while (!code && (more = lines_next(&r->in, &text, &n)) != 0) {
        if (more < 0)
            return lines_refuse(&r->in, "--replay", r->plan->opt->replay, more);
        if (strspn(text, " \t\r") == n)
            continue;
        left = strlen(text) == n ? log_line_read(&line, text, r->target) : (int)LEFT_MALFORMED;
        if (left >= 0)
            r->replay->left[left]++;
        else
            code = add(r, &line);
    }
    return code;
}

/* --- The schedule ----------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
    const struct stamp *x = a, *y = b;

    if (x->unix_s != y->unix_s)
        return x->unix_s < y->unix_s ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line;
}

/* Spreads the requests of one second at equal distances over it. */
static void set_times(struct reading *r)
{
    struct replay *log = r->replay;
    uint32_t first, end;
    double ns;

    for (first = 0; first < log->lines; first = end) {
        for (end = first; end < log->lines && r->stamp[end].unix_s == r->stamp[first].unix_s;)
            end++;
        for (uint32_t i = first; i < end; i++) {
            ns = ((double)(r->stamp[first].unix_s - r->stamp[0].unix_s) +
                  (double)(i - first) / (double)(end - first)) * 1e9 / log->speed;
            log->at_ns[i] = ns < (double)FAR_NS ? (uint64_t)ns : FAR_NS;
        }
    }
}

static int schedule(struct reading *r)
{
    struct replay *log = r->replay;

    log->target = malloc(log->lines * sizeof(*log->target));
    log->at_ns = log->speed > 0 ? malloc(log->lines * sizeof(*log->at_ns)) : NULL;
    if (!log->target || (log->speed > 0 && !log->at_ns))
        return EXIT_FAILED;
    if (log->at_ns) {
        qsort(r->stamp, log->lines, sizeof(*r->stamp), by_time);
        set_times(r);
    }
    for (uint32_t i = 0; i < log->lines; i++)
        log->target[i] = r->stamp[i].target;
    return 0;
}

/* --- The whole -------------------------------------------------------------------------------- */

static int read_speed(const char *text, double *speed)
{
    char *end;

    *speed = text ? 1 : 0;
    if (!text || strcmp(text, "real") == 0)
        return 0;
    *speed = strtod(text, &end);
    if (end != text && !*end && *speed > 0 && *speed <= SPEED_MOST)
        return 0;
    say_error("--replay-speed: '%s' is neither real nor a number above 0, at most %d", text,
              SPEED_MOST);
    return EXIT_USAGE;
}

static int nothing_there(const struct plan *p)
{
    uint64_t left = 0;

    for (unsigned i = 0; i < LEFT_KINDS; i++)
        left += p->replay->left[i];
    say_error("--replay: no line of %s can be asked again: of %llu, %llu are not of the Common or "
              "Combined form, %llu are neither GET nor HEAD", p->opt->replay,
              (unsigned long long)left, (unsigned long long)p->replay->left[LEFT_MALFORMED],
              (unsigned long long)p->replay->left[LEFT_METHOD]);
    return EXIT_USAGE;
}

int replay_read(struct plan *p, const char *base)
{
    struct reading *r = calloc(1, sizeof(*r));
    int code, err;

    p->replay = calloc(1, sizeof(*p->replay));
    if (!r || !p->replay) {
        free(r);
        return EXIT_FAILED;
    }
    r->plan = p;
    r->replay = p->replay;
    r->base_bytes = strlen(base);
    memcpy(r->url, base, r->base_bytes);
    code = read_speed(p->opt->replay_speed, &p->replay->speed);
    err = code ? 0 : lines_open(&r->in, p->opt->replay);
    if (err)
        code = lines_refuse(&r->in, "--replay", p->opt->replay, err);
    code = code ? code : read_lines(r);
    if (!code)
        code = p->replay->lines ? schedule(r) : nothing_there(p);
    lines_close(&r->in);
    free(r->stamp);
    free(r->slot);
    free(r);
    return code;
}

uint64_t replay_requests(const struct plan *p)
{
    const struct load_options *o = p->opt;
    uint64_t lines = p->replay->lines;

    if (p->replay->at_ns)
        return o->requests && o->requests < lines ? o->requests : lines;
    return o->requests || o->duration || o->find_knee ? o->requests : lines;
}

void replay_free(struct replay *r)
{
    if (!r)
        return;
    free(r->target);
    free(r->at_ns);
    free(r);
}
