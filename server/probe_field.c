/* SPDX-License-Identifier: MIT */
/* probe_field.c - the times of an answer as its Server-Timing field
 * (https://www.w3.org/TR/server-timing/): how long the search took, in milliseconds, and whether
 * what was found is compressed.  The time before the search is not included: only a tracer sees
 * when a request arrived.
 */
#include <stdio.h>
#include "probe.h"

size_t probe_field(const struct probe_stamps *stamps, char out[PROBE_FIELD_BYTES_MAX])
{
    enum { NS_PER_MS = 1000000, MS_MAX = 999999999 };
    unsigned long long ns, ms;

    if (!stamps->found)
        return 0;
    ns = stamps->found - stamps->parsed;
    ms = ns / NS_PER_MS < MS_MAX ? ns / NS_PER_MS : MS_MAX;
    return (size_t)snprintf(out, PROBE_FIELD_BYTES_MAX,
                            "Server-Timing: found;dur=%llu.%06llu%s\r\n", ms, ns % NS_PER_MS,
                            stamps->compressed ? ", compressed" : "");
}
