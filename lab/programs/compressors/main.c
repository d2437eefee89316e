/* SPDX-License-Identifier: MIT */
/* main.c - compressors: time and size of text in the libraries that could compress answers.
 *
 *   compressors FILE...     a Markdown table of the first 100 KB of each file
 *
 * Each library is opened at run time, so that the others can be measured where one is missing; only
 * ISA-L needs its header, because its caller lays out its state.  Every result is decoded and
 * compared.  The shortest of many times counts: other work of the machine only adds.  Memory is
 * allocated and freed within the time, as in a server that compresses now and then.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if __has_include(<isa-l/igzip_lib.h>)
#include <isa-l/igzip_lib.h>
#define HAS_ISAL 1
#else
#define HAS_ISAL 0
#endif

enum { TEXT_BYTES = 100000, OUT_BYTES = 2 * TEXT_BYTES, ROUNDS = 25, FILES_MAX = 8 };

struct text {
    size_t len;
    char bytes[TEXT_BYTES];
};

/* encode and decode return the number of bytes in out, or 0: failed. */
struct codec {
    const char *name, *coding, *library;
    int levels[6]; /* ends with 0 */
    size_t (*encode)(int level, const struct text *in, char *out);
    size_t (*decode)(const char *in, size_t n, char *out);
};

static void *function(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_NOW);

    return handle ? dlsym(handle, name) : NULL;
}

/* One function of a library, looked up once. */
#define FUNCTION(result, name, library, ...) \
    static result (*name)(__VA_ARGS__); \
    if (!name) \
        *(void **)&name = function(library, #name)

#define LIBZ "libz.so.1"
#define LIBDEFLATE "libdeflate.so.0"
#define LIBISAL "libisal.so.2"
#define LIBZSTD "libzstd.so.1"
#define LIBBROTLI "libbrotlienc.so.1"

static size_t zlib_encode(int level, const struct text *in, char *out)
{
    unsigned long n = OUT_BYTES;
    FUNCTION(int, compress2, LIBZ, char *, unsigned long *, const char *, unsigned long, int);

    return compress2(out, &n, in->bytes, in->len, level) == 0 ? n : 0;
}

static size_t zlib_decode(const char *in, size_t n, char *out)
{
    unsigned long len = OUT_BYTES;
    FUNCTION(int, uncompress, LIBZ, char *, unsigned long *, const char *, unsigned long);

    return uncompress(out, &len, in, n) == 0 ? len : 0;
}

static size_t libdeflate_encode(int level, const struct text *in, char *out)
{
    size_t n;
    void *state;
    FUNCTION(void *, libdeflate_alloc_compressor, LIBDEFLATE, int);
    FUNCTION(size_t, libdeflate_zlib_compress, LIBDEFLATE, void *, const void *, size_t, void *,
             size_t);
    FUNCTION(void, libdeflate_free_compressor, LIBDEFLATE, void *);

    state = libdeflate_alloc_compressor(level);
    n = state ? libdeflate_zlib_compress(state, in->bytes, in->len, out, OUT_BYTES) : 0;
    libdeflate_free_compressor(state);
    return n;
}

/* ISA-L's levels are 0 to 3; the table calls them 1 to 4, because 0 ends the list. */
static size_t isal_encode(int level, const struct text *in, char *out)
{
#if HAS_ISAL
    static const uint32_t room[] = {ISAL_DEF_LVL0_DEFAULT, ISAL_DEF_LVL1_DEFAULT,
                                    ISAL_DEF_LVL2_DEFAULT, ISAL_DEF_LVL3_DEFAULT};
    struct isal_zstream *z = malloc(sizeof(*z));
    size_t n = 0;
    FUNCTION(void, isal_deflate_init, LIBISAL, struct isal_zstream *);
    FUNCTION(int, isal_deflate, LIBISAL, struct isal_zstream *);

    if (!z)
        return 0;
    isal_deflate_init(z);
    z->level = (uint32_t)level - 1;
    z->level_buf_size = room[z->level];
    z->level_buf = malloc(room[z->level] + 1);
    z->gzip_flag = IGZIP_ZLIB;
    z->end_of_stream = 1;
    z->next_in = (uint8_t *)(uintptr_t)in->bytes;
    z->avail_in = (uint32_t)in->len;
    z->next_out = (uint8_t *)out;
    z->avail_out = OUT_BYTES;
    if (z->level_buf && isal_deflate(z) == COMP_OK && z->avail_in == 0)
        n = z->total_out;
    free(z->level_buf);
    free(z);
    return n;
#else
    (void)level;
    (void)in;
    (void)out;
    return 0;
#endif
}

static size_t zstd_encode(int level, const struct text *in, char *out)
{
    size_t n;
    FUNCTION(size_t, ZSTD_compress, LIBZSTD, void *, size_t, const void *, size_t, int);

    n = ZSTD_compress(out, OUT_BYTES, in->bytes, in->len, level);
    return n <= OUT_BYTES ? n : 0;
}

static size_t zstd_decode(const char *in, size_t n, char *out)
{
    FUNCTION(size_t, ZSTD_decompress, LIBZSTD, void *, size_t, const void *, size_t);

    return ZSTD_decompress(out, OUT_BYTES, in, n);
}

static size_t brotli_encode(int level, const struct text *in, char *out)
{
    enum { WINDOW_BITS = 18 /* 256 KiB: all that is kept in memory */, MODE_TEXT = 1 };
    size_t n = OUT_BYTES;
    FUNCTION(int, BrotliEncoderCompress, LIBBROTLI, int, int, int, size_t, const char *, size_t *,
             char *);

    return BrotliEncoderCompress(level, WINDOW_BITS, MODE_TEXT, in->len, in->bytes, &n, out) ? n
                                                                                            : 0;
}

static size_t brotli_decode(const char *in, size_t n, char *out)
{
    size_t len = OUT_BYTES;
    FUNCTION(int, BrotliDecoderDecompress, "libbrotlidec.so.1", size_t, const char *, size_t *,
             char *);

    return BrotliDecoderDecompress && BrotliDecoderDecompress(n, in, &len, out) == 1 ? len : 0;
}

static const struct codec codecs[] = {
    {"zlib", "gzip", LIBZ, {1, 4, 6, 9}, zlib_encode, zlib_decode},
    {"ISA-L", "gzip", HAS_ISAL ? LIBISAL : "", {1, 2, 3, 4}, isal_encode, zlib_decode},
    {"libdeflate", "gzip", LIBDEFLATE, {1, 4, 6, 9, 12}, libdeflate_encode, zlib_decode},
    {"zstd", "zstd", LIBZSTD, {3, 6, 9, 12, 19}, zstd_encode, zstd_decode},
    {"brotli", "br", LIBBROTLI, {3, 5, 7, 9, 11}, brotli_encode, brotli_decode},
};
enum { CODECS = sizeof(codecs) / sizeof(codecs[0]) };

/* --- Measuring -------------------------------------------------------------------------------- */

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static bool is_right(const struct codec *c, const struct text *in, const char *out, size_t n)
{
    static char again[OUT_BYTES];

    return n && c->decode(out, n, again) == in->len && memcmp(again, in->bytes, in->len) == 0;
}

/* Prints two cells of the table.  False: the output does not decode to the input. */
static bool measure(const struct codec *c, int level, const struct text *in)
{
    static char out[OUT_BYTES];
    double best_us = 1e12;
    size_t n = 0;

    for (int i = 0; i < ROUNDS; i++) {
        double begun_us = now_us(), took_us;

        n = c->encode(level, in, out);
        took_us = now_us() - begun_us;
        if (took_us < best_us)
            best_us = took_us;
    }
    if (!is_right(c, in, out, n))
        return false;
    printf(" %.1f %% | %.0f us |", 100.0 * (double)n / (double)in->len, best_us);
    return true;
}

static bool read_text(const char *path, struct text *text)
{
    FILE *f = fopen(path, "rbe");

    if (!f) {
        fprintf(stderr, "compressors: cannot open %s; name files of at least %d bytes\n", path,
                TEXT_BYTES);
        return false;
    }
    text->len = fread(text->bytes, 1, TEXT_BYTES, f);
    fclose(f);
    if (text->len == TEXT_BYTES)
        return true;
    fprintf(stderr, "compressors: %s has %zu bytes; name a file of at least %d\n", path, text->len,
            TEXT_BYTES);
    return false;
}

static bool measure_all(const struct codec *c, const struct text *texts, int files)
{
    if (!*c->library || !dlopen(c->library, RTLD_NOW)) {
        fprintf(stderr, "compressors: %s is left out: it is not installed\n", c->name);
        return true;
    }
    for (const int *level = c->levels; level < c->levels + 6 && *level; level++) {
        printf("| %s | %s | %d |", c->coding, c->name, *level - (c->encode == isal_encode));
        for (int i = 0; i < files; i++)
            if (!measure(c, *level, &texts[i])) {
                fprintf(stderr, "compressors: %s %d does not decode\n", c->name, *level);
                return false;
            }
        printf("\n");
    }
    return true;
}

int main(int argc, char **argv)
{
    static struct text texts[FILES_MAX];
    int files = argc - 1;

    if (files < 1 || files > FILES_MAX) {
        fprintf(stderr, "usage: compressors FILE...   (1 to %d of them)\n", FILES_MAX);
        return 2;
    }
    printf("| coding | library | level |");
    for (int i = 0; i < files; i++) {
        const char *slash = strrchr(argv[i + 1], '/');

        if (!read_text(argv[i + 1], &texts[i]))
            return 1;
        printf(" %s | time |", slash ? slash + 1 : argv[i + 1]);
    }
    printf("\n|---|---|---|");
    for (int i = 0; i < files; i++)
        printf("---|---|");
    printf("\n");
    for (unsigned i = 0; i < CODECS; i++)
        if (!measure_all(&codecs[i], texts, files))
            return 1;
    return 0;
}
