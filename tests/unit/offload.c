/* SPDX-License-Identifier: MIT */
/* offload.c - first looks on the helper thread: requested, fetched, forgotten, refused. */
#include "offload.h"

static void at_once(void **state)
{
    struct desk *b = *state;
    struct source *s = NULL;

    assert_int_equal(ask(b, &b->session[0].conn, "/now", &s), 0);
    assert_non_null(s);
    assert_null(offload_done(b->offload));
    assert_int_equal(the_site.begun, 0);
    cache_source_release(&the_site, s);
}

static void one_later(void **state)
{
    struct desk *b = *state;
    struct source *s = NULL;

    assert_int_equal(ask(b, &b->session[0].conn, "/list/", &s), -EINPROGRESS);
    wait_begun(1);
    assert_null(offload_done(b->offload));
    assert_int_equal(ask(b, &b->session[0].conn, "/list/", &s), -EINPROGRESS); /* still */
    assert_int_equal(ask(b, &b->session[1].conn, "/now", &s), 0); /* others go on */
    cache_source_release(&the_site, s);
    s = NULL;
    give_turns(1);
    assert_ptr_equal(wait_done(b), &b->session[0].conn);
    assert_null(offload_done(b->offload));
    assert_string_equal(the_site.last, "/list/q=1");
    assert_int_equal(ask(b, &b->session[0].conn, "/list/", &s), 0);
    assert_non_null(s);
    cache_source_release(&the_site, s);
    assert_int_equal(the_site.begun, 1);
    assert_int_equal(ask(b, &b->session[0].conn, "/list/", &s), -EINPROGRESS); /* a new job */
}

/* offload_asked() returns the first time (not 0) that was given for the job. */
static void asked_first(void **state)
{
    struct desk *b = *state;
    struct source *s = NULL;

    assert_int_equal(offload_asked(b->offload, &b->session[0].conn, 5), 0);
    assert_int_equal(ask(b, &b->session[0].conn, "/list/", &s), -EINPROGRESS);
    assert_int_equal(offload_asked(b->offload, &b->session[0].conn, 0), 0);
    assert_int_equal(offload_asked(b->offload, &b->session[0].conn, 5), 5);
    assert_int_equal(offload_asked(b->offload, &b->session[0].conn, 9), 5);
    assert_int_equal(offload_asked(b->offload, &b->session[1].conn, 9), 0);
    wait_begun(1);
    give_turns(1);
    assert_ptr_equal(wait_done(b), &b->session[0].conn);
    assert_int_equal(offload_asked(b->offload, &b->session[0].conn, 0), 5);
    assert_int_equal(ask(b, &b->session[0].conn, "/list/", &s), 0);
    assert_int_equal(offload_asked(b->offload, &b->session[0].conn, 9), 0);
    cache_source_release(&the_site, s);
}

static void errors_come_back(void **state)
{
    struct desk *b = *state;
    struct source *s = NULL;

    the_site.error = -EACCES;
    ask_made(b, 0, "/list/");
    assert_int_equal(ask(b, &b->session[0].conn, "/list/", &s), -EACCES);
    assert_null(s);
}

static void forgotten_while_it_waits(void **state)
{
    struct desk *b = *state;
    struct source *s = NULL;

    assert_int_equal(ask(b, &b->session[0].conn, "/a/", &s), -EINPROGRESS);
    wait_begun(1);
    assert_int_equal(ask(b, &b->session[1].conn, "/b/", &s), -EINPROGRESS);
    assert_int_equal(ask(b, &b->session[2].conn, "/c/", &s), -EINPROGRESS);
    assert_false(offload_forget(b->offload, &b->session[1].conn)); /* the helper never sees it */
    give_turns(10);
    assert_ptr_equal(wait_done(b), &b->session[0].conn);
    assert_ptr_equal(wait_done(b), &b->session[2].conn);
    assert_int_equal(the_site.begun, 2);
}

static void forgotten_while_it_runs(void **state)
{
    struct desk *b = *state;
    struct source *s = NULL;

    assert_int_equal(ask(b, &b->session[0].conn, "/a/", &s), -EINPROGRESS);
    wait_begun(1);
    assert_true(offload_forget(b->offload, &b->session[0].conn)); /* the helper is at it */
    /* A new connection in the same memory has the same address, and its own job. */
    assert_int_equal(ask(b, &b->session[0].conn, "/b/", &s), -EINPROGRESS);
    give_turns(1);
    wait_begun(2);
    assert_null(offload_done(b->offload));
    assert_int_equal(the_site.released, 1);
    give_turns(1);
    assert_ptr_equal(wait_done(b), &b->session[0].conn);
    assert_int_equal(ask(b, &b->session[0].conn, "/b/", &s), 0);
    cache_source_release(&the_site, s);
}

static void forgotten_when_done(void **state)
{
    struct desk *b = *state;
    struct source *s = NULL;

    give_turns(2);
    assert_int_equal(ask(b, &b->session[0].conn, "/a/", &s), -EINPROGRESS);
    wait_woken(b); /* made, not reported */
    assert_false(offload_forget(b->offload, &b->session[0].conn));
    assert_null(offload_done(b->offload));
    assert_int_equal(ask(b, &b->session[1].conn, "/a/", &s), -EINPROGRESS);
    assert_ptr_equal(wait_done(b), &b->session[1].conn); /* reported */
    offload_forget(b->offload, &b->session[1].conn);
    assert_null(offload_done(b->offload));
    assert_int_equal(the_site.released, 2);
    assert_false(offload_forget(b->offload, &b->session[1].conn)); /* the job no longer exists */
}

static void another_generation(void **state)
{
    struct desk *b = *state;
    struct source *s = NULL;

    ask_made(b, 0, "/a/");
    b->session[0].generation++;
    assert_int_equal(ask(b, &b->session[0].conn, "/a/", &s), -EINPROGRESS); /* not the old answer */
    wait_begun(2);
}

static void another_question(void **state)
{
    struct desk *b = *state;
    struct source *s = NULL;

    ask_made(b, 0, "/a/");
    ask_made(b, 0, "/b/");
    assert_string_equal(the_site.last, "/b/q=1");
    assert_int_equal(ask(b, &b->session[0].conn, "/b/", &s), 0);
    cache_source_release(&the_site, s);
}

/* JOBS_MAX jobs wait or run; one more is refused, and accepted when one has been fetched. */
static void the_queue_is_bounded(void **state)
{
    struct desk *b = *state;
    struct source *s = NULL;

    for (unsigned i = 0; i < JOBS_MAX; i++)
        assert_int_equal(ask(b, &b->session[i].conn, "/a/", &s), -EINPROGRESS);
    assert_int_equal(ask(b, &b->session[JOBS_MAX].conn, "/a/", &s), -EAGAIN);
    assert_int_equal(ask(b, &b->session[JOBS_MAX].conn, "/now", &s), 0);
    cache_source_release(&the_site, s);
    give_turns(1);
    assert_ptr_equal(wait_done(b), &b->session[0].conn);
    assert_int_equal(ask(b, &b->session[JOBS_MAX].conn, "/a/", &s), -EAGAIN); /* not fetched yet */
    assert_int_equal(ask(b, &b->session[0].conn, "/a/", &s), 0);
    cache_source_release(&the_site, s);
    assert_int_equal(ask(b, &b->session[JOBS_MAX].conn, "/a/", &s), -EINPROGRESS);
    assert_int_equal(ask(b, &b->session[JOBS_MAX + 1].conn, "/a/", &s), -EAGAIN);
    give_turns(JOBS_MAX);
    for (unsigned i = 1; i <= JOBS_MAX; i++) /* in the order they were asked */
        assert_ptr_equal(wait_done(b), &b->session[i].conn);
}

/* Closing waits for the running job and drops the rest: tear_down counts. */
static void closed_while_busy(void **state)
{
    struct desk *b = *state;
    struct source *s = NULL;

    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(ask(b, &b->session[i].conn, "/a/", &s), -EINPROGRESS);
    give_turns(2);
    assert_ptr_equal(wait_done(b), &b->session[0].conn);
    wait_begun(3);
}

/* One side asks, forgets and fetches as fast as the other makes answers. */
static void churn(void **state)
{
    struct desk *b = *state;
    unsigned fetched = 0, asked = 0;
    unsigned seed = 1;

    give_turns(100000);
    while (fetched < 2000) {
        struct session *one;
        struct source *s = NULL;
        struct conn *c;

        seed = seed * 1103515245 + 12345;
        one = &b->session[seed >> 16 & 15];
        c = &one->conn;
        if (seed >> 20 & 1) {
            asked += ask(b, c, "/a/", &s) == -EINPROGRESS;
            if (s)
                cache_source_release(&the_site, s);
            s = NULL;
        } else if (seed >> 21 & 1) {
            offload_forget(b->offload, c);
            one->generation += seed >> 22 & 1;
        }
        c = offload_done(b->offload);
        if (c && ask(b, c, "/a/", &s) == 0)
            fetched++;
        if (s)
            offload_release(b->offload, s);
        for (unsigned i = 0; asked % 64 == 63 && i < 16; i++)
            offload_forget(b->offload, &b->session[i].conn);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OFFLOAD_TEST(at_once),
        OFFLOAD_TEST(one_later),
        OFFLOAD_TEST(asked_first),
        OFFLOAD_TEST(errors_come_back),
        OFFLOAD_TEST(forgotten_while_it_waits),
        OFFLOAD_TEST(forgotten_while_it_runs),
        OFFLOAD_TEST(forgotten_when_done),
        OFFLOAD_TEST(another_generation),
        OFFLOAD_TEST(another_question),
        OFFLOAD_TEST(the_queue_is_bounded),
        OFFLOAD_TEST(closed_while_busy),
        OFFLOAD_TEST(churn),
    };

    alarm(300); /* a lost wake-up fails instead of hanging */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
