/* SPDX-License-Identifier: MIT */
/* draw.h - pictures made of text: what the reader's terminal can show, and bars.
 *
 * In UTF-8 a bar ends at an eighth of a column; elsewhere it is made of #.
 */
#ifndef TRACE_DRAW_H
#define TRACE_DRAW_H
#include <stdbool.h>

enum {
    BAR_COLUMNS_MAX = 160,
    BAR_TEXT = 3 * BAR_COLUMNS_MAX + 1, /* a block takes three bytes */
    PLAIN_COLUMNS = 80,                 /* where standard output is no terminal */
    PLAIN_ROWS = 24
};

/* The size of standard output; a terminal may change its size at any time. */
unsigned draw_columns(void);
unsigned draw_rows(void);
/* Whether the locale of the environment is one of UTF-8. */
bool draw_utf8(void);

/* A bar within `columns` columns, from one place to another: both from 0 to 1. */
struct bar {
    double from, to;
    unsigned columns; /* 1 to BAR_COLUMNS_MAX */
    bool utf8;
};

/* Blanks, then the bar.  A bar that is not empty can be seen, however short it is. */
void draw_bar(char text[BAR_TEXT], const struct bar *b);

#endif
