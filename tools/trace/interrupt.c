/* SPDX-License-Identifier: MIT */
/* interrupt.c - a signal asks a trace to end. */
#include "interrupt.h"
#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t asked;

static void ask(int signo)
{
    (void)signo;
    asked = 1;
}

void interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = ask, .sa_flags = SA_RESTART};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

bool interrupted(void)
{
    return asked;
}

void interrupt_clear(void)
{
    asked = 0;
}
