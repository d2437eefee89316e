/* SPDX-License-Identifier: MIT */
/* queue.c - two bounded queues with one interface: see queue.h for what they are.
 *
 * Parking, lock-free side.  A thread about to sleep sets asleep = true, checks the ring once more,
 * and only then waits on its semaphore.  The other thread changes the ring first and checks the
 * flag afterwards.  Both steps are sequentially consistent, so at least one thread sees the other's
 * step: either the sleeper finds the item, or the other thread finds the flag and wakes it.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include "../base/clock.h"
#include "queue.h"

enum { CACHE_LINE = 64 };

struct parking {
    sem_t sem;
    atomic_bool asleep;
};

/* The reader owns head, the writer owns tail.  Both count up for ever; their difference is the
 * number of queued items. */
struct ring {
    _Alignas(CACHE_LINE) atomic_uint head;
    struct parking reader;
    _Alignas(CACHE_LINE) atomic_uint tail;
    unsigned length, mask; /* most items; size of item[], a power of two, less 1 */
    intptr_t *item;
};

struct queue {
    bool lockfree, in_turn;
    unsigned rings, used; /* used: rings that have a consumer */
    struct ring *ring;
    struct parking writer;
    atomic_bool ended;
    unsigned turn; /* the producer's: the ring to look at first */
    /* QUEUE_MUTEX: lock guards ring[0] and ended. */
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
};

/* --- Rings: what both kinds share ------------------------------------------------------------- */

static unsigned ring_used(struct ring *r)
{
    return atomic_load(&r->tail) - atomic_load(&r->head);
}

static bool ring_put(struct ring *r, intptr_t item)
{
    unsigned tail = atomic_load_explicit(&r->tail, memory_order_relaxed);

    if (tail - atomic_load(&r->head) >= r->length)
        return false;
    r->item[tail & r->mask] = item;
    atomic_store(&r->tail, tail + 1);
    return true;
}

static unsigned ring_take(struct ring *r, intptr_t item[], unsigned n)
{
    unsigned head = atomic_load_explicit(&r->head, memory_order_relaxed), i;
    unsigned used = atomic_load(&r->tail) - head;

    for (i = 0; i < n && i < used; i++)
        item[i] = r->item[(head + i) & r->mask];
    if (i)
        atomic_store(&r->head, head + i);
    return i;
}

/* By the clock of sem_timedwait() and condition variables. */
static struct timespec later(int wait_ms)
{
    return clock_after(CLOCK_REALTIME, wait_ms < 0 ? 0 : (unsigned)wait_ms);
}

/* --- Parking ---------------------------------------------------------------------------------- */

static void park(struct parking *p, const struct timespec *until)
{
    int err;

    do
        err = until ? sem_timedwait(&p->sem, until) : sem_wait(&p->sem);
    while (err < 0 && errno == EINTR);
    if (err < 0 && !atomic_exchange(&p->asleep, false))
        sem_wait(&p->sem); /* timed out, but a post has come all the same: take it */
}

static void unpark(struct parking *p)
{
    if (atomic_load(&p->asleep) && atomic_exchange(&p->asleep, false))
        sem_post(&p->sem);
}

/* --- One ring for each consumer --------------------------------------------------------------- */

/* The least loaded ring.  The search begins after the ring that was chosen last, so that equally
 * loaded rings take turns. */
static struct ring *least_loaded(struct queue *q)
{
    struct ring *best = NULL;
    unsigned least = 0;

    for (unsigned n = 0; n < q->used; n++) {
        struct ring *r = &q->ring[(q->turn + n) % q->used];
        /* A reader at work counts as an item: a new one in its empty ring has to wait for it. */
        unsigned used = ring_used(r) + !atomic_load(&r->reader.asleep);

        if (!best || used < least) {
            best = r;
            least = used;
        }
        if (!used)
            break;
    }
    q->turn = (unsigned)(best - q->ring) + 1;
    return best;
}

/* The next ring in turn; a full one is passed over, so that a put fails only if all are full. */
static struct ring *next_with_room(struct queue *q)
{
    for (unsigned n = 0; n < q->used; n++) {
        unsigned i = (q->turn + n) % q->used;

        if (ring_used(&q->ring[i]) < q->ring[i].length) {
            q->turn = i + 1;
            return &q->ring[i];
        }
    }
    return NULL;
}

static bool put_somewhere(struct queue *q, intptr_t item)
{
    struct ring *r = q->in_turn ? next_with_room(q) : least_loaded(q);

    if (!r || !ring_put(r, item))
        return false;
    unpark(&r->reader);
    return true;
}

static int put_lockfree(struct queue *q, intptr_t item, int wait_ms)
{
    struct timespec until = later(wait_ms);
    struct timespec now;

    while (!put_somewhere(q, item)) {
        atomic_store(&q->writer.asleep, true);
        if (put_somewhere(q, item)) {
            if (!atomic_exchange(&q->writer.asleep, false))
                sem_wait(&q->writer.sem); /* a reader woke us already: take the post */
            return 0;
        }
        park(&q->writer, wait_ms < 0 ? NULL : &until);
        clock_gettime(CLOCK_REALTIME, &now);
        if (wait_ms >= 0 && (now.tv_sec > until.tv_sec ||
                             (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec)))
            return put_somewhere(q, item) ? 0 : -EAGAIN;
    }
    return 0;
}

static unsigned take_lockfree(struct queue *q, struct ring *r, intptr_t item[], unsigned n)
{
    for (;;) {
        unsigned got = ring_take(r, item, n);

        if (got) {
            unpark(&q->writer);
            return got;
        }
        if (atomic_load(&q->ended))
            return ring_take(r, item, n); /* sees what was put before the end */
        atomic_store(&r->reader.asleep, true);
        if (!ring_used(r) && !atomic_load(&q->ended))
            park(&r->reader, NULL);
        else if (!atomic_exchange(&r->reader.asleep, false))
            sem_wait(&r->reader.sem); /* woken already: take the post */
    }
}

/* --- One ring for all ------------------------------------------------------------------------- */

static int put_locked(struct queue *q, intptr_t item, int wait_ms)
{
    struct timespec until = later(wait_ms);
    bool put;
    int err = 0;

    pthread_mutex_lock(&q->lock);
    while (!(put = ring_put(q->ring, item)) && !err)
        err = wait_ms < 0 ? pthread_cond_wait(&q->emptied, &q->lock)
                          : pthread_cond_timedwait(&q->emptied, &q->lock, &until);
    if (put) /* perhaps just as the time was up */
        pthread_cond_signal(&q->filled);
    pthread_mutex_unlock(&q->lock);
    return put ? 0 : -EAGAIN;
}

static unsigned take_locked(struct queue *q, intptr_t item[], unsigned n)
{
    unsigned got;

    pthread_mutex_lock(&q->lock);
    while (!(got = ring_take(q->ring, item, n)) && !atomic_load(&q->ended))
        pthread_cond_wait(&q->filled, &q->lock);
    if (got)
        pthread_cond_signal(&q->emptied);
    pthread_mutex_unlock(&q->lock);
    return got;
}

/* --- The interface ---------------------------------------------------------------------------- */

void queue_consumers(struct queue *q, unsigned n)
{
    if (q->lockfree)
        q->used = n;
}

int queue_put(struct queue *q, intptr_t item, int wait_ms)
{
    return q->lockfree ? put_lockfree(q, item, wait_ms) : put_locked(q, item, wait_ms);
}

unsigned queue_take(struct queue *q, unsigned consumer, intptr_t item[], unsigned n)
{
    return q->lockfree ? take_lockfree(q, &q->ring[consumer], item, n) : take_locked(q, item, n);
}

void queue_end(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    atomic_store(&q->ended, true);
    pthread_cond_broadcast(&q->filled);
    pthread_mutex_unlock(&q->lock);
    for (unsigned i = 0; i < q->rings; i++)
        unpark(&q->ring[i].reader);
}

static int ring_open(struct ring *r, unsigned length)
{
    unsigned room = 1;

    while (room < length)
        room *= 2;
    r->length = length ? length : 1;
    r->mask = room - 1;
    r->item = calloc(room, sizeof(*r->item));
    sem_init(&r->reader.sem, 0, 0);
    return r->item ? 0 : -ENOMEM;
}

int queue_open(struct queue **queue, const struct queue_plan *plan)
{
    struct queue *q = calloc(1, sizeof(*q));
    unsigned rings = plan->lockfree ? plan->consumers : 1;
    int err = 0;

    if (!q)
        return -ENOMEM;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->filled, NULL);
    pthread_cond_init(&q->emptied, NULL);
    sem_init(&q->writer.sem, 0, 0);
    q->lockfree = plan->lockfree;
    q->in_turn = plan->in_turn;
    q->ring = aligned_alloc(CACHE_LINE, rings * sizeof(*q->ring));
    if (!q->ring)
        err = -ENOMEM;
    for (; !err && q->rings < rings; q->rings++) {
        q->ring[q->rings] = (struct ring){0};
        err = ring_open(&q->ring[q->rings], plan->length / rings);
    }
    q->used = q->rings;
    if (err)
        queue_close(q);
    else
        *queue = q;
    return err;
}

void queue_close(struct queue *q)
{
    for (unsigned i = 0; i < q->rings; i++) {
        sem_destroy(&q->ring[i].reader.sem);
        free(q->ring[i].item);
    }
    free(q->ring);
    sem_destroy(&q->writer.sem);
    pthread_cond_destroy(&q->emptied);
    pthread_cond_destroy(&q->filled);
    pthread_mutex_destroy(&q->lock);
    free(q);
}
