/* SPDX-License-Identifier: MIT */
/* accept.c - Accept-Encoding and Accept: every form of a weight, and the preferred value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "head.h"

struct coding_row {
    const char *fields;
    int identity, gzip, zstd, br;
};

#define AE "Accept-Encoding: "

static const struct coding_row coding_rows[] = {
    /* nothing said: identity only */
    {"", 1, 0, 0, 0},
    {AE "\r\n", 1, 0, 0, 0},
    {AE ",, ,\r\n", 1, 0, 0, 0},
    /* named codings */
    {AE "gzip\r\n", 1, 1000, 0, 0},
    {AE "br\r\n", 1, 0, 0, 1000},
    {AE "zstd\r\n", 1, 0, 1000, 0},
    {AE "identity\r\n", 1000, 0, 0, 0},
    {AE "gzip, deflate, br, zstd\r\n", 1, 1000, 1000, 1000},
    {AE "GZip,BR\r\n", 1, 1000, 0, 1000},
    {AE "x-gzip\r\n", 1, 1000, 0, 0},
    {AE "compress, deflate\r\n", 1, 0, 0, 0},
    {AE "gzipx, xgzip, gzi, b r\r\n", 1, 0, 0, 0},
    {AE "\"gzip\"\r\n", 1, 0, 0, 0},
    {AE "gzip\r\n" AE "br;q=0.5\r\n", 1, 1000, 0, 500},
    /* weights */
    {AE "gzip;q=0\r\n", 1, 0, 0, 0},
    {AE "gzip;q=0.\r\n", 1, 0, 0, 0},
    {AE "gzip;q=0.0, br;q=0.00, zstd;q=0.000\r\n", 1, 0, 0, 0},
    {AE "gzip;q=1, br;q=1., zstd;q=1.000\r\n", 1, 1000, 1000, 1000},
    {AE "gzip;q=0.1, br;q=0.12, zstd;q=0.123\r\n", 1, 100, 123, 120},
    {AE "gzip;q=0.001, br;q=0.999\r\n", 1, 1, 0, 999},
    {AE "gzip\t; \tq=0.5 , br ;Q=0.25\r\n", 1, 500, 0, 250},
    {AE "gzip;x=y;q=0.5, br;q=0.5;x=y\r\n", 1, 500, 0, 500},
    {AE "gzip;x=\";q=0.1\";q=0.5\r\n", 1, 500, 0, 0},
    {AE "gzip;x=\"\\\";q=0.1\";q=0.5\r\n", 1, 500, 0, 0},
    /* not a weight: the element is skipped */
    {AE "gzip;q=1.001, br\r\n", 1, 0, 0, 1000},
    {AE "gzip;q=2, br;q=-1, zstd;q=+1\r\n", 1, 0, 0, 0},
    {AE "gzip;q=0.1234, br;q=1.0000, zstd;q=00.1\r\n", 1, 0, 0, 0},
    {AE "gzip;q=, br;q=., zstd;q=.5\r\n", 1, 0, 0, 0},
    {AE "gzip;q=0,5, br;q=0x1, zstd;q=1e0\r\n", 1, 0, 0, 0},
    {AE "gzip;q=0.a, br;q=0.5a, zstd;q= 0.5\r\n", 1, 0, 0, 0},
    {AE "identity;q=x\r\n", 1, 0, 0, 0},
    /* "*" stands for codings that are not named */
    {AE "*\r\n", 1000, 1000, 1000, 1000},
    {AE "*;q=0.5, gzip\r\n", 500, 1000, 500, 500},
    {AE "gzip;q=0, *;q=0.3\r\n", 300, 0, 300, 300},
    {AE "*;q=0, br\r\n", 0, 0, 0, 1000},
    {AE "*;q=0, identity;q=0.1\r\n", 100, 0, 0, 0},
    {AE "*;q=0\r\n", 0, 0, 0, 0},
    /* identity refused */
    {AE "identity;q=0\r\n", 0, 0, 0, 0},
    {AE "identity;q=0, gzip;q=0.2\r\n", 0, 200, 0, 0},
    {AE "identity;q=0.0, *\r\n", 0, 1000, 1000, 1000},
};

static void test_codings(void **state)
{
    struct http_head head;
    uint16_t q[CODINGS];

    (void)state;
    for (size_t i = 0; i < sizeof(coding_rows) / sizeof(coding_rows[0]); i++) {
        const struct coding_row *row = &coding_rows[i];

        head_of(&head, row->fields);
        http_accept_codings(&head, q);
        if (q[CODING_IDENTITY] != row->identity || q[CODING_GZIP] != row->gzip ||
            q[CODING_ZSTD] != row->zstd || q[CODING_BR] != row->br)
            fail_msg("%s: identity %u gzip %u zstd %u br %u", row->fields, q[CODING_IDENTITY],
                     q[CODING_GZIP], q[CODING_ZSTD], q[CODING_BR]);
    }
}

/* q of identity, gzip, zstd, br; the coding sent if all exist */
static const struct {
    uint16_t q[CODINGS];
    enum coding best;
} taste_rows[] = {
    {{1, 0, 0, 0}, CODING_IDENTITY},
    {{1, 1000, 1000, 1000}, CODING_BR},
    {{1, 1000, 1000, 0}, CODING_ZSTD},
    {{1, 1000, 0, 0}, CODING_GZIP},
    {{1, 1000, 999, 998}, CODING_GZIP},
    {{1, 998, 999, 998}, CODING_ZSTD},
    {{500, 500, 0, 0}, CODING_GZIP},
    {{501, 500, 500, 500}, CODING_IDENTITY},
    {{1000, 1000, 1000, 1000}, CODING_BR},
    {{1, 1, 0, 0}, CODING_GZIP},
    {{0, 0, 0, 0}, CODING_IDENTITY},
    {{0, 1, 0, 0}, CODING_GZIP},
};

static void test_taste(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(taste_rows) / sizeof(taste_rows[0]); i++) {
        const uint16_t *q = taste_rows[i].q;
        enum coding up = CODING_IDENTITY, down = CODING_IDENTITY, c;

        for (c = CODING_IDENTITY; c < CODINGS; c++) {
            assert_false(http_prefers(q, c, c));
            up = http_prefers(q, c, up) ? c : up;
            down = http_prefers(q, CODINGS - 1 - c, down) ? CODINGS - 1 - c : down;
        }
        if (up != taste_rows[i].best || down != up)
            fail_msg("row %zu: %d upwards, %d downwards", i, (int)up, (int)down);
    }
}

/* Each is liked better than the next one, and than the file itself; and the list is complete. */
static void test_order(void **state)
{
    bool seen[UINT8_MAX + 1] = {false};
    unsigned numbers = 0;

    (void)state;
    for (unsigned n = 0; n < 5 * 5 * 5 * 5; n++) {
        const uint16_t q[CODINGS] = {n % 5, n / 5 % 5, n / 25 % 5, n / 125};
        unsigned order = http_order(q), liked = 0, listed = 0, rest;

        numbers += !seen[order];
        seen[order] = true;
        for (rest = order; rest; rest >>= 2) {
            assert_true(http_prefers(q, rest & 3, rest >> 2 & 3));
            listed++;
        }
        for (enum coding c = CODING_IDENTITY + 1; c < CODINGS; c++)
            liked += http_prefers(q, c, CODING_IDENTITY);
        assert_int_equal(listed, liked);
    }
    assert_int_equal(numbers, 16);
}

#define ACC "Accept: "

/* want: h HTML, j JSON, t text; page: an error is shown as a page */
static const struct {
    const char *fields, *query;
    char want;
    bool page;
} accept_rows[] = {
    {"", NULL, 'h', false},
    {ACC "*/*\r\n", NULL, 'h', false},
    {ACC "\r\n", NULL, 'h', false},
    {ACC "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n", NULL, 'h', true},
    {ACC "application/json\r\n", NULL, 'j', false},
    {ACC "application/json, text/plain, */*\r\n", NULL, 'j', false},
    {ACC "APPLICATION/JSON\r\n", NULL, 'j', false},
    {ACC "application/json;q=0.5, */*\r\n", NULL, 'h', false},
    {ACC "application/json;q=0.5, text/html;q=0.4\r\n", NULL, 'j', true},
    {ACC "application/json, text/html\r\n", NULL, 'h', true},
    {ACC "application/json;q=0\r\n", NULL, 'h', false},
    {ACC "application/*\r\n", NULL, 'j', false},
    {ACC "application/*, text/html;q=0.9\r\n", NULL, 'j', true},
    {ACC "application/*;q=0.9, text/*\r\n", NULL, 'h', false},
    {ACC "application/*, */*\r\n", NULL, 'h', false},
    {ACC "application/*;q=0, text/html;q=0, */*\r\n", NULL, 't', false},
    {ACC "text/plain\r\n", NULL, 't', false},
    {ACC "text/plain, */*;q=0.1\r\n", NULL, 't', false},
    {ACC "text/plain;q=0.5, text/*;q=0.4\r\n", NULL, 't', false},
    {ACC "text/*;q=0.5, text/plain;q=0.4\r\n", NULL, 'h', false},
    {ACC "text/plain;q=0.5, application/json;q=0.6\r\n", NULL, 'j', false},
    {ACC "text/plain;q=0.6, application/json;q=0.5\r\n", NULL, 't', false},
    {ACC "text/plain\r\n" ACC "application/json;q=0.9\r\n", NULL, 't', false},
    {ACC "text/html;q=0, */*\r\n", NULL, 'j', false},
    {ACC "text/html;q=0, text/*\r\n", NULL, 't', false},
    {ACC "text/html;q=0\r\n", NULL, 't', false},
    {ACC "text/html;q=0, text/plain;q=0\r\n", NULL, 'j', false},
    {ACC "text/html;q=0, text/plain;q=0, application/json;q=0\r\n", NULL, 'h', false},
    {ACC "*/*;q=0\r\n", NULL, 'h', false},
    {ACC "text/html;q=x\r\n", NULL, 'h', false},
    {ACC "text/html;level=1;q=0.5, text/plain;q=0.4\r\n", NULL, 'h', true},
    {ACC "image/png\r\n", NULL, 'h', false},
    /* the query decides, if it knows the word */
    {"", "format=json", 'j', false},
    {"", "format=text", 't', false},
    {"", "a=b&format=json", 'j', false},
    {"", "&&format=json&x", 'j', false},
    {"", "format=json&format=text", 't', false},
    {"", "format=odd&format=json&format=even&sort=name", 'j', false},
    {ACC "application/json\r\n", "format=text&format=html", 'h', false},
    {"", "format=jsonx", 'h', false},
    {"", "xformat=json", 'h', false},
    {"", "format=", 'h', false},
    {"", "format", 'h', false},
    {"", "format=JSON", 'h', false},
    {"", "", 'h', false},
    {ACC "application/json\r\n", "format=html", 'h', false},
    {ACC "application/json\r\n", "format=text", 't', false},
    {ACC "application/json\r\n", "format=odd", 'j', false},
    {ACC "text/html\r\n", "format=json", 'j', true},
};

static void test_listing(void **state)
{
    struct http_head head;

    (void)state;
    for (size_t i = 0; i < sizeof(accept_rows) / sizeof(accept_rows[0]); i++) {
        struct http_ask ask = {.json = true, .text = true};
        char want;

        head_of(&head, accept_rows[i].fields);
        if (accept_rows[i].query)
            ask.query = (struct slice){accept_rows[i].query, strlen(accept_rows[i].query)};
        http_accept_listing(&head, &ask);
        assert_false(ask.json && ask.text);
        want = 'h';
        if (ask.json || ask.text)
            want = ask.json ? 'j' : 't';
        if (want != accept_rows[i].want || http_accept_html(&head) != accept_rows[i].page)
            fail_msg("row %zu, %s: %c", i, accept_rows[i].fields, want);
    }
}

struct weight_row {
    const char *fields, *type;
    unsigned weight;
};

static const struct weight_row weight_rows[] = {
    {"", "text/plain", 1000}, /* no Accept: anything */
    {"Accept: text/plain\r\n", "text/plain", 1000},
    {"Accept: TEXT/Plain;q=0.5\r\n", "text/plain", 500},
    {"Accept: text/plain;charset=utf-8;q=0.25\r\n", "text/plain", 250},
    {"Accept: text/plain;q=0\r\n", "text/plain", 0},
    {"Accept: text/html\r\n", "text/plain", 0},
    {"Accept: \r\n", "text/plain", 0},
    /* the narrowest range counts, wherever it stands */
    {"Accept: */*;q=0.1\r\n", "text/plain", 100},
    {"Accept: text/*;q=0.2, */*;q=0.1\r\n", "text/plain", 200},
    {"Accept: */*, text/*;q=0.2\r\n", "text/plain", 200},
    {"Accept: text/*, text/plain;q=0.3\r\n", "text/plain", 300},
    {"Accept: text/plain;q=0, */*\r\n", "text/plain", 0},
    {"Accept: TEXT/*;q=0.4\r\n", "text/plain", 400},
    /* of several as narrow the greatest weight */
    {"Accept: a/b;version=1;q=0.3, a/b;version=2;q=0.7, a/b;version=3;q=0.5\r\n", "a/b", 700},
    {"Accept: a/b;q=0.3\r\nAccept: a/b;q=0.6\r\n", "a/b", 600},
    /* ranges of other types, and what is none */
    {"Accept: a/*\r\n", "ab/c", 0},
    {"Accept: ab/*\r\n", "a/b", 0},
    {"Accept: application/openmetrics-text/*\r\n", "application/openmetrics-text", 0},
    {"Accept: *, /*, */\r\n", "a/b", 0},
    {"Accept: a/b;q=2, */*;q=0.5\r\n", "a/b", 500}, /* no weight: skipped */
};

static void test_weight(void **state)
{
    struct http_head head;

    (void)state;
    for (size_t i = 0; i < sizeof(weight_rows) / sizeof(weight_rows[0]); i++) {
        const struct weight_row *row = &weight_rows[i];
        unsigned weight;

        head_of(&head, row->fields);
        weight = http_accept_weight(&head, row->type);
        if (weight != row->weight)
            fail_msg("row %zu, %s: %u", i, row->fields, weight);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codings),
        cmocka_unit_test(test_taste),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_listing),
        cmocka_unit_test(test_weight),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
