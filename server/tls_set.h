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
 * machine's own certificate is taken from there.  An exit code. */
int  set_read(struct set **set, const struct tls_pairs *pairs, const struct set *before,
              struct tls_offer offer);
void set_free(struct set *set);

/* A certificate made for this machine, and its key (tls_self.c); its fingerprint is printed.
 * self_again(): the one made before.  False: OpenSSL's error queue says why. */
bool self_make(SSL_CTX *ctx);
bool self_again(SSL_CTX *ctx, SSL_CTX *before);

/* Names of authorities in a handshake, with two bytes of length each: half of what may follow that
 * field's own length (RFC 5246 7.4.4).  The 144 that Debian 12 trusts have 15 KB. */
enum { CLIENT_NAMES_BYTES_MAX = 32768 };

enum {
    CLIENT_CA_UNUSABLE = -1, /* OpenSSL's error queue says why */
    CLIENT_CA_NAMES = -2     /* the names have more than CLIENT_NAMES_BYTES_MAX bytes */
};

/* From now on all clients must have a certificate whose chain leads to one in that file
 * (tls_verify.c).  0, or an error from above, or the number of the certificate that cannot be
 * read. */
int verify_clients(struct set *set, const char *path);

/* What was wrong with the certificate of a client whose handshake has just failed; false: it was
 * not that. */
bool client_fault(SSL *ssl, char text[TLS_FAULT_TEXT]);

/* Staples the response in CERT.ocsp, if there is such a file (tls_ocsp.c), or reports why the file
 * is of no use. */
void ocsp_load(SSL_CTX *ctx, const char *cert);

#endif
