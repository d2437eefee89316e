/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kgzip.c - gzip (RFC 1952) with the kernel's zlib, which writes raw deflate and zlib's own format
 * but refuses to write this one: ten bytes of head, raw deflate, checksum and length.
 *
 * There is one workspace, a quarter of a megabyte, so bodies are compressed one after the other.
 * The same bytes make the same file, so that its ETag may be strong.
 */
#include <linux/crc32.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <linux/zlib.h>
#include "kcompat.h"
#include "kcache.h"

enum {
    LEVEL = 6,
    MEMORY_LEVEL = 8,
    WINDOW_BITS = 15,
    HEAD_BYTES = 10,
    TAIL_BYTES = 8,
    STEP_BYTES = 16384, /* other threads get their turn in between */
};

struct kgzip {
    struct mutex lock;
    void *memory;
};

int kgzip_open(struct kgzip **gzip)
{
    struct kgzip *g = kzalloc(sizeof(*g), GFP_KERNEL);

    if (!g)
        return -ENOMEM;
    mutex_init(&g->lock);
    g->memory = vmalloc(zlib_deflate_workspacesize(WINDOW_BITS, MEMORY_LEVEL));
    if (!g->memory) {
        kfree(g);
        return -ENOMEM;
    }
    *gzip = g;
    return 0;
}

void kgzip_close(struct kgzip *gzip)
{
    if (!gzip)
        return;
    vfree(gzip->memory);
    kfree(gzip);
}

/* Writes raw deflate.  Returns its length, or -ENOSPC. */
static long deflate(struct kgzip *gzip, struct slice in, char *out, size_t cap)
{
    struct z_stream_s z = {
        .workspace = gzip->memory,
        .next_in = (const Byte *)in.ptr,
        .next_out = (Byte *)out,
        .avail_out = cap,
    };
    size_t left = in.len;
    int said = zlib_deflateInit2(&z, LEVEL, Z_DEFLATED, -WINDOW_BITS, MEMORY_LEVEL,
                                 Z_DEFAULT_STRATEGY);

    while (said == Z_OK && left) {
        z.avail_in = min_t(size_t, left, STEP_BYTES);
        left -= z.avail_in;
        said = zlib_deflate(&z, left ? Z_NO_FLUSH : Z_FINISH);
        if (z.avail_in) /* no room */
            break;
        cond_resched();
    }
    return said == Z_STREAM_END ? (long)z.total_out : -ENOSPC;
}

static void put_le32(char *out, u32 n)
{
    unsigned i;

    for (i = 0; i < 4; i++)
        out[i] = (char)(n >> 8 * i);
}

long kgzip_write(struct kgzip *gzip, struct slice in, char *out, size_t cap)
{
    /* Deflate; no name, no time, no flags; unknown system. */
    static const char head[HEAD_BYTES] = {0x1f, (char)0x8b, 8, 0, 0, 0, 0, 0, 0, (char)0xff};
    long n;

    if (in.len == 0 || in.len > U32_MAX || cap <= HEAD_BYTES + TAIL_BYTES)
        return -ENOSPC;
    mutex_lock(&gzip->lock);
    n = deflate(gzip, in, out + HEAD_BYTES, cap - HEAD_BYTES - TAIL_BYTES);
    mutex_unlock(&gzip->lock);
    if (n < 0)
        return n;
    memcpy(out, head, HEAD_BYTES);
    out += HEAD_BYTES + n;
    put_le32(out, ~crc32_le(~0u, (const unsigned char *)in.ptr, in.len));
    put_le32(out + 4, (u32)in.len);
    return HEAD_BYTES + n + TAIL_BYTES;
}
