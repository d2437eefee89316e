/* SPDX-License-Identifier: MIT */
/* date.c - HTTP dates: the three forms and no others, and the days of the years 1 to 9999 written
 * and read, as the C library counts them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>
#include <cmocka.h>
#include "../../core/http.h"
#include "edge.h"

static const int64_t now_s = 1700000000; /* 14 November 2023 22:13:20 */

static bool read_date(const char *text, int64_t now, int64_t *unix_s)
{
    struct slice s = {edge(text, strlen(text)), strlen(text)};

    return http_date_read(s, now, unix_s);
}

static const struct {
    int64_t unix_s;
    const char *text;
} good[] = {
    {784111777, "Sun, 06 Nov 1994 08:49:37 GMT"},
    {784111777, "Sunday, 06-Nov-94 08:49:37 GMT"},
    {784111777, "Sun Nov  6 08:49:37 1994"},
    {784111777, "Sun Nov 06 08:49:37 1994"},
    {784975777, "Wed Nov 16 08:49:37 1994"},
    {0, "Thu, 01 Jan 1970 00:00:00 GMT"},
    {-1, "Wed, 31 Dec 1969 23:59:59 GMT"},
    {951782400, "Tue, 29 Feb 2000 00:00:00 GMT"},
    {951782400, "Tuesday, 29-Feb-00 00:00:00 GMT"},
    {1709164800, "Thu, 29 Feb 2024 00:00:00 GMT"},
    {4102444799, "Thu, 31 Dec 2099 23:59:59 GMT"},
    {-62135596800, "Mon, 01 Jan 0001 00:00:00 GMT"},
    {253402300799, "Fri, 31 Dec 9999 23:59:59 GMT"},
    {253402300799, "Fri Dec 31 23:59:59 9999"},
    {1483228800, "Sat, 31 Dec 2016 23:59:60 GMT"}, /* a leap second is the next minute's first */
    {784111777, "Fri, 06 Nov 1994 08:49:37 GMT"},  /* the name of the day is not compared */
};

static const char *const bad[] = {
    ", 06 Nov 1994 08:49:37 GMT", "Sun,  Nov 1994 08:49:37 GMT", "Sun, 06  1994 08:49:37 GMT",
    "Sun, 06 Nov 1994 :49:37 GMT", "Sun, 06 Nov 1994 08::37 GMT", "Sun, 06 Nov 1994 08:49: GMT",
    "", "Sun", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 GMT ",
    " Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 gmt",
    "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 06 Nov 1994 08:49:37 +0000",
    "sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 nov 1994 08:49:37 GMT",
    "Sun, 6 Nov 1994 08:49:37 GMT", "Sun,06 Nov 1994 08:49:37 GMT",
    "Sun,  06 Nov 1994 08:49:37 GMT", "Son, 06 Nov 1994 08:49:37 GMT",
    "Sun, 06 Now 1994 08:49:37 GMT", "Sun, 00 Nov 1994 08:49:37 GMT",
    "Sun, 31 Nov 1994 08:49:37 GMT", "Sun, 32 Jan 1994 08:49:37 GMT",
    "Sun, 29 Feb 1900 08:49:37 GMT", "Sun, 29 Feb 2023 08:49:37 GMT",
    "Sun, 30 Feb 2024 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT",
    "Sun, 06 Nov 1994 23:60:00 GMT", "Sun, 06 Nov 1994 23:59:61 GMT", "Sun, 06 Nov 1994 08:49 GMT",
    "Sun, 06 Nov 1994 8:49:37 GMT", "Sun, 06 Nov 94 08:49:37 GMT", "Sun, 06 Nov 0000 08:49:37 GMT",
    "Sun, 06 Nov 19945 08:49:37 GMT", "Sun, 06-Nov-1994 08:49:37 GMT",
    "Sunday, 06-Nov-1994 08:49:37 GMT", "Sun, 06-Nov-94 08:49:37 GMT",
    "Sunday, 06 Nov 1994 08:49:37 GMT", "Sunday, 6-Nov-94 08:49:37 GMT",
    "Sunday, 31-Nov-94 08:49:37 GMT", "Sunday, 29-Feb-23 08:49:37 GMT", "Sun Nov 6 08:49:37 1994",
    "Sun Nov  6 08:49:37 94", "Sun Nov  6 08:49:37 1994 GMT", "Sun Nov 31 08:49:37 1994",
    "Sun, Nov  6 08:49:37 1994", "Sun Nov   6 08:49:37 1994", "Sun Nov 106 08:49:37 1994",
    "Sun, 06 Nov 1994 -8:49:37 GMT", "Sun, +6 Nov 1994 08:49:37 GMT", "0", "1994-11-06T08:49:37Z",
    "Sun, 06 Nov 1994 08.49.37 GMT",
};

static void test_good(void **state)
{
    int64_t got;
    unsigned i;

    (void)state;
    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!read_date(good[i].text, now_s, &got) || got != good[i].unix_s)
            fail_msg("%s", good[i].text);
}

static void test_bad(void **state)
{
    int64_t got;
    unsigned i, n;

    (void)state;
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (read_date(bad[i], now_s, &got))
            fail_msg("%s is taken for %lld", bad[i], (long long)got);
    for (i = 0; i < 3; i++)
        for (n = 0; n < strlen(good[i].text); n++) /* the rest lies behind what may be read */
            assert_false(http_date_read((struct slice){good[i].text, n}, now_s, &got));
    assert_true(http_date_read((struct slice){"Sun Nov  6 08:49:37 1994\0", 24}, now_s, &got));
    assert_false(http_date_read((struct slice){"Sun Nov  6 08:49:37 1994\0", 25}, now_s, &got));
}

/* RFC 9110 5.6.7: more than 50 years ahead means the last century. */
static void test_two_digits(void **state)
{
    static const struct {
        const char *now, *text, *means;
    } rows[] = {
        {"Tue, 14 Nov 2023 22:13:20 GMT", "14-Nov-73 22:13:20", "14 Nov 2073 22:13:20"},
        {"Tue, 14 Nov 2023 22:13:20 GMT", "14-Nov-73 22:13:21", "14 Nov 1973 22:13:21"},
        {"Tue, 14 Nov 2023 22:13:20 GMT", "13-Nov-73 23:00:00", "13 Nov 2073 23:00:00"},
        {"Tue, 14 Nov 2023 22:13:20 GMT", "01-Jan-74 00:00:00", "01 Jan 1974 00:00:00"},
        {"Tue, 14 Nov 2023 22:13:20 GMT", "01-Jan-00 00:00:00", "01 Jan 2000 00:00:00"},
        {"Fri, 14 Nov 1980 22:13:20 GMT", "01-Jan-30 00:00:00", "01 Jan 2030 00:00:00"},
        {"Fri, 14 Nov 1980 22:13:20 GMT", "01-Jan-31 00:00:00", "01 Jan 1931 00:00:00"},
        {"Sat, 14 Nov 2099 22:13:20 GMT", "01-Jan-01 00:00:00", "01 Jan 2101 00:00:00"},
        {"Sat, 14 Nov 2099 22:13:20 GMT", "01-Jan-99 00:00:00", "01 Jan 2099 00:00:00"},
    };
    char text[64];
    int64_t now, got, want;
    unsigned i;

    (void)state;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_true(read_date(rows[i].now, 0, &now));
        snprintf(text, sizeof(text), "Monday, %s GMT", rows[i].text);
        assert_true(read_date(text, now, &got));
        snprintf(text, sizeof(text), "Mon, %s GMT", rows[i].means);
        assert_true(read_date(text, 0, &want));
        if (got != want)
            fail_msg("at %s %s is %lld", rows[i].now, rows[i].text, (long long)got);
    }
    assert_false(read_date("Monday, 02-Jan-51 00:00:00 GMT", -62135596800, &got)); /* -49 */
}

static void check_time(int64_t t)
{
    char text[HTTP_DATE_BYTES + 1], want[64], year[16];
    time_t time = (time_t)t;
    struct tm tm;
    int64_t back;

    assert_non_null(gmtime_r(&time, &tm));
    http_date_write(text, t);
    text[HTTP_DATE_BYTES] = '\0';
    strftime(want, sizeof(want), "%a, %d %b #### %H:%M:%S GMT", &tm);
    snprintf(year, sizeof(year), "%04d", tm.tm_year + 1900);
    memcpy(want + 12, year, 4);
    assert_string_equal(text, want);
    assert_true(read_date(text, now_s, &back));
    assert_int_equal(back, t);
    strftime(want, sizeof(want), "%a %b %e %H:%M:%S ####", &tm);
    memcpy(want + 20, year, 4);
    assert_true(read_date(want, now_s, &back));
    assert_int_equal(back, t);
}

/* Every day of 400 years, after which the calendar repeats, then some days of each year; each at
 * another second. */
static void test_round_trip(void **state)
{
    const int64_t first = -62135596800, last = 253402300799;
    char text[HTTP_DATE_BYTES];
    int64_t t, step = 86400;

    (void)state;
    for (t = first; t <= last; t += step) {
        step = t < first + 146097 * (int64_t)86400 ? 86400 : 86400 * 97;
        check_time(t + (t / 86400 * 7919 % 86400 + 86400) % 86400);
    }
    check_time(first);
    check_time(last);
    for (t = -100000; t < 100000; t += 997)
        check_time(t);
    http_date_write(text, first - 1);
    assert_memory_equal(text, "Mon, 01 Jan 0001 00:00:00 GMT", HTTP_DATE_BYTES);
    http_date_write(text, INT64_MIN);
    assert_memory_equal(text, "Mon, 01 Jan 0001 00:00:00 GMT", HTTP_DATE_BYTES);
    http_date_write(text, INT64_MAX);
    assert_memory_equal(text, "Fri, 31 Dec 9999 23:59:59 GMT", HTTP_DATE_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_two_digits),
        cmocka_unit_test(test_round_trip),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
