/* SPDX-License-Identifier: MIT */
/* cond.c - validators and preconditions: each field alone, their precedence, ignored fields. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "head.h"

/* The representation: changed at AT, requested a day later.  TAG stands for its tag. */
#define AT "Sun, 06 Nov 1994 08:49:37 GMT"
#define BEFORE "Sun, 06 Nov 1994 08:49:36 GMT"
#define AFTER "Sun, 06 Nov 1994 08:49:38 GMT"
#define AT_850 "Sunday, 06-Nov-94 08:49:37 GMT"
#define AT_ASC "Sun Nov  6 08:49:37 1994"
#define TAG "\"7-1f-ae1c6fbbe8b5201-ae1c6fbbe8b5202\""
#define OTHER "\"7-1f-ae1c6fbbe8b5201-ae1c6fbbe8b5203\""
/* The tag of bytes that were made from the file. */
#define STEM "\"7-1f-ae1b981bc490a01-ae1b981bc490a02"
#define MADE(how) STEM how "\""
enum { AT_S = 784111777, NOW_S = AT_S + 86400 };

static const struct source file = {
    .kind = SOURCE_BODY, .inode = 7, .size = 31, .type = "text/plain",
    .mtime_s = AT_S, .mtime_ns = 1, .ctime_s = AT_S, .ctime_ns = 2,
};

static void tag_of(const struct source *source, char out[ETAG_BYTES_MAX + 1])
{
    struct http_mark mark;

    http_mark_set(&mark, source, NOW_S);
    memcpy(out, mark.etag, mark.etag_len);
    out[mark.etag_len] = '\0';
}

/* mtime and ctime in nanoseconds, in hex: computed by hand, independently of the code. */
static void test_tag(void **state)
{
    char tag[ETAG_BYTES_MAX + 1], want[128];
    struct source s = file;
    static const char *const suffix[CODINGS] = {
        [CODING_IDENTITY] = "", [CODING_GZIP] = "-gz", [CODING_ZSTD] = "-zst", [CODING_BR] = "-br"};

    (void)state;
    for (int coding = 0; coding < CODINGS; coding++) {
        s.coding = (enum coding)coding;
        tag_of(&s, tag);
        snprintf(want, sizeof(want), "\"7-1f-%llx-%llx%s\"", 784111777000000001ull,
                 784111777000000002ull, suffix[coding]);
        assert_string_equal(tag, want);
    }
    /* the longest possible tag */
    s = (struct source){.kind = SOURCE_BODY, .inode = UINT64_MAX, .size = UINT64_MAX,
                        .mtime_s = -1, .mtime_ns = 999999999, .ctime_s = -1, .ctime_ns = 999999999,
                        .coding = CODING_ZSTD};
    tag_of(&s, tag);
    assert_string_equal(tag, "\"ffffffffffffffff-ffffffffffffffff-ffffffffffffffff-"
                             "ffffffffffffffff-zst\"");
    s.made = s.made_of = UINT64_MAX;
    tag_of(&s, tag);
    assert_int_equal(strlen(tag), ETAG_BYTES_MAX);
}

/* Bytes made from a file: the size in their tag is the file's, and the bytes have a hash. */
static void test_tag_of_what_was_made(void **state)
{
    char tag[ETAG_BYTES_MAX + 1];
    struct source s = file;

    (void)state;
    s.coding = CODING_GZIP;
    s.size = 9;
    s.made = 0xabc;
    s.made_of = 31;
    tag_of(&s, tag);
    assert_string_equal(tag, MADE("-gz-abc"));
}

static void test_tag_tells_every_change(void **state)
{
    char tag[ETAG_BYTES_MAX + 1], plain[ETAG_BYTES_MAX + 1];
    struct source s[6];

    (void)state;
    tag_of(&file, plain);
    for (int i = 0; i < 6; i++)
        s[i] = file;
    s[0].inode++;
    s[1].size++;
    s[2].mtime_ns++;
    s[3].mtime_s++;
    s[4].ctime_ns++;
    s[5].ctime_s++;
    for (int i = 0; i < 6; i++) {
        tag_of(&s[i], tag);
        assert_string_not_equal(tag, plain);
    }
    s[0] = file;
    s[0].kind = SOURCE_MADE; /* has no tag */
    tag_of(&s[0], tag);
    assert_string_equal(tag, "");
}

struct row {
    const char *fields;
    unsigned status;
};

static const struct row rows[] = {
    {"", 0},
    /* If-None-Match: weak comparison */
    {"If-None-Match: " TAG "\r\n", 304},
    {"If-None-Match: W/" TAG "\r\n", 304},
    {"If-None-Match: *\r\n", 304},
    {"If-None-Match:  \t* \r\n", 304},
    {"If-None-Match: \"x\", " TAG ", \"y\"\r\n", 304},
    {"If-None-Match: \"x\"," TAG "\r\n", 304},
    {"If-None-Match: \"x\" ,\t, W/" TAG "\r\n", 304},
    {"If-None-Match: , ," TAG "\r\n", 304},
    {"If-None-Match: \"x\"\r\nIf-None-Match: " TAG "\r\n", 304},
    {"If-None-Match: \"a,b\", " TAG "\r\n", 304},
    {"If-None-Match: \"back\\\", " TAG "\r\n", 304}, /* a backslash is no escape (8.8.3) */
    {"If-None-Match: \"\", " TAG "\r\n", 304},
    {"If-None-Match: " OTHER "\r\n", 0},
    {"If-None-Match: W/" OTHER "\r\n", 0},
    {"If-None-Match: \"\"\r\n", 0},
    {"If-None-Match: \r\n", 0},
    {"If-None-Match: x\r\n", 0},
    {"If-None-Match: \"x\r\n", 0},
    {"If-None-Match: \"\r\n", 0},
    {"If-None-Match: W/\r\n", 0},
    {"If-None-Match: w/" TAG "\r\n", 0},
    {"If-None-Match: W/*\r\n", 0},
    {"If-None-Match: \"x\", *\r\n", 0},
    {"If-None-Match: x, " TAG "\r\n", 0}, /* not a list from there on */
    {"If-None-Match: \"x\"" TAG "\r\n", 0},
    /* If-Match: strong comparison */
    {"If-Match: " TAG "\r\n", 0},
    {"If-Match: *\r\n", 0},
    {"If-Match: \"x\", " TAG "\r\n", 0},
    {"If-Match: \"x\"\r\nIf-Match: " TAG "\r\n", 0},
    {"If-Match: " OTHER "\r\n", 412},
    {"If-Match: W/" TAG "\r\n", 412},
    {"If-Match: W/" TAG ", " TAG "\r\n", 0},
    {"If-Match: \r\n", 412},
    {"If-Match: x\r\n", 412},
    /* dates, in each form */
    {"If-Modified-Since: " AT "\r\n", 304},
    {"If-Modified-Since: " AFTER "\r\n", 304},
    {"If-Modified-Since: " BEFORE "\r\n", 0},
    {"If-Modified-Since: " AT_850 "\r\n", 304},
    {"If-Modified-Since: " AT_ASC "\r\n", 304},
    {"If-Modified-Since: yesterday\r\n", 0},
    {"If-Modified-Since: \r\n", 0},
    {"If-Modified-Since: 784111777\r\n", 0},
    {"If-Modified-Since: " AT ", " AT "\r\n", 0},
    {"If-Modified-Since: " AT "\r\nIf-Modified-Since: " AT "\r\n", 0},
    {"If-Unmodified-Since: " AT "\r\n", 0},
    {"If-Unmodified-Since: " AFTER "\r\n", 0},
    {"If-Unmodified-Since: " BEFORE "\r\n", 412},
    {"If-Unmodified-Since: once\r\n", 0},
    {"If-Unmodified-Since: " BEFORE "\r\nIf-Unmodified-Since: " BEFORE "\r\n", 0},
    /* precedence (13.2.2) */
    {"If-Match: " TAG "\r\nIf-Unmodified-Since: " BEFORE "\r\n", 0},
    {"If-Match: " OTHER "\r\nIf-Unmodified-Since: " AFTER "\r\n", 412},
    {"If-None-Match: " TAG "\r\nIf-Modified-Since: " BEFORE "\r\n", 304},
    {"If-None-Match: " OTHER "\r\nIf-Modified-Since: " AFTER "\r\n", 0},
    {"If-None-Match: x\r\nIf-Modified-Since: " AFTER "\r\n", 0},
    {"If-Match: " TAG "\r\nIf-None-Match: " TAG "\r\n", 304},
    {"If-None-Match: " TAG "\r\nIf-Match: " OTHER "\r\n", 412},
    {"If-Match: " TAG "\r\nIf-Modified-Since: " AT "\r\n", 304},
    {"If-Unmodified-Since: " BEFORE "\r\nIf-None-Match: " TAG "\r\n", 412},
    {"If-Unmodified-Since: " AT "\r\nIf-Modified-Since: " AT "\r\n", 304},
    {"If-Match: *\r\nIf-None-Match: *\r\n", 304},
};

/* Replace TAG by the tag's real digits, which the first test checks. */
static const char *with_tag(const char *fields, const char *tag, char *buf, size_t cap)
{
    size_t at = 0, n = sizeof(TAG) - 1;

    for (; *fields; fields++) {
        const char *put = fields;
        size_t len = 1;

        if (strncmp(fields, TAG, n) == 0) {
            put = tag;
            len = strlen(tag);
            fields += n - 1;
        }
        assert_true(at + len < cap);
        memcpy(buf + at, put, len);
        at += len;
    }
    buf[at] = '\0';
    return buf;
}

static void test_rows(void **state)
{
    char tag[ETAG_BYTES_MAX + 1], fields[1024];
    struct http_head head;
    struct http_mark mark;

    (void)state;
    tag_of(&file, tag);
    http_mark_set(&mark, &file, NOW_S);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsigned status;

        head_of(&head, with_tag(rows[i].fields, tag, fields, sizeof(fields)));
        status = http_cond(&head, &mark);
        if (status != rows[i].status)
            fail_msg("%s: %u", fields, status);
    }
}

/* A resource without validators: "*" matches; everything else is false or ignored. */
static void test_without_validators(void **state)
{
    static const struct row none[] = {
        {"If-None-Match: *\r\n", 304}, {"If-Match: *\r\n", 0},
        {"If-None-Match: \"\"\r\n", 0}, {"If-Match: \"\"\r\n", 412},
        {"If-Modified-Since: " AFTER "\r\n", 0}, {"If-Unmodified-Since: " BEFORE "\r\n", 0},
    };
    struct source made = file;
    struct http_head head;
    struct http_mark mark;

    (void)state;
    made.kind = SOURCE_MADE;
    http_mark_set(&mark, &made, NOW_S);
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        head_of(&head, none[i].fields);
        if (http_cond(&head, &mark) != none[i].status)
            fail_msg("%s", none[i].fields);
    }
}

/* A tag that may soon stand for other bytes: only weak comparisons match it (8.8.3.2). */
static void test_young(void **state)
{
    static const struct row young[] = {
        {"If-None-Match: " TAG "\r\n", 304}, {"If-None-Match: W/" TAG "\r\n", 304},
        {"If-None-Match: *\r\n", 304},       {"If-None-Match: " OTHER "\r\n", 0},
        {"If-Match: " TAG "\r\n", 412},      {"If-Match: W/" TAG "\r\n", 412},
        {"If-Match: *\r\n", 0},              {"If-Modified-Since: " AT "\r\n", 304},
    };
    static const char *const no_ranges[] = {"If-Range: " TAG "\r\n", "If-Range: W/" TAG "\r\n"};
    char tag[ETAG_BYTES_MAX + 1], strong[ETAG_BYTES_MAX + 1], fields[1024];
    struct source s = file;
    struct http_head head;
    struct http_mark mark;

    (void)state;
    tag_of(&s, strong);
    s.young = true;
    tag_of(&s, tag);
    assert_string_equal(tag, strong); /* so a cached answer with the weak tag is valid later */
    http_mark_set(&mark, &s, NOW_S);
    for (size_t i = 0; i < sizeof(young) / sizeof(young[0]); i++) {
        head_of(&head, with_tag(young[i].fields, tag, fields, sizeof(fields)));
        if (http_cond(&head, &mark) != young[i].status)
            fail_msg("%s", fields);
    }
    for (size_t i = 0; i < 2; i++) {
        head_of(&head, with_tag(no_ranges[i], tag, fields, sizeof(fields)));
        assert_false(http_cond_range(&head, &mark));
    }
    head_of(&head, "If-Range: " AT "\r\n");
    assert_true(http_cond_range(&head, &mark)); /* its second is over, whatever the clock's tick */
}

/* Which tags of bytes made from a file are valid for the file, the only representation here. */
static void test_made(void **state)
{
    static const struct {
        const char *fields;
        bool good;
    } cases[] = {
        {"", false},
        {"If-None-Match: " MADE("-gz-abc") "\r\n", true},
        {"If-None-Match: W/" MADE("-gz-0123456789abcdef") "\r\n", true},
        {"If-None-Match: " MADE("-br-1") "\r\n", true},
        {"If-None-Match: \"x\", " MADE("-gz-1") "\r\n", true},
        {"If-None-Match: \"x\"\r\nIf-None-Match: " MADE("-gz-1") "\r\n", true},
        {"If-None-Match: " MADE("-zst-1") "\r\n", false}, /* refused by the client */
        {"If-None-Match: " MADE("-gz") "\r\n", false},
        {"If-None-Match: " MADE("-gz-") "\r\n", false},
        {"If-None-Match: " MADE("-gz-x") "\r\n", false},
        {"If-None-Match: " MADE("-gz-1x") "\r\n", false},
        {"If-None-Match: " MADE("-gz-A") "\r\n", false},
        {"If-None-Match: " MADE("-gz1") "\r\n", false},
        {"If-None-Match: " MADE("-1") "\r\n", false},
        {"If-None-Match: " MADE("-xz-1") "\r\n", false},
        {"If-None-Match: " MADE("") "\r\n", false},
        {"If-None-Match: " MADE("0-gz-1") "\r\n", false}, /* another time */
        {"If-None-Match: " MADE("-gz-0123456789abcdef0") "\r\n", true},
        {"If-None-Match: \"6-1f-ae1b981bc490a01-ae1b981bc490a02-gz-1\"\r\n", false},
        {"If-None-Match: " STEM "-gz-1\r\n", false},
        {"If-None-Match: *\r\n", false}, /* http_cond() handles that */
        {"If-Match: " MADE("-gz-1") "\r\n", false},
        {"If-Range: " MADE("-gz-1") "\r\n", false},
    };
    const struct http_ask ask = {.q = {[CODING_IDENTITY] = 500, [CODING_GZIP] = 500,
                                       [CODING_BR] = 1000}};
    struct http_head head;
    struct http_mark mark;
    struct source s = file;

    (void)state;
    s.vary = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        http_mark_set(&mark, &s, NOW_S);
        head_of(&head, cases[i].fields);
        if (http_cond_made(&head, &ask, &mark) != cases[i].good)
            fail_msg("%s", cases[i].fields);
        assert_int_equal(http_cond(&head, &mark) == 304,
                         cases[i].good || strstr(cases[i].fields, "*") ||
                             strstr(cases[i].fields, " " MADE("") "\r"));
    }
    s.young = true; /* it may soon be another file under the same tag */
    http_mark_set(&mark, &s, NOW_S);
    head_of(&head, cases[1].fields);
    assert_false(http_cond_made(&head, &ask, &mark));
}

/* Codings of a file may have the same date, and their bytes must not be joined. */
static void test_if_range_of_codings(void **state)
{
    char fields[ETAG_BYTES_MAX + 20], tag[ETAG_BYTES_MAX + 1];
    struct source s = file;
    struct http_head head;
    struct http_mark mark;

    (void)state;
    for (int i = 0; i < 3; i++) {
        s.vary = i == 1;
        s.coding = i == 2 ? CODING_GZIP : CODING_IDENTITY;
        http_mark_set(&mark, &s, NOW_S);
        head_of(&head, "If-Range: " AT "\r\n");
        assert_int_equal(http_cond_range(&head, &mark), i == 0);
        tag_of(&s, tag);
        snprintf(fields, sizeof(fields), "If-Range: %s\r\n", tag);
        head_of(&head, fields);
        assert_true(http_cond_range(&head, &mark));
    }
}

/* A date is strong as soon as its second is over (8.8.2.2). */
static void test_if_range_date(void **state)
{
    struct source s = file;
    struct http_head head;
    struct http_mark mark;

    (void)state;
    head_of(&head, "If-Range: " AT "\r\n");
    for (int64_t age_s = -1; age_s <= 2; age_s++) {
        http_mark_set(&mark, &s, AT_S + age_s);
        assert_int_equal(http_cond_range(&head, &mark), age_s >= 1);
    }
    s.mtime_s = AT_S + 100; /* sent as the present time, which differs each time */
    http_mark_set(&mark, &s, AT_S);
    assert_false(http_cond_range(&head, &mark));
}

static void test_if_range(void **state)
{
    static const struct {
        const char *fields;
        bool ranges;
    } cases[] = {
        {"", true},
        {"If-Range: " TAG "\r\n", true},
        {"If-Range: " OTHER "\r\n", false},
        {"If-Range: W/" TAG "\r\n", false},
        {"If-Range: " TAG ", " TAG "\r\n", false},
        {"If-Range: *\r\n", false},
        {"If-Range: \r\n", false},
        {"If-Range: \"\r\n", false},
        {"If-Range: " AT "\r\n", true},
        {"If-Range: " AT_850 "\r\n", true},
        {"If-Range: " AT_ASC "\r\n", true},
        {"If-Range: " AFTER "\r\n", false}, /* exactly, not "not after" */
        {"If-Range: " BEFORE "\r\n", false},
        {"If-Range: nonsense\r\n", false},
        {"If-Range: " TAG "\r\nIf-Range: " TAG "\r\n", false},
    };
    char tag[ETAG_BYTES_MAX + 1], fields[1024];
    struct http_head head;
    struct http_mark mark;

    (void)state;
    tag_of(&file, tag);
    http_mark_set(&mark, &file, NOW_S);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        head_of(&head, with_tag(cases[i].fields, tag, fields, sizeof(fields)));
        if (http_cond_range(&head, &mark) != cases[i].ranges)
            fail_msg("%s", fields);
    }
}

/* Last-Modified is never later than Date (8.8.2.1), and is omitted where no date can express it. */
static void test_date(void **state)
{
    static const struct {
        int64_t mtime_s, now_s, said_s;
        bool dated;
    } cases[] = {
        {100, 200, 100, true},
        {200, 200, 200, true},
        {201, 200, 200, true},
        {INT64_MAX, 200, 200, true},
        {-1, 200, -1, true},
        {-62135596800, 200, -62135596800, true},
        {-62135596801, 200, 0, false},
        {INT64_MIN, 200, 0, false},
        {253402300799, 253402300799, 253402300799, true},
        {253402300800, 253402300800, 0, false},
    };
    struct source s = file;
    struct http_mark mark;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        s.mtime_s = cases[i].mtime_s;
        http_mark_set(&mark, &s, cases[i].now_s);
        assert_int_equal(mark.dated, cases[i].dated);
        if (mark.dated)
            assert_true(mark.mtime_s == cases[i].said_s);
    }
}

/* The longest fields fit; a source without fields, or whose fields will change soon, has none. */
static void test_fields_written(void **state)
{
    char type[TYPE_BYTES_MAX + 1], out[HTTP_FIELDS_BYTES_MAX + 1];
    struct source s = {.coding = CODING_GZIP, .vary = true, .type = type, .size = UINT64_MAX,
                       .inode = UINT64_MAX, .mtime_s = -1, .mtime_ns = 999999999, .ctime_s = -1,
                       .ctime_ns = 999999999, .made = UINT64_MAX, .made_of = UINT64_MAX};
    size_t n;

    (void)state;
    memset(type, 't', sizeof(type) - 1);
    type[sizeof(type) - 1] = '\0';
    n = http_fields_write(out, &s, 0);
    assert_in_range(n, TYPE_BYTES_MAX + 200, HTTP_FIELDS_BYTES_MAX);
    out[n] = '\0';
    assert_string_equal(out + n - 24, "\r\nAccept-Ranges: bytes\r\n");
    assert_int_equal(http_fields_write(out, &s, -1), 0); /* changed in this very second */
    s.young = true;
    assert_int_equal(http_fields_write(out, &s, 0), 0); /* the tag will not stay weak */
    s.young = false;
    s.kind = SOURCE_MADE;
    assert_int_equal(http_fields_write(out, &s, 0), 0);
    s.kind = SOURCE_REDIRECT;
    assert_int_equal(http_fields_write(out, &s, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tag),
        cmocka_unit_test(test_tag_of_what_was_made),
        cmocka_unit_test(test_made),
        cmocka_unit_test(test_if_range_of_codings),
        cmocka_unit_test(test_tag_tells_every_change),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_without_validators),
        cmocka_unit_test(test_if_range),
        cmocka_unit_test(test_if_range_date),
        cmocka_unit_test(test_young),
        cmocka_unit_test(test_date),
        cmocka_unit_test(test_fields_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
