/* SPDX-License-Identifier: MIT */
/* option_fish.c - a table as completion for fish; a table with commands includes theirs.
 *
 * A line for each option; where there are commands, each line has the condition under which it
 * counts.  A command that is a program of its own is completed by the lines of that program, which
 * prints them when they are first needed.
 */
#include "option.h"

static void put_quoted(const char *text, FILE *out)
{
    putc('\'', out);
    for (; *text; text++)
        fprintf(out, "%s%c", *text == '\'' || *text == '\\' ? "\\" : "", *text);
    putc('\'', out);
}

/* complete -c rung -n '__rung_is serve'; command is NULL where there are none. */
static void put_start(const struct option_table *t, const char *command, FILE *out)
{
    fprintf(out, "complete -c %s", t->page);
    if (!command)
        return;
    fputs(" -n '_", out);
    option_put_function(t->page, "is", out);
    fprintf(out, " %s'", command);
}

/* What may follow: files, or words. */
static void put_source(const char *value, FILE *out)
{
    static const char *const words[] = {
        [OPTION_ANYTHING] = "", [OPTION_FILES] = " -F",
        [OPTION_FOLDERS] = " -a '(__fish_complete_directories)'",
        [OPTION_USERS] = " -a '(__fish_complete_users)'"};

    fputs(words[option_source_of(value)], out);
}

static void put_value(const struct option_row *row, FILE *out)
{
    fputs(option_source_of(row->value) == OPTION_FILES ? " -r" : " -x", out);
    if (row->type != OPTION_SWITCH && row->type != OPTION_CHOICE) {
        put_source(row->value, out);
        return;
    }
    fputs(" -a '", out);
    option_put_choices(row, out);
    putc('\'', out);
}

/* The options and operands of `own`: t itself, or the table of a command of t. */
static void put_options(const struct option_table *t, const char *command,
                        const struct option_table *own, FILE *out)
{
    for (unsigned i = 0; i < own->rows; i++) {
        const struct option_row *row = &own->row[i];

        put_start(t, command, out);
        if (row->letter)
            fprintf(out, " -s %c", row->letter);
        fprintf(out, " -l %s", row->name);
        if (option_takes_value(row))
            put_value(row, out);
        fputs(" -d ", out);
        put_quoted(row->help, out);
        putc('\n', out);
        if (option_takes_value(row))
            continue;
        put_start(t, command, out);
        fprintf(out, " -l no-%s -d 'undo --%s'\n", row->name, row->name);
    }
    put_start(t, command, out);
    fputs(" -s h -l help -d 'one screen of help'\n", out);
    put_start(t, command, out);
    fputs(" -l help-all -d 'help with every option'\n", out);
    if (option_source_of(own->operand) == OPTION_ANYTHING)
        return;
    put_start(t, command, out);
    put_source(own->operand, out);
    putc('\n', out);
}

/* __rung_is NAME... - whether one of these is the command: the second word, or the first command of
 * all if the second word is none.  __rung_at N - whether N words are before the cursor's. */
static void put_functions(const struct option_table *t, FILE *out)
{
    fputs("function _", out);
    option_put_function(t->page, "is", out);
    fputs("\n    set -l words (commandline -opc)\n    set -l command ", out);
    fputs(t->commands->name, out);
    fputs("\n    contains -- \"$words[2]\"", out);
    for (const struct option_command *c = t->commands; c->name; c++)
        fprintf(out, " %s", c->name);
    fputs("; and set command $words[2]\n    contains -- $command $argv\nend\nfunction _", out);
    option_put_function(t->page, "at", out);
    fputs("\n    test (count (commandline -opc)) -eq $argv\nend\n", out);
}

static const char program_function[] =
    "function __rung_program\n"
    "    set -l words (commandline -opc)\n"
    "    if not contains -- $words[2] $__rung_programs\n"
    "        set -ga __rung_programs $words[2]\n"
    "        eval $words[1] $words[2] --completion=fish 2>/dev/null | source\n"
    "    end\n"
    "    complete -C (string join ' ' -- rung-$words[2] (string escape -- $words[3..]) "
    "(commandline -ct))\n"
    "end\n";

/* The words that follow a command without a table. */
static void put_command(const struct option_table *t, const struct option_command *c, FILE *out)
{
    if (c->after == OPTION_AFTER_PROGRAM) {
        put_start(t, c->name, out);
        fputs(" -a '(__rung_program)'\n", out);
    }
    if (c->after != OPTION_AFTER_COMMAND && c->after != OPTION_AFTER_SHELL)
        return;
    fprintf(out, "complete -c %s -n '_", t->page);
    option_put_function(t->page, "is", out);
    fprintf(out, " %s; and _", c->name);
    option_put_function(t->page, "at", out);
    fputs(" 2' -a '", out);
    for (unsigned i = 0; option_shells[i] && c->after == OPTION_AFTER_SHELL; i++)
        fprintf(out, "%s ", option_shells[i]);
    for (const struct option_command *o = t->commands; o->name && c->after == OPTION_AFTER_COMMAND;
         o++)
        fprintf(out, "%s ", o->name);
    fputs("'\n", out);
}

static void put_commands(const struct option_table *t, FILE *out)
{
    bool programs = false;

    put_functions(t, out);
    for (const struct option_command *c = t->commands; c->name; c++) {
        fprintf(out, "complete -c %s -n '_", t->page);
        option_put_function(t->page, "at", out);
        fprintf(out, " 1' -a %s -d ", c->name);
        put_quoted(c->purpose, out);
        putc('\n', out);
        programs = programs || c->after == OPTION_AFTER_PROGRAM;
        if (c->table)
            put_options(t, c->name, c->table(), out);
        else
            put_command(t, c, out);
    }
    if (programs)
        fputs(program_function, out);
}

void option_fish(const struct option_table *t, FILE *out)
{
    fprintf(out, "# SPDX-License-Identifier: MIT\n# fish completion for %s, generated from its "
                 "table of options\ncomplete -c %s -f\n", t->page, t->page);
    if (t->commands)
        put_commands(t, out);
    else
        put_options(t, NULL, t, out);
}
