/* SPDX-License-Identifier: MIT */
/* conn_end.c - how a connection ends: end of stream, lingering, abort, no memory; and waiting for
 * the host. */
#include "../rig.h"

/* --- Ends ------------------------------------------------------------------------------------- */

static void the_end_of_the_stream(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, &lines_proto); /* at once */
    conn_feed(&r.c, NULL, 0, r.now);
    assert_int_equal(r.c.want, CONN_CLOSE);
    rig_close(&r);

    rig_open(&r, &lines_proto); /* half-closed with a partial message: the protocol answers */
    feed(&r, "ea\neb\necc");
    drain(&r);
    conn_feed(&r.c, NULL, 0, r.now);
    assert_int_equal(r.c.want, CONN_SEND);
    drain(&r);
    assert_out(&r, "ea\neb\n~3\n");
    assert_int_equal(r.c.want, CONN_CLOSE); /* nothing unread: no lingering */
    rig_close(&r);

    rig_open(&r, &lines_proto); /* in the middle of a body */
    feed(&r, "b10\nabc");
    conn_feed(&r.c, NULL, 0, r.now);
    assert_int_equal(r.c.want, CONN_CLOSE);
    rig_close(&r);

    rig_open(&r, &echo_proto); /* a protocol without end() */
    conn_feed(&r.c, NULL, 0, r.now);
    assert_int_equal(r.c.want, CONN_CLOSE);
    rig_close(&r);
}

static void linger_until_the_peer_ends(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, &lines_proto);
    feed(&r, "ea\nc\nenever\n");
    drain(&r);
    assert_out(&r, "ea\nc\n");
    assert_int_equal(r.c.want, CONN_LINGER);
    assert_null(r.c.in);
    assert_null(r.c.out);
    assert_false(conn_idle(&r.c));
    feed(&r, "more of it\n");
    assert_int_equal(r.c.want, CONN_LINGER);
    conn_feed(&r.c, NULL, 0, r.now);
    assert_int_equal(r.c.want, CONN_CLOSE);
    rig_close(&r);
}

static void linger_has_limits(void **state)
{
    struct rig r;
    size_t fed = 0;

    (void)state;
    rig_open(&r, &lines_proto);
    feed(&r, "p50000\n"); /* earlier answers are not part of it */
    drain(&r);
    feed(&r, "c\n");
    drain(&r);
    assert_int_equal(r.c.deadline_ms, r.now + LINGER_MS);
    for (; fed < LINGER_BYTES_MAX; fed += RECV_BYTES_MAX)
        conn_feed(&r.c, fake_bytes(), RECV_BYTES_MAX, r.now);
    assert_int_equal(r.c.want, CONN_LINGER);
    conn_feed(&r.c, fake_bytes(), 1, r.now);
    assert_int_equal(r.c.want, CONN_CLOSE);
    rig_close(&r);

    rig_open(&r, &lines_proto);
    feed(&r, "c\n");
    drain(&r);
    assert_false(overdue_at(&r, 1000 + LINGER_MS - 1));
    assert_true(overdue_at(&r, 1000 + LINGER_MS));
    rig_close(&r);
}

static void nothing_was_said_nothing_to_linger_for(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, &lines_proto);
    feed(&r, "q\nea\n");
    assert_int_equal(r.c.want, CONN_CLOSE);
    rig_close(&r);
}

static void abort_gives_everything_back(void **state)
{
    static const char *const in[] = {"", "ea", "ea\neb", "p100\nf100\n",
                                     "r90\n", "m9\n", "b100\nx", "w5\n"};
    struct rig r;

    (void)state;
    for (size_t i = 0; i < sizeof(in) / sizeof(*in); i++)
        for (size_t sends = 0; sends < 3; sends++) {
            rig_open(&r, &lines_proto);
            if (*in[i])
                feed(&r, in[i]);
            for (size_t k = 0; k < sends && r.c.want == CONN_SEND; k++)
                take(&r, 1);
            conn_abort(&r.c);
            assert_int_equal(r.c.want, CONN_CLOSE);
            assert_false(conn_unfinished(&r.c));
            assert_true(conn_overdue(&r.c, 0, r.c.deadline_ms));
            rig_close(&r);
        }
}

static void unsent_answers_are_incomplete(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, &lines_proto);
    feed(&r, "ea\np100\nm5\n");
    take(&r, 3 + 6 + 40); /* "ea\n", "+p100\n", 40 of the body */
    conn_fini(&r.c);
    assert_int_equal(r.fake->n.answers, 3);
    assert_int_equal(r.fake->n.answered, 3);
    assert_int_equal(r.fake->n.complete, 1);
    assert_int_equal(r.fake->body_bytes, 40);
    rig_close(&r);
}

static long body_input(struct conn *c, const char *bytes, size_t n)
{
    (void)bytes;
    conn_room(c);
    conn_in_body(c, true);
    return (long)n;
}

static void a_protocol_may_hold_nothing(void **state)
{
    static const struct conn_proto plain = {.name = "plain", .input = body_input};
    struct rig r;

    (void)state;
    rig_open(&r, &plain);
    feed(&r, "x");
    assert_non_null(r.c.out); /* for the state and the copy of the head */
    feed(&r, "y");
    rig_close(&r);
}

/* --- No memory -------------------------------------------------------------------------------- */

static void no_memory_closes(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, &lines_proto); /* no send queue */
    r.fake->fail_alloc = 1;
    feed(&r, "ea\n");
    assert_int_equal(r.c.want, CONN_CLOSE);
    rig_close(&r);

    rig_open(&r, &lines_proto); /* no input queue */
    r.fake->fail_alloc = 1;
    feed(&r, "ea");
    assert_int_equal(r.c.want, CONN_CLOSE);
    rig_close(&r);

    rig_open(&r, &lines_proto); /* no memory for later messages: earlier answers go out first */
    r.fake->fail_alloc = 2;
    feed(&r, "ea\neb");
    assert_int_equal(r.c.want, CONN_SEND);
    drain(&r);
    assert_out(&r, "ea\n");
    assert_int_equal(r.c.want, CONN_LINGER);
    rig_close(&r);

    rig_open(&r, &lines_proto); /* no input queue for a message that waits */
    r.fake->fail_alloc = 2;
    feed(&r, "w5\n");
    assert_int_equal(r.c.want, CONN_CLOSE);
    rig_close(&r);

    rig_open(&r, &lines_proto); /* no send queue for a message from the input queue */
    r.fake->fail_alloc = 2;
    feed(&r, "ea");
    feed(&r, "\neb\n");
    assert_int_equal(r.c.want, CONN_CLOSE);
    rig_close(&r);

    rig_open(&r, &lines_proto); /* no send queue at the end of the stream */
    r.fake->fail_alloc = 2;
    feed(&r, "ea");
    conn_feed(&r.c, NULL, 0, r.now);
    assert_int_equal(r.c.want, CONN_CLOSE);
    rig_close(&r);
}

/* --- Waiting for the host --------------------------------------------------------------------- */

static void what_was_answered_goes_out_before_the_wait(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, &lines_proto);
    feed(&r, "ea\nw3\neb\n");
    assert_int_equal(r.c.want, CONN_SEND);
    take(&r, 1);
    assert_int_equal(r.c.want, CONN_SEND);
    drain(&r);
    assert_out(&r, "ea\n");
    assert_int_equal(r.c.want, CONN_WAIT);
    assert_null(r.c.out);
    assert_false(conn_idle(&r.c));
    r.fake->job_done = true;
    conn_resume(&r.c, r.now);
    drain(&r);
    assert_out(&r, "ea\n+w3\nABCeb\n");
    assert_int_equal(r.fake->n.forgets, 0);
    assert_int_equal(r.c.want, CONN_RECV);
    rig_close(&r);
}

static void the_host_may_be_faster_than_the_peer(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, &lines_proto);
    feed(&r, "ea\nw3\neb\n");
    r.fake->job_done = true;
    conn_resume(&r.c, r.now); /* still sending: the call is recorded */
    assert_int_equal(r.c.want, CONN_SEND);
    drain(&r);
    assert_out(&r, "ea\n+w3\nABCeb\n");
    rig_close(&r);

    rig_open(&r, &lines_proto); /* ... and ends before it has asked for the result */
    feed(&r, "ea\nw3\neb\n");
    r.fake->job_done = true;
    conn_resume(&r.c, r.now);
    conn_fini(&r.c);
    assert_int_equal(r.fake->n.forgets, 1);
    rig_close(&r);
}

static void a_wait_is_forgotten_when_the_connection_dies(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, &lines_proto);
    feed(&r, "w3\n");
    assert_int_equal(r.c.want, CONN_WAIT);
    conn_abort(&r.c);
    assert_int_equal(r.fake->n.forgets, 0);
    conn_fini(&r.c);
    assert_int_equal(r.fake->n.forgets, 1);
    rig_close(&r);
    rig_open(&r, &lines_proto); /* at the end of a body, which is kept during the wait */
    feed(&r, "y3\nabcew\n");
    assert_int_equal(r.c.want, CONN_WAIT);
    assert_non_null(r.c.out);
    r.fake->job_done = true;
    conn_resume(&r.c, r.now);
    drain(&r);
    assert_out(&r, "y3 00017862\new\n");
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_the_stream),
        cmocka_unit_test(linger_until_the_peer_ends),
        cmocka_unit_test(linger_has_limits),
        cmocka_unit_test(nothing_was_said_nothing_to_linger_for),
        cmocka_unit_test(abort_gives_everything_back),
        cmocka_unit_test(unsent_answers_are_incomplete),
        cmocka_unit_test(a_protocol_may_hold_nothing),
        cmocka_unit_test(no_memory_closes),
        cmocka_unit_test(what_was_answered_goes_out_before_the_wait),
        cmocka_unit_test(the_host_may_be_faster_than_the_peer),
        cmocka_unit_test(a_wait_is_forgotten_when_the_connection_dies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
