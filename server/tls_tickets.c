/* SPDX-License-Identifier: MIT */
/* tls_tickets.c - keys of session tickets: one that makes them, and the one before it.
 *
 * A ticket is the session, encrypted by the server and kept by the client, so a client may resume
 * it at any worker.  An attacker with a key can read recorded sessions of TLS 1.2 that it resumed,
 * so keys are random, only in memory, and forgotten: the first worker that needs a key after a
 * period replaces it.  They are in shared memory under a lock that survives the death of its
 * holder; keys that it may have left half written are replaced.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include "tls_tickets.h"

struct tickets {
    pthread_mutex_t lock;
    uint64_t made_ms; /* when key[0] was made */
    bool made;
    struct ticket_key key[2]; /* the newest, and the one before it */
};

static bool make_key(struct ticket_key *key)
{
    return getrandom(key, sizeof(*key), 0) == (ssize_t)sizeof(*key);
}

/* After two periods without a ticket the key before is one that was never used. */
static void renew(struct tickets *t, uint64_t now_ms)
{
    const uint64_t period_ms = (uint64_t)TICKET_PERIOD_S * 1000;
    uint64_t age_ms = now_ms - t->made_ms;
    bool fine = true;

    if (t->made && age_ms < period_ms)
        return;
    if (t->made && age_ms < 2 * period_ms)
        t->key[1] = t->key[0];
    else
        fine = make_key(&t->key[1]);
    t->made = fine && make_key(&t->key[0]);
    t->made_ms = now_ms;
}

/* Locks the keys, which are the right ones for this time.  False: there are none. */
static bool keys_lock(struct tickets *t, uint64_t now_ms)
{
    int err = pthread_mutex_lock(&t->lock);

    if (err == EOWNERDEAD) {
        t->made = false;
        err = pthread_mutex_consistent(&t->lock);
    }
    if (err)
        return false;
    renew(t, now_ms);
    if (!t->made)
        pthread_mutex_unlock(&t->lock);
    return t->made;
}

int tickets_open(struct tickets **tickets)
{
    struct tickets *t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                             -1, 0);
    pthread_mutexattr_t attr;
    int err;

    if (t == MAP_FAILED)
        return -errno;
    (void)madvise(t, sizeof(*t), MADV_DONTDUMP);
    err = pthread_mutexattr_init(&attr);
    if (!err) {
        err = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
        if (!err)
            err = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
        if (!err)
            err = pthread_mutex_init(&t->lock, &attr);
        pthread_mutexattr_destroy(&attr);
    }
    if (err)
        munmap(t, sizeof(*t));
    else
        *tickets = t;
    return -err;
}

void tickets_close(struct tickets *t)
{
    if (t)
        munmap(t, sizeof(*t));
}

bool tickets_newest(struct tickets *t, uint64_t now_ms, struct ticket_key *key)
{
    if (!keys_lock(t, now_ms))
        return false;
    *key = t->key[0];
    pthread_mutex_unlock(&t->lock);
    return true;
}

bool tickets_find(struct tickets *t, uint64_t now_ms, struct ticket_key *key, bool *renew_it)
{
    unsigned i = 0;

    if (!keys_lock(t, now_ms))
        return false;
    while (i < 2 && memcmp(t->key[i].name, key->name, sizeof(key->name)) != 0)
        i++;
    if (i < 2)
        *key = t->key[i];
    pthread_mutex_unlock(&t->lock);
    *renew_it = i == 1;
    return i < 2;
}
