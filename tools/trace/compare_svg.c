/* SPDX-License-Identifier: MIT */
/* compare_svg.c - two ports as a picture: their mean answers as bars of stages, and under them p50
 * and p99 of each stage on a logarithmic axis.
 */
#include <errno.h>
#include <math.h>
#include "compare.h"

enum {
    WIDTH = 760, LEFT = 120, RIGHT = 40, TOP = 64,
    BAR = 30,  /* height of a bar of means, */
    STEP = 42, /* ... and from one to the next */
    ROW = 34,  /* height of a stage's row below */
    GAP = 56,  /* between the two parts */
    TITLE = 22
};

struct sheet {
    FILE *file;
    const struct compared *c;
    double low, high; /* the logarithmic axis, in ns */
    unsigned top;     /* of the second part */
};

/* Dark enough for words in white on them; neighbours differ in lightness, too. */
static const char *const colours[] = {"#5f656d", "#5b4a3f", "#1d2024", "#1f4fae", "#2f86cf",
                                      "#0b7a4b", "#6d8f1e", "#86439b", "#cf5a87", "#b27d00",
                                      "#9c1c3c", "#16918c"};
enum { COLOURS = sizeof(colours) / sizeof(colours[0]) };

/* Whether the stage has anything to be drawn in the second part. */
static bool has_row(const struct compared *c, unsigned stage)
{
    return compare_counts(stage) &&
           (c->ns[BY_P99][0][stage] > 0 || c->ns[BY_P99][1][stage] > 0);
}

static unsigned rows(const struct compared *c)
{
    unsigned n = 0;

    for (unsigned i = 0; i < STAGES; i++)
        n += has_row(c, i);
    return n;
}

static const char *colour_of(unsigned stage)
{
    return colours[stage % COLOURS];
}

static void put_text(const struct sheet *s, const char *attributes, const char *text)
{
    fprintf(s->file, "<text %s>", attributes);
    for (; *text; text++)
        if (strchr("<>&\"", *text) || (unsigned char)*text < 0x20 || *text == 0x7f)
            fprintf(s->file, "&#%u;", (unsigned char)*text < 0x20 ? '?' : (unsigned char)*text);
        else
            putc(*text, s->file);
    fprintf(s->file, "</text>\n");
}

static void put_at(const struct sheet *s, double x, double y, const char *text)
{
    char attributes[48];

    snprintf(attributes, sizeof(attributes), "x=\"%.1f\" y=\"%.1f\"", x, y);
    put_text(s, attributes, text);
}

/* --- Means ------------------------------------------------------------------------------------ */

static void put_mean(const struct sheet *s, unsigned side)
{
    const struct compared *c = s->c;
    double most = fmax(c->ns[BY_MEAN][0][STAGES], c->ns[BY_MEAN][1][STAGES]);
    double x = LEFT, y = TOP + STEP * side;
    double scale = (WIDTH - LEFT - RIGHT - 80) / most;
    char text[64];

    put_at(s, 12, y + BAR * 0.65, c->side[side].name);
    for (unsigned i = 0; i < STAGES; i++) {
        double width = c->ns[BY_MEAN][side][i] * scale;

        if (width <= 0)
            continue;
        fprintf(s->file, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\">"
                "<title>%s %.1f us</title></rect>\n", x, y, width, BAR, colour_of(i),
                stage_name((enum stage)i), c->ns[BY_MEAN][side][i] / 1e3);
        snprintf(text, sizeof(text), "x=\"%.1f\" y=\"%.1f\" class=\"in\"", x + width / 2,
                 y + BAR * 0.65);
        if (width > 10 + 9 * (double)strlen(stage_name((enum stage)i)))
            put_text(s, text, stage_name((enum stage)i));
        x += width;
    }
    snprintf(text, sizeof(text), "%.1f us", c->ns[BY_MEAN][side][STAGES] / 1e3);
    put_at(s, x + 8, y + BAR * 0.65, text);
}

/* --- Percentiles ------------------------------------------------------------------------------ */

static double place(const struct sheet *s, double ns)
{
    double part = log(fmax(ns, s->low) / s->low) / log(s->high / s->low);

    return LEFT + part * (WIDTH - LEFT - RIGHT);
}

static void find_range(struct sheet *s)
{
    double most = 0, least = INFINITY;

    for (unsigned side = 0; side < SIDES; side++)
        for (unsigned i = 0; i < STAGES; i++) {
            double p50 = s->c->ns[BY_P50][side][i];

            if (!compare_counts(i))
                continue;
            most = fmax(most, s->c->ns[BY_P99][side][i]);
            least = p50 > 0 ? fmin(least, p50) : least;
        }
    s->low = pow(10, floor(log10(fmax(fmin(least, most), 100))));
    s->high = pow(10, ceil(log10(fmax(most, 2 * s->low))));
}

static void put_axis(const struct sheet *s, double bottom)
{
    char text[64];

    for (double ns = s->low; ns < s->high * 1.5; ns *= 10) {
        fprintf(s->file, "<path class=\"grid\" d=\"M%.1f %uV%.1f\"/>\n", place(s, ns), s->top,
                bottom);
        snprintf(text, sizeof(text), "x=\"%.1f\" y=\"%.1f\" class=\"mid\"", place(s, ns),
                 bottom + 18);
        fprintf(s->file, "<text %s>%.10g us</text>\n", text, ns / 1e3);
    }
}

static void put_stage(const struct sheet *s, unsigned stage, double y)
{
    for (unsigned side = 0; side < SIDES; side++) {
        double p50 = s->c->ns[BY_P50][side][stage], p99 = s->c->ns[BY_P99][side][stage];
        double at = y + (side ? 6 : -6);

        if (p99 <= 0) /* nothing is known, or it took no time */
            continue;
        fprintf(s->file, "<path d=\"M%.1f %.1fH%.1fm0 -4v8\" stroke=\"%s\" stroke-width=\"2\" "
                "fill=\"none\"/>\n", place(s, p50), at, place(s, p99), colour_of(stage));
        fprintf(s->file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" stroke=\"%s\" "
                "stroke-width=\"2\" fill=\"%s\"><title>%s, %s: p50 %.1f us, p99 %.1f us</title>"
                "</circle>\n", place(s, p50), at, colour_of(stage),
                side ? "#fff" : colour_of(stage), stage_name((enum stage)stage), side ? "B" : "A",
                p50 / 1e3, p99 / 1e3);
    }
}

static void put_percentiles(const struct sheet *s)
{
    double y = s->top + ROW / 2.0;

    put_at(s, 12, s->top - 12, "Each stage: from p50 (circle) to p99 (bar)");
    put_axis(s, s->top + ROW * rows(s->c));
    for (unsigned i = 0; i < STAGES; i++) {
        if (!has_row(s->c, i))
            continue;
        fprintf(s->file, "<rect x=\"12\" y=\"%.1f\" width=\"12\" height=\"12\" fill=\"%s\"/>\n",
                y - 6, colour_of(i));
        put_at(s, 32, y + 5, stage_name((enum stage)i));
        put_stage(s, i, y);
        y += ROW;
    }
}

/* --- The sheet -------------------------------------------------------------------------------- */

static void put_key(const struct sheet *s)
{
    char text[SIDE_TEXT + 8];

    for (unsigned side = 0; side < SIDES; side++) {
        double x = WIDTH - RIGHT - 320 + 170 * side;

        fprintf(s->file, "<circle cx=\"%.1f\" cy=\"%u\" r=\"5\" stroke=\"#1d2024\" "
                "stroke-width=\"2\" fill=\"%s\"/>\n", x, s->top - 17, side ? "#fff" : "#1d2024");
        snprintf(text, sizeof(text), "%.20s", s->c->side[side].name);
        put_at(s, x + 12, s->top - 12, text);
    }
}

int compare_draw(const struct compared *c, const char *path)
{
    unsigned height = TOP + SIDES * STEP + GAP + ROW * rows(c) + 40;
    struct sheet s = {.file = fopen(path, "we"), .c = c, .top = TOP + SIDES * STEP + GAP};
    int err;

    if (!s.file)
        return -errno;
    find_range(&s);
    fprintf(s.file, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %u\" width=\"%d\" "
            "height=\"%u\">\n<style>text{font:14px 'DejaVu Sans',Verdana,sans-serif;"
            "fill:#1d2024}.in{fill:#fff;text-anchor:middle}.mid{text-anchor:middle;fill:#5f656d}"
            ".grid{stroke:#dcdcd6;fill:none}</style>\n<rect width=\"100%%\" height=\"100%%\" "
            "fill=\"#fff\"/>\n", WIDTH, height, WIDTH, height);
    put_at(&s, 12, TITLE + 8, "The mean answer, stage by stage");
    for (unsigned i = 0; i < SIDES; i++)
        put_mean(&s, i);
    put_key(&s);
    put_percentiles(&s);
    fprintf(s.file, "</svg>\n");
    err = ferror(s.file) ? -EIO : 0;
    return fclose(s.file) != 0 && !err ? -errno : err;
}
