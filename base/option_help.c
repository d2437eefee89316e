/* SPDX-License-Identifier: MIT */
/* option_help.c - a table as one screen of help: usage, examples, options by group, notes.
 *
 * The screen has 80 columns.  An option has one line wherever its help is short enough.  Rare
 * options are only named, in a paragraph at the end, unless all of them are asked for: a screen
 * that scrolls away is not read.
 */
#include <ctype.h>
#include <string.h>
#include "option.h"

enum { HELP_COLUMNS = 80, HELP_INDENT = 28 /* of what an option means */ };

bool option_takes_value(const struct option_row *row)
{
    return row->type != OPTION_FLAG;
}

/* The words of a choice in one line, as far as they fit. */
static void join(const char *const *words, const char *between, char *buf, size_t cap)
{
    size_t used = 0;

    *buf = 0;
    for (unsigned i = 0; words[i] && used < cap; i++)
        used += (size_t)snprintf(buf + used, cap - used, "%s%s", i ? between : "", words[i]);
}

const char *option_value_word(const struct option_row *row, char *buf, size_t cap)
{
    static const char *const words[] = {
        [OPTION_FLAG] = "",     [OPTION_SWITCH] = "on|off", [OPTION_NUMBER] = "N",
        [OPTION_SIZE] = "SIZE", [OPTION_TIME] = "TIME",     [OPTION_TEXT] = "TEXT",
        [OPTION_LIST] = "TEXT",
    };

    if (row->type == OPTION_CHOICE && !row->value)
        join(row->values, "|", buf, cap);
    else
        snprintf(buf, cap, "%s", row->value ? row->value : words[row->type]);
    return buf;
}

const char *option_after_words(enum option_after after)
{
    static const char *const words[] = {
        [OPTION_AFTER_NOTHING] = "", [OPTION_AFTER_COMMAND] = " [COMMAND]",
        [OPTION_AFTER_SHELL] = " [bash|zsh|fish]", [OPTION_AFTER_PROGRAM] = " [OPTION]..."};

    return words[after];
}

const char *option_variables(const struct option_table *t)
{
    return t->variables ? t->variables : "RUNG_";
}

void option_env(const struct option_table *t, const struct option_row *row, char *buf, size_t cap)
{
    snprintf(buf, cap, "%s%s", option_variables(t), row->name);
    for (char *c = buf; *c; c++)
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

void option_range(const struct option_row *row, char *buf, size_t cap)
{
    char low[OPTION_VALUE_TEXT], high[OPTION_VALUE_TEXT];

    *buf = 0;
    if (row->type == OPTION_CHOICE)
        join(row->values, ", ", buf, cap);
    if (row->type != OPTION_NUMBER && row->type != OPTION_SIZE && row->type != OPTION_TIME)
        return;
    option_text(row->type, row->min, low);
    option_text(row->type, row->max, high);
    if (row->max)
        snprintf(buf, cap, "%s to %s", low, high);
    else if (row->min)
        snprintf(buf, cap, "%s or more", low);
}

void option_default(const struct option_row *row, char *buf, size_t cap)
{
    uint64_t n;
    char text[OPTION_VALUE_TEXT];

    snprintf(buf, cap, "%s", row->fallback ? row->fallback : "");
    if ((row->type == OPTION_TIME && option_time(buf, &n) == 0) ||
        (row->type == OPTION_SIZE && option_size(buf, &n) == 0)) {
        option_text(row->type, n, text);
        snprintf(buf, cap, "%s", text);
    }
}

/* --- The screen ------------------------------------------------------------------------------- */

/* A sentence from HELP_INDENT on, in as many lines as it needs. */
static void put_wrapped(const char *text, FILE *out)
{
    size_t column = HELP_INDENT;

    while (*text) {
        size_t len = strcspn(text, " ");

        if (column > HELP_INDENT && column + 1 + len > HELP_COLUMNS) {
            fprintf(out, "\n%*s", HELP_INDENT, "");
            column = HELP_INDENT;
        } else if (column > HELP_INDENT) {
            putc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)len, text);
        column += len;
        text += len + strspn(text + len, " ");
    }
    putc('\n', out);
}

static void print_row(const struct option_row *row, FILE *out)
{
    char left[96], word[64], preset[64], line[256], letter[5] = "    ";
    int used;

    if (row->letter)
        snprintf(letter, sizeof(letter), "-%c, ", row->letter);
    option_value_word(row, word, sizeof(word));
    option_default(row, preset, sizeof(preset));
    used = snprintf(left, sizeof(left), "  %s--%s%s%s", letter, row->name, *word ? " " : "", word);
    fprintf(out, "%-*s", HELP_INDENT, left);
    snprintf(line, sizeof(line), *preset ? "%s [%s]" : "%s", row->help, preset);
    if (used > HELP_INDENT - 2) /* a long name takes a line of its own */
        fprintf(out, "\n%*s", HELP_INDENT, "");
    put_wrapped(line, out);
}

static void print_group(const struct option_table *t, const char *group, bool all, FILE *out)
{
    bool headed = false;

    for (unsigned i = 0; i < t->rows; i++) {
        if (strcmp(t->row[i].group, group) != 0 || (t->row[i].rare && !all))
            continue;
        if (!headed)
            fprintf(out, "%s\n", group);
        headed = true;
        print_row(&t->row[i], out);
    }
}

bool option_opens_group(const struct option_table *t, unsigned row)
{
    for (unsigned i = 0; i < row; i++)
        if (strcmp(t->row[i].group, t->row[row].group) == 0)
            return false;
    return true;
}

static void print_rare(const struct option_table *t, FILE *out)
{
    size_t column = 0;
    bool any = false;

    for (unsigned i = 0; i < t->rows; i++) {
        if (!t->row[i].rare)
            continue;
        if (!any)
            fprintf(out, "Also (explained by --help-all)\n");
        if (any && column + strlen(t->row[i].name) + 4 > HELP_COLUMNS) {
            fprintf(out, "\n");
            column = 0;
        }
        column += (size_t)fprintf(out, "  --%s", t->row[i].name);
        any = true;
    }
    if (any)
        fprintf(out, "\n");
}

static void print_commands(const struct option_table *t, FILE *out)
{
    fprintf(out, "Commands (%s)\n", t->commands_help);
    for (const struct option_command *c = t->commands; c->name; c++)
        fprintf(out, "  %-12s %s\n", c->name, c->purpose);
    fprintf(out, "\n");
}

void option_help(const struct option_table *t, bool all, FILE *out)
{
    int widest = 0;

    fprintf(out, "usage: %s\n%s\n\n", t->usage, t->purpose);
    for (unsigned i = 0; t->examples && t->examples[i]; i += 2)
        widest = (int)strlen(t->examples[i]) > widest ? (int)strlen(t->examples[i]) : widest;
    for (unsigned i = 0; t->examples && t->examples[i]; i += 2)
        fprintf(out, "  %-*s  %s\n", widest, t->examples[i], t->examples[i + 1]);
    if (t->examples)
        fprintf(out, "\n");
    if (t->commands)
        print_commands(t, out);
    for (unsigned i = 0; i < t->rows; i++)
        if (option_opens_group(t, i))
            print_group(t, t->row[i].group, all, out);
    if (!all)
        print_rare(t, out);
    if (t->notes)
        fprintf(out, "\n%s\n", t->notes);
}
