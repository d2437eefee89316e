/* SPDX-License-Identifier: MIT */
/* digest.c - digests of known bytes, in pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "../../server/digest.h"

/* FIPS 180-2, appendices B.1, B.3 and C.1: a message of three bytes, and of a million. */
static const struct {
    enum http_digest kind;
    size_t million;
    const char *text;
} rows[] = {
    {DIGEST_SHA256, 0, "sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:"},
    {DIGEST_SHA256, 1, "sha-256=:zcduXJkU+5KBocfihNc+Z/GAmkiklyAOBG05zMcRLNA=:"},
    {DIGEST_SHA512, 0, "sha-512=:3a81oZNherrMQXNJriBBMRLm+k6JqX6iCp7u5ktV05ohkpkqJ0/BqDa6PCOj/uu9"
                       "RU1EI2Q86A4qmslPpUyknw==:"},
};

static void test_known(void **state)
{
    char text[DIGEST_TEXT_BYTES], bytes[1000];

    (void)state;
    memset(bytes, 'a', sizeof(bytes));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct digest *d;

        assert_true(digest_can(rows[i].kind));
        d = digest_open(rows[i].kind);
        assert_non_null(d);
        for (unsigned k = 0; k < 1000 * rows[i].million; k++)
            assert_true(digest_add(d, bytes, sizeof(bytes)));
        if (!rows[i].million)
            assert_true(digest_add(d, "a", 1) && digest_add(d, "", 0) && digest_add(d, "bc", 2));
        assert_true(digest_end(d, text));
        assert_string_equal(text, rows[i].text);
        digest_close(d);
    }
}

/* A digest that is given up, and one of no bytes. */
static void test_ends(void **state)
{
    (void)state;
    assert_false(digest_can(DIGEST_NONE));
    for (enum http_digest kind = DIGEST_NONE + 1; kind < DIGESTS; kind++) {
        char text[DIGEST_TEXT_BYTES];
        struct digest *d = digest_open(kind);

        assert_true(digest_add(d, "abc", 3));
        digest_close(d);
        d = digest_open(kind);
        assert_true(digest_end(d, text));
        assert_int_equal(strlen(text), kind == DIGEST_SHA256 ? 9 + 44 + 1 : 9 + 88 + 1);
        digest_close(d);
    }
    digest_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_ends),
    };

    digest_prepare();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
