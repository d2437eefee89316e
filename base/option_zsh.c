/* SPDX-License-Identifier: MIT */
/* option_zsh.c - a table as completion for zsh; a table with commands includes theirs.
 *
 * Each table becomes one function of the same name as for bash, around one call of _arguments.  The
 * text is a file for $fpath (_rung) and can be evaluated as well.  A command that is a program of
 * its own prints its function when that is first needed.
 */
#include <string.h>
#include "option.h"

/* Text within '...', and within a part of a specification that ends at one of the special ones. */
static void put_quoted(const char *text, const char *special, FILE *out)
{
    for (; *text; text++) {
        if (*text == '\\' || strchr(special, *text))
            putc('\\', out);
        if (*text == '\'')
            fputs("'\\''", out);
        else
            putc(*text, out);
    }
}

/* What completes a value or an operand of that name. */
static const char *action_of(const char *value)
{
    static const char *const actions[] = {
        [OPTION_ANYTHING] = " ", [OPTION_FILES] = "_files", [OPTION_FOLDERS] = "_files -/",
        [OPTION_USERS] = "_users"};

    return actions[option_source_of(value)];
}

static void put_value(const struct option_row *row, FILE *out)
{
    char word[64];

    putc(':', out);
    put_quoted(option_value_word(row, word, sizeof(word)), ":", out);
    putc(':', out);
    if (row->type != OPTION_SWITCH && row->type != OPTION_CHOICE) {
        fputs(action_of(row->value), out);
        return;
    }
    putc('(', out);
    option_put_choices(row, out);
    putc(')', out);
}

/* '(-p --port)'{-p+,--port=}'[help]:N: ', or '--user=[help]:USER:_users' without a letter. */
static void put_row(const struct option_row *row, FILE *out)
{
    bool value = option_takes_value(row), many = row->type == OPTION_LIST;

    fputs(" \\\n        '", out);
    if (many)
        putc('*', out);
    else if (row->letter || !value)
        fprintf(out, "(--%s", row->name);
    if (!many && row->letter)
        fprintf(out, " -%c", row->letter);
    if (!value)
        fprintf(out, " --no-%s", row->name);
    if (!many && (row->letter || !value))
        putc(')', out);
    if (row->letter)
        fprintf(out, "'{-%c%s,--%s%s}'", row->letter, value ? "+" : "", row->name,
                value ? "=" : "");
    else
        fprintf(out, "--%s%s", row->name, value ? "=" : "");
    putc('[', out);
    put_quoted(row->help, "[]", out);
    putc(']', out);
    if (value)
        put_value(row, out);
    putc('\'', out);
    if (!value)
        fprintf(out, " \\\n        '(--%s%s%.*s)--no-%s[undo --%s]'", row->name,
                row->letter ? " -" : "", row->letter ? 1 : 0, &row->letter, row->name, row->name);
}

static void put_arguments(const struct option_table *t, FILE *out)
{
    fputs("    _arguments -s -S :", out);
    for (unsigned i = 0; i < t->rows; i++)
        put_row(&t->row[i], out);
    fputs(" \\\n        '(- *)'{-h,--help}'[one screen of help]'"
          " \\\n        '(- *)--help-all[help with every option]'", out);
    if (t->operand)
        fprintf(out, " \\\n        '%s:%s:%s'", t->operands_max > 1 ? "*" : "1", t->operand,
                action_of(t->operand));
    putc('\n', out);
}

/* The case that completes the words after a command, which is the first of $words by then. */
static void put_command(const struct option_table *t, const struct option_command *c, FILE *out)
{
    fprintf(out, "        %s) ", c->name);
    if (c->table)
        option_put_function(t->page, c->name, out);
    else if (c->after == OPTION_AFTER_COMMAND)
        fputs("(( CURRENT == 2 )) && _describe command commands", out);
    else if (c->after == OPTION_AFTER_SHELL)
        fputs("(( CURRENT == 2 )) && _values shell bash zsh fish", out);
    else if (c->after == OPTION_AFTER_PROGRAM)
        fputs("_rung_program $program", out);
    fputs(" ;;\n", out);
}

static const char program_function[] =
    "_rung_program() {\n"
    "    local name=_rung_$words[1]\n"
    "    (( $+functions[$name] )) ||\n"
    "        eval \"$(${~1} $words[1] --completion=zsh 2>/dev/null)\"\n"
    "    (( $+functions[$name] )) && $name\n"
    "}\n";

static void put_dispatch(const struct option_table *t, FILE *out)
{
    const struct option_command *c;

    fputs("    local program=$words[1]\n    local -a commands=(", out);
    for (c = t->commands; c->name; c++) {
        fprintf(out, "\n        '%s:", c->name);
        put_quoted(c->purpose, "", out);
        putc('\'', out);
    }
    fputs(")\n    if (( CURRENT > 2 && ${commands[(I)${(b)words[2]}:*]} )); then\n"
          "        shift words\n        (( CURRENT-- ))\n        case $words[1] in\n", out);
    for (c = t->commands; c->name; c++)
        put_command(t, c, out);
    fputs("        esac\n        return\n    fi\n"
          "    (( CURRENT == 2 )) && [[ $PREFIX != -* ]] && _describe command commands\n    ", out);
    option_put_function(t->page, t->commands->name, out);
    putc('\n', out);
}

void option_zsh(const struct option_table *t, FILE *out)
{
    bool programs = false;

    fprintf(out, "#compdef %s\n# SPDX-License-Identifier: MIT\n# zsh completion for %s, generated "
                 "from its table of options\n", t->page, t->page);
    for (const struct option_command *c = t->commands; c && c->name; c++) {
        programs = programs || c->after == OPTION_AFTER_PROGRAM;
        if (!c->table)
            continue;
        option_put_function(t->page, c->name, out);
        fputs("() {\n", out);
        put_arguments(c->table(), out);
        fputs("}\n", out);
    }
    if (programs)
        fputs(program_function, out);
    option_put_function(t->page, NULL, out);
    fputs("() {\n", out);
    if (t->commands)
        put_dispatch(t, out);
    else
        put_arguments(t, out);
    /* As a file of $fpath it is the body of a function that is called; evaluated, it registers. */
    fputs("}\nif [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n    ", out);
    option_put_function(t->page, NULL, out);
    fputs(" \"$@\"\nelse\n    compdef ", out);
    option_put_function(t->page, NULL, out);
    fprintf(out, " %s\nfi\n", t->page);
}
