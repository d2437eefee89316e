/* SPDX-License-Identifier: MIT */
/* server.h - everything an engine may use: the contract page.  Engines include this and nothing
 * else of ours.
 *
 * An engine owns its waiting and calls down; nothing calls back into it.  Non-blocking engines
 * run sessions on a loop (clock, timers, buffers: one thread's own, no locks).  Blocking engines
 * accept with worker_accept() and hand the socket to session_serve(); one watcher thread per
 * process ends what is overdue.
 *
 *   non-blocking:  loop_open -> { wait for readiness, loop_tick, loop_welcome, session_pump,
 *                  loop_expired, loop_resumed } until loop_done -> loop_close
 *   blocking:      loop_open -> { worker_accept, session_serve } until worker_accept says
 *                  -ECANCELED -> loop_close
 *
 *   completion:    loop_open -> { hand transfers to the kernel, loop_tick, loop_adopt, session_fed,
 *                  session_sent, loop_expired, loop_resumed } until loop_done -> wait for what is
 *                  in flight -> loop_close
 *
 * Every call returns 0 or a count, or -errno.
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H
#include <stdatomic.h>
#include "../core/conn.h"
#include "../core/wheel.h"
#include "probe.h"

enum {
    LISTENERS_MAX = 8,
    WORKERS_MAX = 256, /* --workers: beyond it nobody gains, and a wait for all fits a stack */
    ACCEPT_BUDGET = 64 /* connections a turn, then the established ones run */
};

struct server;  /* options, site, log: not an engine's business */
struct watch;   /* watch.c: deadlines of blocking engines */
struct buffers; /* loop.c: stash and outbox memory, kept for the next connection */
struct rehearsal; /* rehearse.c: what the null engine replays */
struct later;   /* later.c: answers made on a helper thread */
struct fetch;   /* fetch.c: bytes of files, read on helper threads */
struct fetch_job;
struct sender;  /* base/send.c: how bytes leave */
struct victims; /* victims.c: sessions whose seats others need */
struct cache;   /* cache.c: answers that are kept, for all threads of a process */
struct cache_reader; /* ... as one thread sees it */

/* How an engine goes about it, where there is a choice: options of the same names. */
enum pool_queue { QUEUE_MUTEX, QUEUE_LOCKFREE, QUEUE_ACCEPT };
enum epoll_trigger { TRIGGER_LEVEL, TRIGGER_EDGE, TRIGGER_ONESHOT };
struct tuning {
    unsigned threads;      /* of pool and dispatch */
    unsigned queue;        /* enum pool_queue */
    unsigned queue_length; /* connections that wait for a thread; then accepting waits */
    bool drain_all;        /* a thread takes all that is queued for it, not one */
    bool yield;            /* ... and offers the processor between two */
    unsigned nap_ms;       /* nonblock: the longest between two sweeps */
    unsigned busy_us;      /* how long a loop looks for events before it sleeps */
    enum epoll_trigger trigger;
};

/* One thread's place of work, made by workers and handed to engine->run(). */
struct worker {
    struct server *server;
    unsigned number;              /* 0.. */
    /* open, non-blocking, shared with other workers; an engine never closes or shuts one down */
    unsigned listeners;
    int listener[LISTENERS_MAX];
    atomic_bool left; /* stopping: this worker accepts no more; the numbers stay taken */
    int stop_fd;                  /* readable for ever once the server is told to stop */
    const atomic_int *stopping;   /* 0, or the number of stop signals seen */
    atomic_uint turn;                /* worker_accept(): the listener looked at first */
    /* ... and when it no longer serves those who wait; 0: not stopping */
    uint64_t drain_ms;
    int accept_ep;                /* worker_accept(): what it sleeps on; 0: not made yet */
    struct watch *watch;          /* engines that may block; else NULL */
    atomic_uint queued, emptied;  /* see worker_queued(); how often the last one was taken */
    unsigned siblings;            /* workers of this process, this one too */
    unsigned seats;               /* connections that this worker serves at once, at most */
    struct tuning tuning;
    struct cache *cache;          /* NULL: nothing is kept */
};

/* What one thread needs to run sessions. */
struct loop {
    struct worker *worker;
    uint64_t now_ms;      /* monotonic; loop_tick() refreshes it */
    struct wheel wheel;   /* deadlines, lazily */
    struct host host;     /* what the core asks; site calls with this loop's buffers and date */
    unsigned live;        /* sessions open */
    uint32_t generation;  /* of the session opened last */
    /* All of them, least recently looked at first: see victims_find() in loop.c */
    struct session *first, *last;
    struct buffers *buffers;
    struct later *later;
    struct fetch *fetch;  /* NULL: this thread waits for the disk itself */
    unsigned resumed;     /* sessions given out by loop_resumed() in this turn */
    struct cache_reader *cache; /* or NULL */
    /* Receives so far, or batches of them; and how many there were when the cache last looked for
     * changes.  It looks before it answers from what was received since. */
    uint32_t received, looked;
    /* Requests that were received and are not yet answered: session_receive(). */
    unsigned batched;
    struct batch *batch;            /* NULL: none yet */
    const struct received *ahead;   /* what the next session_pump() receives first; or NULL */
    uint32_t busy_mark;    /* what had happened when it last had something to do */
    uint64_t busy_us;      /* ... and until when it looks for events without sleeping */
    struct sender *sender;
    struct probe_stamps stamps; /* of the answer that is being made, while it is watched */
    struct rehearsal *rehearsal; /* null engine only */
    struct victims *victims; /* sessions that give up their seats, from loop_expired(); or NULL */
    int wake_fd;          /* readable: loop_woken(); engines wait on it beside the sockets */
    /* no descriptor or no room for another connection: do not wait for listeners */
    bool paused;
    bool awaited;         /* stepped back: a client waited at the last look */
    bool closed;          /* stopping, and the listeners' queues are empty */
    uint64_t call_ms;     /* stopping: handshakes under way may still complete until then */
    unsigned taken;       /* stopping: connections accepted since */
    bool edge;            /* the engine's: readiness is told once, so pump until -EAGAIN */
    bool more;            /* the last session_pump() was stopped by its budget, not by the socket */
    uint64_t retry_ms;    /* when a pause is tried again */
    uint64_t drain_ms;    /* stopping: when the last ones are cut off; 0 while serving */
    char date[32];
    char scratch[RECV_BYTES_MAX];
};

/* One accepted connection: the machine, its socket, its timer. */
struct session {
    struct conn conn;
    struct wheel_node timer;
    struct session *prev, *next; /* in the loop's list */
    int fd;
    unsigned slot;               /* free for the engine: armed interest, array index, operation */
    struct fetch_job *fetch;     /* its read under way, or what was read; or NULL */
};
_Static_assert(sizeof(struct session) <= 128, "an idle connection must stay small");

/* --- Loops ------------------------------------------------------------------------------------ */

int  loop_open(struct worker *w, struct loop **loop);
/* The same without being woken: finding an answer may block.  For a thread that serves sessions of
 * another's loop (session_lend()), or whole ones; and for a loop that lends all of its own. */
int  lane_open(struct worker *w, struct loop **loop);
void loop_close(struct loop *l); /* closes every session left */

/* Refresh the clock and the date; notices stop.  Call it after each wait. */
void loop_tick(struct loop *l);

/* How long the engine may sleep: milliseconds, -1 = until something happens, 0 = not at all; with
 * --busy it is 0 for a while after each receive. */
int loop_wait_ms(struct loop *l);

/* Whether listeners are to be waited for now.  Changes only in loop_tick(), loop_welcome(),
 * session_close(). */
bool loop_listening(const struct loop *l);

/* Accept one connection of listener i and open its session; NULL: none left, paused, or refused.
 * The socket is non-blocking.  Callers stop after ACCEPT_BUDGET. */
struct session *loop_welcome(struct loop *l, unsigned i);

/* Next session whose time is up, or that makes room for another; the engine closes it.  Only
 * after the batch of events: an event must never point at a session that expired in between. */
struct session *loop_expired(struct loop *l);

/* wake_fd is readable: empties it.  loop_resumed() gives the sessions whose answer has come, or
 * whose part of a file has been read, each to be pumped; NULL: no more in this turn.  It too comes
 * after the batch: earlier answers may still be going out, so that the same session is in there,
 * and this pump may be the one that ends it. */
void loop_woken(struct loop *l);
struct session *loop_resumed(struct loop *l);

/* A connection that ends used so many bytes of a stack of its own; the counters keep the most. */
void loop_stack_used(struct loop *l, size_t bytes);

/* Whether the server is stopping and every session has ended or been cut off.  Ask it once a
 * turn, because it also gives up the listeners, a turn after loop_listening() became false. */
bool loop_done(struct loop *l);

/* --- Sessions --------------------------------------------------------------------------------- */

/* Run it until it would block.  What to wait for next: CONN_RECV and CONN_LINGER readable,
 * CONN_SEND writable, CONN_WAIT nothing (take it out of the set; conn.want may say CONN_SEND, of a
 * part of a file that is read meanwhile), CONN_CLOSE: close it.  With loop->more it is to be pumped
 * again though nothing happens: readiness that is still there is no edge. */
enum conn_want session_pump(struct loop *l, struct session *s);

/* Level-triggered: from sessions that are ready in one turn, up to BATCH_MAX requests are received
 * before the first session is pumped, so that the cache looks for changes once for all of them.
 * receive: false means that the session is to be pumped at once.  When loop->batched is BATCH_MAX,
 * and after the turn's last event, pump each session that session_received() gives out, until it
 * gives out NULL. */
enum { BATCH_MAX = 16 };
bool session_receive(struct loop *l, struct session *s);
struct session *session_received(struct loop *l);

/* A session given to another thread for a while.  lend: the loop's owner lets go of it until it
 * comes back; its timer stays here and looks away.  pump_lent: on the other thread, with its own
 * lane.  back: that thread has done; false: it was lent again meanwhile (an event came) and is to
 * be pumped once more. */
enum { SESSION_HOME, SESSION_LENT, SESSION_AGAIN };
/* false: it is out already, and will be looked at again */
bool session_lend(struct loop *l, struct session *s);
enum conn_want session_pump_lent(struct loop *lane, struct session *s);
bool session_back(struct session *s);

/* The one close path. */
void session_close(struct loop *l, struct session *s);

/* The engine cannot wait for it: counted as refused, and closed. */
void session_refuse(struct loop *l, struct session *s);

/* --- Completion engines ----------------------------------------------------------------------- */

/* The kernel moves the bytes and says afterwards how it went.  An operation holds the session:
 * conn_feed() and conn_sent() come with its completion, and until then it is neither closed nor
 * given another.  Half-duplex: conn.want RECV or LINGER = receive, SEND = conn_out(&s->conn) is to
 * be sent and stays where it is. */

/* A connection that the kernel accepted for us: its socket, or -errno.  NULL as in loop_welcome();
 * a shortage pauses listening.  Whoever accepts ahead sees to it that there is a seat. */
struct session *loop_adopt(struct loop *l, int fd);

/* Whether there is memory for one more answer.  If not, bytes that were received had better wait
 * until others have been sent: without it the connection would end. */
bool loop_has_memory(struct loop *l);

/* A batch of receives is complete: call it before the first session_fed() of those, and again when
 * more have completed. */
void loop_received(struct loop *l);

/* n bytes were received, 0 at the end of the stream, or -errno.  What it wants now. */
enum conn_want session_fed(struct loop *l, struct session *s, const char *bytes, long n);
/* n bytes of conn_out() were sent; 0: its file has become shorter; or -errno. */
enum conn_want session_sent(struct loop *l, struct session *s, long n);
/* Given out by loop_resumed(). */
enum conn_want session_woken(struct loop *l, struct session *s);

/* Large files whose pages are in memory are handed over by calls that wait for nothing: as much as
 * the socket takes, or one pump's worth.  What it wants now.  *polls: come again when the socket
 * takes more; else, if it wants CONN_SEND, the engine sends the rest itself. */
enum conn_want session_hand_over(struct loop *l, struct session *s, bool *polls);

/* The descriptor behind a segment without bytes: the session's, until that segment is sent. */
int session_file(const struct segment *seg);

/* loop_expired() gave it out, but an operation has it: cancelled, it is closed with its completion,
 * and is not given out again.  keep: the operation brought bytes after all; it goes on. */
void session_hold(struct session *s);
void session_keep(struct loop *l, struct session *s);

/* --- Blocking engines ------------------------------------------------------------------------- */

/* The next connection, a blocking socket; waits for any listener.  -ECANCELED: told to stop and
 * the queues are empty.  Other errors are dealt with inside (a shortage waits, a dead peer is
 * skipped). */
int worker_accept(struct worker *w);

/* A copy of a worker that accepted on another thread gives back what it slept on. */
void worker_accept_over(struct worker *w);

/* A connection that cannot be served after all: counted as refused, and closed. */
void worker_refuse(struct worker *w, int fd);

/* The threads of a crew that blocks are its seats.  Called before anything is queued. */
void worker_hired(struct worker *w, unsigned threads);
/* For a thread of its own: the same listeners and limits.  What is counted starts anew, because the
 * watcher may be counting in *from already. */
void worker_copy(struct worker *to, const struct worker *from);

/* A connection waits for a thread of this worker, until one begins to serve it.  The watcher makes
 * room when all seats are taken, or when the queue stays without being emptied. */
void worker_queued(struct worker *w);

/* It does not wait any more.  Sessions that begin say so themselves.  False: none waited. */
bool worker_unqueued(struct worker *w);

/* No thread or process can be started for a connection that was accepted, err says why.  Waits a
 * moment, and meanwhile the watcher makes room; false: it has lasted too long, and the connection
 * was counted as refused.  *tries is 0 at first. */
bool worker_retries(struct worker *w, int err, unsigned *tries);

/* From accept to close, on this thread. */
void session_serve(struct loop *l, int fd);

/* The same in its parts, for a session whose memory two processes share.  begin: registered, not
 * yet looked at.  run: until its end.  leave: gives back what it holds and tells the peer.  gone:
 * forgotten and closed; lost: whoever ran it died. */
void session_begin(struct loop *l, struct session *s, int fd);
/* Begun, but all seats are taken, others wait, and this client has been silent for too long:
 * counted as evicted, and to be ended without being run. */
bool session_turned_away(struct loop *l, struct session *s);
void session_run(struct loop *l, struct session *s);
void session_leave(struct loop *l, struct session *s);
void session_gone(struct loop *l, struct session *s, bool lost);

/* --- No sockets: what the null engine replays ------------------------------------------------- */

struct part {
    const char *name, *what;
    void (*once)(struct rehearsal *r); /* the work of one request */
    unsigned less;                     /* parts that are contained in it, as bits */
};

int  rehearsal_open(struct loop *l, struct rehearsal **r);
void rehearsal_close(struct rehearsal *r);
const struct part *rehearsal_parts(unsigned *count);
/* Take that script; its name, or NULL: there are no more. */
const char *rehearsal_script(struct rehearsal *r, unsigned number);
size_t rehearsal_bytes(const struct rehearsal *r);
/* Since the last question an exchange did not come to its end. */
bool rehearsal_failed(struct rehearsal *r);

#endif
