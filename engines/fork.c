/* SPDX-License-Identifier: MIT */
/* fork.c - a process for each connection: the oldest way to serve many at once.
 *
 * The idea: the parent accepts, a child serves one connection and exits, the parent reaps it.  No
 * child can harm another by a leak, a crash or a lock it holds, and the kernel cleans up however it
 * ends.  The processes share one thing: the memory of the connection machines.
 *
 * What it costs: copying the page tables and the descriptor table for each connection, an exit and
 * a wait.  The parent keeps each child's socket, and the machines lie in shared memory, so that
 * one watchdog in the parent sees all deadlines and makes room.  A child therefore closes its
 * siblings' sockets, and ends its own connection with shutdown(): the parent holds the socket
 * too, so close() alone would send nothing to the peer.  Why there is more: most of what a process
 * gives is not needed between the connections of one server: see thread.c.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../base/thread.h"
#include "engine.h"

/* A child and its connection, in memory that the parent shares with it. */
struct slot {
    struct session session;
    struct slot *next_free;
    pid_t pid; /* 0: free */
};

struct nursery {
    struct worker *worker;
    struct loop *loop;
    pid_t parent;
    int first_fd;         /* the lowest descriptor that a connection can have */
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    struct slot *slot, *free;
    unsigned conn_max, taken;
    bool over;
};

/* --- The child -------------------------------------------------------------------------------- */

static void let_go(const struct nursery *n, int mine)
{
    for (unsigned i = 0; i < n->worker->listeners; i++)
        close(n->worker->listener[i]);
    if (mine > n->first_fd)
        close_range((unsigned)n->first_fd, (unsigned)mine - 1, 0);
    close_range((unsigned)mine + 1, ~0U, 0);
}

static void child(const struct nursery *n, struct slot *slot)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != n->parent)
        _exit(1); /* the parent ended before prctl() asked for a signal */
    let_go(n, slot->session.fd);
    session_run(n->loop, &slot->session);
    session_leave(n->loop, &slot->session);
    _exit(0);
}

/* --- The parent ------------------------------------------------------------------------------- */

static void slot_back(struct nursery *n, struct slot *slot)
{
    slot->pid = 0;
    slot->next_free = n->free;
    n->free = slot;
    n->taken--;
    pthread_cond_broadcast(&n->changed);
}

/* Find the slot of a child that has ended, and end its connection on the parent's side. */
static void bury(struct nursery *n, pid_t pid, int status)
{
    pthread_mutex_lock(&n->lock);
    for (unsigned i = 0; i < n->conn_max; i++) {
        if (n->slot[i].pid != pid)
            continue;
        session_gone(n->loop, &n->slot[i].session, WIFSIGNALED(status));
        slot_back(n, &n->slot[i]);
        break;
    }
    pthread_mutex_unlock(&n->lock);
}

/* The thread that waits for children, so that each is reaped as soon as it has ended. */
static void *reap(void *arg)
{
    struct nursery *n = arg;
    int status;
    pid_t pid;

    for (;;) {
        pthread_mutex_lock(&n->lock);
        while (!n->taken && !n->over)
            pthread_cond_wait(&n->changed, &n->lock);
        if (!n->taken) {
            pthread_mutex_unlock(&n->lock);
            return NULL;
        }
        pthread_mutex_unlock(&n->lock);
        pid = waitpid(-1, &status, 0);
        if (pid > 0)
            bury(n, pid, status);
    }
}

/* Wait, however long, until fewer than `taken` slots are in use: the watchdog ends idle and overdue
 * connections. */
static void wait_below(struct nursery *n, unsigned taken)
{
    pthread_mutex_lock(&n->lock);
    while (n->taken >= taken)
        pthread_cond_wait(&n->changed, &n->lock);
    pthread_mutex_unlock(&n->lock);
}

/* The parent never serves: a slow client would keep all others waiting.  If no process can be
 * started, fork() is tried again while the watchdog makes room and the kernel's queue holds the
 * other connections; after two seconds (worker_retries()) this one is refused.  -1: refused. */
static pid_t child_start(struct nursery *n, struct slot *slot)
{
    unsigned tries = 0;
    bool again = true;
    pid_t pid = -1;

    while (again && (pid = fork()) < 0) {
        int err = errno;

        pthread_mutex_unlock(&n->lock); /* for the reaper */
        again = worker_retries(n->worker, err, &tries);
        pthread_mutex_lock(&n->lock);
    }
    if (pid == 0)
        child(n, slot);
    if (pid > 0 && tries > 0) /* the session had begun before it was queued */
        (void)worker_unqueued(n->worker);
    return pid;
}

static void raise_child(struct nursery *n, int fd)
{
    struct slot *slot;
    pid_t pid;

    pthread_mutex_lock(&n->lock);
    slot = n->free;
    n->free = slot->next_free;
    session_begin(n->loop, &slot->session, fd);
    pid = session_turned_away(n->loop, &slot->session) ? -1 : child_start(n, slot);
    n->taken += pid > 0;
    slot->pid = pid > 0 ? pid : 0;
    if (pid < 0) {
        slot->next_free = n->free;
        n->free = slot;
    }
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
    if (pid < 0) {
        session_leave(n->loop, &slot->session);
        session_gone(n->loop, &slot->session, false);
    }
}

static int nursery_open(struct nursery *n, struct worker *w)
{
    size_t bytes = w->conn_max * sizeof(struct slot);
    void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (mem == MAP_FAILED)
        return -errno;
    n->slot = mem;
    n->conn_max = w->conn_max;
    for (unsigned i = n->conn_max; i-- > 0;) {
        n->slot[i].next_free = n->free;
        n->free = &n->slot[i];
    }
    n->first_fd = dup(w->stop_fd); /* the lowest number that is free */
    if (n->first_fd >= 0)
        close(n->first_fd);
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->changed, NULL);
    return n->first_fd < 0 ? -errno : 0;
}

static int fork_run(struct worker *w)
{
    struct nursery n = {.worker = w, .parent = getpid()};
    pthread_t reaper;
    int fd, err = loop_open(w, &n.loop);

    if (err)
        return err;
    err = nursery_open(&n, w);
    if (!err)
        err = thread_start(&reaper, reap, &n);
    while (!err && (fd = worker_accept(w)) >= 0) {
        raise_child(&n, fd);
        wait_below(&n, n.conn_max);
    }
    if (!err) {
        wait_below(&n, 1);
        pthread_mutex_lock(&n.lock);
        n.over = true;
        pthread_cond_broadcast(&n.changed);
        pthread_mutex_unlock(&n.lock);
        pthread_join(reaper, NULL);
    }
    loop_close(n.loop);
    if (n.slot)
        munmap(n.slot, n.conn_max * sizeof(struct slot));
    return err;
}

const struct engine engine_fork = {
    .name = "fork",
    .summary = "a process for each connection",
    .use = "a fault in one connection must not reach another",
    .model = ENGINE_BLOCKING,
    .may_block = true,
    .forks = true,
    .capacity = 1000,
    .run = fork_run,
};
