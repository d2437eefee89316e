/* SPDX-License-Identifier: MIT */
/* compress_br.c - br (RFC 7932) by the brotli library.  Quality 11 takes fifty times as long to
 * save another tenth (docs/cache.md).
 *
 * As it is usually built, the library ends the process when it gets no memory.  So an allocation
 * that fails does not return to it: a longjmp() gives the coding up, and the blocks are freed here.
 */
#include <brotli/encode.h>
#include <setjmp.h>
#include "compress.h"
#include "heap.h"

enum { QUALITY = 5, WINDOW_BITS = 18 /* 256 KiB: all that is kept in memory */ };

struct memory {
    struct heap heap;
    jmp_buf none;
};

static void *take(void *arg, size_t n)
{
    struct memory *memory = arg;
    void *mem = heap_take(&memory->heap, n);

    if (!mem)
        longjmp(memory->none, 1);
    return mem;
}

static void give(void *arg, void *mem)
{
    (void)arg;
    heap_give(mem);
}

/* Takes the same steps as BrotliEncoderCompress(). */
static size_t encode(struct memory *memory, struct slice in, char *out, size_t cap)
{
    BrotliEncoderState *state = BrotliEncoderCreateInstance(take, give, memory);
    const uint8_t *from = (const uint8_t *)in.ptr;
    uint8_t *to = (uint8_t *)out;
    size_t left = in.len, room = cap;
    bool whole;

    BrotliEncoderSetParameter(state, BROTLI_PARAM_QUALITY, QUALITY);
    BrotliEncoderSetParameter(state, BROTLI_PARAM_LGWIN, WINDOW_BITS);
    BrotliEncoderSetParameter(state, BROTLI_PARAM_SIZE_HINT, (uint32_t)in.len);
    whole = BrotliEncoderCompressStream(state, BROTLI_OPERATION_FINISH, &left, &from, &room, &to,
                                        NULL) && BrotliEncoderIsFinished(state);
    return whole ? cap - room : 0;
}

/* A function of its own, so that the jump makes none of its variables uncertain. */
static __attribute__((noinline)) size_t try_encode(struct memory *memory, struct slice in,
                                                   char *out, size_t cap)
{
    return setjmp(memory->none) == 0 ? encode(memory, in, out, cap) : 0;
}

static size_t br(struct slice in, char *out, size_t cap)
{
    struct memory memory;
    size_t n;

    heap_init(&memory.heap);
    n = try_encode(&memory, in, out, cap);
    heap_drop(&memory.heap);
    return n;
}

const struct compressor compress_br = {CODING_BR, "brotli", br};
