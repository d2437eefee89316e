/* SPDX-License-Identifier: MIT */
/* body.c - fuzz the decoder of bodies: however it is cut, the result is the same.  The first byte
 * chooses the framing, the second how the rest is cut. */
#include "../../core/http.h"
#include "fuzz.h"

struct result {
    size_t used, len;
    uint64_t sum; /* of the payload, in order */
    long status;
};

/* seed 0: decode in one piece. */
static struct result decode(const uint8_t *bytes, size_t n, enum http_framing framing,
                            unsigned seed)
{
    struct result r = {0, 0, 14695981039346656037u, 0};
    struct http_body b;
    struct slice data;
    size_t piece, i;
    char *copy;
    long used = 0;

    http_body_init(&b, framing, n / 2);
    while (r.used < n && !http_body_done(&b) && used >= 0) {
        piece = n;
        if (seed != 0) {
            seed = (seed * 1103515245 + 12345) | 1;
            piece = 1 + (seed >> 16) % 24;
        }
        piece = piece < n - r.used ? piece : n - r.used;
        copy = hard_copy(bytes + r.used, piece);
        used = http_body_next(&b, copy, piece, &data);
        if (used < 0) {
            r.status = used;
            promise(!http_body_done(&b));
        } else {
            promise(used > 0 && (size_t)used <= piece && data.len <= (size_t)used);
            promise(data.len == 0 || data.ptr + data.len == copy + used);
            for (i = 0; i < data.len; i++)
                r.sum = (r.sum ^ (unsigned char)data.ptr[i]) * 1099511628211u;
            r.len += data.len;
            r.used += (size_t)used;
        }
        free(copy);
    }
    if (r.status < 0)
        r.used = 0; /* the place of the fault in the piece is not reported */
    else
        r.status = http_body_done(&b);
    return r;
}

static void check_chunk_head(uint64_t size)
{
    struct http_body b;
    struct slice data;
    char line[20];
    size_t len = http_chunk_head(line, (size_t)size);

    promise(len <= sizeof(line));
    http_body_init(&b, FRAMING_CHUNKED, 0);
    promise(http_body_next(&b, line, len, &data) == (size > INT64_MAX ? -413 : (long)len));
    promise(size > INT64_MAX || b.left == size);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    enum http_framing framing;
    struct result whole, split;
    uint64_t size = 0;

    if (n < 2)
        return 0;
    memcpy(&size, bytes, n < sizeof(size) ? n : sizeof(size));
    check_chunk_head(size >> bytes[0] % 64);
    framing = bytes[0] % 8 == 0   ? FRAMING_LENGTH
              : bytes[0] % 8 == 1 ? FRAMING_CLOSE
                                  : FRAMING_CHUNKED;
    whole = decode(bytes + 2, n - 2, framing, 0);
    split = decode(bytes + 2, n - 2, framing, bytes[1] + 1u);
    promise(whole.status == split.status && whole.used == split.used);
    promise(whole.len == split.len && whole.sum == split.sum);
    return 0;
}
