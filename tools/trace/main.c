/* SPDX-License-Identifier: MIT */
/* main.c - rung trace: which port, and what is printed at the end; decides the exit code, as
 * compare.c does.
 *
 * A separate program, which rung executes for `rung trace`: it alone needs libbpf and libdw, and
 * rights that a server should not have.
 */
#include <errno.h>
#include "compare.h"
#include "interrupt.h"
#include "kernel.h"
#include "sniff.h"
#include "trace.h"

/* --- Which port ------------------------------------------------------------------------------- */

static int port_of_process(unsigned pid, unsigned *port)
{
    unsigned found[PORTS_FOUND_MAX];
    int n = listen_ports(pid, found);

    if (n == -ESRCH)
        say_error("--pid %u: there is no such process; it has ended, or never was", pid);
    else if (n < 0)
        say_error("--pid %u: its descriptors cannot be read: %s; root may", pid, say_why(n));
    else if (n == 0)
        say_error("--pid %u: this process listens at no TCP port; its parent may", pid);
    else if (n > 1)
        say_error("--pid %u: it listens at %d ports, %u and %u among them: name one instead", pid,
                  n, found[0], found[1]);
    *port = n == 1 ? found[0] : 0;
    return n == 1 ? 0 : EXIT_FAILED;
}

static int choose_port(const struct trace_options *opt, const struct option_found *found,
                       unsigned *port)
{
    if (opt->pid && found->operands) {
        say_error("a port and --pid: one of them is enough");
        return EXIT_USAGE;
    }
    if (opt->pid)
        return port_of_process((unsigned)opt->pid, port);
    if (!found->operands) {
        say_error("which port? rung trace 8080, or --pid PID");
        return EXIT_USAGE;
    }
    return port_listened(found->operand[0], port);
}

/* --- Tracing ---------------------------------------------------------------------------------- */

static int trace(struct views *views, unsigned port)
{
    const struct trace_options *opt = views->opt;
    struct run *run = NULL;
    int code = run_begin(&run, opt, port);

    if (!code) {
        struct report report = {.opt = opt, .attached = run->attached, .port = port,
                                .flows = &run->flows.counts, .tally = &run->tally};

        run->views = views;
        views_start(views);
        say("tracing port %u; Ctrl-C ends it", port);
        code = run_watch(&run, 1) ? EXIT_DONE : EXIT_FAILED;
        views_leave(views, now_ns(CLOCK_MONOTONIC));
        report.seconds = run->seconds;
        report.counts = run->counts;
        report.calls = run->calls_known ? run->calls : NULL;
        report.call_times = run->calls_known && opt->histogram ? run->call_times : NULL;
        if (!code)
            (opt->json ? report_json_summary : report_summary)(&report);
    }
    run_end(run);
    return code;
}

static int run(const void *options, const struct option_found *found)
{
    const struct trace_options *opt = options;
    struct views views;
    unsigned port = 0;
    int code = keep_check(opt), end;

    code = code ? code : choose_port(opt, found, &port);
    if (code)
        return code;
    code = views_begin(&views, opt, port);
    code = code ? code : trace(&views, port);
    end = views_end(&views);
    return code ? code : end;
}

int main(int argc, char **argv)
{
    struct trace_options opt = {0};

    if (argc > 1 && strcmp(argv[1], "compare") == 0)
        return compare_main(argv + 1);
    if (argc > 1 && strcmp(argv[1], "sniff") == 0)
        return sniff_main(argv + 1);
    if (argc > 1 && strcmp(argv[1], "kernel") == 0)
        return kernel_main(argv + 1);
    return option_main(trace_table(), &opt,
                       argv + (argc > 1 && strcmp(argv[1], "requests") == 0), run);
}
