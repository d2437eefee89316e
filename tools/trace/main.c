/* SPDX-License-Identifier: MIT */
/* main.c - rung trace: options, the port, the programs, the loop that reads their ring; the only
 * place that decides the exit code.
 *
 * A program of its own beside rung, which becomes it for `rung trace`: it alone needs libbpf, and
 * rights that a server should not have.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include "sniff.h"
#include "trace.h"

enum {
    LOOK_EVERY_MS = 20,
    LOOK_SOON_MS = 1, /* ... after a look that found MANY */
    MANY = 1000
};

struct run {
    const struct trace_options *opt;
    struct views *views;
    struct flows flows;
    struct tally tally;
    uint64_t until_ns; /* 0: no limit */
    bool done;         /* the limit is reached */
    unsigned events;   /* of this look */
};

static volatile sig_atomic_t interrupted;

static void interrupt(int signo)
{
    (void)signo;
    interrupted = 1;
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- What happens to a request ---------------------------------------------------------------- */

static void finish(void *arg, const struct request *r)
{
    struct run *run = arg;
    struct stages stages;

    stages_of(r, &stages);
    if (run->done || !keep(run->opt, r, &stages))
        return;
    tally_add(&run->tally, r, &stages);
    views_request(run->views, r, &stages);
    run->done = run->opt->count && run->tally.shown >= run->opt->count;
}

static bool see(void *arg, const struct event *e)
{
    struct run *run = arg;

    if (run->until_ns && e->ns >= run->until_ns)
        return false;
    run->events++;
    flows_event(&run->flows, e, (const char *)(e + 1)); /* it has left the ring in any case */
    return !interrupted && !run->done;
}

/* Until it is interrupted, or a limit is reached: 0 or -errno. */
static int watch(struct run *run, struct attached *attached)
{
    struct timespec pause = {0, 0};
    int err = 0;

    while (!err && !interrupted && !run->done && (!run->until_ns || now_ns() < run->until_ns)) {
        run->events = 0;
        err = attach_read(attached, see, run);
        pause.tv_nsec = (run->events > MANY ? LOOK_SOON_MS : LOOK_EVERY_MS) * 1000000;
        if (!views_tick(run->views, now_ns()))
            break;
        if (fflush(stdout) != 0)
            err = -errno;
        nanosleep(&pause, NULL);
    }
    run->until_ns = run->until_ns && run->until_ns < now_ns() ? run->until_ns : now_ns();
    interrupted = 0;
    return err ? err : attach_read(attached, see, run); /* what came before the end */
}

static int run_on(struct views *views, unsigned port, struct attached *attached)
{
    const struct trace_options *opt = views->opt;
    struct run *run = calloc(1, sizeof(*run));
    struct report report = {.opt = opt, .attached = attached, .port = port};
    uint64_t start = now_ns();
    int err = run ? tally_init(&run->tally, (unsigned)opt->slowest) : -ENOMEM;

    if (!err) {
        run->opt = opt;
        run->views = views;
        run->until_ns = opt->duration ? start + opt->duration * 1000000u : 0;
        flows_init(&run->flows, finish, run);
        run->flows.sends_known = attach_sees_sends(attached);
        say("tracing port %u; Ctrl-C ends it", port);
        views_tick(views, now_ns());
        err = watch(run, attached);
        flows_end(&run->flows);
        views_leave(views, now_ns());
        report.flows = &run->flows.counts;
        report.tally = &run->tally;
        report.seconds = (double)(now_ns() - start) / 1e9;
        attach_counts(attached, &report.counts);
    }
    if (!err)
        (opt->json ? report_json_summary : report_summary)(&report);
    else
        say_error("cannot go on tracing: %s", say_why(err));
    if (run)
        tally_free(&run->tally);
    free(run);
    return err ? EXIT_FAILED : EXIT_DONE;
}

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
    uint64_t n = 0;

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
    if (option_number(found->operand[0], &n) < 0 || n < 1 || n > 65535) {
        say_error("'%s' is no port: it is a number from 1 to 65535", found->operand[0]);
        return EXIT_USAGE;
    }
    *port = (unsigned)n;
    if (listen_is_at(*port))
        return 0;
    say_error("nothing listens at TCP port %u in this network namespace: start the server first, "
              "or see ss -ltn", *port);
    return EXIT_FAILED;
}

static int run(const void *options, const struct option_found *found)
{
    const struct trace_options *opt = options;
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART}; /* of writes */
    struct attached *attached = NULL;
    struct views views;
    unsigned port = 0;
    int code = keep_check(opt), end;

    code = code ? code : choose_port(opt, found, &port);
    if (code)
        return code;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    code = views_begin(&views, opt, port);
    code = code ? code : attach_begin(&attached, opt, port);
    code = code ? code : run_on(&views, port, attached);
    attach_end(attached);
    end = views_end(&views);
    return code ? code : end;
}

int main(int argc, char **argv)
{
    struct trace_options opt = {0};

    if (argc > 1 && strcmp(argv[1], "sniff") == 0)
        return sniff_main(argv + 1);
    return option_main(trace_table(), &opt,
                       argv + (argc > 1 && strcmp(argv[1], "requests") == 0), run);
}
