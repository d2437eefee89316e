/* SPDX-License-Identifier: MIT */
/* tls_keys.h - the key that a connection by OpenSSL sends with, for the kernel: TLS 1.3 only. */
#ifndef SERVER_TLS_KEYS_H
#define SERVER_TLS_KEYS_H
#include <openssl/ssl.h>
#include "tls_kernel.h"

enum { SECRET_BYTES_MAX = 48 }; /* SHA-384's */

/* What was seen of a connection. */
struct tls_secret {
    size_t len;      /* 0: there is none, or it was replaced */
    uint64_t record; /* records that were made with its key */
    unsigned char bytes[SECRET_BYTES_MAX];
};

/* Connections of this context report their secrets.  The first call is alone. */
void tls_keys_log(SSL_CTX *ctx);
/* From now on the connection's secret is there, and its records are counted. */
void tls_keys_follow(SSL *ssl, struct tls_secret *secret);
/* Forgets the secret. */
void tls_keys_forget(struct tls_secret *secret);
/* False: there is no secret, or OpenSSL cannot derive the key. */
bool tls_keys_of(const SSL *ssl, const struct tls_secret *secret, struct tls_keys *keys);

#endif
