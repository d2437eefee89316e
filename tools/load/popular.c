/* SPDX-License-Identifier: MIT */
/* popular.c - which URL is requested next: Zipf's law, drawn at the same cost for any number of
 * URLs.
 *
 * The alias method (Walker 1977, built as Vose did 1991): every column has the same chance; a
 * column that stands for less than that gives the rest to one that stands for more.  One random
 * number is enough: 32 bits for the column, 24 for what it gives away.
 */
#include <math.h>
#include <stdlib.h>
#include "workload.h"

#define WHOLE 4294967296.0 /* of struct column's keep */

/* Turns share[i], with an average of 1, into columns; small and large are the two ends of one
 * stack. */
static void fill(struct popular *p, double *share, uint32_t *stack)
{
    uint32_t small = 0, large = p->n, a, b;

    for (uint32_t i = 0; i < p->n; i++)
        if (share[i] < 1)
            stack[small++] = i;
        else
            stack[--large] = i;
    while (small && large < p->n) {
        a = stack[--small];
        b = stack[large];
        p->column[a].keep = (uint32_t)(share[a] * (WHOLE - 1));
        p->column[a].other = b;
        share[b] -= 1 - share[a];
        if (share[b] < 1) {
            large++;
            stack[small++] = b;
        }
    }
    /* The columns left stand for 1, apart from rounding: each is its own other one. */
}

struct popular *popular_make(uint32_t n, double s)
{
    struct popular *p = calloc(1, sizeof(*p) + n * sizeof(p->column[0]));
    double *share = malloc(n * sizeof(*share)), sum = 0;
    uint32_t *stack = malloc(n * sizeof(*stack));

    if (p && share && stack) {
        p->n = n;
        for (uint32_t i = 0; i < n; i++)
            sum += share[i] = pow(i + 1.0, -s);
        for (uint32_t i = 0; i < n; i++) {
            share[i] *= n / sum;
            p->column[i].other = i;
        }
        fill(p, share, stack);
    } else {
        free(p);
        p = NULL;
    }
    free(share);
    free(stack);
    return p;
}

uint32_t popular_draw(const struct popular *p, struct worker *w)
{
    uint64_t random = worker_random(w); /* 56 bits */
    uint32_t at = (uint32_t)((random & UINT32_MAX) * p->n >> 32);

    return random >> 32 << 8 < p->column[at].keep ? at : p->column[at].other;
}
