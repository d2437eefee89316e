/* SPDX-License-Identifier: MIT */
/* commands.c - the rows of commands.def as the list that help, man page and completion are made
 * from, and the tables of the commands that have few options.
 */
#include "serve.h"

static const struct option_row engines_rows[] = {
    {.offset = offsetof(struct print_options, json), .type = OPTION_FLAG, .name = "json",
     .group = "Output",
     .help = "print a list of objects in JSON, one for each engine",
     .more = "Members: name, summary, use, model, may_block, capacity, stack_bytes, available, "
             "reason."},
};

const struct option_table engines_table = {
    .command = "rung engines",
    .page = "rung-engines",
    .nutshell = "list the engines, and which of them can run here",
    .purpose = "List the engines: how each one waits, whether it can run here, and why not.",
    .usage = "rung engines [--json]",
    .row = engines_rows,
    .rows = 1,
};

static const struct option_row doctor_rows[] = {
    {.offset = offsetof(struct print_options, json), .type = OPTION_FLAG, .name = "json",
     .group = "Output",
     .help = "print a list of objects in JSON, one for each check",
     .more = "Members: name, value, fine, meaning, advice."},
};

const struct option_table doctor_table = {
    .command = "rung doctor",
    .page = "rung-doctor",
    .nutshell = "check this machine for a server",
    .purpose = "Check this machine: what can run, which limits are met first, what to do then.",
    .usage = "rung doctor [--json]",
    .row = doctor_rows,
    .rows = 1,
};

static const struct option_table *table_of_serve(void)
{
    return &serve_table;
}

static const struct option_table *table_of_engines(void)
{
    return &engines_table;
}

static const struct option_table *table_of_doctor(void)
{
    return &doctor_table;
}

static const char *const config_examples[] = {
    "rung config", "the defaults, and what the environment says",
    "rung config -p 80 --spa ~/site >rung.toml", "options of a command line as a file",
    "rung config --config rung.toml", "the same file with all that it leaves out", NULL};

const struct option_table *config_table(void)
{
    static struct option_table table;

    if (!table.rows) {
        table = serve_table;
        table.command = "rung config";
        table.page = "rung-config";
        table.nutshell = "print the options of a server as a file for --config";
        table.purpose = "Print all options as they are for rung serve, as a file for --config.";
        table.usage = "rung config [OPTION]... [DIR|FILE]";
        table.examples = config_examples;
        table.notes = NULL;
        table.man_notes = NULL;
    }
    return &table;
}

#define COMMAND(name_, run, table_, after_, purpose_) \
    {.name = #name_, .purpose = purpose_, .table = table_, .after = OPTION_AFTER_##after_},
static const struct option_command commands[] = {
#include "commands.def"
    {.name = NULL}
};
#undef COMMAND

const struct option_table *rung_table(void)
{
    static struct option_table table;

    if (!table.rows) {
        table = serve_table;
        table.command = "rung";
        table.usage = "rung [serve] [OPTION]... [DIR|FILE]\n       rung COMMAND ...";
        table.commands = commands;
        table.commands_help = "rung help COMMAND explains one";
    }
    return &table;
}
