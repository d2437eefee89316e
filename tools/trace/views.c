/* SPDX-License-Identifier: MIT */
/* views.c - where a request is shown: as a line, a picture or an object, and in a file. */
#include "stacks.h"
#include "trace.h"

static int check(const struct trace_options *opt)
{
    if (opt->calls && (opt->sample > 1 || opt->count)) {
        say_error("--calls and --%s: the calls of all requests are counted, so that all of them "
                  "have to be traced", opt->count ? "count" : "sample");
        return EXIT_USAGE;
    }
    if (!opt->json || (!opt->waterfall && !opt->top))
        return 0;
    say_error("--json and --%s: one is for programs, the other for people; choose one",
              opt->top ? "top" : "waterfall");
    return EXIT_USAGE;
}

int views_begin(struct views *v, const struct trace_options *opt, unsigned port)
{
    int code = check(opt), err = 0;

    *v = (struct views){.opt = opt};
    if (code)
        return code;
    if (opt->perfetto)
        err = perfetto_begin(&v->perfetto, opt->perfetto, port);
    if (err) {
        say_error("--perfetto %s: cannot write this file: %s", opt->perfetto, say_why(err));
        return EXIT_FAILED;
    }
    if (opt->top && top_begin(&v->top, opt, port) < 0) {
        say_error("--top: out of memory");
        return EXIT_FAILED;
    }
    return opt->stacks ? stacks_begin(&v->stacks, opt->stacks, port) : 0;
}

void views_start(struct views *v)
{
    if (v->stacks)
        stacks_start(v->stacks);
}

bool views_tick(struct views *v, uint64_t now_ns)
{
    if (v->stacks)
        stacks_read(v->stacks);
    return !v->top || top_tick(v->top, now_ns);
}

void views_received(struct views *v, uint32_t pid)
{
    if (v->stacks)
        stacks_received(v->stacks, pid);
}

void views_request(struct views *v, const struct request *r, const struct stages *s)
{
    if (v->perfetto)
        perfetto_request(v->perfetto, r, s);
    if (v->top)
        top_request(v->top, r, s);
    if (v->opt->top || v->opt->quiet)
        return;
    if (v->opt->json)
        report_json_request(r, s);
    else
        report_request(v->opt, r, s);
}

void views_leave(struct views *v, uint64_t now_ns)
{
    stacks_stop(v->stacks);
    top_end(v->top, now_ns);
    v->top = NULL;
}

int views_end(struct views *v)
{
    int err, code;

    views_leave(v, 0);
    err = perfetto_end(v->perfetto);
    code = stacks_end(v->stacks);
    v->perfetto = NULL;
    v->stacks = NULL;
    if (!err)
        return code;
    say_error("--perfetto %s: the file is not whole: %s", v->opt->perfetto, say_why(err));
    return EXIT_FAILED;
}
