/* SPDX-License-Identifier: MIT */
/* option.h - declare an option once; parser, range check, help, man page, completion and environment follow.
 *
 * A table is an array of rows, usually expanded from a .def file.  A value is taken, in this order of
 * strength, from the command line, the environment (RUNG_NAME), the row's default.  Numbers take units:
 * sizes k m g (1024), times ms s m h d (a bare number counts seconds).
 */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum option_type {
    OPTION_FLAG,     /* bool; --name or --no-name */
    OPTION_SWITCH,   /* bool; --name on|off */
    OPTION_NUMBER,   /* uint64_t */
    OPTION_SIZE,     /* uint64_t bytes */
    OPTION_TIME,     /* uint64_t milliseconds */
    OPTION_TEXT,     /* const char * */
    OPTION_LIST,     /* struct option_list: may be given several times */
    OPTION_CHOICE    /* unsigned: index into values */
};

enum { OPTION_LIST_MAX = 8 };
struct option_list {
    const char *item[OPTION_LIST_MAX];
    unsigned count;
};

struct option_row {
    size_t offset;           /* of the field in the struct that is filled */
    enum option_type type;
    char letter;             /* or 0 */
    const char *name;        /* long name, without -- */
    const char *value;       /* what help calls the value: N, ADDR, TIME; NULL for flags */
    const char *fallback;    /* default as text, parsed like input; NULL: zero */
    uint64_t min, max;       /* numbers, sizes (bytes), times (ms) */
    const char *const *values; /* OPTION_CHOICE, NULL-terminated */
    const char *group;       /* heading in help */
    const char *help;        /* one line */
    const char *more;        /* the man page's further words, or NULL */
};

struct option_table {
    const char *command;     /* "rung serve" */
    const char *purpose;     /* one line */
    const char *operands;    /* "[DIR]" */
    const char *const *examples; /* pairs: command, what it does; NULL-terminated */
    const struct option_row *row;
    unsigned rows;
    unsigned operands_max;
    const char *notes;       /* exit codes, signals: end of help and man page; or NULL */
};

/* Fill target from defaults, environment and argv[1..].  0, or -EINVAL with a sentence in error that says
 * what is wrong and what to do (nearest option for a typo).  operand[] gets the rest, *operands their number. */
int option_parse(const struct option_table *t, void *target, char **argv, const char **operand,
                 unsigned *operands, char *error, size_t cap);

void option_help(const struct option_table *t, FILE *out);       /* one screen, examples first */
void option_man(const struct option_table *t, FILE *out);        /* mdoc(7) source */
void option_completion(const struct option_table *t, FILE *out); /* bash */

/* Units, for others: 0 or -EINVAL/-ERANGE. */
int option_size(const char *text, uint64_t *bytes);
int option_time(const char *text, uint64_t *ms);

/* The word of the list nearest to a mistyped one, or NULL when none is near. */
const char *option_nearest(const char *typed, const char *const *words);

#endif
