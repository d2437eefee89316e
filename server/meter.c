/* SPDX-License-Identifier: MIT */
/* meter.c - what is counted only while --metrics is given: answers by method and status, and by
 * host if there are several, and how long they took.
 *
 * The counts and the times are cells among the counters (stats.c), where all processes and threads
 * count. Without --metrics none of this runs: host.c gives the core other functions then.
 */
#include "inside.h"

const char *const meter_methods[METER_METHODS] = {"GET", "HEAD", "OPTIONS", "other"};

/* Upper bounds of the buckets, inclusive: a hit takes microseconds, and a slow client keeps an
 * answer for seconds. */
#define EDGES(X) \
    X(25000, "0.000025") X(50000, "0.00005") X(100000, "0.0001") X(250000, "0.00025") \
    X(500000, "0.0005") X(1000000, "0.001") X(2500000, "0.0025") X(5000000, "0.005") \
    X(10000000, "0.01") X(25000000, "0.025") X(50000000, "0.05") X(100000000, "0.1") \
    X(250000000, "0.25") X(1000000000, "1.0") X(5000000000, "5.0") X(30000000000, "30.0")

#define X(ns, text) text,
const char *const meter_edges[METER_BUCKETS - 1] = {EDGES(X)};
#undef X

#define X(ns, text) ns,
static const uint64_t edges_ns[METER_BUCKETS - 1] = {EDGES(X)};
#undef X

_Static_assert(STAT_TOOK == STAT_REQUESTS + METER_METHODS * METER_CLASSES &&
                   STAT_TOOK_NS == STAT_TOOK + METER_BUCKETS,
               "inside.h has the cells");

void meter_begin(struct stats *stats, unsigned host, const struct http_receipt *receipt)
{
    unsigned method = receipt->head->method, class = receipt->status / 100 - 1, cell;

    method = method < METER_METHODS ? method : METER_METHODS - 1;
    class = class < METER_CLASSES ? class : METER_CLASSES - 1;
    cell = method * METER_CLASSES + class;
    stats_add(stats, stats_hosts(stats) ? stat_of_host(host, cell)
                                        : (enum stat_id)(STAT_REQUESTS + cell), 1);
}

void meter_sent(struct stats *stats, unsigned host, uint64_t body_bytes)
{
    if (stats_hosts(stats))
        stats_add(stats, stat_of_host(host, STAT_HOST_BYTES), body_bytes);
}

void meter_took(struct stats *stats, uint64_t ns)
{
    unsigned i = 0;

    while (i < METER_BUCKETS - 1 && ns > edges_ns[i])
        i++;
    stats_add(stats, (enum stat_id)(STAT_TOOK + i), 1);
    stats_add(stats, STAT_TOOK_NS, ns);
}
