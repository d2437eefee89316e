/* SPDX-License-Identifier: MIT */
/* fetch.c - helper threads read parts of files that are not in memory, so that a slow disk delays
 * only the clients that ask for its files, not the loop.
 *
 * Before a loop sends a range, it finds out whether the kernel has it in memory (base/send.c).  If
 * not, fetch_ask() makes a job of the range, and until that is done the engine does not wait for
 * the session's socket.  A helper reads the range and writes to the loop's wake_fd; fetch_done()
 * gives the loop the sessions to resume.  Bytes read from a disk are in the page cache now, and the
 * next call sends them from there.  A file server may let nothing stay there, so bytes read from
 * one are sent from the job's own memory.  If reading failed, the loop does not try again.
 *
 * If no helper is idle, a job starts one, up to FETCH_HELPERS.  Jobs of one device have FETCH_DISK
 * helpers at most, those of one server FETCH_SERVER and those of all servers FETCH_DISK: a device
 * or server that hangs leaves some to the others.  A read that hangs cannot be cancelled, and
 * nothing waits for it.  If its session ends, the helper gets the descriptor; if the loop ends, the
 * last helper frees what they share.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "inside.h"

enum {
    FETCH_HELPERS = 16, /* of one loop: a disk of today serves more reads at once */
    FETCH_DISK = 12,
    FETCH_SERVER = 4,
    FETCH_PIECE_BYTES = 65536, /* of one read; and of one job of a server */
};

enum job_state { JOB_WAITS, JOB_RUNS, JOB_DONE, JOB_DELIVERED /* by fetch_done() */ };

struct fetch_job {
    struct fetch_job *prev, *next; /* in the list of jobs that wait, or that are done */
    struct session *session;       /* NULL: it ended while the job ran */
    struct source *source;         /* the session's; its descriptor is read */
    int file;
    dev_t dev;
    bool far;
    _Atomic enum job_state state;
    uint64_t off;
    size_t len;
    long result;  /* bytes read, or -errno */
    char bytes[]; /* far: of the range */
};

struct list {
    struct fetch_job *first, *last;
};

struct fetch {
    /* Guards everything here and in the jobs, except what only the loop touches. */
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct list waiting, done;
    dev_t busy[FETCH_HELPERS]; /* devices of the jobs that run */
    unsigned runs, far;        /* ... that run; and of those, from servers */
    unsigned helpers, idle;
    int wake_fd;               /* the loop's; -1: it is ending */
    bool left;                 /* it has ended: the last helper frees all this */
    unsigned jobs;             /* the loop's: not yet returned by fetch_done() */
};

/* --- Lists ------------------------------------------------------------------------------------ */

static void put(struct list *list, struct fetch_job *j)
{
    j->next = NULL;
    j->prev = list->last;
    *(j->prev ? &j->prev->next : &list->first) = j;
    list->last = j;
}

static void take_out(struct list *list, struct fetch_job *j)
{
    *(j->prev ? &j->prev->next : &list->first) = j->next;
    *(j->next ? &j->next->prev : &list->last) = j->prev;
}

/* --- The helpers' side ------------------------------------------------------------------------ */

static bool may_run(const struct fetch *f, const struct fetch_job *j)
{
    unsigned same = 0;

    for (unsigned i = 0; i < f->runs; i++)
        same += f->busy[i] == j->dev;
    return same < (j->far ? FETCH_SERVER : FETCH_DISK) && (!j->far || f->far < FETCH_DISK);
}

static struct fetch_job *pick(const struct fetch *f)
{
    struct fetch_job *j = f->waiting.first;

    while (j && !may_run(f, j))
        j = j->next;
    return j;
}

/* Bytes read, or -errno.  Bytes of a disk stay in the page cache only. */
static long read_in(struct fetch_job *j)
{
    char piece[FETCH_PIECE_BYTES];
    size_t at = 0;

    while (at < j->len) {
        size_t left = j->len - at;
        ssize_t n = pread(j->file, j->far ? j->bytes + at : piece,
                          left < sizeof(piece) ? left : sizeof(piece), (off_t)(j->off + at));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        at += (size_t)n;
    }
    return (long)at;
}

static void runs_no_more(struct fetch *f, dev_t dev, bool far)
{
    unsigned i = 0;

    while (f->busy[i] != dev)
        i++;
    f->busy[i] = f->busy[--f->runs];
    f->far -= far;
}

/* Locked. */
static void run(struct fetch *f, struct fetch_job *j)
{
    const dev_t dev = j->dev;
    const bool far = j->far;
    long result;

    take_out(&f->waiting, j);
    j->state = JOB_RUNS;
    f->busy[f->runs++] = dev;
    f->far += far;
    pthread_mutex_unlock(&f->lock);
    result = read_in(j);
    pthread_mutex_lock(&f->lock);
    if (j->session) {
        j->result = result;
        put(&f->done, j);
        j->state = JOB_DONE;
        loop_wake(f->wake_fd);
    } else {
        pthread_mutex_unlock(&f->lock);
        close(j->file); /* with some file systems that may hang, too */
        free(j);
        pthread_mutex_lock(&f->lock);
    }
    runs_no_more(f, dev, far);
}

static void fetch_free(struct fetch *f)
{
    pthread_cond_destroy(&f->work);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

static void *help(void *arg)
{
    struct fetch *f = arg;
    bool last;

    pthread_mutex_lock(&f->lock);
    while (f->wake_fd >= 0) {
        struct fetch_job *j = pick(f);

        if (j) {
            run(f, j);
            continue;
        }
        f->idle++;
        pthread_cond_wait(&f->work, &f->lock);
        f->idle--;
    }
    last = --f->helpers == 0 && f->left;
    pthread_cond_broadcast(&f->work);
    pthread_mutex_unlock(&f->lock);
    if (last)
        fetch_free(f);
    return NULL;
}

/* --- The loop's side -------------------------------------------------------------------------- */

int fetch_open(struct fetch **fetch, int wake_fd)
{
    struct fetch *f = calloc(1, sizeof(*f));
    int err;

    if (!f)
        return -ENOMEM;
    f->wake_fd = wake_fd;
    err = pthread_mutex_init(&f->lock, NULL);
    if (!err) {
        err = pthread_cond_init(&f->work, NULL);
        if (err)
            pthread_mutex_destroy(&f->lock);
    }
    if (err)
        free(f);
    else
        *fetch = f;
    return -err;
}

void fetch_close(struct fetch *f)
{
    bool last;

    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    f->wake_fd = -1;
    pthread_cond_broadcast(&f->work);
    while (f->helpers > f->runs)
        pthread_cond_wait(&f->work, &f->lock);
    f->left = true;
    last = f->helpers == 0;
    pthread_mutex_unlock(&f->lock);
    if (last)
        fetch_free(f);
}

/* Starts one more helper if all idle ones will be busy with the jobs that may run.  Returns whether
 * there is a helper that this job may wait for.  Locked. */
static bool has_helper(struct fetch *f, const struct fetch_job *j)
{
    unsigned wanted = 1;
    pthread_t helper;

    if (!may_run(f, j))
        return true; /* those that run are its device's */
    for (const struct fetch_job *one = f->waiting.first; one && wanted <= f->idle; one = one->next)
        wanted += may_run(f, one);
    if (wanted <= f->idle || f->helpers == FETCH_HELPERS)
        return true;
    if (pthread_create(&helper, NULL, help, f))
        return f->helpers > (j->far ? 0 : f->far);
    pthread_detach(helper);
    f->helpers++;
    return true;
}

bool fetch_ask(struct fetch *f, struct session *s, const struct segment *range)
{
    struct fetch_job *j;
    bool far = site_source_place(range->source) == SITE_FAR, asked;
    size_t most = far ? FETCH_PIECE_BYTES : TRANSFER_BYTES_MAX;

    most = range->len < most ? (size_t)range->len : most;
    j = malloc(sizeof(*j) + (far ? most : 0));
    if (!j)
        return false;
    memset(j, 0, sizeof(*j));
    j->session = s;
    j->source = range->source;
    j->file = site_source_fd(range->source);
    j->dev = site_source_dev(range->source);
    j->far = far;
    j->off = range->off;
    j->len = most;
    pthread_mutex_lock(&f->lock);
    asked = has_helper(f, j);
    if (asked) {
        put(&f->waiting, j);
        s->fetch = j;
        f->jobs++;
        pthread_cond_signal(&f->work);
    }
    pthread_mutex_unlock(&f->lock);
    if (!asked)
        free(j);
    return asked;
}

bool fetch_waits(const struct session *s)
{
    return s->fetch && s->fetch->state != JOB_DELIVERED;
}

bool fetch_is_of(const struct session *s, const struct segment *range)
{
    const struct fetch_job *j = s->fetch;

    return j->source == range->source && range->off >= j->off && range->off - j->off < j->len;
}

static void drop(struct session *s)
{
    free(s->fetch);
    s->fetch = NULL;
}

long fetch_take(struct session *s)
{
    long result = s->fetch->result;

    if (result <= 0 || !s->fetch->far)
        drop(s);
    return result;
}

struct iovec fetch_bytes(const struct session *s, uint64_t off)
{
    struct fetch_job *j = s->fetch;
    size_t sent;

    if (!j)
        return (struct iovec){NULL, 0};
    sent = (size_t)(off - j->off);
    return (struct iovec){j->bytes + sent, (size_t)j->result - sent};
}

void fetch_sent(struct session *s, uint64_t end)
{
    if (end == s->fetch->off + (uint64_t)s->fetch->result)
        drop(s);
}

void fetch_forget(struct fetch *f, struct session *s)
{
    struct fetch_job *j = s->fetch;

    if (!j)
        return;
    s->fetch = NULL;
    f->jobs -= j->state != JOB_DELIVERED;
    pthread_mutex_lock(&f->lock);
    if (j->state == JOB_RUNS) {
        site_source_give(j->source); /* the helper closes it */
        j->session = NULL;
        j = NULL;
    } else if (j->state != JOB_DELIVERED) {
        take_out(j->state == JOB_WAITS ? &f->waiting : &f->done, j);
    }
    pthread_mutex_unlock(&f->lock);
    free(j);
}

struct session *fetch_done(struct fetch *f)
{
    struct fetch_job *j;

    if (!f->jobs)
        return NULL;
    pthread_mutex_lock(&f->lock);
    j = f->done.first;
    if (j) {
        take_out(&f->done, j);
        j->state = JOB_DELIVERED;
        f->jobs--;
    }
    pthread_mutex_unlock(&f->lock);
    return j ? j->session : NULL;
}
