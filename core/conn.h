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
 * Half-duplex: it reads or it writes, never both.  Bytes given to conn_feed() are the caller's and
 * are never kept; segments shown by conn_out() are the connection's until conn_sent().  Time comes
 * in as an argument.  Engines read conn->want and conn->deadline_ms, nothing else.  An idle
 * connection owns no buffer: the stash (a split head, pipelined requests) and the outbox (answers)
 * come from the host when first needed and go back when empty.
 */
#ifndef CORE_CONN_H
#define CORE_CONN_H
#include "env.h"
#include "limits.h"

struct conn;
struct http_ask;
struct http_receipt;
struct http_recent;

/* --- What the core asks of the world ---------------------------------------------------------- */

enum source_kind {
    SOURCE_BODY,    /* a representation: bytes in memory or a file */
    SOURCE_MADE,    /* a listing: it lies in bytes, or, its length unknown, next() makes it */
    SOURCE_REDIRECT /* the name is a directory's and lacks its final slash: 301 */
};

/* Of two that a client likes as well the later one is sent. */
enum coding { CODING_IDENTITY, CODING_GZIP, CODING_ZSTD, CODING_BR, CODINGS };

/* An answer as nearly everyone gets it: to a GET of HTTP/1.1, in one second, the connection stays
 * open. */
struct whole {
    int64_t date_s;
    const char *bytes;      /* head and body */
    uint32_t len, head_len;
};

/* One representation: the host's memory, held from find() to release().  It does not change
 * meanwhile, unless it is made. */
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
    /* The host has made these bytes of the file, in that coding: a hash of them, and the file's
     * size.  Both are in the ETag.  0: the bytes are a file's own. */
    uint64_t made, made_of;
    /* It changed so lately that it may change once more and keep its size and times: the ETag is
     * weak (RFC 9110 8.8.1). */
    bool young;
    /* If it is sent often, the text that http_fields_write() makes of it; NULL: write it each
     * time. */
    const char *fields;
    size_t fields_len;
    /* If it is sent more often than that, the whole answer, which http_whole_write() makes of it,
     * so that nothing is written or copied; or NULL.  The bytes live as long as the source. */
    const struct whole *whole;
    /* A number of its own, if the host will never use it for another body or other fields; or 0. */
    uint64_t version;
    /* SOURCE_MADE without bytes: write up to cap of them (>= CHUNK_BYTES_MAX); 0 ends the body; or
     * one of enum source_answer. */
    size_t (*next)(struct source *source, char *buf, size_t cap);
};

/* What next() may return instead of a count.  LATER: the bytes are not made yet.  The output that
 * is queued is sent, then next() is called again; if it says the same with nothing queued, the
 * connection waits for conn_resume().  FAILED: they cannot be made, and the connection is reset, so
 * that the client sees that the body is cut. */
enum source_answer { SOURCE_LATER = CHUNK_BYTES_MAX + 1, SOURCE_FAILED };

/* All functions get `site`.  Times are milliseconds.  The struct outlives every connection that
 * uses it. */
struct host {
    void *site;

    /* The representation asked for: 0 and *source; -ENOENT 404, -EACCES or -EPERM 403,
     * -ENAMETOOLONG 404, -EMFILE, -ENFILE, -ENOMEM, -EAGAIN, -ESTALE 503; others 500.
     * -EINPROGRESS: later; the connection waits and conn_resume() asks again with the same ask. */
    int (*find)(void *site, const struct http_ask *ask, struct source **source);

    /* A page of the site's own for an error status (404.html), or -ENOENT.  -EINPROGRESS as above,
     * but not when the peer has finished sending. */
    int (*page)(void *site, unsigned status, struct source **source);
    void (*release)(void *site, struct source *source);

    /* An answer was decided; the result (may be NULL) comes back in answered() when its last byte
     * is out or the connection died.  The receipt's slices live only during the call. */
    void *(*answer)(void *site, const struct conn *conn, const struct http_receipt *receipt);
    void (*answered)(void *site, void *note, uint64_t body_bytes, bool complete);

    /* HTTP: further fields of the answer that is decided next, each with its CRLF, into out, which
     * has room for HOST_FIELDS_BYTES_MAX; how many bytes.  NULL: there are none. */
    size_t (*fields)(void *site, const struct conn *conn, char *out);

    /* A connection that was told -EINPROGRESS will not ask again: drop the job, done or not. */
    void (*forget)(void *site, const struct conn *conn);

    void *(*alloc)(void *site, size_t bytes); /* stash and outbox; NULL: the connection is closed */
    void (*free)(void *site, void *mem, size_t bytes);

    const char *date; /* IMF-fixdate, 29 bytes, kept fresh by the loop (RFC 9110 6.6.1) */
    int64_t date_s;   /* the same as a number */
    uint32_t head_ms; /* connect, or first byte of a head, to its last; a drip does not extend it */
    uint32_t idle_ms; /* between two requests */
    uint32_t send_ms; /* in this time at least progress_bytes move, either direction of a body */
    uint32_t progress_bytes;
    uint32_t body_bytes_max; /* of a request */
    bool closing;            /* the server drains: answers say Connection: close */
    const char *server;      /* HTTP: what Server says (RFC 9110 10.2.4); NULL: "rung" */
    struct http_recent *recent; /* HTTP: heads that came before; NULL: each is read anew */
};

/* --- The machine ------------------------------------------------------------------------------ */

enum conn_want { CONN_RECV, CONN_SEND, CONN_WAIT, CONN_LINGER, CONN_CLOSE };

/* One piece of output.  The machine advances bytes or off as it is sent. */
struct segment {
    const char *bytes; /* NULL: a range of source->file */
    uint64_t off, len;
    struct source *source; /* where it comes from, or NULL; released when done, unless lent */
    void *note;            /* of the answer it ends: handed to host->answered() when done */
    uint32_t lead;         /* of its bytes, the first of a body's segment that are its head's */
    bool body;             /* the others count as body bytes */
    bool ends;             /* last of its answer */
    bool lent;             /* source is the protocol's to release */
};

/* What may be sent now, as one gather: up to OUT_SEGMENTS_MAX, a file range only last. */
struct conn_out {
    const struct segment *seg;
    unsigned count;
    bool last; /* what follows is the end of the stream, perhaps at once: see conn_promised() */
};

struct conn_proto {
    const char *name;
    /* Consume bytes, queue output; returns bytes used, 0 = need more (they are stashed and shown
     * again with what follows), or -EINPROGRESS = wait for the host; nothing was used.  It is
     * called again while it uses bytes, the outbox has room for another answer and the connection
     * is not closing. */
    long (*input)(struct conn *c, const char *bytes, size_t n);
    /* The outbox is empty and the protocol said conn_more(): queue the next piece of the answer. */
    void (*more)(struct conn *c);
    /* The peer has finished sending; unused bytes (a partial message) may be in the stash. */
    void (*end)(struct conn *c, size_t unused);
    /* The connection ends while conn_more() or conn_in_body() is on: let go of what the protocol
     * holds in its state.  A note that has not been handed over goes to conn_put_end() here; called
     * before queued segments are let go, so that host->answered() hears of it like of the
     * others. */
    void (*drop)(struct conn *c);
};

struct stash;
struct outbox;

struct conn {
    const struct conn_proto *proto;
    const struct host *host;
    uint64_t deadline_ms; /* absolute: past it, conn_overdue() decides */
    struct stash *stash;  /* NULL: nothing waits */
    struct outbox *out;   /* NULL: nothing to say */
    uint64_t sent;        /* bytes sent on this connection */
    uint64_t word[2];     /* the protocol's own; zero at first */
    uint32_t moved;       /* RECV, LINGER: bytes of a body, thrown away; SEND: see conn_overdue() */
    uint32_t requests;    /* answers queued whole; the machine counts */
    uint32_t generation;  /* free for the owner: tells a new connection from an old one here */
    uint8_t want;         /* enum conn_want */
    uint8_t flags;        /* the machine's: closing, mid-message, in a body, end of stream seen */
    uint8_t proto_flags : 7; /* the protocol's own */
    uint8_t promised : 1;    /* the machine's: see conn_promised() */
    uint8_t owner_state;  /* free for the owner (session state) */
};

/* Every field is set anew; what is free for the owner becomes zero. */
void conn_init(struct conn *c, const struct conn_proto *proto, const struct host *host,
               uint64_t now_ms);

/* want must be CONN_RECV, or CONN_LINGER (bytes are discarded).  n <= RECV_BYTES_MAX; 0: end of
 * stream. */
void conn_feed(struct conn *c, const char *bytes, size_t n, uint64_t now_ms);

/* want must be CONN_SEND; the pieces stay valid and unchanged until conn_sent() or conn_abort(). */
struct conn_out conn_out(const struct conn *c);

/* n bytes of conn_out() were taken; n > 0, not more than shown. */
void conn_sent(struct conn *c, size_t n, uint64_t now_ms);

/* The host has finished what it put off (-EINPROGRESS of find(), SOURCE_LATER of next()), so the
 * protocol asks again.  While earlier output is still being sent (CONN_SEND), the call is only
 * recorded.  find() is never repeated for a job that has not been resumed. */
void conn_resume(struct conn *c, uint64_t now_ms);

/* The deadline has passed.  acked: bytes of conn->sent that the peer is known to have (or
 * conn->sent where that cannot be known).  True: the time is up.  False: there was progress, a new
 * deadline is set.  The machine itself remembers what acked was (in conn->moved); the caller keeps
 * nothing. */
bool conn_overdue(struct conn *c, uint64_t acked, uint64_t now_ms);

/* It may be idle, its deadline has passed, and bytes wait that nobody has read: they came in time,
 * and whoever looks came late.  True: it was idle; the time of a head begins now. */
bool conn_spoken(struct conn *c, uint64_t now_ms);

/* Error, cancel, time-out.  Not while a send of its segments is in flight.  want becomes
 * CONN_CLOSE. */
void conn_abort(struct conn *c);

/* Whether the connection, if it ends now, is to be reset: bytes of an answer are queued, or the
 * rest of it is not made yet or cannot be.  Before conn_fini(). */
bool conn_unfinished(const struct conn *c);

/* Give everything back; the last call on a connection, whatever its state. */
void conn_fini(struct conn *c);

/* The last answer is out (CONN_LINGER): true once, then the transport is to be told that no more
 * will be sent.  conn_pump() does it by itself. */
bool conn_shuts(struct conn *c);

/* Whether the peer has promised to send nothing behind the message whose answer ends the
 * connection, and nothing of that kind was received.  Then nothing has to linger: when the last
 * answer is out (conn_shuts()) and the transport has nothing unread, the caller may abort and close
 * at once, so that the end of the stream travels with the answer.  See
 * docs/decisions/010-closing-at-once.md. */
bool conn_promised(const struct conn *c);

/* Nothing of a message has arrived and nothing is owed: may be closed without anyone noticing a
 * loss. */
bool conn_idle(const struct conn *c);

/* --- The pump: whoever can call recv and send synchronously shares it ------------------------- */

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
    char *scratch; /* RECV_BYTES_MAX bytes, nobody else's meanwhile */
    bool edge;     /* read to -EAGAIN: readiness is told once.  Else a short read means drained */
    bool more;     /* out: stopped by the budget, not by the socket: come back without waiting */
};

/* Move bytes both ways until the transport would block, the budget is spent or the connection is
 * done.  Returns c->want: RECV or SEND or LINGER = wait for that readiness; WAIT; CLOSE. */
enum conn_want conn_pump(struct conn *c, struct pump *p, uint64_t now_ms);

/* --- For protocols ---------------------------------------------------------------------------- */

/* Room for one more answer: a segment pair and REPLY_HEAD_BYTES_MAX bytes.  Gets the outbox when
 * there is none; false also when memory cannot be had: then the connection is closing. */
bool conn_room(struct conn *c);

/* Where the next head is written, and how much fits (>= REPLY_HEAD_BYTES_MAX after conn_room()). */
char *conn_space(struct conn *c, size_t *cap);

/* n bytes written at conn_space() become output; body: they count as body bytes.  Those of one
 * answer are joined into a segment. */
void conn_wrote(struct conn *c, size_t n, bool body);

/* A range of a source follows.  The connection now holds one reference of the caller's: released
 * when sent; or at once, if the range is short and lies in memory, for then it is copied. */
void conn_put_source(struct conn *c, struct source *source, uint64_t off, uint64_t len);

/* The whole answer of a source that has one; the reference is given away.  As above it may be
 * copied: if others wait to be sent before it, and it has no file. */
void conn_put_whole(struct conn *c, struct source *source);

/* The same as conn_put_source(), but the reference stays the caller's, who holds it until these
 * bytes are out or drop() is called: for several ranges of one source, of which the last is put. */
void conn_lend_source(struct conn *c, struct source *source, uint64_t off, uint64_t len);

/* What was queued last ends an answer.  Nothing need be queued any more: then what was sent last
 * ended it. */
void conn_put_end(struct conn *c, void *note);

void conn_more(struct conn *c, bool more); /* call proto->more() when the outbox has run empty */
/* more() has nothing to queue yet: it is called again when the outbox has run empty, or, if it is
 * empty now, after conn_resume(). */
void conn_wait(struct conn *c);
/* more() cannot go on, and the end of the stream would look like the end of the answer. */
void conn_fail(struct conn *c);
void conn_close_after(struct conn *c); /* no further input is used; close when the output is out */
/* The peer has promised that its message, whose answer ends the connection, is its last. */
void conn_promise(struct conn *c);
void conn_in_body(struct conn *c, bool in); /* progress rule, not the head's deadline */

/* Three pieces of the outbox, all there after conn_room(), aligned for any type.  State of an
 * answer under way, CONN_STATE_BYTES of it, zeroed when first asked for in each message; a copy of
 * the head being answered (HEAD_BYTES_MAX bytes), for requests whose body must be read first: both
 * last while conn_more() or conn_in_body() is on, for then the outbox is not given back.  And
 * scratch for one call of the protocol, CONN_WORK_BYTES: a parsed head and a decoded path are too
 * big for a kernel stack. */
enum {
    CONN_STATE_BYTES = 512,
    CONN_WORK_BYTES = 4608 + 2048 + PATH_BYTES_MAX /* struct http_work: head, page, path */
};
void *conn_state(struct conn *c);
char *conn_keep(struct conn *c);
void *conn_work(struct conn *c);

extern const struct conn_proto echo_proto, http_proto;

#endif
