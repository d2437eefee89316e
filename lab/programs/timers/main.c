/* SPDX-License-Identifier: MIT */
/* main.c - timers SCHEME check OPERATIONS | memory PROLONGATIONS | shared ADDERS [OPERATIONS] |
 *                 OPERATION TIMERS [ROUNDS]
 *
 * Exits with 0; with 1 and a sentence when something is wrong; with 2 for wrong arguments; with 3
 * and a sentence when the scheme would take minutes.
 */
#include <stdio.h>
#include <stdlib.h>
#include "timers.h"

static const struct scheme *const schemes[] = {
#define X(name) &name##_scheme,
    SCHEMES(X)
#undef X
};

enum { SCHEMES_COUNT = sizeof(schemes) / sizeof(schemes[0]) };

static int usage(void)
{
    fprintf(stderr, "usage: timers SCHEME OPERATION TIMERS [ROUNDS]\n"
                    "       timers SCHEME check|memory COUNT\n"
                    "       timers SCHEME shared THREADS [OPERATIONS]\n"
                    "operations: start stop restart update expire serve\nschemes:\n");
    for (unsigned i = 0; i < SCHEMES_COUNT; i++)
        fprintf(stderr, "  %-14s %s\n", schemes[i]->name, schemes[i]->summary);
    return 2;
}

static bool number(const char *text, unsigned least, unsigned *n)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    *n = (unsigned)value;
    return end != text && *end == '\0' && value >= least && value <= 100000000;
}

static int run(const struct scheme *s, const char *what, unsigned count, unsigned more)
{
    if (strcmp(what, "check") == 0)
        return check(s, count);
    if (strcmp(what, "memory") == 0)
        return check_memory(s, count);
    if (strcmp(what, "shared") == 0)
        return shared(s, count, more ? more : 1000000);
    if (count <= s->most)
        return count >= 64 ? bench(s, what, count, more) : 2;
    fprintf(stderr, "not run: something of it goes through all %u timers, each time\n", count);
    return 3;
}

int main(int argc, char **argv)
{
    unsigned i = 0, count, more = 0;

    if (argc < 4 || argc > 5 || !number(argv[3], 1, &count) ||
        (argc == 5 && !number(argv[4], 1, &more)))
        return usage();
    while (i < SCHEMES_COUNT && strcmp(schemes[i]->name, argv[1]) != 0)
        i++;
    if (i == SCHEMES_COUNT)
        return usage();
    int status = run(schemes[i], argv[2], count, more);

    return status == 2 ? usage() : status;
}
