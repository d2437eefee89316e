/* SPDX-License-Identifier: MIT */
/* seeds_helper.h - the helper thread of offload.c, made deterministic: it finishes a job when the
 * simulation says so, and no earlier.
 *
 * The thread is real.  It stops at a gate before it queries the site.  The thread that queues a job
 * or opens the gate waits until the helper is at the gate again, sleeps or has ended.  So except in
 * those moments exactly one of the two threads runs.
 */
#ifndef TESTS_SEEDS_HELPER_H
#define TESTS_SEEDS_HELPER_H
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include "seeds_net.h"

enum helper_state { HELPER_NONE, HELPER_RUNS, HELPER_SLEEPS, HELPER_AT_GATE };

static struct {
    atomic_int state; /* enum helper_state */
    sem_t gate, settled;
    bool called;      /* it was signalled by a thread that still holds its lock */
    void *(*run)(void *);
    void *arg;
} helper;
static _Thread_local bool helper_self;

static inline void helper_becomes(enum helper_state state)
{
    atomic_store(&helper.state, state);
    sem_post(&helper.settled);
}

/* Wait for the helper to stop; if it is then at the gate, its job takes a while. */
static inline void helper_settle(void)
{
    while (atomic_load(&helper.state) == HELPER_RUNS)
        while (sem_wait(&helper.settled) < 0)
            continue;
    if (atomic_load(&helper.state) == HELPER_AT_GATE)
        sim.job_us = sim.now_us + sim_random(sim_chance(4) ? 200000 : 3000);
}

static inline void helper_pass(void)
{
    sim.job_us = NEVER;
    atomic_store(&helper.state, HELPER_RUNS);
    sem_post(&helper.gate);
    helper_settle();
}

static inline void helper_open(void)
{
    sem_init(&helper.gate, 0, 0);
    sem_init(&helper.settled, 0, 0);
    atomic_store(&helper.state, HELPER_NONE);
}

/* --- The calls of offload.c ------------------------------------------------------------------- */

static inline void *helper_main(void *arg)
{
    void *result;

    (void)arg;
    helper_self = true;
    result = helper.run(helper.arg);
    helper_becomes(HELPER_NONE);
    return result;
}

int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg)
{
    int err;

    must(atomic_load(&helper.state) == HELPER_NONE);
    helper.run = run;
    helper.arg = arg;
    atomic_store(&helper.state, HELPER_RUNS);
    err = __real_pthread_create(t, a, helper_main, NULL);
    if (err)
        atomic_store(&helper.state, HELPER_NONE);
    helper_settle();
    return err;
}

int __real_pthread_join(pthread_t t, void **result);
int __wrap_pthread_join(pthread_t t, void **result);
int __wrap_pthread_join(pthread_t t, void **result)
{
    while (atomic_load(&helper.state) == HELPER_AT_GATE)
        helper_pass();
    return __real_pthread_join(t, result);
}

int __real_pthread_cond_signal(pthread_cond_t *c);
int __wrap_pthread_cond_signal(pthread_cond_t *c);
int __wrap_pthread_cond_signal(pthread_cond_t *c)
{
    if (atomic_load(&helper.state) == HELPER_SLEEPS) {
        atomic_store(&helper.state, HELPER_RUNS);
        helper.called = true;
    }
    return __real_pthread_cond_signal(c);
}

int __real_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
    int err = __real_pthread_mutex_unlock(m);

    if (!helper_self && helper.called) {
        helper.called = false;
        helper_settle();
    }
    return err;
}

int __real_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
    helper_becomes(HELPER_SLEEPS); /* it holds the lock until it does */
    return __real_pthread_cond_wait(c, m);
}

int __real_site_find(struct site *site, const struct http_ask *ask, bool may_block,
                     struct source **source);
int __wrap_site_find(struct site *site, const struct http_ask *ask, bool may_block,
                     struct source **source);
int __wrap_site_find(struct site *site, const struct http_ask *ask, bool may_block,
                     struct source **source)
{
    if (helper_self) {
        helper_becomes(HELPER_AT_GATE);
        while (sem_wait(&helper.gate) < 0)
            continue;
    }
    return __real_site_find(site, ask, may_block, source);
}

#endif
