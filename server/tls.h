/* SPDX-License-Identifier: MIT */
/* tls.h - TLS as a protocol of the waist, and the library behind it.
 *
 *   engine, pump          see the outer connection: its wants and deadlines, ciphertext in memory
 *        |
 *   outer connection      its protocol is tls_proto; its messages are records
 *        |   tls.c
 *   inner connection      its protocol is HTTP, which knows nothing of this
 *
 *   tls.c           the protocol: bytes between the two connections; names no library
 *   tls_openssl.c   records and handshakes by OpenSSL: a struct tls_layer
 *   tls_keys.c      the key of what it sends, for the kernel
 *   tls_kernel.c    records that the kernel makes, behind a struct tls_kernel
 *   tls_last.c      how these end if the client is slow
 *   tls_store.c     the newest certificates, and tickets
 *   tls_set.c       certificates from files, chosen by name
 *   tls_verify.c    clients that must have a certificate
 *   tls_self.c      a certificate made for this machine
 *   tls_ocsp.c      responses of a certificate's authority, sent with it
 *   tls_tickets.c   keys of tickets, shared and renewed
 *   tls_absent.c    takes the place of the files that use OpenSSL where its header is not installed
 *
 * The library never sees a socket.  It is given received bytes where they are, and writes into the
 * outer connection's send queue, so no engine knows of it.
 */
#ifndef SERVER_TLS_H
#define SERVER_TLS_H
#include "../core/conn.h"
#include "tls_kernel.h"

/* What one call of a layer may use: received bytes, and where to write. */
struct tls_io {
    const char *in;
    size_t in_len; /* what is left of it afterwards was not used */
    char *out;
    size_t out_cap, out_len;
};

/* What hear() returns instead of a count. */
enum tls_heard {
    TLS_MORE = 0,    /* all bytes are used, and more are needed */
    TLS_FULL = -1,   /* the handshake goes on when there is room to write */
    TLS_ENDED = -2,  /* the peer has said that it sends nothing more (close_notify) */
    TLS_FAILED = -3  /* an alert was written, if there was room */
};

enum { TLS_FAULT_TEXT = 320 };

/* A library's part, or a test's.  A link is its state of one connection. */
struct tls_layer {
    void *(*begin)(void *store); /* NULL: no memory */
    void (*end)(void *link);
    /* Handshakes, or decrypts one record: bytes of plain (of RECV_BYTES_MAX), or enum tls_heard. */
    long (*hear)(void *link, struct tls_io *io, char *plain);
    /* Encrypts n <= TLS_RECORD_BYTES bytes into one record; there are TLS_RECORD_EXTRA bytes more
     * of room.  False: the connection must end. */
    bool (*speak)(void *link, struct tls_io *io, const char *plain, size_t n);
    void (*shut)(void *link, struct tls_io *io); /* says close_notify */
    bool (*done)(const void *link);              /* the handshake is complete */
    bool (*h2)(const void *link);                /* ... and HTTP/2 was chosen (ALPN) */
    /* The name that the client connected for (SNI), or NULL; whether the certificate that it was
     * shown is for that name or address.  Both may be NULL: nothing is known. */
    const char *(*name)(const void *link);
    bool (*covers)(const void *link, const char *name);
    /* hear() has just failed: what was wrong with the client's certificate, if it should be
     * reported now.  *more: clients that were refused since this was said last.  May be NULL. */
    bool (*fault)(void *link, char text[TLS_FAULT_TEXT], unsigned long long *more);
    /* The key that the next record would be made with; no more records are made here then.  False:
     * there is no such key.  The pointer may be NULL: there never is. */
    bool (*keys)(void *link, struct tls_keys *keys);
    /* The peer has asked for new keys, and speak() would say so first.  With keys(). */
    bool (*rekeys)(const void *link);
};

enum {
    TLS_RECORD_BYTES = 16384,
    /* Head, nonce, tag and padding of a record are 85 at most.  For a client that takes small
     * records only (RFC 6066 4), 32 of 512 bytes have up to 29 each; and an answer to a request for
     * new keys may be sent before them. */
    TLS_RECORD_EXTRA = 1024,
    /* A smaller piece waits until the send queue is empty, unless it is all there is. */
    TLS_PIECE_BYTES = 4096,
    /* Bytes received in a row that carry nothing: a handshake, requests for new keys, empty
     * records.  The longest hello of a browser has 2 KB. */
    TLS_BARREN_BYTES_MAX = 65536,
    /* The kernel makes the records from the first answer on that has a file, or a rest of one, of
     * this size.  Below it the calls that give the key cost more than is saved. */
    TLS_KERNEL_BYTES_MIN = 131072
};

/* One for the server. */
struct tls_setup {
    const struct tls_layer *layer;
    void *store;                    /* for layer->begin() */
    const struct conn_proto *inner; /* what is spoken inside */
    const struct conn_proto *h2;    /* ... with those that choose HTTP/2; NULL: it is not offered */
    const struct tls_kernel *kernel; /* NULL: the layer makes all records */
    bool kernel_always;              /* ... for small answers, too */
};

/* A connection that begins with anything else than a record of a handshake speaks http_secure_proto
 * (core/http.h), which answers with the https address. */
extern const struct conn_proto tls_proto;

/* As name() and covers() of the layer, of the connection that this one is inside of; NULL and true
 * if it is inside of none that speaks TLS. */
const char *tls_name(const struct conn *c);
bool tls_covers(const struct conn *c, const char *name);

/* --- tls_openssl.c, or tls_absent.c ----------------------------------------------------------- */

/* Certificates and keys: each item is "CERT,KEY", or one of both, or "self". */
struct tls_pairs {
    const char *const *item;
    unsigned count;
    const char *client_ca; /* authorities of clients' certificates; NULL: clients need none */
};
struct tls_offer {
    bool h2;
    bool kernel; /* keys() of the layer is needed */
};
/* Reads them, and reports what went wrong.  pairs must outlive *setup.  An exit code.  The caller
 * sets (*setup)->inner, and h2 and kernel if these were asked for. */
int  tls_open(struct tls_setup **setup, const struct tls_pairs *pairs, struct tls_offer offer);
/* Reads all files again; if that fails, the certificates read before stay in use.  Both are
 * reported. */
void tls_reload(struct tls_setup *setup);
void tls_close(struct tls_setup *setup); /* NULL is fine */
/* The name and version of the library; NULL: this program was built without one. */
const char *tls_library(void);

#endif
