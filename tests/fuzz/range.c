/* SPDX-License-Identifier: MIT */
/* range.c - fuzz Range: eight bytes of size, then the field's value.
 *
 * Whatever the field says, the ranges kept are within the representation and no larger than it; and
 * a naive reader with numbers that cannot overflow agrees about the first range.
 */
#include "../../core/http_inside.h"
#include "fuzz.h"

/* Read digits as a number that stops growing far beyond 64 bits.  False: there are none. */
static bool naive_number(struct slice *s, unsigned __int128 *number)
{
    size_t digits = 0;

    for (*number = 0; s->len && *s->ptr >= '0' && *s->ptr <= '9'; s->ptr++, s->len--, digits++)
        if (*number < (unsigned __int128)1 << 100)
            *number = *number * 10 + (unsigned)(*s->ptr - '0');
    return digits > 0;
}

/* If the value is "bytes=A-B" and nothing else, check the result. */
static void check_single(struct slice value, uint64_t size, enum http_range_want want,
                         const struct http_ranges *ranges)
{
    unsigned __int128 first, last;

    if (value.len < 6 || memcmp(value.ptr, "bytes=", 6) != 0)
        return;
    value.ptr += 6;
    value.len -= 6;
    if (!naive_number(&value, &first) || !value.len || *value.ptr != '-')
        return;
    value.ptr++;
    value.len--;
    if (!naive_number(&value, &last) || value.len)
        return;
    if (last < first) { /* beyond 64 bits both are the same: not satisfiable either way */
        promise(want == RANGE_WHOLE || (first > UINT64_MAX && last >= UINT64_MAX));
        return;
    }
    if (first >= size) {
        promise(want == RANGE_NONE);
        return;
    }
    promise(want == RANGE_SOME && ranges->count == 1 && ranges->range[0].off == first);
    promise(ranges->range[0].len == (last < size ? last : size - 1) - first + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct http_ranges ranges;
    enum http_range_want want;
    uint64_t size, total = 0;
    struct slice value;

    if (n < sizeof(size))
        return 0;
    memcpy(&size, data, sizeof(size));
    value = (struct slice){(const char *)data + sizeof(size), n - sizeof(size)};
    want = http_range(value, size, &ranges);
    check_single(value, size, want, &ranges);
    if (want != RANGE_SOME)
        return 0;
    promise(ranges.count >= 1 && ranges.count <= RANGES_MAX);
    for (unsigned i = 0; i < ranges.count; i++) {
        const struct http_range *r = &ranges.range[i];

        promise(r->len > 0 && r->off < size && r->len <= size - r->off);
        promise(r->len <= size - total);
        total += r->len;
    }
    return 0;
}
