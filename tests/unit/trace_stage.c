/* SPDX-License-Identifier: MIT */
/* Stages add up, whichever are missing; a missing stage is not zero; busy is busy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "../../tools/trace/stage.c"

static void test_all_known(void **state)
{
    struct request r = {.at = {100, 95, 100, 103, 110, 150, 151, 153, 154, 160, 190, 500},
                        .opened = 80};
    struct stages s;
    uint64_t sum = 0;

    (void)state;
    stages_of(&r, &s);
    for (unsigned i = 0; i < STAGES; i++) {
        assert_int_equal(s.state[i], STAGE_KNOWN);
        sum += s.took_ns[i];
    }
    assert_int_equal(sum, 415);
    assert_int_equal(s.total_ns, 415);
    assert_int_equal(s.took_ns[STAGE_ACCEPTED], 15);
    assert_int_equal(s.took_ns[STAGE_ARRIVED], 0); /* the client's time is in no stage */
    assert_int_equal(s.took_ns[STAGE_FOUND], 2);
    assert_true(s.server_known);
    assert_int_equal(s.server_ns, 90);
    assert_int_equal(s.took_ns[STAGE_READ], 40);
}

/* The sum of the stages of an answer's time, which must be the whole. */
static uint64_t answer_sum(const struct stages *s)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < STAGES; i++)
        sum += s->answer_ns[i];
    return sum;
}

/* Every choice of missing stages: the others add up to the whole. */
static void test_any_missing(void **state)
{
    static const uint64_t at[STAGES] = {7, 7, 20, 31, 44, 59, 63, 64, 70, 71, 86, 99};
    enum { OPENED = 3 };

    (void)state;
    for (unsigned there = 0; there < 1u << STAGES; there++) {
        struct request r = {.opened = OPENED};
        struct stages s;
        uint64_t sum = 0, first = 0, last = 0, wait = there >> STAGE_ACCEPTED & 1 ? 7 - OPENED : 0;

        for (unsigned i = 0; i < STAGES; i++) {
            r.at[i] = there >> i & 1 ? at[i] : 0;
            if (i == STAGE_ACCEPTED)
                continue;
            last = r.at[i] ? r.at[i] : last;
            first = first ? first : r.at[i];
        }
        stages_of(&r, &s);
        for (unsigned i = 0; i < STAGES; i++) {
            bool none = i == STAGE_COMPRESSED && there >> STAGE_PARSED & 1;

            assert_int_equal(s.state[i], there >> i & 1 ? STAGE_KNOWN
                                         : none         ? STAGE_NONE
                                                        : STAGE_MISSING);
            sum += s.took_ns[i];
        }
        assert_int_equal(sum, last - first + wait);
        assert_int_equal(s.total_ns, last - first + wait);
        assert_int_equal(s.server_known, r.at[STAGE_HEAD] && r.at[STAGE_DONE]);
        assert_int_equal(answer_sum(&s), s.server_ns);
    }
}

static void test_busy_is_not_missing(void **state)
{
    struct request r = {.at = {[STAGE_ARRIVED] = 100, [STAGE_HEAD] = 100, [STAGE_READ] = 150,
                               [STAGE_OUT] = 160, [STAGE_DONE] = 190},
                        .busy = true};
    struct stages s;

    (void)state;
    stages_of(&r, &s);
    assert_int_equal(s.state[STAGE_WOKEN], STAGE_BUSY);
    assert_int_equal(s.state[STAGE_RUNNING], STAGE_BUSY);
    assert_int_equal(s.state[STAGE_ACKED], STAGE_MISSING);
    assert_int_equal(s.took_ns[STAGE_READ], 50);
}

/* An answer may leave before the whole head was read: a refusal, or one from inside the kernel.
 * Then the time of reading is unknown; the sum stays the same. */
static void test_out_of_order_is_missing(void **state)
{
    struct request r = {.at = {[STAGE_ARRIVED] = 100, [STAGE_HEAD] = 100, [STAGE_READ] = 170,
                               [STAGE_OUT] = 160, [STAGE_DONE] = 190, [STAGE_ACKED] = 200}};
    struct stages s;
    uint64_t sum = 0;

    (void)state;
    stages_of(&r, &s);
    assert_int_equal(s.state[STAGE_READ], STAGE_MISSING);
    assert_int_equal(s.took_ns[STAGE_OUT], 60);
    for (unsigned i = 0; i < STAGES; i++)
        sum += s.took_ns[i];
    assert_int_equal(sum, 100);
}

/* Only the first request waits to be accepted. */
static void test_not_the_first(void **state)
{
    struct request r = {.at = {[STAGE_ARRIVED] = 100, [STAGE_ACCEPTED] = 90, [STAGE_HEAD] = 101}};
    struct stages s;

    (void)state;
    stages_of(&r, &s);
    assert_int_equal(s.state[STAGE_ACCEPTED], STAGE_NONE);
    assert_int_equal(s.took_ns[STAGE_ACCEPTED], 0);
    r.opened = 95; /* accepted before it was opened: another connection's time */
    stages_of(&r, &s);
    assert_int_equal(s.state[STAGE_ACCEPTED], STAGE_MISSING);
    assert_int_equal(s.total_ns, 1);
}

/* The head came while the connection waited: later stages count from the accepting, the server's
 * time from the head's arrival. */
static void test_accepted_after_the_head(void **state)
{
    struct request r = {.at = {[STAGE_ARRIVED] = 110, [STAGE_ACCEPTED] = 150, [STAGE_HEAD] = 120,
                               [STAGE_WOKEN] = 130, [STAGE_RUNNING] = 149, [STAGE_READ] = 155,
                               [STAGE_OUT] = 160, [STAGE_DONE] = 170, [STAGE_ACKED] = 180},
                        .opened = 100};
    struct stages s;
    uint64_t sum = 0;

    (void)state;
    stages_of(&r, &s);
    assert_int_equal(s.took_ns[STAGE_ACCEPTED], 50);
    assert_int_equal(s.state[STAGE_HEAD], STAGE_KNOWN);
    assert_int_equal(s.state[STAGE_WOKEN], STAGE_BUSY);
    assert_int_equal(s.state[STAGE_RUNNING], STAGE_BUSY);
    assert_int_equal(s.took_ns[STAGE_READ], 5);
    assert_int_equal(s.server_ns, 50);
    assert_int_equal(s.answer_ns[STAGE_ACCEPTED], 30);
    assert_int_equal(answer_sum(&s), 50);
    for (unsigned i = 0; i < STAGES; i++)
        sum += s.took_ns[i];
    assert_int_equal(sum, 80);
    assert_int_equal(s.total_ns, 80);
    assert_int_equal(s.end_ns[STAGE_ACCEPTED], 150);
    assert_int_equal(s.end_ns[STAGE_READ], 155);
    r.opened = 125; /* the head came with the packet that ended the handshake */
    stages_of(&r, &s);
    assert_int_equal(s.took_ns[STAGE_ACCEPTED], 25);
    assert_int_equal(answer_sum(&s), 50);
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(stage_name(STAGE_ARRIVED), "arrived");
    assert_string_equal(stage_name(STAGE_ACKED), "acked");
}

/* The stage of the server that took longest: the acknowledgement is the client's. */
static void test_slowest(void **state)
{
    struct request r = {.at = {[STAGE_ARRIVED] = 100, [STAGE_HEAD] = 100, [STAGE_WOKEN] = 103,
                               [STAGE_RUNNING] = 110, [STAGE_READ] = 150, [STAGE_OUT] = 160,
                               [STAGE_DONE] = 190, [STAGE_ACKED] = 500}};
    struct request none = {.at = {[STAGE_ARRIVED] = 100}};
    struct stages s;

    (void)state;
    stages_of(&r, &s);
    assert_int_equal(stages_slowest(&s), STAGE_READ);
    r.at[STAGE_HEAD] = 0;
    r.at[STAGE_WOKEN] = 0;
    r.at[STAGE_RUNNING] = 0;
    r.at[STAGE_OUT] = 151;
    stages_of(&r, &s);
    assert_int_equal(stages_slowest(&s), STAGE_READ);
    r.at[STAGE_READ] = 0;
    stages_of(&r, &s);
    assert_int_equal(stages_slowest(&s), STAGE_OUT);
    stages_of(&none, &s);
    assert_int_equal(stages_slowest(&s), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_known),
        cmocka_unit_test(test_any_missing),
        cmocka_unit_test(test_busy_is_not_missing),
        cmocka_unit_test(test_out_of_order_is_missing),
        cmocka_unit_test(test_slowest),
        cmocka_unit_test(test_not_the_first),
        cmocka_unit_test(test_accepted_after_the_head),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
