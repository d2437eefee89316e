/* SPDX-License-Identifier: MIT */
/* inside.h - how the server's own files fit together.  Engines do not include it.
 *
 * serve.c (options -> struct server) opens site, log, stats and listeners, then worker.c runs the
 * engine.  host.c gives the core its host: find and page ask the site, answer and answered report
 * to log and stats, alloc and free use the loop's buffers.
 */
#ifndef SERVER_INSIDE_H
#define SERVER_INSIDE_H
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>
#include "../base/clock.h"
#include "../base/congestion.h"
#include "../base/net.h"
#include "../base/send.h"
#include "../core/docroot.h"
#include "../core/room.h"
#include "../engines/engine.h"
#include "log.h"
#include "loop.h"
#include "probe.h"
#include "server.h"

/* --- Site (site.c): a folder as representations ----------------------------------------------- */
struct site;
struct site_options {
    const char *root; /* folder */
    struct docroot_rules rules;
    bool all;         /* root serves what others may not read, too */
    bool readme;      /* below listings */
    bool compress;    /* make codings of text in memory: see cache.h */
    const struct moves *moves; /* redirects: see site_moves(); NULL: there are none */
    const struct site *beside; /* another site, whose places of archives it shares; NULL: none */
};
/* On failure *why says what was being done ("open folder"). */
int site_open(struct site **site, const struct site_options *opt, const char **why);
void site_close(struct site *site);
int  site_root(const struct site *site); /* the descriptor of the folder */
const struct docroot_rules *site_rules(const struct site *site);
/* As in struct http_host; callable from every thread at once.  may_block false: a folder's listing
 * gives -EINPROGRESS, and the same call with may_block true on another thread makes it. */
int site_find(struct site *site, const struct http_ask *ask, bool may_block,
              struct source **source);
/* A redirect to that URL and the rest of a path: SOURCE_MOVED.  0 or -ENOMEM. */
int site_move(unsigned status, struct slice start, struct slice rest, struct source **source);
int site_page(struct site *site, unsigned status, struct source **source);
/* Not for a source that a cache gave: cache_source_release() is for both. */
void site_release(struct site *site, struct source *source);
int site_source_fd(const struct source *source); /* the descriptor behind source->file */
/* Where a file is: in memory, on a disk of this machine, or far: on a file server, on this machine
 * or another, which may take any time to answer. */
enum site_place { SITE_MEMORY, SITE_DISK, SITE_FAR };
enum site_place site_source_place(const struct source *source);
dev_t site_source_dev(const struct source *source);
/* The source gives its descriptor away; after that it can only be released. */
void site_source_give(struct source *source);

/* A large listing is made in slices, after its head has been sent: the reply to those bytes tells
 * whether the client is still there.  next() returns SOURCE_LATER once for that, and then makes the
 * slices itself; with a helper it returns SOURCE_LATER until the helper has called step().  A
 * source is never used on two threads at once. */
struct listing_help {
    size_t (*next)(struct source *source, char *buf, size_t cap); /* stands for the source's own */
    void *owner;
};
void site_listing_help(struct source *source, struct listing_help help);
void *site_listing_owner(const struct source *source); /* NULL: it has no helper */
/* The result of the next() that was replaced: SOURCE_LATER unless bytes are at hand. */
size_t site_listing_next(struct source *source, char *buf, size_t cap);
/* The client's socket: when it is found dead, next() returns SOURCE_FAILED. */
void site_listing_client(struct source *source, int fd);
/* Whether next() needs no step() first; true of all other sources. */
bool site_listing_ready(const struct source *source);
/* Whether its next step() may take milliseconds. */
bool site_listing_long(const struct source *source);
/* One slice: 0: ready, -EINPROGRESS: there is more to do, or -errno, which next() will report. */
int site_listing_step(struct source *source);

/* On a helper thread: the loop's wake_fd becomes readable.  A full counter or an interrupted write
 * loses nothing: in the first case it is readable already, in the second the write is repeated. */
static inline void loop_wake(int wake_fd)
{
    const uint64_t one = 1;

    while (write(wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
}

/* --- Offload (offload.c): answers made on one helper thread per loop -------------------------- */
/* offload_find(): 0, -EINPROGRESS: queued (a copy of the ask is kept), -EAGAIN: too many are
 * queued; wake_fd becomes readable when the job is done.  A second ask of the same session after
 * loop_resumed() takes the result, which may not be finished: only offload_release() releases it.
 * The result is -EAGAIN if the listing is long, and longs_max long ones wait already. */
int  offload_open(struct offload **offload, struct site *site, int wake_fd, unsigned longs_max);
/* Sets what is asked from now on: a site, or other functions in place of the site's.  find() does
 * not block, list() is for the helper. */
struct offload_from {
    struct site *site;
    void *from;        /* their first argument; NULL: ask the site */
    unsigned jobs_max; /* first looks that wait; 0: as many as of listings */
    int (*find)(void *from, const struct http_ask *ask, struct source **source);
    int (*list)(void *from, const struct http_ask *ask, struct source **source);
};
void offload_ask(struct offload *offload, struct offload_from from);
void offload_close(struct offload *offload);
int  offload_find(struct offload *offload, const struct http_ask *ask, struct source **source);
/* When the session's job was asked for first, in ns: first_ns, if that was not set yet; 0: the
 * session has no job. */
uint64_t offload_asked(struct offload *offload, const struct conn *conn, uint64_t first_ns);
/* whether a session waits for its answer, or is getting it */
bool offload_is_busy(const struct offload *offload);
/* The session has gone: its result is released.  True: the helper is at its job, and ends it. */
bool offload_forget(struct offload *offload, const struct conn *conn);
/* whatever offload_find() gave */
void offload_release(struct offload *offload, struct source *source);
/* next connection whose answer has come, or NULL */
struct conn *offload_done(struct offload *offload);

/* --- Fetch (fetch.c): helper threads read parts of files that are not in memory --------------- */
struct fetch;
int  fetch_open(struct fetch **fetch, int wake_fd);
/* Call it when every session has ended.  Does not wait for reads that hang: the last helper frees
 * what the helpers use. */
void fetch_close(struct fetch *fetch); /* NULL is fine */
/* Makes a helper read the beginning of that range of a file; wake_fd becomes readable when that is
 * done.  false: there is no memory, or no thread for it. */
bool fetch_ask(struct fetch *fetch, struct session *s, const struct segment *range);
/* Whether the session must not be pumped yet. */
bool fetch_waits(const struct session *s);
/* Whether the session's job, which it has, is to read that range. */
bool fetch_is_of(const struct session *s, const struct segment *range);
/* The result of the session's job, which is done: how many bytes can be sent without waiting for
 * the disk, 0: the file ends before them, or -errno.  The bytes are in the page cache, or in
 * fetch_bytes(). */
long fetch_take(struct session *s);
/* The bytes that the job has from that offset on; NULL: it has none.  They stay until fetch_sent()
 * has reported the last one. */
struct iovec fetch_bytes(const struct session *s, uint64_t off);
void fetch_sent(struct session *s, uint64_t end);
/* The session ends, and its source has not been released yet. */
void fetch_forget(struct fetch *fetch, struct session *s);
/* next session whose job is done, or NULL */
struct session *fetch_done(struct fetch *fetch);

/* --- Part (part.c): bytes of a file for records and frames ------------------------------------ */
/* Up to as many bytes of a range as `to` has room for.  0: the file has become shorter; or -errno;
 * -EAGAIN: they are not in memory.  If nothing else of the connection waits to be sent (alone), a
 * helper reads them then, and the connection may wait until it is resumed. */
long part_read(const struct conn *c, const struct segment *range, struct iovec to, bool alone);

/* --- Stats (stats.c): counters in a shared mapping, one slot per process ---------------------- */
/* accepted = open + closed + lost */
enum stat_id {
#define X(name, help) STAT_##name,
#include "stats.def"
#undef X
    STATS,
    /* Cells that only the metrics show (metrics_text.c).  A cell with a sign counts down, too,
     * modulo 2^64. */
    STAT_CACHE_ENTRIES = STATS, /* entries of caches now; with a sign */
    STAT_CACHE_BYTES,           /* ... and the memory that they take; with a sign */
    STAT_REQUESTS, /* meter.c, while --metrics is given: answers begun, by method and status */
    STAT_TOOK = STAT_REQUESTS + 4 * 5, /* ... complete answers by the time that they took */
    STAT_TOOK_NS = STAT_TOOK + 17,     /* ... all these times together */
    STAT_CELLS
};
enum { METER_METHODS = 4, METER_CLASSES = 5, METER_BUCKETS = 17 };
struct stats;
int  stats_open(struct stats **stats, unsigned slots);
/* ... with cells for each of several hosts; 0: there are none, or no --metrics. */
int  stats_open_hosts(struct stats **stats, unsigned slots, unsigned hosts);
unsigned stats_hosts(const struct stats *stats);
/* Cells of a host: answers begun, as STAT_REQUESTS, which then stay 0; and bytes of bodies sent. */
enum { STAT_HOST_BYTES = METER_METHODS * METER_CLASSES, STAT_HOST_CELLS };
static inline enum stat_id stat_of_host(unsigned host, unsigned cell)
{
    return (enum stat_id)(STAT_CELLS + host * STAT_HOST_CELLS + cell);
}
void stats_close(struct stats *stats);
/* this process counts there; slot 0 unless told */
void stats_use(struct stats *stats, unsigned slot);
/* The calling thread is the only one that counts in its part of that slot, until
 * stats_own_end(). */
void stats_own_begin(struct stats *stats, unsigned slot);
void stats_own_end(void);
/* the slot's process died: connections that it had open are lost */
void stats_lose(struct stats *stats, unsigned slot);
void stats_add_shared(struct stats *stats, enum stat_id stat, uint64_t n);
extern _Thread_local _Atomic uint64_t *stats_own; /* all cells, or NULL */
/* Relaxed.  A thread with counters of its own needs no locked instruction, and shares no cache
 * line. */
static inline void stats_add(struct stats *stats, enum stat_id stat, uint64_t n)
{
    if (!stats_own) {
        stats_add_shared(stats, stat, n);
        return;
    }
    n += atomic_load_explicit(&stats_own[stat], memory_order_relaxed);
    atomic_store_explicit(&stats_own[stat], n, memory_order_relaxed);
}
/* ... for a counter whose largest value is wanted, not the sum: STAT_STACK_MOST */
void stats_most(struct stats *stats, enum stat_id stat, uint64_t n);
uint64_t stats_live(const struct stats *stats);      /* connections open now */
/* of all slots; for STAT_STACK_MOST the largest */
uint64_t stats_sum(const struct stats *stats, enum stat_id stat);
void stats_json(const struct stats *stats, char *buf, size_t cap); /* one line */
const char *stats_help(enum stat_id stat); /* what it counts, of one that stats.def has */

/* --- Meter (meter.c): what is counted while --metrics is given -------------------------------- */
/* An answer of that host begins.  Before that STAT_ANSWERS has counted it. */
void meter_begin(struct stats *stats, unsigned host, const struct http_receipt *receipt);
/* Bytes of its body were sent. */
void meter_sent(struct stats *stats, unsigned host, uint64_t body_bytes);
/* An answer was complete after that time. */
void meter_took(struct stats *stats, uint64_t ns);
/* The names of the cells, in order: "GET" to "other", and the upper edges of all buckets but the
 * last, as text in seconds. */
extern const char *const meter_methods[METER_METHODS];
extern const char *const meter_edges[METER_BUCKETS - 1];

/* --- Signals (signals.c): read from a descriptor, no handler runs ----------------------------- */
struct signals;
/* Call it before any other thread exists: threads inherit the mask.  0 or -errno. */
int signals_block(void);
/* srv must outlive *signals.  0 or -errno. */
int signals_open(struct signals **signals, struct server *srv);
/* readable: signals_act() has something to do */
int signals_fd(const struct signals *signals);
void signals_act(struct signals *signals);     /* does not wait */
/* ... or at the latest after this time has something to do; -1: not by itself */
int signals_wait_ms(const struct signals *signals);
/* Starts a thread that acts on signals from now on.  0 or -errno. */
int signals_watch(struct signals *signals);
void signals_close(struct signals *signals); /* ends that thread */

/* --- The server ------------------------------------------------------------------------------- */
struct serve_options; /* options.def by way of serve.h */
enum { HOSTS_MAX = 64 }; /* virtual hosts: each has a cache, and that one inotify instance */

/* How many workers, and what they are and share. */
struct arrangement {
    unsigned workers;
    bool processes;  /* false: threads */
    bool reuseport;  /* a set of listeners for each worker */
    bool steered;    /* ... chosen by the processor that receives a connection */
    bool pinned;     /* worker i stays on the i-th processor */
    struct tuning tuning;
    struct send_how send;
    bool delay;       /* of listeners: see struct net_listening */
    unsigned defer_s;
    const char *congestion;                /* of listeners; NULL: the system's default */
    char congestion_far[CONGESTION_NAME]; /* of connections from far peers; "": the same */
};

struct route;

/* In memory that all processes of the server share. */
struct server {
    const struct serve_options *opt;
    const struct engine *engine;
    const struct conn_proto *proto;
    struct tls_setup *tls; /* proto is tls_proto; or NULL */
    struct hosts *hosts; /* every site (hosts.h); NULL: one at most, which is the next */
    struct site *site;   /* the first; NULL for echo */
    const char *only;    /* the only file that is served, as in struct served; or NULL */
    const struct route *route; /* of the first site; NULL: each path is answered by itself alone */
    struct log *log;     /* of the first site; NULL: off */
    struct stats *stats;
    struct signals *signals; /* for the supervisor of processes; NULL: a thread handles them */
    struct metrics *metrics; /* what handles signals answers their clients, too; NULL: off */
    struct clients *clients; /* addresses that proxies report; NULL: none */
    struct limits *limits;   /* of each address (address_limits.h); NULL: none */
    bool health;             /* the public listeners answer /.rung/health */
    pid_t worker_pid[WORKERS_MAX]; /* of workers that are processes; 0: it does not run */
    unsigned listeners;
    unsigned port, plain_port; /* of all listeners, and of --redirect-http; 0: none */
    bool passed; /* another process opened them, and keeps them: passed.c */
    bool used_before; /* a worker process that accepted from them was killed */
    int (*listener)[LISTENERS_MAX]; /* one set, or one for each worker (SO_REUSEPORT) */
    bool swept;  /* another process removes the names of unix sockets: see sweep.c */
    atomic_bool handed; /* another server has them too: handover.h */
    int stop_fd;            /* eventfd written once at the first stop signal */
    atomic_int stopping;    /* stop signals so far: at 2 everything is cut off at once */
    atomic_uint left;       /* workers that are threads: how many have left the listeners */
    /* from the options, where every loop finds them */
    uint64_t head_ms, idle_ms, send_ms, drain_ms;
    uint64_t connections_max;
    uint64_t cache_bytes; /* of a process's cache of answers; 0: none */
    unsigned backlog; /* connections that a listener's queue holds; 0: not known */
    struct arrangement arrangement;
    const char *server_field; /* what Server says in answers (host.server) */
    bool server_timing;       /* answers have that field */
    uint32_t progress_bytes, body_bytes_max;
    struct handover *handover; /* NULL: no next server can ask for the listeners */
    int begun_fd;              /* eventfd written by each worker that has begun; 0: none */
    atomic_bool begun[WORKERS_MAX];
    struct sweep *sweep;       /* NULL: there are no names to remove, or we can do it */
};

/* --- Mounts (mounts.c) ------------------------------------------------------------------------ */
/* The list of mounts, opened again: a descriptor, or -1 and errno; NULL: it cannot be opened. */
int mounts_open(void);
FILE *mounts_list(void);
/* Open it once, so that it can be opened again later; the descriptor stays open.  Or -errno. */
int mounts_keep(void);

/* The worker waits for clients, with all that its engine needs: says so once.  A loop asks in each
 * turn, so what is done once is elsewhere (listeners.c). */
void worker_say_begun(struct worker *w);
static inline void worker_begun(struct worker *w)
{
    if (!w->begun)
        worker_say_begun(w);
}

/* workers.c: run the engine on all workers until asked to stop.  0 or -errno. */
int server_run(struct server *srv);
/* worker.c: the same for one worker, on this thread.  If it fails, others in this process stop. */
int worker_run(struct server *srv, unsigned number);
/* Whether a listener or a connection has the port of --redirect-http, where every request is
 * redirected and TLS is not spoken. */
static inline bool is_redirected(const struct server *srv, int fd)
{
    return srv->plain_port && net_port(fd) == (int)srv->plain_port;
}

/* Async-signal-safe: one more stop signal.  With the first the listeners take no new handshake. */
void server_stop(struct server *srv);

/* The end of listening (listeners.c).  Handshakes under way at the first stop signal have
 * LAST_CALL_MS to complete, several round trips of a local network.  A new one is delayed, because
 * its client sends the first packet again a second later.  Until the listeners are closed, each
 * thread that could close them looks every LEAVE_TICK_MS. */
enum { LAST_CALL_MS = 10, LEAVE_TICK_MS = 5 };
/* A listener is closed when every process has closed it.  Nothing is shut down: a process that is
 * not ours may hold the listener too, and keeps its queue. */
void worker_leave(struct worker *w);                         /* the last one in a process closes */
void listeners_only(const struct server *srv, unsigned set); /* this process closes the others */
void listeners_leave(const struct server *srv);              /* this process closes all */
/* Stopping: whether a thread that has accepted `taken` connections since the first signal accepts
 * more.  It accepts as many as its queues can have held then, and as many handshakes under way.
 * Otherwise clients that never stop connecting to a unix socket, which has no filter, would always
 * find it open. */
bool worker_takes_last(const struct worker *w, unsigned taken);
/* A connection from any listener of the worker, without waiting; -EAGAIN: none, or -errno. */
int worker_accept_now(struct worker *w);
/* ... from the i-th one; blocking: the new socket's mode. */
int worker_accept_from(struct worker *w, unsigned i, bool blocking);

/* Whether a client waits in one of the listeners' queues. */
bool worker_awaited(const struct worker *w);
/* Connections that wait for a slot, in the listeners' queues and for a thread; if the number cannot
 * be known, 1 for all. */
unsigned worker_waiting(const struct worker *w);
/* Whether other workers sleep on the same listeners.  The kernel wakes one of them for a client;
 * if that one had no slot, the client would wait though another worker has one.  So a worker that
 * is full steps back. */
bool worker_shares(const struct worker *w);

/* Processors that this thread may use, and all that the machine may have (processors.c). */
unsigned processors_usable(void);
unsigned processors_all(void);
/* This thread, and those it starts from now on, stay on the number-th that it may use; after the
 * last the first follows again.  0 or -errno. */
int processors_pin(unsigned number);

/* Say on stderr that descriptors or memory are short, at most once in ten seconds. */
void shortage_say(int err);

/* --- Loops and sessions among themselves (loop.c, host.c, session.c, blocking.c) -------------- */
void host_init(struct http_host *h, struct loop *l);

/* A connection begins, on any thread; and ends, whichever thread served it.  A blocking one may end
 * in parts: session_leave(), session_gone(). */
void session_init(struct loop *l, struct session *s, int fd);
void session_fini(struct loop *l, struct session *s);
/* A connection in the loop's list and wheel; NULL: no memory, and fd is closed. */
struct session *session_open(struct loop *l, int fd);
struct session *session_of_timer(struct wheel_node *n);
void session_glance(struct loop *l, struct session *s);
void session_say_last(struct loop *l, struct session *s);
/* A connection inside another, which is a session's own, or inside one itself. */
struct nested {
    struct conn conn;
    struct conn *outer;
};
static inline const struct session *session_of_conn(const struct conn *c)
{
    _Static_assert(offsetof(struct nested, conn) == 0, "its first member");
    while (c->nested)
        c = ((const struct nested *)c)->outer;
    return (const struct session *)((const char *)c - offsetof(struct session, conn));
}
void session_list_add(struct loop *l, struct session *s); /* at the back */
void session_list_del(struct loop *l, struct session *s);
bool session_is_local(const struct session *s); /* no thread or cancelled operation has it */
bool session_idle(const struct session *s); /* idle, and nothing waits unread in its socket */
/* Stopping: whether it can be closed without loss.  A connection that was answered, or accepted,
 * only just now keeps its slot for a moment, because its next request may be on the way.  A slow
 * client has more time if the next server serves already; so it has, before its first request,
 * where another process keeps the listeners, because such a server must lose no request. */
enum { HANDED_IDLE_MS = 1000 };
bool session_may_leave(const struct worker *w, const struct session *s, uint64_t now_ms);
/* The session's place now, when others wait for its slot (core/room.h). */
struct room_place session_place(struct session *s, const struct room *r);
/* The session's deadline has passed: true, the time is up; false, there was progress, or an unread
 * request has arrived, and a new deadline is set. */
bool session_overdue(struct session *s, uint64_t now_ms);

/* --- Victims (victims.c): sessions that give up their slots ----------------------------------- */
/* At most as many as a turn accepts: row[next..count), the first to close first. */
enum { VICTIMS_MAX = ACCEPT_BUDGET };
struct victims {
    struct room room;
    unsigned wanted, next, count;
    struct room_victim row[VICTIMS_MAX];
};
/* As many as connections wait for a slot of this worker. */
void victims_begin(struct victims *v, const struct worker *w, uint64_t now_ms);
void victims_look(struct victims *v, struct session *s);
void victims_forget(struct victims *v, const struct session *s);

/* --- Batches (batch.c) ------------------------------------------------------------------------ */

enum { BATCH_BYTES = 2048 }; /* most heads fit; the rest of a longer one is received by itself */
struct received {
    struct session *session;
    long n; /* the result of net_recv() */
    char bytes[BATCH_BYTES];
};
struct batch {
    unsigned next; /* to be given out */
    struct received in[BATCH_MAX];
};

/* --- Watchdog (watchdog.c): one thread for all blocking sessions of a process ----------------- */
int  watchdog_open(struct watchdog **wd, struct worker *w);
void watchdog_close(struct watchdog *wd);
/* A session is registered from accept to close; the serving thread brackets every look at the
 * machine (not the transfers) with enter/leave, so that the watchdog reads a steady deadline.  The
 * watchdog never closes: it shuts the socket down under the lock, and the serving thread sees the
 * end. */
void watchdog_add(struct watchdog *wd, struct session *s);
void watchdog_del(struct watchdog *wd, struct session *s);
/* Whether all slots are taken, or as good as taken: other connections wait in this worker. */
bool watchdog_full(struct watchdog *wd);
/* Whether others wait, and this session, which its own thread has, has been silent too long. */
bool watchdog_turns_away(struct watchdog *wd, struct session *s);
/* Sets a smaller number of slots: not all threads could be started. */
void watchdog_limit(struct watchdog *wd, unsigned slots);
/* A connection waits for a slot: the watchdog looks soon. */
void watchdog_hurry(struct watchdog *wd);
/* Stopping: whether the watchdog has taken what was left in the listeners' queues and closed them;
 * the next of those connections, or -ECANCELED: there is none. */
bool watchdog_left(const struct watchdog *wd);
int  watchdog_last(struct watchdog *wd);
void watchdog_enter(struct watchdog *wd, struct session *s);
void watchdog_leave(struct watchdog *wd, struct session *s);
/* Between enter and leave: whether the watchdog has shut the socket for receiving. */
bool watchdog_has_shut(const struct session *s);

/* --- Line (line.c): a session's socket, as the core's pump sees it ---------------------------- */
/* The socket, and what this thread sends with, while it has the session. */
struct line {
    int fd;
    struct conn *conn;
    uint32_t *received; /* of the loop */
    const struct received *ahead; /* what was received already; or NULL */
    bool corks, corked; /* whether an answer's bytes wait for the rest of it; whether they do now */
    struct sender *sender;
    struct fetch *fetch; /* of the loop that pumps it; NULL: this thread may wait for the disk */
};

static inline struct line line_of(struct loop *l, struct session *s)
{
    return (struct line){
        .fd = s->fd, .conn = &s->conn, .received = &l->received, .ahead = l->ahead,
        .corks = l->worker->server->arrangement.send.cork, .sender = l->sender};
}
extern const struct transport line_transport; /* its io is a struct line */
long line_recv(void *io, char *buf, size_t cap);
long line_send(void *io, const struct conn_out *out);
void line_shut(void *io);
/* Everything has been handed over: waiting bytes are sent now.  The pump that hands over the last
 * bytes has sent some, so it knows of the cork, even if an earlier pump set it first. */
static inline void line_uncork(struct line *line)
{
    if (line->corked)
        net_cork(line->fd, false);
    line->corked = false;
}
/* The last answer is out.  If the client keeps its promise and sends nothing more, closing resets
 * nothing, and answer and end of stream share one packet (struct conn_out, last).  If the client
 * has sent something anyway, the connection lingers. */
void line_end(struct conn *c, int fd);

#endif
