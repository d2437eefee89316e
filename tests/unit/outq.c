/* SPDX-License-Identifier: MIT */
/* outq.c - an answer on its way out: which pieces it has, and which bytes count as its
 * body. */
#include "../rig.h"

/* "+p26\n" and the like. */
enum { LEAD_26 = 5 };

static struct segment shown(const struct rig *r, unsigned i)
{
    struct conn_out out = conn_out(&r->c);

    assert_true(i < out.count);
    return out.seg[i];
}

static void a_short_body_leaves_with_its_head(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, &lines_proto);
    feed(&r, "p26\n");
    assert_int_equal(conn_out(&r.c).count, 1);
    assert_int_equal(shown(&r, 0).len, LEAD_26 + 26);
    assert_int_equal(r.fake->n.releases, 1); /* the source is not held while it is sent */
    drain(&r);
    assert_out(&r, "+p26\nABCDEFGHIJKLMNOPQRSTUVWXYZ");
    assert_int_equal(r.fake->body_bytes, 26);
    rig_close(&r);
}

/* An answer is sent by two calls and then cut off: the head never counts as a part of the body. */
static void a_cut_counts_the_body_alone(void **state)
{
    struct rig r;

    (void)state;
    for (size_t n = 1; n <= LEAD_26 + 26; n++) {
        rig_open(&r, &lines_proto);
        feed(&r, "p26\n");
        if (n > 1)
            take(&r, n / 2);
        take(&r, n - (n > 1 ? n / 2 : 0));
        conn_fini(&r.c);
        assert_int_equal(r.fake->body_bytes, n > LEAD_26 ? n - LEAD_26 : 0);
        assert_int_equal(r.fake->n.complete, n == LEAD_26 + 26);
        rig_close(&r);
    }
}

static void a_long_body_stays_where_it_lies(void **state)
{
    char line[16];
    struct rig r;

    (void)state;
    for (unsigned more = 0; more < 2; more++) {
        rig_open(&r, &lines_proto);
        snprintf(line, sizeof(line), "p%u\n", JOINED_BYTES_MAX + more);
        feed(&r, line);
        assert_int_equal(conn_out(&r.c).count, 1 + more);
        assert_int_equal(r.fake->n.releases, 1 - more);
        if (more)
            assert_ptr_equal(shown(&r, 1).bytes, fake_bytes());
        drain(&r);
        assert_int_equal(r.fake->body_bytes, JOINED_BYTES_MAX + more);
        assert_int_equal(r.fake->n.releases, 1);
        rig_close(&r);
    }
}

static void a_file_is_not_copied(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, &lines_proto);
    feed(&r, "f26\n");
    assert_int_equal(conn_out(&r.c).count, 2);
    assert_null(shown(&r, 1).bytes);
    drain(&r);
    assert_int_equal(r.fake->body_bytes, 26);
    rig_close(&r);
}

/* Bodies are copied only while room for another head remains: they never make an answer wait. */
static void bodies_do_not_take_the_place_of_heads(void **state)
{
    const unsigned answers = OUT_SEGMENTS_MAX / 2;
    struct text in = {0};
    char line[16];
    struct rig r;
    unsigned joined;

    (void)state;
    rig_open(&r, &lines_proto);
    snprintf(line, sizeof(line), "p%u\n", JOINED_BYTES_MAX);
    for (unsigned i = 0; i < answers; i++)
        text_add(&in, line, strlen(line));
    conn_feed(&r.c, in.bytes, in.len, r.now);
    joined = r.fake->n.releases;
    assert_true(joined >= 2);
    assert_true(joined <= (OUTQ_BYTES - REPLY_HEAD_BYTES_MAX) / JOINED_BYTES_MAX);
    assert_int_equal(r.fake->n.answers, answers);
    drain(&r);
    assert_int_equal(r.fake->n.complete, answers);
    assert_int_equal(r.fake->body_bytes, answers * JOINED_BYTES_MAX);
    text_free(&in);
    rig_close(&r);
}

/* As many answers as pipelining clients usually ask for, with real heads, leave in one send. */
static void sixteen_short_answers_leave_at_once(void **state)
{
    const unsigned answers = 16, body = 1024 + 280;
    struct text in = {0};
    char line[16];
    struct rig r;

    (void)state;
    rig_open(&r, &lines_proto);
    snprintf(line, sizeof(line), "p%u\n", body);
    for (unsigned i = 0; i < answers; i++)
        text_add(&in, line, strlen(line));
    conn_feed(&r.c, in.bytes, in.len, r.now);
    assert_int_equal(r.fake->n.releases, answers);
    assert_int_equal(conn_out(&r.c).count, answers);
    take(&r, SIZE_MAX);
    assert_int_equal(r.fake->n.complete, answers);
    assert_true(conn_idle(&r.c));
    text_free(&in);
    rig_close(&r);
}

/* Output that a protocol writes itself: a head and a body, for each byte of input. */
static long pair_input(struct conn *c, const char *bytes, size_t n)
{
    (void)bytes;
    (void)n;
    if (!conn_room(c))
        return 0;
    lines_say(c, "head", 4, false);
    lines_say(c, "of ", 3, true);
    lines_say(c, "a body", 6, true);
    conn_put_end(c, lines_note(c));
    return 1;
}

static void written_bodies_count_from_their_first_byte(void **state)
{
    static const struct conn_proto pair = {.name = "pair", .input = pair_input};
    struct rig r;

    (void)state;
    rig_open(&r, &pair);
    feed(&r, "12");
    assert_int_equal(conn_out(&r.c).count, 2); /* one for each answer: each has its own end */
    take(&r, 3);
    take(&r, 2);
    conn_fini(&r.c);
    assert_int_equal(r.fake->body_bytes, 1);
    assert_int_equal(r.fake->n.complete, 0);
    rig_close(&r);

    rig_open(&r, &pair);
    feed(&r, "12");
    take(&r, 13 + 4 + 2);
    conn_fini(&r.c);
    assert_out(&r, "headof a bodyheadof");
    assert_int_equal(r.fake->body_bytes, 9 + 2);
    assert_int_equal(r.fake->n.complete, 1);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_body_leaves_with_its_head),
        cmocka_unit_test(a_cut_counts_the_body_alone),
        cmocka_unit_test(a_long_body_stays_where_it_lies),
        cmocka_unit_test(a_file_is_not_copied),
        cmocka_unit_test(bodies_do_not_take_the_place_of_heads),
        cmocka_unit_test(sixteen_short_answers_leave_at_once),
        cmocka_unit_test(written_bodies_count_from_their_first_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
