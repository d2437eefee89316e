/* SPDX-License-Identifier: MIT */
/* table.c - the table of rung trace: its rows, and the texts that belong to no row. */
#include "compare.h"
#include "kernel.h"
#include "sniff.h"
#include "trace.h"

static const char *const examples[] = {
    "rung trace 8080", "a line for each request, until Ctrl-C",
    "rung trace --top 8080", "a table of paths, renewed each second",
    "rung trace --slower 1000 8080", "those that take a millisecond or more",
    "rung trace -q -d 10s 8080", "only the summary, of ten seconds",
    "rung trace --status 4xx --json 8080", "for programs",
    NULL};

static const char *const man_notes[] = {
    "STAGES",
    "A request passes through these moments, and each is shown with the time since the one before "
    "it that is known, so that they add up:"
#define STAGE(id, name, meaning) " " name " (" meaning ");"
#include "stage.def"
#undef STAGE
    " in this order.  arrived is not shown, because no time has passed before it.  accepted counts "
    "from the end of the handshake.  parsed, found and compressed are said by the server, if it "
    "is rung.  A - is not known; busy: the thread was awake already.",
    "EXIT STATUS",
    "0: traced until it was interrupted or the limit was reached.  1: a failure: not permitted, "
    "or nothing listens at the port.  2: a mistake in the command line or the environment.  4: "
    "this kernel or this build cannot.",
    NULL};

static const struct option_command commands[] = {
    {.name = "requests", .table = trace_table,
     .purpose = "how each request spends its time; this word may be left out"},
    {.name = "compare", .table = compare_table, .purpose = "two servers, stage by stage"},
    {.name = "sniff", .table = sniff_table,
     .purpose = "requests and responses that pass an interface"},
    {.name = "kernel", .table = kernel_table,
     .purpose = "time inside of the functions of rung's kernel modules"},
    {.name = NULL}};

const struct option_table *trace_table(void)
{
    static struct option_table table = {
        .command = "rung trace",
        .page = "rung-trace",
        .variables = "RUNG_TRACE_",
        .nutshell = "show where the time of each HTTP request goes",
        .purpose = "Show where the time of each HTTP request goes, on any server at a port here.",
        .usage = "rung trace [requests] [OPTION]... PORT\n       rung trace COMMAND ...",
        .operand = "PORT",
        .examples = examples,
        .commands = commands,
        .commands_help = "rung trace COMMAND --help explains one",
        .operands_max = 1,
        .notes = "It needs root, or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN.\n"
                 "Exit codes: 0 all well, 1 failure, 2 usage, 4 kernel or build cannot.",
        .man_notes = man_notes,
    };

    table.row = trace_rows(&table.rows);
    return &table;
}
