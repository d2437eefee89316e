/* SPDX-License-Identifier: MIT */
/* worker.h - a thread and its connections: what the files that run share.
 *
 * Each file calls only those named after it.  worker.c has the loop and the schedule, which says
 * when a request is due.  think.c has pauses.  client.c sends on a connection, reads from it, and
 * gives it up; connect.c makes it, and wire.c is what it has in addition to HTTP/1.1.  turns.c
 * chooses URLs, count.c counts, and client_socket.c has the socket.  Requests under way are a ring
 * of shots in the order they were sent, which is the order of the answers; with HTTP/2 each has a
 * place of h2.c, and next - oldest is how many there are.
 */
#ifndef LOAD_WORKER_H
#define LOAD_WORKER_H
#include <pthread.h>
#include <stdatomic.h>
#include "../../core/wheel.h"
#include "answer.h"
#include "bytes.h"

/* One request under way. */
struct shot {
    uint64_t intended_ns, sent_ns;
    uint32_t target;
    uint32_t at, bytes; /* echo: the message in the pool */
    bool last;          /* the last of its connection, and says so */
    uint8_t kind;       /* enum kind; if not plain, mix_asked() has its bytes */
    uint16_t shown;     /* --show: its number; 0: it is not shown */
};

/* GREETING: connected; the handshake of TLS or HTTP/2's SETTINGS are due. */
enum client_state { CLIENT_DOWN, CLIENT_CONNECTING, CLIENT_GREETING, CLIENT_UP };

struct client {
    struct wheel_node node; /* the first: a node is its client */
    int fd;
    uint8_t state;
    bool armed;   /* EPOLLOUT is requested */
    bool leaving; /* no further request on this connection */
    bool listed;  /* in the worker's line of free ones */
    bool idle;    /* of --idle: it never asks */
    bool asleep;  /* it pauses, until wake_ns */
    uint16_t tries; /* connects that failed in a row */
    uint32_t peer, turn; /* the peer to ask, and which of its URLs is next */
    uint32_t stride;     /* ... and the step to the URL after that */
    uint32_t begun;      /* requests on this connection */
    uint32_t depth;      /* ... that may be under way */
    uint32_t oldest, unsent, next; /* of the ring; unsent: the first that is not wholly sent */
    uint32_t unsent_at;            /* bytes of that request that are sent */
    uint64_t connect_ns;           /* when connecting began, or the greeting */
    uint64_t due_ms;               /* of the node in the wheel */
    uint64_t free_ns;              /* open loop: since when it could have sent */
    uint64_t wake_ns;
    struct wire *wire; /* NULL: its bytes are those of HTTP/1.1, or of messages */
    struct client *next_free;
    struct shot *shot;
    struct answer answer;
};

/* The data between main and the threads. */
struct run {
    const struct plan *plan;
    int done_fd;          /* an eventfd: a thread counts itself when it is ready, and at its end */
    pthread_mutex_t made; /* main holds it until every thread has been made, or: */
    bool given_up;        /* one could not be made, and the others end at once */
    pthread_barrier_t go; /* all are ready; main sets the next two and opens it */
    uint64_t start_ns;
    bool cancelled; /* no server answered, or a signal came */
    atomic_bool stop;
    atomic_uint shown; /* --show: requests that were printed */
    _Atomic uint64_t line; /* --replay: the next line; all threads share the order of the log */
};

struct worker {
    struct run *run;
    const struct plan *plan;
    struct client *client;
    struct shot *shots;
    struct reference *reference; /* --body-check: of each target */
    bool shows;                  /* --show: there may be more to print */
    bool digests;                /* some answers have a digest to be compared with */
    struct seen *seen;         /* SEEN_PLACES */
    struct learnt *learnt;     /* mix: of each target */
    char *asked;               /* mix: for each shot a struct asked */
    struct client **sleeping;  /* think: a heap */
    unsigned sleepers;
    char *scratch;
    struct tls_context *tls;   /* https; and a record of it that was decrypted, what is to be: */
    char *plain;
    struct bytes clear;
    uint64_t *cells;
    unsigned index, clients; /* clients: with those that are idle, which are the last */
    unsigned up;             /* clients that are up, without idle ones */
    int epoll_fd, wake_fd;
    pthread_t thread;
    bool started;            /* the thread exists */
    bool running, stopping;  /* requests may be sent; no more of them */
    uint64_t now_ns, end_ns, swept_ms, down_since_ns;
    uint64_t quota;          /* requests this thread may still begin */
    uint64_t random, arrivals, next_ns;
    uint64_t own_until_ns;   /* open loop: requests due before it are late by our own fault */
    /* The client may send now: a closed loop does so, an open one puts it in line. */
    void (*on_free)(struct worker *w, struct client *c);
    struct client *first_free, *last_free;
    struct wheel wheel;
    struct second *second;
    uint64_t second_end_ns;
    _Atomic uint64_t answers_seen, faults_seen; /* for the live line: written once a turn */
    struct tally tally;
};

int worker_init(struct worker *w, struct run *run, unsigned index);
void worker_fini(struct worker *w);
void *worker_main(void *worker);

/* The client's node leaves the wheel at that time. */
static inline void client_time(struct worker *w, struct client *c, uint64_t due_ms)
{
    wheel_del(&w->wheel, &c->node);
    c->due_ms = due_ms;
    wheel_add(&w->wheel, &c->node, due_ms);
}

/* --- client_socket.c -------------------------------------------------------------------------- */

/* Sets the events that are reported for the client; op is of epoll_ctl(). */
void client_watch(struct worker *w, struct client *c, int op, uint32_t events);

/* --- connect.c -------------------------------------------------------------------------------- */

void connect_begin(struct worker *w, struct client *c);
void client_hang_up(struct worker *w, struct client *c);
void connect_try(struct worker *w, struct client *c); /* one attempt */
void connect_finish(struct worker *w, struct client *c); /* it is made, or refused */
void connect_failed(struct worker *w, struct client *c, int error);
/* Goes on with the greeting: takes bytes from the front of *in.  The connection may be up then, or
 * lost. */
void connect_greet(struct worker *w, struct client *c, struct slice *in);
void connect_refused(struct worker *w, struct client *c, enum fault what); /* after wire_note() */

/* --- client.c --------------------------------------------------------------------------------- */

void client_event(struct worker *w, struct client *c, uint32_t events);
void client_due(struct worker *w, struct client *c); /* its node came out of the wheel */
/* Whether the client can take one more request. */
bool client_is_free(const struct client *c);
/* Adds a request, which client_send() sends. */
void client_load(struct worker *w, struct client *c, uint64_t intended_ns);
void client_send(struct worker *w, struct client *c);
/* Closed loop: sends as many requests as the client may have. */
void client_fill(struct worker *w, struct client *c);
/* At the very end: counts the requests under way, and reports bytes that no request asked for. */
void client_finish(struct worker *w, struct client *c);

/* --- turns.c ---------------------------------------------------------------------------------- */

/* Decides which URLs the client asks for in turn; number: of all clients of all threads. */
void turns_begin(const struct plan *p, struct client *c, unsigned number);
/* Chooses the URL of the shot, and the kind of its request. */
void turns_next(struct worker *w, struct client *c, struct shot *s);

/* --- think.c ---------------------------------------------------------------------------------- */

/* Closed loop: the connection could ask.  True: it pauses first, and asks later. */
bool think_begin(struct worker *w, struct client *c);
/* The connections whose pause is over ask. */
void think_end(struct worker *w);

/* --- samples.c -------------------------------------------------------------------------------- */

/* --samples: makes room for all that the thread may send; false: out of memory. */
bool samples_begin(struct worker *w);
/* Notes a request that has ended now. */
void samples_note(struct worker *w, const struct client *c, const struct shot *s,
                  struct outcome outcome);

/* --- show.c ----------------------------------------------------------------------------------- */

/* --show, of a new shot while w->shows: gives it a number and prints it, or finds that enough have
 * been printed. */
void show_request(struct worker *w, struct shot *s);
/* A shot that has a number has ended; neither fault nor status: its answer did not come. */
void show_end(const struct worker *w, const struct shot *s, const struct outcome *o);

/* --- random.c --------------------------------------------------------------------------------- */

void worker_random_init(struct worker *w, uint64_t seed); /* when w->index is set */
uint64_t worker_random(struct worker *w);   /* 56 bits */
double worker_uniform(struct worker *w);    /* above 0 and below 1 */

/* --- count.c ---------------------------------------------------------------------------------- */

/* --csv: begins the second of now_ns; later counts go to it. */
void count_second(struct worker *w);
void count_answer(struct worker *w, const struct client *c, const struct shot *s,
                  const struct answer *a);
/* A request that has no answer, or half of one: a->fault says why. */
void count_lost(struct worker *w, const struct client *c, const struct shot *s,
                const struct answer *a);
void count_fault(struct worker *w, enum fault what, uint64_t times);
/* A request has ended: what --samples and --show say of it. */
void count_end(struct worker *w, const struct client *c, const struct shot *s,
               struct outcome outcome);

/* mix.c: the bytes of a shot that is not plain. */
struct slice mix_text(const struct worker *w, const struct shot *s);

#endif
