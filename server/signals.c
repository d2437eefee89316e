/* SPDX-License-Identifier: MIT */
/* signals.c - signals are read from a descriptor, so that no handler ever runs and no call is ever
 * interrupted.
 *
 * Every thread has them blocked.  INT and TERM stop the server, a second one at once; HUP opens
 * the log anew; USR1 prints the counters.  PIPE is ignored: a peer that has gone is an error
 * code, not an end.
 *
 * One thread waits for them, unless workers are processes: then their supervisor does, which has
 * nothing else to do.  Who forks should be alone in his process: of another thread the child has
 * the locks, and nobody who ever lets go of them.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include "serve.h"

struct signals {
    struct server *srv;
    pthread_t thread;
    bool watched; /* there is a thread */
    int signal_fd;
    int end_fd; /* readable: the thread is to end */
    unsigned stops;
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
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t set;

    handled_signals(&set);
    if (sigaction(SIGPIPE, &ignore, NULL) < 0)
        return -errno;
    return -pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void stop(struct signals *s)
{
    char limit[OPTION_VALUE_TEXT];
    uint64_t open = stats_live(s->srv->stats);

    if (s->stops++ == 0) {
        option_text(OPTION_TIME, s->srv->drain_ms, limit);
        say("stopping: %llu connection%s open, given at most %s to finish; once more stops at once",
            (unsigned long long)open, open == 1 ? "" : "s", limit);
    } else {
        say("stopping at once");
    }
    server_stop(s->srv);
}

static void dispatch(struct signals *s, unsigned signal)
{
    char counters[1024];
    int err;

    if (signal == SIGINT || signal == SIGTERM) {
        stop(s);
    } else if (signal == SIGHUP) {
        err = s->srv->log ? log_reopen(s->srv->log) : 0;
        if (err)
            say_error("cannot open the log anew: %s; the old one stays in use", say_why(err));
        else
            say(s->srv->log ? "log opened anew" : "SIGHUP: there is no log to open anew");
    } else if (signal == SIGUSR1) {
        stats_json(s->srv->stats, counters, sizeof(counters));
        if (say_may_write(STDERR_FILENO, SAY_PATIENCE_MS))
            dprintf(STDERR_FILENO, "%s\n", counters);
    }
}

int signals_fd(const struct signals *s)
{
    return s->signal_fd;
}

void signals_act(struct signals *s)
{
    struct signalfd_siginfo info;

    if (read(s->signal_fd, &info, sizeof(info)) == sizeof(info))
        dispatch(s, info.ssi_signo);
}

static void *watch_signals(void *arg)
{
    struct signals *s = arg;
    struct pollfd fd[2] = {{.fd = s->signal_fd, .events = POLLIN},
                           {.fd = s->end_fd, .events = POLLIN}};

    while (poll(fd, 2, -1) >= 0 || errno == EINTR) {
        if (fd[0].revents)
            signals_act(s);
        if (fd[1].revents)
            break;
    }
    return NULL;
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
    if (!err)
        *signals = s;
    else
        signals_close(s);
    return err;
}

int signals_watch(struct signals *s)
{
    int err = -pthread_create(&s->thread, NULL, watch_signals, s);

    s->watched = !err;
    return err;
}

void signals_close(struct signals *s)
{
    uint64_t one = 1;

    if (s->watched && write(s->end_fd, &one, sizeof(one)) == sizeof(one))
        pthread_join(s->thread, NULL);
    if (s->end_fd >= 0)
        close(s->end_fd);
    if (s->signal_fd >= 0)
        close(s->signal_fd);
    free(s);
}
