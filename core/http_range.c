/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* http_range.c - Range: bytes (RFC 9110 14.1, 14.2).
 *
 * Numbers saturate instead of wrapping, so huge numbers cannot make a small sum; the ranges kept
 * are inside the representation and their lengths together do not exceed it (nginx CVE-2017-7529).
 */
#include "byte.h"
#include "http_inside.h"

/* Digits at the start of *s, 2^64-1 if there are too many; false: none. */
static bool read_number(struct slice *s, uint64_t *number)
{
    uint64_t value = 0, digit;
    size_t i;

    for (i = 0; i < s->len && byte_is(s->ptr[i], BYTE_DIGIT); i++) {
        digit = (uint64_t)(s->ptr[i] - '0');
        if (value > UINT64_MAX / 10 || value * 10 > UINT64_MAX - digit)
            value = UINT64_MAX;
        else
            value = value * 10 + digit;
    }
    s->ptr += i;
    s->len -= i;
    *number = value;
    return i > 0;
}

static bool skip_dash(struct slice *s)
{
    if (s->len == 0 || *s->ptr != '-')
        return false;
    s->ptr++;
    s->len--;
    return true;
}

/* One range-spec.  False: malformed.  len 0: it cannot be satisfied. */
static bool read_spec(struct slice s, uint64_t size, struct http_range *range)
{
    uint64_t first, last = UINT64_MAX;

    range->off = range->len = 0;
    if (skip_dash(&s)) { /* suffix: the last N bytes, all if there are fewer (14.1.2) */
        if (!read_number(&s, &last) || s.len)
            return false;
        range->len = last < size ? last : size;
        range->off = size - range->len;
        return true;
    }
    if (!read_number(&s, &first) || !skip_dash(&s))
        return false;
    if (s.len && (!read_number(&s, &last) || s.len || last < first))
        return false;
    if (first >= size)
        return true;
    range->off = first;
    range->len = (last < size ? last : size - 1) - first + 1;
    return true;
}

/* A suffix of an empty representation is satisfiable but has no Content-Range: it is the whole
 * (14.1.2). */
static bool is_empty_suffix(struct slice s, uint64_t size)
{
    uint64_t number;

    return size == 0 && skip_dash(&s) && read_number(&s, &number) && number > 0;
}

enum http_range_want http_range(struct slice value, uint64_t size, struct http_ranges *ranges)
{
    static const char unit[] = "bytes=";
    struct slice spec, name = {value.ptr, sizeof(unit) - 1};
    struct http_range range;
    uint64_t total = 0;
    unsigned asked = 0;
    bool whole = false;

    ranges->count = 0;
    if (value.len < name.len || !slice_is_nocase(name, unit))
        return RANGE_WHOLE; /* a unit we do not know is ignored (14.2) */
    value.ptr += name.len;
    value.len -= name.len;
    while (http_list(&value, &spec)) {
        if (++asked > RANGES_MAX || !read_spec(spec, size, &range))
            return RANGE_WHOLE;
        whole = whole || is_empty_suffix(spec, size);
        if (range.len == 0)
            continue;
        /* Together more than the whole: they overlap, and the whole is cheaper (14.2). */
        if (range.len > size - total)
            return RANGE_WHOLE;
        total += range.len;
        ranges->range[ranges->count++] = range;
    }
    if (asked == 0 || whole)
        return RANGE_WHOLE;
    return ranges->count ? RANGE_SOME : RANGE_NONE;
}
