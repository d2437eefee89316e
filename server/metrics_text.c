/* SPDX-License-Identifier: MIT */
/* metrics_text.c - the counters as text: OpenMetrics 1.0, or Prometheus 0.0.4.
 *
 * The two formats have the same samples.  They differ in the name of a counter's family, in lines
 * for units and in the last line.  All cells are read once, before anything is written.  Counters
 * of ends are read before counters of beginnings, so the laws of metrics.def hold within each page.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include "../base/version.h"
#include "health.h"
#include "hosts.h"
#include "metrics.h"

enum kind { COUNTER, GAUGE, HISTOGRAM, INFO };
#define LEFT_OUT UINT64_MAX /* a gauge that this server does not have */

struct sheet;

struct family {
    const char *name, *unit, *help;
    enum kind kind;
    unsigned stat;                     /* of a counter */
    unsigned gauge;                    /* enum gauge, of a gauge */
    bool seconds;                      /* ... in ms */
    bool hosts;                        /* left out if no host has a label */
    void (*put)(struct sheet *s, const struct family *f); /* or NULL */
};

#define COUNTER(...)
#define GAUGE(name, ...) GAUGE_##name,
#define SECONDS(name, ...) GAUGE_##name,
#define SPECIAL(...)
#define HOSTS(...)
enum gauge {
#include "metrics.def"
    GAUGES
};
#undef COUNTER
#undef GAUGE
#undef SECONDS
#undef SPECIAL
#undef HOSTS

/* What is shown of a host. */
struct host_cells {
    uint64_t class[METER_CLASSES], body_bytes;
};

/* A page that is being written. */
struct sheet {
    const struct metrics_view *view;
    bool plain;
    size_t used, room;
    char *buf;
    uint64_t cell[STAT_CELLS];
    uint64_t gauge[GAUGES];
    unsigned hosts;
    struct host_cells host[HOSTS_MAX + 1];
};

static void put(struct sheet *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct sheet *s, const char *format, ...)
{
    size_t room = s->room - s->used;
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(s->buf + s->used, room, format, args);
    va_end(args);
    core_assert(n >= 0 && (size_t)n < room);
    s->used += n > 0 && (size_t)n < room ? (size_t)n : 0;
}

/* --- Numbers ---------------------------------------------------------------------------------- */

/* A cell with a sign may lack a few events that have added to it; then it is below 0 for a
 * moment. */
static uint64_t signed_cell(uint64_t n)
{
    return n >> 63 ? 0 : n;
}

static uint64_t less(uint64_t n, uint64_t part, uint64_t other)
{
    return n > part + other ? n - part - other : 0;
}

static uint64_t sum_of(const struct sheet *s, unsigned first, unsigned count)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < count; i++)
        sum += s->cell[first + i];
    return sum;
}

/* The server's own cells are the sums over all hosts: with a number that was read at another moment
 * they would not agree. */
static void read_hosts(struct sheet *s)
{
    const struct stats *stats = s->view->srv->stats;

    if (s->hosts)
        s->cell[STAT_BODY_BYTES] = 0;
    for (unsigned i = 0; i < s->hosts; i++) {
        struct host_cells *host = &s->host[i];

        *host = (struct host_cells){.body_bytes =
                                        stats_sum(stats, stat_of_host(i, STAT_HOST_BYTES))};
        s->cell[STAT_BODY_BYTES] += host->body_bytes;
        for (unsigned k = 0; k < METER_METHODS * METER_CLASSES; k++) {
            uint64_t n = stats_sum(stats, stat_of_host(i, k));

            host->class[k % METER_CLASSES] += n;
            s->cell[STAT_REQUESTS + k] += n;
        }
    }
}

static void read_cells(struct sheet *s)
{
    static const enum stat_id ends[] = {STAT_CLOSED, STAT_LOST, STAT_COMPLETE, STAT_BROKEN};
    const struct stats *stats = s->view->srv->stats;
    enum { ENDS = sizeof(ends) / sizeof(ends[0]) };
    uint64_t ended[ENDS];

    for (unsigned i = METER_BUCKETS; i-- > 0;) /* not counted before the answer was */
        s->cell[STAT_TOOK + i] = stats_sum(stats, (enum stat_id)(STAT_TOOK + i));
    for (unsigned i = 0; i < ENDS; i++)
        ended[i] = stats_sum(stats, ends[i]);
    for (unsigned i = 0; i < STAT_CELLS; i++)
        if (i < STAT_TOOK || i >= STAT_TOOK + METER_BUCKETS)
            s->cell[i] = stats_sum(stats, (enum stat_id)i);
    for (unsigned i = 0; i < ENDS; i++)
        s->cell[ends[i]] = ended[i];
    read_hosts(s);
}

static void find_gauges(struct sheet *s)
{
    const struct metrics_view *v = s->view;
    const struct server *srv = v->srv;
    const struct arrangement *a = &srv->arrangement;
    uint64_t *g = s->gauge, *n = s->cell;
    unsigned processes = a->processes ? a->workers : 1;

    g[GAUGE_start_time_seconds] = v->started_ms;
    g[GAUGE_uptime_seconds] = v->uptime_ms;
    g[GAUGE_draining] = atomic_load(&srv->stopping) > 0;
    g[GAUGE_workers] = a->workers;
    g[GAUGE_workers_running] = health_workers(srv);
    g[GAUGE_connections_open] = less(n[STAT_ACCEPTED], n[STAT_CLOSED], n[STAT_LOST]);
    g[GAUGE_connections_limit] = srv->connections_max;
    g[GAUGE_answers_open] = less(sum_of(s, STAT_REQUESTS, METER_METHODS * METER_CLASSES),
                                 n[STAT_COMPLETE], n[STAT_BROKEN]);
    g[GAUGE_cache_entries] = signed_cell(n[STAT_CACHE_ENTRIES]);
    g[GAUGE_cache_bytes] = signed_cell(n[STAT_CACHE_BYTES]);
    if (srv->site && !srv->engine->forks)
        g[GAUGE_cache_limit_bytes] = srv->cache_bytes * processes;
    g[GAUGE_descriptors_open] = v->descriptors ? v->descriptors : LEFT_OUT;
    g[GAUGE_descriptors_limit] = v->descriptors_max ? v->descriptors_max : LEFT_OUT;
    g[GAUGE_stack_most_bytes] =
        srv->engine->stack_bytes && !srv->engine->may_block ? n[STAT_STACK_MOST] : LEFT_OUT;
}

/* --- Families --------------------------------------------------------------------------------- */

/* What a sample's name adds to the family's. */
static const char *suffix_of(enum kind kind)
{
    return kind == COUNTER ? "_total" : kind == INFO ? "_info" : "";
}

static void put_heading(struct sheet *s, const struct family *f)
{
    static const char *const types[] = {"counter", "gauge", "histogram", "info"};
    enum kind kind = s->plain && f->kind == INFO ? GAUGE : f->kind;
    const char *suffix = s->plain ? suffix_of(f->kind) : "";

    put(s, "# HELP rung_%s%s %s\n# TYPE rung_%s%s %s\n", f->name, suffix, f->help, f->name, suffix,
        types[kind]);
    if (*f->unit && !s->plain)
        put(s, "# UNIT rung_%s %s\n", f->name, f->unit);
}

static void put_build(struct sheet *s, const struct family *f)
{
    put(s, "rung_%s_info{version=\"%s\",compiler=\"%s\"} 1\n", f->name, RUNG_VERSION,
        __VERSION__);
}

static void put_engine(struct sheet *s, const struct family *f)
{
    static const char *const accepts[] = {"shared", "reuseport", "steered"};
    const struct server *srv = s->view->srv;
    const struct arrangement *a = &srv->arrangement;

    put(s, "rung_%s_info{engine=\"%s\",workers_as=\"%s\",accept=\"%s\",protocol=\"%s\"} 1\n",
        f->name, srv->engine->name, a->processes ? "process" : "thread",
        accepts[a->reuseport + a->steered], srv->proto->name);
}

static void put_requests(struct sheet *s, const struct family *f)
{
    for (unsigned m = 0; m < METER_METHODS; m++)
        for (unsigned c = 1; c < METER_CLASSES; c++) /* no answer is 1xx */
            put(s, "rung_%s_total{method=\"%s\",status=\"%uxx\"} %" PRIu64 "\n", f->name,
                meter_methods[m], c + 1, s->cell[STAT_REQUESTS + m * METER_CLASSES + c]);
}

static void put_durations(struct sheet *s, const struct family *f)
{
    uint64_t ns = s->cell[STAT_TOOK_NS];

    for (unsigned i = 0; i < METER_BUCKETS; i++)
        put(s, "rung_%s_bucket{le=\"%s\"} %" PRIu64 "\n", f->name,
            i < METER_BUCKETS - 1 ? meter_edges[i] : "+Inf", sum_of(s, STAT_TOOK, i + 1));
    put(s, "rung_%s_sum %" PRIu64 ".%09" PRIu64 "\nrung_%s_count %" PRIu64 "\n", f->name,
        ns / 1000000000, ns % 1000000000, f->name, sum_of(s, STAT_TOOK, METER_BUCKETS));
}

static void put_host_requests(struct sheet *s, const struct family *f)
{
    for (unsigned i = 0; i < s->hosts; i++)
        for (unsigned c = 1; c < METER_CLASSES; c++)
            put(s, "rung_%s_total{host=\"%s\",status=\"%uxx\"} %" PRIu64 "\n", f->name,
                s->view->srv->hosts->row[i].label, c + 1, s->host[i].class[c]);
}

static void put_host_bytes(struct sheet *s, const struct family *f)
{
    for (unsigned i = 0; i < s->hosts; i++)
        put(s, "rung_%s_total{host=\"%s\"} %" PRIu64 "\n", f->name,
            s->view->srv->hosts->row[i].label, s->host[i].body_bytes);
}

static void put_number(struct sheet *s, const struct family *f)
{
    uint64_t n = f->kind == COUNTER ? s->cell[f->stat] : s->gauge[f->gauge];

    put(s, "rung_%s%s %" PRIu64, f->name, suffix_of(f->kind), f->seconds ? n / 1000 : n);
    if (f->seconds)
        put(s, ".%03" PRIu64, n % 1000);
    put(s, "\n");
}

#define COUNTER(name_, unit_, stat_) \
    {.name = #name_, .unit = unit_, .kind = COUNTER, .stat = STAT_##stat_},
#define GAUGE(name_, unit_, help_) \
    {.name = #name_, .unit = unit_, .help = help_, .kind = GAUGE, .gauge = GAUGE_##name_},
#define SECONDS(name_, help_) \
    {.name = #name_, .unit = "seconds", .help = help_, .kind = GAUGE, .gauge = GAUGE_##name_, \
     .seconds = true},
#define SPECIAL(name_, kind_, unit_, help_, put_) \
    {.name = #name_, .unit = unit_, .help = help_, .kind = kind_, .put = put_},
#define HOSTS(name_, unit_, help_, put_) \
    {.name = #name_, .unit = unit_, .help = help_, .kind = COUNTER, .put = put_, .hosts = true},
static const struct family families[] = {
#include "metrics.def"
};
#undef COUNTER
#undef GAUGE
#undef SECONDS
#undef SPECIAL
#undef HOSTS

size_t metrics_bytes_max(const struct server *srv)
{
    return METRICS_BYTES_MAX + (size_t)stats_hosts(srv->stats) * METRICS_HOST_BYTES_MAX;
}

const char *metrics_type(bool plain)
{
    return plain ? "text/plain; version=0.0.4; charset=utf-8"
                 : "application/openmetrics-text; version=1.0.0; charset=utf-8";
}

size_t metrics_write(const struct metrics_view *view, bool plain, char *buf)
{
    struct sheet s = {.view = view, .plain = plain, .buf = buf,
                      .room = metrics_bytes_max(view->srv),
                      .hosts = stats_hosts(view->srv->stats)};

    read_cells(&s);
    find_gauges(&s);
    for (unsigned i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        struct family f = families[i];

        if ((f.kind == GAUGE && s.gauge[f.gauge] == LEFT_OUT) || (f.hosts && !s.hosts))
            continue;
        if (!f.help)
            f.help = stats_help((enum stat_id)f.stat);
        put_heading(&s, &f);
        if (f.put)
            f.put(&s, &f);
        else
            put_number(&s, &f);
    }
    if (!plain)
        put(&s, "# EOF\n");
    return s.used;
}
