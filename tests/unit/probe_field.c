/* SPDX-License-Identifier: MIT */
/* probe_field.c - the times of an answer as text: known times only, and the longest text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "../../core/limits.h"
#include "../../server/probe.h"

enum { ALL = 4 };
_Static_assert((int)PROBE_FIELD_BYTES_MAX <= (int)HOST_FIELDS_BYTES_MAX, "the core has room");

static void what_is_known(void **state)
{
    static const struct {
        struct probe_stamps stamps;
        const char *says;
    } cases[] = {
        {{0}, ""},
        {{.parsed = 5000}, ""}, /* the request was refused, and nothing was searched for */
        {{.parsed = 5000, .found = 5000}, "Server-Timing: found;dur=0.000000\r\n"},
        {{.parsed = 5000, .found = 17999}, "Server-Timing: found;dur=0.012999\r\n"},
        {{.parsed = 5000, .found = 3000005001}, "Server-Timing: found;dur=3000.000001\r\n"},
        {{.parsed = 5000, .found = 17000, .compressed = 17000},
         "Server-Timing: found;dur=0.012000, compressed\r\n"},
    };
    char out[PROBE_FIELD_BYTES_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t n = probe_field(&cases[i].stamps, out);

        assert_int_equal(n, strlen(cases[i].says));
        assert_memory_equal(out, cases[i].says, n);
    }
}

/* Times that no clock shows give the longest text. */
static void the_longest(void **state)
{
    static const uint64_t some[ALL] = {0, 1, UINT64_MAX - 1, UINT64_MAX};
    char out[PROBE_FIELD_BYTES_MAX + 1];

    (void)state;
    for (unsigned i = 0; i < ALL * ALL * ALL; i++) {
        struct probe_stamps stamps = {some[i % ALL], some[i / ALL % ALL], some[i / ALL / ALL]};

        out[PROBE_FIELD_BYTES_MAX] = 'x';
        assert_true(probe_field(&stamps, out) < PROBE_FIELD_BYTES_MAX);
        assert_int_equal(out[PROBE_FIELD_BYTES_MAX], 'x');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_known),
        cmocka_unit_test(the_longest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
