/* SPDX-License-Identifier: MIT */
/* negative.c - a site remembers for a second that a file, and only that file, has no siblings. */
#include "tree.h"

enum { NOW = 123456, MANY = 100000 };

/* The clock starts anywhere, and wraps after seven weeks. */
static const uint32_t moments[] = {0, 1, NOW, UINT32_MAX - 500, UINT32_MAX};

static void known_for_a_second(void **state)
{
    struct negative *a = &((struct tree *)*state)->site->negative;

    for (size_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++) {
        uint32_t now = moments[i];

        negative_add(a, "a.html", 6, now);
        assert_true(negative_has(a, "a.html", 6, now));
        assert_true(negative_has(a, "a.html", 6, now + SITE_NEGATIVE_MS - 1));
        assert_false(negative_has(a, "a.html", 6, now + SITE_NEGATIVE_MS));
    }
}

static int numbered(char path[16], int i)
{
    return snprintf(path, 16, "%d", i);
}

static void of_that_file_alone(void **state)
{
    struct negative *a = &((struct tree *)*state)->site->negative;
    static const char *const others[] = {"", "a", "a.htm", "a.htmk", "b.html", "a.html."};
    int known = 0;
    char path[16];

    assert_false(negative_has(a, "a.html", 6, NOW));
    negative_add(a, "a.html", 6, NOW);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(negative_has(a, others[i], strlen(others[i]), NOW));
    assert_false(negative_has(a, "a.html", 7, NOW)); /* its NUL too */
    for (int i = 0; i < MANY; i++)
        assert_false(negative_has(a, path, (size_t)numbered(path, i), NOW));
    /* Each entry takes the place of another; there are NEGATIVE_PLACES of them. */
    for (int i = 0; i < MANY; i++) {
        negative_add(a, path, (size_t)numbered(path, i), NOW);
        assert_true(negative_has(a, path, (size_t)numbered(path, i), NOW));
    }
    for (int i = 0; i < MANY; i++)
        known += negative_has(a, path, (size_t)numbered(path, i), NOW);
    assert_in_range(known, NEGATIVE_PLACES - NEGATIVE_PLACES / 8, NEGATIVE_PLACES);
}

/* Two sites note the same path differently: each has a key of its own. */
static void by_another_key(void **state)
{
    struct negative *a = &((struct tree *)*state)->site->negative;
    struct negative *b = calloc(1, sizeof(*b));
    unsigned same = 0;

    assert_non_null(b);
    assert_int_equal(negative_init(b), 0);
    negative_add(a, "a.html", 6, NOW);
    negative_add(b, "a.html", 6, NOW);
    for (unsigned i = 0; i < NEGATIVE_PLACES; i++)
        same += a->words[i] && a->words[i] == b->words[i];
    free(b);
    assert_int_equal(same, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(known_for_a_second),
        TREE_TEST(of_that_file_alone),
        TREE_TEST(by_another_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
