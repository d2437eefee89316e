/* SPDX-License-Identifier: MIT */
/* range.c - Range: the whole, a part, or not satisfiable, at every edge and beyond
 * 64 bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "head.h"

#define MAX64 "18446744073709551615"
#define GIB5 5368709120ull

/* want: -1 the whole, 0 not satisfiable, otherwise the number of ranges */
struct row {
    const char *value;
    uint64_t size;
    int want;
    struct http_range range[3];
};

static const struct row rows[] = {
    {"bytes=0-0", 26, 1, {{0, 1}}},
    {"bytes=0-25", 26, 1, {{0, 26}}},
    {"bytes=0-26", 26, 1, {{0, 26}}},
    {"bytes=25-", 26, 1, {{25, 1}}},
    {"bytes=25-25", 26, 1, {{25, 1}}},
    {"bytes=26-", 26, 0, {{0}}},
    {"bytes=26-26", 26, 0, {{0}}},
    {"bytes=-1", 26, 1, {{25, 1}}},
    {"bytes=-26", 26, 1, {{0, 26}}},
    {"bytes=-27", 26, 1, {{0, 26}}},
    {"bytes=-0", 26, 0, {{0}}},
    {"bytes=-00", 26, 0, {{0}}},
    {"BYTES=007-008", 26, 1, {{7, 2}}},
    {"bytes= , 3-5 ,,\t7-7 ,", 26, 2, {{3, 3}, {7, 1}}},
    {"bytes=20-,0-3", 26, 2, {{20, 6}, {0, 4}}},
    {"bytes=0-1,99-,-2", 26, 2, {{0, 2}, {24, 2}}},
    {"bytes=99-,100-", 26, 0, {{0}}},
    {"bytes=99-,-0,5-5", 26, 1, {{5, 1}}},
    /* together as much as the whole, and a byte more */
    {"bytes=0-12,13-25", 26, 2, {{0, 13}, {13, 13}}},
    {"bytes=0-12,0-12", 26, 2, {{0, 13}, {0, 13}}},
    {"bytes=0-12,12-25", 26, -1, {{0}}},
    {"bytes=0-,0-0", 26, -1, {{0}}},
    {"bytes=0-,99-", 26, 1, {{0, 26}}},
    /* beyond 64 bits nothing wraps */
    {"bytes=0-" MAX64, 26, 1, {{0, 26}}},
    {"bytes=0-18446744073709551616", 26, 1, {{0, 26}}},
    {"bytes=0-18446744073709551626", 26, 1, {{0, 26}}},
    {"bytes=0-99999999999999999999999999999999", 26, 1, {{0, 26}}},
    {"bytes=-" MAX64, 26, 1, {{0, 26}}},
    {"bytes=-99999999999999999999999999999999", 26, 1, {{0, 26}}},
    {"bytes=" MAX64 "-", 26, 0, {{0}}},
    {"bytes=18446744073709551616-", 26, 0, {{0}}},
    {"bytes=18446744073709551616-18446744073709551617", 26, 0, {{0}}},
    {"bytes=-9223372036854775608,-9223372036854775608", 26, -1, {{0}}},
    {"bytes=0-9223372036854775807,0-9223372036854775807,0-1", UINT64_MAX, -1, {{0}}},
    {"bytes=18446744073709551614-", UINT64_MAX, 1, {{UINT64_MAX - 1, 1}}},
    {"bytes=0-" MAX64, UINT64_MAX, 1, {{0, UINT64_MAX}}},
    {"bytes=-1", UINT64_MAX, 1, {{UINT64_MAX - 1, 1}}},
    /* a large file */
    {"bytes=4294967295-4294967296", GIB5, 1, {{4294967295u, 2}}},
    {"bytes=-1,0-0,4294967296-4294967296", GIB5, 3, {{GIB5 - 1, 1}, {0, 1}, {4294967296u, 1}}},
    {"bytes=5368709119-", GIB5, 1, {{GIB5 - 1, 1}}},
    {"bytes=5368709120-", GIB5, 0, {{0}}},
    /* an empty file: a suffix of it is the whole file, no other range is satisfiable */
    {"bytes=0-", 0, 0, {{0}}},
    {"bytes=0-0", 0, 0, {{0}}},
    {"bytes=-1", 0, -1, {{0}}},
    {"bytes=-0", 0, 0, {{0}}},
    {"bytes=0-,-1", 0, -1, {{0}}},
    /* one byte */
    {"bytes=0-", 1, 1, {{0, 1}}},
    {"bytes=1-", 1, 0, {{0}}},
    /* not a set of ranges: ignored, whatever else it contains */
    {"bytes=5-3", 26, -1, {{0}}},
    {"bytes=3-5,5-3", 26, -1, {{0}}},
    {"bytes=99-,5-3", 26, -1, {{0}}},
    {"bytes=", 26, -1, {{0}}},
    {"bytes", 26, -1, {{0}}},
    {"", 26, -1, {{0}}},
    {"bytes=,", 26, -1, {{0}}},
    {"bytes=-", 26, -1, {{0}}},
    {"bytes=3", 26, -1, {{0}}},
    {"bytes=a-b", 26, -1, {{0}}},
    {"bytes=3-b", 26, -1, {{0}}},
    {"bytes=3-5-7", 26, -1, {{0}}},
    {"bytes=3--5", 26, -1, {{0}}},
    {"bytes=--5", 26, -1, {{0}}},
    {"bytes=-5-", 26, -1, {{0}}},
    {"bytes=+3-5", 26, -1, {{0}}},
    {"bytes=0x3-5", 26, -1, {{0}}},
    {"bytes=3 -5", 26, -1, {{0}}},
    {"bytes=3- 5", 26, -1, {{0}}},
    {"bytes=3-5;", 26, -1, {{0}}},
    {"bytes=\"3-5\"", 26, -1, {{0}}},
    {"bytes 3-5", 26, -1, {{0}}},
    {"bytes:3-5", 26, -1, {{0}}},
    {"bytes =3-5", 26, -1, {{0}}},
    {"lines=3-5", 26, -1, {{0}}},
    {"none", 26, -1, {{0}}},
};

static void check(const struct row *row)
{
    struct slice value = {row->value, strlen(row->value)};
    struct http_ranges got;
    enum http_range_want want = http_range(value, row->size, &got);

    if (row->want <= 0) {
        if (want != (row->want ? RANGE_WHOLE : RANGE_NONE))
            fail_msg("%s of %llu", row->value, (unsigned long long)row->size);
        return;
    }
    if (want != RANGE_SOME || got.count != (unsigned)row->want)
        fail_msg("%s of %llu: %d", row->value, (unsigned long long)row->size, want);
    for (unsigned i = 0; i < got.count; i++)
        if (got.range[i].off != row->range[i].off || got.range[i].len != row->range[i].len)
            fail_msg("%s, range %u: %llu from %llu", row->value, i,
                     (unsigned long long)got.range[i].len, (unsigned long long)got.range[i].off);
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check(&rows[i]);
}

/* RANGES_MAX are answered, one more is too many, satisfiable or not. */
static void test_number(void **state)
{
    char text[64 + 16 * (RANGES_MAX + 1)];
    struct http_ranges got;
    struct slice value;

    (void)state;
    for (unsigned n = RANGES_MAX; n <= RANGES_MAX + 1; n++) {
        int len = snprintf(text, sizeof(text), "bytes=");

        for (unsigned i = 0; i < n; i++)
            len += snprintf(text + len, sizeof(text) - (size_t)len, "%u-%u,", 2 * i, 2 * i);
        value = (struct slice){text, (size_t)len};
        if (n == RANGES_MAX) {
            assert_int_equal(http_range(value, 1000, &got), RANGE_SOME);
            assert_int_equal(got.count, RANGES_MAX);
            assert_int_equal(got.range[RANGES_MAX - 1].off, 2 * (RANGES_MAX - 1));
            /* one of them is beyond the end: the others remain */
            assert_int_equal(http_range(value, 2 * RANGES_MAX - 2, &got), RANGE_SOME);
            assert_int_equal(got.count, RANGES_MAX - 1);
        } else {
            assert_int_equal(http_range(value, 1000, &got), RANGE_WHOLE);
            assert_int_equal(http_range(value, 1, &got), RANGE_WHOLE);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
