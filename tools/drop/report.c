/* SPDX-License-Identifier: MIT */
/* report.c - what was found or done, for people: a sentence, then counts, the largest first. */
#include <stdio.h>
#include <stdlib.h>
#include "drop.h"

enum { SHOWN = 5 /* rows of a table: those after them are added up in one */ };

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

static void put_table(const struct haul *haul, enum tally_kind kind)
{
    static const char *const heading[] = {"state", "port here", "peer", "port there"};
    char text[END_TEXT];
    size_t rows, rest = 0;
    struct row *row = tally(haul, kind, &rows);

    for (size_t i = 0; i < rows; i++)
        if (i < SHOWN)
            printf("  %-10s  %7zu  %s\n", i ? "" : heading[kind], row[i].count,
                   tally_text(kind, &row[i], text));
        else
            rest += row[i].count;
    if (rest)
        printf("  %-10s  %7zu  of %zu more\n", "", rest, rows - SHOWN);
    free(row);
}

static void put_done(const struct outcome *o)
{
    printf("%zu socket%s dropped", o->dropped, plural(o->dropped));
    if (o->gone)
        printf(", %zu had ended meanwhile", o->gone);
    if (o->refused)
        printf(", %zu not: %s", o->refused, say_why(o->error));
    printf("%s\n", o->by_module ? " (by the module rung_drop)" : "");
}

static void put_headline(const struct report *r)
{
    const struct filter *f = r->filter;
    size_t n = r->haul->count;

    if (r->outcome->done && n)
        put_done(r->outcome);
    else if (n)
        printf("%zu socket%s would be dropped; --yes does it%s\n", n, plural(n),
               f->uid ? ", for root or with CAP_NET_ADMIN" : "");
    else
        printf("no socket fits%s\n", f->states_given || f->by_pairs ? "" :
               "; only those in time-wait were looked at (--state all: every one but listen)");
    if (f->pairs.count && pairs_met(&f->pairs) < f->pairs.count)
        printf("%zu of %zu pairs: no such socket\n", f->pairs.count - pairs_met(&f->pairs),
               f->pairs.count);
}

static void put_let_be(const struct haul *haul)
{
    if (haul->listens)
        printf("let be: %zu that listen%s (--state listen)\n", haul->listens,
               haul->listens == 1 ? "s" : "");
    if (haul->foreign)
        printf("let be: %zu of other users (root may drop them)\n", haul->foreign);
}

static void put_list(const struct haul *haul)
{
    char local[END_TEXT], peer[END_TEXT];

    for (size_t i = 0; i < haul->count; i++) {
        end_write(&haul->entry[i].pair.local, haul->entry[i].pair.device, local);
        end_write(&haul->entry[i].pair.peer, 0, peer);
        printf("%s %s\n", local, peer);
    }
}

void report_text(const struct report *r)
{
    if (r->opt->list) {
        put_list(r->haul);
        return;
    }
    put_headline(r);
    for (unsigned kind = 0; kind < TALLIES && r->haul->count; kind++)
        put_table(r->haul, (enum tally_kind)kind);
    put_let_be(r->haul);
}
