/* SPDX-License-Identifier: MIT */
/* main.c - rung load: options, plan, run, reports; the only place that decides the exit code.
 *
 * A separate program, which rung executes for `rung load`: the server needs none of it, and a
 * generator must not share a process with the server that it measures.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include "../../base/say.h"
#include "trial.h"

/* Writes one of the requested forms: 0 or an exit code. */
static int write_to(const char *path, const struct result *r,
                    void (*write)(const struct result *, FILE *))
{
    FILE *out = path ? output_open(path) : NULL;

    if (!path)
        return 0;
    if (!out)
        return EXIT_FAILED;
    write(r, out);
    return output_close(out, path);
}

static void write_hgrm(const struct result *r, FILE *out)
{
    report_hgrm(&r->sum.latency, out);
}

static int cannot_connect(const struct result *r)
{
    const struct tally *s = &r->sum;
    const struct peer *peer = &r->plan->peer[0];
    int error = s->connect_errno[0].error;

    if (!error && s->greeting.fault) {
        say_error("cannot connect to %s: %s", peer->authority, s->greeting.why);
        return EXIT_CONNECT;
    }
    say_error("cannot connect to %s: %s%s%s",
              r->plan->unix_socket ? r->plan->opt->unix_path : peer->authority,
              error ? say_why(error) : "it closed every connection",
              error == ECONNREFUSED ? "; is the server running" : "",
              error != ECONNREFUSED ? "" : r->plan->unix_socket ? "?" : ", and on that port?");
    return EXIT_CONNECT;
}

static int report(const struct result *r)
{
    const struct load_options *o = r->plan->opt;
    struct limit_found found;
    int code;

    code = write_to(output_has_report(o) ? "-" : NULL, r, report_text);
    code |= write_to(o->json, r, report_json);
    code |= write_to(o->csv, r, report_csv);
    code |= write_to(o->hgrm, r, write_hgrm);
    code |= write_to(o->samples, r, report_samples);
    if (code)
        return code;
    for (unsigned i = 0; i < o->fail_if.count; i++)
        if (limit_judge(o->fail_if.item[i], r, &found) == 0 && found.broken)
            return EXIT_LIMIT;
    /* A limit that names errors says how many are too many. */
    for (unsigned i = 0; i < o->fail_if.count; i++)
        if (strncmp(o->fail_if.item[i], "error", 5) == 0)
            return EXIT_DONE;
    return r->faults ? EXIT_FAULTS : EXIT_DONE;
}

static int run_once(const struct plan *p)
{
    struct result r = {0};
    int code = load_run(p, &r);

    if (!code)
        code = !r.connected && !r.interrupted ? cannot_connect(&r) : report(&r);
    result_free(&r);
    return code;
}

static int run(struct load_options *opt, const struct option_found *found)
{
    struct plan p;
    int code;

    /* The reader of the report may leave early, and the files must be written nevertheless. */
    signal(SIGPIPE, SIG_IGN);
    code = output_check(opt);
    if (code)
        return code;
    if (opt->trial)
        return trial_run(opt, found);
    code = plan_make(&p, opt, found);
    if (!code)
        code = opt->find_knee ? knee_run(&p, opt) : run_once(&p);
    plan_free(&p);
    return code;
}

int main(int argc, char **argv)
{
    struct load_options opt = {0};
    struct option_found found;
    int code = EXIT_DONE, parsed;

    if (argc < 1)
        return EXIT_USAGE;
    if (argc == 2 && option_generate(load_table(), argv[1], stdout))
        return output_close(stdout, "-");
    parsed = option_parse(load_table(), &opt, argv, &found);
    if (parsed < 0) {
        say_error("%s", found.error);
        return EXIT_USAGE;
    }
    if (parsed == OPTION_OK)
        code = run(&opt, &found);
    else
        option_help(load_table(), parsed == OPTION_HELP_ALL, stdout);
    return code == EXIT_FAILED ? code : output_close(stdout, "-") ? EXIT_FAILED : code;
}
