/* SPDX-License-Identifier: MIT */
/* option.c - the parser: defaults first, then the environment, then the command line.
 *
 * Understood: --name value, --name=value, --no-name for flags, -n value, -nvalue, -qn value
 * (flags grouped), and -- before operands that begin with a dash.  Abbreviated names are refused
 * with a suggestion: what works today by being unambiguous breaks when an option is added.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "../core/env.h"
#include "option.h"

struct parse {
    const struct option_table *table;
    void *target;
    char **arg; /* the next argument */
    struct option_found *found;
    const char *dashes, *thing; /* "--" and "option", or "" and "key": what a name is called */
    bool seen[OPTION_ROWS_MAX]; /* on the command line: a list's first item replaces the default */
    int help;      /* OPTION_HELP.. once asked for */
};

__attribute__((format(printf, 2, 3))) static int refuse(struct parse *p, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    vsnprintf(p->found->error, sizeof(p->found->error), format, ap);
    va_end(ap);
    return -EINVAL;
}

static void *field_of(const struct parse *p, const struct option_row *row)
{
    return (char *)p->target + row->offset;
}

/* --- One value -------------------------------------------------------------------------------- */

/* Says why text is not a value of the row; shown names the option as it was given. */
static int refuse_value(struct parse *p, const struct option_row *row, const char *shown,
                        const char *text)
{
    char range[160];

    option_range(row, range, sizeof(range));
    switch (row->type) {
    case OPTION_FLAG:
    case OPTION_SWITCH:
        return refuse(p, "%s: '%s' is neither on nor off", shown, text);
    case OPTION_CHOICE: {
        const char *near = option_nearest(text, row->values);

        if (near)
            return refuse(p, "%s: there is no '%s'; did you mean %s? (%s)", shown, text, near,
                          range);
        return refuse(p, "%s: there is no '%s'; choose from %s", shown, text, range);
    }
    case OPTION_NUMBER:
        return refuse(p, "%s: '%s' is not a number%s%s", shown, text,
                      *range ? " from " : "", range);
    case OPTION_SIZE:
        return refuse(p, "%s: '%s' is not a size such as 4096, 64k or 1m%s%s", shown, text,
                      *range ? "; it goes from " : "", range);
    case OPTION_TIME:
        return refuse(p, "%s: '%s' is not a time such as 500ms, 5s or 2m%s%s", shown, text,
                      *range ? "; it goes from " : "", range);
    case OPTION_LIST:
    case OPTION_TEXT:
        break;
    }
    return refuse(p, "%s: it cannot be empty", shown);
}

static int set_value(struct parse *p, const struct option_row *row, const char *shown,
                     const char *text)
{
    int err = option_set(row, p->target, text);
    char range[160];

    if (!err)
        return 0;
    if (err != -ERANGE)
        return refuse_value(p, row, shown, text);
    if (row->type == OPTION_LIST)
        return refuse(p, "%s: at most %d of them", shown, OPTION_LIST_MAX);
    option_range(row, range, sizeof(range));
    return refuse(p, "%s: %s is out of range; choose from %s", shown, text,
                  *range ? range : "what fits in 64 bits");
}

/* --- Defaults and environment ----------------------------------------------------------------- */

/* The items of a list's default and of its variable are separated by commas, or are lines. */
static int set_list(struct parse *p, const struct option_row *row, const char *shown,
                    const char *text)
{
    struct option_list *list = field_of(p, row);
    const char *between = row->lines ? "\n" : ",";
    char *save = NULL;
    int err = 0;

    if (strlen(text) >= sizeof(list->text))
        return refuse(p, "%s: longer than %d characters", shown, OPTION_LIST_TEXT - 1);
    list->count = 0;
    memcpy(list->text, text, strlen(text) + 1);
    for (char *item = strtok_r(list->text, between, &save); item && !err;
         item = strtok_r(NULL, between, &save))
        err = set_value(p, row, shown, item);
    return err;
}

static int set_text(struct parse *p, const struct option_row *row, const char *shown,
                    const char *text)
{
    if (row->type == OPTION_LIST)
        return set_list(p, row, shown, text);
    return set_value(p, row, shown, text);
}

/* An empty variable counts as unset, so that RUNG_X= removes a value. */
static int set_before_arguments(struct parse *p, const struct option_row *row)
{
    char name[64];
    const char *text;
    int err = row->fallback ? set_text(p, row, row->name, row->fallback) : 0;

    option_env(p->table, row, name, sizeof(name));
    text = getenv(name);
    if (err || !text || !*text)
        return err;
    p->found->given[row - p->table->row] = true;
    return set_text(p, row, name, text);
}

/* --- Command line ----------------------------------------------------------------------------- */

static const struct option_row *find_name(const struct option_table *t, const char *name,
                                          size_t len)
{
    for (unsigned i = 0; i < t->rows; i++)
        if (strlen(t->row[i].name) == len && memcmp(t->row[i].name, name, len) == 0)
            return &t->row[i];
    return NULL;
}

static const struct option_row *find_letter(const struct option_table *t, char letter)
{
    for (unsigned i = 0; i < t->rows; i++)
        if (t->row[i].letter && t->row[i].letter == letter)
            return &t->row[i];
    return NULL;
}

/* Refuses an option that other programs have by what it is called here, and returns true; false: it
 * is not known from elsewhere. */
static bool refuse_spelling(struct parse *p, const char *dashes, const char *name)
{
    const struct option_spelling *s = p->table->spellings;
    const struct option_row *row;
    char word[64];

    while (s && s->name && strcmp(s->name, name) != 0)
        s++;
    if (!s || !s->name)
        return false;
    row = s->option ? find_name(p->table, s->option, strlen(s->option)) : NULL;
    if (!row) {
        refuse(p, "%s%s: no such %s; %s", dashes, name, p->thing, s->answer);
        return true;
    }
    option_value_word(row, word, sizeof(word));
    refuse(p, "%s%s: no such %s; here it is %s%s%s%s%s%s", dashes, name, p->thing, p->dashes,
           row->name, *word ? " " : "", word, s->answer ? ": " : "", s->answer ? s->answer : "");
    return true;
}

static int refuse_letter(struct parse *p, char letter)
{
    char name[2] = {letter >= ' ' && letter <= '~' ? letter : '?', 0};

    if (refuse_spelling(p, "-", name))
        return -EINVAL;
    return refuse(p, "-%s: no such option; %s --help lists them", name, p->table->command);
}

/* more: names that are none of the table's, NULL-terminated. */
static int refuse_name(struct parse *p, const char *name, size_t len, const char *const *more)
{
    const struct option_table *t = p->table;
    const char *word[OPTION_ROWS_MAX + OPTION_MORE_MAX + 1];
    char typed[64];
    const char *near;
    unsigned n = 0;

    for (unsigned i = 0; i < t->rows; i++)
        word[n++] = t->row[i].name;
    for (; *more; more++)
        word[n++] = *more;
    word[n] = NULL;
    snprintf(typed, sizeof(typed), "%.*s", (int)(len < 63 ? len : 63), name);
    if (len > 1 && refuse_spelling(p, p->dashes, typed))
        return -EINVAL;
    near = option_nearest(typed, word);
    if (near)
        return refuse(p, "%s%s: no such %s; did you mean %s%s?", p->dashes, typed, p->thing,
                      p->dashes, near);
    return refuse(p, "%s%s: no such %s; %s --help lists %s", p->dashes, typed, p->thing, t->command,
                  *p->dashes ? "them" : "the options, whose names are the keys");
}

/* A list given on the command line replaces the default and the environment, then grows. */
static int set_argument(struct parse *p, const struct option_row *row, const char *shown,
                        const char *text)
{
    bool *seen = &p->seen[row - p->table->row];

    if (row->type == OPTION_LIST && !*seen)
        ((struct option_list *)field_of(p, row))->count = 0;
    *seen = p->found->given[row - p->table->row] = true;
    return set_value(p, row, shown, text);
}

/* The value after an option that needs one; NULL with an error if the line ends. */
static const char *next_value(struct parse *p, const struct option_row *row, const char *shown)
{
    char word[64];

    if (*p->arg)
        return *p->arg++;
    refuse(p, "%s: it needs a value, %s", shown, option_value_word(row, word, sizeof(word)));
    return NULL;
}

static int parse_long(struct parse *p, const char *arg)
{
    static const char *const more[] = {"help", NULL};
    size_t len = strcspn(arg, "=");
    const char *value = arg[len] ? arg + len + 1 : NULL;
    const struct option_row *row = find_name(p->table, arg, len);
    char shown[64];

    if (!row && len > 3 && strncmp(arg, "no-", 3) == 0) {
        row = find_name(p->table, arg + 3, len - 3);
        if (row && row->type == OPTION_FLAG && !value)
            return set_argument(p, row, row->name, "off");
        if (row && !value && row->type == OPTION_SWITCH)
            return refuse(p, "--%s: write --%s off", arg, row->name);
        row = NULL;
    }
    if (!row && !value && strcmp(arg, "help") == 0)
        return p->help = OPTION_HELP;
    if (!row && !value && strcmp(arg, "help-all") == 0)
        return p->help = OPTION_HELP_ALL;
    if (!row)
        return refuse_name(p, arg, len, more);
    snprintf(shown, sizeof(shown), "--%s", row->name);
    if (!option_takes_value(row))
        return value ? refuse(p, "%s: it takes no value; write %s or --no-%s", shown, shown,
                              row->name)
                     : set_argument(p, row, shown, "on");
    if (!value)
        value = next_value(p, row, shown);
    return value ? set_argument(p, row, shown, value) : -EINVAL;
}

static int parse_letters(struct parse *p, const char *arg)
{
    const struct option_row *row = find_name(p->table, arg, strcspn(arg, "="));
    char shown[3] = "-?";
    const char *value;
    int err = 0;

    if (row && arg[1])
        return refuse(p, "-%s: long options have two dashes; write --%s", arg, arg);
    for (; *arg && !err; arg++) {
        shown[1] = *arg;
        row = find_letter(p->table, *arg);
        if (!row && *arg == 'h')
            return p->help = OPTION_HELP;
        if (!row)
            return refuse_letter(p, *arg);
        if (option_takes_value(row)) {
            value = arg[1] ? arg + 1 : next_value(p, row, shown);
            return value ? set_argument(p, row, shown, value) : -EINVAL;
        }
        err = set_argument(p, row, shown, "on");
    }
    return err;
}

static int add_operand(struct parse *p, const char *arg)
{
    const struct option_table *t = p->table;
    struct option_found *found = p->found;

    if (found->operands < t->operands_max) {
        found->operand[found->operands++] = arg;
        return 0;
    }
    if (!t->operands_max)
        return refuse(p, "'%s': only options are taken; %s --help lists them", arg, t->command);
    return refuse(p, "'%s': one %s too many (the first was '%s')", arg,
                  t->operand ? t->operand : "operand", found->operand[0]);
}

static int parse_arguments(struct parse *p)
{
    bool options = true; /* until -- */
    int err = 0;

    while (*p->arg && !err && !p->help) {
        const char *arg = *p->arg++;

        if (!options || arg[0] != '-' || !arg[1])
            err = add_operand(p, arg);
        else if (arg[1] != '-')
            err = parse_letters(p, arg + 1);
        else if (arg[2])
            err = parse_long(p, arg + 2);
        else
            options = false;
    }
    return p->help ? p->help : err;
}

int option_parse(const struct option_table *t, void *target, char **argv,
                 struct option_found *found)
{
    struct parse p = {.table = t, .target = target, .arg = argv, .found = found, .dashes = "--",
                      .thing = "option"};
    struct option_found first;
    int result, early = 0;

    core_assert(t->rows <= OPTION_ROWS_MAX);
    memset(found, 0, sizeof(*found));
    if (*p.arg)
        p.arg++;
    for (unsigned i = 0; i < t->rows && !early; i++)
        early = set_before_arguments(&p, &t->row[i]);
    first = *found;
    result = parse_arguments(&p);
    /* A bad variable must not keep anyone from --help, so it is reported only now. */
    if (early && result <= 0) {
        *found = first;
        return early;
    }
    return result;
}

/* --- Names and values from elsewhere ---------------------------------------------------------- */

const struct option_row *option_find(const struct option_table *t, const char *name)
{
    return find_name(t, name, strlen(name));
}

int option_unknown(const struct option_table *t, const char *name, const char *const *more,
                   struct option_found *found)
{
    struct parse p = {.table = t, .found = found, .dashes = "", .thing = "key"};

    return refuse_name(&p, name, strlen(name), more);
}

int option_assign(const struct option_row *row, void *target, const char *text,
                  struct option_found *found)
{
    struct parse p = {.target = target, .found = found};

    return set_value(&p, row, row->name, text);
}
