/* SPDX-License-Identifier: MIT */
/* path.c - path_decode() and path_encode(): one decoding, no climbing, every legal name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "../../core/http.h"
#include "edge.h"

static const struct {
    const char *raw, *path; /* NULL: refused with status */
    long status;
} rows[] = {
    {"/", "/", 0}, {"/a", "/a", 0}, {"/a/", "/a/", 0}, {"/a/b.c", "/a/b.c", 0},
    {"//", "/", 0}, {"//a", "/a", 0}, {"///a//b///", "/a/b/", 0},
    {"/.", "/", 0}, {"/./", "/", 0}, {"/a/.", "/a/", 0}, {"/a/./b", "/a/b", 0}, {"/./a", "/a", 0},
    {"/a/..", "/", 0}, {"/a/../", "/", 0}, {"/a/b/..", "/a/", 0}, {"/a/b/../c", "/a/c", 0},
    {"/a/b/../../c", "/c", 0}, {"/abc/d/../../e/", "/e/", 0}, {"/a//../b", "/b", 0},
    {"/...", "/...", 0}, {"/.a", "/.a", 0}, {"/..a", "/..a", 0}, {"/a..", "/a..", 0},
    {"/a.", "/a.", 0},
    {"/.../..", "/", 0}, {"/a/..b/..", "/a/", 0},
    {"/..", NULL, -404}, {"/../", NULL, -404}, {"/../a", NULL, -404}, {"/a/../..", NULL, -404},
    {"/a/../../a", NULL, -404}, {"/./..", NULL, -404}, {"//..", NULL, -404},
    {"/%2e", "/", 0}, {"/a/%2E%2e", "/", 0}, {"/a/.%2e/b", "/b", 0}, {"/%2e%2e/", NULL, -404},
    {"/%2e./etc", NULL, -404}, {"/a%2e", "/a.", 0},
    {"/%41%7a%7E", "/Az~", 0}, {"/%20%25%3f%23", "/ %?#", 0}, {"/%0a%0D", "/\n\r", 0},
    {"/a+b", "/a+b", 0},
    {"/%252e%252e/x", "/%2e%2e/x", 0}, {"/%25%32%66", "/%2f", 0}, {"/%5c..%5c", "/\\..\\", 0},
    {"/%", NULL, -400}, {"/%a", NULL, -400}, {"/%4", NULL, -400}, {"/%zz", NULL, -400},
    {"/%4g", NULL, -400},
    {"/%g4", NULL, -400}, {"/a%", NULL, -400}, {"/%%41", NULL, -400}, {"/%+4", NULL, -400},
    {"/% 4", NULL, -400},
    {"/%u002f", NULL, -400}, {"/%00", NULL, -400}, {"/a%00.html", NULL, -400},
    {"/%2f", NULL, -400}, {"/a%2Fb", NULL, -400}, {"/..%2f", NULL, -400}, {"/%2f..", NULL, -400},
    /* UTF-8, Latin-1, and any other bytes are names. */
    {"/%c3%a4", "/\xc3\xa4", 0}, {"/%e4", "/\xe4", 0}, {"/%ff%fe", "/\xff\xfe", 0},
    {"/%80", "/\x80", 0},
    {"/%c0", "/\xc0", 0}, {"/%c0t%e9", "/\xc0t\xe9", 0}, {"/%c0/%80", "/\xc0/\x80", 0},
    {"/%e0%a0%80", "/\xe0\xa0\x80", 0},
    {"/%e2%82%ac", "/\xe2\x82\xac", 0}, {"/%f0%90%80%80", "/\xf0\x90\x80\x80", 0},
    {"/%c2%80", "/\xc2\x80", 0},
    /* But UTF-8 in more bytes than it needs is not. */
    {"/%c0%80", NULL, -400}, {"/%c0%ae%c0%ae/", NULL, -400}, {"/%c0%af", NULL, -400},
    {"/%C1%BF", NULL, -400},
    {"/%c1%80", NULL, -400}, {"/%e0%80%af", NULL, -400}, {"/%e0%9f%bf", NULL, -400},
    {"/%f0%80%80%af", NULL, -400},
    {"/%f0%8f%bf%bf", NULL, -400}, {"/a/%c0%af/..", NULL, -400},
    {"", NULL, -400}, {"a", NULL, -400}, {"*", NULL, -400}, {"../a", NULL, -400},
    {"%2fa", NULL, -400},
};

static long decode(const char *raw, size_t n, char *out)
{
    struct slice s = {edge(raw, n), n};

    return path_decode(s, out);
}

static void test_rows(void **state)
{
    char copy[PATH_BYTES_MAX];
    unsigned i;
    long n;

    (void)state;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        n = decode(rows[i].raw, strlen(rows[i].raw), copy);
        if (!rows[i].path && n != rows[i].status)
            fail_msg("%ld for %s", n, rows[i].raw);
        if (rows[i].path &&
            (n != (long)strlen(rows[i].path) || memcmp(copy, rows[i].path, (size_t)n) != 0))
            fail_msg("%ld %.*s for %s", n, (int)(n > 0 ? n : 0), copy, rows[i].raw);
    }
    assert_int_equal(decode("/\0", 2, copy), -400);
}

/* One byte is always left for a NUL; a longer path cannot be a file. */
static void test_limits(void **state)
{
    static char raw[3 * PATH_BYTES_MAX];
    char out[PATH_BYTES_MAX];
    size_t i, n;

    (void)state;
    memset(raw, 'a', sizeof(raw));
    raw[0] = '/';
    assert_int_equal(decode(raw, PATH_BYTES_MAX - 1, out), PATH_BYTES_MAX - 1);
    assert_int_equal(decode(raw, PATH_BYTES_MAX, out), -404);
    raw[PATH_BYTES_MAX - 2] = '/';
    assert_int_equal(decode(raw, PATH_BYTES_MAX - 1, out), PATH_BYTES_MAX - 1);
    raw[PATH_BYTES_MAX - 2] = 'a';
    raw[PATH_BYTES_MAX - 1] = '/';
    assert_int_equal(decode(raw, PATH_BYTES_MAX, out), -404);
    for (i = 1; i + 3 <= sizeof(raw); i += 3) /* the decoded length counts */
        memcpy(raw + i, "%61", 3);
    n = 1 + 3 * (PATH_BYTES_MAX - 2);
    assert_int_equal(decode(raw, n, out), PATH_BYTES_MAX - 1);
    assert_int_equal(decode(raw, n + 3, out), -404);
    memset(raw, '/', sizeof(raw));
    assert_int_equal(decode(raw, sizeof(raw), out), 1);
    for (i = 0; i + 5 <= sizeof(raw); i += 5)
        memcpy(raw + i, "/a/..", 5);
    assert_int_equal(decode(raw, i, out), 1);
}

/* A link is judged as decoding would judge it, on both sides of both limits. */
static void test_links(void **state)
{
    static char folder[PATH_BYTES_MAX + 2], raw[3 * sizeof(folder) + 16];
    static const char *const names[] = {"a", "\xc0", "\xc0\xaf", "\xc1\xbf", "a\xc0\x80",
                                        "\xe0\x9f", "\xe0\xa0\x80", "\xf0\x8f\xbf",
                                        "\xf0\x90", "\xff\xfe"};
    char out[PATH_BYTES_MAX];

    (void)state;
    for (int c = 'a'; c >= 0; c = c == 'a' ? '\xff' & 0xff : -1) {
        memset(folder, c, sizeof(folder));
        folder[0] = '/';
        for (size_t len = 1; len <= sizeof(folder); len++) {
            if (len > 2 && len < 2700 && len != 100)
                continue;
            for (size_t i = 0; i < 2 * sizeof(names) / sizeof(names[0]); i++) {
                struct slice name = {names[i / 2], strlen(names[i / 2])};
                struct slice path = {folder, len};
                size_t n;

                folder[len - 1] = '/';
                n = path_encode(raw, folder, len);
                n += path_encode(raw + n, name.ptr, name.len);
                if (i % 2)
                    raw[n++] = '/';
                assert_int_equal(path_links(path, name, i % 2),
                                 n <= TARGET_BYTES_MAX && decode(raw, n, out) > 0);
            }
            folder[len - 1] = len > 1 ? (char)c : '/';
        }
    }
}

static void test_encode(void **state)
{
    static const char plain[] = "/-._~0123456789abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char out[3], want[4];
    int c;

    (void)state;
    for (c = 0; c < 256; c++) {
        char in = (char)c;
        size_t n = path_encode(out, edge(&in, 1), 1);

        if (c != 0 && strchr(plain, c)) {
            assert_int_equal(n, 1);
            assert_int_equal(out[0], in);
        } else {
            snprintf(want, sizeof(want), "%%%02X", c);
            assert_int_equal(n, 3);
            assert_memory_equal(out, want, 3);
        }
    }
    assert_int_equal(path_encode(out, "", 0), 0);
}

/* The encoding of any name decodes to that name. */
static void test_round_trip(void **state)
{
    char path[PATH_BYTES_MAX] = "/", url[3 * PATH_BYTES_MAX], back[PATH_BYTES_MAX];
    unsigned seed = 1, turn, i, len;
    size_t n;

    (void)state;
    for (turn = 0; turn < 20000; turn++) {
        len = 1 + turn % 40;
        for (i = 1; i < len; i++) {
            seed = seed * 1103515245 + 12345;
            path[i] = (char)(seed >> 16 & 255);
            if (path[i] == '\0' || path[i] == '.' || path[i] == '/')
                path[i] = 'x';
            if ((unsigned char)path[i] >= 0x80 && (unsigned char)path[i] < 0xc0)
                path[i] = '%';
        }
        n = path_encode(url, path, len);
        assert_int_equal(decode(url, n, back), len);
        assert_memory_equal(back, path, len);
    }
}

/* In a name the first byte decides, in a path every name. */
static void test_hidden(void **state)
{
    static const struct {
        const char *name;
        bool hidden;
    } names[] = {
        {"", false}, {"a", false}, {"a.b", false}, {"a.", false}, {".", true}, {"..", true},
        {".a", true}, {".git", true}, {".well-known", false}, {".well-known2", true},
        {".well-knowN", true}, {".well-know", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        static const char *const around[][2] = {{"/", ""}, {"/", "/"}, {"/a.b/", "/c"}};
        struct slice name = {names[i].name, strlen(names[i].name)};

        assert_int_equal(name_is_hidden(name), names[i].hidden);
        for (size_t j = 0; j < sizeof(around) / sizeof(around[0]); j++) {
            char path[64];
            int n = snprintf(path, sizeof(path), "%s%s%s", around[j][0], names[i].name,
                             around[j][1]);

            if (path_is_hidden((struct slice){edge(path, (size_t)n), (size_t)n}) != names[i].hidden)
                fail_msg("%s", path);
        }
    }
    assert_false(path_is_hidden((struct slice){"/", 1}));
    assert_true(path_is_hidden((struct slice){"/.well-known/.a", 15}));
    assert_true(path_is_hidden((struct slice){"/.a/.well-known", 15}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_encode),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_hidden),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
