/* SPDX-License-Identifier: MIT */
/* tls_memory.c - malloc() and realloc() for OpenSSL, which remember that they have failed. */
#include <openssl/crypto.h>
#include <stdlib.h>
#include "tls_memory.h"

static _Thread_local bool lacked;

static void *noted(void *mem)
{
    lacked = lacked || !mem;
    return mem;
}

/* OpenSSL asks for no empty block. */
static void *take(size_t n, const char *file, int line)
{
    (void)file;
    (void)line;
    return noted(malloc(n));
}

static void *resize(void *mem, size_t n, const char *file, int line)
{
    (void)file;
    (void)line;
    return noted(realloc(mem, n));
}

static void give(void *mem, const char *file, int line)
{
    (void)file;
    (void)line;
    free(mem);
}

bool tls_memory_open(void)
{
    static bool once;

    once = once || CRYPTO_set_mem_functions(take, resize, give);
    return once;
}

void tls_memory_watch(void)
{
    lacked = false;
}

bool tls_memory_lacked(void)
{
    return lacked;
}
