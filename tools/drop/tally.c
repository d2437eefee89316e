/* SPDX-License-Identifier: MIT */
/* tally.c - a haul counted by state, by port at this end, by peer, by the peer's port.
 *
 * The keys are sorted, runs of equal ones become rows, and these are sorted by their counts.
 */
#include <stdlib.h>
#include <string.h>
#include "drop.h"

static struct row key_of(const struct entry *entry, enum tally_kind kind)
{
    struct row row = {.count = 1};

    switch (kind) {
    case TALLY_STATE:
        row.number = entry->state;
        break;
    case TALLY_PORT:
        row.number = entry->pair.local.port;
        break;
    case TALLY_PEER:
        row.addr = entry->pair.peer.addr;
        break;
    case TALLY_PEER_PORT:
        row.number = entry->pair.peer.port;
        break;
    case TALLIES:
        break;
    }
    return row;
}

static int by_key(const void *left, const void *right)
{
    const struct row *a = left, *b = right;
    int order = memcmp(&a->addr, &b->addr, sizeof(a->addr));

    return order ? order : (a->number > b->number) - (a->number < b->number);
}

static int by_count(const void *left, const void *right)
{
    const struct row *a = left, *b = right;

    return a->count != b->count ? (a->count < b->count) - (a->count > b->count) : by_key(a, b);
}

struct row *tally(const struct haul *haul, enum tally_kind kind, size_t *rows)
{
    struct row *row = calloc(haul->count ? haul->count : 1, sizeof(*row));
    size_t n = 0;

    *rows = 0;
    if (!row)
        return NULL;
    for (size_t i = 0; i < haul->count; i++)
        row[i] = key_of(&haul->entry[i], kind);
    qsort(row, haul->count, sizeof(*row), by_key);
    for (size_t i = 0; i < haul->count; i++)
        if (n && by_key(&row[n - 1], &row[i]) == 0)
            row[n - 1].count++;
        else
            row[n++] = row[i];
    qsort(row, n, sizeof(*row), by_count);
    *rows = n;
    return row;
}

const char *tally_text(enum tally_kind kind, const struct row *row, char text[END_TEXT])
{
    if (kind == TALLY_STATE)
        return state_name(row->number);
    if (kind == TALLY_PEER)
        address_write(&row->addr, text);
    else
        snprintf(text, END_TEXT, "%u", row->number);
    return text;
}
