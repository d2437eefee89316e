/* SPDX-License-Identifier: MIT */
/* option_completion.c - a table as completion for bash; a table with commands includes theirs.
 *
 * Each table becomes one function, _rung_load for the page rung-load.  Where there are commands,
 * the first word decides which function completes the rest.  A command that is a program of its
 * own prints its function when that is first needed (NAME --completion), so that this file need not
 * know its options.
 */
#include <string.h>
#include "option.h"

/* One statement for each source of words, since a file name may contain spaces. */
#define FILL "mapfile -t COMPREPLY < <(compgen "
#define FILL_END " -- \"$word\")"

const char *const option_shells[] = {"bash", "zsh", "fish", NULL};

bool option_put_choices(const struct option_row *row, FILE *out)
{
    if (row->type == OPTION_SWITCH)
        fputs("on off", out);
    for (unsigned i = 0; row->type == OPTION_CHOICE && row->values[i]; i++)
        fprintf(out, "%s%s", i ? " " : "", row->values[i]);
    return row->type == OPTION_SWITCH || row->type == OPTION_CHOICE;
}

enum option_source option_source_of(const char *value)
{
    static const struct {
        const char *value;
        enum option_source source;
    } known[] = {{"PATH", OPTION_FILES}, {"FILE", OPTION_FILES}, {"LOG", OPTION_FILES},
                 {"DIR", OPTION_FOLDERS}, {"USER", OPTION_USERS}};

    for (unsigned i = 0; value && i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(value, known[i].value) == 0)
            return known[i].source;
    return OPTION_ANYTHING;
}

void option_put_function(const char *page, const char *command, FILE *out)
{
    putc('_', out);
    for (; *page; page++)
        putc(*page == '-' ? '_' : *page, out);
    if (command)
        fprintf(out, "_%s", command);
}

/* The flag of compgen for a value or an operand of that name; NULL: nothing is known of it. */
static const char *source_of(const char *value)
{
    static const char *const flags[] = {
        [OPTION_FILES] = "-f", [OPTION_FOLDERS] = "-d", [OPTION_USERS] = "-u"};

    return flags[option_source_of(value)];
}

static void put_value(const struct option_row *row, FILE *out)
{
    const char *source = source_of(row->value);

    if (!option_takes_value(row))
        return;
    fprintf(out, "    --%s", row->name);
    if (row->letter)
        fprintf(out, "|-%c", row->letter);
    fputs(") ", out);
    if (row->type == OPTION_CHOICE || row->type == OPTION_SWITCH) {
        fputs(FILL "-W '", out);
        option_put_choices(row, out);
        fputs("'" FILL_END "; ", out);
    } else if (source) {
        fprintf(out, FILL "%s" FILL_END "; ", source);
    }
    fputs("return ;;\n", out);
}

/* bash splits --engine=ep at the '='. */
static void put_words(FILE *out)
{
    fputs("() {\n    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    if [[ $word == '=' ]]; then word=\n"
          "    elif [[ $before == '=' ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
          "    COMPREPLY=()\n", out);
}

/* The body that completes the options and operands of a table. */
static void put_options(const struct option_table *t, FILE *out)
{
    const char *source = source_of(t->operand);

    put_words(out);
    fputs("    case $before in\n", out);
    for (unsigned i = 0; i < t->rows; i++)
        put_value(&t->row[i], out);
    fputs("    esac\n    if [[ $word == -* ]]; then\n        " FILL "-W '", out);
    for (unsigned i = 0; i < t->rows; i++)
        fprintf(out, "--%s%s%s ", t->row[i].name, t->row[i].type == OPTION_FLAG ? " --no-" : "",
                t->row[i].type == OPTION_FLAG ? t->row[i].name : "");
    fputs("--help --help-all'" FILL_END "\n", out);
    if (source)
        fprintf(out, "    else\n        " FILL "%s" FILL_END "\n", source);
    fputs("    fi\n}\n", out);
}

/* The case that completes the words after a command. */
static void put_command(const struct option_table *t, const struct option_command *c, FILE *out)
{
    fprintf(out, "        %s) ", c->name);
    if (c->table) {
        option_put_function(t->page, c->name, out);
        fputs(" ;;\n", out);
        return;
    }
    if (c->after == OPTION_AFTER_COMMAND)
        fputs("((COMP_CWORD == at + 1)) && " FILL "-W \"$commands\"" FILL_END " ;;\n", out);
    else if (c->after == OPTION_AFTER_SHELL)
        fputs("((COMP_CWORD == at + 1)) && " FILL "-W 'bash zsh fish'" FILL_END " ;;\n", out);
    else if (c->after == OPTION_AFTER_PROGRAM)
        fputs("_rung_program ;;\n", out);
    else
        fputs(";;\n", out);
}

static const char program_function[] =
    "_rung_program() {\n"
    "    local name=_rung_${COMP_WORDS[1]}\n"
    "    declare -F \"$name\" >/dev/null ||\n"
    "        eval \"$(\"${COMP_WORDS[0]/#\\~/$HOME}\" \"${COMP_WORDS[1]}\" --completion "
    "2>/dev/null)\"\n"
    "    declare -F \"$name\" >/dev/null && \"$name\"\n"
    "}\n";

/* Where the command's word is.  A program with a hyphen in its name may be run as a command of
 * another one, rung trace sniff: then it is the second word. */
static void put_place(const char *page, FILE *out)
{
    fputs("    local at=1\n", out);
    if (strchr(page, '-'))
        fprintf(out, "    [[ ${COMP_WORDS[0]##*/} == %s ]] || at=2\n", page);
}

static void put_commands(const struct option_table *t, FILE *out)
{
    const struct option_command *c;
    bool programs = false;

    for (c = t->commands; c->name; c++) {
        programs = programs || c->after == OPTION_AFTER_PROGRAM;
        if (c->table) {
            option_put_function(t->page, c->name, out);
            put_options(c->table(), out);
        }
    }
    if (programs)
        fputs(program_function, out);
    option_put_function(t->page, NULL, out);
    put_words(out);
    put_place(t->page, out);
    fputs("    local commands='", out);
    for (c = t->commands; c->name; c++)
        fprintf(out, "%s%s", c == t->commands ? "" : " ", c->name);
    fputs("'\n    if ((COMP_CWORD > at)); then\n        case ${COMP_WORDS[at]} in\n", out);
    for (c = t->commands; c->name; c++)
        put_command(t, c, out);
    fputs("        *) ", out);
    option_put_function(t->page, t->commands->name, out);
    fputs(" ;;\n        esac\n        return\n    fi\n    ", out);
    option_put_function(t->page, t->commands->name, out);
    fputs("\n    local folders=(\"${COMPREPLY[@]}\")\n    " FILL "-W \"$commands\"" FILL_END "\n"
          "    COMPREPLY+=(\"${folders[@]}\")\n}\n", out);
}

void option_completion(const struct option_table *t, FILE *out)
{
    fprintf(out, "# SPDX-License-Identifier: MIT\n# bash completion for %s, generated from its "
                 "table of options\n", t->page);
    if (t->commands) {
        put_commands(t, out);
    } else {
        option_put_function(t->page, NULL, out);
        put_options(t, out);
    }
    fputs("complete -o filenames -F ", out);
    option_put_function(t->page, NULL, out);
    fprintf(out, " %s\n", t->page);
}
