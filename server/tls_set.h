/* SPDX-License-Identifier: MIT */
/* tls_set.h - certificates that were read together. */
#ifndef SERVER_TLS_SET_H
#define SERVER_TLS_SET_H
#include <openssl/ssl.h>
#include "tls.h"

struct set {
    unsigned count;
    unsigned users; /* tls_store.c's */
    SSL_CTX *ctx[]; /* the first is every connection's until it names another */
};

/* Reads all pairs, and reports what went wrong.  before: what was read earlier, or NULL; the
 * machine's own certificate is taken from there.  h2: HTTP/2 is offered.  An exit code. */
int  set_read(struct set **set, const struct tls_pairs *pairs, const struct set *before, bool h2);
void set_free(struct set *set);

/* A certificate made for this machine, and its key (tls_self.c); its fingerprint is printed.
 * self_again(): the one made before.  False: OpenSSL's error queue says why. */
bool self_make(SSL_CTX *ctx);
bool self_again(SSL_CTX *ctx, SSL_CTX *before);

/* Staples the response in CERT.ocsp, if there is such a file (tls_ocsp.c); reports why one that is
 * there is of no use. */
void ocsp_load(SSL_CTX *ctx, const char *cert);

#endif
