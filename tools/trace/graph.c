/* SPDX-License-Identifier: MIT */
/* graph.c - a line of function_graph, with the options funcgraph-abstime, -cpu, -proc, -duration
 * and -tail, is one of these:
 *
 *   251.8548 |   1)  rung_ht-147   |               |  block_thread [rung_core]() {
 *   251.8548 |   1)  rung_ht-147   |   797.449 us  |    line_recv [rung_core]();
 *   251.8548 |   0)  rung_ht-147   |   2546.12 us  |  } / * block_thread [rung_core] * /
 *   251.8548 |   0)    <idle>-0    |               |  / * sched_migrate_task: ... pid=147 ... * /
 *   CPU:1 [LOST 12 EVENTS]
 *
 * Other lines show which thread runs next, and are of no use.
 */
#include <errno.h>
#include <stdlib.h>
#include "graph.h"

enum { CELLS_MAX_NS_LOG = 40 /* 18 minutes */ };
static const uint32_t IDLE = 1u << 31;

struct scan {
    const char *p, *end;
};

int graph_init(struct graph *g, const char *series_of)
{
    memset(g, 0, sizeof(*g));
    g->series_of = series_of;
    return 0;
}

/* --- Words of a line -------------------------------------------------------------------------- */

static void blanks(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t'))
        s->p++;
}

static bool word(struct scan *s, const char *text)
{
    size_t n = strlen(text);

    if ((size_t)(s->end - s->p) < n || memcmp(s->p, text, n) != 0)
        return false;
    s->p += n;
    return true;
}

static bool number(struct scan *s, uint64_t *n)
{
    const char *start = s->p;

    for (*n = 0; s->p < s->end && *s->p >= '0' && *s->p <= '9' && *n < UINT64_MAX / 100; s->p++)
        *n = *n * 10 + (uint64_t)(*s->p - '0');
    return s->p > start;
}

static bool skip_to(struct scan *s, char c)
{
    const char *found = memchr(s->p, c, (size_t)(s->end - s->p));

    if (!found)
        return false;
    s->p = found + 1;
    return true;
}

/* "797.449 us" in ns; as many digits behind the point as there is room for. */
static bool duration(struct scan *s, uint64_t *ns)
{
    uint64_t part = 0, unit = 100;

    if (!number(s, ns))
        return false;
    *ns *= 1000;
    if (word(s, "."))
        for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++, unit /= 10)
            part += unit * (uint64_t)(*s->p - '0');
    *ns += part;
    blanks(s);
    return word(s, "us");
}

/* A function's name, up to a blank or a bracket. */
static size_t name_bytes(const struct scan *s)
{
    const char *p = s->p;

    while (p < s->end && *p != ' ' && *p != '(' && *p != '*' && *p != ';')
        p++;
    return (size_t)(p - s->p);
}

/* --- Functions and threads -------------------------------------------------------------------- */

static struct function *new_function(struct graph *g, const char *name, size_t n)
{
    uint32_t cells = hist_cells(GRAPH_BITS, (uint64_t)1 << CELLS_MAX_NS_LOG);
    struct function *f = calloc(1, sizeof(*f));
    uint64_t *cell = f ? malloc(cells * sizeof(*cell)) : NULL;

    if (!cell) {
        free(f);
        return NULL;
    }
    hist_init(&f->took, GRAPH_BITS, cell, cells);
    memcpy(f->name, name, n);
    g->function[g->functions++] = f;
    return f;
}

/* The function's index; -1: there are too many functions. */
static int function_of(struct graph *g, const char *name, size_t n)
{
    n = n < FUNCTION_TEXT - 1 ? n : FUNCTION_TEXT - 1;
    for (unsigned i = 0; i < g->functions; i++)
        if (memcmp(g->function[i]->name, name, n) == 0 && !g->function[i]->name[n])
            return (int)i;
    if (g->functions < FUNCTIONS_MAX && new_function(g, name, n))
        return (int)g->functions - 1;
    g->crowded++;
    return -1;
}

static struct thread **place_of(struct graph *g, uint32_t pid)
{
    return &g->thread[pid * 2654435761u % GRAPH_THREADS];
}

/* The thread, if it is inside of a function; otherwise NULL. */
static struct thread *thread_of(struct graph *g, uint32_t pid)
{
    struct thread *t = *place_of(g, pid);

    return t && t->pid == pid && t->depth ? t : NULL;
}

static void enter(struct graph *g, uint32_t pid, unsigned function, unsigned cpu)
{
    struct thread **at = place_of(g, pid), *t = *at;

    if (!t)
        t = *at = calloc(1, sizeof(*t));
    if (!t || (t->depth && t->pid != pid) || t->depth == GRAPH_DEPTH) {
        g->crowded++;
        return;
    }
    t->pid = pid;
    t->call[t->depth].function = (uint16_t)function;
    t->call[t->depth++].cpu = (uint16_t)cpu;
}

/* The processor on which the ending call began; cpu, if that is not known. */
static unsigned leave(struct graph *g, uint32_t pid, unsigned function, unsigned cpu)
{
    struct thread *t = thread_of(g, pid);
    unsigned depth = t ? t->depth : 0;

    while (depth && t->call[depth - 1].function != function)
        depth--; /* the ends of inner calls were lost */
    if (!depth)
        return cpu;
    t->depth = depth - 1;
    return t->call[depth - 1].cpu;
}

static void keep_series(struct graph *g, uint64_t ns)
{
    uint64_t *more;

    if (g->series_count == g->series_room && g->series_room < SERIES_MAX) {
        g->series_room = g->series_room ? g->series_room * 2 : 1024;
        g->series_room = g->series_room < SERIES_MAX ? g->series_room : SERIES_MAX;
        more = realloc(g->series, g->series_room * sizeof(*more));
        if (!more)
            g->series_room = g->series_count;
        g->series = more ? more : g->series;
    }
    if (g->series_count < g->series_room)
        g->series[g->series_count++] = ns;
}

static void end_call(struct graph *g, int function, uint64_t ns, bool moved)
{
    struct function *f = g->function[function];

    hist_add(&f->took, ns, 1);
    f->moved += moved;
    g->calls++;
    if (g->series_of && strcmp(f->name, g->series_of) == 0)
        keep_series(g, ns);
}

/* --- Lines ------------------------------------------------------------------------------------ */

struct place {
    uint32_t cpu, pid;
};

/* "/ * sched_migrate_task: comm=a pid=147 prio=120 ... * /": a comm may have blanks and signs of
 * its own, so the last pid counts. */
static void migrated(struct graph *g, struct scan s)
{
    uint64_t pid = 0;
    bool found = false;

    while (skip_to(&s, ' '))
        if (word(&s, "pid="))
            found = number(&s, &pid);
    if (found && thread_of(g, (uint32_t)pid))
        g->migrations++;
}

static void call(struct graph *g, struct scan s, const struct place *at, const uint64_t *ns)
{
    bool ends = word(&s, "} /* ");
    int f;

    if (s.p == s.end || (ends && !ns)) {
        g->unread++;
        return;
    }
    f = function_of(g, s.p, name_bytes(&s));
    if (f < 0)
        return;
    if (ends)
        end_call(g, f, *ns, leave(g, at->pid, (unsigned)f, at->cpu) != at->cpu);
    else if (s.end[-1] == '{')
        enter(g, at->pid, (unsigned)f, at->cpu);
    else if (ns)
        end_call(g, f, *ns, false);
    else
        g->unread++;
}

/* "  251.8548 |   1)  rung_ht-147   |": a thread's name may have any characters, so its number is
 * behind the last hyphen. */
static bool place(struct scan *s, struct place *at)
{
    struct scan name;
    uint64_t cpu, pid;

    blanks(s);
    if (!skip_to(s, '|'))
        return false;
    blanks(s);
    if (!number(s, &cpu) || !word(s, ")"))
        return false;
    name = *s;
    if (!skip_to(s, '|'))
        return false;
    name.end = s->p - 1;
    while (name.end > name.p && name.end[-1] == ' ')
        name.end--;
    while (skip_to(&name, '-'))
        ;
    if (!number(&name, &pid) || name.p != name.end)
        return false;
    at->cpu = (uint32_t)cpu;
    /* Each processor has an idle thread, and all of them have the number 0. */
    at->pid = pid ? (uint32_t)pid : IDLE | at->cpu;
    return true;
}

static void lost(struct graph *g, struct scan s)
{
    uint64_t n = 1;

    if (skip_to(&s, '[') && word(&s, "LOST ") && !number(&s, &n))
        n = 1; /* the line does not say how many */
    g->lost += n;
}

void graph_line(struct graph *g, const char *line, size_t n)
{
    struct scan s = {line, line + n};
    struct place at;
    uint64_t ns;
    bool known;

    blanks(&s);
    if (word(&s, "CPU:")) {
        lost(g, s);
        return;
    }
    if (!place(&s, &at))
        return;
    blanks(&s);
    known = duration(&s, &ns);
    if (!skip_to(&s, '|')) {
        g->unread++;
        return;
    }
    blanks(&s);
    if (word(&s, "/* sched_migrate_task:"))
        migrated(g, s);
    else if (!word(&s, "/*"))
        call(g, s, &at, known ? &ns : NULL);
}

void graph_free(struct graph *g)
{
    for (unsigned i = 0; i < g->functions; i++) {
        free(g->function[i]->took.cell);
        free(g->function[i]);
    }
    for (unsigned i = 0; i < GRAPH_THREADS; i++)
        free(g->thread[i]);
    free(g->series);
    memset(g, 0, sizeof(*g));
}
