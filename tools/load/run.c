/* SPDX-License-Identifier: MIT */
/* run.c - all threads of a run: made, lined up, started together, watched, stopped.
 *
 * No request is sent before every thread has its connections: each thread counts itself ready, then
 * all wait at one barrier, and the run begins when the barrier opens.  Signals are read from a
 * descriptor, so no handler ever runs.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>
#include "../../base/say.h"
#include "worker.h"

enum { LIVE_MS = 500, LIVE_COLUMNS = 120 };

struct view {
    struct worker *worker;
    const struct result *result;
    uint64_t answers, at_ns; /* at the last live line */
    int signal_fd;
    sigset_t signals; /* that were blocked before */
    bool live;
};

/* --- The live line ---------------------------------------------------------------------------- */

/* The terminal's columns, less the last: a line that fills it may move on to the next.  The width
 * may change during a run. */
static size_t live_columns(void)
{
    struct winsize size;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2)
        return LIVE_COLUMNS;
    return size.ws_col - 1u < LIVE_COLUMNS ? size.ws_col - 1u : LIVE_COLUMNS;
}

static bool is_live(const struct plan *p)
{
    const char *term = getenv("TERM");

    return !p->opt->quiet && !p->opt->show && isatty(STDERR_FILENO) &&
           !(term && strcmp(term, "dumb") == 0);
}

static void show_live(struct view *v)
{
    const struct plan *p = v->result->plan;
    uint64_t answers = 0, faults = 0, now = clock_ns(), start = v->result->start_ns;
    char of[48] = "", line[LIVE_COLUMNS + 1];

    if (!v->live || !start)
        return;
    for (unsigned i = 0; i < p->threads; i++) {
        answers += atomic_load_explicit(&v->worker[i].answers_seen, memory_order_relaxed);
        faults += atomic_load_explicit(&v->worker[i].faults_seen, memory_order_relaxed);
    }
    if (p->duration_ns)
        snprintf(of, sizeof(of), " of %.0f s", (double)p->duration_ns / 1e9);
    else if (p->requests)
        snprintf(of, sizeof(of), ", %.0f %%",
                 100.0 * (double)answers / (double)p->requests);
    snprintf(line, sizeof(line), "%.0f s%s   %llu answers   %.0f /s   %llu failed",
             (double)(now - start) / 1e9, of, (unsigned long long)answers,
             (double)(answers - v->answers) * 1e9 / (double)(now - v->at_ns + 1),
             (unsigned long long)faults);
    fprintf(stderr, "\r\033[K%.*s", (int)live_columns(), line);
    fflush(stderr);
    v->answers = answers;
    v->at_ns = now;
}

/* --- Waiting for the threads ------------------------------------------------------------------ */

static void stop_all(struct run *run, struct worker *w)
{
    uint64_t one = 1;

    atomic_store(&run->stop, true);
    for (unsigned i = 0; i < run->plan->threads; i++)
        if (write(w[i].wake_fd, &one, sizeof(one)) < 0)
            return; /* the worker looks at the flag at its next tick */
}

/* Waits until every thread has counted itself again.  True: a signal came. */
static bool wait_for_all(struct run *run, struct view *v)
{
    struct pollfd fd[2] = {{.fd = run->done_fd, .events = POLLIN},
                           {.fd = v->signal_fd, .events = POLLIN}};
    uint64_t counted = 0, n;
    struct signalfd_siginfo what;
    bool told = false;

    while (counted < run->plan->threads) {
        if (poll(fd, 2, LIVE_MS) <= 0)
            show_live(v);
        if ((fd[0].revents & POLLIN) && read(run->done_fd, &n, sizeof(n)) == sizeof(n))
            counted += n;
        if ((fd[1].revents & POLLIN) && read(v->signal_fd, &what, sizeof(what)) > 0) {
            told = true;
            stop_all(run, v->worker);
        }
    }
    return told;
}

/* --- The run ---------------------------------------------------------------------------------- */

static int make_workers(struct run *run, struct worker *w)
{
    int err = 0;

    pthread_mutex_lock(&run->made);
    for (unsigned i = 0; i < run->plan->threads && !err; i++)
        err = worker_init(&w[i], run, i);
    for (unsigned i = 0; i < run->plan->threads && !err; i++) {
        err = -pthread_create(&w[i].thread, NULL, worker_main, &w[i]);
        w[i].started = !err;
    }
    run->given_up = err != 0;
    pthread_mutex_unlock(&run->made);
    for (unsigned i = 0; i < run->plan->threads && err && w[i].started; i++)
        pthread_join(w[i].thread, NULL);
    if (err)
        say_error("cannot start %u threads for %u connections: %s", run->plan->threads,
                  run->plan->connections, say_why(err));
    return err ? EXIT_FAILED : 0;
}

static bool anyone_there(const struct plan *p, const struct worker *w)
{
    unsigned up = 0;

    for (unsigned i = 0; i < p->threads; i++)
        up += w[i].up;
    return up > 0;
}

/* The first body of a URL that each thread received must be the same for all threads
 * (--body-check). */
static void compare_references(const struct plan *p, struct worker *w)
{
    for (unsigned i = 1; p->opt->body_check && i < p->threads; i++) {
        for (unsigned t = 0; t < p->targets; t++) {
            const struct reference *a = &w[0].reference[t], *b = &w[i].reference[t];
            enum fault what = a->bytes != b->bytes ? FAULT_WRONG_LENGTH : FAULT_WRONG_BODY;

            if (!a->known || !b->known || (a->bytes == b->bytes && a->digest == b->digest))
                continue;
            if (!w[i].tally.fault[what]++)
                w[i].tally.example[what].target = t;
        }
    }
}

static void gather(struct result *r, struct worker *w)
{
    struct tally *all = calloc(r->plan->threads, sizeof(*all));

    for (unsigned i = 0; i < r->plan->threads; i++) {
        pthread_join(w[i].thread, NULL);
        if (!all)
            continue;
        all[i] = w[i].tally;
        w[i].tally.sample = NULL; /* belongs to the result from now on */
    }
    compare_references(r->plan, w);
    for (unsigned i = 0; all && i < r->plan->threads; i++) {
        memcpy(all[i].fault, w[i].tally.fault, sizeof(all[i].fault));
        memcpy(all[i].example, w[i].tally.example, sizeof(all[i].example));
    }
    r->thread = all;
}

static int open_signals(sigset_t *before)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, before); /* threads inherit it */
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* A signal may end the program while it waits for a reader of its report.  Signals that came while
 * the run was being stopped have had their effect. */
static void close_signals(int fd, const sigset_t *before)
{
    struct signalfd_siginfo what;

    while (read(fd, &what, sizeof(what)) > 0)
        ;
    pthread_sigmask(SIG_SETMASK, before, NULL);
    close(fd);
}

int load_run(const struct plan *p, struct result *r)
{
    struct run run = {.plan = p, .done_fd = eventfd(0, EFD_CLOEXEC)};
    struct worker *w = calloc(p->threads, sizeof(*w));
    struct view v = {.worker = w, .result = r, .live = is_live(p)};
    struct timespec now;
    int code;

    r->plan = p;
    v.signal_fd = open_signals(&v.signals);
    if (!w || run.done_fd < 0 || v.signal_fd < 0) {
        say_error("cannot begin: %s", say_why(errno));
        return EXIT_FAILED;
    }
    pthread_mutex_init(&run.made, NULL);
    pthread_barrier_init(&run.go, NULL, p->threads + 1);
    code = make_workers(&run, w);
    if (code)
        return code;
    r->interrupted = wait_for_all(&run, &v);
    r->connected = anyone_there(p, w);
    run.cancelled = r->interrupted || !r->connected;
    clock_gettime(CLOCK_REALTIME, &now);
    r->start_unix_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    r->start_ns = run.start_ns = v.at_ns = clock_ns();
    pthread_barrier_wait(&run.go);
    r->interrupted = wait_for_all(&run, &v) || r->interrupted;
    r->elapsed_ns = clock_ns() - r->start_ns;
    if (v.live)
        fprintf(stderr, "\r\033[K");
    gather(r, w);
    code = r->thread ? result_make(r) : EXIT_FAILED;
    for (unsigned i = 0; i < p->threads; i++)
        worker_fini(&w[i]);
    free(w);
    close(run.done_fd);
    close_signals(v.signal_fd, &v.signals);
    pthread_barrier_destroy(&run.go);
    pthread_mutex_destroy(&run.made);
    return code;
}
