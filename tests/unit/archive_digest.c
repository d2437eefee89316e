/* SPDX-License-Identifier: MIT */
/* archive_digest.c - the digest of an archive has all of its bytes, in their order, and is not even
 * begun for a client that did not ask for it; one that fails ends the archive. */
#include "tree.h"
#include "../../server/digest.h"
#include "../../server/pack.h"

enum { LARGE = 300000 };

struct digest {
    enum http_digest kind;
};

/* Counts of the calls of the library, and the number of the call that fails; 0: none. */
static struct {
    unsigned opened, closed, adds, ends, fail_open, fail_add, fail_end;
    bool absent;
    char *bytes;
    size_t len;
} said;

bool __wrap_digest_can(enum http_digest kind);
struct digest *__wrap_digest_open(enum http_digest kind);
bool __wrap_digest_add(struct digest *d, const void *bytes, size_t n);
bool __wrap_digest_end(struct digest *d, char text[DIGEST_TEXT_BYTES]);
void __wrap_digest_close(struct digest *d);

bool __wrap_digest_can(enum http_digest kind)
{
    return kind && !said.absent;
}

struct digest *__wrap_digest_open(enum http_digest kind)
{
    struct digest *d;

    if (said.fail_open)
        return NULL;
    d = malloc(sizeof(*d));
    assert_non_null(d);
    d->kind = kind;
    said.opened++;
    return d;
}

bool __wrap_digest_add(struct digest *d, const void *bytes, size_t n)
{
    assert_non_null(d);
    said.adds++;
    said.bytes = realloc(said.bytes, said.len + n);
    assert_non_null(said.bytes);
    memcpy(said.bytes + said.len, bytes, n);
    said.len += n;
    return said.adds != said.fail_add;
}

bool __wrap_digest_end(struct digest *d, char text[DIGEST_TEXT_BYTES])
{
    said.ends++;
    snprintf(text, DIGEST_TEXT_BYTES, "kind %d", d->kind);
    return !said.fail_end;
}

void __wrap_digest_close(struct digest *d)
{
    said.closed += d != NULL;
    free(d);
}

static void forget(void)
{
    assert_int_equal(said.opened, said.closed);
    free(said.bytes);
    memset(&said, 0, sizeof(said));
}

static int set_up(void **state)
{
    struct site_options opt = usual;
    int err = tree_set_up(state);
    char text[LARGE + 1];

    memset(&said, 0, sizeof(said));
    for (unsigned i = 0; i < LARGE; i++)
        text[i] = (char)('a' + random() % 26);
    text[LARGE] = '\0';
    make_folder(*state, "top");
    make_file(*state, "top/large.txt", text);
    make_file(*state, "top/small", "small");
    opt.rules.archive = true;
    tree_open_site(*state, &opt);
    return err || !pack_can() ? -1 : 0;
}

static int tear_down(void **state)
{
    forget();
    return tree_tear_down(state);
}

static const char *const queries[] = {"archive=zip", "archive=tar", "archive=tar.gz"};
enum { QUERIES = sizeof(queries) / sizeof(queries[0]) };

static int begin(const struct tree *t, const char *query, enum http_digest digest,
                 struct source **source)
{
    struct http_ask a = ask_for("/top/", query);

    a.digest = (uint8_t)digest;
    return site_find(t->site, &a, true, source);
}

/* All bytes of it, or how it ended. */
static size_t read_all(struct source *s, char **body, size_t *len)
{
    size_t n, later = 0, cap = LARGE * 2;

    *len = 0;
    *body = malloc(cap);
    assert_non_null(*body);
    while ((n = s->next(s, *body + *len, CHUNK_BYTES_MAX)) != 0 && n != SOURCE_FAILED) {
        later += n == SOURCE_LATER;
        *len += n == SOURCE_LATER ? 0 : n;
        assert_true(later < 2 && *len + CHUNK_BYTES_MAX <= cap);
    }
    return n;
}

static void all_bytes(void **state)
{
    const struct tree *t = *state;

    for (unsigned i = 0; i < QUERIES; i++) {
        for (enum http_digest kind = DIGEST_NONE + 1; kind < DIGESTS; kind++) {
            char *body, expected[16];
            struct source *s;
            size_t len;

            assert_int_equal(begin(t, queries[i], kind, &s), 0);
            assert_string_equal(s->trailer, "Repr-Digest");
            assert_int_equal(read_all(s, &body, &len), 0);
            snprintf(expected, sizeof(expected), "kind %d", kind);
            assert_string_equal(s->trailer_value, expected);
            assert_int_equal(said.len, len);
            assert_memory_equal(said.bytes, body, len);
            assert_int_equal(said.opened, 1);
            assert_int_equal(said.ends, 1);
            site_release(t->site, s);
            free(body);
            forget();
        }
    }
}

/* There is no digest for a client that takes none, for HEAD, or where none can be made. */
static void nothing_unasked(void **state)
{
    const struct tree *t = *state;

    for (unsigned i = 0; i < QUERIES; i++) {
        struct http_ask head = ask_for("/top/", queries[i]);
        struct source *s;
        size_t len;
        char *body;

        for (unsigned absent = 0; absent < 2; absent++) {
            said.absent = absent;
            assert_int_equal(begin(t, queries[i], absent ? DIGEST_SHA256 : DIGEST_NONE, &s), 0);
            assert_null(s->trailer);
            assert_int_equal(read_all(s, &body, &len), 0);
            assert_in_range(len, 1000, 2 * LARGE);
            site_release(t->site, s);
            free(body);
        }
        said.absent = false;
        head.head = true;
        head.digest = DIGEST_SHA512;
        assert_int_equal(site_find(t->site, &head, true, &s), 0);
        assert_string_equal(s->trailer, "Repr-Digest");
        site_release(t->site, s);
        assert_int_equal(said.opened + said.adds + said.ends, 0);
    }
}

/* Half of an archive: the connection has ended. */
static void given_up(void **state)
{
    const struct tree *t = *state;
    char buf[CHUNK_BYTES_MAX];
    struct source *s;

    assert_int_equal(begin(t, "archive=tar", DIGEST_SHA256, &s), 0);
    while (said.len < LARGE / 4)
        (void)s->next(s, buf, sizeof(buf));
    site_release(t->site, s);
    assert_int_equal(said.closed, 1);
    assert_int_equal(said.ends, 0);
}

/* An archive whose digest fails is cut off, wherever that happens. */
static void failures(void **state)
{
    const struct tree *t = *state;

    for (unsigned i = 0; i < QUERIES; i++) {
        unsigned at = 1;
        struct source *s;
        bool failed;
        size_t len;
        char *body;
        int err;

        do {
            said.fail_add = at++;
            err = begin(t, queries[i], DIGEST_SHA256, &s);
            failed = err;
            if (!err) {
                failed = read_all(s, &body, &len) == SOURCE_FAILED;
                site_release(t->site, s);
                free(body);
            }
            assert_true(!err || err == -EIO);
            assert_int_equal(failed, said.adds >= said.fail_add);
            forget();
        } while (failed);
        assert_true(at > 4);
        said.fail_end = 1;
        assert_int_equal(begin(t, queries[i], DIGEST_SHA256, &s), 0);
        assert_int_equal(read_all(s, &body, &len), SOURCE_FAILED);
        site_release(t->site, s);
        free(body);
        forget();
        said.fail_open = 1;
        assert_int_equal(begin(t, queries[i], DIGEST_SHA256, &s), -EAGAIN); /* 503 */
        forget();
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_bytes),
        TEST(nothing_unasked),
        TEST(given_up),
        TEST(failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
