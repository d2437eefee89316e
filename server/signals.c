/* SPDX-License-Identifier: MIT */
/* signals.c - signals are read from a descriptor, so that no handler ever runs and no call is ever
 * interrupted.
 *
 * Every thread has them blocked.  INT and TERM stop the server, a second one at once.  HUP reopens
 * the log and reads certificates again, unless it means that the terminal was closed, which stops
 * the server too.  USR1 prints the counters.  PIPE is ignored: writing to a peer that has gone
 * returns an error code and ends nothing.
 *
 * HUP has two senders with different meanings.  A terminal that is closed sends it to every job, or
 * the shell there does: a folder must not stay shared after its window is gone.  Programs that
 * rotate logs send it to a server on any terminal or none.  So the controlling terminal is opened
 * at the start and checked when HUP comes: the kernel hangs up its descriptors before it sends the
 * signal (__tty_hangup() in drivers/tty/tty_io.c).
 *
 * The same thread answers the clients of --metrics, which it never waits for.
 *
 * One thread waits for signals, unless workers are processes: then their supervisor does, which
 * has nothing else to do.  A child that is forked also gets the locks that other threads hold, and
 * nothing in it would ever release them: those of a sanitizer's memory, of the library for TLS, of
 * standard error.  So an engine that forks waits until this thread has acted (and has begun:
 * base/thread.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include "../base/thread.h"
#include "handover.h"
#include "hosts.h"
#include "metrics.h"
#include "tls.h"

enum {
    /* A shell passes the signal on as soon as its terminal is closed; a busy machine delays it.  If
     * a server was left running without the signal (disown, exit), HUP reopens its log
     * afterwards. */
    HANGUP_MS = 5000
};

struct signals {
    struct server *srv;
    pthread_t thread;
    bool watched; /* there is a thread */
    int signal_fd;
    int terminal_fd; /* the controlling terminal; -1: there is none, or closing it means nothing */
    int wait_fd;     /* epoll: readable when one of these, metrics or handover have something new */
    int end_fd;      /* readable: the thread must end */
    unsigned stops;
    uint64_t hangup_ms; /* when the terminal was closed; 0: it is open */
};

static void handled_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGUSR1);
}

int signals_block(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, usual = {.sa_handler = SIG_DFL};
    sigset_t set;

    handled_signals(&set);
    /* If SIGCHLD were ignored, as some starters leave it, children would end without a status:
     * wait(2), NOTES. */
    if (sigaction(SIGPIPE, &ignore, NULL) < 0 || sigaction(SIGCHLD, &usual, NULL) < 0)
        return -errno;
    return -pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void stop(struct signals *s)
{
    char limit[OPTION_VALUE_TEXT];
    uint64_t open = stats_live(s->srv->stats);

    if (s->stops++ == 0) {
        option_text(OPTION_TIME, s->srv->drain_ms, limit);
        say("stopping: %llu connection%s open, given at most %s to finish; a second "
            "signal stops at once",
            (unsigned long long)open, open == 1 ? "" : "s", limit);
    } else {
        say("stopping at once");
    }
    notify("STOPPING=1");
    handover_leave(s->srv->handover);
    server_stop(s->srv);
}

/* nohup ignores HUP, which asks that closing the terminal ends nothing. */
static int open_terminal(void)
{
    struct sigaction before;

    if (sigaction(SIGHUP, NULL, &before) < 0 || before.sa_handler == SIG_IGN)
        return -1;
    return open("/dev/tty", O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
}

static void look_at_terminal(struct signals *s)
{
    struct pollfd fd = {.fd = s->terminal_fd}; /* poll() ignores a negative one */

    if (!s->hangup_ms && poll(&fd, 1, 0) == 1 && (fd.revents & POLLHUP))
        s->hangup_ms = clock_ms();
}

/* Whether the terminal sent HUP. */
static bool hung_up(struct signals *s)
{
    look_at_terminal(s);
    return s->hangup_ms && clock_ms() - s->hangup_ms <= HANGUP_MS;
}

static void dispatch(struct signals *s, unsigned signal)
{
    char counters[1024];
    bool logs;

    if (signal == SIGINT || signal == SIGTERM) {
        stop(s);
    } else if (signal == SIGHUP && hung_up(s)) {
        if (s->stops == 0) { /* the kernel and a shell may both send it: it counts once */
            say("the terminal was closed");
            stop(s);
        }
    } else if (signal == SIGHUP) {
        notify_reloading();
        logs = s->srv->hosts && hosts_have_logs(s->srv->hosts);
        if (logs && hosts_reopen_logs(s->srv->hosts))
            say("log reopened");
        else if (!logs && !s->srv->tls)
            say("SIGHUP: there is no log to reopen");
        if (s->srv->tls)
            tls_reload(s->srv->tls);
        notify("READY=1");
    } else if (signal == SIGUSR1) {
        stats_json(s->srv->stats, counters, sizeof(counters));
        if (say_may_write(STDERR_FILENO, SAY_PATIENCE_MS))
            dprintf(STDERR_FILENO, "%s\n", counters);
    }
}

int signals_fd(const struct signals *s)
{
    return s->wait_fd;
}

static pthread_mutex_t acting = PTHREAD_MUTEX_INITIALIZER; /* and meanwhile no call of fork() */

static void act_begin(void)
{
    pthread_mutex_lock(&acting);
}

static void act_end(void)
{
    pthread_mutex_unlock(&acting);
}

static const struct server *forking; /* of an engine that forks */

static void act_child(void)
{
    act_end();
    handover_forget(forking->handover);
}

void signals_act(struct signals *s)
{
    struct signalfd_siginfo info;
    struct epoll_event event[4];

    act_begin();
    if (epoll_wait(s->wait_fd, event, 4, 0) > 0)
        look_at_terminal(s);
    if (read(s->signal_fd, &info, sizeof(info)) == sizeof(info))
        dispatch(s, info.ssi_signo);
    if (handover_act(s->srv->handover)) {
        metrics_leave(s->srv->metrics);
        if (s->stops == 0)
            stop(s);
    }
    metrics_act(s->srv->metrics);
    act_end();
}

int signals_wait_ms(const struct signals *s)
{
    return metrics_wait_ms(s->srv->metrics);
}

static void *watch_signals(void *arg)
{
    struct signals *s = arg;
    struct pollfd fd[2] = {{.fd = s->wait_fd, .events = POLLIN},
                           {.fd = s->end_fd, .events = POLLIN}};

    while (poll(fd, 2, signals_wait_ms(s)) >= 0 || errno == EINTR) {
        signals_act(s);
        if (fd[1].revents)
            break;
    }
    return NULL;
}

/* Typing makes the terminal readable, which means nothing here.  Because it is edge-triggered, each
 * line typed costs one turn and no more. */
static int open_wait(struct signals *s)
{
    struct epoll_event on_signal = {.events = EPOLLIN};
    struct epoll_event on_terminal = {.events = EPOLLIN | EPOLLET};
    struct epoll_event on_metrics = {.events = EPOLLIN};
    int metrics_set = metrics_fd(s->srv->metrics), handover = handover_fd(s->srv->handover);

    s->wait_fd = epoll_create1(EPOLL_CLOEXEC);
    if (s->wait_fd < 0 || epoll_ctl(s->wait_fd, EPOLL_CTL_ADD, s->signal_fd, &on_signal) < 0 ||
        (handover >= 0 && epoll_ctl(s->wait_fd, EPOLL_CTL_ADD, handover, &on_signal) < 0) ||
        (s->terminal_fd >= 0 &&
         epoll_ctl(s->wait_fd, EPOLL_CTL_ADD, s->terminal_fd, &on_terminal) < 0) ||
        (metrics_set >= 0 && epoll_ctl(s->wait_fd, EPOLL_CTL_ADD, metrics_set, &on_metrics) < 0))
        return -errno;
    return 0;
}

int signals_open(struct signals **signals, struct server *srv)
{
    struct signals *s = calloc(1, sizeof(*s));
    sigset_t set;
    int err;

    if (!s)
        return -ENOMEM;
    handled_signals(&set);
    s->srv = srv;
    s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    s->end_fd = eventfd(0, EFD_CLOEXEC);
    err = s->signal_fd < 0 || s->end_fd < 0 ? -errno : 0;
    s->terminal_fd = open_terminal();
    s->wait_fd = -1;
    if (!err)
        err = open_wait(s);
    if (!err)
        *signals = s;
    else
        signals_close(s);
    return err;
}

int signals_watch(struct signals *s)
{
    int err = -pthread_atfork(act_begin, act_end, act_child);

    forking = s->srv;
    if (!err)
        err = thread_start(&s->thread, watch_signals, s);
    s->watched = !err;
    return err;
}

void signals_close(struct signals *s)
{
    const int fds[] = {s->signal_fd, s->terminal_fd, s->wait_fd, s->end_fd};
    uint64_t one = 1;

    if (s->watched && write(s->end_fd, &one, sizeof(one)) == sizeof(one))
        pthread_join(s->thread, NULL);
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(s);
}
