/* SPDX-License-Identifier: MIT */
/* variant.h - a cache whose compressor belongs to the test: counted, held up, with its own coding.
 *
 * The linker sends compress_write() through here (--wrap), so that it does not matter which
 * libraries are installed, as long as there is one.
 */
#ifndef TESTS_UNIT_VARIANT_H
#define TESTS_UNIT_VARIANT_H
#include <semaphore.h>
#include <time.h>
#include "../../server/compress.h"
#include "kept.h"

enum { SIZE = 2000, TRIES_MAX = 2000, OLD_S = 1600000000 };

static atomic_uint writes, waiting;
static atomic_bool held, saves_nothing;
static sem_t gate;

size_t __wrap_compress_write(enum coding coding, struct slice in, char *out, size_t cap);
size_t __wrap_compress_write(enum coding coding, struct slice in, char *out, size_t cap)
{
    atomic_fetch_add(&writes, 1);
    if (atomic_load(&held)) {
        atomic_fetch_add(&waiting, 1);
        sem_wait(&gate);
        atomic_fetch_sub(&waiting, 1);
    }
    if (atomic_load(&saves_nothing))
        return 0;
    assert_true(in.len / 2 <= cap);
    (void)coding;
    memset(out, in.ptr[0] - 'a' + 'A', in.len / 2); /* it shows from which version it was made */
    return in.len / 2;
}

/* --- Files and clients ------------------------------------------------------------------------ */

static enum coding some; /* a coding that this program was built with */
static uint16_t wants[CODINGS];

static inline int set_up(void **state)
{
    static const struct site_options opt = {.rules.listing = true, .rules.precompressed = true,
                                            .compress = true};
    int err = tree_set_up(state);

    tree_open_site(*state, &opt);
    atomic_store(&writes, 0);
    atomic_store(&held, false);
    atomic_store(&saves_nothing, false);
    sem_init(&gate, 0, 0);
    return err;
}

static inline void make_text(const struct tree *t, const char *name, char byte, size_t size)
{
    char text[SIZE * 2 + 1];

    memset(text, byte, size);
    text[size] = '\0';
    make_file(t, name, text);
    set_mtime(t, name, OLD_S, 0);
}

/* The first byte of the answer, or 0 for an answer of another kind. */
static inline char first_byte(struct tree *t, const char *path, const uint16_t q[CODINGS])
{
    struct source *s;
    char byte = 0;

    if (ask_as(path, q, &s))
        return 0;
    if (s->bytes)
        byte = s->bytes[0];
    else if (s->kind == SOURCE_BODY)
        assert_int_equal(pread(site_source_fd(s), &byte, 1, 0), 1);
    cache_source_release(t->site, s);
    return byte;
}

static inline void pause_ms(long ms)
{
    const struct timespec pause = {0, ms * 1000000};

    nanosleep(&pause, NULL);
    now_ms += (uint64_t)ms;
}

/* Ask until that byte comes first: files are not coded while they are young. */
static inline void ask_until(struct tree *t, const char *path, char byte)
{
    int tries = 0;

    while (first_byte(t, path, wants) != byte) {
        assert_true(++tries < TRIES_MAX);
        pause_ms(5);
    }
}

/* ... until the compressor is held up. */
static inline void ask_until_held(struct tree *t, const char *path)
{
    for (int tries = 0; atomic_load(&waiting) == 0; tries++) {
        assert_true(tries < TRIES_MAX);
        assert_int_equal(first_byte(t, path, wants), 'x');
        pause_ms(5);
    }
}

static inline void let_go(unsigned of)
{
    atomic_store(&held, false);
    for (; of > 0; of--)
        sem_post(&gate);
}

/* Wait until the thread has ended its current work. */
static inline void let_end(enum stat_id stat, uint64_t n)
{
    for (int tries = 0; stats_sum(stats, stat) < n; tries++) {
        assert_true(tries < TRIES_MAX);
        pause_ms(5);
    }
}

static void built_without_libraries(void **state)
{
    (void)state;
    skip();
}

#define VARIANT_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tree_tear_down)

/* Whether there is a library; then clients want its coding. */
static inline bool has_library(void)
{
    some = compress_best((const uint16_t[CODINGS]){1, 1000, 1000, 1000});
    wants[CODING_IDENTITY] = 1;
    wants[some] = 1000;
    return some != CODING_IDENTITY;
}

#endif
