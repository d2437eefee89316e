/* SPDX-License-Identifier: MIT */
/* sniff_table.c - the rows of sniff.def as the table of rung trace sniff, and the texts that belong
 * to no row. */
#include "sniff.h"

#define X(kind, field, ...) \
    {.offset = offsetof(struct sniff_options, field), .type = OPTION_##kind, __VA_ARGS__},
static const struct option_row rows[] = {
#include "sniff.def"
};
#undef X

static const char *const examples[] = {
    "rung trace sniff -i lo", "all HTTP on loopback, until Ctrl-C",
    "rung trace sniff -i eth0 --port 80", "of one port",
    "rung trace sniff -i lo -n 2 --json", "two lines, for programs",
    NULL};

static const char *const man_notes[] = {
    "OUTPUT",
    "For each HTTP message its time, sender, receiver and first line.  Bytes outside of printable "
    "ASCII, and the backslash, are shown as \\xHH.  Standard error says how many lines there were "
    "and what was left out.",
    "EXIT STATUS",
    "0: sniffed until it was interrupted or the limit was reached.  1: a failure: not permitted, "
    "no such interface, or it is down.  2: a mistake in the command line or the environment.  4: "
    "this kernel or this build cannot.",
    NULL};

const struct option_table *sniff_table(void)
{
    static const struct option_table table = {
        .command = "rung trace sniff",
        .page = "rung-trace-sniff",
        .variables = "RUNG_TRACE_SNIFF_",
        .nutshell = "show HTTP requests and responses that pass an interface",
        .purpose = "Show HTTP requests and responses that pass a network interface.",
        .usage = "rung trace sniff -i IFACE [OPTION]...",
        .examples = examples,
        .row = rows,
        .rows = sizeof(rows) / sizeof(rows[0]),
        .notes = "It needs root, or CAP_NET_RAW and CAP_BPF.\n"
                 "Exit codes: 0 all well, 1 failure, 2 usage, 4 kernel or build cannot.",
        .man_notes = man_notes,
    };
    return &table;
}
