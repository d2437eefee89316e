/* SPDX-License-Identifier: MIT */
/* main.c - parsers: what reading a request line, or a head, costs in each of several parsers.
 *
 *   parsers list                  the parsers, and why one cannot run here
 *   parsers check                 all that can run here answer as corpus.def says, cut anywhere
 *   parsers NAME lines|heads      {"ns": for one line or head}
 *   parsers NAME lines|heads N    reads all rows N times: {"units": rows in one time}
 *
 * The order of the rows is drawn once by a generator with a fixed seed, so long that a branch
 * predictor cannot learn it.  Before anything is measured the parser must give the right answers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "parsers.h"

enum {
    DRAWN = 1024,           /* rows in one time */
    BATCHES = 15,           /* the quickest one counts: other work of the machine only adds */
    BATCH_NS = 20000000
};

static const struct parser *const parsers[] = {
    &parser_switch, &parser_switch_plain, &parser_goto,        &parser_direct, &parser_memchr,
    &parser_words,  &parser_rung,         &parser_pico,        &parser_http_parser,
    &parser_llhttp,
};
enum { PARSERS = sizeof(parsers) / sizeof(parsers[0]) };

static int list(void)
{
    const char *missing;
    unsigned i;

    for (i = 0; i < PARSERS; i++) {
        missing = parsers[i]->missing();
        printf("%-15s %s%s%s\n", parsers[i]->name, parsers[i]->words,
               missing ? "; cannot run here: " : "", missing ? missing : "");
    }
    return 0;
}

static int check_all(void)
{
    static const char *const names[] = {"lines", "heads"};
    unsigned i, j, bad = 0, checked = 0;

    for (i = 0; i < PARSERS; i++) {
        if (parsers[i]->missing())
            continue;
        checked++;
        for (j = 0; j < 2; j++)
            bad += check(parsers[i], corpus_of(names[j]), true);
    }
    printf("{\"parsers\": %u, \"wrong\": %u}\n", checked, bad);
    return bad != 0;
}

/* Rows that every parser accepts, in the order drawn. */
static void draw(const struct corpus *corpus, const struct row *drawn[DRAWN])
{
    uint64_t x = 88172645463325252;
    const struct row *row;
    unsigned i = 0;

    while (i < DRAWN) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        row = &corpus->row[(x >> 32) % corpus->rows];
        if (row_is_common(row))
            drawn[i++] = row;
    }
}

static void read_all(const struct parser *parser, const struct row *const drawn[DRAWN], unsigned n)
{
    _Alignas(64) static char state[PARSER_STATE_BYTES];
    unsigned i;

    for (i = 0; i < n; i++) {
        parser->begin(state);
        parser->feed(state, drawn[i]->text, drawn[i]->len);
    }
}

static uint64_t cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static double measure(const struct parser *parser, const struct row *const drawn[DRAWN])
{
    double least = 0, ns;
    uint64_t start, spent;
    unsigned i, times;

    for (i = 0; i < BATCHES; i++) {
        start = cpu_ns();
        times = 0;
        do {
            read_all(parser, drawn, DRAWN);
            times++;
            spent = cpu_ns() - start;
        } while (spent < BATCH_NS);
        ns = (double)spent / times / DRAWN;
        if (i == 0 || ns < least)
            least = ns;
    }
    return least;
}

static int run(const struct parser *parser, const struct corpus *corpus, const char *count)
{
    static const struct row *drawn[DRAWN];
    unsigned long times;
    char *end;

    if (parser->missing()) {
        fprintf(stderr, "parsers: %s cannot run here: %s\n", parser->name, parser->missing());
        return 1;
    }
    if (check(parser, corpus, false) != 0)
        return 1;
    draw(corpus, drawn);
    if (!count) {
        printf("{\"ns\": %.2f}\n", measure(parser, drawn));
        return 0;
    }
    times = strtoul(count, &end, 10);
    if (end == count || *end != '\0') {
        fprintf(stderr, "parsers: %s is no number of times\n", count);
        return 2;
    }
    while (times-- > 0)
        read_all(parser, drawn, DRAWN);
    printf("{\"units\": %d}\n", DRAWN);
    return 0;
}

int main(int argc, char **argv)
{
    const struct corpus *corpus;
    unsigned i;

    if (argc == 2 && strcmp(argv[1], "list") == 0)
        return list();
    if (argc == 2 && strcmp(argv[1], "check") == 0)
        return check_all();
    if ((argc == 3 || argc == 4) && (corpus = corpus_of(argv[2])) != NULL)
        for (i = 0; i < PARSERS; i++)
            if (strcmp(argv[1], parsers[i]->name) == 0)
                return run(parsers[i], corpus, argv[3]);
    fputs("usage: parsers list | check | NAME lines|heads [N]\n", stderr);
    return 2;
}
