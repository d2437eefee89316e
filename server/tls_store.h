/* SPDX-License-Identifier: MIT */
/* tls_store.h - what connections that speak TLS by OpenSSL share: certificates, keys, tickets. */
#ifndef SERVER_TLS_STORE_H
#define SERVER_TLS_STORE_H
#include <openssl/ssl.h>
#include "tls.h"

struct store;
/* As tls_open(). */
int  store_open(struct store **store, const struct option_list *pairs);
void store_close(struct store *store);
/* A server's end of a connection, by the newest certificates; NULL: no memory. */
SSL *store_new_ssl(struct store *store);

/* A certificate made for this machine, and its key (tls_self.c); its fingerprint is printed.
 * False: OpenSSL's error queue says why. */
bool self_make(SSL_CTX *ctx);

#endif
