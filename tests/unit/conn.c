/* SPDX-License-Identifier: MIT */
/* conn.c - the connection machine, driven by hand: answers, the bytes kept meanwhile, and what is
 * given back. */
#include "../rig.h"

/* --- The usual course ------------------------------------------------------------------------- */

/* shows D12 */
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
    assert_int_equal(r.fake->n.allocs, 1); /* a send queue, no input queue */
    assert_int_equal(conn_out(&r.c).count, 1);
    drain(&r);
    assert_out(&r, "ehello\n");
    assert_int_equal(r.c.want, CONN_RECV);
    assert_true(conn_idle(&r.c));
    assert_null(r.c.out);
    assert_null(r.c.in);
    assert_int_equal(r.c.sent, 7);
    assert_int_equal(r.c.requests, 1);
    assert_int_equal(r.fake->n.complete, 1);
    assert_int_equal(r.fake->body_bytes, 0);
    fake_balance(r.fake);
    rig_close(&r);
}

/* shows D06 */
static void a_split_message_waits_in_the_input_queue(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, &lines_proto);
    feed(&r, "ehel");
    assert_int_equal(r.c.want, CONN_RECV);
    assert_non_null(r.c.in);
    assert_null(r.c.out);
    assert_false(conn_idle(&r.c));
    feed(&r, "l");
    feed(&r, "o\n");
    assert_null(r.c.in);
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
        assert_true(conn_out(&r.c).count > OUT_SEGMENTS_MAX - 2 || !r.c.in); /* as many as fit */
        take(&r, SIZE_MAX);
    }
    assert_true(sends <= 100 / 3);
    assert_int_equal(r.c.want, CONN_RECV);
    assert_int_equal(r.out.len, want.len);
    assert_memory_equal(r.out.bytes, want.bytes, want.len);
    assert_int_equal(r.fake->n.allocs, 2); /* one input queue, one send queue for all of them */
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
    for (int i = 0; i < 16; i++) { /* twice what the send queue holds, in pieces of a receive */
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

/* --- Limits of the kept bytes ----------------------------------------------------------------- */

static void head_and_receive_fit_the_input_queue(void **state)
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

/* A line of n bytes with its end. */
static void add_line(struct text *in, size_t n)
{
    text_add(in, "e", 1);
    text_add(in, fake_bytes() + in->len, n - 2); /* no two lines alike */
    text_add(in, "\n", 1);
}

/* Long lines one after another, 16 KiB at a time: the input queue is used to its end and moves its
 * bytes, and an answer waits for room in bytes though there are segments left. */
static void a_full_input_queue_moves_and_a_full_send_queue_waits(void **state)
{
    struct text in = {0};
    struct rig r;
    size_t at, n;

    (void)state;
    rig_open(&r, &lines_proto);
    add_line(&in, 10100);
    add_line(&in, OUTQ_BYTES - REPLY_HEAD_BYTES_MAX - 10100 + 1); /* one byte too much */
    add_line(&in, 5000);
    add_line(&in, 9000);
    add_line(&in, 9000);
    conn_feed(&r.c, in.bytes, 10000, r.now);
    conn_feed(&r.c, in.bytes + 10000, RECV_BYTES_MAX, r.now);
    assert_int_equal(conn_out(&r.c).count, 2);
    assert_int_equal(take(&r, SIZE_MAX), OUTQ_BYTES - REPLY_HEAD_BYTES_MAX + 1);
    drain(&r);
    for (at = 10000 + RECV_BYTES_MAX; at < in.len; at += n) {
        n = in.len - at < RECV_BYTES_MAX ? in.len - at : RECV_BYTES_MAX;
        conn_feed(&r.c, in.bytes + at, n, r.now);
        drain(&r);
    }
    assert_int_equal(r.out.len, in.len);
    assert_memory_equal(r.out.bytes, in.bytes, in.len);
    text_free(&in);
    rig_close(&r);
}

static void a_send_queue_with_room_to_the_byte_takes_another(void **state)
{
    struct text in = {0};
    struct rig r;

    (void)state;
    rig_open(&r, &lines_proto);
    add_line(&in, 10100);
    add_line(&in, OUTQ_BYTES - REPLY_HEAD_BYTES_MAX - 10100);
    add_line(&in, 4000);
    conn_feed(&r.c, in.bytes, 10000, r.now);
    conn_feed(&r.c, in.bytes + 10000, in.len - 10000, r.now);
    assert_int_equal(conn_out(&r.c).count, 3);
    drain(&r);
    assert_int_equal(r.out.len, in.len);
    text_free(&in);
    rig_close(&r);
}

static size_t shown;

static long mute_input(struct conn *c, const char *bytes, size_t n)
{
    (void)c;
    (void)bytes;
    shown = n;
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

    rig_open(&r, &mute); /* the input queue filled to its last byte */
    conn_feed(&r.c, fake_bytes(), HEAD_BYTES_MAX, r.now);
    conn_feed(&r.c, fake_bytes(), RECV_BYTES_MAX, r.now);
    assert_int_equal(shown, INQ_BYTES);
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
    static const struct conn_proto count = {.name = "count", .input = count_input};
    struct rig r;

    (void)state;
    asked = 0;
    rig_open(&r, &count);
    feed(&r, "ea\neb");
    assert_int_equal(asked, 2);
    drain(&r); /* "eb" is in the input queue, and nothing is new */
    assert_int_equal(asked, 2);
    feed(&r, "\n");
    assert_int_equal(asked, 3);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_connection_is_small_and_empty),
        cmocka_unit_test(a_message_is_answered_and_buffers_go_back),
        cmocka_unit_test(a_split_message_waits_in_the_input_queue),
        cmocka_unit_test(short_sends_at_every_byte),
        cmocka_unit_test(a_hundred_pipelined),
        cmocka_unit_test(long_answers_leave_room_for_a_head),
        cmocka_unit_test(head_and_receive_fit_the_input_queue),
        cmocka_unit_test(a_full_input_queue_moves_and_a_full_send_queue_waits),
        cmocka_unit_test(a_send_queue_with_room_to_the_byte_takes_another),
        cmocka_unit_test(a_protocol_cannot_ask_for_ever),
        cmocka_unit_test(the_same_bytes_are_not_shown_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
