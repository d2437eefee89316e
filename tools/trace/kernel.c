/* SPDX-License-Identifier: MIT */
/* kernel.c - rung trace kernel: the load, and the loop that reads the tracer while it runs.
 *
 * The order is: all settings are saved, the guard starts, settings change, the load runs, the guard
 * restores.  Nothing is changed before there is a process that restores it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "interrupt.h"
#include "kernel.h"

enum {
    LOOK_EVERY_MS = 20,
    /* The kernel prints into a page as long as it holds fewer bytes than were requested.  When the
     * page is full, it breaks off a line, and with function_graph it then loses a call or prints
     * one twice (seen on 6.1).  Therefore fewer bytes are requested. */
    READ_BYTES = 1024,
    LINE_BYTES = 8192,
    HOT_TEXT = 512,
    ABSENT_MAX = 64,
    CODE_OF_SHELL_FAILED = 127
};

struct run {
    const struct kernel_options *opt;
    struct module module;
    struct tracefs fs;
    struct graph graph;
    int pipe;
    char bytes[LINE_BYTES];
    size_t used;
    char names[HOT_TEXT]; /* the functions' */
    char *absent[ABSENT_MAX];
    unsigned absents, chosen;
    pid_t load;
};

/* --- Which functions -------------------------------------------------------------------------- */

static int choose(struct run *run, char *name)
{
    int err = tracefs_choose(&run->fs, name);

    if (err == -EINVAL && run->absents < ABSENT_MAX) {
        run->absent[run->absents++] = name;
        return 0;
    }
    if (err)
        say_error("cannot trace %s: %s", name, say_why(err));
    run->chosen += !err;
    return err;
}

/* Returns 0, or an exit code after a message. */
static int choose_all(struct run *run)
{
    const struct option_list *wanted = &run->opt->function;
    char *save = NULL;
    int err = 0;

    for (unsigned i = 0; i < wanted->count && !err; i++) {
        err = choose(run, (char *)(uintptr_t)wanted->item[i]);
        if (run->absents) {
            say_error("--function %s: neither rung_core nor the kernel has a function of that "
                      "name that can be traced; see "
                      "/sys/kernel/tracing/available_filter_functions", wanted->item[i]);
            return EXIT_FAILED;
        }
    }
    if (!wanted->count) {
        const char *more = kernel_hot(run->module.model);

        snprintf(run->names, sizeof(run->names), "%s %s", kernel_hot("all"), more ? more : "");
        for (char *name = strtok_r(run->names, " ", &save); name && !err;
             name = strtok_r(NULL, " ", &save))
            err = choose(run, name);
    }
    if (!err && !run->chosen)
        say_error("rung_core has none of the functions that are to be traced: it is of another "
                  "version than this rung");
    return err || !run->chosen ? EXIT_FAILED : 0;
}

/* --- The load --------------------------------------------------------------------------------- */

static int start_load(struct run *run)
{
    pid_t parent = getpid();

    if (!run->opt->run)
        return 0;
    run->load = interrupt_fork();
    if (run->load == 0) {
        setpgid(0, 0); /* so that all of it can be ended */
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
            _exit(CODE_OF_SHELL_FAILED);
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execl("/bin/sh", "sh", "-c", run->opt->run, (char *)NULL);
        _exit(CODE_OF_SHELL_FAILED);
    }
    return run->load < 0 ? -errno : 0;
}

/* Whether the load has ended; *status: how. */
static bool load_ended(const struct run *run, int *status)
{
    return run->load > 0 && waitpid(run->load, status, WNOHANG) == run->load;
}

static int judge_load(int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return EXIT_DONE;
    if (WIFSIGNALED(status))
        say_error("--run: the load was ended by signal %d", WTERMSIG(status));
    else
        say_error("--run: the load failed with exit code %d", WEXITSTATUS(status));
    return EXIT_FAILED;
}

static void end_load(struct run *run)
{
    if (run->load <= 0)
        return;
    if (kill(-run->load, SIGTERM) != 0)
        kill(run->load, SIGTERM); /* it has no group of its own yet */
    waitpid(run->load, NULL, 0);
}

/* --- Reading ---------------------------------------------------------------------------------- */

/* A server may cause lines as fast as they are read, so time and signals are looked at after each
 * read. */
static bool goes_on(uint64_t until)
{
    return !interrupted() && (!until || now_ns(CLOCK_MONOTONIC) < until);
}

/* Reads all that is there, or as long as the trace goes on: 0 or -errno. */
static int drain(struct run *run, bool all, uint64_t until)
{
    do {
        size_t room = sizeof(run->bytes) - run->used;
        ssize_t n = read(run->pipe, run->bytes + run->used, room < READ_BYTES ? room : READ_BYTES);
        char *line = run->bytes, *end;

        if (n <= 0)
            return n == 0 || errno == EAGAIN || errno == EINTR ? 0 : -errno;
        run->used += (size_t)n;
        while ((end = memchr(line, '\n', run->used - (size_t)(line - run->bytes))) != NULL) {
            graph_line(&run->graph, line, (size_t)(end - line));
            line = end + 1;
        }
        run->used -= (size_t)(line - run->bytes);
        memmove(run->bytes, line, run->used);
        if (run->used == sizeof(run->bytes))
            run->used = 0; /* no line is that long */
    } while (all || goes_on(until));
    return 0;
}

/* Reads until the load ends, the time is over, or it is interrupted; an exit code. */
static int watch(struct run *run)
{
    uint64_t for_ns = run->opt->duration * 1000000u;
    uint64_t until = for_ns ? now_ns(CLOCK_MONOTONIC) + for_ns : 0;
    int status = 0, err = 0;
    bool ended = false;

    while (!err && !ended && goes_on(until)) {
        ended = load_ended(run, &status);
        err = drain(run, false, until);
        if (!ended && !err)
            poll(NULL, 0, LOOK_EVERY_MS);
    }
    if (!ended)
        end_load(run);
    tracefs_stop(&run->fs);
    err = err ? err : drain(run, true, 0);
    if (err)
        say_error("cannot read the tracer: %s", say_why(err));
    return err ? EXIT_FAILED : ended ? judge_load(status) : EXIT_DONE;
}

/* --- Around it -------------------------------------------------------------------------------- */

static int say_refused(const char *what, int err)
{
    say_error("the kernel's tracer does not take %s: %s%s", what, say_why(err),
              err == -EBUSY ? "; a process reads it: end the one that has trace_pipe open" : "");
    return EXIT_FAILED;
}

/* Changes the settings, or only some of them if it fails; an exit code. */
static int trace(struct run *run)
{
    const char *refused = "its settings";
    struct kernel_report report = {.opt = run->opt, .module = &run->module, .graph = &run->graph};
    uint64_t before = 0, after = 0, start;
    int err = tracefs_set_up(&run->fs, run->opt, &refused), code;

    if (err)
        return say_refused(refused, err);
    code = choose_all(run);
    if (code)
        return code;
    err = tracefs_take(&run->fs);
    if (err)
        return say_refused("function_graph", err);
    run->pipe = openat(run->fs.at, "trace_pipe", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (run->pipe < 0)
        return say_refused("a reader", errno);
    report.answers_known = module_answers(&run->module, &before);
    err = tracefs_start(&run->fs);
    err = err ? err : start_load(run);
    if (err)
        return say_refused("the load", err);
    say("tracing %u functions of %s, model %s%s", run->chosen, run->module.name,
        run->module.model, run->opt->run ? "" : "; Ctrl-C ends it");
    start = now_ns(CLOCK_MONOTONIC);
    code = watch(run);
    report.seconds = (double)(now_ns(CLOCK_MONOTONIC) - start) / 1e9;
    report.answers_known = report.answers_known && module_answers(&run->module, &after);
    report.answers = after - before;
    report.absent = run->absent;
    report.absent_count = run->absents;
    (run->opt->json ? kernel_report_json : kernel_report)(&report);
    return code;
}

static int guarded(struct run *run)
{
    struct guard guard;
    int err = tracefs_save(&run->fs), code, restored;

    err = err ? err : guard_begin(&guard, &run->fs);
    if (err) {
        say_error("cannot save the tracer's settings: %s", say_why(err));
        return EXIT_FAILED;
    }
    code = trace(run);
    if (run->pipe >= 0)
        close(run->pipe);
    restored = guard_end(&guard, &run->fs);
    return code ? code : restored;
}

static int run(const void *options, const struct option_found *found)
{
    const struct kernel_options *opt = options;
    struct run *run;
    int code;

    (void)found;
    if (opt->list) {
        kernel_list();
        return EXIT_DONE;
    }
    run = calloc(1, sizeof(*run));
    if (!run) {
        say_error("out of memory");
        return EXIT_FAILED;
    }
    run->opt = opt;
    run->pipe = -1;
    graph_init(&run->graph, opt->awake ? NULL : THREAD_START);
    interrupt_catch();
    code = tracefs_open(&run->fs);
    code = code ? code : module_find(&run->module, opt->module);
    code = code ? code : guarded(run);
    tracefs_close(&run->fs);
    graph_free(&run->graph);
    free(run);
    return code;
}

int kernel_main(char **argv)
{
    struct kernel_options opt = {0};

    return option_main(kernel_table(), &opt, argv, run);
}
