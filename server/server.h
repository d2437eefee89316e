/* SPDX-License-Identifier: MIT */
/* server.h - everything an engine may use: the contract page.  Beside it engines may include only
 * queue.h, bench.h, base/ and core/.
 *
 * An engine owns its waiting and calls down; nothing calls back into it.  Non-blocking engines
 * run sessions on a loop (clock, timers, buffers: one thread's own, no locks).  Blocking engines
 * accept with worker_accept() and hand the socket to session_serve(); one watchdog thread per
 * process ends what is overdue.
 *
 *   non-blocking:  loop_open -> { wait for readiness, loop_tick, loop_accept, session_pump,
 *                  loop_expired, loop_resumed } until loop_done -> loop_close
 *   blocking:      loop_open -> { worker_accept, session_serve } until worker_accept says
 *                  -ECANCELED -> loop_close
 *
 *   completion:    loop_open -> { hand transfers to the kernel, loop_tick, loop_accepted,
 *                  session_fed, session_sent, loop_expired, loop_resumed } until loop_done -> wait
 *                  for what is in flight -> loop_close
 *
 * Every call returns 0 or a count, or -errno.
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H
#include <stdatomic.h>
#include "../core/conn.h"
#include "../core/wheel.h"

enum {
    LISTENERS_MAX = 8,
    WORKERS_MAX = 256, /* --workers: more gain nothing, and a wait for all fits a stack */
    ACCEPT_BUDGET = 64 /* connections accepted a turn, then the established ones run */
};

struct server;  /* options, site, log: not an engine's business */
struct watchdog; /* watchdog.c: deadlines of blocking engines */
struct buffers; /* host.c: input queue and send queue memory, kept for the next connection */
struct bench; /* bench.c: what the null engine measures */
struct offload;   /* offload.c: answers made on a helper thread */
struct fetch;   /* fetch.c: bytes of files, read on helper threads */
struct fetch_job;
struct sender;  /* base/send.c: how bytes leave */
struct victims; /* victims.c: sessions whose slots others need */
struct cache;   /* cache.c: answers that are kept, for all threads of a process */
struct cache_reader; /* ... as one thread sees it */

/* How an engine works, where there is a choice: options of the same names. */
enum pool_queue { QUEUE_MUTEX, QUEUE_LOCKFREE, QUEUE_ACCEPT };
enum epoll_trigger { TRIGGER_LEVEL, TRIGGER_EDGE, TRIGGER_ONESHOT };
struct tuning {
    unsigned threads;      /* of pool and dispatch */
    unsigned queue;        /* enum pool_queue */
    unsigned queue_length; /* connections that may wait for a thread; beyond it accepting waits */
    bool in_turn;          /* QUEUE_LOCKFREE: threads get items in turn, however many they have */
    bool drain_all;        /* a thread takes all that is queued for it, not one */
    bool yield;            /* ... and offers the processor before it takes more */
    unsigned nap_ms;       /* nonblock: the longest pause between two sweeps */
    unsigned busy_us;      /* how long a loop looks for events before it sleeps */
    enum epoll_trigger trigger;
};

/* What one thread works with, made by worker_run() (worker.c) and handed to engine->run(). */
struct worker {
    struct server *server;
    unsigned number;              /* 0.. */
    /* open, non-blocking, shared with other workers; an engine never closes or shuts one down */
    unsigned listeners;
    int listener[LISTENERS_MAX];
    bool begun;                   /* this worker waits for clients */
    atomic_bool left; /* stopping: this worker accepts no more; descriptor numbers stay taken */
    bool used_before; /* by a process that may have been killed: see uring_accept.c */
    bool shared;      /* ... or will be by one: --handover */
    int stop_fd;                  /* readable for ever after the first stop signal */
    const atomic_int *stopping;   /* 0, or the number of stop signals seen */
    atomic_uint turn;                /* worker_accept(): the listener looked at first */
    /* ... and when it stops serving queued connections; 0: not stopping */
    uint64_t drain_ms;
    int accept_ep;                /* worker_accept(): what it sleeps on; 0: not made yet */
    struct watchdog *watchdog;    /* engines that may block; otherwise NULL */
    atomic_uint queued, emptied;  /* see worker_queued(); how often the last one was taken */
    unsigned siblings;            /* workers of this process, including this one */
    unsigned conn_max;               /* connections that this worker serves at once, at most */
    struct tuning tuning;
    struct cache *cache;          /* NULL: nothing is kept */
};

/* What one thread needs to run sessions: loop.h, which engines do not see. */
struct loop;

/* One accepted connection: the machine, its socket, its timer. */
struct session {
    struct conn conn;
    struct wheel_node timer;
    struct session *prev, *next; /* in the loop's list */
    struct fetch_job *fetch;     /* its read under way, or what was read; or NULL */
    int fd;
    uint32_t engine_data;        /* the engine's alone: armed interest, array index, operation */
    uint32_t generation;         /* distinguishes it from earlier ones at the same address */
    uint8_t owner;               /* enum session_owner; atomic: see session_schedule() */
    uint8_t locked;              /* blocking: its thread or the watchdog has it; atomic */
    uint8_t shut;                /* blocking: what the watchdog has shut down */
};
_Static_assert(sizeof(struct session) <= 128, "an idle connection must stay small");

/* --- Loops ------------------------------------------------------------------------------------ */

int  loop_open(struct worker *w, struct loop **loop);
/* Like loop_open(), but the loop is not woken: finding an answer may block.  For a thread that
 * serves sessions of another thread's loop (session_schedule()), or whole connections; and for a
 * loop that lends all its sessions. */
int  loop_open_blocking(struct worker *w, struct loop **loop);
void loop_close(struct loop *l); /* closes every session left */

struct worker *loop_worker(const struct loop *l);
/* Readable: call loop_woken().  Engines wait for it as for the sockets. */
int loop_wake_fd(const struct loop *l);
unsigned loop_live(const struct loop *l); /* sessions open */
/* The session after s, NULL: the first; NULL after the last.  Least recently looked at first. */
struct session *loop_next(const struct loop *l, const struct session *s);
/* Readiness is reported once: session_pump() goes on until -EAGAIN. */
void loop_is_edge_triggered(struct loop *l);
/* The sockets of sessions are in this epoll set; -1: in none.  As long as a copy of its descriptor
 * is left, close() does not take a socket out, and the set goes on to report it, for a session that
 * is gone.  Where there is a copy (conn_stays_open()), the loop therefore takes it out. */
void loop_has_set(struct loop *l, int epoll_fd);
/* loop_tick() has seen a stop signal. */
bool loop_stopping(const struct loop *l);

/* Refresh the clock and the date, and notice a stop signal.  Call it after each wait. */
void loop_tick(struct loop *l);

/* How long the engine may sleep: milliseconds, -1 = until something happens, 0 = not at all; with
 * --busy it is 0 for a while after each receive. */
int loop_wait_ms(struct loop *l);

/* Whether the engine should wait for listeners now.  Changes only in loop_tick(), loop_accept(),
 * session_close(). */
bool loop_listening(const struct loop *l);

/* Accept one connection of listener i and open its session; NULL: none left, paused, or refused.
 * The socket is non-blocking.  Callers stop after ACCEPT_BUDGET. */
struct session *loop_accept(struct loop *l, unsigned i);

/* The next session that the engine must close, because its deadline has passed or its slot is
 * needed.  Call it only after the whole batch of events, so that no event in the batch points to a
 * closed session. */
struct session *loop_expired(struct loop *l);

/* loop_woken() empties loop_wake_fd().  loop_resumed() then returns the
 * sessions whose answer has been made, or whose part of a file has been read, one by one; pump
 * each.  NULL: no more in this turn.  Call it after the batch of events too: a session that is
 * still sending earlier answers may be in the batch, and this pump may end it. */
void loop_woken(struct loop *l);
struct session *loop_resumed(struct loop *l);

/* A connection that ends has used that many bytes of its own stack; the counters keep the most. */
void loop_stack_used(struct loop *l, size_t bytes);

/* Whether the server is stopping and every session has ended or been cut off.  Call it once a turn,
 * because it also gives up the listeners, a turn after loop_listening() became false. */
bool loop_done(struct loop *l);

/* --- Sessions --------------------------------------------------------------------------------- */

/* Run the session until it would block.  Returns what to wait for next: CONN_RECV and CONN_LINGER
 * readable, CONN_SEND writable, CONN_WAIT nothing (take the socket out of the set; conn.want may
 * still be CONN_SEND, for a part of a file that is being read), CONN_CLOSE: close it. */
enum conn_want session_pump(struct loop *l, struct session *s);
/* The last session_pump() was stopped by its budget, not by the socket: pump the session again even
 * if no event comes, because readiness that is still there is no edge. */
bool loop_has_more(const struct loop *l);

/* Level-triggered: from sessions that are ready in one turn, up to BATCH_MAX requests are received
 * before the first session is pumped, so that the cache looks for changes once for all of them.
 * session_receive() returns false if the session must be pumped at once.  When the batch is full,
 * and after the turn's last event, pump each session that session_received() returns, until it
 * returns NULL. */
enum { BATCH_MAX = 16 };
bool session_receive(struct loop *l, struct session *s);
bool loop_batch_is_full(const struct loop *l);
struct session *session_received(struct loop *l);

/* A session that is lent to another thread.  session_schedule(): the loop's thread does not use the
 * session until it is returned; its timer stays in this loop and is put off meanwhile.
 * session_pump_scheduled(): called on the other thread, with its own loop.  session_complete(): the
 * other thread has finished.  False: the session was scheduled again meanwhile (an event came) and
 * must be pumped once more.  As NAPI does it: napi_schedule_prep(), napi_complete_done(). */
/* What owns a session: its loop; a thread, or an operation that is being cancelled; a thread for
 * which an event came meanwhile. */
enum session_owner { OWNER_LOOP, OWNER_THREAD, OWNER_MISSED };
/* Returns false if the session is already lent; the thread that has it will then pump it once
 * more. */
bool session_schedule(struct loop *l, struct session *s);
enum conn_want session_pump_scheduled(struct loop *own, struct session *s);
bool session_complete(struct session *s);

/* The one close path. */
void session_close(struct loop *l, struct session *s);

/* Close a session that the engine cannot wait for, and count it as refused. */
void session_refuse(struct loop *l, struct session *s);

/* --- Completion engines ----------------------------------------------------------------------- */

/* The kernel moves the bytes and reports the result afterwards.  An operation holds the session:
 * conn_feed() and conn_sent() are called when it completes; until then the session is not closed
 * and gets no other operation.  Half-duplex: if conn.want is RECV or LINGER, receive; if it is
 * SEND, send conn_out(&s->conn), which stays where it is. */

/* A connection that the kernel accepted for us: its socket, or -errno.  NULL as in loop_accept();
 * a shortage pauses listening.  An engine that accepts ahead has to make sure that there is a
 * slot. */
struct session *loop_accepted(struct loop *l, int fd);

/* Whether there is memory for one more answer.  If not, received bytes should wait until other
 * answers have been sent: without memory the connection would end. */
bool loop_has_memory(struct loop *l);

/* A batch of receives is complete: call it before the first session_fed() of the batch, and again
 * when more have completed. */
void loop_received(struct loop *l);

/* n bytes were received, 0: the end of the stream, or -errno.  Returns what the session wants
 * now. */
enum conn_want session_fed(struct loop *l, struct session *s, const char *bytes, long n);
/* n bytes of conn_out() were sent; 0: its file has become shorter; or -errno. */
enum conn_want session_sent(struct loop *l, struct session *s, long n);
/* For a session that loop_resumed() returned. */
enum conn_want session_woken(struct loop *l, struct session *s);

/* Hand over large files whose pages are in memory, by calls that wait for nothing: as much as the
 * socket takes, or one pump's worth.  Returns what the session wants now.  *polls: call it again
 * when the socket takes more.  Otherwise, if the session wants CONN_SEND, the engine sends the rest
 * itself. */
enum conn_want session_hand_over(struct loop *l, struct session *s, bool *polls);

/* The descriptor of a segment without bytes.  It stays the session's until that segment is sent. */
int session_file(const struct segment *seg);

/* session_cancel_begin(): loop_expired() returned the session, but an operation has it.  The engine
 * cancels the operation and closes the session when it completes; loop_expired() does not return it
 * again.  session_cancel_undo(): the operation brought bytes after all, and the session goes on. */
void session_cancel_begin(struct session *s);
void session_cancel_undo(struct loop *l, struct session *s);

/* --- Blocking engines ------------------------------------------------------------------------- */

/* The next connection, a blocking socket; waits for any listener.  -ECANCELED: the server is
 * stopping and the queues are empty.  Other errors are handled inside (a shortage waits, a dead
 * peer is skipped). */
int worker_accept(struct worker *w);

/* Close what worker_accept() slept on, for a copy of a worker that accepted on another thread. */
void worker_accept_over(struct worker *w);

/* Close a connection that no session has. */
void worker_close(struct worker *w, int fd);

/* Close a connection that cannot be served after all, and count it as refused. */
void worker_refuse(struct worker *w, int fd);

/* A pool of threads that block has as many slots as threads.  Call it before anything is queued. */
void worker_has_threads(struct worker *w, unsigned threads);
/* Copy a worker for another thread: the same listeners and limits.  Its counters start at 0,
 * because the watchdog may be counting in *from already. */
void worker_copy(struct worker *to, const struct worker *from);

/* A connection waits for a thread of this worker, until one begins to serve it.  The watchdog makes
 * room when all slots are taken, or when the queue has not been emptied for too long. */
void worker_queued(struct worker *w);

/* A queued connection waits no longer.  Sessions report it when they begin.  False: none waited. */
bool worker_unqueued(struct worker *w);

/* No thread or process can be started for an accepted connection; err says why.  Waits a moment, in
 * which the watchdog makes room.  False: it has lasted too long, and the connection was counted as
 * refused.  *tries is 0 at first. */
bool worker_retries(struct worker *w, int err, unsigned *tries);

/* From accept to close, on this thread. */
void session_serve(struct loop *l, int fd);

/* session_serve() in parts, for a session whose memory two processes share.  session_begin():
 * register it; nothing is received yet.  session_run(): serve it until its end.  session_leave():
 * release what it holds and end the connection for the peer.  session_gone(): unregister and close
 * it; lost: the process that ran it died. */
void session_begin(struct loop *l, struct session *s, int fd);
/* True: the session has begun, but all slots are taken, others wait, and this client has been
 * silent for too long.  It was counted as evicted and must be ended without being run. */
bool session_turned_away(struct loop *l, struct session *s);
void session_run(struct loop *l, struct session *s);
void session_leave(struct loop *l, struct session *s);
void session_gone(struct loop *l, struct session *s, bool lost);

#endif
