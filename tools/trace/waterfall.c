/* SPDX-License-Identifier: MIT */
/* waterfall.c - a request as a picture: a row for each stage, a bar where its time lies.
 *
 * The picture is as wide as the time from the first byte of the request to the last byte of the
 * answer.  The time after that is the client's: its bar runs past the edge, marked by a >.
 */
#include "draw.h"
#include "trace.h"

enum { BESIDE = 35 /* columns for the name, the time and the mark of the slowest */ };

/* The end of the last stage that belongs to the picture, counted from the first one known. */
static uint64_t width_of(const struct stages *s)
{
    uint64_t at = 0;

    for (unsigned i = STAGE_SHOWN; i <= STAGE_DONE; i++)
        at += s->took_ns[i];
    return at ? at : s->total_ns;
}

static void put_row(const struct stages *s, unsigned stage, uint64_t from, uint64_t width)
{
    unsigned columns = draw_columns() - BESIDE;
    uint64_t to = from + s->took_ns[stage];
    struct bar bar = {(double)from / (double)width, (double)to / (double)width,
                      columns < BAR_COLUMNS_MAX ? columns : BAR_COLUMNS_MAX, draw_utf8()};
    char text[BAR_TEXT];

    draw_bar(text, &bar);
    printf("%11.1f%s%s", (double)s->took_ns[stage] / 1e3, *text ? "  " : "", text);
    if (to > width)
        printf(">");
    if (stages_slowest(s) == (int)stage)
        printf(bar.utf8 ? " \xe2\x97\x80 slowest" : " < slowest");
}

void waterfall_request(const struct request *r, const struct stages *s)
{
    uint64_t at = 0, width = width_of(s);
    char peer[PEER_TEXT];

    report_peer(r, peer);
    report_begin(r, s);
    printf(" from %s", peer);
    report_end(r);
    for (unsigned i = STAGE_SHOWN; i < STAGES; i++) {
        if (s->state[i] == STAGE_NONE)
            continue;
        printf("  %-10s", stage_name((enum stage)i));
        if (s->state[i] != STAGE_KNOWN)
            printf("%11s", s->state[i] == STAGE_BUSY ? "busy" : "-");
        else
            put_row(s, i, at, width);
        at += s->took_ns[i];
        printf("\n");
    }
    printf("\n");
}
