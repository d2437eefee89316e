/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* source.h - what answers a request: bytes in memory, a file, or a function that makes them.
 *
 * The host's find() returns a source; the code that has it calls the host's release() once.
 */
#ifndef CORE_SOURCE_H
#define CORE_SOURCE_H
#include "env.h"
#include "limits.h"

enum source_kind {
    SOURCE_BODY,    /* a representation: bytes in memory or a file */
    SOURCE_MADE,    /* a listing or archive: in bytes, or made by next(), its length unknown */
    SOURCE_REDIRECT, /* the name is a directory's and lacks its final slash: 301 */
    SOURCE_MOVED    /* the host sends the client elsewhere: bytes are a URL, or its path */
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
    uint16_t status;   /* SOURCE_MOVED: 301, 302, 307 or 308 */
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
    /* SOURCE_MADE without bytes: the name under which a client is to save it, NUL-terminated (RFC
     * 6266); NULL: it is to be shown. */
    const char *save_as;
    /* SOURCE_MADE without bytes: writes up to cap bytes (>= CHUNK_BYTES_MAX) into buf.  Returns how
     * many, 0 at the end of the body, or one of enum source_answer. */
    size_t (*next)(struct source *source, char *buf, size_t cap);
    /* SOURCE_MADE without bytes: the name of a field that is sent behind the body if that is
     * chunked, and its value, which is read when next() has returned 0.  Both are NUL-terminated,
     * and have 200 bytes together.  NULL: there is no such field. */
    const char *trailer, *trailer_value;
};

/* What next() may return instead of a count.  LATER: the bytes are not made yet.  Queued output is
 * sent, then next() is called again; if it returns LATER again with nothing queued, the connection
 * waits for conn_resume().  FAILED: they cannot be made, and the connection is reset, so that the
 * client sees that the body is cut short. */
enum source_answer { SOURCE_LATER = CHUNK_BYTES_MAX + 1, SOURCE_FAILED };

#endif
