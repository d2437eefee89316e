/* SPDX-License-Identifier: MIT */
/* pack.c - packs are written to a sink that may fail, and may be given up at any moment.
 *
 * test_archive.py reads what is written.  Here nothing may leak (the leak checkers look), and
 * nothing may take long.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include "../../server/pack.h"

enum { PART = 32 << 10 };

struct sink {
    size_t left;  /* bytes until it fails */
    size_t taken;
    bool failed;
};

static char noise[PART]; /* cannot be compressed */

static int take(void *arg, const void *bytes, size_t n)
{
    struct sink *s = arg;

    assert_false(s->failed); /* it is not called again */
    assert_non_null(bytes);
    if (n > s->left) {
        s->failed = true;
        return -ENOSPC;
    }
    s->left -= n;
    s->taken += n;
    return 0;
}

static struct pack *begin(enum pack_form form, struct sink *s)
{
    struct pack *p = NULL;

    assert_int_equal(pack_open(&p, form, (struct pack_sink){take, s}), 0);
    assert_non_null(p);
    return p;
}

/* Two folders and three files, of which one is empty: 0 or the first error. */
static int write_all(struct pack *p)
{
    static const struct pack_entry entries[] = {
        {.name = "top/", .folder = true, .mtime_s = -1},
        {.name = "top/a.txt", .compresses = true, .size = 2 * PART, .mtime_s = 1},
        {.name = "top/\xff", .size = 3 * PART, .mtime_s = 1ll << 40},
        {.name = "top/empty", .size = 0},
        {.name = "top/folder/", .folder = true},
    };
    int err = 0;

    for (size_t i = 0; !err && i < sizeof(entries) / sizeof(entries[0]); i++) {
        err = pack_begin(p, &entries[i]);
        for (uint64_t at = 0; !err && at < entries[i].size; at += PART)
            err = pack_write(p, noise, PART);
        if (!err)
            err = pack_end(p);
    }
    return err ? err : pack_finish(p);
}

static void whole(void **state)
{
    (void)state;
    for (enum pack_form form = PACK_NONE + 1; form < PACK_FORMS; form++) {
        struct sink s = {.left = 1 << 20};
        struct pack *p = begin(form, &s);

        assert_int_equal(write_all(p), 0);
        pack_close(p);
        assert_true(s.taken > 5 * PART && s.taken < 6 * PART);
    }
}

/* The error of the sink is the result, whenever it comes. */
static void sink_that_fails(void **state)
{
    (void)state;
    for (enum pack_form form = PACK_NONE + 1; form < PACK_FORMS; form++) {
        bool failed = true;

        for (size_t left = 0; failed; left = left ? left + left / 8 + 1 : 1) {
            struct sink s = {.left = left};
            struct pack *p = begin(form, &s);
            int err = write_all(p);

            failed = s.failed;
            assert_int_equal(err, failed ? -ENOSPC : 0);
            pack_close(p);
        }
    }
}

/* In the middle of an entry of a terabyte: it is not filled up. */
static void given_up(void **state)
{
    (void)state;
    for (enum pack_form form = PACK_NONE + 1; form < PACK_FORMS; form++) {
        for (unsigned compresses = 0; compresses < 2; compresses++) {
            struct sink s = {.left = 1 << 20};
            struct pack *p = begin(form, &s);
            const struct pack_entry entry = {
                .name = "a", .compresses = compresses, .size = 1ull << 40};
            size_t taken;

            pack_close(p);
            p = begin(form, &s);
            assert_int_equal(pack_begin(p, &entry), 0);
            for (unsigned i = 0; i < 4; i++)
                assert_int_equal(pack_write(p, noise, PART), 0);
            taken = s.taken;
            pack_close(p);
            assert_int_equal(s.taken, taken);
        }
    }
    pack_close(NULL);
}

/* More bytes than were announced are refused. */
static void too_many_bytes(void **state)
{
    (void)state;
    for (enum pack_form form = PACK_NONE + 1; form < PACK_FORMS; form++) {
        struct sink s = {.left = 1 << 20};
        struct pack *p = begin(form, &s);

        assert_int_equal(pack_begin(p, &(struct pack_entry){.name = "a", .size = 10}), 0);
        assert_int_equal(pack_write(p, noise, 10), 0);
        assert_int_not_equal(pack_write(p, noise, 1), 0);
        pack_close(p);
    }
}

static size_t heap(void)
{
    struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

/* The bounds that a caller counts on. */
static void memory(void **state)
{
    enum { ENTRIES = 20000 };

    (void)state;
    for (enum pack_form form = PACK_NONE + 1; form < PACK_FORMS; form++) {
        size_t before = heap(), name = strlen("a name of twenty bytes");
        struct sink s = {.left = SIZE_MAX};
        struct pack *p = begin(form, &s);
        struct pack_entry entry = {
            .name = "a name of twenty bytes", .compresses = true, .size = PART};

        assert_int_equal(pack_begin(p, &entry), 0);
        assert_int_equal(pack_write(p, noise, PART), 0);
        assert_true(heap() <= before + PACK_BYTES);
        assert_int_equal(pack_end(p), 0);
        entry.size = 0;
        for (unsigned i = 0; i < ENTRIES; i++) {
            assert_int_equal(pack_begin(p, &entry), 0);
            assert_int_equal(pack_end(p), 0);
        }
        assert_true(heap() <= before + PACK_BYTES +
                    (form == PACK_ZIP) * ENTRIES * (PACK_LISTED_BYTES + name));
        pack_close(p);
    }
}

static int set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(noise); i++)
        noise[i] = (char)random();
    return pack_can() ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),
        cmocka_unit_test(sink_that_fails),
        cmocka_unit_test(given_up),
        cmocka_unit_test(too_many_bytes),
        cmocka_unit_test(memory),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
