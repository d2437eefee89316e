/* SPDX-License-Identifier: MIT */
/* text.c - the append helper of answers, and that a redirect stays on this host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "../../core/http_inside.h"
#include "world.h"

static char buf[1024];
static struct text t;

static void start(void)
{
    memset(buf, 0, sizeof(buf));
    t = (struct text){buf, buf + sizeof(buf) - 1};
}

static void test_numbers(void **state)
{
    static const struct {
        uint64_t number;
        const char *decimal, *hex;
    } cases[] = {
        {0, "0", "0"}, {9, "9", "9"}, {10, "10", "a"}, {15, "15", "f"}, {16, "16", "10"},
        {255, "255", "ff"}, {4294967296u, "4294967296", "100000000"},
        {UINT64_MAX, "18446744073709551615", "ffffffffffffffff"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        start();
        text_number(&t, cases[i].number);
        assert_string_equal(buf, cases[i].decimal);
        start();
        text_hex(&t, cases[i].number);
        assert_string_equal(buf, cases[i].hex);
    }
}

static void test_escapes(void **state)
{
    static const char all[] = "a<b>&\"c'\r\n\xff\x01 %41[]{}|\\^`~?/:@";
    struct slice s = {all, sizeof(all) - 1};

    (void)state;
    start();
    text_html(&t, s);
    assert_string_equal(buf, "a&lt;b&gt;&amp;&quot;c&#39;\r\n\xff\x01 %41[]{}|\\^`~?/:@");
    start();
    text_query(&t, s);
    assert_string_equal(buf, "a%3Cb%3E&%22c'%0D%0A%FF%01%20%41%5B%5D%7B%7D%7C%5C%5E%60~?/:@");
    start();
    text_query(&t, (struct slice){"\0", 1});
    assert_string_equal(buf, "%00");
}

/* Text that fits up to the last byte. */
static void test_fits(void **state)
{
    char four[4];

    (void)state;
    t = (struct text){four, four + sizeof(four)};
    text_string(&t, "abcd");
    text_put(&t, "", 0);
    assert_ptr_equal(t.at, t.end);
    assert_memory_equal(four, "abcd", 4);
}

static void test_statuses(void **state)
{
    (void)state;
    assert_string_equal(http_status_text(200), "OK");
    assert_string_equal(http_status_text(431), "Request Header Fields Too Large");
    assert_string_equal(http_status_text(999), "Unknown");
    assert_string_equal(http_status_meaning(404), "There is nothing here under this name.");
}

/* A path is normalised before it comes here; if it ever were not, "//host" must not be a host (RFC
 * 3986 4.2). */
static void test_redirect_stays(void **state)
{
    static const char *const paths[][2] = {
        {"/dir", "/dir/"}, {"//host", "/host/"}, {"////a//b", "/a//b/"}, {"/\\host", "/%5Chost/"},
        {"/\r\nX: y", "/%0D%0AX%3A%20y/"},
    };
    struct fake *fake = world_open();
    struct http_head head = {.method = HTTP_HEAD, .minor = 1};
    struct drive drive;
    char line[128];

    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct http_ask ask = {.path = {paths[i][0], strlen(paths[i][0])}};
        struct answer a = {.c = &drive.conn, .head = &head, .keep_alive = true};
        struct conn_out out;

        drive_open(&drive, fake);
        assert_true(conn_room(&drive.conn));
        http_status_redirect(&a, &ask);
        drive.conn.want = CONN_SEND;
        out = conn_out(&drive.conn);
        snprintf(line, sizeof(line), "\r\nLocation: %s\r\n", paths[i][1]);
        assert_int_equal(out.count, 1);
        drive_show(&drive, out.seg[0].bytes, (size_t)out.seg[0].len);
        assert_non_null(strstr(drive.out, line));
        drive_close(&drive);
    }
    fake_close(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),  cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_fits),     cmocka_unit_test(test_statuses),
        cmocka_unit_test(test_redirect_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
