/* SPDX-License-Identifier: MIT */
/* keep.c - which requests are shown: by target, client, status and time. */
#include <ctype.h>
#include <fnmatch.h>
#include "trace.h"

/* Three characters, each a digit or x. */
static bool is_pattern(const char *text)
{
    unsigned n = 0;

    for (; text[n]; n++)
        if (n >= 3 || (!isdigit((unsigned char)text[n]) && text[n] != 'x'))
            return false;
    return n == 3;
}

int keep_check(const struct trace_options *opt)
{
    if (opt->status && !is_pattern(opt->status)) {
        say_error("--status %s: write three digits, or x for any: 404 or 4xx", opt->status);
        return EXIT_USAGE;
    }
    if (opt->sample & (opt->sample - 1)) {
        say_error("--sample %llu: it must be a power of two, as 64",
                  (unsigned long long)opt->sample);
        return EXIT_USAGE;
    }
    return 0;
}

static bool fits_status(const char *pattern, unsigned status)
{
    char text[16];

    if (!status)
        return false;
    snprintf(text, sizeof(text), "%03u", status);
    for (unsigned i = 0; i < 3; i++)
        if (pattern[i] != 'x' && pattern[i] != text[i])
            return false;
    return true;
}

static bool fits_peer(const char *pattern, const struct request *r)
{
    char text[PEER_TEXT];

    report_address(r, text);
    if (fnmatch(pattern, text, 0) == 0)
        return true;
    report_peer(r, text);
    return strcmp(pattern, text) == 0;
}

bool keep(const struct trace_options *opt, const struct request *r, const struct stages *s)
{
    if (opt->path && fnmatch(opt->path, r->target, 0) != 0)
        return false;
    if (opt->peer && !fits_peer(opt->peer, r))
        return false;
    if (opt->status && !fits_status(opt->status, r->status))
        return false;
    return !opt->slower || (s->server_known && s->server_ns >= opt->slower * 1000);
}
