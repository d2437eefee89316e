/* SPDX-License-Identifier: MIT */
/* tls.h - TLS on the client's side, without a socket: tls.c by OpenSSL, or tls_absent.c where its
 * header is not installed.
 *
 * A context is what connections share: which certificates are trusted, and the newest ticket of
 * each server.  A thread has one of its own, so that nothing of it is locked.
 */
#ifndef LOAD_TLS_H
#define LOAD_TLS_H
#include "bytes.h"
#include "load.h"

struct tls_context;
struct tls; /* a connection's */

/* What tls_hear() returns instead of a count. */
enum {
    TLS_MORE = 0,   /* all bytes are taken */
    TLS_ENDED = -1, /* the server has said that it sends nothing more (close_notify) */
    TLS_FAILED = -2
};
enum { TLS_PLAIN_BYTES = 16384 }; /* of a record */

enum tls_alpn { ALPN_NONE, ALPN_HTTP1, ALPN_H2 };

/* The result of a handshake.  The texts are the library's and stay. */
struct tls_facts {
    const char *version, *cipher;
    bool resumed;
    enum tls_alpn alpn;
};

/* 0, or an exit code after a message about the options. */
int tls_open(struct tls_context **context, const struct plan *p);
void tls_close(struct tls_context *context); /* NULL is fine */

/* NULL: no memory.  peer: one of the plan's. */
struct tls *tls_begin(struct tls_context *context, const struct plan *p, unsigned peer);
void tls_end(struct tls *tls); /* NULL is fine */
/* Takes received bytes from the front of *in: handshakes, or decrypts one record into plain, of
 * TLS_PLAIN_BYTES.  Its own messages go to out.  Returns how many bytes are in plain, or one of the
 * above. */
long tls_hear(struct tls *tls, struct slice *in, struct bytes *out, char *plain);
/* Encrypts bytes into out.  False: the connection is of no more use. */
bool tls_speak(struct tls *tls, struct slice plain, struct bytes *out);
void tls_shut(struct tls *tls, struct bytes *out); /* says close_notify; a ticket stays valid */
bool tls_done(const struct tls *tls);              /* the handshake is complete */
void tls_describe(const struct tls *tls, struct tls_facts *facts);
/* Why tls_hear() has failed during a handshake: the fault, and a sentence about the server. */
enum { TLS_WHY_BYTES = 160 };
enum fault tls_why(const struct tls *tls, char why[TLS_WHY_BYTES]);

#endif
