/* SPDX-License-Identifier: MIT */
/* worker.c - a thread: one epoll loop, its connections, its schedule.
 *
 * Closed loop: an answer starts the next request on its connection.  Open loop: requests have
 * intended times, and there is no queue of late ones: `next_ns` stays behind until a connection is
 * free, so each request keeps the time it was meant for, and none is left out.  A request is late
 * by our own fault if this thread was not there when it was due, otherwise because all connections
 * were busy.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
#include "tls.h"
#include "workload.h"

enum { EVENTS = 256, NAP_MS = WHEEL_TICK_MS };

/* --- The schedule ----------------------------------------------------------------------------- */

static void client_free(struct worker *w, struct client *c)
{
    if (!w->running || w->stopping || c->idle)
        return;
    if (!w->plan->open) {
        if (!w->sleeping || !think_begin(w, c))
            client_fill(w, c);
        return;
    }
    if (c->listed)
        return;
    c->free_ns = w->now_ns;
    c->listed = true;
    c->next_free = NULL;
    if (w->first_free)
        w->last_free->next_free = c;
    else
        w->first_free = c;
    w->last_free = c;
}

/* The connection that has been free longest; those that died meanwhile leave the line here. */
static struct client *take_free(struct worker *w)
{
    struct client *c;

    while ((c = w->first_free)) {
        w->first_free = c->next_free;
        c->listed = false;
        if (client_is_free(c))
            break;
    }
    return c;
}

/* Threads take turns at constant intervals; independent Poisson streams add up to one. */
static void next_arrival(struct worker *w)
{
    const struct load_options *o = w->plan->opt;
    const struct replay *replay = w->plan->replay;
    uint64_t threads = w->plan->threads, n;

    w->arrivals++;
    n = w->arrivals * threads + w->index;
    if (replay && replay->at_ns)
        w->next_ns = n < replay->lines ? w->run->start_ns + replay->at_ns[n] : UINT64_MAX;
    else if (o->arrivals == ARRIVALS_POISSON)
        w->next_ns += (uint64_t)(-log(worker_uniform(w)) * 1e9 * (double)threads /
                                 (double)o->rate);
    else
        w->next_ns = w->run->start_ns + n / o->rate * SECOND_NS +
                     n % o->rate * SECOND_NS / o->rate;
}

/* Counts a late request as this thread's fault or that of busy connections.  If a connection was
 * free in time, the thread was not there from the intended time until now, and is to blame for all
 * requests due in that time, even those that find no free connection. */
static void note_lateness(struct worker *w, const struct client *c)
{
    struct tally *t = &w->tally;
    uint64_t late = w->now_ns - w->next_ns;
    bool in_time = c->free_ns <= w->next_ns;

    if (late > LATE_NS && in_time)
        w->own_until_ns = w->now_ns;
    if (late > LATE_NS && w->next_ns < w->own_until_ns)
        t->late_own++;
    else if (late > LATE_NS)
        t->late_busy++;
    late = in_time ? late : w->now_ns - c->free_ns; /* our part of the delay */
    if (late > t->latest_own_ns)
        t->latest_own_ns = late;
}

static void send_what_is_due(struct worker *w)
{
    struct client *c;

    while (w->quota && w->next_ns <= w->now_ns && w->next_ns < w->end_ns) {
        c = take_free(w);
        if (!c)
            return;
        w->now_ns = clock_ns();
        w->tally.due++;
        note_lateness(w, c);
        client_load(w, c, w->next_ns);
        next_arrival(w);
        client_send(w, c);
        if (client_is_free(c))
            client_free(w, c);
    }
}

/* Counts the requests that were due before the end and never sent. */
static void count_unsent(struct worker *w)
{
    uint64_t end = w->now_ns < w->end_ns ? w->now_ns : w->end_ns;
    uint64_t limit = w->plan->requests ? w->quota : UINT64_MAX;

    for (; w->plan->open && limit && w->next_ns < end; limit--) {
        w->tally.unsent++;
        w->tally.due++;
        next_arrival(w);
    }
}

/* --- The loop --------------------------------------------------------------------------------- */

static void sweep(struct worker *w)
{
    uint64_t now_ms = w->now_ns / 1000000;
    struct wheel_node *n;

    if (now_ms - w->swept_ms < WHEEL_TICK_MS)
        return;
    w->swept_ms = now_ms;
    while ((n = wheel_pop(&w->wheel, now_ms))) {
        struct client *c = (struct client *)n;

        if (c->due_ms > now_ms)
            wheel_add(&w->wheel, n, c->due_ms);
        else
            client_due(w, c);
    }
}

/* The time of the next request that needs no event; UINT64_MAX: there may be none. */
static uint64_t next_due(const struct worker *w)
{
    if (w->stopping)
        return UINT64_MAX;
    if (w->sleepers)
        return w->sleeping[0]->wake_ns;
    return w->plan->open && w->first_free ? w->next_ns : UINT64_MAX;
}

/* Waits until the next event, arrival, end of a pause or tick; due times to the microsecond. */
static int wait_for_events(struct worker *w, struct epoll_event *ev)
{
    uint64_t until = w->now_ns + NAP_MS * 1000000ull, due = next_due(w);
    struct timespec t;
    int n;

    if (w->running && w->end_ns < until && w->end_ns > w->now_ns)
        until = w->end_ns;
    if (due == UINT64_MAX)
        return epoll_wait(w->epoll_fd, ev, EVENTS, (int)((until - w->now_ns + 999999) / 1000000));
    if (due < until)
        until = due > w->now_ns ? due : w->now_ns;
    t.tv_sec = 0;
    t.tv_nsec = (long)(until - w->now_ns);
    n = epoll_pwait2(w->epoll_fd, ev, EVENTS, &t, NULL);
    if (n < 0 && errno == ENOSYS) /* before Linux 5.11: sleep by the millisecond, then poll */
        n = epoll_wait(w->epoll_fd, ev, EVENTS, (int)((until - w->now_ns) / 1000000));
    return n;
}

static void turn(struct worker *w)
{
    struct epoll_event ev[EVENTS];
    int n = wait_for_events(w, ev);

    w->now_ns = clock_ns();
    for (int i = 0; i < n; i++)
        if (ev[i].data.ptr)
            client_event(w, ev[i].data.ptr, ev[i].events);
    if (w->sleepers)
        think_end(w);
    sweep(w);
}

/* Makes the connections before anything is sent: waits until each is there, or has failed once. */
static void prepare(struct worker *w)
{
    unsigned waiting = 1;

    w->now_ns = clock_ns();
    wheel_init(&w->wheel, w->now_ns / 1000000);
    w->swept_ms = w->now_ns / 1000000;
    for (unsigned i = 0; i < w->clients; i++) {
        w->now_ns = clock_ns();
        connect_begin(w, &w->client[i]);
    }
    while (waiting && !atomic_load(&w->run->stop)) {
        waiting = 0;
        for (unsigned i = 0; i < w->clients; i++)
            waiting += (w->client[i].state == CLIENT_CONNECTING ||
                        w->client[i].state == CLIENT_GREETING) && !w->client[i].tries;
        if (waiting)
            turn(w);
    }
    w->tally.ready_ns = clock_ns();
}

static void begin(struct worker *w)
{
    const struct load_options *o = w->plan->opt;

    w->running = true;
    w->now_ns = clock_ns();
    w->down_since_ns = w->now_ns;
    w->end_ns = w->plan->duration_ns ? w->run->start_ns + w->plan->duration_ns : UINT64_MAX;
    w->second_end_ns = w->run->start_ns;
    if (o->csv)
        count_second(w);
    w->next_ns = w->run->start_ns;
    w->arrivals = UINT64_MAX; /* so that the next one is the first */
    if (w->plan->open)
        next_arrival(w);
    for (unsigned i = 0; i < w->clients; i++) {
        w->now_ns = clock_ns();
        if (w->client[i].state == CLIENT_UP)
            client_free(w, &w->client[i]);
    }
}

/* No connection has been up for the time-out: a server that died is not waited for. */
static bool is_alone(const struct worker *w)
{
    return !w->up && w->clients && w->now_ns - w->down_since_ns > w->plan->timeout_ns;
}

static void stop(struct worker *w)
{
    count_unsent(w);
    w->stopping = true;
    w->quota = 0;
}

static void work(struct worker *w)
{
    const struct tally *t = &w->tally;
    uint64_t give_up_ns = UINT64_MAX;

    begin(w);
    for (;;) {
        if (w->plan->open && !w->stopping)
            send_what_is_due(w);
        if (!w->stopping && (w->now_ns >= w->end_ns || is_alone(w))) {
            stop(w);
            give_up_ns = w->now_ns + w->plan->timeout_ns;
        }
        if (atomic_load_explicit(&w->run->stop, memory_order_relaxed) ||
            (!w->quota && t->sent == t->answers + t->lost) || w->now_ns >= give_up_ns)
            break;
        turn(w);
        atomic_store_explicit(&w->answers_seen, t->answers, memory_order_relaxed);
    }
    if (!w->stopping)
        stop(w);
}

/* --- The thread ------------------------------------------------------------------------------- */

/* Nanoseconds this thread waited for a processor: the second number of schedstat. */
static uint64_t waited_ns(void)
{
    char text[96] = "";
    int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    unsigned long long ran, waited = 0;

    if (fd < 0)
        return 0;
    if (read(fd, text, sizeof(text) - 1) <= 0 || sscanf(text, "%llu %llu", &ran, &waited) != 2)
        waited = 0;
    close(fd);
    return waited;
}

static uint64_t ran_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

static void announce(const struct worker *w)
{
    uint64_t one = 1;
    bool counted = write(w->run->done_fd, &one, sizeof(one)) == sizeof(one);

    core_assert(counted); /* an eventfd can count to 512 */
}

void *worker_main(void *worker)
{
    struct worker *w = worker;
    uint64_t ran, waited, began;

    pthread_mutex_lock(&w->run->made);
    pthread_mutex_unlock(&w->run->made);
    if (w->run->given_up)
        return NULL;
    prctl(PR_SET_TIMERSLACK, 1); /* by default 50 us are added to each sleep */
    prepare(w);
    announce(w);
    pthread_barrier_wait(&w->run->go);
    began = clock_ns();
    ran = ran_ns();
    waited = waited_ns();
    if (!w->run->cancelled)
        work(w);
    w->tally.wall_ns = clock_ns() - began;
    w->tally.cpu_ns = ran_ns() - ran;
    w->tally.wait_ns = waited_ns() - waited;
    w->stopping = true;
    w->quota = 0;
    for (unsigned i = 0; i < w->clients; i++)
        client_finish(w, &w->client[i]);
    announce(w);
    return NULL;
}

/* --- Memory ----------------------------------------------------------------------------------- */

int worker_init(struct worker *w, struct run *run, unsigned index)
{
    const struct plan *p = run->plan;
    uint32_t cells = hist_cells(HIST_BITS, HIST_MAX_NS);
    struct epoll_event wake = {.events = EPOLLIN};
    uint64_t all = p->requests;
    unsigned asking;

    memset(w, 0, sizeof(*w));
    w->run = run;
    w->plan = p;
    w->index = index;
    w->shows = p->opt->show > 0;
    w->on_free = client_free;
    asking = p->connections / p->threads + (index < p->connections % p->threads);
    w->clients = asking + p->idle / p->threads + (index < p->idle % p->threads);
    w->quota = all ? all / p->threads + (index < all % p->threads) : UINT64_MAX;
    worker_random_init(w, p->opt->seed);
    w->client = calloc(w->clients, sizeof(*w->client));
    w->shots = calloc((size_t)w->clients * p->ring, sizeof(*w->shots));
    w->scratch = malloc(SCRATCH_BYTES);
    w->cells = malloc(4 * cells * sizeof(*w->cells));
    w->reference = p->opt->body_check ? calloc(p->targets, sizeof(*w->reference)) : NULL;
    w->digests = p->opt->body_check || p->digests;
    w->seen = calloc(SEEN_PLACES, sizeof(*w->seen));
    w->learnt = p->mix ? calloc(p->targets, sizeof(*w->learnt)) : NULL;
    w->asked = p->mix ? calloc((size_t)w->clients * p->ring, p->mix->asked_bytes) : NULL;
    w->sleeping = p->opt->think ? calloc(w->clients, sizeof(*w->sleeping)) : NULL;
    w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!w->client || !w->shots || !w->scratch || !w->cells || !w->seen ||
        (p->opt->body_check && !w->reference) || (p->mix && (!w->learnt || !w->asked)) ||
        (p->opt->think && !w->sleeping) || !samples_begin(w))
        return -ENOMEM;
    if (p->secure && (!(w->plain = malloc(TLS_PLAIN_BYTES)) || tls_open(&w->tls, p) != 0))
        return -ENOMEM;
    if (w->epoll_fd < 0 || w->wake_fd < 0)
        return -errno;
    if (epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, w->wake_fd, &wake) != 0)
        return -errno;
    hist_init(&w->tally.service, HIST_BITS, w->cells, cells);
    hist_init(&w->tally.latency, HIST_BITS, w->cells + cells, cells);
    hist_init(&w->tally.connect, HIST_BITS, w->cells + 2 * (size_t)cells, cells);
    if (p->secure)
        hist_init(&w->tally.handshake, HIST_BITS, w->cells + 3 * (size_t)cells, cells);
    for (unsigned i = 0; i < w->clients; i++) {
        w->client[i].fd = -1;
        w->client[i].idle = i >= asking;
        turns_begin(p, &w->client[i], i * p->threads + index);
        w->client[i].shot = &w->shots[(size_t)i * p->ring];
    }
    return 0;
}

void worker_fini(struct worker *w)
{
    for (unsigned i = 0; w->client && i < w->clients; i++)
        free(w->client[i].answer.partial);
    for (unsigned i = 0; i < w->tally.seconds; i++)
        free(w->tally.second[i].latency.cell);
    free(w->tally.second);
    free(w->tally.sample);
    free(w->client);
    free(w->shots);
    free(w->scratch);
    free(w->plain);
    bytes_free(&w->clear);
    tls_close(w->tls);
    free(w->cells);
    free(w->reference);
    free(w->seen);
    free(w->learnt);
    free(w->asked);
    free(w->sleeping);
    if (w->epoll_fd >= 0)
        close(w->epoll_fd);
    if (w->wake_fd >= 0)
        close(w->wake_fd);
}
