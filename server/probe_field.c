/* SPDX-License-Identifier: MIT */
/* probe_field.c - the times of an answer as its Server-Timing field
 * (https://www.w3.org/TR/server-timing/): milliseconds with six digits behind the point, one metric
 * for each stage.  A stage that the answer did not have, or whose time is not known, is left out.
 */
#include <stdio.h>
#include "probe.h"

struct field {
    char *at, *end;
    unsigned metrics;
};

static void metric(struct field *f, const char *name, uint64_t ns)
{
    enum { NS_PER_MS = 1000000, MS_MAX = 999999999 };
    unsigned long long ms = ns / NS_PER_MS < MS_MAX ? ns / NS_PER_MS : MS_MAX;

    f->at += snprintf(f->at, (size_t)(f->end - f->at), "%s%s;dur=%llu.%06llu",
                      f->metrics++ ? ", " : "Server-Timing: ", name, ms,
                      (unsigned long long)(ns % NS_PER_MS));
}

size_t probe_field(const struct probe_stamps *stamps, uint64_t received_ns,
                   char out[PROBE_FIELD_BYTES_MAX])
{
    struct field f = {out, out + PROBE_FIELD_BYTES_MAX, 0};

    if (received_ns && stamps->parsed >= received_ns)
        metric(&f, "parsed", stamps->parsed - received_ns);
    if (stamps->found)
        metric(&f, "found", stamps->found - stamps->parsed);
    if (stamps->compressed)
        metric(&f, "compressed", stamps->compressed - stamps->found);
    if (f.metrics)
        f.at += snprintf(f.at, (size_t)(f.end - f.at), "\r\n");
    return (size_t)(f.at - out);
}
