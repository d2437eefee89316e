/* SPDX-License-Identifier: MIT */
/* time.c - slow peers and a clock that jumps: each connection ends in time, and no active
 * connection is ended. */
#include "talk.h"

enum { HEAD_MS = 5000, IDLE_MS = 15000, SEND_MS = 10000, PROGRESS = 1024 }; /* as in fake.h */

static struct world w;

/* A peer that falls silent waits for at most this long after its last act. */
static const uint64_t silence_ms = IDLE_MS;

static void silent_after_every_byte_of(const struct conn_proto *proto, uint64_t seed)
{
    struct talk t;
    struct text want;

    talk_open(&t, proto, seed, 6);
    for (size_t n = 0; n <= t.in.len; n += 1 + n / 500) {
        talk_world(&t, &w, n + 1);
        w.in_len = n;
        w.silent = true;
        w.pump.edge = n % 2;
        world_run(&w);
        check(w.now <= 1000 + silence_ms + 10, &t, n);
        talk_reference(proto, t.in.bytes, n, &want);
        check(text_begins(&want, &w.out), &t, n); /* the end of the stream may have been answered */
        check(w.out.len + 512 > want.len, &t, n); /* ... with no more than an error */
        text_free(&want);
        world_close(&w);
    }
    talk_close(&t);
}

static void silence(void **state)
{
    (void)state;
    for (uint64_t seed = 500; seed < 506; seed++) {
        silent_after_every_byte_of(&echo_proto, seed);
        silent_after_every_byte_of(&lines_proto, seed);
        silent_after_every_byte_of(&http_proto, seed);
    }
}

/* The peer takes n bytes and no more.  That lasts two windows at most, because the peer may have
 * made progress in the first one. */
static void stalled_at_every_byte_of(const struct conn_proto *proto, uint64_t seed)
{
    struct talk t;
    uint64_t end_ms;

    talk_open(&t, proto, seed, 6);
    for (size_t n = 0; n < t.want.len; n += 1 + n / 300) {
        talk_world(&t, &w, n + 1);
        w.stall_at = n;
        w.pump.edge = n % 2;
        world_run(&w);
        end_ms = 1000 + (n < PROGRESS ? 1 : 2) * SEND_MS;
        check(w.now <= end_ms, &t, n);
        check(w.out.len == n, &t, n);
        check(text_begins(&t.want, &w.out), &t, n);
        world_close(&w);
    }
    talk_close(&t);
}

static void stalls(void **state)
{
    (void)state;
    for (uint64_t seed = 600; seed < 606; seed++) {
        stalled_at_every_byte_of(&echo_proto, seed);
        stalled_at_every_byte_of(&lines_proto, seed);
        stalled_at_every_byte_of(&http_proto, seed);
    }
}

/* Feed one byte each drip_ms; w then holds the output and the time it took. */
static void drip(const struct conn_proto *proto, const char *in, uint32_t drip_ms)
{
    world_open(&w, proto, 1);
    w.in = in;
    w.in_len = strlen(in);
    w.recv_max = 1;
    w.drip_ms = drip_ms;
    world_run(&w);
}

static void a_dripped_head_has_one_deadline(void **state)
{
    static const char head[] = "GET /p5 HTTP/1.1\r\nHost: a\r\n\r\n";
    const uint32_t drip_ms = 500;

    (void)state;
    drip(&http_proto, head, drip_ms);
    assert_int_equal(w.out.len, 0);
    assert_in_range(w.now, 1000 + HEAD_MS, 1000 + HEAD_MS + 2 * drip_ms);
    world_close(&w);

    drip(&http_proto, head, HEAD_MS / (sizeof(head) + 1)); /* just quick enough */
    assert_true(w.out.len > 0);
    assert_memory_equal(w.out.bytes, "HTTP/1.1 200", 12);
    world_close(&w);

    drip(&lines_proto, "e0123456789\n", drip_ms);
    assert_int_equal(w.out.len, 0);
    world_close(&w);
}

static void a_dripped_body_must_move(void **state)
{
    struct text in = {0};

    (void)state;
    text_add(&in, "b5000\n", 6);
    text_add(&in, fake_bytes(), 5000);
    text_add(&in, "", 1);
    drip(&lines_proto, in.bytes, SEND_MS / PROGRESS - 1); /* above the minimum rate */
    assert_true(w.out.len > 6);
    world_close(&w);
    drip(&lines_proto, in.bytes, SEND_MS / PROGRESS + 1); /* below: less than PROGRESS a window */
    assert_int_equal(w.out.len, 0);
    assert_in_range(w.now, 1000 + SEND_MS, 1000 + SEND_MS + 200);
    world_close(&w);
    text_free(&in);
}

/* The peer takes `bytes` in each window. */
static void read_slowly(size_t bytes)
{
    static const char in[] = "f20000\n";
    enum conn_want want;

    world_open(&w, &lines_proto, 1);
    w.in = in;
    w.in_len = sizeof(in) - 1;
    w.silent = true;
    w.stall_at = 0;
    while ((want = conn_pump(&w.c, &w.pump, w.now)) == CONN_SEND) {
        w.stall_at += bytes;
        conn_pump(&w.c, &w.pump, w.now);
        w.now += SEND_MS;
        if (w.c.want == CONN_SEND && conn_overdue(&w.c, w.c.sent, w.now))
            conn_abort(&w.c);
    }
    conn_fini(&w.c);
    fake_balance(w.fake);
}

static void a_slow_reader_must_move(void **state)
{
    (void)state;
    read_slowly(PROGRESS);
    assert_int_equal(w.out.len, 8 + 20000);
    world_close(&w);
    read_slowly(PROGRESS - 1);
    assert_int_equal(w.out.len, PROGRESS - 1);
    world_close(&w);
}

/* A refused client that goes on sending is closed by volume, a silent one by time. */
static void lingering_ends(void **state)
{
    struct text in = {0};

    (void)state;
    text_add(&in, "c\n", 2);
    for (size_t n = 0; n < 2 * LINGER_BYTES_MAX; n += FAKE_BYTES_MAX / 8)
        text_add(&in, fake_bytes(), FAKE_BYTES_MAX / 8);
    world_open(&w, &lines_proto, 1);
    w.in = in.bytes;
    w.in_len = in.len;
    world_run(&w);
    assert_int_equal(w.now, 1000);
    assert_in_range(w.in_at, LINGER_BYTES_MAX, LINGER_BYTES_MAX + 3 * RECV_BYTES_MAX);
    world_close(&w);
    world_open(&w, &lines_proto, 1);
    w.in = in.bytes;
    w.in_len = 2;
    w.silent = true;
    world_run(&w);
    assert_int_equal(w.now, 1000 + LINGER_MS);
    world_close(&w);
    text_free(&in);
}

/* Everything together: random pauses between turns, up to beyond every deadline. */
static void the_clock_jumps(void **state)
{
    static const struct conn_proto *const protos[] = {&echo_proto, &lines_proto, &http_proto};
    struct talk t;
    unsigned whole = 0, cut = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        talk_open(&t, protos[seed % 3], seed, 8);
        talk_world(&t, &w, seed);
        w.recv_max = w.send_max = 500;
        w.again_percent = 20;
        w.step_ms = 1u << (seed % 16);
        world_run(&w);
        check(text_begins(&t.want, &w.out), &t, seed);
        if (text_same(&t.want, &w.out))
            whole++;
        else
            cut++;
        world_close(&w);
        talk_close(&t);
    }
    print_message("%u conversations came to their end, %u were cut by the clock\n", whole, cut);
    assert_true(whole > 30 && cut > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence),
        cmocka_unit_test(stalls),
        cmocka_unit_test(a_dripped_head_has_one_deadline),
        cmocka_unit_test(a_dripped_body_must_move),
        cmocka_unit_test(a_slow_reader_must_move),
        cmocka_unit_test(lingering_ends),
        cmocka_unit_test(the_clock_jumps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
