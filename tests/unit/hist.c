/* SPDX-License-Identifier: MIT */
/* hist.c - the histogram against a sorted array of the same values: no quantile is further off than
 * the header says, edges touch, nothing is lost, and values that do not fit are reported. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>
#include "../../core/hist.h"

enum { VALUES = 20000, CELLS_MAX = 1 << 17 };

static uint64_t memory[CELLS_MAX], memory_2[CELLS_MAX], values[VALUES];
static uint64_t random_state = 88172645463325252;

static uint64_t random_number(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static struct hist made(unsigned bits, uint64_t max, uint64_t *cells)
{
    struct hist h;

    assert_true(hist_cells(bits, max) <= CELLS_MAX);
    hist_init(&h, bits, cells, hist_cells(bits, max));
    return h;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* --- Edges ------------------------------------------------------------------------------------ */

/* Every edge of every cell: both ends of a cell fall into it, and it begins where the one before
 * ended. */
static void edges_touch(void **state)
{
    const unsigned bits[] = {HIST_BITS_MIN, 3, 7, 11, 12};

    (void)state;
    for (unsigned b = 0; b < sizeof(bits) / sizeof(bits[0]); b++) {
        struct hist h = made(bits[b], UINT64_MAX, memory);
        uint64_t expected = 0;
        struct hist_cell cell;

        for (uint32_t i = 0; i < h.cells; i++)
            memory[i] = 1;
        h.max = UINT64_MAX;
        for (uint32_t at = 0; hist_next(&h, &at, &cell);) {
            assert_int_equal(cell.low, expected);
            assert_true(cell.high >= cell.low);
            assert_int_equal(hist_cells(bits[b], cell.low), at);
            assert_int_equal(hist_cells(bits[b], cell.high), at);
            assert_true(cell.high - cell.low <= cell.low >> (bits[b] - 1));
            expected = cell.high + 1;
        }
        assert_int_equal(expected, 0); /* behind 2^64 - 1 */
    }
}

static void small_values_are_exact(void **state)
{
    struct hist h = made(11, 1 << 20, memory);
    struct hist_cell cell;
    uint32_t at = 0;

    (void)state;
    for (uint64_t v = 0; v < 2048; v++)
        hist_add(&h, v, v + 1);
    for (uint64_t v = 0; v < 2048; v++) {
        assert_true(hist_next(&h, &at, &cell));
        assert_int_equal(cell.low, v);
        assert_int_equal(cell.high, v);
        assert_int_equal(cell.count, v + 1);
    }
    assert_false(hist_next(&h, &at, &cell));
    assert_false(hist_next(&h, &at, &cell)); /* and stays at the end */
}

/* --- Quantiles -------------------------------------------------------------------------------- */

static void same_as_sorted(unsigned bits, unsigned n)
{
    const uint64_t per[] = {0, 1, 100, 2500, 5000, 7500, 9000, 9900, 9990, 9999, 10000};
    struct hist h = made(bits, UINT64_MAX, memory);
    uint64_t sum = 0;

    for (unsigned i = 0; i < n; i++) {
        values[i] = random_number() >> (24 + random_number() % 40);
        sum += values[i];
        hist_add(&h, values[i], 1);
    }
    qsort(values, n, sizeof(values[0]), by_value);
    for (unsigned i = 0; i < sizeof(per) / sizeof(per[0]); i++) {
        uint64_t rank = (n * per[i] + 9999) / 10000, true_value = values[rank ? rank - 1 : 0];
        uint64_t told = hist_quantile(&h, per[i], 10000);

        assert_true(told >= true_value);
        assert_true(told - true_value <= true_value >> (bits - 1));
    }
    assert_int_equal(hist_quantile(&h, 1, 1), values[n - 1]);
    assert_int_equal(h.min, values[0]);
    assert_int_equal(h.max, values[n - 1]);
    assert_int_equal(h.sum, sum);
    assert_int_equal(h.total, n);
}

static void quantiles_are_near_enough(void **state)
{
    const unsigned bits[] = {2, 5, 11, 12}, sizes[] = {1, 2, 3, 10, 999, VALUES};

    (void)state;
    for (unsigned b = 0; b < sizeof(bits) / sizeof(bits[0]); b++)
        for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
            same_as_sorted(bits[b], sizes[s]);
}

static void nothing_recorded(void **state)
{
    struct hist h = made(11, 1000, memory);
    struct hist_cell cell;
    uint32_t at = 0;

    (void)state;
    assert_int_equal(hist_quantile(&h, 1, 2), 0);
    assert_false(hist_next(&h, &at, &cell));
    assert_true(h.min > h.max);
    hist_add(&h, 5, 0);
    assert_int_equal(h.total, 0);
    assert_true(h.min > h.max);
}

/* Ranks are computed without losing bits: as many values as 64 bits can count. */
static void very_many(void **state)
{
    struct hist h = made(11, 1000, memory);

    (void)state;
    hist_add(&h, 1, UINT64_MAX / 4 * 3);
    hist_add(&h, 2, UINT64_MAX / 4);
    assert_false(h.over);
    assert_int_equal(hist_quantile(&h, 749999, 1000000), 1);
    assert_int_equal(hist_quantile(&h, 750001, 1000000), 2);
    assert_int_equal(hist_quantile(&h, UINT32_MAX - 1, UINT32_MAX), 2);
}

/* --- Beyond the range ------------------------------------------------------------------------- */

static void beyond_the_range(void **state)
{
    struct hist h = made(11, 4095, memory);
    struct hist_cell cell;
    uint32_t at = 0;

    (void)state;
    hist_add(&h, 4095, 1);
    assert_int_equal(h.over, 0);
    hist_add(&h, 4096, 1);
    assert_int_equal(h.over, 1);
    hist_add(&h, 1000000007, 2);
    assert_int_equal(h.over, 3);
    assert_int_equal(h.total, 4);
    assert_int_equal(h.max, 1000000007);
    assert_int_equal(hist_quantile(&h, 1, 2), 1000000007); /* too much rather than too little */
    assert_true(hist_next(&h, &at, &cell));
    assert_int_equal(cell.low, 4094);
    assert_int_equal(cell.high, 1000000007);
    assert_int_equal(cell.count, 4);
}

static void counts_stay_at_their_end(void **state)
{
    struct hist h = made(11, 4095, memory);

    (void)state;
    hist_add(&h, 1, UINT64_MAX);
    assert_false(h.full);
    hist_add(&h, 1, 1);
    assert_true(h.full);
    assert_int_equal(h.total, UINT64_MAX);
    assert_int_equal(h.cell[1], UINT64_MAX);
    assert_int_equal(hist_quantile(&h, 1, 2), 1);
    h = made(11, 4095, memory);
    hist_add(&h, 4000, UINT64_MAX / 2);
    assert_true(h.full); /* the sum */
    assert_int_equal(h.sum, UINT64_MAX);
    assert_int_equal(h.total, UINT64_MAX / 2);
}

/* --- Merging ---------------------------------------------------------------------------------- */

static void merged_is_recorded_at_once(void **state)
{
    struct hist part = made(11, 1 << 30, memory), all = made(11, 1 << 30, memory_2);
    static uint64_t cells[CELLS_MAX];
    struct hist sum = made(11, 1 << 30, cells);

    (void)state;
    for (unsigned round = 0; round < 3; round++) {
        hist_init(&part, 11, memory, part.cells);
        for (unsigned i = 0; i < 1000; i++) {
            uint64_t v = random_number() >> (30 + random_number() % 34);

            hist_add(&part, v, 1 + i % 3);
            hist_add(&all, v, 1 + i % 3);
        }
        assert_int_equal(hist_merge(&sum, &part), 0);
    }
    assert_memory_equal(cells, memory_2, all.cells * sizeof(cells[0]));
    assert_int_equal(sum.total, all.total);
    assert_int_equal(sum.over, all.over);
    assert_true(all.over > 0);
    assert_int_equal(sum.sum, all.sum);
    assert_int_equal(sum.min, all.min);
    assert_int_equal(sum.max, all.max);
}

static void other_cells_do_not_merge(void **state)
{
    struct hist a = made(11, 1000, memory), b = made(10, 1000, memory_2);

    (void)state;
    assert_int_equal(hist_merge(&a, &b), -EINVAL);
    b = made(11, 5000, memory_2);
    assert_int_equal(hist_merge(&a, &b), -EINVAL);
    assert_int_equal(hist_merge(&a, &a), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_touch),
        cmocka_unit_test(small_values_are_exact),
        cmocka_unit_test(quantiles_are_near_enough),
        cmocka_unit_test(nothing_recorded),
        cmocka_unit_test(very_many),
        cmocka_unit_test(beyond_the_range),
        cmocka_unit_test(counts_stay_at_their_end),
        cmocka_unit_test(merged_is_recorded_at_once),
        cmocka_unit_test(other_cells_do_not_merge),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
