/* SPDX-License-Identifier: MIT */
/* fuzz.h - the common base of every fuzz target: its entry point, promises, and bytes with a hard
 * end. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

#define promise(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #what); \
            abort(); \
        } \
    } while (0)

/* A copy in memory of exactly n bytes, so that the sanitizer sees a read past the end.  free()
 * it. */
static inline char *hard_copy(const void *bytes, size_t n)
{
    char *copy = malloc(n > 0 ? n : 1);

    promise(copy);
    if (n > 0)
        memcpy(copy, bytes, n);
    return copy;
}

#endif
