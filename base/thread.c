/* SPDX-License-Identifier: MIT */
/* thread.c - starts a thread, and waits until it runs. */
#include <errno.h>
#include <semaphore.h>
#include "thread.h"

struct start {
    void *(*run)(void *arg);
    void *arg;
    sem_t runs;
};

static void *begin(void *arg)
{
    struct start *start = arg, copy = {.run = start->run, .arg = start->arg};

    sem_post(&start->runs); /* from now on *start may be gone */
    return copy.run(copy.arg);
}

int thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
    struct start start = {.run = run, .arg = arg};
    int err;

    if (sem_init(&start.runs, 0, 0) < 0)
        return -errno;
    err = -pthread_create(thread, NULL, begin, &start);
    while (!err && sem_wait(&start.runs) < 0 && errno == EINTR)
        ;
    sem_destroy(&start.runs);
    return err;
}
