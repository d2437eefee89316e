/* SPDX-License-Identifier: MIT */
/* draw.c - what the terminal can show, and a bar as text. */
#include <langinfo.h>
#include <locale.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "draw.h"

enum { EIGHTHS = 8, BLOCK_BYTES = 3, COLUMNS_LEAST = 40, ROWS_LEAST = 4 };

static struct winsize window(void)
{
    struct winsize size = {0};

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || !size.ws_col || !size.ws_row)
        return (struct winsize){.ws_col = PLAIN_COLUMNS, .ws_row = PLAIN_ROWS};
    return size;
}

unsigned draw_columns(void)
{
    unsigned columns = window().ws_col;

    return columns < COLUMNS_LEAST ? COLUMNS_LEAST : columns;
}

unsigned draw_rows(void)
{
    unsigned rows = window().ws_row;

    return rows < ROWS_LEAST ? ROWS_LEAST : rows;
}

bool draw_utf8(void)
{
    return setlocale(LC_CTYPE, "") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* U+2588 is a full block, U+2589 has seven eighths of one, and so on to U+258F. */
static char *put_block(char *to, unsigned eighths)
{
    to[0] = (char)0xe2;
    to[1] = (char)0x96;
    to[2] = (char)(0x88 + EIGHTHS - eighths);
    return to + BLOCK_BYTES;
}

static double within(double part)
{
    return part > 0 ? (part < 1 ? part : 1) : 0;
}

void draw_bar(char text[BAR_TEXT], const struct bar *b)
{
    double from = within(b->from) * b->columns, to = within(b->to) * b->columns;
    unsigned start = (unsigned)from, end = (unsigned)(to * EIGHTHS + 0.5);
    char *p = text;

    start = start < b->columns ? start : b->columns - 1;
    end = end > start * EIGHTHS ? end : start * EIGHTHS + 1;
    if (b->to > b->from) {
        memset(p, ' ', start);
        p += start;
        if (!b->utf8) {
            unsigned cells = (end + EIGHTHS / 2) / EIGHTHS;

            cells = cells > start ? cells - start : 1;
            memset(p, '#', cells);
            p += cells;
        }
        for (unsigned at = start * EIGHTHS; b->utf8 && at < end; at += EIGHTHS)
            p = put_block(p, end - at < EIGHTHS ? end - at : EIGHTHS);
    }
    *p = 0;
}
