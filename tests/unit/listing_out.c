/* SPDX-License-Identifier: MIT */
/* listing_out.c - a listing's writer: numbers, dates, the escapes of each format, the buffer's
 * end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "../../core/listing_out.h"

static struct slice text(const char *s)
{
    return (struct slice){s, strlen(s)};
}

static char piece_buf[4096];

static struct listing_out piece(void)
{
    return (struct listing_out){piece_buf, 0, sizeof(piece_buf) - 1, false};
}

static const char *written(struct listing_out *o)
{
    assert_false(o->full);
    o->buf[o->len] = '\0';
    return o->buf;
}

static void numbers(void **state)
{
    static const struct {
        uint64_t n;
        const char *plain, *grouped, *human;
    } rows[] = {
        {0, "0", "0", "0 B"},
        {1, "1", "1", "1 B"},
        {999, "999", "999", "999 B"},
        {1000, "1000", "1,000", "1000 B"},
        {1023, "1023", "1,023", "1023 B"},
        {1024, "1024", "1,024", "1.0 KiB"},
        {1075, "1075", "1,075", "1.0 KiB"},
        {1076, "1076", "1,076", "1.1 KiB"},
        {10188, "10188", "10,188", "9.9 KiB"},
        {10189, "10189", "10,189", "10.0 KiB"},
        {102348, "102348", "102,348", "99.9 KiB"},
        {102349, "102349", "102,349", "100 KiB"},
        {102399, "102399", "102,399", "100 KiB"},
        {102400, "102400", "102,400", "100 KiB"},
        {1048063, "1048063", "1,048,063", "1023 KiB"},
        {1048064, "1048064", "1,048,064", "1.0 MiB"},
        {1048576, "1048576", "1,048,576", "1.0 MiB"},
        {1500000, "1500000", "1,500,000", "1.4 MiB"},
        {5368709120, "5368709120", "5,368,709,120", "5.0 GiB"},
        {1ull << 40, "1099511627776", "1,099,511,627,776", "1.0 TiB"},
        {1ull << 50, "1125899906842624", "1,125,899,906,842,624", "1.0 PiB"},
        {10000000000000000000u, "10000000000000000000", "10,000,000,000,000,000,000", "8.7 EiB"},
        {UINT64_MAX, "18446744073709551615", "18,446,744,073,709,551,615", "16.0 EiB"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct listing_out o = piece();

        out_number(&o, rows[i].n);
        assert_string_equal(written(&o), rows[i].plain);
        o = piece();
        out_grouped(&o, rows[i].n);
        assert_string_equal(written(&o), rows[i].grouped);
        o = piece();
        out_human(&o, rows[i].n);
        assert_string_equal(written(&o), rows[i].human);
    }
}

static void dates(void **state)
{
    static const struct {
        int64_t s;
        const char *date;
    } rows[] = {
        {0, "1970-01-01 00:00:00"},
        {-1, "1969-12-31 23:59:59"},
        {784111777, "1994-11-06 08:49:37"},
        {951782400, "2000-02-29 00:00:00"},
        {4107542400, "2100-03-01 00:00:00"},
        {253402300799, "9999-12-31 23:59:59"},
        {253402300800, "9999-12-31 23:59:59"},
        {INT64_MAX, "9999-12-31 23:59:59"},
        {-62135596800, "0001-01-01 00:00:00"},
        {INT64_MIN, "0001-01-01 00:00:00"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct listing_out o = piece();

        out_date(&o, rows[i].s);
        out_text(&o, " ");
        out_time(&o, rows[i].s);
        assert_string_equal(written(&o), rows[i].date);
    }
}

/* A day's date is remembered: whatever was written before, each date is the same as alone. */
static void stamps(void **state)
{
    static const int64_t base[] = {0, 951782400, 1600000000, 253402300799, -62135596800, INT64_MAX,
                                   INT64_MIN};
    static const int64_t step[] = {0, 1, -1, 59, 3600, 86399, 86400, -86400, 86401, -86401};
    struct listing l = {.day_s = 0};
    struct listing_stamp stamp;

    (void)state;
    for (size_t i = 0; i < 7 * 10 * 7 * 10; i++) {
        const size_t pair[2] = {i / 70, i % 70};

        for (unsigned k = 0; k < 2; k++) {
            int64_t b = base[pair[k] / 10], s = step[pair[k] % 10];
            struct listing_out o = piece();

            if ((b == INT64_MAX && s > 0) || (b == INT64_MIN && s < 0))
                continue;
            l.held.mtime_s = b + s;
            listing_stamp(&l, &stamp);
            out_date(&o, b + s);
            out_time(&o, b + s);
            assert_memory_equal(written(&o), stamp.date, sizeof(stamp.date));
            assert_memory_equal(written(&o) + 10, stamp.time, sizeof(stamp.time));
        }
    }
}

#define BAD "\xEF\xBF\xBD"

static void escapes(void **state)
{
    static const struct {
        const char *name, *html, *url, *json, *plain;
    } rows[] = {
        {"a.txt", "a.txt", "a.txt", "a.txt", "a.txt"},
        {"a b", "a b", "a%20b", "a b", "a b"},
        {"<b>&\"'", "&lt;b&gt;&amp;&quot;&#39;", "%3Cb%3E%26%22%27", "<b>&\\\"'", "<b>&\"'"},
        {"a\\b", "a\\b", "a%5Cb", "a\\\\b", "a\\\\b"},
        {"50%?#:;=+", "50%?#:;=+", "50%25%3F%23%3A%3B%3D%2B", "50%?#:;=+", "50%?#:;=+"},
        {"n\nt\t", "n" BAD "t" BAD, "n%0At%09", "n\\u000at\\u0009", "n\\x0at\\x09"},
        {"\x1b[31m\x7f", BAD "[31m" BAD, "%1B%5B31m%7F", "\\u001b[31m\\u007f", "\\x1b[31m\\x7f"},
        {"\xc2\x85\xc2\xa0", BAD "\xc2\xa0", "%C2%85%C2%A0", "\\u0085\xc2\xa0",
        "\\xc2\\x85\xc2\xa0"},
        {"a\u202egpj.exe", "a" BAD "gpj.exe", "a%E2%80%AEgpj.exe", "a\\u202egpj.exe",
         "a\\xe2\\x80\\xaegpj.exe"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
         "%C3%A9%E2%82%AC%F0%9F%98%80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
         "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\xff\xfe", BAD BAD, "%FF%FE", BAD BAD, "\\xff\\xfe"},
        {"\xc0\xaf", BAD BAD, "%C0%AF", BAD BAD, "\\xc0\\xaf"},
        {"\xe2\x82", BAD BAD, "%E2%82", BAD BAD, "\\xe2\\x82"},
        {"\xe2\x82z", BAD BAD "z", "%E2%82z", BAD BAD "z", "\\xe2\\x82z"},
        {"\xed\xa0\x80", BAD BAD BAD, "%ED%A0%80", BAD BAD BAD, "\\xed\\xa0\\x80"},
        {"-_.~", "-_.~", "-_.~", "-_.~", "-_.~"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct slice name = text(rows[i].name);
        struct listing_out o = piece();

        out_html(&o, name);
        assert_string_equal(written(&o), rows[i].html);
        o = piece();
        out_url(&o, name);
        assert_string_equal(written(&o), rows[i].url);
        o = piece();
        out_json(&o, name);
        assert_string_equal(written(&o), rows[i].json);
        o = piece();
        out_plain(&o, name);
        assert_string_equal(written(&o), rows[i].plain);
    }
}

/* Every character up to U+FFFF is either written as it is in every format, or in none. */
static void unsafe_characters(void **state)
{
    static const struct {
        unsigned first, last;
    } unsafe[] = {{0x00, 0x1F}, {0x7F, 0x9F}, {0x61C, 0x61C}, {0x200E, 0x200F}, {0x2028, 0x202E},
                  {0x2066, 0x2069}};

    (void)state;
    for (unsigned code = 1; code < 0xD800; code++) {
        char c[4] = {(char)code}, escape[8];
        struct listing_out o = piece();
        bool is_unsafe = false;

        if (code >= 0x800) {
            c[0] = (char)(0xE0 | code >> 12);
            c[1] = (char)(0x80 | (code >> 6 & 0x3F));
            c[2] = (char)(0x80 | (code & 0x3F));
        } else if (code >= 0x80) {
            c[0] = (char)(0xC0 | code >> 6);
            c[1] = (char)(0x80 | (code & 0x3F));
        } else if (strchr("<>&'\"\\", (int)code)) {
            continue; /* escaped in their own way */
        }
        for (size_t i = 0; i < sizeof(unsafe) / sizeof(unsafe[0]); i++)
            is_unsafe = is_unsafe || (code >= unsafe[i].first && code <= unsafe[i].last);
        snprintf(escape, sizeof(escape), "\\u%04x", code);
        out_html(&o, text(c));
        assert_string_equal(written(&o), is_unsafe ? BAD : c);
        o = piece();
        out_json(&o, text(c));
        assert_string_equal(written(&o), is_unsafe ? escape : c);
        o = piece();
        out_plain(&o, text(c));
        assert_true(is_unsafe ? written(&o)[0] == '\\' : strcmp(written(&o), c) == 0);
    }
}

static void utf8_sequences(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } rows[] = {
        {"", 0}, {"a", 1}, {"\x7f", 1}, {"\x80", 0}, {"\xbf", 0}, {"\xc1\xbf", 0}, {"\xc2\x80", 2},
        {"\xdf\xbf", 2}, {"\xdf", 0}, {"\xdf\x7f", 0}, {"\xdf\xc0", 0}, {"\xe0\x9f\xbf", 0},
        {"\xe0\xa0\x80", 3}, {"\xec\xbf\xbf", 3}, {"\xed\x9f\xbf", 3}, {"\xed\xa0\x80", 0},
        {"\xee\x80\x80", 3}, {"\xef\xbf\xbf", 3}, {"\xef\xbf", 0}, {"\xef\xbf\x7f", 0},
        {"\xf0\x8f\xbf\xbf", 0}, {"\xf0\x90\x80\x80", 4}, {"\xf3\xbf\xbf\xbf", 4},
        {"\xf4\x8f\xbf\xbf", 4}, {"\xf4\x90\x80\x80", 0}, {"\xf5\x80\x80\x80", 0},
        {"\xf4\x8f\xbf", 0}, {"\xf4\x8f\xbf\xc0", 0}, {"\xff", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(out_utf8_len(text(rows[i].bytes)), rows[i].len);
}

/* Nothing is written past the end, whatever it is; exactly fitting text is written. */
static void the_end_of_the_buffer(void **state)
{
    (void)state;
    for (size_t cap = 0; cap < 12; cap++) {
        char *buf = malloc(cap ? cap : 1);
        struct listing_out o = {buf, 0, cap, false};

        assert_non_null(buf);
        out_html(&o, text("<<"));
        assert_int_equal(o.full, cap < 8);
        o = (struct listing_out){buf, 0, cap, false};
        out_url(&o, text("a<"));
        assert_int_equal(o.full, cap < 6); /* in the worst case: three bytes each */
        o = (struct listing_out){buf, 0, cap, false};
        out_number(&o, 12345);
        assert_int_equal(o.full, cap < 5);
        out_text(&o, "");
        assert_int_equal(o.full, cap < 5); /* once full it stays so */
        free(buf);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(dates),
        cmocka_unit_test(escapes),
        cmocka_unit_test(stamps),
        cmocka_unit_test(unsafe_characters),
        cmocka_unit_test(utf8_sequences),
        cmocka_unit_test(the_end_of_the_buffer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
