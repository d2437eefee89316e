/* SPDX-License-Identifier: MIT */
/* offload.c - answers that may wait for the disk, made on a helper thread while the loop goes on.
 *
 * A loop calls offload_find().  An answer that the site has at once is passed on; a listing becomes
 * a job with a copy of the request.  The helper, started by the first job, asks the site again and
 * writes to the loop's wake_fd; offload_done() gives the loop the connections to resume, whose
 * second offload_find() takes the result.  A job belongs to a connection by address and generation.
 *
 * A listing that could not be finished by then keeps its job: when its next() finds nothing at
 * hand, the job is queued again and the helper makes the next slice.  Three queues share the
 * helper.  First looks (ASKED) and refills of streamed listings (REFILL) take about a millisecond
 * and go first, in turn; after SHORTS_MAX of them in a row one slice of a long listing (LONG) is
 * made, of each of the LONGS_MAX oldest in turn.  A short listing therefore does not wait for long
 * ones, a long one is not starved, and no more than LONGS_MAX hold entries while they are gathered.
 *
 * At most OFFLOAD_JOBS_MAX first looks are waiting, running or not fetched, and at most longs_max
 * long listings are waiting or running.  One more is refused with -EAGAIN (503), because clients
 * that wait for long listings keep their slots, and other clients would wait for minutes.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include "cache.h"
#include "inside.h"

enum {
    OFFLOAD_JOBS_MAX = 512, /* of one loop; each result may hold a descriptor and 128 KB */
    LONGS_MAX = 4,        /* so that a long listing among very long ones is done soon */
    SHORTS_MAX = 16,      /* a long slice is as long as about five of them */
};

/* The list that a job is in.  A job that is HELD is in none: its listing is being sent. */
enum place { ASKED, REFILL, LONG, DONE, LISTS, HELD = LISTS };
enum job_state { JOB_WAITS, JOB_RUNS, JOB_DONE, JOB_DELIVERED /* by offload_done() */ };

struct job {
    struct offload *offload;
    struct job *prev, *next;
    const struct conn *conn;
    uint32_t generation;
    enum place place;        /* ASKED from its first look until its result is taken */
    enum job_state state;
    bool forgotten;          /* while it ran: its result is not wanted */
    bool headed;             /* next() was called: the head of the answer is on its way */
    int result;
    struct source *source;
    struct offload_from from; /* what is asked */
    uint64_t asked_ns;       /* see offload_asked(); 0: not set */
    struct http_ask ask;     /* its slices point into text[] */
    char text[];
};

struct list {
    struct job *first, *last;
};

struct offload {
    struct offload_from from;  /* what is asked now */
    int wake_fd;
    unsigned longs_max, jobs; /* the loop's own: limit of long ones; all there are */
    bool started;
    pthread_t helper;
    unsigned shorts, turn;   /* the helper's own: short jobs in a row; whose turn it is */
    /* Guards the lists; every job's place, state, forgotten, result and source; count; ending. */
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct list list[LISTS];
    unsigned count[LISTS];   /* of each list */
    bool ending;
};

/* --- Lists ------------------------------------------------------------------------------------ */

static void put(struct offload *l, struct job *j, enum place place)
{
    struct list *list = &l->list[place];

    j->place = place;
    j->next = NULL;
    j->prev = list->last;
    *(j->prev ? &j->prev->next : &list->first) = j;
    list->last = j;
    l->count[place]++;
}

static void take_out(struct offload *l, struct job *j, enum place place)
{
    struct list *list = &l->list[j->place];

    l->count[j->place]--;
    *(j->prev ? &j->prev->next : &list->first) = j->next;
    *(j->next ? &j->next->prev : &list->last) = j->prev;
    j->place = place;
}

static struct job *first_asked(const struct offload *l, enum job_state state)
{
    struct job *j = l->list[ASKED].first;

    while (j && j->state != state)
        j = j->next;
    return j;
}

/* --- The helper's side ------------------------------------------------------------------------ */

static struct job *pick_long(struct offload *l)
{
    struct job *first[LONGS_MAX], *j = l->list[LONG].first;
    unsigned n = 0;

    for (; j && n < LONGS_MAX; j = j->next)
        first[n++] = j;
    return n ? first[l->turn++ % n] : NULL;
}

/* The next job.  Locked. */
static struct job *pick(struct offload *l)
{
    struct job *j = first_asked(l, JOB_WAITS), *refill = l->list[REFILL].first;

    if (refill && (!j || l->shorts & 1)) /* in turn, so that neither starves the other */
        j = refill;
    if (j && (l->shorts < SHORTS_MAX || !l->list[LONG].first)) {
        l->shorts++;
        return j;
    }
    l->shorts = 0;
    return pick_long(l);
}

/* A first look: the job stays in its list, and changes its state. */
static void run_asked(struct offload *l, struct job *j)
{
    struct source *source = NULL;
    int result;

    j->state = JOB_RUNS;
    pthread_mutex_unlock(&l->lock);
    if (j->from.from)
        result = j->from.list(j->from.from, &j->ask, &source);
    else
        result = site_find(j->from.site, &j->ask, true, &source);
    pthread_mutex_lock(&l->lock);
    j->result = result;
    j->source = source;
    j->state = JOB_DONE;
    loop_wake(l->wake_fd);
}

/* One slice.  A long listing with more to gather keeps its place, because the oldest are finished
 * first.  A refill that found nothing goes to the back, because with a filter it may take very long
 * to find something. */
static void run_slice(struct offload *l, struct job *j)
{
    bool going;

    j->state = JOB_RUNS;
    pthread_mutex_unlock(&l->lock);
    going = site_listing_step(j->source) == -EINPROGRESS;
    pthread_mutex_lock(&l->lock);
    j->state = JOB_WAITS;
    if (going && !j->forgotten && j->place == LONG && site_listing_long(j->source))
        return;
    going = going && !j->forgotten;
    take_out(l, j, HELD);
    put(l, j, going ? REFILL : DONE); /* it is too long to be sorted, so it will be streamed */
    if (!going)
        loop_wake(l->wake_fd);
}

static void *help(void *arg)
{
    struct offload *l = arg;

    pthread_mutex_lock(&l->lock);
    while (!l->ending) {
        struct job *j = pick(l);

        if (!j)
            pthread_cond_wait(&l->work, &l->lock);
        else if (j->place == ASKED)
            run_asked(l, j);
        else
            run_slice(l, j);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* --- The loop's side -------------------------------------------------------------------------- */

int offload_open(struct offload **offload, struct site *site, int wake_fd, unsigned longs_max)
{
    struct offload *l = calloc(1, sizeof(*l));
    int err;

    if (!l)
        return -ENOMEM;
    l->from.site = site;
    l->wake_fd = wake_fd;
    l->longs_max = longs_max;
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
    *offload = l;
    return 0;
}

void offload_ask(struct offload *offload, struct offload_from from)
{
    offload->from = from;
}

/* Frees a job that is in no list, and its result. */
static void end(struct offload *l, struct job *j)
{
    l->jobs--;
    if (j->source)
        cache_source_release(j->from.site, j->source);
    free(j);
}

void offload_close(struct offload *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->ending = true;
    pthread_cond_signal(&l->work);
    pthread_mutex_unlock(&l->lock);
    if (l->started)
        pthread_join(l->helper, NULL);
    for (unsigned i = 0; i < LISTS; i++) {
        struct job *j;

        while ((j = l->list[i].first)) {
            take_out(l, j, HELD);
            end(l, j);
        }
    }
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
    j->generation = session_of_conn(ask->conn)->generation;
    j->ask = *ask;
    j->ask.from = NULL;
    j->ask.path.ptr = j->text;
    memcpy(j->text, ask->path.ptr, ask->path.len);
    j->ask.query.ptr = j->text + ask->path.len;
    if (ask->query.len)
        memcpy(j->text + ask->path.len, ask->query.ptr, ask->query.len);
    return j;
}

static void queue(struct offload *l, struct job *j, enum place place)
{
    pthread_mutex_lock(&l->lock);
    j->state = JOB_WAITS;
    put(l, j, place);
    pthread_cond_signal(&l->work);
    pthread_mutex_unlock(&l->lock);
}

static int queue_look(struct offload *l, const struct http_ask *ask)
{
    struct job *j;

    if (l->count[ASKED] >= (l->from.jobs_max ? l->from.jobs_max : OFFLOAD_JOBS_MAX))
        return -EAGAIN;
    l->started = l->started || pthread_create(&l->helper, NULL, help, l) == 0;
    if (!l->started)
        return -EAGAIN;
    j = copy(ask);
    if (!j)
        return -ENOMEM;
    j->offload = l;
    j->from = l->from;
    l->jobs++;
    queue(l, j, ASKED);
    return -EINPROGRESS;
}

/* The connection's job whose result was not taken yet.  Locked. */
static struct job *job_of(const struct offload *l, const struct conn *conn)
{
    const struct session *s = session_of_conn(conn);
    struct job *j = l->list[ASKED].first;

    while (j && (j->forgotten || j->conn != conn || j->generation != s->generation))
        j = j->next;
    return j;
}

static bool same_text(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* source.next of a listing that the helper goes on with.  The first call comes right after the head
 * of the answer, which must be sent before more is done: see site_folder.c. */
static size_t offload_next(struct source *source, char *buf, size_t cap)
{
    struct job *j = site_listing_owner(source);
    struct offload *l = j->offload;
    bool held;
    size_t n;

    pthread_mutex_lock(&l->lock);
    if (j->place == DONE) /* noticed before offload_done() */
        take_out(l, j, HELD);
    held = j->place == HELD;
    pthread_mutex_unlock(&l->lock);
    if (!held)
        return SOURCE_LATER;
    n = site_listing_next(source, buf, cap);
    if (n == SOURCE_LATER && j->headed)
        queue(l, j, site_listing_long(source) ? LONG : REFILL);
    j->headed = true;
    return n;
}

/* Whether this listing is one long listing too many. */
static bool is_one_too_many(const struct offload *l, const struct source *source)
{
    return l->count[LONG] >= l->longs_max && !site_listing_ready(source) &&
           site_listing_long(source);
}

/* The job's result.  The job stays while its listing is made and sent.  Locked. */
static int fetch(struct offload *l, struct job *j, struct source **source)
{
    int result = j->result;

    take_out(l, j, HELD);
    if (!result && is_one_too_many(l, j->source)) {
        end(l, j);
        return -EAGAIN;
    }
    *source = j->source;
    if (!result && !site_listing_ready(*source)) {
        site_listing_help(*source, (struct listing_help){offload_next, j});
        return result;
    }
    j->source = NULL;
    end(l, j);
    return result;
}

/* The result of the connection's job; -EINPROGRESS: the job waits or runs; -ENODATA: there is
 * none. */
static int take(struct offload *l, const struct http_ask *ask, struct source **source)
{
    int result = -EINPROGRESS;
    struct job *j;

    pthread_mutex_lock(&l->lock);
    j = job_of(l, ask->conn);
    if (!j) {
        result = -ENODATA;
    } else if (j->state >= JOB_DONE) {
        if (j->from.site == l->from.site && j->from.from == l->from.from &&
            same_text(j->ask.path, ask->path) && same_text(j->ask.query, ask->query)) {
            result = fetch(l, j, source);
        } else { /* an old answer is no answer to a new question */
            take_out(l, j, HELD);
            end(l, j);
            result = -ENODATA;
        }
    }
    pthread_mutex_unlock(&l->lock);
    return result;
}

int offload_find(struct offload *l, const struct http_ask *ask, struct source **source)
{
    int result = -ENODATA;

    if (l->jobs)
        result = take(l, ask, source);
    if (result != -ENODATA)
        return result;
    if (l->from.from)
        result = l->from.find(l->from.from, ask, source);
    else
        result = site_find(l->from.site, ask, false, source);
    return result == -EINPROGRESS ? queue_look(l, ask) : result;
}

uint64_t offload_asked(struct offload *l, const struct conn *conn, uint64_t first_ns)
{
    uint64_t ns = 0;
    struct job *j;

    pthread_mutex_lock(&l->lock);
    j = job_of(l, conn);
    if (j)
        ns = j->asked_ns = j->asked_ns ? j->asked_ns : first_ns;
    pthread_mutex_unlock(&l->lock);
    return ns;
}

bool offload_is_busy(const struct offload *l)
{
    return l->jobs > 0;
}

/* The job's result is not wanted.  True: the helper is at it.  Locked. */
static bool forget(struct offload *l, struct job *j)
{
    if (j->state == JOB_RUNS) {
        j->forgotten = true; /* offload_done() drops it */
        return true;
    }
    if (j->place != HELD)
        take_out(l, j, HELD);
    end(l, j);
    return false;
}

bool offload_forget(struct offload *l, const struct conn *conn)
{
    bool runs = false;
    struct job *j;

    if (!l->jobs)
        return false;
    pthread_mutex_lock(&l->lock);
    j = job_of(l, conn);
    if (j)
        runs = forget(l, j);
    pthread_mutex_unlock(&l->lock);
    return runs;
}

void offload_release(struct offload *l, struct source *source)
{
    struct job *j = site_listing_owner(source);

    if (!j) {
        cache_source_release(l->from.site, source);
        return;
    }
    pthread_mutex_lock(&l->lock);
    (void)forget(l, j);
    pthread_mutex_unlock(&l->lock);
}

/* A job that is done, and in no place where the helper looks.  Locked. */
static struct job *next_done(struct offload *l)
{
    struct job *j = first_asked(l, JOB_DONE);

    if (!j)
        j = l->list[DONE].first;
    if (j && (j->place == DONE || j->forgotten))
        take_out(l, j, HELD);
    return j;
}

struct conn *offload_done(struct offload *l)
{
    const struct conn *conn = NULL;
    struct job *j;

    if (!l->jobs)
        return NULL;
    pthread_mutex_lock(&l->lock);
    while (!conn && (j = next_done(l)) != NULL) {
        if (j->forgotten) {
            end(l, j);
            continue;
        }
        j->state = JOB_DELIVERED;
        conn = j->conn;
    }
    pthread_mutex_unlock(&l->lock);
    return (struct conn *)(uintptr_t)conn; /* the caller's own, given as const by the core */
}
