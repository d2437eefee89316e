/* SPDX-License-Identifier: MIT */
/* table.c - the rows of options.def as the table of rung drop, and the texts that belong to no
 * row. */
#include "drop.h"

#define X(kind, field, ...) \
    {.offset = offsetof(struct drop_options, field), .type = OPTION_##kind, __VA_ARGS__},
static const struct option_row rows[] = {
#include "options.def"
};
#undef X

static const char *const examples[] = {
    "rung drop", "count TIME-WAIT",
    "rung drop -p 8080", "what would be dropped",
    "rung drop -p 8080 --yes", "drop it",
    "rung drop 10.0.0.1:8080 10.0.0.2:40000 --yes", "this end, then the peer",
    "rung drop --netns blue --peer :80 --yes", "in a namespace",
    "rung drop -l | grep 10.0.0.2 | rung drop --pairs - -y", "pairs from a program",
    NULL};

static const char *const man_notes[] = {
    "WHAT IS LET BE",
    "A socket that listens, unless listen is named.  Who is not root and has CAP_NET_ADMIN drops "
    "what its own processes hold, and what no process holds any more, such as all in TIME-WAIT; "
    "what others hold is counted and let be.",
    "EXIT STATUS",
    "0: none of those chosen is there any more; or nothing was asked for but counts.  1: a "
    "failure, or more fit than --most.  2: a mistake in the command line, the environment or a "
    "pair.  4: this kernel cannot drop sockets, or not list them.  5: some could not be dropped.",
    NULL};

const struct option_table *drop_table(void)
{
    static const struct option_table table = {
        .command = "rung drop",
        .page = "rung-drop",
        .variables = "RUNG_DROP_",
        .nutshell = "drop TCP sockets, those in TIME-WAIT above all",
        .purpose = "Drop TCP sockets, those in TIME-WAIT above all: by port, peer, state or pair.",
        .usage = "rung drop [OPTION]... [LOCAL:PORT PEER:PORT]...",
        .operand = "PAIR",
        .examples = examples,
        .row = rows,
        .rows = sizeof(rows) / sizeof(rows[0]),
        .operands_max = OPTION_OPERANDS_MAX,
        .notes = "Without --yes it says what it would do.  Dropping needs root, or CAP_NET_ADMIN.\n"
                 "Exit codes: 0 all well, 1 failure, 2 usage, 4 kernel cannot, 5 some refused.",
        .man_notes = man_notes,
    };
    return &table;
}
