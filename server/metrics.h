/* SPDX-License-Identifier: MIT */
/* metrics.h - a listener of its own for monitoring: /metrics and /.rung/health.
 *
 *   metrics.c        the listener, its clients, their deadlines
 *   metrics_page.c   figures that are not counters: time, descriptors
 *   metrics_text.c   the counters as OpenMetrics, or in the older form of Prometheus
 *   metrics.def      the families: name, type, unit, and the counter
 *   meter.c          what is counted for it alone
 *   health.c         whether the server should get requests
 *
 * No worker and no engine knows of this listener.  The thread that waits for signals, or the
 * supervisor of worker processes, waits for these clients too (signals.c): so they are answered
 * while all slots are taken, while every worker is busy, and during a drain.  That thread never
 * blocks for them.
 */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H
#include "serve.h"

struct metrics;
enum {
    METRICS_CLIENTS_MAX = 16, /* open at once; the one that has been silent longest makes room */
    METRICS_DESCRIPTORS = METRICS_CLIENTS_MAX + 3 /* the listener, what waits for all, and /proc */
};

/* Listens at the address of --metrics: PORT, ADDR:PORT or unix:PATH.  An exit code. */
int metrics_open(struct server *srv);
/* In all these NULL is fine. */
void metrics_close(struct metrics *m);
void metrics_say(const struct metrics *m); /* prints where */
int  metrics_listener(const struct metrics *m); /* -1: none */
/* Readable: metrics_act() has something to do, or has at the latest after metrics_wait_ms() (-1:
 * not by itself).  It does not wait. */
int  metrics_fd(const struct metrics *m);
int  metrics_wait_ms(const struct metrics *m);
void metrics_act(struct metrics *m);
/* The next server has the listener: accept from it no more. */
void metrics_leave(struct metrics *m);
/* In a worker process that was just forked: closes its copies of these descriptors. */
void metrics_forget(struct metrics *m);

/* --- metrics_page.c --------------------------------------------------------------------------- */
struct metrics_start {
    const struct server *srv;
    uint64_t clock_ms, unix_ms;
    void *descriptors; /* this process's in /proc, a DIR; NULL: there is no /proc */
};
void metrics_start(struct metrics_start *start, const struct server *srv);
void metrics_end(struct metrics_start *start);
/* As find() of struct http_host: what it gives is released by metrics_page_free(). */
int  metrics_page(const struct metrics_start *start, bool plain, struct source **source);
void metrics_page_free(struct source *source);

/* --- metrics_text.c --------------------------------------------------------------------------- */
/* A page, and more for each host; a test fills all counters. */
enum { METRICS_BYTES_MAX = 16384, METRICS_HOST_BYTES_MAX = 2048 };
size_t metrics_bytes_max(const struct server *srv);
struct metrics_view {
    const struct server *srv;
    uint64_t uptime_ms, started_ms; /* the latter in Unix time */
    uint64_t descriptors;  /* open in all processes; 0: not known */
    uint64_t descriptors_max;
};
/* Writes all families into buf, which has room for metrics_bytes_max().  plain: the format of
 * Prometheus, version 0.0.4.  Returns bytes. */
size_t metrics_write(const struct metrics_view *view, bool plain, char *buf);
const char *metrics_type(bool plain);

#endif
