/* SPDX-License-Identifier: MIT */
/* digest.h - the hash of bytes that are sent, as Repr-Digest has it (RFC 9530): digest.c, by
 * OpenSSL, or digest_absent.c, where its header is not installed.
 */
#ifndef SERVER_DIGEST_H
#define SERVER_DIGEST_H
#include "../core/http.h"

/* "sha-512=:", 64 bytes in base64, ":" and a NUL. */
enum { DIGEST_TEXT_BYTES = 9 + 88 + 1 + 1 };

struct digest;

/* Finds out which digests can be made here.  Call it once, before other threads exist and while the
 * library may read its files. */
void digest_prepare(void);
/* Whether a digest of that kind can be made; DIGEST_NONE cannot. */
bool digest_can(enum http_digest kind);
struct digest *digest_open(enum http_digest kind); /* NULL: no memory */
void digest_close(struct digest *d);               /* NULL is fine */
/* False: the library has failed. */
bool digest_add(struct digest *d, const void *bytes, size_t n);
/* Writes the digest of all bytes that were added.  No more can be added. */
bool digest_end(struct digest *d, char text[DIGEST_TEXT_BYTES]);

#endif
