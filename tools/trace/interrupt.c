/* SPDX-License-Identifier: MIT */
/* interrupt.c - a signal asks a trace to end. */
#include "interrupt.h"
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static volatile sig_atomic_t asked;

static void ask(int signo)
{
    (void)signo;
    asked = 1;
}

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { SIGNALS = sizeof(signals) / sizeof(signals[0]) };

void interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = ask, .sa_flags = SA_RESTART};

    for (unsigned i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &action, NULL);
}

/* All signals are blocked until the child has its own actions. */
pid_t interrupt_fork(void)
{
    sigset_t all, before;
    pid_t pid;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    pid = fork();
    for (unsigned i = 0; pid == 0 && i < SIGNALS; i++)
        signal(signals[i], SIG_DFL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return pid;
}

bool interrupted(void)
{
    return asked;
}

void interrupt_clear(void)
{
    asked = 0;
}
