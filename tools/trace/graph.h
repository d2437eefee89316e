/* SPDX-License-Identifier: MIT */
/* graph.h - turns the lines of the kernel's function_graph tracer into calls: function, time, and
 * whether it ended on another processor than it began on.
 *
 * Pure: lines in, figures out.  A call's time is the kernel's own, from the line with which it
 * ends, so it is right even where the line with which it began was lost.
 */
#ifndef TRACE_GRAPH_H
#define TRACE_GRAPH_H
#include "../../core/hist.h"

enum {
    FUNCTIONS_MAX = 512,       /* 20 KB each */
    FUNCTION_TEXT = 64,
    GRAPH_BITS = 7,            /* a time is known to one part in 64 */
    GRAPH_THREADS = 16384,     /* that are inside of a function at a time */
    GRAPH_DEPTH = 50,          /* of their calls; the kernel's own limit */
    SERIES_MAX = 1000000       /* calls of the one function whose times are kept one by one */
};

struct function {
    char name[FUNCTION_TEXT];
    struct hist took;          /* ns */
    uint64_t moved;            /* calls that ended on another processor */
};

struct thread {
    uint32_t pid, depth;
    struct {
        uint16_t function, cpu;
    } call[GRAPH_DEPTH];
};

struct graph {
    struct function *function[FUNCTIONS_MAX];
    unsigned functions;
    const char *series_of;     /* a function, or NULL */
    uint64_t *series;          /* ns of each of its calls, in order */
    size_t series_count, series_room;
    struct thread *thread[GRAPH_THREADS];
    uint64_t calls, migrations, lost, crowded, unread;
};

int graph_init(struct graph *g, const char *series_of); /* 0 or -ENOMEM */
/* A line without its end. */
void graph_line(struct graph *g, const char *line, size_t n);
void graph_free(struct graph *g);

#endif
