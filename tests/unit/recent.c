/* SPDX-License-Identifier: MIT */
/* recent.c - heads seen before: the answer is the same with and without them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "../../core/http_inside.h"
#include "world.h"

#define HOST " HTTP/1.1\r\nHost: h\r\n"
#define KNOWN "GET /p7?a=b" HOST "Accept-Encoding: gzip, br;q=0.5\r\nUser-Agent: recent\r\n\r\n"

enum { TIMES = 4, CUTS = 4, TEXT_MAX = RECENT_BYTES_MAX + 64 };

static const size_t cuts[CUTS] = {0, 1, 7, 40};
static struct http_recent recent;

static struct fake *open_remembering(bool remembers)
{
    struct fake *f = world_open();

    memset(&recent, 0, sizeof(recent));
    f->host.recent = remembers ? &recent : NULL;
    return f;
}

static void close_remembering(struct fake *f)
{
    http_recent_drop(&f->host);
    http_recent_drop(&f->host); /* there is nothing left to give back */
    fake_close(f);
}

static unsigned heads_kept(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < 1 << RECENT_LOG; i++)
        n += recent.place[i].kept != NULL;
    return n;
}

/* All output for the requests; `world` then has the calls to the host. */
static void ask(struct fake *f, char out[], const char *requests, size_t cut)
{
    struct drive d;

    memset(&world, 0, sizeof(world)); /* earlier calls to the host */
    drive_open(&d, f);
    d.out[0] = '\0';
    d.cut = cut;
    drive_text(&d, requests);
    drive_end(&d);
    snprintf(out, DRIVE_OUT_MAX, "%s\n%s %s ? %s %s fields %u %d%d%d", d.out, world.method,
             world.target, world.query, world.path, world.fields, world.json, world.text,
             world.head);
    drive_close(&d);
}

static char plain[DRIVE_OUT_MAX], other[DRIVE_OUT_MAX];

/* Ask once without kept heads, and then often enough for the head to be kept. */
static void check_alike(const char *requests, bool kept)
{
    struct fake *f = open_remembering(false), *with;

    ask(f, plain, requests, 0);
    close_remembering(f);
    for (unsigned i = 0; i < CUTS; i++) {
        with = open_remembering(true);
        for (unsigned n = 0; n < TIMES; n++) {
            ask(with, other, requests, cuts[i]);
            assert_string_equal(plain, other);
        }
        if (cuts[i] == 0)
            assert_int_equal(heads_kept() > 0, kept);
        close_remembering(with);
    }
}

static void test_answers_are_alike(void **state)
{
    static const struct {
        const char *requests;
        bool kept;
    } rows[] = {
        {KNOWN, true},
        {"HEAD /p7" HOST "\r\n", true},
        {"GET /p7 HTTP/1.0\r\n\r\n", true},
        {"GET /p7 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true},
        {"GET /%70%37" HOST "Connection: close\r\n\r\n", true},
        {"GET http://h/p7?q" HOST "\r\n", true},
        {"GET /w5000" HOST "\r\nGET /w5" HOST "\r\n", true},
        {"GET /m3" HOST "\r\nGET /p3" HOST "\r\n", true},
        {"GET /f200000" HOST "\r\n", true},
        {"GET /gz" HOST "Accept-Encoding: gzip;q=0, identity;q=0\r\n\r\n", true},
        {"GET /p9/" HOST "Accept: application/json\r\n\r\n", true},
        {"GET /dir" HOST "\r\n", true},
        {"GET /p90000" HOST "Range: bytes=5-9,20-30\r\n\r\n", true},
        {"GET /p9" HOST "If-None-Match: *\r\n\r\n", true},
        {"GET /none" HOST "\r\n", true},
        {"GET /EMFILE" HOST "\r\n", true},
        {"\r\nGET /p7" HOST "\r\n", true},
        {"GET /p7" HOST "Content-Length: 0\r\n\r\n", false},
        {"GET /p7" HOST "Content-Length: 3\r\n\r\nabcGET /p1" HOST "\r\n", true}, /* the second */
        {"POST /p7" HOST "Content-Length: 3\r\n\r\nabc", false},
        {"OPTIONS *" HOST "\r\n", false},
        {"OPTIONS /p7" HOST "\r\n", false},
        {"TRACE /p7" HOST "\r\n", false},
        {"CONNECT h:80" HOST "\r\n", false},
        {"GET /%2f" HOST "\r\n", true}, /* it takes a place, and is parsed again anyway */
        {"GET /../p7" HOST "\r\n", true},
        {"GET /p7 HTTP/1.1\r\n\r\n", false},
        {"GET /p7" HOST "Host: h\r\n\r\n", false},
        {"GET /p7" HOST "Expect: 100-continue\r\n\r\n", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_alike(rows[i].requests, rows[i].kept);
}

/* A head that differs in one byte, or is shorter or longer, is another head. */
static void test_each_byte_counts(void **state)
{
    static const char others[] = "\0\t\r\n /?%:;,.0AzZ\x7f\xff";
    struct fake *with = open_remembering(true), *f;
    char text[sizeof(KNOWN)];

    (void)state;
    for (unsigned n = 0; n < TIMES; n++)
        ask(with, other, KNOWN, 0);
    assert_int_equal(heads_kept(), 1);
    for (size_t at = 0; at < sizeof(text) - 1; at++) {
        for (size_t i = 1; i < sizeof(others) - 1; i++) {
            memcpy(text, KNOWN, sizeof(text));
            text[at] = others[i];
            ask(with, other, text, 0);
            f = world_open();
            ask(f, plain, text, 0);
            fake_close(f);
            assert_string_equal(plain, other);
        }
        memcpy(text, KNOWN, sizeof(text));
        text[at] = '\0'; /* cut off */
        ask(with, other, text, 0);
        f = world_open();
        ask(f, plain, text, 0);
        fake_close(f);
        assert_string_equal(plain, other);
    }
    close_remembering(with);
}

static size_t fill(char text[TEXT_MAX], size_t bytes)
{
    static const char end[] = "\r\n\r\n";
    int n = snprintf(text, TEXT_MAX, "GET /p7" HOST "Cookie: ");

    memset(text + n, 'c', bytes - (size_t)n - (sizeof(end) - 1));
    memcpy(text + bytes - (sizeof(end) - 1), end, sizeof(end));
    return strlen(text);
}

/* A head of exactly the size limit is kept, a longer one is not. */
static void test_long_heads_are_not_kept(void **state)
{
    char text[TEXT_MAX];

    (void)state;
    assert_int_equal(fill(text, RECENT_BYTES_MAX), RECENT_BYTES_MAX);
    check_alike(text, true);
    assert_int_equal(fill(text, RECENT_BYTES_MAX + 1), RECENT_BYTES_MAX + 1);
    check_alike(text, false);
}

/* A head that comes once takes no memory; one that repeats is found; and no more heads are kept
 * than there are places. */
static void test_what_is_kept(void **state)
{
    struct fake *f = open_remembering(true);
    char text[TEXT_MAX];
    size_t used = 0;

    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(text, sizeof(text), "GET /p%u" HOST "\r\n", i);
        ask(f, other, text, 0);
        assert_null(http_recent_find(&recent, text, strlen(text), &used));
    }
    assert_int_equal(heads_kept(), 0);
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(text, sizeof(text), "GET /p%u" HOST "\r\n", i);
        ask(f, other, text, 0);
        ask(f, other, text, 0);
        assert_non_null(http_recent_find(&recent, text, strlen(text), &used));
        assert_int_equal(used, strlen(text));
        assert_null(http_recent_find(&recent, text, strlen(text) - 1, &used));
    }
    assert_int_equal(heads_kept(), 1 << RECENT_LOG);
    close_remembering(f);
}

/* The number of that head, asked by a separate connection; 0: it has none. */
static uint64_t number_of(struct fake *f, const char *request)
{
    struct drive d;

    world.asker = NULL;
    drive_open(&d, f);
    d.out[0] = '\0';
    drive_text(&d, request);
    assert_ptr_equal(world.asker, &d.conn);
    drive_end(&d);
    drive_close(&d);
    return world.again;
}

/* A kept head has a number of its own, which no other head will ever have. */
static void test_numbers(void **state)
{
    struct fake *f = open_remembering(true);
    char text[TEXT_MAX];
    uint64_t first, second, last = 0;

    (void)state;
    assert_int_equal(number_of(f, KNOWN), 0);
    number_of(f, KNOWN);
    first = number_of(f, KNOWN);
    assert_int_not_equal(first, 0);
    number_of(f, "GET /p8" HOST "\r\n");
    number_of(f, "GET /p8" HOST "\r\n");
    second = number_of(f, "GET /p8" HOST "\r\n");
    assert_int_not_equal(second, 0);
    assert_int_not_equal(second, first);
    for (unsigned i = 0; i < TIMES; i++) {
        assert_int_equal(number_of(f, KNOWN), first);
        assert_int_equal(number_of(f, "GET /p8" HOST "\r\n"), second);
    }
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(text, sizeof(text), "GET /p%u" HOST "Cookie: %u\r\n\r\n", i, i);
        number_of(f, text);
        number_of(f, text);
        assert_true(number_of(f, text) != last);
        last = number_of(f, text);
        assert_true(last != 0 && last != first && last != second);
    }
    close_remembering(f);
    f = open_remembering(false);
    for (unsigned i = 0; i < TIMES; i++)
        assert_int_equal(number_of(f, KNOWN), 0);
    fake_close(f);
}

/* Without memory every head is parsed again. */
static void test_without_memory(void **state)
{
    struct fake *f;

    (void)state;
    for (unsigned nth = 1; nth < 12; nth++) {
        f = open_remembering(true);
        f->fail_alloc = nth;
        for (unsigned n = 0; n < TIMES; n++)
            ask(f, other, KNOWN, 0);
        f->fail_alloc = 0;
        ask(f, other, KNOWN, 0);
        assert_non_null(strstr(other, "HTTP/1.1 200 OK\r\n"));
        close_remembering(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_are_alike),
        cmocka_unit_test(test_each_byte_counts),
        cmocka_unit_test(test_long_heads_are_not_kept),
        cmocka_unit_test(test_what_is_kept),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
