/* SPDX-License-Identifier: MIT */
/* slices.c - listings that are made in slices: which are made at once, shared, or given up, and
 * that next() of a listing with a helper reads nothing.
 */
#include <sys/socket.h>
#include "tree.h"

enum { FIRST_NAMES = 1024 /* site_folder.c's; "." and ".." are two of them */ };

static char chunk[CHUNK_BYTES_MAX];

static void make_names(const struct tree *t, unsigned from, unsigned to)
{
    char name[32];

    for (unsigned i = from; i < to; i++) {
        snprintf(name, sizeof(name), "%05u", i);
        make_file(t, name, "");
    }
}

static struct source *ask(const struct tree *t, const char *query)
{
    struct http_ask a = ask_for("/", query);
    struct source *s;

    assert_int_equal(site_find(t->site, &a, true, &s), 0);
    return s;
}

/* Make the listing; return how many slices that took. */
static unsigned make(struct source *s)
{
    unsigned steps = 1;

    for (; site_listing_step(s) == -EINPROGRESS; steps++)
        assert_int_equal(s->next(s, chunk, sizeof(chunk)), SOURCE_LATER);
    assert_true(site_listing_ready(s));
    return steps;
}

static size_t no_next(struct source *source, char *buf, size_t cap)
{
    return site_listing_next(source, buf, cap);
}

static struct source *ask_helped(const struct tree *t, const char *query)
{
    struct source *s = ask(t, query);

    site_listing_help(s, (struct listing_help){no_next, NULL});
    return s;
}

static void a_short_one_is_made_at_once(void **state)
{
    struct tree *t = *state;
    struct source *s;

    make_names(t, 0, FIRST_NAMES - 2);
    s = ask(t, "");
    assert_true(site_listing_ready(s));
    assert_int_equal(site_listing_step(s), 0);
    site_release(t->site, s);
    make_names(t, FIRST_NAMES - 2, FIRST_NAMES - 1);
    s = ask(t, "");
    assert_false(site_listing_ready(s));
    assert_true(site_listing_long(s));
    assert_int_equal(s->next(s, chunk, sizeof(chunk)), SOURCE_LATER); /* the head goes first */
    assert_in_range(s->next(s, chunk, sizeof(chunk)), 1, sizeof(chunk));
    assert_true(site_listing_ready(s));
    site_release(t->site, s);
    s = ask(t, "filter=0000"); /* names are counted, not the shown entries */
    assert_false(site_listing_ready(s));
    site_release(t->site, s);
}

/* Listings that were requested before one began to read share its entries; a later one reads for
 * itself, and so does another view. */
static void one_reading_for_many(void **state)
{
    struct tree *t = *state;
    struct source *first, *same, *other, *late;
    size_t len;
    char *text;

    make_names(t, 0, 6000);
    first = ask_helped(t, "format=json");
    same = ask_helped(t, "format=text"); /* another form of the same entries */
    other = ask_helped(t, "order=desc");
    assert_int_equal(site_listing_step(first), -EINPROGRESS);
    late = ask_helped(t, "format=text");
    assert_true(make(first) > 1);
    make_names(t, 6000, 6001);
    assert_int_equal(make(same), 1);
    assert_true(make(other) > 1);
    assert_true(make(late) > 1);
    assert_int_equal(
        atomic_load(&t->site->shared->listings_bytes) / sizeof(struct listing_entry) / 6000, 3);
    site_release(t->site, first);
    text = body_of(t, same, &len);
    assert_int_equal(len % 6000, 0);
    free(text);
    text = body_of(t, late, &len);
    assert_non_null(strstr(text, "06000\n"));
    free(text);
    site_release(t->site, other);
}

static void a_client_that_has_gone(void **state)
{
    struct tree *t = *state;
    struct source *s[2];
    int pair[2];

    make_names(t, 0, 6000);
    for (int i = 0; i < 2; i++) {
        s[i] = i ? ask_helped(t, "") : ask(t, "");
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        site_listing_client(s[i], pair[0]);
        assert_int_equal(s[i]->next(s[i], chunk, sizeof(chunk)), SOURCE_LATER);
        assert_int_equal(shutdown(pair[1], SHUT_WR), 0); /* the client may still want its answer */
        assert_int_equal(site_listing_step(s[i]), -EINPROGRESS);
        assert_int_equal(site_listing_step(s[i]), -EINPROGRESS);
        close(pair[1]);
        assert_int_equal(site_listing_step(s[i]), -ECONNRESET);
        assert_int_equal(s[i]->next(s[i], chunk, sizeof(chunk)), SOURCE_FAILED);
        close(pair[0]);
        site_release(t->site, s[i]);
    }
}

/* Too long to be sorted: next() returns the names that a step has read, and reads nothing
 * itself. */
static void streamed_by_a_helper(void **state)
{
    struct tree *t = *state;
    struct source *s;
    unsigned steps = 0, rows = 0;
    size_t n;

    make_names(t, 0, 1000);
    tree_open_site(t, &(struct site_options){.rules.listing = true, .rules.entries_max = 20});
    s = ask_helped(t, "format=text");
    while ((n = s->next(s, chunk, sizeof(chunk))) > 0) {
        if (n != SOURCE_LATER) {
            for (size_t i = 0; i < n; i++)
                rows += chunk[i] == '\n';
            continue;
        }
        steps++;
        assert_false(site_listing_ready(s));
        assert_int_not_equal(site_listing_step(s), -EAGAIN);
        assert_true(rows <= steps * 256); /* STREAM_NAMES */
    }
    assert_int_equal(rows, 1001); /* and a line that says why they are not sorted */
    assert_true(steps > 4);
    site_release(t->site, s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(a_short_one_is_made_at_once),
        TREE_TEST(one_reading_for_many),
        TREE_TEST(a_client_that_has_gone),
        TREE_TEST(streamed_by_a_helper),
    };

    alarm(300);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
