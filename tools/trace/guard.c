/* SPDX-License-Identifier: MIT */
/* guard.c - a process that restores the tracer's settings as soon as its parent has ended.
 *
 * The guard waits on a pipe whose other end only the parent has: the kernel closes that end however
 * the parent ends, even by SIGKILL.  The guard has a session of its own, so that Ctrl-C and the
 * signals for a whole group do not reach it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "kernel.h"

static void stay(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGTSTP};

    setsid();
    for (unsigned i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        signal(signals[i], SIG_IGN);
}

int guard_begin(struct guard *g, struct tracefs *fs)
{
    int ends[2], err;
    ssize_t n;
    char byte;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    g->pid = fork();
    if (g->pid < 0) {
        err = -errno;
        close(ends[0]);
        close(ends[1]);
        return err;
    }
    if (g->pid == 0) {
        stay();
        close(ends[1]);
        do
            n = read(ends[0], &byte, 1);
        while (n > 0 || (n < 0 && errno == EINTR));
        _exit(tracefs_restore(fs) ? EXIT_FAILED : EXIT_DONE);
    }
    close(ends[0]);
    g->alive = ends[1];
    return 0;
}

int guard_end(struct guard *g, struct tracefs *fs)
{
    int status = 0;
    pid_t ended;

    close(g->alive);
    do
        ended = waitpid(g->pid, &status, 0);
    while (ended < 0 && errno == EINTR);
    if (ended == g->pid && WIFEXITED(status))
        return WEXITSTATUS(status);
    return tracefs_restore(fs) ? EXIT_FAILED : EXIT_DONE; /* the guard was killed */
}
