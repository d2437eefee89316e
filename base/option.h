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
 *   option.c        the parser            option_value.c       one value, the nearest word
 *   option_help.c   the screen of help    option_completion.c  completion for bash
 *   option_man.c    mdoc(7), Markdown     option_zsh.c, option_fish.c  ... for zsh, for fish
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
    OPTION_ROWS_MAX = 96,    /* of a table */
    OPTION_MORE_MAX = 4,     /* names that option_unknown() takes in addition to these */
    OPTION_LIST_MAX = 8,     /* items of a list */
    OPTION_OPERANDS_MAX = 4,
    OPTION_LIST_TEXT = 512,  /* bytes of a list in the environment, like all below with the NUL */
    OPTION_VALUE_TEXT = 32,  /* a number with its unit */
    OPTION_ERROR_TEXT = 320  /* a sentence; a longer one is cut */
};

struct option_list {
    const char *item[OPTION_LIST_MAX];
    unsigned count;
    char text[OPTION_LIST_TEXT]; /* items point into it if they came with commas */
};

struct option_row {
    size_t offset;             /* of the field in the struct that is filled */
    enum option_type type;
    char letter;               /* or 0 */
    bool rare;                 /* help only names it; --help-all and the man page explain */
    const char *name;          /* long name, without -- */
    const char *value;         /* what help calls the value: N, ADDR; NULL: the type's own word */
    const char *fallback;      /* default as text, parsed like input; NULL: zero, none */
    uint64_t min, max;         /* numbers, sizes (bytes), times (ms); max 0: no upper bound */
    const char *const *values; /* OPTION_CHOICE: OPTION_WORDS("auto", "one") */
    bool lines;                /* OPTION_LIST: one a line in the environment, because of commas */
    const char *group;         /* heading in help */
    const char *help;          /* one line */
    const char *more;          /* the man page's further words, or NULL */
    bool content;              /* about what is served: a table of another protocol leaves it out */
    bool site;                 /* about one site: each virtual host may have its own */
};

/* The words of a choice, NULL-terminated, in a row at file scope. */
#define OPTION_WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The C type that a row of each type fills: X(KIND, field, ...) of a .def makes a member of it. */
#define OPTION_FIELD_FLAG bool
#define OPTION_FIELD_SWITCH bool
#define OPTION_FIELD_NUMBER uint64_t
#define OPTION_FIELD_SIZE uint64_t
#define OPTION_FIELD_TIME uint64_t
#define OPTION_FIELD_TEXT const char *
#define OPTION_FIELD_LIST struct option_list
#define OPTION_FIELD_CHOICE unsigned

/* The words that may follow a command without a table of its own. */
enum option_after {
    OPTION_AFTER_NOTHING,
    OPTION_AFTER_COMMAND, /* the name of a command: help load */
    OPTION_AFTER_SHELL,   /* one of option_shells: completion zsh */
    OPTION_AFTER_PROGRAM  /* arguments of the program PAGE-NAME; it prints its own completion */
};

/* A word that a program takes first: rung COMMAND. */
struct option_command {
    const char *name;    /* NULL ends a list */
    const char *purpose; /* one line */
    const struct option_table *(*table)(void); /* its options; or NULL */
    enum option_after after;
};

/* An option of other programs that people may type here by habit. */
struct option_spelling {
    const char *name;   /* without dashes, or a letter; NULL ends a list */
    const char *option; /* name of the row that does it, or NULL */
    const char *answer; /* what differs from that row, or does it instead of one; or NULL */
};

/* All pairs are NULL-terminated. */
struct option_table {
    const char *command;          /* "rung serve" */
    const char *page;             /* the man page's name: "rung" */
    const char *variables;        /* what names in the environment begin with; NULL: "RUNG_" */
    const char *nutshell;         /* the man page's NAME line: "serve a folder over HTTP" */
    const char *purpose;          /* one line */
    const char *usage;            /* "rung [serve] [OPTION]... [DIR]" */
    const char *operand;          /* "DIR"; NULL: none are taken */
    const char *const *examples;  /* pairs: command, what it does; or NULL */
    const struct option_command *commands; /* the first is meant where none is named; or NULL */
    const char *commands_help;    /* what the heading above the commands adds */
    const struct option_row *row;
    unsigned rows;                /* up to OPTION_ROWS_MAX */
    unsigned operands_max;        /* up to OPTION_OPERANDS_MAX */
    const struct option_spelling *spellings; /* how others call it; or NULL */
    const char *notes;            /* the last lines of help; or NULL */
    const char *const *man_notes; /* pairs: heading, text of a man page section; or NULL */
};

enum { OPTION_OK, OPTION_HELP, OPTION_HELP_ALL }; /* results of option_parse() */

/* The words that option_parse() found between options, and its complaint. */
struct option_found {
    const char *operand[OPTION_OPERANDS_MAX];
    unsigned operands;
    bool given[OPTION_ROWS_MAX]; /* rows that the command line or the environment set */
    char error[OPTION_ERROR_TEXT]; /* after -EINVAL */
};

/* Fill target from defaults, environment and argv[1..].  OPTION_OK; or OPTION_HELP or
 * OPTION_HELP_ALL as soon as help is asked for; or -EINVAL with a sentence in found->error that
 * says what is wrong and what to do (the nearest option for a typo).  Texts are not copied: target
 * and found point into argv, the environment and the table. */
int option_parse(const struct option_table *t, void *target, char **argv,
                 struct option_found *found);

/* For values that come from elsewhere, such as a file in which the rows' names are keys.  The row
 * of that name, or NULL; -EINVAL with the sentence that there is no such key and the nearest one,
 * which may also be one of `more` (up to OPTION_MORE_MAX, NULL-terminated); and the value of a row,
 * or one more item of a list: 0, or -EINVAL with a sentence, as option_parse(). */
const struct option_row *option_find(const struct option_table *t, const char *name);
int option_unknown(const struct option_table *t, const char *name, const char *const *more,
                   struct option_found *found);
int option_assign(const struct option_row *row, void *target, const char *text,
                  struct option_found *found);

/* What the rows say, written to out; the caller checks out for errors of writing. */
void option_help(const struct option_table *t, bool all, FILE *out); /* examples first */
void option_man(const struct option_table *t, FILE *out);            /* mdoc(7) source */
void option_completion(const struct option_table *t, FILE *out);     /* for bash */
void option_zsh(const struct option_table *t, FILE *out);            /* the same for zsh */
void option_fish(const struct option_table *t, FILE *out);           /* ... for fish */
void option_markdown(const struct option_table *t, FILE *out);       /* a table for docs/ */

/* Calls the one of the functions above that `what` names, an argument that the build gives a tool:
 * --man, --options (the table), --completion (bash) or --completion=bash, =zsh, =fish.  False: it
 * names none, and nothing was written. */
bool option_generate(const struct option_table *t, const char *what, FILE *out);

/* The whole of a main(): does what the build asks for, or parses argv into options and calls run(),
 * or prints help.  Exit code: that of run(), or EXIT_USAGE, or EXIT_FAILED when standard output
 * cannot be written.  Errors are printed. */
int option_main(const struct option_table *t, void *options, char **argv,
                int (*run)(const void *options, const struct option_found *found));

/* Values with units, for others: 0, or -EINVAL (not one) or -ERANGE (does not fit in 64 bits). */
int option_number(const char *text, uint64_t *n);
int option_size(const char *text, uint64_t *bytes);
int option_time(const char *text, uint64_t *ms);
int option_bool(const char *text, bool *on); /* on off, yes no, true false, 1 0 */

/* The shortest text that option_parse() reads back as n of that type. */
void option_text(enum option_type type, uint64_t n, char text[OPTION_VALUE_TEXT]);

extern const char *const option_shells[]; /* NULL-terminated */

/* The word of the list nearest to a mistyped one, or NULL when none is near. */
const char *option_nearest(const char *typed, const char *const *words);

/* --- Among the files above; of no use to others ----------------------------------------------- */

/* Set the row's field of target: 0, -EINVAL (no such value) or -ERANGE. */
int option_set(const struct option_row *row, void *target, const char *text);
bool option_takes_value(const struct option_row *row);

/* What a value or an operand of that name stands for, as far as a shell can complete it. */
enum option_source { OPTION_ANYTHING, OPTION_FILES, OPTION_FOLDERS, OPTION_USERS };
enum option_source option_source_of(const char *value);

/* The words of a choice or a switch, with spaces between them; true if the row is one. */
bool option_put_choices(const struct option_row *row, FILE *out);

/* A shell's function: "_rung_load" for "rung-load", "_rung_serve" for "rung" with "serve". */
void option_put_function(const char *page, const char *command, FILE *out);

/* Whether no earlier row has the group of this one: groups come in the order of their first row. */
bool option_opens_group(const struct option_table *t, unsigned row);

/* A row in words, cut to cap bytes with the NUL: what its value is called ("N"; of a flag ""; gives
 * buf), its variable in that table ("RUNG_HEAD_TIMEOUT"), its range ("1s to 1h" or ""), its default
 * as people see it (or ""). */
const char *option_value_word(const struct option_row *row, char *buf, size_t cap);
const char *option_after_words(enum option_after after); /* " [COMMAND]" or "" */
const char *option_variables(const struct option_table *t); /* what its variables begin with */
void option_env(const struct option_table *t, const struct option_row *row, char *buf, size_t cap);
void option_range(const struct option_row *row, char *buf, size_t cap);
void option_default(const struct option_row *row, char *buf, size_t cap);

#endif
