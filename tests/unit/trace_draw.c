/* SPDX-License-Identifier: MIT */
/* Bars of rung trace: they begin and end where they should, and even short ones can be seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "../../tools/trace/draw.c"

static const char *bar(double from, double to, unsigned columns, bool utf8)
{
    static char text[BAR_TEXT];
    struct bar b = {from, to, columns, utf8};

    draw_bar(text, &b);
    return text;
}

static void test_ascii(void **state)
{
    (void)state;
    assert_string_equal(bar(0, 1, 8, false), "########");
    assert_string_equal(bar(0, 0.5, 8, false), "####");
    assert_string_equal(bar(0.25, 0.75, 8, false), "  ####");
    assert_string_equal(bar(0.5, 0.5, 8, false), "");
    assert_string_equal(bar(0.5, 0.500001, 8, false), "    #");
    assert_string_equal(bar(0.999, 1, 8, false), "       #");
}

static void test_eighths(void **state)
{
    (void)state;
    assert_string_equal(bar(0, 1, 2, true), "\u2588\u2588");
    assert_string_equal(bar(0, 0.5625, 2, true), "\u2588\u258f");
    assert_string_equal(bar(0, 0.9375, 2, true), "\u2588\u2589");
    assert_string_equal(bar(0.5, 0.500001, 2, true), " \u258f");
}

/* Parts outside are cut off at the edge, and an end that is not a number draws nothing. */
static void test_outside(void **state)
{
    (void)state;
    assert_string_equal(bar(-1, 5, 4, false), "####");
    assert_string_equal(bar(1, 2, 4, false), "   #");
    assert_string_equal(bar(2, 3, 4, true), "   \u2588");
    assert_string_equal(bar(0.0, 0.0 / 0.0, 4, true), "");
}

static void test_the_widest_fits(void **state)
{
    char text[BAR_TEXT];
    struct bar b = {0, 1, BAR_COLUMNS_MAX, true};

    (void)state;
    draw_bar(text, &b);
    assert_int_equal(strlen(text), BAR_TEXT - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ascii),
        cmocka_unit_test(test_eighths),
        cmocka_unit_test(test_outside),
        cmocka_unit_test(test_the_widest_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
