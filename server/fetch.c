/* SPDX-License-Identifier: MIT */
/* fetch.c - bytes of files that are not in memory are read on helper threads, so that a slow disk
 * holds up those who ask for what is on it, and not the loop.
 *
 * A loop that is about to send a range finds out whether the kernel has it in memory (base/send.c).
 * If not, fetch_ask() makes a job of the range, and the session waits for nothing meanwhile.  A
 * helper reads the range, which leaves it in the page cache, and writes to the loop's wake_fd;
 * fetch_done() gives the loop the sessions to resume, whose next call sends what was read without
 * asking again.
 *
 * A job that finds no helper at leisure starts one, up to FETCH_HELPERS.  Reads that may go to a
 * file server take at most FETCH_FAR of them: one that does not answer leaves some to the disk.  A
 * read that hangs cannot be called off, and nothing waits for it.  If its session ends, the helper
 * gets the descriptor; if the loop ends, the last helper frees what they share.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include "inside.h"

enum {
    FETCH_HELPERS = 16,        /* of one loop: a disk of today serves more reads at once */
    FETCH_FAR = 12,
    FETCH_PIECE_BYTES = 65536, /* of one read */
};

enum job_state { JOB_WAITS, JOB_RUNS, JOB_DONE, JOB_TOLD /* by fetch_done() */ };

struct fetch_job {
    struct fetch_job *prev, *next; /* in the list of those that wait, or that are done */
    struct session *session;       /* NULL: it ended while the job ran */
    struct source *source;         /* the session's: whose descriptor is read */
    int file;
    bool far;
    enum job_state state;
    struct fetch_range range;
};

struct list {
    struct fetch_job *first, *last;
};

struct fetch {
    /* Guards everything here and in the jobs. */
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct list waiting, done;
    unsigned waits;            /* jobs that wait */
    unsigned runs, far;        /* ... that run; and of those, that are far */
    unsigned helpers, idle;
    int wake_fd;               /* the loop's; -1: it is ending */
    bool left;                 /* it has ended: the last helper frees all this */
    unsigned jobs;             /* the loop's own, without the lock: that are not taken yet */
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

static struct fetch_job *pick(struct fetch *f)
{
    struct fetch_job *j = f->waiting.first;

    while (j && j->far && f->far == FETCH_FAR)
        j = j->next;
    return j;
}

/* What cannot be read is told by the call that sends it. */
static void read_in(const struct fetch_job *j)
{
    char piece[FETCH_PIECE_BYTES];
    size_t at = 0;

    while (at < j->range.len) {
        size_t left = j->range.len - at;
        ssize_t n = pread(j->file, piece, left < sizeof(piece) ? left : sizeof(piece),
                          (off_t)(j->range.off + at));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        at += (size_t)n;
    }
}

/* A full counter or an interrupted write loses nothing: the descriptor is readable, or is tried
 * again. */
static void wake(const struct fetch *f)
{
    const uint64_t one = 1;

    while (write(f->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
}

/* Locked. */
static void run(struct fetch *f, struct fetch_job *j)
{
    const bool far = j->far;
    bool wanted;

    take_out(&f->waiting, j);
    f->waits--;
    j->state = JOB_RUNS;
    f->runs++;
    f->far += j->far;
    pthread_mutex_unlock(&f->lock);
    read_in(j);
    pthread_mutex_lock(&f->lock);
    wanted = j->session;
    if (wanted) {
        j->state = JOB_DONE;
        put(&f->done, j);
        wake(f);
    } else {
        pthread_mutex_unlock(&f->lock);
        close(j->file); /* with some file systems that may hang, too */
        pthread_mutex_lock(&f->lock);
    }
    f->runs--;
    f->far -= far;
    if (!wanted)
        free(j);
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
    struct fetch_job *j;
    bool last;

    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    while ((j = f->waiting.first ? f->waiting.first : f->done.first)) {
        take_out(j->state == JOB_WAITS ? &f->waiting : &f->done, j);
        free(j);
    }
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

/* One more if those that are idle will all be busy with the jobs before this one; whether there is
 * any.  Locked. */
static bool start_helper(struct fetch *f)
{
    pthread_t helper;

    if (f->idle > f->waits || f->helpers == FETCH_HELPERS)
        return true;
    if (pthread_create(&helper, NULL, help, f))
        return f->helpers > 0;
    pthread_detach(helper);
    f->helpers++;
    return true;
}

bool fetch_ask(struct fetch *f, struct session *s, struct source *source,
               const struct fetch_range *range)
{
    struct fetch_job *j = malloc(sizeof(*j));
    bool asked;

    if (!j)
        return false;
    *j = (struct fetch_job){.session = s, .source = source, .range = *range,
                            .file = site_source_fd(source), .far = site_source_is_far(source)};
    pthread_mutex_lock(&f->lock);
    asked = start_helper(f);
    if (asked) {
        put(&f->waiting, j);
        f->waits++;
        s->fetch = j;
        f->jobs++;
        pthread_cond_signal(&f->work);
    }
    pthread_mutex_unlock(&f->lock);
    if (!asked)
        free(j);
    return asked;
}

/* Its state, while a helper may change it. */
static enum job_state state_of(struct fetch *f, const struct fetch_job *j)
{
    enum job_state state;

    pthread_mutex_lock(&f->lock);
    state = j->state;
    pthread_mutex_unlock(&f->lock);
    return state;
}

bool fetch_waits(struct fetch *f, const struct session *s)
{
    return s->fetch && state_of(f, s->fetch) != JOB_TOLD;
}

bool fetch_take(struct fetch *f, struct session *s)
{
    if (!s->fetch)
        return false;
    free(s->fetch);
    s->fetch = NULL;
    f->jobs--;
    return true;
}

void fetch_forget(struct fetch *f, struct session *s)
{
    struct fetch_job *j = s->fetch;

    if (!j)
        return;
    s->fetch = NULL;
    f->jobs--;
    pthread_mutex_lock(&f->lock);
    if (j->state == JOB_RUNS) {
        site_source_give(j->source); /* the helper closes it */
        j->session = NULL;
        j = NULL;
    } else if (j->state == JOB_WAITS) {
        take_out(&f->waiting, j);
        f->waits--;
    } else if (j->state == JOB_DONE) {
        take_out(&f->done, j);
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
        j->state = JOB_TOLD;
    }
    pthread_mutex_unlock(&f->lock);
    return j ? j->session : NULL;
}
