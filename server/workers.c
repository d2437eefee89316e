/* SPDX-License-Identifier: MIT */
/* workers.c - runs the workers: threads of this process, or processes.
 *
 * A single worker runs here, on this thread.  Several threads share everything except their loops.
 * Several processes share the listeners, the counters and the stop flag, which live in shared
 * memory, and nothing else: one that dies takes only its own connections with it.  The supervisor
 * then counts those as lost, reports it, and starts another worker with the same number, which
 * inherits the listeners and the connections in their queues.  A worker that dies young is replaced
 * only after a pause.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../base/say.h"
#include "address_limits.h"
#include "handover.h"
#include "metrics.h"

enum {
    YOUNG_MS = 1000 /* a worker is replaced this long after its start, at the earliest */
};

struct worker_slot {
    struct server *server;
    unsigned number;
    int err;
    pthread_t thread; /* threads */
    pid_t pid;        /* processes; 0: not running */
    int pid_fd;       /* readable once it has ended */
    uint64_t born_ms;
};

/* --- Threads ---------------------------------------------------------------------------------- */

static void *thread_main(void *arg)
{
    struct worker_slot *slot = arg;

    slot->err = worker_run(slot->server, slot->number);
    return NULL;
}

static int run_threads(struct server *srv, struct worker_slot *slots)
{
    unsigned n;
    int err = 0;

    for (n = 0; n < srv->arrangement.workers && !err; n += !err) {
        slots[n] = (struct worker_slot){.server = srv, .number = n};
        err = -pthread_create(&slots[n].thread, NULL, thread_main, &slots[n]);
    }
    if (err) {
        atomic_fetch_add(&srv->left, srv->arrangement.workers - n); /* the rest never started */
        server_stop(srv);
    }
    while (n-- > 0) {
        pthread_join(slots[n].thread, NULL);
        err = slots[n].err ? slots[n].err : err;
    }
    return err;
}

/* --- Processes -------------------------------------------------------------------------------- */

static void process_main(struct server *srv, unsigned number, pid_t supervisor)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a supervisor that is gone could not stop us */
    if (getppid() != supervisor)
        _exit(1); /* it ended before prctl() asked for a signal */
    metrics_forget(srv->metrics);
    handover_forget(srv->handover);
    stats_use(srv->stats, number + 1);
    limits_use(srv->limits, number);
    if (srv->arrangement.reuseport)
        listeners_only(srv, number); /* do not keep another worker's listeners open */
    _exit(worker_run(srv, number) ? 1 : 0);
}

static int start(struct worker_slot *slot)
{
    pid_t supervisor = getpid(), pid = fork();

    if (pid < 0)
        return -errno;
    if (pid == 0)
        process_main(slot->server, slot->number, supervisor);
    slot->pid = pid;
    slot->server->worker_pid[slot->number] = pid;
    slot->pid_fd = (int)syscall(SYS_pidfd_open, pid, 0); /* -1: see tend_wait() */
    slot->born_ms = clock_ms();
    return 0;
}

/* Record the end of a worker process.  Returns whether it was meant to end. */
static bool reap(struct worker_slot *slot, int status)
{
    bool asked = atomic_load(&slot->server->stopping) > 0;

    slot->pid = 0;
    slot->server->worker_pid[slot->number] = 0;
    if (slot->pid_fd >= 0)
        close(slot->pid_fd);
    stats_lose(slot->server->stats, slot->number + 1);
    if (slot->server->limits)
        limits_lose(slot->server->limits, slot->number);
    slot->server->used_before = true;
    if (WIFSIGNALED(status))
        say_error("worker %u was killed by signal %d (%s); its connections are lost%s",
                  slot->number, WTERMSIG(status), strsignal(WTERMSIG(status)),
                  asked ? "" : ", another takes its place");
    else if (!asked)
        say_error("worker %u ended with code %d; another takes its place", slot->number,
                  WEXITSTATUS(status));
    return asked || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Reap the worker if it has ended, and replace it; true: it is not to be replaced. */
static bool tend(struct worker_slot *slot)
{
    int status;

    if (slot->pid) {
        if (waitpid(slot->pid, &status, WNOHANG) != slot->pid)
            return false;
        if (reap(slot, status))
            return true;
    }
    if (atomic_load(&slot->server->stopping))
        return true;
    if (clock_ms() - slot->born_ms >= YOUNG_MS && start(slot) < 0)
        slot->born_ms = clock_ms(); /* no process could be started: try again after a pause */
    return false;
}

/* Wait until a worker ends, a stop signal comes, or a worker that died young may be replaced; act
 * on signals.  A worker without a descriptor (a filter forbids it, or there is none left) is looked
 * at now and then. */
static void tend_wait(struct server *srv, const struct worker_slot *slots)
{
    struct pollfd p[2 + WORKERS_MAX]; /* not from the heap: a child would leak it */
    unsigned n = 0;
    int wait_ms = -1;

    if (srv->signals)
        p[n++] = (struct pollfd){.fd = signals_fd(srv->signals), .events = POLLIN};
    if (!atomic_load(&srv->stopping))
        p[n++] = (struct pollfd){.fd = srv->stop_fd, .events = POLLIN};
    for (unsigned i = 0; i < srv->arrangement.workers; i++) {
        if (!slots[i].server)
            continue;
        if (slots[i].pid && slots[i].pid_fd >= 0)
            p[n++] = (struct pollfd){.fd = slots[i].pid_fd, .events = POLLIN};
        else
            wait_ms = YOUNG_MS / 10;
    }
    if (srv->signals && signals_wait_ms(srv->signals) >= 0 &&
        (wait_ms < 0 || signals_wait_ms(srv->signals) < wait_ms))
        wait_ms = signals_wait_ms(srv->signals);
    poll(p, n, wait_ms);
    if (srv->signals)
        signals_act(srv->signals);
}

static int run_processes(struct server *srv, struct worker_slot *slots)
{
    unsigned left = srv->arrangement.workers;
    int err = 0;

    for (unsigned i = 0; i < left && !err; i++) {
        slots[i] = (struct worker_slot){.server = srv, .number = i};
        err = start(&slots[i]);
    }
    if (err)
        server_stop(srv);
    for (; left > 0; left ? tend_wait(srv, slots) : (void)0) {
        left = 0;
        for (unsigned i = 0; i < srv->arrangement.workers; i++) {
            if (slots[i].server && tend(&slots[i]))
                slots[i].server = NULL;
            left += slots[i].server != NULL;
        }
        if (atomic_load(&srv->stopping))
            listeners_leave(srv); /* the workers keep their own */
    }
    return err;
}

/* --- All -------------------------------------------------------------------------------------- */

int server_run(struct server *srv)
{
    const struct arrangement *a = &srv->arrangement;
    struct worker_slot *slots;
    int err;

    signal(SIGPIPE, SIG_IGN); /* sendfile() has no MSG_NOSIGNAL */
    if (a->workers == 1 && !a->processes)
        return worker_run(srv, 0);
    slots = calloc(a->workers, sizeof(*slots));
    if (!slots)
        return -ENOMEM;
    err = a->processes ? run_processes(srv, slots) : run_threads(srv, slots);
    free(slots);
    return err;
}
