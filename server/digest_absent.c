/* SPDX-License-Identifier: MIT */
/* digest_absent.c - stands for digest.c where OpenSSL's header is not installed: no digest is
 * offered. */
#include "digest.h"

void digest_prepare(void)
{
}

bool digest_can(enum http_digest kind)
{
    (void)kind;
    return false;
}

struct digest *digest_open(enum http_digest kind)
{
    (void)kind;
    return NULL;
}

void digest_close(struct digest *d)
{
    (void)d;
}

bool digest_add(struct digest *d, const void *bytes, size_t n)
{
    (void)d;
    (void)bytes;
    (void)n;
    return false;
}

bool digest_end(struct digest *d, char text[DIGEST_TEXT_BYTES])
{
    (void)d;
    (void)text;
    return false;
}
