/* SPDX-License-Identifier: MIT */
/* later.c - answers that may wait for the disk, made on a helper thread while the loop goes on.
 *
 * A loop asks by later_find(): what the site can say at once is passed on; a listing becomes a job
 * that carries a copy of the question.  The helper, started by the first job, takes jobs in order,
 * asks the site again and writes to the loop's wake_fd; the loop hears from later_done() whom to
 * resume, and the connection's second later_find() takes the result.  A job belongs to a connection
 * by address and generation.
 *
 * Jobs are in one list, oldest first; it is changed by the loop's thread alone, under the lock, and
 * the helper changes only the job it runs.  At most LATER_JOBS_MAX wait or run; one more is refused
 * with -EAGAIN (503).
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include "inside.h"

enum { LATER_JOBS_MAX = 128 /* of one loop; each result may hold megabytes until it is fetched */ };

enum job_state { JOB_WAITS, JOB_RUNS, JOB_DONE, JOB_TOLD /* by later_done() */ };

struct job {
    struct job *prev, *next;
    const struct conn *conn;
    uint32_t generation;
    bool forgotten;          /* while it ran: nobody wants the result */
    enum job_state state;
    int result;
    struct source *source;
    struct http_ask ask;     /* its slices point into text[] */
    char text[];
};

struct later {
    struct site *site;
    int wake_fd;
    unsigned jobs;           /* the loop's own, like first and last for reading */
    bool started;
    pthread_t helper;
    /* Guards the list's links; every job's state, forgotten, result and source; ending. */
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct job *first, *last;
    bool ending;
};

/* --- The helper's side ------------------------------------------------------------------------ */

static struct job *first_in(const struct later *l, enum job_state state)
{
    struct job *j = l->first;

    while (j && j->state != state)
        j = j->next;
    return j;
}

/* A full counter or an interrupted write loses nothing: the descriptor is readable, or is tried
 * again. */
static void wake(const struct later *l)
{
    const uint64_t one = 1;

    while (write(l->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
}

static void *help(void *arg)
{
    struct later *l = arg;

    pthread_mutex_lock(&l->lock);
    while (!l->ending) {
        struct job *j = first_in(l, JOB_WAITS);
        struct source *source = NULL;
        int result;

        if (!j) {
            pthread_cond_wait(&l->work, &l->lock);
            continue;
        }
        j->state = JOB_RUNS;
        pthread_mutex_unlock(&l->lock);
        result = site_find(l->site, &j->ask, true, &source);
        pthread_mutex_lock(&l->lock);
        j->result = result;
        j->source = source;
        j->state = JOB_DONE;
        wake(l);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* --- The loop's side -------------------------------------------------------------------------- */

int later_open(struct later **later, struct site *site, int wake_fd)
{
    struct later *l = calloc(1, sizeof(*l));
    int err;

    if (!l)
        return -ENOMEM;
    l->site = site;
    l->wake_fd = wake_fd;
    err = pthread_mutex_init(&l->lock, NULL);
    if (err) {
        free(l);
        return -err;
    }
    err = pthread_cond_init(&l->work, NULL);
    if (err) {
        pthread_mutex_destroy(&l->lock);
        free(l);
        return -err;
    }
    *later = l;
    return 0;
}

/* Take a job out of the list and free it; its result goes to *source or is released.  Locked. */
static int drop(struct later *l, struct job *j, struct source **source)
{
    int result = j->result;

    *(j->prev ? &j->prev->next : &l->first) = j->next;
    *(j->next ? &j->next->prev : &l->last) = j->prev;
    l->jobs--;
    if (source && !result)
        *source = j->source;
    else if (j->source)
        site_release(l->site, j->source);
    free(j);
    return result;
}

void later_close(struct later *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->ending = true;
    pthread_cond_signal(&l->work);
    pthread_mutex_unlock(&l->lock);
    if (l->started)
        pthread_join(l->helper, NULL);
    while (l->first)
        drop(l, l->first, NULL);
    pthread_cond_destroy(&l->work);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static struct job *copy(const struct http_ask *ask)
{
    struct job *j = malloc(sizeof(*j) + ask->path.len + ask->query.len);

    if (!j)
        return NULL;
    memset(j, 0, sizeof(*j));
    j->conn = ask->conn;
    j->generation = ask->conn->generation;
    j->ask = *ask;
    j->ask.path.ptr = j->text;
    memcpy(j->text, ask->path.ptr, ask->path.len);
    j->ask.query.ptr = j->text + ask->path.len;
    if (ask->query.len)
        memcpy(j->text + ask->path.len, ask->query.ptr, ask->query.len);
    return j;
}

static int queue(struct later *l, const struct http_ask *ask)
{
    struct job *j;

    if (l->jobs >= LATER_JOBS_MAX)
        return -EAGAIN;
    l->started = l->started || pthread_create(&l->helper, NULL, help, l) == 0;
    if (!l->started)
        return -EAGAIN;
    j = copy(ask);
    if (!j)
        return -ENOMEM;
    pthread_mutex_lock(&l->lock);
    j->prev = l->last;
    *(l->last ? &l->last->next : &l->first) = j;
    l->last = j;
    l->jobs++;
    pthread_cond_signal(&l->work);
    pthread_mutex_unlock(&l->lock);
    return -EINPROGRESS;
}

/* The connection's job, if it is still wanted.  Locked. */
static struct job *job_of(const struct later *l, const struct conn *conn)
{
    struct job *j = l->first;

    while (j && (j->forgotten || j->conn != conn || j->generation != conn->generation))
        j = j->next;
    return j;
}

static bool same_text(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* What has become of the connection's job: its result, -EINPROGRESS: it waits or runs, -ENODATA:
 * it has none. */
static int take(struct later *l, const struct http_ask *ask, struct source **source)
{
    int result = -EINPROGRESS;
    struct job *j;

    pthread_mutex_lock(&l->lock);
    j = job_of(l, ask->conn);
    if (!j) {
        result = -ENODATA;
    } else if (j->state >= JOB_DONE) {
        bool same = same_text(j->ask.path, ask->path) && same_text(j->ask.query, ask->query);

        result = drop(l, j, same ? source : NULL);
        if (!same) /* an old answer is no answer to a new question */
            result = -ENODATA;
    }
    pthread_mutex_unlock(&l->lock);
    return result;
}

int later_find(struct later *l, const struct http_ask *ask, struct source **source)
{
    int result = -ENODATA;

    if (l->jobs)
        result = take(l, ask, source);
    if (result == -ENODATA)
        result = site_find(l->site, ask, false, source);
    else
        return result;
    return result == -EINPROGRESS ? queue(l, ask) : result;
}

void later_forget(struct later *l, const struct conn *conn)
{
    struct job *j;

    if (!l->jobs)
        return;
    pthread_mutex_lock(&l->lock);
    j = job_of(l, conn);
    if (j && j->state == JOB_RUNS)
        j->forgotten = true; /* later_done() drops it */
    else if (j)
        drop(l, j, NULL);
    pthread_mutex_unlock(&l->lock);
}

struct conn *later_done(struct later *l)
{
    const struct conn *conn = NULL;
    struct job *j;

    if (!l->jobs)
        return NULL;
    pthread_mutex_lock(&l->lock);
    while (!conn && (j = first_in(l, JOB_DONE)) != NULL) {
        if (j->forgotten) {
            drop(l, j, NULL);
        } else {
            j->state = JOB_TOLD;
            conn = j->conn;
        }
    }
    pthread_mutex_unlock(&l->lock);
    return (struct conn *)(uintptr_t)conn; /* the caller's own, given as const by the core */
}
