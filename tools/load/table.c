/* SPDX-License-Identifier: MIT */
/* table.c - the rows of options.def as the table of rung load, and the texts that belong to no
 * row. */
#include "load.h"

#define X(kind, field, ...) \
    {.offset = offsetof(struct load_options, field), .type = OPTION_##kind, __VA_ARGS__},
static const struct option_row rows[] = {
#include "options.def"
};
#undef X

static const char *const examples[] = {
    "rung load http://127.0.0.1:8080/", "10 connections for 10 seconds",
    "rung load -c 100 -R 5000 -d 30s URL", "5000 requests a second, on time",
    "rung load --check www --fail-if 'p99>5ms' URL", "bodies compared, and a limit",
    "rung load -n 1m -o - URL", "a million, the result as JSON",
    "rung load echo://127.0.0.1:12345", "random messages, compared",
    "rung load --trial all URL", "slow, broken, hostile clients",
    NULL};

static const char *const man_notes[] = {
    "SIGNALS",
    "SIGINT and SIGTERM: stop, and report what there is.",
    "EXIT STATUS",
    "0: every request was answered, and no limit is broken.  1: a failure while running, such as "
    "a file that cannot be written.  2: a mistake in the command line, the environment or a URL.  "
    "3: nobody could be connected to.  5: some request or trial failed.  6: a limit of --fail-if "
    "is broken.",
    NULL};

const struct option_table *load_table(void)
{
    static const struct option_table table = {
        .command = "rung load",
        .page = "rung-load",
        .variables = "RUNG_LOAD_",
        .nutshell = "put load on a server, and measure and check its answers",
        .purpose = "Ask a server over and over, check every answer, and say how long they took.",
        .usage = "rung load [OPTION]... URL...",
        .operand = "URL",
        .examples = examples,
        .row = rows,
        .rows = sizeof(rows) / sizeof(rows[0]),
        .operands_max = OPTION_OPERANDS_MAX,
        .notes = "Each is also read from the environment: --timeout 2s is RUNG_LOAD_TIMEOUT=2s.\n"
                 "Exit codes: 0 all well, 1 failure, 2 usage, 3 cannot connect, 5 requests\n"
                 "failed, 6 limit broken.",
        .man_notes = man_notes,
    };
    return &table;
}
