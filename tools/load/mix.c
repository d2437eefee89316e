/* SPDX-License-Identifier: MIT */
/* mix.c - requests of several kinds in one run (--mix): conditional ones, ranges, codings, names
 * that are not there.
 *
 * Each request draws its kind.  A kind that is impossible, such as a condition before an answer has
 * shown a validator, or a part of an empty file, is sent as a plain request and counts as plain.  A
 * kind's bytes are those of the plain request with one more line, or with another name; every shot
 * of a connection has its own place for them.
 */
#include <errno.h>
#include <stdlib.h>
#include "../../base/say.h"
#include "workload.h"

/* The field that a kind adds to a request, and that --header must not have too. */
static const struct {
    const char *word, *field, *coding;
    char suffix[SUFFIX_BYTES];
} kinds[KINDS] = {
    [KIND_PLAIN] = {"plain", NULL, NULL, ""},
    [KIND_CONDITIONAL] = {"conditional", "If-", NULL, ""},
    [KIND_RANGE] = {"range", "Range", NULL, ""},
    [KIND_GZIP] = {"gzip", "Accept-Encoding", "gzip", ".gz"},
    [KIND_BR] = {"br", "Accept-Encoding", "br", ".br"},
    [KIND_ZSTD] = {"zstd", "Accept-Encoding", "zstd", ".zst"},
    [KIND_MISSING] = {"missing", NULL, NULL, ""},
};

enum { NAME_BYTES = 24 /* of a missing file */ };

/* --- The option ------------------------------------------------------------------------------- */

static int refuse(const char *part, const char *why)
{
    say_error("--mix: '%s': %s, as in conditional=20%%,range=10%%,gzip=30%%,missing=5%%", part,
              why);
    return EXIT_USAGE;
}

static int read_part(struct mix *m, const char *part)
{
    const char *value = strchr(part, '=');
    unsigned kind = KIND_PLAIN + 1;
    char *end;

    if (!value)
        return refuse(part, "a part is KIND=SHARE");
    while (kind < KINDS && (strlen(kinds[kind].word) != (size_t)(value - part) ||
                            strncmp(kinds[kind].word, part, (size_t)(value - part)) != 0))
        kind++;
    if (kind == KINDS)
        return refuse(part, "kinds are conditional, range, gzip, br, zstd and missing");
    if (m->percent[kind] > 0)
        return refuse(part, "a kind has one share");
    m->percent[kind] = strtod(value + 1, &end);
    if (end == value + 1 || (*end && strcmp(end, "%") != 0) || !(m->percent[kind] >= 0) ||
        m->percent[kind] > 100)
        return refuse(part, "a share is 0 to 100 per cent");
    return 0;
}

/* Refuses a --header that sets a field of the mix. */
static int check_headers(const struct plan *p)
{
    const struct option_list *list = &p->opt->header;

    for (unsigned kind = 0; kind < KINDS; kind++)
        for (unsigned i = 0; i < list->count && kinds[kind].field; i++)
            if (p->mix->percent[kind] > 0 &&
                strncasecmp(list->item[i], kinds[kind].field, strlen(kinds[kind].field)) == 0) {
                say_error("--mix: %s sends %s itself; leave '%s' out", kinds[kind].word,
                          kinds[kind].field, list->item[i]);
                return EXIT_USAGE;
            }
    return 0;
}

int mix_read(struct plan *p)
{
    char text[256], *save = NULL;
    double sum = 0;
    int code = 0;

    p->mix = calloc(1, sizeof(*p->mix));
    if (!p->mix)
        return EXIT_FAILED;
    if (strlen(p->opt->mix) >= sizeof(text))
        return refuse("...", "it is too long");
    memcpy(text, p->opt->mix, strlen(p->opt->mix) + 1);
    for (char *part = strtok_r(text, ", ", &save); part && !code;
         part = strtok_r(NULL, ", ", &save))
        code = read_part(p->mix, part);
    for (unsigned i = KINDS - 1; i > KIND_PLAIN; i--) {
        sum += p->mix->percent[i];
        p->mix->below[i] = (uint64_t)(sum / 100 * 4294967296.0 + 0.5);
    }
    /* 16.6 + 66.7 + 16.7 is above 100 in doubles, but not in 32 bits. */
    p->mix->percent[KIND_PLAIN] = p->mix->below[KIND_PLAIN + 1] == 1ull << 32 ? 0 : 100 - sum;
    if (!code && p->mix->below[KIND_PLAIN + 1] > 1ull << 32)
        return refuse(p->opt->mix, "the shares add up to more than 100 per cent");
    return code ? code : check_headers(p);
}

/* --- Expected answers ------------------------------------------------------------------------- */

/* Loads the files next to a target's file: NAME.gz, NAME.br, NAME.zst, as far as the mix asks for
 * them. */
static int load_siblings(struct plan *p, const struct target *t, struct file *sibling)
{
    char path[FILE_PATH_BYTES + SUFFIX_BYTES];
    size_t n;
    int err;

    if (!t->body.ptr || files_path(p, t->url, path) != 0)
        return 0;
    n = strlen(path);
    for (unsigned i = 0; i < CODED; i++) {
        if (!(p->mix->percent[KIND_GZIP + i] > 0))
            continue;
        memcpy(path + n, kinds[KIND_GZIP + i].suffix, SUFFIX_BYTES);
        err = files_load(p, path, &sibling[i]);
        if (err && err != -ENOENT && err != -EISDIR && err != -ENAMETOOLONG && err != -ELOOP) {
            say_error("--check: cannot read %s: %s", path, say_why(err));
            return EXIT_FAILED;
        }
    }
    return 0;
}

const char *mix_suffix(enum kind kind)
{
    return kinds[kind].suffix;
}

const struct file *mix_sibling(const struct plan *p, const struct target *t, enum kind kind)
{
    if (!p->mix || !p->mix->sibling || !kinds[kind].coding)
        return NULL;
    return &p->mix->sibling[t - p->target][kind - KIND_GZIP];
}

int mix_make(struct plan *p)
{
    bool coded = false;
    size_t longest = 0;
    int code = 0;

    for (unsigned i = 0; i < CODED; i++)
        coded = coded || p->mix->percent[KIND_GZIP + i] > 0;
    if (coded && p->opt->check) {
        p->mix->sibling = calloc(p->targets, sizeof(*p->mix->sibling));
        if (!p->mix->sibling)
            return EXIT_FAILED;
    }
    for (unsigned i = 0; i < p->targets && !code; i++) {
        if (p->target[i].request[1].len > longest)
            longest = p->target[i].request[1].len;
        if (p->mix->sibling)
            code = load_siblings(p, &p->target[i], p->mix->sibling[i]);
    }
    longest += sizeof(struct asked) + VALIDATOR_BYTES_MAX;
    p->mix->asked_bytes = (uint32_t)(longest + 7) & ~7u; /* aligned: they are one array */
    return code;
}

void mix_free(struct plan *p)
{
    if (p->mix)
        free(p->mix->sibling);
    free(p->mix);
}

/* --- Requests --------------------------------------------------------------------------------- */

struct asked *mix_asked(const struct worker *w, const struct shot *s)
{
    return (struct asked *)(w->asked + (size_t)(s - w->shots) * w->plan->mix->asked_bytes);
}

struct slice mix_text(const struct worker *w, const struct shot *s)
{
    const struct asked *asked = mix_asked(w, s);

    return (struct slice){asked->text, asked->bytes};
}

static enum kind draw(const struct mix *m, uint64_t random)
{
    enum kind kind = KINDS - 1;

    while (kind > KIND_PLAIN && random >= m->below[kind])
        kind--;
    return kind;
}

static uint64_t size_of(const struct worker *w, const struct asked *asked)
{
    const struct target *t = &w->plan->target[asked->target];

    return t->body.ptr ? t->body.len : asked->learnt->size;
}

static void draw_range(struct worker *w, struct asked *asked)
{
    uint64_t size = size_of(w, asked), most;

    asked->first = worker_random(w) % size;
    most = size - asked->first;
    most = most < RANGE_BYTES_MOST ? most : RANGE_BYTES_MOST;
    asked->count = (uint32_t)(1 + worker_random(w) % most);
}

/* Puts the line that turns a plain request into one of this kind; up to VALIDATOR_BYTES_MAX. */
static size_t put_line(const struct asked *asked, char *to)
{
    if (asked->kind == KIND_CONDITIONAL) {
        memcpy(to, asked->learnt->line, asked->learnt->bytes);
        return asked->learnt->bytes;
    }
    if (asked->kind == KIND_RANGE)
        return (size_t)snprintf(to, VALIDATOR_BYTES_MAX, "Range: bytes=%llu-%llu\r\n",
                                (unsigned long long)asked->first,
                                (unsigned long long)asked->first + asked->count - 1);
    return (size_t)snprintf(to, VALIDATOR_BYTES_MAX, "Accept-Encoding: %s\r\n",
                            kinds[asked->kind].coding);
}

/* Puts the request with another name in the same folder, a new one each time. */
static size_t put_missing(struct slice plain, uint64_t random, char *to)
{
    const char *path = memchr(plain.ptr, ' ', plain.len), *end, *query, *slash;
    size_t n, rest;

    end = memchr(path + 1, ' ', plain.len - (size_t)(path + 1 - plain.ptr));
    query = memchr(path, '?', (size_t)(end - path));
    slash = memrchr(path, '/', (size_t)((query ? query : end) - path));
    n = (size_t)(slash + 1 - plain.ptr);
    rest = plain.len - (size_t)(end - plain.ptr);
    memcpy(to, plain.ptr, n);
    n += (size_t)snprintf(to + n, NAME_BYTES + 1, "no-such-%016llx", (unsigned long long)random);
    memcpy(to + n, end, rest);
    return n + rest;
}

static void put_text(struct worker *w, struct slice plain, struct asked *asked)
{
    size_t n = plain.len - 2; /* the empty line comes last */

    if (asked->kind == KIND_MISSING) {
        asked->bytes = (uint32_t)put_missing(plain, worker_random(w), asked->text);
        return;
    }
    memcpy(asked->text, plain.ptr, n);
    n += put_line(asked, asked->text + n);
    memcpy(asked->text + n, "\r\n", 2);
    asked->bytes = (uint32_t)n + 2;
}

void mix_load(struct worker *w, struct shot *s)
{
    enum kind kind = draw(w->plan->mix, worker_random(w) & UINT32_MAX);
    struct asked *asked = mix_asked(w, s);

    asked->learnt = &w->learnt[s->target];
    asked->target = s->target;
    asked->turn = asked->learnt->turn;
    if ((kind == KIND_CONDITIONAL && !asked->learnt->bytes) ||
        (kind == KIND_RANGE && !size_of(w, asked)))
        kind = KIND_PLAIN;
    s->kind = asked->kind = (uint8_t)kind;
    w->tally.kind[kind].sent++;
    if (kind == KIND_RANGE)
        draw_range(w, asked);
    if (kind != KIND_PLAIN)
        put_text(w, w->plan->target[s->target].request[s->last], asked);
}
