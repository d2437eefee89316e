/* SPDX-License-Identifier: MIT */
/* views.c - where a request is shown: as a line, a picture or an object, and in a file. */
#include "trace.h"

static int check(const struct trace_options *opt)
{
    if (!opt->json || !opt->waterfall)
        return 0;
    say_error("--json and --waterfall: one is for programs, the other for people; choose one");
    return EXIT_USAGE;
}

int views_begin(struct views *v, const struct trace_options *opt, unsigned port)
{
    int code = check(opt), err;

    *v = (struct views){.opt = opt};
    if (code || !opt->perfetto)
        return code;
    err = perfetto_begin(&v->perfetto, opt->perfetto, port);
    if (!err)
        return 0;
    say_error("--perfetto %s: cannot write this file: %s", opt->perfetto, say_why(err));
    return EXIT_FAILED;
}

void views_request(struct views *v, const struct request *r, const struct stages *s)
{
    if (v->perfetto)
        perfetto_request(v->perfetto, r, s);
    if (v->opt->quiet)
        return;
    if (v->opt->json)
        report_json_request(r, s);
    else
        report_request(v->opt, r, s);
}

int views_end(struct views *v)
{
    int err = perfetto_end(v->perfetto);

    if (!err)
        return 0;
    say_error("--perfetto %s: the file is not whole: %s", v->opt->perfetto, say_why(err));
    return EXIT_FAILED;
}
