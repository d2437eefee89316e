/* SPDX-License-Identifier: MIT */
/* top.c - a table of the requests of the last second, with keys, as top has it.
 *
 * On a terminal the table takes the whole screen and gives it back; elsewhere each table follows
 * the one before, and the last one may be of less time.  Keys are read if standard input is the
 * same terminal and this process may read it.
 */
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>
#include "../../base/escape.h"
#include "draw.h"
#include "group.h"
#include "trace.h"

enum {
    HEAD_ROWS = 4,     /* above the groups: totals, keys, a blank line, the columns' names */
    PRINTED_ROWS = 20, /* groups, where there is no terminal */
    LINE_TEXT = 4 * GROUP_TEXT + 128
};

struct top {
    const struct trace_options *opt;
    unsigned port;
    enum group_sort sort;
    struct groups groups;
    uint64_t begun_ns, next_ns; /* when this table begins; when it is due */
    bool screen, keys;
    bool entered;               /* the screen is ours */
    struct termios before;
};

/* --- The terminal ----------------------------------------------------------------------------- */

static bool is_screen(void)
{
    const char *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
}

/* Signals still come, except those that would leave the terminal in this mode. */
static void take_keys(struct top *t)
{
    struct termios raw;

    t->keys = tcgetpgrp(STDIN_FILENO) == getpgrp() && tcgetattr(STDIN_FILENO, &t->before) == 0;
    if (!t->keys)
        return;
    raw = t->before;
    raw.c_lflag &= (tcflag_t)~(ICANON | ECHO);
    raw.c_cc[VMIN] = raw.c_cc[VTIME] = 0;
    raw.c_cc[VSUSP] = raw.c_cc[VQUIT] = _POSIX_VDISABLE;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

static void enter(struct top *t)
{
    t->entered = true;
    take_keys(t);
    printf("\033[?1049h\033[?25l");
}

static void leave(struct top *t)
{
    if (t->keys)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &t->before);
    if (t->entered)
        printf("\033[?25h\033[?1049l");
    fflush(stdout);
    t->keys = t->entered = false;
}

static void put_line(const struct top *t, const char *line)
{
    if (t->screen)
        printf("%.*s\033[K\n", (int)draw_columns(), line);
    else
        printf("%s\n", line);
}

/* --- The table -------------------------------------------------------------------------------- */

static void put_group(const struct top *t, const struct group *g, double seconds)
{
    int slowest = group_slowest(g);
    uint64_t all = t->groups.all->answer_ns;
    char line[LINE_TEXT], name[4 * GROUP_TEXT + 8], stage[32] = "-";

    escape_quoted(name, sizeof(name), (struct slice){g->name, strlen(g->name)});
    if (slowest >= 0)
        snprintf(stage, sizeof(stage), "%s %.0f%%", stage_name((enum stage)slowest),
                 100.0 * (double)g->stage_ns[slowest] / (double)g->answer_ns);
    snprintf(line, sizeof(line), "%10.1f %9.1f %9.1f %9.1f %5.0f%%  %-15s  %s",
             (double)g->requests / seconds, (double)hist_quantile(&g->took, 500, 1000) / 1e3,
             (double)hist_quantile(&g->took, 990, 1000) / 1e3,
             (double)hist_quantile(&g->took, 1, 1) / 1e3,
             all ? 100.0 * (double)g->answer_ns / (double)all : 0, stage, name);
    put_line(t, line);
}

static void put_head(const struct top *t, unsigned groups, double seconds)
{
    const struct group *all = t->groups.all;
    char line[LINE_TEXT];

    snprintf(line, sizeof(line), "port %u: %.1f requests/s, %u by %s, p50 %.1f us, p99 %.1f us",
             t->port, (double)all->requests / seconds, groups, group_by[t->groups.by],
             (double)hist_quantile(&all->took, 500, 1000) / 1e3,
             (double)hist_quantile(&all->took, 990, 1000) / 1e3);
    put_line(t, line);
    if (t->keys) {
        snprintf(line, sizeof(line), "sort: t time, r requests, 5 p50, 9 p99, n name (now %s)  "
                 "g groups  q quit", group_sort[t->sort]);
        put_line(t, line);
    }
    if (t->screen)
        put_line(t, "");
    snprintf(line, sizeof(line), "%10s %9s %9s %9s %6s  %-15s  %s", "requests/s", "p50 us",
             "p99 us", "max us", "time", "costliest", group_by[t->groups.by]);
    put_line(t, line);
}

static void draw(struct top *t, double seconds)
{
    unsigned n = groups_sorted(&t->groups, t->sort), rows = draw_rows() - HEAD_ROWS - 1;
    unsigned most = t->screen ? rows : PRINTED_ROWS, shown = n <= most ? n : most - 1;
    char line[64];

    if (t->screen)
        printf("\033[H");
    put_head(t, n, seconds);
    for (unsigned i = 0; i < shown; i++)
        put_group(t, t->groups.sorted[i], seconds);
    snprintf(line, sizeof(line), "%10s and %u more", "", n - shown);
    if (shown < n)
        put_line(t, line);
    printf(t->screen ? "\033[J" : "\n");
}

/* --- While it runs ---------------------------------------------------------------------------- */

int top_begin(struct top **to, const struct trace_options *opt, unsigned port)
{
    struct top *t = calloc(1, sizeof(*t));

    *to = t;
    if (!t)
        return -ENOMEM;
    t->opt = opt;
    t->port = port;
    t->sort = opt->sort;
    t->screen = is_screen();
    if (groups_init(&t->groups) < 0)
        return -ENOMEM;
    t->groups.by = opt->by;
    return 0;
}

void top_request(struct top *t, const struct request *r, const struct stages *s)
{
    groups_add(&t->groups, r, s);
}

static void restart(struct top *t, uint64_t now_ns)
{
    groups_clear(&t->groups);
    t->begun_ns = now_ns;
    t->next_ns = now_ns + t->opt->every * 1000000;
}

/* Obeys the keys.  False: q was pressed. */
static bool obey(struct top *t, uint64_t now_ns)
{
    static const char sorts[GROUP_SORTS] = {'t', 'r', '5', '9', 'n'};
    struct pollfd ready = {.fd = STDIN_FILENO, .events = POLLIN};
    const char *sort;
    char key;

    while (t->keys && poll(&ready, 1, 0) > 0 && read(STDIN_FILENO, &key, 1) == 1) {
        key = (char)tolower((unsigned char)key);
        sort = memchr(sorts, key, sizeof(sorts));
        if (key == 'q')
            return false;
        if (sort)
            t->sort = (enum group_sort)(sort - sorts);
        if (key == 'g') {
            t->groups.by = (t->groups.by + 1) % GROUP_BYS;
            restart(t, now_ns);
        }
    }
    return true;
}

bool top_tick(struct top *t, uint64_t now_ns)
{
    if (!t->next_ns)
        restart(t, now_ns);
    if (t->screen && !t->entered)
        enter(t);
    if (!obey(t, now_ns))
        return false;
    if (now_ns < t->next_ns)
        return true;
    draw(t, (double)(now_ns - t->begun_ns) / 1e9);
    restart(t, now_ns);
    return true;
}

void top_end(struct top *t, uint64_t now_ns)
{
    if (!t)
        return;
    if (!t->screen && t->groups.all && t->groups.all->requests)
        draw(t, (double)(now_ns - t->begun_ns) / 1e9);
    leave(t);
    groups_free(&t->groups);
    free(t);
}
