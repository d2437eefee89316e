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
 * Half-duplex: a connection reads or writes, never both.  Bytes given to conn_feed() are the
 * caller's and are never kept; segments shown by conn_out() are the connection's until conn_sent().
 * The time is an argument.  Engines read conn->want and conn->deadline_ms, nothing else.  An idle
 * connection owns no buffer: the input queue (a split head, pipelined requests) and the send queue
 * (answers) are allocated by the host when first needed and freed when empty.
 */
#ifndef CORE_CONN_H
#define CORE_CONN_H
#include "env.h"
#include "limits.h"

struct conn;
struct http_ask;
struct http_receipt;
struct http_recent;

/* --- What the core needs from its host -------------------------------------------------------- */

enum source_kind {
    SOURCE_BODY,    /* a representation: bytes in memory or a file */
    SOURCE_MADE,    /* a listing: in bytes, or made by next() if its length is unknown */
    SOURCE_REDIRECT /* the name is a directory's and lacks its final slash: 301 */
};

/* If a client gives two codings the same weight, the one declared later is sent. */
enum coding { CODING_IDENTITY, CODING_GZIP, CODING_ZSTD, CODING_BR, CODINGS };

/* The answer that nearly every client gets: to a GET of HTTP/1.1, within one second, with the
 * connection kept open. */
struct whole {
    int64_t date_s;
    const char *bytes;      /* head and body */
    uint32_t len, head_len;
};

/* One representation, in the host's memory, held from find() to release().  Until release() it does
 * not change, unless it is made. */
struct source {
    enum source_kind kind;
    enum coding coding;
    bool vary;         /* another coding of it exists, or may be made: answers carry Vary */
    const char *bytes; /* the body in memory, or NULL: it is in file */
    void *file;        /* what transport.send() knows how to send from; opaque here */
    uint64_t size;     /* bytes of the body */
    const char *type;  /* Content-Type, NUL-terminated, from our own table */
    uint64_t inode;    /* size, inode, mtime and ctime make the ETag; mtime also Last-Modified */
    int64_t mtime_s;
    uint32_t mtime_ns;
    int64_t ctime_s;
    uint32_t ctime_ns;
    /* If the host has made these bytes from the file, in that coding: a hash of them, and the
     * file's size; both are in the ETag.  0: the bytes are a file's own. */
    uint64_t made, made_of;
    /* The file changed so recently that it may change again and keep its size and times: the ETag
     * is weak (RFC 9110 8.8.1). */
    bool young;
    /* For a source that is sent often: the text from http_fields_write(); NULL: it is written each
     * time. */
    const char *fields;
    size_t fields_len;
    /* For a source that is sent even more often: the whole answer from http_whole_write(), so that
     * nothing is written or copied; or NULL.  The bytes live as long as the source. */
    const struct whole *whole;
    /* A number that the host will never use for another body or other fields; 0: none. */
    uint64_t version;
    /* SOURCE_MADE without bytes: writes up to cap bytes (>= CHUNK_BYTES_MAX) into buf.  Returns how
     * many, 0 at the end of the body, or one of enum source_answer. */
    size_t (*next)(struct source *source, char *buf, size_t cap);
};

/* What next() may return instead of a count.  LATER: the bytes are not made yet.  Queued output is
 * sent, then next() is called again; if it returns LATER again with nothing queued, the connection
 * waits for conn_resume().  FAILED: they cannot be made, and the connection is reset, so that the
 * client sees that the body is cut short. */
enum source_answer { SOURCE_LATER = CHUNK_BYTES_MAX + 1, SOURCE_FAILED };

/* All functions get `site`.  Times are milliseconds.  The struct outlives every connection that
 * uses it. */
struct host {
    void *site;

    /* Finds the requested representation: 0 and *source; -ENOENT 404, -EACCES or -EPERM 403,
     * -ENAMETOOLONG 404, -EMFILE, -ENFILE, -ENOMEM, -EAGAIN, -ESTALE 503; others 500.
     * -EINPROGRESS: not ready yet; the connection waits, and conn_resume() calls find() again with
     * the same ask. */
    int (*find)(void *site, const struct http_ask *ask, struct source **source);

    /* Finds the site's own page for an error status (404.html), or -ENOENT.  -EINPROGRESS as above,
     * but not when the peer has finished sending. */
    int (*page)(void *site, unsigned status, struct source **source);
    void (*release)(void *site, struct source *source);

    /* An answer has been decided.  The returned note (may be NULL) is passed to answered() when the
     * answer's last byte is sent or the connection has ended.  The receipt's slices live only
     * during the call. */
    void *(*answer)(void *site, const struct conn *conn, const struct http_receipt *receipt);
    void (*answered)(void *site, void *note, uint64_t body_bytes, bool complete);

    /* HTTP: writes further fields of the answer that is decided next, each with its CRLF, into out,
     * which has room for HOST_FIELDS_BYTES_MAX.  Returns how many bytes.  NULL: no further
     * fields. */
    size_t (*fields)(void *site, const struct conn *conn, char *out);

    /* A connection that got -EINPROGRESS will not ask again: discard its job, finished or not. */
    void (*forget)(void *site, const struct conn *conn);

    void *(*alloc)(void *site, size_t bytes); /* its two queues; NULL: the connection is closed */
    void (*free)(void *site, void *mem, size_t bytes);

    const char *date; /* IMF-fixdate, 29 bytes, kept up to date by the loop (RFC 9110 6.6.1) */
    int64_t date_s;   /* the same as a number */
    uint32_t head_ms; /* from connect or a head's first byte to its last; bytes do not extend it */
    uint32_t idle_ms; /* between two requests */
    uint32_t send_ms; /* in this time at least progress_bytes of a body move, in either direction */
    uint32_t progress_bytes;
    uint32_t body_bytes_max; /* of a request */
    bool closing;            /* the server drains: answers say Connection: close */
    const char *server;      /* HTTP: what Server says (RFC 9110 10.2.4); NULL: "rung" */
    struct http_recent *recent; /* HTTP: heads seen before; NULL: every head is parsed */
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

/* The segments that may be sent now, as one gather: up to OUT_SEGMENTS_MAX; only the last one may
 * be a file range. */
struct conn_out {
    const struct segment *seg;
    unsigned count;
    bool last; /* the stream ends after these, perhaps at once: see conn_promised() */
};

struct conn_proto {
    const char *name;
    /* Consumes bytes and queues output.  Returns bytes used; 0 = more are needed (these are kept
     * and shown again with those that follow); -EINPROGRESS = wait for the host, nothing was used.
     * input() is called again while it uses bytes, the send queue has room for another answer and
     * the connection is not closing. */
    long (*input)(struct conn *c, const char *bytes, size_t n);
    /* The send queue is empty and the protocol called conn_more(): queue the next piece of the
     * answer. */
    void (*more)(struct conn *c);
    /* The peer has finished sending; unused bytes (a partial message) may be in the input queue. */
    void (*end)(struct conn *c, size_t unused);
    /* The connection ends while conn_more() or conn_in_body() is on: release what the protocol
     * holds in its state.  Pass a note that has not been handed over to conn_put_end().  drop() is
     * called before queued segments are dropped, so that host->answered() gets this note like the
     * others. */
    void (*drop)(struct conn *c);
};

struct inq;
struct outq;

struct conn {
    const struct conn_proto *proto;
    const struct host *host;
    uint64_t deadline_ms; /* absolute: past it, conn_overdue() decides */
    struct inq *in;       /* NULL: nothing waits */
    struct outq *out;     /* NULL: nothing to send */
    uint64_t sent;        /* bytes sent on this connection */
    uint64_t word[2];     /* the protocol's own; zero at first */
    uint32_t moved;       /* RECV: body bytes; LINGER: discarded; SEND: see conn_overdue() */
    uint32_t requests;    /* answers queued in full; counted by the machine */
    uint32_t generation;  /* free for the owner: tells a new connection from an old one here */
    uint8_t want;         /* enum conn_want */
    uint8_t flags;        /* the machine's: closing, mid-message, in a body, end of stream seen */
    uint8_t proto_flags : 7; /* the protocol's own */
    uint8_t promised : 1;    /* the machine's: see conn_promised() */
    uint8_t owner_state;  /* free for the owner (session state) */
};

/* Sets every field; those that are free for the owner become zero. */
void conn_init(struct conn *c, const struct conn_proto *proto, const struct host *host,
               uint64_t now_ms);

/* want must be CONN_RECV, or CONN_LINGER (bytes are discarded).  n <= RECV_BYTES_MAX; 0: end of
 * stream. */
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

/* The deadline has passed.  acked: bytes of conn->sent that the peer is known to have (or
 * conn->sent where that cannot be known).  True: the time is up.  False: there was progress, and a
 * new deadline is set.  The machine itself remembers what acked was (in conn->moved); the caller
 * keeps nothing. */
bool conn_overdue(struct conn *c, uint64_t acked, uint64_t now_ms);

/* The connection may be idle, its deadline has passed, and unread bytes wait: they arrived in time,
 * but the caller looks late.  True: the connection was idle; the time of a head begins now. */
bool conn_spoken(struct conn *c, uint64_t now_ms);

/* Error, cancel, time-out.  Not while a send of its segments is in flight.  want becomes
 * CONN_CLOSE. */
void conn_abort(struct conn *c);

/* Whether the connection must be reset if it ends now: bytes of an answer are queued, or the rest
 * of it is not made yet or cannot be made.  Call it before conn_fini(). */
bool conn_unfinished(const struct conn *c);

/* Frees and releases everything; the last call on a connection, in any state. */
void conn_fini(struct conn *c);

/* The last answer is sent (CONN_LINGER): true once, and the caller must then shut the sending side
 * of the transport.  conn_pump() does so itself. */
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
    char *scratch; /* RECV_BYTES_MAX bytes, not shared during the call */
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

/* The output queued last ends an answer.  If nothing is queued any more, the bytes sent last ended
 * it. */
void conn_put_end(struct conn *c, void *note);

void conn_more(struct conn *c, bool more); /* call proto->more() when all has been sent */
/* more() has nothing to queue yet: it is called again when the send queue has run empty, or, if it
 * is empty now, after conn_resume(). */
void conn_wait(struct conn *c);
/* more() cannot go on, and the end of the stream would look like the end of the answer. */
void conn_fail(struct conn *c);
void conn_close_after(struct conn *c); /* no further input is used; close when the output is sent */
/* The peer has promised that its message, whose answer ends the connection, is its last. */
void conn_promise(struct conn *c);
void conn_in_body(struct conn *c, bool in); /* progress rule, not the head's deadline */

/* Three parts of the send queue, available after conn_room(), aligned for any type.  conn_state():
 * the state of an answer in progress, CONN_STATE_BYTES, zeroed when first asked for in each
 * message.  conn_keep(): a copy of the head being answered (HEAD_BYTES_MAX bytes), for requests
 * whose body must be read first.  Both last while conn_more() or conn_in_body() is on, because the
 * send queue is not freed then.  conn_work(): scratch for one call of the protocol,
 * CONN_WORK_BYTES, because a parsed head and a decoded path are too big for a kernel stack. */
enum {
    CONN_STATE_BYTES = 512,
    CONN_WORK_BYTES = 4608 + 2048 + PATH_BYTES_MAX /* struct http_work: head, page, path */
};
void *conn_state(struct conn *c);
char *conn_keep(struct conn *c);
void *conn_work(struct conn *c);

extern const struct conn_proto echo_proto, http_proto;

#endif
