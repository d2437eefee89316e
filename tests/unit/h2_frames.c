/* SPDX-License-Identifier: MIT */
/* h2_frames.c - what frames cost, which parts are under way, and that a cut changes neither. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "../../server/h2_frames.h"

enum { START = 1000, BYTES_MAX = 1 << 16, PREFACED = H2_PREFACE_BYTES };
enum { END_STREAM = 1, END_HEADERS = 4 };

static char bytes[BYTES_MAX];
static size_t len;
static struct h2_frames f;

/* Follows n bytes, which may be of several frames of DATA. */
static enum h2_code code_of(const char *from, size_t n, uint64_t now_ms)
{
    for (size_t at = 0; at < n && f.code == H2_FINE;)
        at += h2_frames_follow(&f, from + at, n - at, now_ms);
    return f.code;
}

static void add(unsigned type, unsigned flags, size_t n)
{
    char head[9] = {(char)(n >> 16), (char)(n >> 8), (char)n, (char)type, (char)flags};

    assert_true(len + 9 + n <= BYTES_MAX);
    memcpy(bytes + len, head, 9);
    memset(bytes + len + 9, 'x', n);
    len += 9 + n;
}

static int begin(void **state)
{
    (void)state;
    len = 0;
    h2_frames_begin(&f, START);
    assert_int_equal(code_of(bytes, PREFACED, START), H2_FINE);
    return 0;
}

static bool follow(uint64_t now_ms)
{
    bool fine = code_of(bytes, len, now_ms) == H2_FINE;

    len = 0;
    return fine;
}

static int cost(unsigned type, unsigned flags, size_t n)
{
    int before = f.credit;

    add(type, flags, n);
    assert_true(follow(START));
    return before - f.credit;
}

static void what_each_costs(void **state)
{
    (void)state;
    assert_int_equal(cost(H2_PING, 0, 8), 1);
    assert_int_equal(cost(H2_SETTINGS, 0, 0), 1);
    assert_int_equal(cost(H2_WINDOW_UPDATE, 0, 4), 1);
    assert_int_equal(cost(0x77, 0, 100), 1);
    assert_int_equal(cost(H2_HEADERS, END_HEADERS, 20), H2_COST_REQUEST);
    assert_int_equal(cost(H2_RST_STREAM, 0, 4), H2_COST_RESET);
    assert_int_equal(cost(H2_DATA, 0, 1), 0);
    assert_int_equal(cost(H2_DATA, 0, 0), 1);
    assert_int_equal(cost(H2_DATA, END_STREAM, 0), 0);
}

static void the_credit_on_both_sides(void **state)
{
    (void)state;
    for (unsigned i = 0; i < H2_CREDIT; i++)
        add(H2_PING, 0, 8);
    assert_true(follow(START));
    h2_frames_earn(&f, 1);
    add(H2_PING, 0, 8);
    assert_true(follow(START));
    add(H2_PING, 0, 8);
    assert_false(follow(START));
}

static void no_more_is_earned_than_there_was(void **state)
{
    (void)state;
    h2_frames_earn(&f, H2_EARN_ANSWER);
    assert_int_equal(f.credit, H2_CREDIT);
    assert_true(h2_frames_pay(&f, H2_CREDIT));
    assert_false(h2_frames_pay(&f, 1));
}

static void continuations_on_both_sides(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        add(H2_HEADERS, 0, 5);
        for (unsigned i = 1; i < H2_CONTINUATIONS_MAX; i++)
            add(H2_CONTINUATION, 0, 5);
        add(H2_CONTINUATION, END_HEADERS, 5);
        assert_true(follow(START));
        assert_false(h2_frames_partial(&f));
    }
    add(H2_HEADERS, 0, 5);
    for (unsigned i = 0; i < H2_CONTINUATIONS_MAX; i++)
        add(H2_CONTINUATION, 0, 0);
    assert_true(follow(START));
    assert_true(h2_frames_partial(&f));
    add(H2_CONTINUATION, 0, 0);
    assert_false(follow(START));
}

/* The caller judges at the head of DATA, before anything behind it is looked at. */
static void stops_behind_a_head_of_data(void **state)
{
    (void)state;
    add(H2_PING, 0, 8);
    add(H2_DATA, 0, 300);
    bytes[17 + 8] = 7;
    add(H2_DATA, END_STREAM, 0);
    bytes[17 + 9 + 300 + 8] = 9;
    add(H2_PING, 0, 8);
    assert_int_equal(h2_frames_follow(&f, bytes, len, START), 17 + 9);
    assert_int_equal(f.data, 7);
    assert_int_equal(h2_frames_follow(&f, bytes + 26, len - 26, START), 300 + 9);
    assert_int_equal(f.data, 9);
    assert_int_equal(h2_frames_follow(&f, bytes + 335, len - 335, START), 17);
    assert_int_equal(f.data, 0);
}

static void parts(void **state)
{
    (void)state;
    h2_frames_begin(&f, START);
    assert_true(h2_frames_partial(&f)); /* the preface */
    assert_int_equal(code_of(bytes, PREFACED - 1, START + 1), H2_FINE);
    assert_true(h2_frames_partial(&f));
    assert_int_equal(f.begun_ms, START);
    assert_int_equal(code_of(bytes, 1, START + 2), H2_FINE);
    assert_false(h2_frames_partial(&f));

    add(H2_PING, 0, 8);
    len--;
    assert_true(follow(START + 3));
    assert_true(h2_frames_partial(&f));
    assert_int_equal(f.begun_ms, START + 3);
    assert_int_equal(code_of("x", 1, START + 4), H2_FINE);
    assert_false(h2_frames_partial(&f));

    add(H2_DATA, 0, 100); /* a body has a time of its own */
    len -= 50;
    assert_true(follow(START + 5));
    assert_false(h2_frames_partial(&f));
    assert_int_equal(code_of(bytes, 50, START + 6), H2_FINE);
    assert_int_equal(code_of(bytes, 1, START + 7), H2_FINE); /* of the next head */
    assert_true(h2_frames_partial(&f));
    assert_int_equal(f.begun_ms, START + 7);
}

static void a_block_is_one_part(void **state)
{
    (void)state;
    add(H2_HEADERS, 0, 5);
    assert_true(follow(START + 1));
    add(H2_CONTINUATION, 0, 5);
    assert_true(follow(START + 2));
    assert_true(h2_frames_partial(&f));
    assert_int_equal(f.begun_ms, START + 1);
    add(H2_CONTINUATION, END_HEADERS, 5); /* and another begins at once */
    add(H2_HEADERS, 0, 5);
    assert_true(follow(START + 3));
    assert_true(h2_frames_partial(&f));
    assert_int_equal(f.begun_ms, START + 3);
}

static void priorities_that_mean_nothing(void **state)
{
    (void)state;
    for (unsigned cut = 0; cut <= 14; cut++) {
        char frame[] = "\0\0\5\2\0\0\0\0\7\x80\0\0\7x"; /* on itself, exclusively */

        (void)begin(state);
        assert_int_equal(code_of(frame, cut, START),
                         cut < 13 ? H2_FINE : H2_PROTOCOL_ERROR);
        if (cut < 13)
            assert_int_equal(code_of(frame + cut, 14 - cut, START), H2_PROTOCOL_ERROR);
        (void)begin(state);
        frame[12] = 5; /* on another */
        assert_int_equal(code_of(frame, 14, START), H2_FINE);
        frame[8] = 0; /* of none */
        assert_int_equal(code_of(frame, 14, START), H2_PROTOCOL_ERROR);
    }
}

static void cut_anywhere(void **state)
{
    struct h2_frames whole;

    (void)state;
    add(H2_SETTINGS, 0, 6);
    add(H2_HEADERS, 0, 7);
    add(H2_CONTINUATION, END_HEADERS, 3);
    add(H2_DATA, 0, 300);
    add(H2_PING, 0, 8);
    add(H2_HEADERS, END_HEADERS, 70000 & 0xff);
    assert_int_equal(code_of(bytes, len, START), H2_FINE);
    whole = f;
    for (size_t cut = 0; cut <= len; cut++) {
        h2_frames_begin(&f, START);
        assert_int_equal(code_of(bytes, PREFACED, START), H2_FINE);
        assert_int_equal(code_of(bytes, cut, START), H2_FINE);
        assert_int_equal(code_of(bytes + cut, len - cut, START), H2_FINE);
        assert_int_equal(f.credit, whole.credit);
        assert_int_equal(h2_frames_partial(&f), h2_frames_partial(&whole));
        assert_int_equal(f.left, whole.left);
    }
}

#define TEST(f) cmocka_unit_test_setup(f, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_each_costs),
        TEST(the_credit_on_both_sides),
        TEST(no_more_is_earned_than_there_was),
        TEST(continuations_on_both_sides),
        TEST(stops_behind_a_head_of_data),
        TEST(parts),
        TEST(a_block_is_one_part),
        TEST(priorities_that_mean_nothing),
        TEST(cut_anywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
