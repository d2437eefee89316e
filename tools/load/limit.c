/* SPDX-License-Identifier: MIT */
/* limit.c - the limits of --fail-if: NAME COMPARISON BOUND, such as p99>5ms or rps<1000.
 *
 * A limit names a condition that must not occur: the run fails if it is true.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "load.h"

enum measure { LATENCY, RATE, SHARE, COUNT };

struct limit {
    enum measure measure;
    char name[24], op[3];
    double bound;
};

static bool is_quantile(const char *name)
{
    char *end;
    double p;

    if (strncmp(name, "service-", 8) == 0)
        name += 8;
    if (name[0] != 'p' || !isdigit((unsigned char)name[1]))
        return false;
    p = strtod(name + 1, &end);
    return !*end && p >= 0 && p <= 100;
}

static int read_name(struct limit *l)
{
    static const struct {
        const char *name;
        enum measure measure;
    } known[] = {{"max", LATENCY}, {"mean", LATENCY}, {"rps", RATE}, {"errors", COUNT},
                 {"error-rate", SHARE}, {"late", SHARE}, {"unsent", SHARE}};

    for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(l->name, known[i].name) == 0) {
            l->measure = known[i].measure;
            return 0;
        }
    l->measure = LATENCY;
    return is_quantile(l->name) ? 0 : -EINVAL;
}

/* A bound in microseconds, per cent, or as a plain number. */
static int read_bound(struct limit *l, const char *text)
{
    static const struct {
        const char *unit;
        double us;
    } units[] = {{"us", 1}, {"ms", 1e3}, {"s", 1e6}, {"m", 60e6}};
    char *end;

    if (!isdigit((unsigned char)*text))
        return -EINVAL;
    l->bound = strtod(text, &end);
    if (!isfinite(l->bound * 60e6))
        return -EINVAL;
    if (l->measure != LATENCY)
        return *end && !(l->measure == SHARE && strcmp(end, "%") == 0) ? -EINVAL : 0;
    for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(end, units[i].unit) == 0) {
            l->bound *= units[i].us;
            return 0;
        }
    return -EINVAL; /* the unit is missing or unknown */
}

static int read_limit(struct limit *l, const char *text)
{
    size_t n = strcspn(text, "<>"), op;

    memset(l, 0, sizeof(*l));
    if (n == 0 || n >= sizeof(l->name) || !text[n])
        return -EINVAL;
    memcpy(l->name, text, n);
    op = text[n + 1] == '=' ? 2 : 1;
    memcpy(l->op, text + n, op);
    return read_name(l) ? -EINVAL : read_bound(l, text + n + op);
}

static double value_of(const struct limit *l, const struct result *r)
{
    const struct hist *h = &r->sum.latency;
    const char *p = l->name;
    double requests = (double)(r->sum.answers + r->sum.lost);

    if (strcmp(p, "max") == 0)
        return (double)h->max / 1e3;
    if (strcmp(p, "mean") == 0)
        return h->total ? (double)h->sum / (double)h->total / 1e3 : 0;
    if (strcmp(p, "rps") == 0)
        return r->elapsed_ns ? (double)r->sum.answers * 1e9 / (double)r->elapsed_ns : 0;
    if (strcmp(p, "errors") == 0)
        return (double)r->faults;
    if (strcmp(p, "error-rate") == 0)
        return r->faults ? 100.0 * (double)r->faults / (requests > 0 ? requests : 1) : 0;
    if (strcmp(p, "late") == 0)
        return r->sum.due ? 100.0 * (double)(r->sum.late_own + r->sum.late_busy + r->sum.unsent) /
                                (double)r->sum.due : 0;
    if (strcmp(p, "unsent") == 0)
        return r->sum.due ? 100.0 * (double)r->sum.unsent / (double)r->sum.due : 0;
    if (strncmp(p, "service-", 8) == 0) {
        h = &r->sum.service;
        p += 8;
    }
    return (double)hist_quantile(h, (uint64_t)(strtod(p + 1, NULL) * 10000 + 0.5), 1000000) / 1e3;
}

static bool compare(const char *op, double value, double bound)
{
    if (op[0] == '>')
        return op[1] ? value >= bound : value > bound;
    return op[1] ? value <= bound : value < bound;
}

int limit_judge(const char *expression, const struct result *r, struct limit_found *found)
{
    static const char *const units[] = {"us", "per second", "per cent", ""};
    struct limit l;

    if (read_limit(&l, expression) != 0)
        return -EINVAL;
    if (!r)
        return 0;
    found->value = value_of(&l, r);
    found->bound = l.bound;
    found->unit = units[l.measure];
    found->broken = compare(l.op, found->value, found->bound);
    /* Without any answer a limit of latency is broken. */
    if (l.measure == LATENCY && !r->sum.latency.total)
        found->broken = true;
    return 0;
}
