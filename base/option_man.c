/* SPDX-License-Identifier: MIT */
/* option_man.c - a table as a man page (mdoc(7)) and as Markdown for docs/.
 *
 * Help's one line and the row's further words become sentences.  Whatever mandoc complains about
 * is avoided here, so that rows need not know roff.
 */
#include <ctype.h>
#include <string.h>
#include "option.h"

enum { MAN_COLUMNS = 70 /* escapes make a line longer, and mandoc complains beyond 80 */ };

/* --- mdoc ------------------------------------------------------------------------------------- */

/* Text in roff: backslashes and hyphens escaped, and no line that begins like a request. */
static void put_roff(FILE *out, const char *text)
{
    bool first = true;

    for (; *text; text++) {
        if (first && (*text == '.' || *text == '\''))
            fputs("\\&", out);
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else
            putc(*text, out);
        first = *text == '\n';
    }
}

/* A sentence, in lines that are not too long for mandoc. */
static void put_wrapped(FILE *out, const char *text, size_t n)
{
    char line[MAN_COLUMNS + 1];

    while (n) {
        size_t len = n;

        if (len > MAN_COLUMNS)
            for (len = MAN_COLUMNS; len > 1 && text[len] != ' '; len--)
                ;
        snprintf(line, sizeof(line), "%.*s", (int)len, text);
        put_roff(out, line);
        putc('\n', out);
        text += len;
        n -= len;
        for (; n && *text == ' '; n--)
            text++;
    }
}

/* Help's lines begin in lower case and have no full stop. */
static void put_sentence(FILE *out, const char *text)
{
    char line[256];

    snprintf(line, sizeof(line), "%s.", text);
    line[0] = (char)toupper((unsigned char)line[0]);
    put_wrapped(out, line, strlen(line));
}

/* A paragraph, each sentence on a line of its own: roff spaces sentences by that. */
static void put_sentences(FILE *out, const char *text)
{
    while (*text) {
        const char *end = text;

        while (*end && !(end[0] == '.' && end[1] == ' '))
            end++;
        end += *end == '.';
        put_wrapped(out, text, (size_t)(end - text));
        text = end + strspn(end, " ");
    }
}

static void man_row(const struct option_table *t, const struct option_row *row, FILE *out)
{
    char word[64], preset[64], range[160], env[64], line[200];

    option_value_word(row, word, sizeof(word));
    option_default(row, preset, sizeof(preset));
    option_range(row, range, sizeof(range));
    option_env(t, row, env, sizeof(env));
    fputs(".It ", out);
    if (row->letter)
        fprintf(out, "Fl %c , ", row->letter);
    fputs("Fl ", out);
    put_roff(out, "-");
    put_roff(out, row->name);
    if (*word)
        fprintf(out, " Ar %s", word);
    fputs("\n", out);
    put_sentence(out, row->help);
    if (row->more)
        put_sentences(out, row->more);
    if (row->type == OPTION_FLAG) {
        fputs("Undone by\n.Fl ", out);
        put_roff(out, "-no-");
        put_roff(out, row->name);
        fputs(" .\n", out);
    }
    if (*range) {
        snprintf(line, sizeof(line), "%s %s.", row->type == OPTION_CHOICE ? "One of" : "From",
                 range);
        put_wrapped(out, line, strlen(line));
    }
    if (*preset) {
        fputs("Default: ", out);
        put_roff(out, preset);
        fputs(".\n", out);
    }
    fprintf(out, "Environment:\n.Ev %s .\n", env);
}

static void man_options(const struct option_table *t, FILE *out)
{
    const char *group = NULL;

    for (unsigned i = 0; i < t->rows; i++) {
        if (!option_opens_group(t, i))
            continue;
        group = t->row[i].group;
        fprintf(out, ".Ss %s\n.Bl -tag -width Ds\n", group);
        for (unsigned k = i; k < t->rows; k++)
            if (strcmp(t->row[k].group, group) == 0)
                man_row(t, &t->row[k], out);
        fputs(".El\n", out);
    }
}

static void man_pairs(const char *heading, const char *const *pair, FILE *out)
{
    if (!pair)
        return;
    fprintf(out, ".Sh %s\n.Bl -tag -width Ds\n", heading);
    for (; *pair; pair += 2) {
        fputs(".It Li \"", out);
        put_roff(out, pair[0]);
        fputs("\"\n", out);
        put_roff(out, pair[1]);
        fputs("\n", out);
    }
    fputs(".El\n", out);
}

static void man_commands(const struct option_table *t, FILE *out)
{
    char usage[160];

    if (!t->commands)
        return;
    fputs(".Sh COMMANDS\n.Bl -tag -width Ds\n", out);
    for (const struct option_command *c = t->commands; c->name; c++) {
        const struct option_table *own = c->table ? c->table() : NULL;

        if (own)
            snprintf(usage, sizeof(usage), "%.*s", (int)strcspn(own->usage, "\n"), own->usage);
        else
            snprintf(usage, sizeof(usage), "%s %s%s", t->command, c->name,
                     option_after_words(c->after));
        fputs(".It Li \"", out);
        put_roff(out, usage);
        fputs("\"\n", out);
        put_sentence(out, c->purpose);
        if (c->after == OPTION_AFTER_PROGRAM)
            fprintf(out, "A program of its own, with its own page:\n.Li %s\\-%s .\n", t->page,
                    c->name);
    }
    fputs(".El\n", out);
}

static const char *man_note(const struct option_table *t, const char *heading)
{
    for (const char *const *note = t->man_notes; note && *note; note += 2)
        if (strcmp(note[0], heading) == 0)
            return note[1];
    return NULL;
}

void option_man(const struct option_table *t, FILE *out)
{
    const char *status = man_note(t, "EXIT STATUS");

    fputs(".\\\" SPDX-License-Identifier: MIT\n.\\\" Generated from the table of options; do not "
          "edit.\n", out);
    fputs(".Dd $Mdocdate$\n.Dt ", out);
    for (const char *c = t->page; *c; c++)
        putc(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c, out);
    fprintf(out, " 1\n.Os\n.Sh NAME\n.Nm %s\n.Nd ", t->page);
    put_roff(out, t->nutshell);
    fprintf(out, "\n.Sh SYNOPSIS\n.Nm %s\n.Op Ar OPTION ...\n", t->page);
    if (t->operand)
        fprintf(out, ".Op Ar %s\n", t->operand);
    if (t->commands)
        fprintf(out, ".Nm %s\n.Ar COMMAND ...\n", t->page);
    fputs(".Sh DESCRIPTION\n", out);
    put_sentences(out, t->purpose);
    fputs(".Pp\n", out);
    put_sentences(out, "Sizes take the units k, m, g and t (1024), counts k, m and g (1000), times "
                       "ms, s, m, h and d; a bare time counts seconds. The command line is "
                       "stronger than the environment.");
    fputs(".Sh OPTIONS\n", out);
    man_options(t, out);
    man_commands(t, out);
    for (const char *const *note = t->man_notes; note && *note; note += 2)
        if (note[1] != status) {
            fprintf(out, ".Sh %s\n", note[0]);
            put_sentences(out, note[1]);
        }
    fprintf(out, ".Sh ENVIRONMENT\nEach option has a variable: its name in capitals after\n.Ev %s "
                 ",\nwith underscores for hyphens.\nAn empty one counts as unset.\n",
            option_variables(t));
    if (status) {
        fputs(".Sh EXIT STATUS\n", out);
        put_sentences(out, status);
    }
    man_pairs("EXAMPLES", t->examples, out);
}

/* --- Markdown --------------------------------------------------------------------------------- */

static void put_cell(FILE *out, const char *text)
{
    for (; *text; text++)
        fprintf(out, "%s%c", *text == '|' ? "\\" : "", *text);
}

void option_markdown(const struct option_table *t, FILE *out)
{
    fputs("| option | default | range | what it does | environment |\n|---|---|---|---|---|\n",
          out);
    for (unsigned i = 0; i < t->rows; i++) {
        const struct option_row *row = &t->row[i];
        char word[64], preset[64], range[160], env[64];

        option_value_word(row, word, sizeof(word));
        option_default(row, preset, sizeof(preset));
        option_range(row, range, sizeof(range));
        option_env(t, row, env, sizeof(env));
        fputs("| `", out);
        if (row->letter)
            fprintf(out, "-%c` `", row->letter);
        fprintf(out, "--%s", row->name);
        put_cell(out, *word ? " " : "");
        put_cell(out, word);
        fprintf(out, "` | %s | %s | ", preset, range);
        put_cell(out, row->help);
        fprintf(out, " | `%s` |\n", env);
    }
}

/* --- By name ---------------------------------------------------------------------------------- */

bool option_generate(const struct option_table *t, const char *what, FILE *out)
{
    static const struct {
        const char *name;
        void (*write)(const struct option_table *, FILE *);
    } known[] = {{"--man", option_man}, {"--options", option_markdown},
                 {"--completion", option_completion}, {"--completion=bash", option_completion},
                 {"--completion=zsh", option_zsh}, {"--completion=fish", option_fish}};

    for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(what, known[i].name) == 0) {
            known[i].write(t, out);
            return true;
        }
    return false;
}
