/* SPDX-License-Identifier: MIT */
/* tls_store.h - what connections that speak TLS by OpenSSL share: the newest certificates, keys of
 * tickets. */
#ifndef SERVER_TLS_STORE_H
#define SERVER_TLS_STORE_H
#include <openssl/ssl.h>
#include "tls.h"

struct store;
/* As tls_open() and tls_reload(). */
int  store_open(struct store **store, const struct tls_pairs *pairs, struct tls_offer offer);
void store_reload(struct store *store);
void store_close(struct store *store);

/* A server's end of a connection, by the newest certificates; NULL: no memory. */
SSL *store_ssl_new(struct store *store);
void store_ssl_free(struct store *store, SSL *ssl);

/* A client was refused.  Whether to report it: once a second, in all workers together.  *more:
 * clients that were refused since then. */
bool store_refused(struct store *store, unsigned long long *more);

#endif
