/* SPDX-License-Identifier: MIT */
/* report_files.c - the result for plots: a line for each second as CSV, and the distribution in the
 * text form of HdrHistogram (.hgrm), which its plotters read.
 */
#include <math.h>
#include "load.h"

void report_csv(const struct result *r, FILE *out)
{
    fprintf(out, "second,answers,errors,received_bytes,latency_p50_us,latency_p99_us,"
                 "latency_max_us\n");
    for (unsigned i = 0; i < r->sum.seconds; i++) {
        const struct second *s = &r->sum.second[i];

        fprintf(out, "%u,%llu,%llu,%llu,%.1f,%.1f,%.1f\n", i, (unsigned long long)s->answers,
                (unsigned long long)s->faults, (unsigned long long)s->bytes,
                (double)hist_quantile(&s->latency, 50, 100) / 1e3,
                (double)hist_quantile(&s->latency, 99, 100) / 1e3, (double)s->latency.max / 1e3);
    }
}

/* A line for each cell: the number of answers that took at most that time.  Values in
 * milliseconds. */
void report_hgrm(const struct hist *h, FILE *out)
{
    struct hist_cell cell;
    uint64_t seen = 0;
    uint32_t at = 0;
    double share, middle, square = 0, mean = h->total ? (double)h->sum / (double)h->total : 0;

    fprintf(out, "       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
    while (hist_next(h, &at, &cell)) {
        seen += cell.count;
        middle = ((double)cell.low + (double)cell.high) / 2;
        square += (middle - mean) * (middle - mean) * (double)cell.count;
        share = (double)seen / (double)h->total;
        fprintf(out, "%12.6f %14.12f %10llu", (double)cell.high / 1e6, share,
                (unsigned long long)seen);
        if (seen < h->total)
            fprintf(out, " %14.2f", 1 / (1 - share));
        fprintf(out, "\n");
    }
    fprintf(out, "#[Mean    = %12.6f, StdDeviation   = %12.6f]\n", mean / 1e6,
            h->total ? sqrt(square / (double)h->total) / 1e6 : 0);
    fprintf(out, "#[Max     = %12.6f, Total count    = %12llu]\n", (double)h->max / 1e6,
            (unsigned long long)h->total);
    fprintf(out, "#[Buckets = %12u, SubBuckets     = %12u]\n", h->cells >> (h->bits - 1),
            1u << h->bits);
}
