/* SPDX-License-Identifier: MIT */
/* cmocka.h - the few names of cmocka that tests/unit/coro.c uses, for a machine without cmocka: the
 * arm64 build of that test, run by an emulator (scripts/arm64).
 */
#ifndef PLAIN_CMOCKA_H
#define PLAIN_CMOCKA_H
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};

#define cmocka_unit_test(f) {#f, f}

static inline void plain_check(bool holds, const char *what, int line)
{
    if (holds)
        return;
    printf("line %d: %s\n", line, what);
    exit(1);
}

#define assert_true(x) plain_check(x, #x, __LINE__)
#define assert_false(x) plain_check(!(x), "!" #x, __LINE__)
#define assert_non_null(x) plain_check((x) != NULL, #x, __LINE__)
#define assert_int_equal(a, b) plain_check((a) == (b), #a " == " #b, __LINE__)
#define assert_in_range(x, a, b) plain_check((x) >= (a) && (x) <= (b), #x, __LINE__)

static inline int plain_run(const struct CMUnitTest *test, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        test[i].run(NULL);
        printf("%s holds\n", test[i].name);
    }
    printf("%zu passed, 0 failed\n", n);
    return 0;
}

#define cmocka_run_group_tests(tests, begin, end) plain_run(tests, sizeof(tests) / sizeof(tests[0]))

#endif
