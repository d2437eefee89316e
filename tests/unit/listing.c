/* SPDX-License-Identifier: MIT */
/* listing.c - a folder as text, from entries given here: order, filter, escapes, and cuts
 * anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "../../core/listing.h"
#include "json.h"

static struct slice text(const char *s)
{
    return (struct slice){s, strlen(s)};
}

/* --- Requested views -------------------------------------------------------------------------- */

static void views(void **state)
{
    static const struct {
        const char *query;
        enum listing_sort sort;
        bool descending;
        const char *filter;
    } rows[] = {
        {"", LISTING_BY_NAME, false, ""},
        {"sort=name", LISTING_BY_NAME, false, ""},
        {"sort=size&order=desc", LISTING_BY_SIZE, true, ""},
        {"order=desc&sort=time", LISTING_BY_TIME, true, ""},
        {"sort=time&order=asc", LISTING_BY_TIME, false, ""},
        {"sort=SIZE&order=DESC", LISTING_BY_NAME, false, ""},
        {"sort=size&sort=name", LISTING_BY_NAME, false, ""},
        {"order=desc&order=asc", LISTING_BY_NAME, false, ""},
        {"filter=abc", LISTING_BY_NAME, false, "abc"},
        {"filter=a+b%20c%2b", LISTING_BY_NAME, false, "a b c+"},
        {"filter=%", LISTING_BY_NAME, false, "%"},
        {"filter=%4", LISTING_BY_NAME, false, "%4"},
        {"filter=%zz%4A", LISTING_BY_NAME, false, "%zzJ"},
        {"filter=a&filter=", LISTING_BY_NAME, false, ""},
        {"filter=a=b", LISTING_BY_NAME, false, "a=b"},
        {"&&x&=&y=z&filter", LISTING_BY_NAME, false, ""},
        {"xsort=size&sorted=1", LISTING_BY_NAME, false, ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct http_ask ask = {.query = text(rows[i].query)};
        struct listing_view v;

        listing_view_read(&v, &ask);
        assert_int_equal(v.format, LISTING_HTML);
        ask.json = i % 2;
        ask.text = !ask.json;
        listing_view_read(&v, &ask);
        assert_int_equal(v.format, ask.json ? LISTING_JSON : LISTING_TEXT);
        assert_int_equal(v.sort, rows[i].sort);
        assert_int_equal(v.descending, rows[i].descending);
        assert_int_equal(v.filter_len, strlen(rows[i].filter));
        assert_memory_equal(v.filter, rows[i].filter, v.filter_len);
    }
}

/* A filter of LISTING_FILTER_BYTES_MAX is taken whole; one byte more is cut. */
static void a_long_filter(void **state)
{
    char query[300] = "filter=";
    struct http_ask ask = {.query.ptr = query};
    struct listing_view v;

    (void)state;
    memset(query + 7, 'x', LISTING_FILTER_BYTES_MAX + 1);
    ask.query.len = 7 + LISTING_FILTER_BYTES_MAX;
    listing_view_read(&v, &ask);
    assert_int_equal(v.filter_len, LISTING_FILTER_BYTES_MAX);
    ask.query.len++;
    listing_view_read(&v, &ask);
    assert_int_equal(v.filter_len, LISTING_FILTER_BYTES_MAX);
    assert_false(listing_match(&v, text("x")));
}

static void filters(void **state)
{
    static const struct {
        const char *filter, *name;
        bool match;
    } rows[] = {
        {"", "", true}, {"", "a", true}, {"a", "", false}, {"a", "a", true}, {"A", "a", true},
        {"a", "A", true}, {"bc", "abcd", true}, {"cd", "abcd", true}, {"ab", "abcd", true},
        {"abcd", "abcd", true}, {"abcde", "abcd", false}, {"ac", "abcd", false},
        {"aab", "aaab", true},
        {".", "a.b", true}, {"[", "{", false}, {"\xc3\xa9", "caf\xc3\xa9", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct listing_view v = {.filter_len = strlen(rows[i].filter)};

        memcpy(v.filter, rows[i].filter, v.filter_len);
        assert_int_equal(listing_match(&v, text(rows[i].name)), rows[i].match);
    }
}

/* --- Order ------------------------------------------------------------------------------------ */

static int sign(int n)
{
    return (n > 0) - (n < 0);
}

static void names_in_order(void **state)
{
    static const char *const name[] = {
        "", "#", "-", "0", "00", "001", "01", "1", "1a", "2", "9", "010",
        "10", "10b", "11", "99999999999999999999", "100000000000000000000", "A", "a", "a1", "a1b",
        "A2", "a02", "a2", "a10", "B", "b", "file 2", "file 10", "File1", "file1", "file2.txt",
        "file10.txt", "file10.txt2", "z", "\xc3\xa9"};
    const struct listing_view view = {0}, down = {.descending = true};
    const size_t n = sizeof(name) / sizeof(name[0]);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            struct listing_entry a = {.name = text(name[i]), .kind = LISTING_FILE};
            struct listing_entry b = {.name = text(name[j]), .kind = LISTING_FILE};
            int wanted = (i > j) - (i < j);

            if (sign(listing_compare(&view, &a, &b)) != wanted)
                fail_msg("\"%s\" and \"%s\"", name[i], name[j]);
            if (i != j)
                assert_int_equal(sign(listing_compare(&down, &a, &b)), -wanted);
        }
    }
}

/* shows K16 */
static void columns_in_order(void **state)
{
    struct listing_entry e[] = {
        {.name = text("b"), .size = 9, .mtime_s = 5, .kind = LISTING_FOLDER},
        {.name = text("a"), .size = 1, .mtime_s = 7, .kind = LISTING_FOLDER},
        {.name = text("d"), .size = 2, .mtime_s = -3, .kind = LISTING_FILE},
        {.name = text("c"), .size = 2, .mtime_s = 9, .kind = LISTING_FILE},
        {.name = text("e"), .size = UINT64_MAX, .mtime_s = INT64_MIN, .kind = LISTING_FIFO},
    };
    static const struct {
        enum listing_sort sort;
        bool descending;
        const char *order;
    } rows[] = {
        {LISTING_BY_NAME, false, "abcde"}, {LISTING_BY_NAME, true, "baedc"},
        {LISTING_BY_SIZE, false, "abcde"}, {LISTING_BY_SIZE, true, "abecd"},
        {LISTING_BY_TIME, false, "baedc"}, {LISTING_BY_TIME, true, "abcde"},
    };
    const size_t n = sizeof(e) / sizeof(e[0]);

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct listing_view view = {.sort = rows[i].sort, .descending = rows[i].descending};
        char order[8] = "";

        for (size_t j = 0; j < n; j++) { /* an entry's place is the number of entries before it */
            size_t place = 0;
            for (size_t k = 0; k < n; k++)
                place += listing_compare(&view, &e[k], &e[j]) < 0;
            order[place] = e[j].name.ptr[0];
        }
        assert_string_equal(order, rows[i].order);
    }
}

enum { VARIANTS = 9 };

/* One of several entries with that name, some of them folders. */
static struct listing_entry variant(const char *name, unsigned i)
{
    return (struct listing_entry){.name = text(name),
                                  .kind = i % 3 ? LISTING_FILE : LISTING_FOLDER,
                                  .size = i < 3 ? 0 : UINT64_MAX / i,
                                  .mtime_s = (int64_t)i * 1000 - 4000};
}

/* How many of those pairs the key decides in the same way as listing_compare(). */
static unsigned decided_by_key(const struct listing_view *view, const char *one, const char *other)
{
    const size_t most = listing_start(text(one), text(other));
    unsigned decided = 0;

    for (unsigned i = 0; i < 2 * VARIANTS * VARIANTS; i++) {
        struct listing_entry a = variant(one, i / 2 % VARIANTS);
        struct listing_entry b = variant(other, i / 2 / VARIANTS);
        uint64_t k = listing_key(view, &a, i % 2 ? most : 0);
        uint64_t l = listing_key(view, &b, i % 2 ? most : 0);

        if (k != l && (k < l) != (listing_compare(view, &a, &b) < 0))
            fail_msg("\"%s\" and \"%s\", view %u", one, other, view->sort * 2 + view->descending);
        decided += k != l;
    }
    return decided;
}

/* shows K16 */
static void keys_agree(void **state)
{
    char most_digits[256], as_many[256];
    const char *const name[] = {
        "", "#", "0", "00", "1", "01", "001", "2", "10", "1a", "a", "A", "a1", "a01", "a10", "a2",
        "B", "z", "\xc3\xa9", "\xff", "file-0001.txt", "file-0002.txt", "file-0010.txt",
        "FILE-3.txt", "file-12345678901.txt", "file-12345678902.txt", "file-", "file-1", "file-1a",
        "file-99999999999999999999999", "file-1.5", "file-1.12", "a-very-long-name-1",
        "a-very-long-name-2", most_digits, as_many};
    const size_t n = sizeof(name) / sizeof(name[0]);
    unsigned decided = 0;

    (void)state;
    memset(most_digits, '1', sizeof(most_digits));
    memset(as_many, '1', sizeof(as_many));
    most_digits[255] = as_many[255] = '\0';
    as_many[100] = '2';
    for (size_t i = 0; i < 6 * n * n; i++) {
        const struct listing_view view = {.sort = i % 6 / 2, .descending = i & 1};

        decided += decided_by_key(&view, name[i / 6 % n], name[i / 6 / n]);
    }
    assert_true(decided > 500000);
}

static void common_starts(void **state)
{
    static const struct {
        const char *a, *b;
        size_t n;
    } rows[] = {
        {"", "", 0}, {"a", "", 0}, {"a", "a", 1}, {"a", "b", 0}, {"abc", "abd", 2}, {"a1", "a2", 1},
        {"a11", "a12", 1}, {"a1b", "a1c", 1}, {"12", "12", 0}, {"a12", "a12", 1},
        {"0123456789abcdefghi", "0123456789abcdefghj", 18}, {"abcdefgh", "abcdefgh", 8},
        {"abcdefghi", "abcdefgh", 8}, {"abcdefgh1", "abcdefgh2", 8}, {"A", "a", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(listing_start(text(rows[i].a), text(rows[i].b)), rows[i].n);
}

/* --- Whole listings --------------------------------------------------------------------------- */

struct crowd {
    unsigned n, next;
    char name[NAME_BYTES_MAX + 1];
};

/* Names that differ in length, with bytes that every format escapes. */
static bool next_of_crowd(void *ctx, struct listing_entry *e)
{
    struct crowd *c = ctx;
    size_t len = c->next * 37 % NAME_BYTES_MAX + 1;

    if (c->next == c->n)
        return false;
    for (size_t i = 0; i < len; i++)
        c->name[i] = "<&\"'\xff\n\x1bz%"[(c->next + i) % 9];
    memset(e, 0, sizeof(*e));
    e->name = (struct slice){c->name, len};
    e->kind = (uint8_t)(c->next % 6);
    e->link = c->next % 4 == 0;
    e->unknown = c->next % 11 == 0;
    e->size = (uint64_t)c->next << (c->next % 40);
    e->mtime_s = (int64_t)c->next * 86400;
    c->next++;
    return true;
}

struct result {
    char *bytes;
    size_t len;
    unsigned pieces;
};

static struct result list(const struct listing *proto, unsigned entries, size_t cap)
{
    struct crowd c = {.n = entries};
    struct listing l = *proto;
    struct result r = {malloc(1 << 22), 0, 0};
    char *buf = malloc(cap);

    assert_non_null(r.bytes);
    assert_non_null(buf);
    l.entry = next_of_crowd;
    l.ctx = &c;
    for (;;) {
        size_t n = listing_next(&l, buf, cap);

        if (n == 0)
            break;
        assert_true(n <= cap && r.len + n < 1 << 22);
        memcpy(r.bytes + r.len, buf, n);
        r.len += n;
        r.pieces++;
    }
    assert_int_equal(listing_next(&l, buf, cap), 0); /* the end stays the end */
    assert_int_equal(c.next, entries);
    free(buf);
    return r;
}

static void cuts_change_nothing(void **state)
{
    static const size_t caps[] = {CHUNK_BYTES_MAX, CHUNK_BYTES_MAX + 1, 10000, 65536, 1 << 21};
    char deep[PATH_BYTES_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(deep); i++)
        deep[i] = i % 2 ? '"' : '/';
    deep[sizeof(deep) - 1] = '/';
    for (unsigned kind = 0; kind < 6; kind++) {
        struct listing l = {.view.format = kind % 3, .path = text("/a/<b>/"),
            .streamed = kind >= 3, .readme = {deep, sizeof(deep)}, .readme_is_html = kind % 2};
        struct result whole;

        if (kind % 2)
            l.path = (struct slice){deep, sizeof(deep)};
        whole = list(&l, 500, 1 << 21);
        for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
            struct result r = list(&l, 500, caps[i]);

            assert_int_equal(r.len, whole.len);
            assert_memory_equal(r.bytes, whole.bytes, r.len);
            /* A chunk ends only when a row does not fit: on average half a row is lost. */
            assert_true(r.pieces >= whole.len / caps[i]);
            assert_true(r.pieces <= whole.len / (caps[i] * 2 / 3) + 2);
            free(r.bytes);
        }
        free(whole.bytes);
    }
}

static size_t count_of(const struct result *r, char c)
{
    size_t n = 0;

    for (size_t i = 0; i < r->len; i++)
        n += r->bytes[i] == c;
    return n;
}

static void json_is_strict(void **state)
{
    char path[PATH_BYTES_MAX];

    (void)state;
    assert_true(json_is_valid("{\"a\":[1,null,\"\\u00e9\"]}\n", 24)); /* the checker works */
    assert_false(json_is_valid("{\"a\":01}", 8));
    assert_false(json_is_valid("[1,]", 4));
    assert_false(json_is_valid("\"\xff\"", 3));
    assert_false(json_is_valid("\"\x01\"", 3));
    for (size_t i = 0; i < sizeof(path); i++)
        path[i] = (char)(i % 255 + 1);
    path[0] = path[sizeof(path) - 1] = '/';
    for (unsigned n = 0; n < 40; n++) {
        struct listing l = {.view.format = LISTING_JSON, .path = {path, sizeof(path)}};
        struct result r = list(&l, n, CHUNK_BYTES_MAX);

        assert_true(json_is_valid(r.bytes, r.len));
        free(r.bytes);
    }
}

static void text_has_a_line_for_each(void **state)
{
    struct listing l = {.view.format = LISTING_TEXT, .path = text("/")};
    struct result r = list(&l, 300, CHUNK_BYTES_MAX);

    (void)state;
    assert_int_equal(count_of(&r, '\n'), 300);
    assert_int_equal(count_of(&r, '\x1b'), 0);
    assert_int_equal(count_of(&r, '\xff'), 0);
    free(r.bytes);
    l.streamed = true;
    r = list(&l, 300, CHUNK_BYTES_MAX);
    assert_int_equal(count_of(&r, '\n'), 301);
    r.bytes[r.len] = '\0';
    assert_non_null(strstr(r.bytes, "# not sorted"));
    free(r.bytes);
}

static bool one_file(void *ctx, struct listing_entry *e)
{
    unsigned *left = ctx;

    if (*left == 0)
        return false;
    --*left;
    memset(e, 0, sizeof(*e));
    *e = (struct listing_entry){.name = text("a<b"), .size = 1234567, .mtime_s = 784111777,
        .kind = LISTING_FILE};
    return true;
}

static const char *page(struct listing *l, unsigned files)
{
    static char buf[1 << 16];

    l->entry = one_file;
    l->ctx = &files;
    buf[listing_next(l, buf, sizeof(buf) - 1)] = '\0';
    return buf;
}

static bool has(const char *html, const char *what)
{
    return strstr(html, what) != NULL;
}

static void pages_for_people(void **state)
{
    struct listing l = {.path = text("/a/b&c/"), .files = 1, .bytes = 1234567};
    const char *html = page(&l, 1);

    (void)state;
    assert_true(has(html, "<title>b&amp;c \xE2\x80\xB9 a \xE2\x80\xB9 /</title>"));
    assert_true(has(html, "<a href=\"./a%3Cb\"><bdi>a&lt;b</bdi></a>"));
    assert_true(has(html, "<td title=\"1,234,567 bytes\">1.2 MiB"));
    assert_true(has(html, "<time datetime=\"1994-11-06T08:49:37Z\">"
        "1994-11-06<span> 08:49</span></time>"));
    assert_true(has(html, "<a href=\"../\">Parent folder</a>"));
    assert_true(has(html, "<a href=\"../../\">")); /* home, two up */
    assert_true(has(html, "<li aria-current=\"page\"><bdi>b&amp;c</bdi>"));
    assert_true(has(html, "aria-sort=\"ascending\"><a rel=\"nofollow\" "
        "href=\"?sort=name&amp;order=desc\">"));
    assert_true(has(html, "href=\"?sort=size&amp;order=desc\">"));
    assert_true(has(html, "1 file, <span title=\"1,234,567 bytes\">1.2 MiB</span>"));
    assert_false(has(html, "This folder is empty"));

    l = (struct listing){.path = text("/"), .view = {.sort = LISTING_BY_SIZE, .descending = true}};
    html = page(&l, 0);
    assert_true(has(html, "<title>/</title>"));
    assert_false(has(html, "Parent folder"));
    assert_false(has(html, "href=\"../"));
    assert_true(has(html, "aria-sort=\"descending\"><a rel=\"nofollow\" "
        "href=\"?sort=size&amp;order=asc\">"));
    assert_true(has(html, "0 folders, 0 files"));
    assert_true(has(html, "This folder is empty."));

    l = (struct listing){.path = text("/"), .view = {.filter_len = 2, .filter = "\"&"}};
    html = page(&l, 0);
    assert_true(has(html, "value=\"&quot;&amp;\""));
    assert_true(has(html, "&amp;filter=%22%26"));
    assert_true(has(html, "No name contains"));

    l = (struct listing){.path = text("/"), .streamed = true};
    html = page(&l, 2);
    assert_true(has(html, "Too many entries"));
    assert_false(has(html, " aria-sort="));
    assert_true(has(html, "2 files, <span title=\"2,469,134 bytes\">2.4 MiB</span>"));
}

/* A deep path shows its top and the last folders above; one component more leaves one out. */
static void deep_paths(void **state)
{
    struct listing l = {.path = text("/1/2/3/4/5/6/7/8/")};
    const char *html = page(&l, 0);

    (void)state;
    assert_true(has(html, "<a href=\"../../../../../../../../\">"));
    assert_true(has(html, "<a href=\"../../../../../../../\"><bdi>1</bdi></a>"));
    assert_false(has(html, "\xE2\x80\xA6"));
    l = (struct listing){.path = text("/1/2/3/4/5/6/7/8/9/")};
    html = page(&l, 0);
    assert_true(has(html, "<li>\xE2\x80\xA6"));
    assert_false(has(html, "<bdi>1</bdi>"));
    assert_true(has(html, "<a href=\"../../../../../../../\"><bdi>2</bdi></a>"));
    assert_true(has(html, "<a href=\"../\"><bdi>8</bdi></a>"));
    assert_true(has(html, "page\"><bdi>9</bdi>"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views),
        cmocka_unit_test(a_long_filter),
        cmocka_unit_test(filters),
        cmocka_unit_test(names_in_order),
        cmocka_unit_test(columns_in_order),
        cmocka_unit_test(keys_agree),
        cmocka_unit_test(common_starts),
        cmocka_unit_test(cuts_change_nothing),
        cmocka_unit_test(json_is_strict),
        cmocka_unit_test(text_has_a_line_for_each),
        cmocka_unit_test(pages_for_people),
        cmocka_unit_test(deep_paths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
