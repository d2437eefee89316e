/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* conn.h - one connection as a machine that never touches a socket: the waist of rung.
 *
 *             conn_feed(bytes)                conn_sent(n)
 *   CONN_RECV ----------------> CONN_SEND -----------------> CONN_RECV
 *    |  ^  |                      |   |
 *    |  |  `-> CONN_WAIT ---------'   |  the last answer is out
 *    |  `-- conn_resume()             +--> CONN_LINGER: shut the sending side, discard, then close
 *    `--------- conn_abort() ---------`--> CONN_CLOSE
 *
 * Half-duplex: a connection reads or writes, never both.  A protocol whose requests and answers are
 * interleaved (conn_duplex()) is an exception: between two sends the caller receives what is there,
 * without waiting.  Bytes given to conn_feed() are the caller's and are never kept; segments shown
 * by conn_out() are the connection's until conn_sent().  The time is an argument.  Engines read
 * conn->want and conn->deadline_ms, nothing else.  An idle connection owns no buffer: the input
 * queue (a split head, pipelined requests) and the send queue (answers) are allocated by the host
 * when first needed and freed when empty.
 */
#ifndef CORE_CONN_H
#define CORE_CONN_H
#include "env.h"
#include "limits.h"

struct conn;
struct source;

/* --- What the core needs from its host -------------------------------------------------------- */

/* All functions get `ctx`.  Times are milliseconds.  The struct outlives every connection that uses
 * it. */
struct conn_host {
    void *ctx;
    void *(*alloc)(void *ctx, size_t bytes); /* its two queues; NULL: the connection is closed */
    void (*free)(void *ctx, void *mem, size_t bytes);

    /* A range of a source is sent, or never will be: gives the reference back. */
    void (*release)(void *ctx, struct source *source);

    /* The last byte of an answer is sent, or the connection has ended before.  The note is the
     * protocol's: see conn_put_end(). */
    void (*answered)(void *ctx, void *note, uint64_t body_bytes, bool complete);

    /* A connection that got -EINPROGRESS will not ask again: discard its job, finished or not. */
    void (*forget)(void *ctx, const struct conn *conn);

    uint32_t head_ms; /* from connect or a message's first byte to its last; more does not help */
    uint32_t idle_ms; /* between two messages */
    uint32_t send_ms; /* in this time at least progress_bytes of a body move, in either direction */
    uint32_t progress_bytes;
};

/* --- The machine ------------------------------------------------------------------------------ */

enum conn_want { CONN_RECV, CONN_SEND, CONN_WAIT, CONN_LINGER, CONN_CLOSE };

/* One piece of output.  The machine advances bytes or off as it is sent. */
struct segment {
    const char *bytes; /* NULL: a range of source->file */
    uint64_t off, len;
    struct source *source; /* where it comes from, or NULL; released when done, unless lent */
    void *note;            /* of the answer that it ends; passed to host->answered() when done */
    uint32_t lead;         /* bytes at the start of a body's segment that belong to the head */
    bool body;             /* the others count as body bytes */
    bool ends;             /* last of its answer */
    bool lent;             /* the protocol releases source */
};

/* What may be sent now, as one gather: OUT_SEGMENTS_MAX at most; only the last may be a range. */
struct conn_out {
    const struct segment *seg;
    unsigned count;
    bool more; /* MSG_MORE: the end (conn_promised()) or more bytes (conn_follows()) are at hand */
};

struct conn_proto {
    const char *name;
    /* Consumes bytes and queues output.  Returns bytes used; 0 = more are needed (these are kept
     * and shown again with those that follow); -EINPROGRESS = wait for the host, nothing was used.
     * input() is called again while it uses bytes, the send queue has room for another answer and
     * the connection is not closing. */
    long (*input)(struct conn *c, const char *bytes, size_t n);
    /* The send queue is empty and the protocol called conn_more(): queue the next piece of the
     * answer, end the answer, or call conn_wait(). */
    void (*more)(struct conn *c);
    /* The peer has finished sending; unused bytes (a partial message) may be in the input queue. */
    void (*end)(struct conn *c, size_t unused);
    /* The connection ends while conn_more() or conn_in_body() is on: release what the protocol
     * holds in its state.  Pass a note that has not been handed over to conn_put_end().  drop() is
     * called before queued segments are dropped, so that host->answered() gets this note like the
     * others. */
    void (*drop)(struct conn *c);
    /* Whether part of a message has arrived, for a protocol that knows better than the machine,
     * which takes bytes that brought no answer for a part.  NULL: it does not. */
    bool (*begun)(const struct conn *c);
    /* The last call on a connection, from conn_fini(): release what belongs to the connection. */
    void (*fini)(struct conn *c);
    /* For a protocol that has begun() and several messages at a time.  The connection wants to
     * receive, and is not in a body: when is the peer's time up, or 0: the machine decides as for
     * all others.  NULL: always 0. */
    uint64_t (*due)(struct conn *c, uint64_t now_ms);
    /* The connection is idle, and is closed next: queue what the peer should know, if anything. */
    void (*leave)(struct conn *c);
};

struct inq;
struct outq;

struct conn {
    const struct conn_proto *proto;
    const struct conn_host *host;
    uint64_t deadline_ms; /* absolute: past it, conn_overdue() decides */
    struct inq *in;       /* NULL: nothing waits */
    struct outq *out;     /* NULL: nothing to send */
    uint64_t sent;        /* bytes sent on this connection */
    uint32_t moved;       /* RECV: body bytes; LINGER: discarded; SEND: see conn_overdue() */
    uint32_t requests;    /* answers queued in full; counted by the machine */
    uint8_t want;         /* enum conn_want */
    uint8_t flags;        /* the machine's: closing, mid-message, in a body, end of stream seen */
    uint8_t proto_flags : 7; /* the protocol's own */
    uint8_t promised : 1;    /* the machine's: see conn_promised() */
    bool nested : 1;         /* the owner's: it speaks inside another connection */
    bool duplex : 1;         /* the protocol's: see conn_duplex() */
    bool owes : 1;           /* the protocol's: see conn_owes() */
    bool stays_open : 1, follows : 1; /* the protocol's: see conn_stays_open(), conn_follows() */
};

/* Sets every field. */
void conn_init(struct conn *c, const struct conn_proto *proto, const struct conn_host *host,
               uint64_t now_ms);

/* want must be CONN_RECV, or CONN_LINGER (bytes are discarded), or conn_glances() be true.
 * n <= RECV_BYTES_MAX; 0: end of stream. */
void conn_feed(struct conn *c, const char *bytes, size_t n, uint64_t now_ms);

/* want must be CONN_SEND; the segments stay valid and unchanged until conn_sent() or
 * conn_abort(). */
struct conn_out conn_out(const struct conn *c);

/* The transport has taken n bytes of conn_out(); n > 0, not more than shown. */
void conn_sent(struct conn *c, size_t n, uint64_t now_ms);

/* The host has finished what it put off (-EINPROGRESS of find(), SOURCE_LATER of next()), so the
 * protocol asks again.  While earlier output is still being sent (CONN_SEND), the call is only
 * recorded.  find() is never repeated for a job that has not been resumed. */
void conn_resume(struct conn *c, uint64_t now_ms);

/* During find(): whether this request's find() was called before, and put the answer off. */
bool conn_asks_again(const struct conn *c);

/* Like conn_resume(), in any want, for a connection whose protocol's more() has something new to
 * say though nothing was received: an answer inside it has been made.  CONN_RECV may become
 * CONN_SEND; a receive in flight is then not waited for. */
void conn_kick(struct conn *c, uint64_t now_ms);

/* Whether the caller should now receive what is there, without waiting, and feed it, although want
 * is CONN_SEND.  False for protocols that are not duplex, and while earlier input waits. */
bool conn_glances(const struct conn *c);

/* The connection is about to be closed.  True: it is idle and has last words, which conn_out()
 * shows; the caller sends what the transport takes at once, and then closes as planned. */
bool conn_leave(struct conn *c, uint64_t now_ms);

/* The deadline has passed.  acked: bytes of conn->sent that the peer is known to have (or
 * conn->sent where that cannot be known).  True: the time is up.  False: there was progress, and a
 * new deadline is set.  The machine itself remembers what acked was (in conn->moved); the caller
 * keeps nothing. */
bool conn_overdue(struct conn *c, uint64_t acked, uint64_t now_ms);

/* The connection may be idle, its deadline has passed, and unread bytes wait: they arrived in time,
 * but the caller looks late.  True: the connection was idle; the time of a head begins now. */
bool conn_spoken(struct conn *c, uint64_t now_ms);

/* After an error, a cancellation or a time-out: want becomes CONN_CLOSE.  Must not be called while
 * a send of the connection's segments is in flight. */
void conn_abort(struct conn *c);

/* Whether the connection must be reset if it ends now: bytes of an answer are queued, or the rest
 * of it is not made yet or cannot be made.  Call it before conn_fini(). */
bool conn_unfinished(const struct conn *c);

/* Frees and releases everything; the last call on a connection, in any state. */
void conn_fini(struct conn *c);

/* The last answer is sent (CONN_LINGER): true once, and the caller must then shut the sending side
 * of the transport.  conn_pump() does so itself.  Never true after conn_stays_open(). */
bool conn_shuts(struct conn *c);

/* Whether the peer has promised to send nothing after the message whose answer ends the connection,
 * and nothing more was received.  The connection need not linger then: when the last answer is sent
 * (conn_shuts()) and the transport has nothing unread, the caller may abort and close at once, so
 * that the end of the stream travels with the answer.  See
 * docs/decisions/010-closing-at-once.md. */
bool conn_promised(const struct conn *c);

/* No byte of a message has arrived and no answer is owed: the connection may be closed without
 * loss. */
bool conn_idle(const struct conn *c);

/* --- The pump: shared by all callers with synchronous recv and send --------------------------- */

/* Bytes moved, or -errno; recv: 0 = end of stream; send of a file that has become shorter: 0.
 * -EAGAIN (-11): would block.  shut: no more will be sent (lingering close); it may abort the
 * connection instead, see conn_promised(). */
struct transport {
    long (*recv)(void *io, char *buf, size_t cap);
    long (*send)(void *io, const struct conn_out *out);
    void (*shut)(void *io);
};

struct pump {
    const struct transport *transport;
    void *io;      /* the transport's first argument */
    char *scratch; /* recv_bytes long, not shared during the call */
    uint32_t recv_bytes; /* the most that one receive takes: 1..RECV_BYTES_MAX */
    bool edge;     /* edge-triggered: read until -EAGAIN.  False: a short read drained the socket */
    bool more;     /* out: stopped by the budget, not by the socket: call again without waiting */
};

/* Move bytes both ways until the transport would block, the budget is spent or the connection is
 * done.  Returns c->want: RECV or SEND or LINGER = wait for that readiness; WAIT; CLOSE. */
enum conn_want conn_pump(struct conn *c, struct pump *p, uint64_t now_ms);

/* --- For protocols ---------------------------------------------------------------------------- */

/* Whether there is room for one more answer: a segment pair and REPLY_HEAD_BYTES_MAX bytes.
 * Allocates the send queue if there is none; if that fails, returns false and the connection is
 * closing. */
bool conn_room(struct conn *c);

/* Where the next head is written, and how much fits (>= REPLY_HEAD_BYTES_MAX after conn_room()). */
char *conn_space(struct conn *c, size_t *cap);

/* n bytes written at conn_space() become output; body: they count as body bytes.  Those of one
 * answer are joined into a segment. */
void conn_wrote(struct conn *c, size_t n, bool body);

/* Queues a range of a source.  The connection takes over one reference of the caller's: it is
 * released when the range is sent, or at once if the range is short and in memory, because it is
 * then copied. */
void conn_put_source(struct conn *c, struct source *source, uint64_t off, uint64_t len);

/* Queues the whole answer of a source that has one, and takes over the reference.  The answer may
 * be copied, as above, if other output waits before it and the source has no file. */
void conn_put_whole(struct conn *c, struct source *source);

/* Like conn_put_source(), but the caller keeps the reference until these bytes are sent or drop()
 * is called.  For several ranges of one source: lend all but the last, and put the last. */
void conn_lend_source(struct conn *c, struct source *source, uint64_t off, uint64_t len);

/* Queues a segment that another connection shows, whose bytes and source stay there until these are
 * sent or dropped: the caller's next conn_sent() for that connection comes afterwards. */
void conn_lend_segment(struct conn *c, const struct segment *shown);

/* The output queued last ends an answer.  If nothing is queued any more, the bytes sent last ended
 * it. */
void conn_put_end(struct conn *c, void *note);

void conn_more(struct conn *c, bool more); /* call proto->more() when all has been sent */
/* more() has nothing to queue yet: it is called again when the send queue has run empty, or, if it
 * is empty now, after conn_resume(). */
void conn_wait(struct conn *c);
void conn_follows(struct conn *c, bool follows); /* more() has bytes at hand, without waiting */
/* more() cannot go on, and the end of the stream would look like the end of the answer. */
void conn_fail(struct conn *c);
/* The caller must not shut the sending side of the transport: another thread has a copy of it, and
 * still sends.  conn->stays_open says so, after conn_fini() as well. */
void conn_stays_open(struct conn *c);
void conn_close_after(struct conn *c); /* no further input is used; close when the output is sent */
/* The peer has promised that its message, whose answer ends the connection, is its last. */
void conn_promise(struct conn *c);
void conn_in_body(struct conn *c, bool in); /* progress rule, not the head's deadline */
bool conn_reads_body(const struct conn *c); /* conn_in_body() is on */

/* Requests may arrive while answers leave.  input() is then called while more() has work, too, and
 * however full the send queue is; it uses all bytes, or as many as it can and leaves the rest for
 * when the connection wants to receive. */
void conn_duplex(struct conn *c);
/* Allocates the send queue if there is none.  False: no memory, and the connection is closing. */
bool conn_queue(struct conn *c);
/* The host makes an answer while the connection wants to receive: it keeps its slot. */
void conn_owes(struct conn *c, bool owes);

/* Three parts of the send queue, available after conn_room(), aligned for any type.  conn_state():
 * the state of an answer in progress, CONN_STATE_BYTES, zeroed when first asked for in each
 * message.  conn_keep(): a copy of the head being answered (HEAD_BYTES_MAX bytes), for requests
 * whose body must be read first.  Both last while conn_more() or conn_in_body() is on, because the
 * send queue is not freed then.  conn_work(): scratch for one call of the protocol,
 * CONN_WORK_BYTES, because a parsed head and a decoded path are too big for a kernel stack. */
enum {
    CONN_STATE_BYTES = 512,
    CONN_WORK_BYTES = 6656 + PATH_BYTES_MAX
};
void *conn_state(struct conn *c);
char *conn_keep(struct conn *c);
void *conn_work(struct conn *c);

/* The smallest protocol: sends back what it receives (echo_proto.c). */
extern const struct conn_proto echo_proto;

#endif
