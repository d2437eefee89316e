/* SPDX-License-Identifier: MIT */
/* tls_last.c - how connections end whose records the kernel makes, if their last bytes do not fit
 * into TCP's queue yet: one thread of the process looks at all of them, and shuts each when all
 * bytes are there.
 *
 * The kernel has no event for that: it sends the rest of a record whenever the peer has made room,
 * and the only sign is that the stream has as many bytes as records make.  Such a connection is
 * looked at again after a few milliseconds, and then less and less often.  After it was shut it
 * lingers here, because its session may be gone.  The thread begins with the first connection and
 * stays.
 *
 * There is a limit, because each connection holds a descriptor beyond those of sessions, and no
 * session or address is charged for it.  At the limit the connection that has waited longest is
 * reset: clients that stay here on purpose must not take the place of those that need a second.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>
#include "../base/clock.h"
#include "../base/net.h"
#include "../base/thread.h"
#include "inside.h"
#include "tls_kernel.h"

enum {
    LASTS_MAX = 1024,
    LASTS_PART = 16, /* ... and this part of the descriptors */
    READS_MAX = 16,
    PAUSE_MIN_MS = 4,
    PAUSE_MAX_MS = 256,
    WAIT_TICK_NS = 10000000
};

struct waits {
    struct waits *next;
    struct tls_last last;
    bool shut;      /* TCP has all: it lingers, as sessions do (core/conn.c) */
    uint64_t acked; /* ... when the time that ends at until_ms began */
    uint64_t due_ms, until_ms;
    unsigned pause_ms;
};

/* One for the process, as its thread is. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed; /* from the thread's start on */
static struct waits *first; /* locked, like count and runs; the newest first */
static unsigned count;
static bool runs;
static unsigned most = LASTS_MAX; /* set before there are threads */

unsigned tls_last_limit(uint64_t descriptors)
{
    uint64_t part = descriptors / LASTS_PART;

    most = part > LASTS_MAX ? LASTS_MAX : part ? (unsigned)part : 1;
    return most;
}

/* Unread bytes would make close() reset the connection.  True: the peer has ended its side. */
static bool discard(int fd)
{
    char bytes[4096];
    long n = 1;

    for (unsigned reads = 0; n > 0 && reads < READS_MAX; reads++)
        n = net_recv_now(fd, bytes, sizeof(bytes));
    return n <= 0 && n != -EAGAIN;
}

/* Whether a peer whose time is up has made progress, as conn_overdue() has it. */
static bool goes_on(struct waits *w, uint64_t now_ms)
{
    uint64_t acked = net_acked(w->last.fd, 0), grown = acked - w->acked;

    if (w->shut || grown < w->last.progress_bytes)
        return false;
    w->acked = acked;
    w->until_ms = now_ms + w->last.send_ms;
    return true;
}

/* Whether the connection has ended, well or not. */
static bool look(struct waits *w, uint64_t now_ms)
{
    bool ended = discard(w->last.fd);

    if (!w->shut && tls_kernel_says(&w->last)) {
        net_shut(w->last.fd);
        w->shut = true;
        w->until_ms = now_ms + LINGER_MS;
        w->pause_ms = PAUSE_MIN_MS;
    }
    if (w->shut && ended)
        return true;
    if (now_ms < w->until_ms || goes_on(w, now_ms))
        return false;
    if (!w->shut)
        net_cut(w->last.fd);
    return true;
}

/* Locked. */
static void drop(struct waits **at)
{
    struct waits *w = *at;

    *at = w->next;
    count--;
    close(w->last.fd);
    free(w);
}

/* Locked: there is one. */
static void drop_oldest(void)
{
    struct waits **at = &first;

    while ((*at)->next)
        at = &(*at)->next;
    if (!(*at)->shut)
        net_cut((*at)->last.fd);
    drop(at);
}

/* Looks at those that are due.  Returns when the next one is.  Locked: nothing here waits. */
static uint64_t look_at_all(uint64_t now_ms)
{
    uint64_t next_ms = UINT64_MAX;
    struct waits *w;

    for (struct waits **at = &first; (w = *at);) {
        if (w->due_ms <= now_ms) {
            if (look(w, now_ms)) {
                drop(at);
                continue;
            }
            w->due_ms = now_ms + w->pause_ms;
            w->pause_ms = w->pause_ms < PAUSE_MAX_MS ? 2 * w->pause_ms : PAUSE_MAX_MS;
        }
        next_ms = w->due_ms < next_ms ? w->due_ms : next_ms;
        at = &w->next;
    }
    return next_ms;
}

static void *run(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    for (;;) {
        uint64_t now_ms = clock_ms(), next_ms = look_at_all(now_ms);
        struct timespec until;

        if (next_ms == UINT64_MAX) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        until = clock_after(CLOCK_MONOTONIC, (unsigned)(next_ms - now_ms));
        pthread_cond_timedwait(&changed, &lock, &until);
    }
    return NULL;
}

/* The clock of the machine may be set; this one is not. */
static bool prepare(void)
{
    pthread_condattr_t attr;
    bool fine = pthread_condattr_init(&attr) == 0;

    if (!fine)
        return false;
    fine = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 &&
           pthread_cond_init(&changed, &attr) == 0;
    pthread_condattr_destroy(&attr);
    return fine;
}

/* Locked. */
static bool starts(void)
{
    pthread_t thread;

    if (!runs && prepare() && thread_start(&thread, run, NULL) == 0)
        runs = pthread_detach(thread) == 0;
    return runs;
}

/* The low numbers are left to sessions: select() knows no others. */
static int copy_of(int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, FD_SETSIZE);

    return copy < 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : copy;
}

/* True: the thread goes on with a copy of last->fd.  False: there is none. */
static bool add(const struct tls_last *last)
{
    struct waits *w = malloc(sizeof(*w));
    bool added = false;

    if (!w)
        return false;
    *w = (struct waits){.last = *last, .pause_ms = PAUSE_MIN_MS};
    w->last.fd = copy_of(last->fd);
    w->due_ms = clock_ms() + PAUSE_MIN_MS;
    w->acked = net_acked(last->fd, 0);
    w->until_ms = w->due_ms + last->send_ms;
    pthread_mutex_lock(&lock);
    if (w->last.fd >= 0 && starts()) {
        while (count >= most)
            drop_oldest();
        w->next = first;
        first = w;
        count++;
        added = true;
        pthread_cond_signal(&changed);
    }
    pthread_mutex_unlock(&lock);
    if (!added) {
        if (w->last.fd >= 0)
            close(w->last.fd);
        free(w);
    }
    return added;
}

static bool end(struct tls_last *last)
{
    if (tls_kernel_says(last))
        return true;
    if (!add(last))
        net_cut(last->fd); /* the peer must not take what it has for all */
    return false;
}

const struct tls_kernel tls_kernel = {tls_kernel_take, end};

/* Whether any connection is left.  A lingering one counts: if the process ended now and the client
 * sent more, the kernel would reset the connection. */
static bool any_left(void)
{
    bool any;

    pthread_mutex_lock(&lock);
    any = first != NULL;
    pthread_mutex_unlock(&lock);
    return any;
}

void tls_last_wait(const struct server *srv)
{
    const struct timespec tick = {.tv_nsec = WAIT_TICK_NS};
    uint64_t until_ms = clock_ms() + srv->drain_ms;

    while (clock_ms() < until_ms && atomic_load(&srv->stopping) < 2 && any_left())
        nanosleep(&tick, NULL);
}
