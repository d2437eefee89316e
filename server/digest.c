/* SPDX-License-Identifier: MIT */
/* digest.c - hashes by OpenSSL, which uses the instructions that a processor has for them.
 *
 * The library reads its configuration when it is first used.  The sandbox keeps files from it, so
 * each hash is tried once before the sandbox begins; one that a configuration does not allow is
 * not offered.
 */
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include "digest.h"
#include "tls_memory.h"

struct digest {
    enum http_digest kind;
    EVP_MD_CTX *ctx;
};

static const struct {
    const char *name;
    const EVP_MD *(*make)(void);
} hashes[DIGESTS] = {
    [DIGEST_SHA256] = {"sha-256", EVP_sha256},
    [DIGEST_SHA512] = {"sha-512", EVP_sha512},
};

/* Set once, by digest_prepare(). */
static bool can[DIGESTS];

bool digest_can(enum http_digest kind)
{
    return can[kind];
}

void digest_prepare(void)
{
    char text[DIGEST_TEXT_BYTES];

    if (!tls_memory_open())
        return;
    for (enum http_digest kind = DIGEST_NONE + 1; kind < DIGESTS; kind++) {
        struct digest *d = digest_open(kind);

        can[kind] = d && digest_add(d, "", 0) && digest_end(d, text);
        digest_close(d);
    }
}

struct digest *digest_open(enum http_digest kind)
{
    struct digest *d = malloc(sizeof(*d));

    if (!d)
        return NULL;
    *d = (struct digest){kind, EVP_MD_CTX_new()};
    if (d->ctx && EVP_DigestInit_ex(d->ctx, hashes[kind].make(), NULL) == 1)
        return d;
    digest_close(d);
    return NULL;
}

void digest_close(struct digest *d)
{
    if (!d)
        return;
    EVP_MD_CTX_free(d->ctx);
    free(d);
}

bool digest_add(struct digest *d, const void *bytes, size_t n)
{
    return EVP_DigestUpdate(d->ctx, bytes, n) == 1;
}

bool digest_end(struct digest *d, char text[DIGEST_TEXT_BYTES])
{
    unsigned char hash[EVP_MAX_MD_SIZE], coded[2 * EVP_MAX_MD_SIZE];
    unsigned n = 0;

    if (EVP_DigestFinal_ex(d->ctx, hash, &n) != 1)
        return false;
    (void)EVP_EncodeBlock(coded, hash, (int)n); /* base64, with a NUL */
    n = (unsigned)snprintf(text, DIGEST_TEXT_BYTES, "%s=:%s:", hashes[d->kind].name,
                           (const char *)coded);
    return n < DIGEST_TEXT_BYTES;
}
