/* SPDX-License-Identifier: MIT */
/* option.h - declare an option once; parser, range check, help, man page, completion and
 * environment follow.
 *
 * A table is an array of rows, usually expanded from a .def file.  A value is taken, in this
 * order of strength, from the command line, the environment (RUNG_NAME), the row's default.
 * Numbers take units: counts k m g (1000), sizes k m g t (1024), times ms s m h d (a bare number
 * counts seconds); decimals are welcome where they make a whole (1.5s).  -h, --help and
 * --help-all belong to every table.
 *
 *   option.c        the parser            option_value.c  one value, the nearest word
 *   option_help.c   the screen of help    option_man.c    mdoc(7), bash completion, Markdown
 */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum option_type {
    OPTION_FLAG,   /* bool; --name or --no-name */
    OPTION_SWITCH, /* bool; --name on|off */
    OPTION_NUMBER, /* uint64_t */
    OPTION_SIZE,   /* uint64_t bytes */
    OPTION_TIME,   /* uint64_t milliseconds */
    OPTION_TEXT,   /* const char * */
    OPTION_LIST,   /* struct option_list: may be given several times; commas in the environment */
    OPTION_CHOICE  /* unsigned: index into values */
};

enum {
    OPTION_LIST_MAX = 8,
    OPTION_OPERANDS_MAX = 4,
    OPTION_LIST_TEXT = 512,
    OPTION_VALUE_TEXT = 32,
    OPTION_ERROR_TEXT = 320
};

struct option_list {
    const char *item[OPTION_LIST_MAX];
    unsigned count;
    char text[OPTION_LIST_TEXT]; /* what items point into when they came with commas */
};

struct option_row {
    size_t offset; /* of the field in the struct that is filled */
    enum option_type type;
    char letter; /* or 0 */
    bool rare;   /* the screen of help only names it; --help-all and the man page explain */
    const char *name;          /* long name, without -- */
    const char *value;         /* what help calls the value: N, ADDR; NULL: the type's own word */
    const char *fallback;      /* default as text, parsed like input; NULL: zero, none */
    uint64_t min, max;         /* numbers, sizes (bytes), times (ms); max 0: no upper bound */
    const char *const *values; /* OPTION_CHOICE, NULL-terminated */
    const char *group;         /* heading in help */
    const char *help;          /* one line */
    const char *more;          /* the man page's further words, or NULL */
};

struct option_table {
    const char *command;         /* "rung serve" */
    const char *page;            /* the man page's name: "rung" */
    const char *nutshell;        /* the man page's NAME line: "serve a folder over HTTP" */
    const char *purpose;         /* one line */
    const char *usage;           /* "rung [serve] [OPTION]... [DIR]" */
    const char *operand;         /* "DIR"; NULL: none are taken */
    const char *const *examples; /* pairs: command, what it does; NULL-terminated */
    /* pairs: command, what it does; the man page lists them; or NULL */
    const char *const *commands;
    const struct option_row *row;
    unsigned rows;
    unsigned operands_max;       /* up to OPTION_OPERANDS_MAX */
    const char *notes;             /* the last lines of help; or NULL */
    /* pairs: heading, text of a man page section; NULL-terminated; or NULL */
    const char *const *man_notes;
};

enum { OPTION_OK, OPTION_HELP, OPTION_HELP_ALL };

/* What option_parse() found besides options. */
struct option_found {
    const char *operand[OPTION_OPERANDS_MAX];
    unsigned operands;
    char error[OPTION_ERROR_TEXT];
};

/* Fill target from defaults, environment and argv[1..].  OPTION_OK; or OPTION_HELP or
 * OPTION_HELP_ALL as soon as help is asked for; or -EINVAL with a sentence in found->error that
 * says what is wrong and what to do (the nearest option for a typo).  What argv holds is not
 * copied. */
int option_parse(const struct option_table *t, void *target, char **argv,
                 struct option_found *found);

/* one screen, examples first */
void option_help(const struct option_table *t, bool all, FILE *out);
void option_man(const struct option_table *t, FILE *out);            /* mdoc(7) source */
void option_completion(const struct option_table *t, FILE *out);     /* bash */
void option_markdown(const struct option_table *t, FILE *out);       /* a table for docs/ */

/* Units, for others: 0, or -EINVAL (not one) or -ERANGE (does not fit in 64 bits). */
int option_number(const char *text, uint64_t *n);
int option_size(const char *text, uint64_t *bytes);
int option_time(const char *text, uint64_t *ms);
int option_bool(const char *text, bool *on); /* on off, yes no, true false, 1 0 */

/* The shortest text that option_parse() reads back as n of that type. */
void option_text(enum option_type type, uint64_t n, char text[OPTION_VALUE_TEXT]);

/* The word of the list nearest to a mistyped one, or NULL when none is near. */
const char *option_nearest(const char *typed, const char *const *words);

/* Shared by the files above, of no use to others. */
/* 0, -EINVAL, -ERANGE */
int option_set(const struct option_row *row, void *target, const char *text);
/* "N", "on|off"; "" for flags */
const char *option_value_word(const struct option_row *row, char *buf, size_t cap);
/* "RUNG_HEAD_TIMEOUT" */
void option_env(const struct option_row *row, char *buf, size_t cap);
/* "1s to 1h", or "" */
void option_range(const struct option_row *row, char *buf, size_t cap);
/* The default as people see it, or "" when there is none to speak of. */
void option_default(const struct option_row *row, char *buf, size_t cap);
bool option_takes_value(const struct option_row *row);

#endif
