/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* http.h - HTTP/1.1 messages as slices of the bytes they came in (RFC 9110, RFC 9112).
 *
 * Parsing copies nothing and allocates nothing: every slice points into the caller's bytes and
 * lives as long as they do.  Lengths are carried, never measured.  One strict grammar, for
 * requests and responses.
 */
#ifndef CORE_HTTP_H
#define CORE_HTTP_H
#include "conn.h"
#include "env.h"
#include "limits.h"
#include "source.h"

struct slice {
    const char *ptr;
    size_t len;
};

/* The first three are served; other registered methods get 405 with Allow (RFC 9110 15.5.6), all
 * others 501 (15.6.2). */
enum http_method { HTTP_GET, HTTP_HEAD, HTTP_OPTIONS, HTTP_KNOWN, HTTP_UNKNOWN };

/* Fields the core looks at; every other is FIELD_OTHER. */
enum http_field_id {
    FIELD_OTHER,
    FIELD_ACCEPT,
    FIELD_ACCEPT_ENCODING,
    FIELD_CONNECTION,
    FIELD_CONTENT_LENGTH,
    FIELD_EXPECT,
    FIELD_HOST,
    FIELD_IF_MATCH,
    FIELD_IF_MODIFIED_SINCE,
    FIELD_IF_NONE_MATCH,
    FIELD_IF_RANGE,
    FIELD_IF_UNMODIFIED_SINCE,
    FIELD_RANGE,
    FIELD_REFERER,
    FIELD_TE,
    FIELD_TRANSFER_ENCODING,
    FIELD_USER_AGENT,
    FIELD_WANT_REPR_DIGEST,
    HTTP_FIELDS
};

struct http_field {
    struct slice name, value; /* value without the white space around it */
    uint8_t id;               /* enum http_field_id */
};

/* How a body ends; CLOSE, at end of stream, for responses only. */
enum http_framing { FRAMING_NONE, FRAMING_LENGTH, FRAMING_CHUNKED, FRAMING_CLOSE };

/* A head.  Requests fill method and target, responses status.  field[] beyond fields is not
 * initialised. */
struct http_head {
    enum http_method method;
    struct slice method_text, target;
    struct slice path;   /* raw, begins with '/'; of an absolute form too; "*" for OPTIONS * */
    struct slice query;  /* after '?', without it; ptr NULL: there was none */
    unsigned status;     /* responses */
    uint8_t minor;       /* HTTP/1.minor: 0 or 1 */
    bool keep_alive;     /* by version and Connection (RFC 9112 9.3) */
    bool expect_continue;
    enum http_framing framing;
    uint64_t content_length; /* FRAMING_LENGTH */
    unsigned fields;
    uint8_t first[HTTP_FIELDS]; /* index + 1 of the first field of that id; 0: absent */
    uint32_t repeated;          /* 1 << id: there are two of them, or more */
    struct http_field field[HEAD_FIELDS_MAX];
};

/* The head at the start of bytes[0..n).  > 0: its length; 0: more is needed; < 0: -status of the
 * refusal (-400 -414 -417 -431 -501 -505).  The answer depends on the bytes only, not on how they
 * were cut: a head that is refused at n bytes is refused in the same way with more, and limits
 * count the message.  After a refusal method, method_text, target and minor say what was understood
 * (HEAD gets no body). */
long http_parse_request(const char *bytes, size_t n, struct http_head *head);

/* Like http_parse_request(), for a response to a request of that method; < 0: malformed.  Framing
 * by RFC 9112 6.3. */
long http_parse_response(const char *bytes, size_t n, enum http_method asked,
                         struct http_head *head);

/* The value of the first field of that id; http_next(): of each in turn, *cursor is 0 at first.
 * ptr NULL: there is none, or no more. */
struct slice http_field(const struct http_head *head, enum http_field_id id);
struct slice http_next(const struct http_head *head, enum http_field_id id, unsigned *cursor);

/* The weight of a media type, 0..1000, by Accept (RFC 9110 12.5.1): that of its own name, whatever
 * the parameters, otherwise of the narrowest wildcard.  1000 if there is no Accept. */
unsigned http_accept_weight(const struct http_head *head, const char *type);

/* List elements (RFC 9110 5.6.1): the next one of a comma list, OWS removed, quoted strings
 * respected; empty elements are skipped.  False: the end. */
bool http_list(struct slice *rest, struct slice *element);

/* Exact comparison.  Inline, so that the length of a literal costs nothing. */
static inline bool slice_is(struct slice s, const char *text)
{
    size_t n = strlen(text);

    return s.len == n && (n == 0 || memcmp(s.ptr, text, n) == 0);
}

bool slice_is_nocase(struct slice s, const char *text); /* ASCII case ignored */
struct slice slice_trimmed(struct slice s); /* without OWS around it (RFC 9110 5.6.3) */

/* --- Bodies (http_body.c): the decoder of Content-Length and chunked bodies ------------------- */

/* Sixteen bytes are all that is kept between two calls; zero is not valid, use http_body_init(). */
struct http_body {
    uint64_t left;  /* of the body, or of the current chunk */
    uint32_t extra; /* chunk lines: bytes beyond 16 each; then bytes of trailers */
    uint16_t line;  /* bytes of the chunk line being read; after a refusal its status */
    uint8_t state;  /* http_body.c's */
    uint8_t digits; /* of the chunk size */
};

/* FRAMING_NONE and a length of 0 are done at once; FRAMING_CLOSE never is: all is payload. */
void http_body_init(struct http_body *b, enum http_framing framing, uint64_t content_length);

/* Consume bytes[0..n): framing as far as the first payload, then that one run of payload, and
 * stop there.  Returns how many bytes it used; unless n is 0 or the body is done, at least
 * one.  *data is the payload among them: their last data->len bytes, empty when they were
 * framing only.  It also stops behind the line of the last chunk, where trailers begin.  Call it
 * again with the rest until all is used or http_body_done().  Never looks past the end of the
 * body; where a cut falls changes nothing.  < 0: -400 malformed, or
 * chunk lines too long (CHUNK_LINE_BYTES_MAX with the CRLF, CHUNK_OVERHEAD_BYTES_MAX); -413 a
 * chunk size of more than 16 digits or beyond 2^63 - 1; -431 trailers too long
 * (TRAILER_BYTES_MAX with their line ends, without the empty line).  Then the decoder stays
 * refused. */
long http_body_next(struct http_body *b, const char *bytes, size_t n, struct slice *data);
bool http_body_done(const struct http_body *b);
/* The line of the last chunk has been used: bytes up to the end are trailers and an empty line. */
bool http_body_trails(const struct http_body *b);

/* Payload that is announced, by the length or the size of the current chunk, and has not come. */
uint64_t http_body_left(const struct http_body *b);

/* Chunked output: the size line of a chunk of n bytes, "n in hex CRLF", into buf of >= 20;
 * CRLF goes behind the bytes.  The body ends with the size line of 0, trailers if any, and
 * CRLF.  Returns the line's length. */
size_t http_chunk_head(char *buf, size_t n);

/* n in decimal into out; how many digits, 1 to 20.  No NUL. */
unsigned http_decimal(char out[20], uint64_t n);

/* --- Answers ---------------------------------------------------------------------------------- */

/* The hash of a representation (RFC 9530). */
enum http_digest { DIGEST_NONE, DIGEST_SHA256, DIGEST_SHA512, DIGESTS };

/* What find() is asked: a decoded, normalised path that begins with '/', and what the client
 * accepts. */
struct http_ask {
    struct slice path;
    struct slice query;      /* raw; ptr NULL: there was none */
    uint16_t q[CODINGS];     /* of each coding, 0..1000, by Accept-Encoding (RFC 9110 12.5.3) */
    bool json, text;         /* a listing (path ends in '/') in that form: Accept, ?format= */
    bool head;               /* HEAD: a listing need not be made */
    uint8_t digest;          /* enum http_digest: the client takes it in a trailer; of a path that
                                ends in '/' */
    const struct http_head *from; /* the whole head; only while find() is called */
    const struct conn *conn; /* to be resumed after -EINPROGRESS */
    /* For a head seen before: the same number from the same struct http_recent means the same ask,
     * except conn, and the same method.  The lowest RECENT_LOG bits distinguish heads that are kept
     * at the same time.  0: no number. */
    uint64_t again;
};

/* Whether `coding` should be sent rather than `to`: the client accepts it, and gives it more
 * weight, or the same weight and it is the better one.  False if both are the same. */
bool http_prefers(const uint16_t q[CODINGS], enum coding coding, enum coding to);
/* The codings to send rather than identity, the best first, two bits each: sixteen numbers for
 * sixteen million sets of weights.  Clients with the same number get the same one of a file's
 * siblings. */
uint8_t http_order(const uint16_t q[CODINGS]);

/* The suffix of a file's name in that coding: "" ".gz" ".zst" ".br". */
enum { CODING_SUFFIX_BYTES_MAX = 4 };
const char *http_coding_suffix(enum coding coding);

/* An answer, for the log. */
struct http_receipt {
    const struct http_head *head; /* may be partly filled after a refusal */
    unsigned status;
    uint64_t body_bytes; /* to be sent; ~0: not known yet */
    bool h2;             /* the host's: the request came by HTTP/2 */
};

/* --- What HTTP needs from its host ------------------------------------------------------------ */

/* The result of a body that was kept. */
struct http_stored {
    unsigned status;       /* 201, or 303 */
    struct slice location; /* encoded; until drop() */
};

/* Where the bodies of PUT and POST go.  It is a struct of its own because most hosts keep no body
 * and have only a NULL.  A body has a beginning, which may be refused before any byte comes, a
 * middle, an end, and an owner if the connection ends too early.  Results below 0: -EINPROGRESS:
 * not now, conn_resume() asks again; -400 and less: the status of a refusal; others as of find().
 * A call with any other result is not repeated. */
struct http_store {
    /* The head has come.  0 and *into: its body is wanted. */
    int (*begin)(void *ctx, const struct http_ask *ask, void **into);
    /* The next bytes: how many were taken, at least one. */
    long (*put)(void *ctx, const struct conn *conn, void *into, struct slice bytes);
    /* All bytes have come.  0: they are kept. */
    int (*done)(void *ctx, const struct conn *conn, void *into, struct http_stored *stored);
    /* The last call about *into, whether done or not. */
    void (*drop)(void *ctx, const struct conn *conn, void *into);
    /* Allow for the path of that head, which may be no path (RFC 9110 10.2.1). */
    const char *(*allow)(void *ctx, const struct conn *conn, const struct http_head *head);
};

/* Functions get conn.ctx, as those of struct conn_host.  The struct outlives every connection that
 * uses it. */
struct http_host {
    struct conn_host conn; /* first: struct conn knows this part alone */

    /* A request that is answered without find(): called before page() and fields() are.  0, or the
     * status of a refusal, which is not heeded if there is another already.  The fields of a head
     * that was refused are forgotten.  NULL: no request differs from another in this. */
    unsigned (*aim)(void *ctx, const struct conn *conn, const struct http_head *head);

    /* Finds the requested representation: 0 and *source; -ENOENT 404, -EACCES or -EPERM 403,
     * -ENAMETOOLONG 404, -EKEYREJECTED 401 (Basic), -EHOSTUNREACH 421, -EDQUOT 429, -EMFILE,
     * -ENFILE, -ENOMEM, -EAGAIN, -ESTALE 503; others 500.  -EINPROGRESS: not ready yet; the
     * connection waits, and conn_resume() calls find() again with the same ask. */
    int (*find)(void *ctx, const struct http_ask *ask, struct source **source);

    /* Whether to answer a request for which find() is not called: OPTIONS, a method that is not
     * served, a path that is none, a body that is too large.  head is NULL if it could not be
     * read.  False: the answer is 429.  NULL: all are answered. */
    bool (*admit)(void *ctx, const struct conn *conn, const struct http_head *head);

    /* Finds the site's own page for an error status (404.html), or -ENOENT.  -EINPROGRESS as above;
     * but if the peer has finished sending, it must not be returned.  The owner of the connection
     * ensures that, since page() does not know. */
    int (*page)(void *ctx, unsigned status, struct source **source);

    /* An answer has been decided.  The returned note (may be NULL) is passed to conn.answered()
     * when the answer's last byte is sent or the connection has ended.  The receipt's slices live
     * only during the call. */
    void *(*answer)(void *ctx, const struct conn *conn, const struct http_receipt *receipt);

    /* Writes further fields of the answer that is decided next, of that status, each with its CRLF,
     * into out, which has room for HOST_FIELDS_BYTES_MAX.  Returns how many bytes.  NULL: no
     * further fields. */
    size_t (*fields)(void *ctx, const struct conn *conn, unsigned status, char *out);

    /* The first bytes of a connection are no request of HTTP/1, whose answer would be 505.  1: the
     * host has changed the connection's protocol; 0: it has not; -EAGAIN: that depends on bytes to
     * come.  NULL: never. */
    int (*other)(void *ctx, struct conn *conn, const char *bytes, size_t n);

    /* http_secure_proto: the port of https for a request that was aimed at that port, 0 if it named
     * none; or 0: the address keeps what it says of a port.  NULL: always 0. */
    unsigned (*https_port)(void *ctx, const struct conn *conn, unsigned port);

    const struct http_store *store; /* NULL: bodies are read and thrown away */

    const char *date;   /* IMF-fixdate, 29 bytes, kept up to date by the loop (RFC 9110 6.6.1) */
    int64_t date_s;     /* the same as a number */
    const char *server; /* what Server says (RFC 9110 10.2.4); NULL: "rung" */
    struct http_recent *recent; /* heads seen before; NULL: every head is parsed */
    uint32_t body_bytes_max;    /* of a request */
    uint32_t retry_s;           /* what Retry-After says with -EDQUOT */
    bool closing;               /* the server drains: answers say Connection: close */
};

/* The host of a connection whose protocol is http_proto. */
static inline const struct http_host *http_host_of(const struct conn *c)
{
    _Static_assert(offsetof(struct http_host, conn) == 0, "the machine's part is first");
    return (const struct http_host *)c->host;
}

extern const struct conn_proto http_proto;

/* Where clients go if their URL has no port. */
enum { HTTP_PORT = 80, HTTPS_PORT = 443 };

/* http_secure.c: answers each request with its own address under https, and closes. */
extern const struct conn_proto http_secure_proto;

/* http_refused.c: answers the first request with 429, and closes. */
extern const struct conn_proto http_refused_proto;

/* http_recent.c: heads seen before; zero at first.  Each head that is kept takes some 7 KB from the
 * host, until http_recent_drop(). */
struct http_recent {
    uint64_t hash; /* of the bytes that were looked for last; 0: too few */
    uint64_t kept_ever;
    struct http_kept *last; /* the one found last; or NULL */
    struct http_recent_place {
        uint64_t next; /* hash of the last head that fell here and is not the one kept */
        struct http_kept *kept;
    } place[1 << RECENT_LOG];
};
void http_recent_drop(const struct http_host *host);

/* http_reply.c: queue the answer to a whole, valid request head.  keep_alive false adds
 * Connection: close.  0, or -EINPROGRESS: nothing was queued, ask again later. */
int http_reply(struct conn *c, const struct http_head *head, bool keep_alive);
/* Like http_reply(), for a GET or HEAD whose ask is known already; ask->conn is c. */
int http_reply_ask(struct conn *c, const struct http_head *head, const struct http_ask *ask,
                   bool keep_alive);
/* Queue an answer that is a status with a short page (errors).  Only the head's method, minor and
 * fields are used; keep_alive and the result as above. */
int http_reply_status(struct conn *c, const struct http_head *head, unsigned status,
                      bool keep_alive);
/* For conn_proto: queue the next piece of an answer that is made or has several ranges; release all
 * of it. */
void http_reply_more(struct conn *c);
void http_reply_drop(struct conn *c);

/* Writes the fields of a 200 for a source, type and length included, as source->fields.  Returns
 * bytes; 0: it has none that stay true, because its date is not yet past or its ETag not yet
 * strong. */
enum { HTTP_FIELDS_BYTES_MAX = 320 + TYPE_BYTES_MAX };
size_t http_fields_write(char out[HTTP_FIELDS_BYTES_MAX], const struct source *source,
                         int64_t now_s);

/* Bytes of a whole answer; 0: there is none, because the source has no fields that stay true, or no
 * body in memory. */
size_t http_whole_bytes(const struct http_host *host, const struct source *source);
/* Writes the whole answer for this second, for source->whole; out has room for whole->len bytes.
 * False: there is none, or no room. */
bool http_whole_write(struct whole *whole, char *out, const struct http_host *host,
                      const struct source *source);

const char *http_status_text(unsigned status); /* the reason phrase, "Unknown" without one */

/* --- date.c ----------------------------------------------------------------------------------- */
enum { HTTP_DATE_BYTES = 29 };
/* IMF-fixdate; a time outside the years 1..9999 becomes the nearest end of them. */
void http_date_write(char out[HTTP_DATE_BYTES], int64_t unix_s);
/* One of the three forms of RFC 9110 5.6.7, exactly; now_s decides what century a year of two
 * digits is in.  Second 60 is the next minute's first.  The name of the day must be one, but is
 * not compared. */
bool http_date_read(struct slice text, int64_t now_s, int64_t *unix_s);

/* --- target.c --------------------------------------------------------------------------------- */
/* Path and query of a head whose method_text and target are known; false: the target has none
 * of the forms of RFC 9112 3.2 for that method.  CONNECT's is left whole: it has neither. */
bool target_read(struct http_head *head);
/* uri-host [ ":" port ] (RFC 3986 3.2): a name that is not empty, an IPv4 address or an
 * IPv6 address in brackets; no userinfo. */
bool authority_is_valid(struct slice text, bool port_needed);
/* Bytes before the port and its colon, of an IPv6 address with its brackets. */
size_t authority_name_len(struct slice authority);

/* --- path.c ----------------------------------------------------------------------------------- */
/* Percent-decodes once, then normalises by components, so %2e%2e is "..", repeated slashes become
 * one, a trailing one stays.  Returns the length of out, 1..PATH_BYTES_MAX - 1 (so a NUL fits
 * behind; none is written), first byte '/'.  -400: raw is no path, a bad escape, NUL, an encoded
 * slash, overlong UTF-8 (other bytes may be names of files).  -404: climbs above the root, or is
 * longer than any path can be. */
long path_decode(struct slice raw, char out[PATH_BYTES_MAX]);
/* Percent-encodes a path for Location or href: unreserved and '/' stay.  Returns bytes written, at
 * most 3 n. */
size_t path_encode(char *out, const char *path, size_t n);
/* Whether a request for that name (and a slash) in that folder, encoded in full, is one that
 * path_decode() takes and that is no longer than a target may be. */
bool path_links(struct slice folder, struct slice name, bool slash);
/* Whether visitors are not shown a name because it begins with a dot; whether a path has such a
 * name in it. */
bool name_is_hidden(struct slice name);
bool path_is_hidden(struct slice path);

#endif
