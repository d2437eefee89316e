/* SPDX-License-Identifier: MIT */
/* serve_table.c - the rows of options.def as the table of rung serve; the list of engines.
 *
 * The texts that belong to no row are here too: examples, sections of the man page.
 */
#include <string.h>
#include "serve.h"

#define X(name) &engine_##name,
const struct engine *const engine_list[] = {ENGINES(X) NULL};
#undef X

#define X(name) #name,
static const char *const engine_choices[] = {"auto", ENGINES(X) NULL};
#undef X

#define X(kind, field, ...) \
    {.offset = offsetof(struct serve_options, field), .type = OPTION_##kind, __VA_ARGS__},
static const struct option_row rows[] = {
#include "options.def"
};
#undef X

#define SAME(name_, option_, answer_) {.name = name_, .option = option_, .answer = answer_},
#define NONE(name_, answer_) {.name = name_, .answer = answer_},
static const struct option_spelling spellings[] = {
#include "spellings.def"
    {.name = NULL}
};
#undef SAME
#undef NONE

static const char *const examples[] = {
    "rung", "this folder, on port 8080",
    "rung -p 0 ~/pictures", "another, on any free port",
    "rung --public --log combined /srv/www", "for the network, logged",
    "sudo rung --public -p 80 --user www-data /srv/www", "port 80, as www-data",
    NULL};

static const char *const man_notes[] = {
    "SIGNALS",
    "SIGINT and SIGTERM: stop accepting, let open requests finish for at most --drain-timeout, "
    "exit; a second one stops at once.  SIGHUP: reopen the log file and read certificates again, "
    "or stop if the terminal was closed.  SIGUSR1: print the counters on standard error as one "
    "line of JSON.",
    "EXIT STATUS",
    "0: told to stop, and stopped.  1: a failure while running or starting.  2: a mistake in the "
    "command line, the environment or the file of --config.  3: cannot listen on the address or "
    "port.  4: this machine cannot run the engine.",
    NULL};

const struct option_table serve_table = {
    .command = "rung serve",
    .page = "rung",
    .nutshell = "serve a folder over HTTP",
    .purpose = "Serve a folder or a file over HTTP: this folder unless named. Ctrl-C stops it.",
    .usage = "rung [serve] [OPTION]... [DIR|FILE]",
    .operand = "PATH",
    .examples = examples,
    .row = rows,
    .rows = sizeof(rows) / sizeof(rows[0]),
    .operands_max = 1,
    .spellings = spellings,
    .notes = "Each is also read from the environment: RUNG_PORT=80.  The manual: man rung\n"
             "Exit codes: 0 stopped, 1 failure, 2 usage, 3 cannot listen, 4 engine missing.",
    .man_notes = man_notes,
};

static const char *const echo_examples[] = {
    "rung echo", "on port 12345 of this machine",
    "rung echo -p 0 -e epoll -w 2 --accept reuseport", "to measure an engine without HTTP",
    NULL};

/* Rows that are about files or answers; the rest is about connections. */
static bool is_about_files(const struct option_row *row)
{
    return row->content || strcmp(row->group, "What") == 0;
}

const struct option_table *echo_table(void)
{
    static struct option_row echo_rows[sizeof(rows) / sizeof(rows[0])];
    static struct option_table table = {
        .command = "rung echo",
        .page = "rung-echo",
        .nutshell = "send back what is received",
        .purpose = "Send back whatever arrives, byte for byte: what an engine costs without HTTP.",
        .usage = "rung echo [OPTION]...",
        .examples = echo_examples,
        .row = echo_rows,
    };
    if (table.rows)
        return &table;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (!is_about_files(&rows[i]))
            echo_rows[table.rows++] = rows[i];
    for (unsigned i = 0; i < table.rows; i++)
        if (strcmp(echo_rows[i].name, "port") == 0)
            echo_rows[i].fallback = "12345";
    return &table;
}

const struct engine *engine_find(const char *name)
{
    for (unsigned i = 0; engine_list[i]; i++)
        if (strcmp(engine_list[i]->name, name) == 0)
            return engine_list[i];
    return NULL;
}
