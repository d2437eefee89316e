/* SPDX-License-Identifier: MIT */
/* The connection machine, driven by hand: what it wants, until when, and what it gives back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "../lines.h"

struct rig {
    struct fake *fake;
    struct conn c;
    struct text out;
    uint64_t now;
};

static void rig_open(struct rig *r, const struct conn_proto *proto)
{
    *r = (struct rig){.fake = fake_open(), .now = 1000};
    conn_init(&r->c, proto, &r->fake->host, r->now);
}

static void rig_close(struct rig *r)
{
    conn_fini(&r->c);
    assert_int_equal(r->c.want, CONN_CLOSE);
    fake_close(r->fake);
    text_free(&r->out);
}

static void feed(struct rig *r, const char *text)
{
    conn_feed(&r->c, text, strlen(text), r->now);
}

/* Take up to n bytes of what is shown. */
static size_t take(struct rig *r, size_t n)
{
    struct conn_out out = conn_out(&r->c);
    size_t taken = 0, part;

    for (unsigned i = 0; i < out.count && taken < n; i++) {
        const struct segment *s = &out.seg[i];

        assert_true(s->bytes || i + 1 == out.count); /* a file range only last */
        part = s->len < n - taken ? (size_t)s->len : n - taken;
        text_add(&r->out, s->bytes ? s->bytes : fake_bytes() + s->off, part);
        taken += part;
    }
    conn_sent(&r->c, taken, r->now);
    return taken;
}

/* Let everything out. */
static void drain(struct rig *r)
{
    while (r->c.want == CONN_SEND)
        take(r, SIZE_MAX);
}

static void assert_out(const struct rig *r, const char *text)
{
    assert_int_equal(r->out.len, strlen(text));
    assert_memory_equal(r->out.bytes, text, r->out.len);
}

static bool overdue_at(struct rig *r, uint64_t ms)
{
    r->now = ms;
    return conn_overdue(&r->c, r->c.sent, ms);
}

/* --- The usual -------------------------------------------------------------------------------- */

static void a_new_connection_is_small_and_empty(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, &lines_proto);
    assert_true(sizeof(struct conn) <= 80);
    assert_int_equal(r.c.want, CONN_RECV);
    assert_int_equal(r.c.deadline_ms, 1000 + 5000);
    assert_true(conn_idle(&r.c));
    assert_int_equal(conn_out(&r.c).count, 0);
    rig_close(&r);
}

static void a_message_is_answered_and_buffers_go_back(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, &lines_proto);
    feed(&r, "ehello\n");
    assert_int_equal(r.c.want, CONN_SEND);
    assert_false(conn_idle(&r.c));
    assert_int_equal(r.fake->n.allocs, 1); /* an outbox, no stash */
    assert_int_equal(conn_out(&r.c).count, 1);
    drain(&r);
    assert_out(&r, "ehello\n");
    assert_int_equal(r.c.want, CONN_RECV);
    assert_true(conn_idle(&r.c));
    assert_null(r.c.out);
    assert_null(r.c.stash);
    assert_int_equal(r.c.sent, 7);
    assert_int_equal(r.c.requests, 1);
    assert_int_equal(r.fake->n.complete, 1);
    assert_int_equal(r.fake->body_bytes, 0);
    fake_balance(r.fake);
    rig_close(&r);
}

static void a_split_message_waits_in_the_stash(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, &lines_proto);
    feed(&r, "ehel");
    assert_int_equal(r.c.want, CONN_RECV);
    assert_non_null(r.c.stash);
    assert_null(r.c.out);
    assert_false(conn_idle(&r.c));
    feed(&r, "l");
    feed(&r, "o\n");
    assert_null(r.c.stash);
    drain(&r);
    assert_out(&r, "ehello\n");
    rig_close(&r);
}

static void short_sends_at_every_byte(void **state)
{
    struct rig r;
    struct text want = {0};
    const char *in = "eone\np40\nf33\nr30\nm3\nb5\nabcdee\nx3\nxyzw9\np0\nf0\nr2\nm0\n";

    (void)state;
    lines_model(&want, in, strlen(in));
    for (size_t n = 1; n < 64; n++) {
        rig_open(&r, &lines_proto);
        feed(&r, in);
        while (r.c.want == CONN_SEND || r.c.want == CONN_WAIT) {
            if (r.c.want == CONN_SEND) {
                take(&r, n);
            } else {
                r.fake->job_done = true;
                conn_resume(&r.c, r.now);
            }
        }
        assert_int_equal(r.out.len, want.len);
        assert_memory_equal(r.out.bytes, want.bytes, want.len);
        assert_int_equal(r.c.sent, want.len);
        assert_int_equal(r.fake->n.answers, 13);
        assert_int_equal(r.fake->n.complete, 13);
        /* sources: 40 + 33 + 30 + 9 + 2, "range\n" six times, three pieces of eight bytes */
        assert_int_equal(r.fake->body_bytes, 114 + 36 + 24);
        assert_true(conn_idle(&r.c));
        rig_close(&r);
    }
    text_free(&want);
}

static void a_hundred_pipelined(void **state)
{
    struct rig r;
    struct text in = {0}, want = {0};
    char line[32];
    unsigned sends = 0;

    (void)state;
    for (int i = 0; i < 100; i++)
        text_add(&in, line, (size_t)snprintf(line, sizeof(line), i % 2 ? "e%d\n" : "p%d\n", i));
    lines_model(&want, in.bytes, in.len);
    rig_open(&r, &lines_proto);
    conn_feed(&r.c, in.bytes, in.len, r.now);
    for (; r.c.want == CONN_SEND; sends++) {
        assert_true(conn_out(&r.c).count <= OUT_SEGMENTS_MAX);
        assert_true(conn_out(&r.c).count > OUT_SEGMENTS_MAX - 2 || !r.c.stash); /* as many as fit */
        take(&r, SIZE_MAX);
    }
    assert_true(sends <= 100 / 3);
    assert_int_equal(r.c.want, CONN_RECV);
    assert_int_equal(r.out.len, want.len);
    assert_memory_equal(r.out.bytes, want.bytes, want.len);
    assert_int_equal(r.fake->n.allocs, 2); /* one stash, one outbox for all of them */
    text_free(&in);
    text_free(&want);
    rig_close(&r);
}

static void long_answers_leave_room_for_a_head(void **state)
{
    struct rig r;
    struct text in = {0};

    (void)state;
    rig_open(&r, &lines_proto);
    for (int i = 0; i < 16; i++) { /* twice what the outbox holds, in pieces of a receive */
        text_add(&in, "e", 1);
        text_add(&in, fake_bytes(), 4094);
        text_add(&in, "\n", 1);
    }
    for (size_t at = 0; at < in.len; at += RECV_BYTES_MAX) {
        conn_feed(&r.c, in.bytes + at, RECV_BYTES_MAX, r.now);
        drain(&r);
    }
    assert_int_equal(r.out.len, in.len);
    assert_memory_equal(r.out.bytes, in.bytes, in.len);
    text_free(&in);
    rig_close(&r);
}

/* --- Limits of what is kept ------------------------------------------------------------------- */

static void head_and_receive_fit_the_stash(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, &lines_proto);
    feed(&r, "eone\ne");
    conn_sent(&r.c, 5, r.now);
    conn_feed(&r.c, fake_bytes(), HEAD_BYTES_MAX - 2, r.now); /* the longest partial line */
    assert_int_equal(r.c.want, CONN_RECV);
    conn_feed(&r.c, fake_bytes(), RECV_BYTES_MAX, r.now); /* no line end: refused by the protocol */
    drain(&r);
    assert_out(&r, "!\n");
    assert_int_equal(r.c.want, CONN_LINGER);
    rig_close(&r);

    rig_open(&r, &lines_proto);
    conn_feed(&r.c, fake_bytes(), HEAD_BYTES_MAX - 1, r.now);
    feed(&r, "\nelast\n");
    drain(&r);
    assert_out(&r, "?\n");
    rig_close(&r);
}

static long mute_input(struct conn *c, const char *bytes, size_t n)
{
    (void)c;
    (void)bytes;
    (void)n;
    return 0;
}

static void a_protocol_cannot_ask_for_ever(void **state)
{
    static const struct conn_proto mute = {.name = "mute", .input = mute_input};
    struct rig r;

    (void)state;
    rig_open(&r, &mute);
    conn_feed(&r.c, fake_bytes(), HEAD_BYTES_MAX, r.now);
    assert_int_equal(r.c.want, CONN_RECV);
    conn_feed(&r.c, fake_bytes(), 1, r.now);
    assert_int_equal(r.c.want, CONN_CLOSE);
    rig_close(&r);
}

static unsigned asked;

static long count_input(struct conn *c, const char *bytes, size_t n)
{
    asked++;
    return lines_input(c, bytes, n);
}

static void the_same_bytes_are_not_shown_twice(void **state)
{
    static const struct conn_proto count = {"count", count_input, NULL, NULL, NULL};
    struct rig r;

    (void)state;
    asked = 0;
    rig_open(&r, &count);
    feed(&r, "ea\neb");
    assert_int_equal(asked, 2);
    drain(&r); /* "eb" is in the stash, and nothing is new */
    assert_int_equal(asked, 2);
    feed(&r, "\n");
    assert_int_equal(asked, 3);
    rig_close(&r);
}

/* --- Ends ------------------------------------------------------------------------------------- */

static void the_end_of_the_stream(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, &lines_proto); /* at once */
    conn_feed(&r.c, NULL, 0, r.now);
    assert_int_equal(r.c.want, CONN_CLOSE);
    rig_close(&r);

    rig_open(&r, &lines_proto); /* half-closed with a partial message: the protocol has a say */
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
    assert_null(r.c.stash);
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

/* --- No memory -------------------------------------------------------------------------------- */

static void no_memory_closes(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, &lines_proto); /* no outbox */
    r.fake->fail_alloc = 1;
    feed(&r, "ea\n");
    assert_int_equal(r.c.want, CONN_CLOSE);
    rig_close(&r);

    rig_open(&r, &lines_proto); /* no stash */
    r.fake->fail_alloc = 1;
    feed(&r, "ea");
    assert_int_equal(r.c.want, CONN_CLOSE);
    rig_close(&r);

    rig_open(&r, &lines_proto); /* no stash for what follows: what was answered goes out first */
    r.fake->fail_alloc = 2;
    feed(&r, "ea\neb");
    assert_int_equal(r.c.want, CONN_SEND);
    drain(&r);
    assert_out(&r, "ea\n");
    assert_int_equal(r.c.want, CONN_LINGER);
    rig_close(&r);

    rig_open(&r, &lines_proto); /* no stash for a message that waits */
    r.fake->fail_alloc = 2;
    feed(&r, "w5\n");
    assert_int_equal(r.c.want, CONN_CLOSE);
    rig_close(&r);

    rig_open(&r, &lines_proto); /* no outbox for a message from the stash */
    r.fake->fail_alloc = 2;
    feed(&r, "ea");
    feed(&r, "\neb\n");
    assert_int_equal(r.c.want, CONN_CLOSE);
    rig_close(&r);

    rig_open(&r, &lines_proto); /* no outbox at the end of the stream */
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
    conn_resume(&r.c, r.now); /* still sending: it is noted */
    assert_int_equal(r.c.want, CONN_SEND);
    drain(&r);
    assert_out(&r, "ea\n+w3\nABCeb\n");
    rig_close(&r);

    rig_open(&r, &lines_proto); /* ... and dies before it asked for the result */
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
    rig_open(&r, &lines_proto); /* at the end of a body, which is kept meanwhile */
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
        cmocka_unit_test(a_new_connection_is_small_and_empty),
        cmocka_unit_test(a_message_is_answered_and_buffers_go_back),
        cmocka_unit_test(a_split_message_waits_in_the_stash),
        cmocka_unit_test(short_sends_at_every_byte),
        cmocka_unit_test(a_hundred_pipelined),
        cmocka_unit_test(long_answers_leave_room_for_a_head),
        cmocka_unit_test(head_and_receive_fit_the_stash),
        cmocka_unit_test(a_protocol_cannot_ask_for_ever),
        cmocka_unit_test(the_same_bytes_are_not_shown_twice),
        cmocka_unit_test(the_end_of_the_stream),
        cmocka_unit_test(linger_until_the_peer_ends),
        cmocka_unit_test(linger_has_limits),
        cmocka_unit_test(nothing_was_said_nothing_to_linger_for),
        cmocka_unit_test(abort_gives_everything_back),
        cmocka_unit_test(unsent_answers_are_incomplete),
        cmocka_unit_test(no_memory_closes),
        cmocka_unit_test(what_was_answered_goes_out_before_the_wait),
        cmocka_unit_test(the_host_may_be_faster_than_the_peer),
        cmocka_unit_test(a_wait_is_forgotten_when_the_connection_dies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
