/* SPDX-License-Identifier: MIT */
/* offload_slices.c - listings that the helper thread goes on making after their first fetch. */
#include "offload.h"

static struct source *begin(struct desk *b, unsigned conn, const char *path)
{
    struct source *s = NULL;
    char byte;

    ask_made(b, conn, path);
    assert_int_equal(ask(b, &b->session[conn].conn, path, &s), 0);
    /* The head is sent before anything else is done. */
    assert_int_equal(s->next(s, &byte, 1), SOURCE_LATER);
    return s;
}

static void goes_on(void **state)
{
    struct desk *b = *state;
    struct source *s = begin(b, 0, "/long3/");
    char byte = 0;

    assert_int_equal(the_site.begun, 1);
    assert_int_equal(s->next(s, &byte, 1), SOURCE_LATER); /* now the rest is requested */
    wait_begun(2);
    assert_int_equal(s->next(s, &byte, 1), SOURCE_LATER);
    give_turns(3);
    assert_ptr_equal(wait_done(b), &b->session[0].conn);
    assert_int_equal(s->next(s, &byte, 1), 1);
    assert_int_equal(byte, 'b');
    assert_null(offload_done(b->offload));
    offload_release(b->offload, s);
    assert_int_equal(the_site.released, 1);
}

static void refilled(void **state)
{
    struct desk *b = *state;
    struct source *s = begin(b, 0, "/refill/");
    char byte;

    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(s->next(s, &byte, 1), SOURCE_LATER);
        give_turns(1);
        if (i % 2)
            assert_ptr_equal(wait_done(b), &b->session[0].conn);
        else /* or it is found before it is reported */
            while (s->next(s, &byte, 1) == SOURCE_LATER)
                continue;
        if (i % 2)
            assert_int_equal(s->next(s, &byte, 1), 1);
    }
    offload_release(b->offload, s);
}

static void fails_on_the_way(void **state)
{
    struct desk *b = *state;
    struct source *s = begin(b, 0, "/long9/");
    char byte;

    the_site.error = -EIO;
    assert_int_equal(s->next(s, &byte, 1), SOURCE_LATER);
    give_turns(1);
    assert_ptr_equal(wait_done(b), &b->session[0].conn);
    assert_int_equal(s->next(s, &byte, 1), SOURCE_FAILED);
    offload_release(b->offload, s);
}

/* Listings are released while one waits, one runs, and one has nothing to do. */
static void released_at_each_moment(void **state)
{
    struct desk *b = *state;
    struct source *s[3];
    char byte;

    for (unsigned i = 0; i < 3; i++)
        s[i] = begin(b, i, "/long9/");
    assert_int_equal(s[0]->next(s[0], &byte, 1), SOURCE_LATER);
    wait_begun(4);
    assert_int_equal(s[1]->next(s[1], &byte, 1), SOURCE_LATER);
    offload_release(b->offload, s[2]);
    offload_release(b->offload, s[1]);
    assert_int_equal(the_site.released, 2);
    offload_release(b->offload, s[0]);
    assert_int_equal(the_site.released, 2); /* the helper has it */
    give_turns(1);
    /* The first wake-up may be an old one: wait_done() leaves it when the job is done already. */
    do {
        wait_woken(b);
        assert_null(offload_done(b->offload));
    } while (the_site.released < 3);
    assert_int_equal(the_site.released, 3);
}

/* A first look goes before slices, the four oldest listings take turns at slices, and after sixteen
 * looks there is a slice. */
static void in_turns(void **state)
{
    struct desk *b = *state;
    struct source *s[6], *fetched;
    char name[] = "/long9a/", byte;

    for (unsigned i = 0; i < 6; i++) {
        name[6] = (char)('a' + i);
        s[i] = begin(b, i, name);
    }
    the_site.orders = 0;
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(s[i]->next(s[i], &byte, 1), SOURCE_LATER);
    wait_begun(7);
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(ask(b, &b->session[10 + i].conn, "/S/", &fetched), -EINPROGRESS);
    give_turns(50);
    wait_begun(57);
    /* The first slice was begun before the looks were requested. */
    assert_memory_equal(the_site.order + 1, "SSSSSSSSSSSSSSSS", 16);
    assert_true(strchr("abcd", the_site.order[17]) != NULL);
    assert_memory_equal(the_site.order + 18, "SSSSSSSSSSSSSSSS", 16);
    assert_true(strchr("abcd", the_site.order[34]) != NULL);
    assert_memory_equal(the_site.order + 35, "SSSSSSSS", 8);
    for (unsigned i = 43; i < 50; i++) {
        assert_true(strchr("abcd", the_site.order[i]) != NULL);
        assert_int_not_equal(the_site.order[i], the_site.order[i - 1]);
    }
    for (unsigned i = 0; i < 6; i++)
        offload_release(b->offload, s[i]);
}

/* First looks and refills do not block each other, and a refill that finds nothing blocks no
 * other. */
static void looks_and_refills_in_turn(void **state)
{
    enum { REFILLS = 6, LOOKS = 20 };
    struct desk *b = *state;
    struct source *s[REFILLS], *fetched;
    char name[] = "/refill9/", refills[REFILLS + 1] = "", byte;
    const char *order = the_site.order + 1;

    for (unsigned i = 0; i < REFILLS; i++) {
        name[7] = "9bcdef"[i];
        s[i] = begin(b, i, name);
    }
    the_site.orders = 0;
    assert_int_equal(ask(b, &b->session[10].conn, "/S/", &fetched), -EINPROGRESS);
    wait_begun(REFILLS + 1); /* the helper has it, and nothing else waits */
    for (unsigned i = 0; i < REFILLS; i++)
        assert_int_equal(s[i]->next(s[i], &byte, 1), SOURCE_LATER);
    for (unsigned i = 1; i <= LOOKS; i++)
        assert_int_equal(ask(b, &b->session[10 + i].conn, "/S/", &fetched), -EINPROGRESS);
    give_turns(1 + 2 * REFILLS);
    wait_begun(REFILLS + 1 + 2 * REFILLS + 1);
    for (unsigned i = 0; i < REFILLS; i++) {
        const char *two = order + (size_t)2 * i;

        assert_true((two[0] == 'S') != (two[1] == 'S'));
        refills[i] = two[0] == 'S' ? two[1] : two[0];
    }
    assert_string_equal(refills, "9bcdef");
    for (unsigned i = 0; i < REFILLS; i++)
        offload_release(b->offload, s[i]);
}

/* LONGS wait or run.  One more is refused, a refill is not; when one ends, another is accepted. */
static void long_ones_are_bounded(void **state)
{
    struct desk *b = *state;
    struct source *s[LONGS], *more = NULL;
    char byte;

    for (unsigned i = 0; i < LONGS; i++)
        s[i] = begin(b, i, "/long9/");
    for (unsigned i = 0; i < LONGS; i++)
        assert_int_equal(s[i]->next(s[i], &byte, 1), SOURCE_LATER);
    assert_int_equal(ask(b, &b->session[LONGS].conn, "/long9/", &more), -EINPROGRESS);
    assert_int_equal(ask(b, &b->session[LONGS + 1].conn, "/refill/", &more), -EINPROGRESS);
    give_turns(3); /* the slice that has begun, and the looks */
    assert_ptr_equal(wait_done(b), &b->session[LONGS].conn);
    assert_ptr_equal(wait_done(b), &b->session[LONGS + 1].conn);
    assert_int_equal(ask(b, &b->session[LONGS].conn, "/long9/", &more), -EAGAIN);
    assert_null(more);
    assert_int_equal(the_site.released, 1);
    assert_int_equal(ask(b, &b->session[LONGS + 1].conn, "/refill/", &more), 0);
    offload_release(b->offload, more);
    for (unsigned i = 0; i < LONGS; i++)
        offload_release(b->offload, s[i]);
    give_turns(1); /* the helper may be in a slice of one of them */
    more = begin(b, LONGS, "/long9/");
    offload_release(b->offload, more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OFFLOAD_TEST(goes_on),
        OFFLOAD_TEST(refilled),
        OFFLOAD_TEST(fails_on_the_way),
        OFFLOAD_TEST(released_at_each_moment),
        OFFLOAD_TEST(in_turns),
        OFFLOAD_TEST(looks_and_refills_in_turn),
        OFFLOAD_TEST(long_ones_are_bounded),
    };

    alarm(300); /* a lost wake-up fails instead of hanging */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
