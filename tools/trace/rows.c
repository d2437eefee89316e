/* SPDX-License-Identifier: MIT */
/* rows.c - the rows of options.def, from which compare takes some. */
#include "group.h"
#include "trace.h"

#define X(kind, field, ...) \
    {.offset = offsetof(struct trace_options, field), .type = OPTION_##kind, __VA_ARGS__},
static const struct option_row rows[] = {
#include "options.def"
};
#undef X

const struct option_row *trace_rows(unsigned *count)
{
    *count = sizeof(rows) / sizeof(rows[0]);
    return rows;
}
