/* SPDX-License-Identifier: MIT */
/* report_json.c - what was found or done, for programs; docs/drop.md has the keys. */
#include <stdlib.h>
#include <string.h>
#include "../../base/escape.h"
#include "../../base/version.h"
#include "drop.h"

enum { JSON_FORM = 1 /* raised when a key changes its meaning or is removed */ };

static void put_text(const char *key, const char *text)
{
    char safe[2048];

    if (text) {
        escape_json(safe, sizeof(safe), (struct slice){text, strlen(text)});
        printf("\"%s\": \"%s\"", key, safe);
    } else {
        printf("\"%s\": null", key);
    }
}

static void put_table(const struct haul *haul, enum tally_kind kind)
{
    static const char *const table[] = {"by_state", "by_port", "by_peer", "by_peer_port"};
    static const char *const key[] = {"state", "port", "address", "port"};
    bool quoted = kind == TALLY_STATE || kind == TALLY_PEER;
    const char *quote = quoted ? "\"" : "";
    char text[END_TEXT];
    size_t rows;
    struct row *row = tally(haul, kind, &rows);

    printf(",\n \"%s\": [", table[kind]);
    for (size_t i = 0; i < rows; i++)
        printf("%s\n  {\"%s\": %s%s%s, \"count\": %zu}", i ? "," : "", key[kind], quote,
               tally_text(kind, &row[i], text), quote, row[i].count);
    printf("]");
    free(row);
}

static void put_sockets(const struct haul *haul)
{
    char local[END_TEXT], peer[END_TEXT];

    printf(",\n \"sockets\": [");
    for (size_t i = 0; i < haul->count; i++) {
        const struct entry *entry = &haul->entry[i];

        end_write(&entry->pair.local, entry->pair.device, local);
        end_write(&entry->pair.peer, 0, peer);
        printf("%s\n  {\"local\": \"%s\", \"peer\": \"%s\", \"state\": \"%s\", \"uid\": ",
               i ? "," : "", local, peer, state_name(entry->state));
        printf(entry->inode ? "%u}" : "null}", entry->uid);
    }
    printf("]");
}

void report_json(const struct report *r)
{
    const struct outcome *o = r->outcome;
    const struct haul *haul = r->haul;
    const struct pairs *pairs = &r->filter->pairs;

    printf("{\"form\": %d, \"version\": \"" RUNG_VERSION "\", ", JSON_FORM);
    put_text("netns", r->opt->netns);
    printf(", \"dry_run\": %s, \"through\": %s,\n", o->done ? "false" : "true",
           !o->done ? "null" : o->by_module ? "\"module\"" : "\"diag\"");
    printf(" \"chosen\": %zu, \"dropped\": %zu, \"gone\": %zu, \"refused\": %zu, ", haul->count,
           o->dropped, o->gone, o->refused);
    put_text("error", o->error ? say_why(o->error) : NULL);
    printf(",\n \"let_be\": {\"listening\": %zu, \"other_users\": %zu},\n", haul->listens,
           haul->foreign);
    printf(" \"pairs\": {\"given\": %zu, \"found\": %zu}", pairs->count, pairs_met(pairs));
    for (unsigned kind = 0; kind < TALLIES; kind++)
        put_table(haul, (enum tally_kind)kind);
    if (r->opt->list)
        put_sockets(haul);
    printf("}\n");
}
