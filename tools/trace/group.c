/* SPDX-License-Identifier: MIT */
/* group.c - which group a request belongs to, and which group comes first. */
#include <errno.h>
#include <stdlib.h>
#include "group.h"
#include "trace.h"

enum { BITS = 6 /* one part in 32 */, SLOTS = 4 * GROUPS_MAX };
#define MOST_NS 600000000000ull /* ten minutes */

const char *const group_by[] = {"path", "connection", "peer", "status", NULL};
const char *const group_sort[] = {"time", "requests", "p50", "p99", "name", NULL};

static struct group *make(void)
{
    uint32_t cells = hist_cells(BITS, MOST_NS);
    struct group *g = calloc(1, sizeof(*g));
    uint64_t *cell = malloc(cells * sizeof(*cell));

    if (!g || !cell) {
        free(g);
        free(cell);
        return NULL;
    }
    hist_init(&g->took, BITS, cell, cells);
    return g;
}

static void clear(struct group *g)
{
    g->requests = g->answer_ns = 0;
    memset(g->stage_ns, 0, sizeof(g->stage_ns));
    hist_init(&g->took, BITS, g->took.cell, g->took.cells);
}

int groups_init(struct groups *g)
{
    memset(g, 0, sizeof(*g));
    g->all = make();
    g->others = make();
    if (!g->all || !g->others)
        return -ENOMEM;
    snprintf(g->others->name, GROUP_TEXT, "others");
    return 0;
}

/* --- Which group ------------------------------------------------------------------------------ */

static void name_of(enum group_by by, const struct request *r, char name[GROUP_TEXT])
{
    char peer[PEER_TEXT];

    report_peer(r, peer);
    if (by == BY_PATH)
        snprintf(name, GROUP_TEXT, "%.*s", (int)strcspn(r->target, "?"), r->target);
    else if (by == BY_CONNECTION)
        snprintf(name, GROUP_TEXT, "%llx %s", (unsigned long long)r->cookie, peer);
    else if (by == BY_STATUS)
        snprintf(name, GROUP_TEXT, r->status ? "%u" : "none", r->status);
    else
        report_address(r, name);
}

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 2166136261u;

    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash;
}

static struct group *find(struct groups *g, const char *name)
{
    uint32_t at = hash_of(name) % SLOTS;

    while (g->slot[at] && strcmp(g->group[g->slot[at] - 1]->name, name) != 0)
        at = (at + 1) % SLOTS;
    if (g->slot[at])
        return g->group[g->slot[at] - 1];
    if (g->count == GROUPS_MAX)
        return g->others;
    if (!g->group[g->count])
        g->group[g->count] = make();
    if (!g->group[g->count])
        return g->others;
    snprintf(g->group[g->count]->name, GROUP_TEXT, "%s", name);
    g->slot[at] = (uint16_t)++g->count;
    return g->group[g->count - 1];
}

static void add(struct group *g, const struct stages *s)
{
    g->requests++;
    if (!s->server_known)
        return;
    g->answer_ns += s->server_ns;
    for (unsigned i = 0; i <= STAGE_DONE; i++)
        g->stage_ns[i] += s->answer_ns[i];
    hist_add(&g->took, s->server_ns, 1);
}

void groups_add(struct groups *g, const struct request *r, const struct stages *s)
{
    char name[GROUP_TEXT];

    name_of(g->by, r, name);
    add(find(g, name), s);
    add(g->all, s);
}

/* --- Which comes first ------------------------------------------------------------------------ */

static uint64_t key_of(const struct group *g, enum group_sort sort)
{
    switch (sort) {
    case SORT_TIME:
        return g->answer_ns;
    case SORT_REQUESTS:
        return g->requests;
    case SORT_P50:
        return hist_quantile(&g->took, 500, 1000);
    case SORT_P99:
        return hist_quantile(&g->took, 990, 1000);
    default:
        return 0;
    }
}

static int compare(const void *one, const void *other)
{
    const struct group *a = *(struct group *const *)one, *b = *(struct group *const *)other;

    if (a->key != b->key)
        return a->key < b->key ? 1 : -1;
    return strcmp(a->name, b->name);
}

unsigned groups_sorted(struct groups *g, enum group_sort sort)
{
    unsigned n = g->count;

    memcpy(g->sorted, g->group, n * sizeof(*g->sorted));
    if (g->others->requests)
        g->sorted[n++] = g->others;
    for (unsigned i = 0; i < n; i++)
        g->sorted[i]->key = key_of(g->sorted[i], sort);
    qsort(g->sorted, n, sizeof(*g->sorted), compare);
    return n;
}

void groups_clear(struct groups *g)
{
    clear(g->all);
    clear(g->others);
    for (unsigned i = 0; i < g->count; i++)
        clear(g->group[i]);
    memset(g->slot, 0, sizeof(g->slot));
    g->count = 0;
}

static void free_group(struct group *g)
{
    if (g)
        free(g->took.cell);
    free(g);
}

void groups_free(struct groups *g)
{
    for (unsigned i = 0; i < GROUPS_MAX; i++)
        free_group(g->group[i]);
    free_group(g->all);
    free_group(g->others);
}

int group_slowest(const struct group *g)
{
    int slowest = -1;

    for (int i = 0; i <= STAGE_DONE; i++)
        if (g->stage_ns[i] > (slowest < 0 ? 0 : g->stage_ns[slowest]))
            slowest = i;
    return slowest;
}
