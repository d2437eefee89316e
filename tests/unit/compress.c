/* SPDX-License-Identifier: MIT */
/* compress.c - codings that rung makes: which are tried and chosen, that they fit and decode. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#if __has_include(<libdeflate.h>)
#include <libdeflate.h>
#endif
#if __has_include(<zstd.h>)
#include <zstd.h>
#endif
#include "../../core/docroot.h"
#include "../../core/docroot.h"
#include "../../server/compress.h"

enum { TEXT_BYTES = 40000, LINE_BYTES = 40 };

static char text[TEXT_BYTES], noise[TEXT_BYTES], out[TEXT_BYTES], again[TEXT_BYTES];

static void fill(void)
{
    unsigned seed = 7;

    for (unsigned i = 0; i < TEXT_BYTES; i++) {
        noise[i] = (char)(rand_r(&seed) >> 7);
        text[i] = (char)(i % LINE_BYTES ? 'a' + noise[i] % 4 : '\n');
    }
}

/* The library that wrote it decodes it; brotli's decoder is a separate library, see the wire
 * tests. */
static void expect_decodes(enum coding coding, size_t n, const char *bytes, size_t size)
{
    size_t len = size;

    memset(again, 0, sizeof(again));
    if (coding == CODING_BR)
        return;
#if __has_include(<libdeflate.h>)
    if (coding == CODING_GZIP) {
        struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();

        assert_int_equal(libdeflate_gzip_decompress(d, out, n, again, sizeof(again), &len), 0);
        libdeflate_free_decompressor(d);
    }
#endif
#if __has_include(<zstd.h>)
    if (coding == CODING_ZSTD)
        len = ZSTD_decompress(again, sizeof(again), out, n);
#endif
    assert_int_equal(len, size);
    assert_memory_equal(again, bytes, size);
}

static void test_makes_what_decodes(void **state)
{
    static const size_t sizes[] = {1, COMPRESS_BYTES_MIN, 4097, TEXT_BYTES};
    unsigned tried = 0;

    (void)state;
    for (enum coding coding = 0; coding < CODINGS; coding++)
        for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            const struct slice in = {text, sizes[i]};
            uint64_t hash;
            size_t n;

            if (!compressor_of(coding))
                continue;
            tried++;
            n = compress_write(coding, in, out, sizeof(out));
            assert_in_range(n, 1, sizes[i] + 64);
            expect_decodes(coding, n, text, sizes[i]);
            hash = compress_hash((struct slice){out, n});
            assert_int_equal(compress_write(coding, in, out, sizeof(out)), n); /* the same bytes */
            assert_true(compress_hash((struct slice){out, n}) == hash);
        }
    if (!tried)
        skip(); /* built without any coding */
}

/* A result that does not fit is refused, however close; and nothing behind the end is written. */
/* shows D26 */
static void test_fits_or_is_nothing(void **state)
{
    (void)state;
    for (enum coding coding = 0; coding < CODINGS; coding++) {
        const struct slice in = {text, 5000}, no_text = {noise, 5000};
        size_t n = compress_write(coding, in, out, sizeof(out));

        for (size_t cap = n > 100 ? n - 100 : 0; cap < n + 40; cap++) {
            size_t got;

            memset(out, '#', sizeof(out));
            got = compress_write(coding, in, out, cap);
            assert_true(got == 0 || got <= cap);
            assert_true(cap >= n || got == 0 || coding == CODING_BR);
            for (size_t i = cap; i < sizeof(out); i++)
                assert_int_equal(out[i], '#');
        }
        assert_int_equal(compress_write(coding, no_text, out, docroot_coded_max(5000)), 0);
    }
}

static void test_none_for_identity(void **state)
{
    (void)state;
    assert_null(compressor_of(CODING_IDENTITY));
    assert_null(compressor_of(CODINGS));
    assert_int_equal(compress_write(CODING_IDENTITY, (struct slice){text, 999}, out, 999), 0);
}

static void test_bounds(void **state)
{
    (void)state;
    assert_true(docroot_compresses("text/html; charset=utf-8", COMPRESS_BYTES_MIN, 9999));
    assert_false(docroot_compresses("text/html; charset=utf-8", COMPRESS_BYTES_MIN - 1, 9999));
    assert_true(docroot_compresses("text/html; charset=utf-8", 9999, 9999));
    assert_false(docroot_compresses("text/html; charset=utf-8", 10000, 9999));
    assert_false(docroot_compresses("text/html; charset=utf-8", 600, 0)); /* nothing is kept */
    assert_false(docroot_compresses("image/png", 600, 9999));
    for (size_t saved = 99; saved <= 101; saved++) { /* a hundred times that share */
        size_t size = 100 * COMPRESS_SAVES_PART;

        assert_int_equal(size - saved <= docroot_coded_max(size), saved >= 100);
    }
    assert_int_equal(docroot_coded_max(801), 701);
}

static void test_choice(void **state)
{
    static const uint16_t cases[][CODINGS] = {
        {1000, 0, 0, 0}, {1, 0, 0, 0},       {0, 0, 0, 0},        {1, 1000, 0, 0},
        {1, 0, 1000, 0}, {1, 0, 0, 1000},    {1000, 500, 999, 1}, {500, 500, 0, 0},
        {1, 900, 0, 800}, {1, 900, 900, 900}, {0, 1, 0, 0},       {1, 0, 300, 200},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        enum coding best = compress_best(cases[i]);

        assert_true(best == CODING_IDENTITY || compressor_of(best));
        for (enum coding coding = 0; coding < CODINGS; coding++)
            if (coding == CODING_IDENTITY || compressor_of(coding))
                assert_false(http_prefers(cases[i], coding, best));
    }
}

/* The hash is in tags that clients keep: another value would not be wrong, only wasteful. */
static void test_hash_stays(void **state)
{
    (void)state;
    assert_true(compress_hash((struct slice){"gzip", 4}) == UINT64_C(437735102804814045));
    assert_true(compress_hash((struct slice){"", 0}) != 0);
    assert_true(compress_hash((struct slice){"gzi", 3}) != compress_hash((struct slice){"gzj", 3}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_makes_what_decodes),
        cmocka_unit_test(test_fits_or_is_nothing),
        cmocka_unit_test(test_none_for_identity),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_hash_stays),
    };

    fill();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
