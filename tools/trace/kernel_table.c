/* SPDX-License-Identifier: MIT */
/* kernel_table.c - the rows of kernel.def as the table of rung trace kernel, the texts that belong
 * to no row, and the functions of each model. */
#include <stdio.h>
#include "kernel.h"

#define X(kind, field, ...) \
    {.offset = offsetof(struct kernel_options, field), .type = OPTION_##kind, __VA_ARGS__},
static const struct option_row rows[] = {
#include "kernel.def"
};
#undef X

#define HOT(model, functions) {#model, functions},
static const char *const hot[][2] = {
#include "kernel_hot.def"
};
#undef HOT

const char *kernel_hot(const char *model)
{
    for (unsigned i = 0; i < sizeof(hot) / sizeof(hot[0]); i++)
        if (strcmp(hot[i][0], model) == 0)
            return hot[i][1];
    return NULL;
}

void kernel_list(void)
{
    for (unsigned i = 0; i < sizeof(hot) / sizeof(hot[0]); i++)
        printf("%s: %s\n", hot[i][0], hot[i][1]);
}

static const char *const examples[] = {
    "rung trace kernel --run 'rung load -n 999 http://[::1]:8080/'", "a load",
    "rung trace kernel -d 10s", "ten seconds",
    "rung trace kernel --list", "what is traced",
    NULL};

static const char *const man_notes[] = {
    "SETTINGS",
    "A machine has one tracer, and whoever uses it changes its settings.  Each one that is changed "
    "is restored at the end, by a process of its own that also does so when this one is killed.  "
    "What was in the tracer's buffer is gone.",
    "EXIT STATUS",
    "0: traced until the load ended, the time was over or it was interrupted.  1: a failure: not "
    "permitted, no module is loaded, the tracer is in use, the load failed or a setting could not "
    "be restored.  2: a mistake in the command line or the environment.  4: this kernel cannot.",
    NULL};

const struct option_table *kernel_table(void)
{
    static const struct option_table table = {
        .command = "rung trace kernel",
        .page = "rung-trace-kernel",
        .variables = "RUNG_TRACE_KERNEL_",
        .nutshell = "show the time inside of a module's functions",
        .purpose = "Show the time inside of the functions of rung's modules, and what threads "
                   "cost.",
        .usage = "rung trace kernel [OPTION]...",
        .examples = examples,
        .row = rows,
        .rows = sizeof(rows) / sizeof(rows[0]),
        .notes = "It needs root, and a kernel with function_graph, as Debian's.\n"
                 "Exit codes: 0 all well, 1 failure, 2 usage, 4 kernel cannot.",
        .man_notes = man_notes,
    };
    return &table;
}
