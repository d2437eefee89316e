/* SPDX-License-Identifier: MIT */
/* Events become requests by their sequence numbers: wherever heads are cut, however many are in a
 * packet, and whatever is sent again or not seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "../../tools/trace/flow.c"
#include "../../tools/trace/flow_bytes.c"

#define HEAD_TEXT "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
#define ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
enum { IN_AT = 0xfffffff0u - 20, OUT_AT = 5000, MANY = 64 };

static struct request done[MANY];
static unsigned dones;
static struct flows flows;
static uint64_t clock_ns;
static uint32_t in_seq, out_seq;

static void finished(void *arg, const struct request *r)
{
    (void)arg;
    assert_true(dones < MANY);
    done[dones++] = *r;
}

static int begin(void **state)
{
    (void)state;
    flows_init(&flows, finished, NULL);
    flows.sends_known = true;
    dones = 0;
    clock_ns = 1000;
    in_seq = (uint32_t)IN_AT; /* sequence numbers wrap in the first head */
    out_seq = OUT_AT;
    return 0;
}

static void say_event(enum event_kind kind, struct event e, const char *payload)
{
    e.kind = (uint8_t)kind;
    e.cookie = 7;
    e.ns = clock_ns += 10;
    flows_event(&flows, &e, payload);
}

static void come(const char *text, size_t n)
{
    say_event(EVENT_IN, (struct event){.seq = in_seq, .ack = out_seq, .len = (uint32_t)n,
                                       .kept = (uint16_t)n}, text);
    in_seq += (uint32_t)n;
}

static void leave(const char *text, size_t n)
{
    say_event(EVENT_OUT, (struct event){.seq = out_seq, .ack = in_seq, .len = (uint32_t)n,
                                        .kept = (uint16_t)n}, text);
    out_seq += (uint32_t)n;
}

static void taken(void)
{
    say_event(EVENT_RECV, (struct event){.seq = in_seq, .tid = 3, .flags = EVENT_KNOWN}, NULL);
}

static void sent(void)
{
    say_event(EVENT_SEND, (struct event){.seq = out_seq}, NULL);
}

static void acked(void)
{
    say_event(EVENT_IN, (struct event){.seq = in_seq, .ack = out_seq}, NULL);
}

static void open_flow(void)
{
    say_event(EVENT_OPEN, (struct event){.peer_port = 9}, NULL);
}

static void decided(uint32_t ordinal, uint64_t compressed)
{
    say_event(EVENT_ANSWER, (struct event){.seq = ordinal, .parsed = clock_ns + 1,
                                           .found = clock_ns + 3, .compressed = compressed}, NULL);
}

static void is_whole(const struct request *r)
{
    assert_int_equal(r->ending, ENDED_ANSWERED);
    assert_int_equal(r->status, 200);
    assert_int_equal(r->answer_bytes, strlen(ANSWER));
    assert_string_equal(r->target, "/a");
    for (unsigned i = STAGE_READ; i < STAGES; i++)
        if (i < STAGE_PARSED || i > STAGE_COMPRESSED) /* those that the server reports itself */
            assert_true(r->at[i] >= r->at[STAGE_HEAD]);
    assert_true(r->queued && r->queued_all >= r->queued);
}

/* However a head and an answer are cut in two: one request, with its first byte and its last. */
static void test_cut_anywhere(void **state)
{
    const size_t n = strlen(HEAD_TEXT), m = strlen(ANSWER);

    for (size_t cut = 1; cut < n; cut++) {
        size_t out = 1 + cut % (m - 1);

        begin(state);
        open_flow();
        come(HEAD_TEXT, cut);
        taken();
        come(HEAD_TEXT + cut, n - cut);
        taken();
        leave(ANSWER, out);
        leave(ANSWER + out, m - out);
        sent();
        acked();
        assert_int_equal(dones, 1);
        is_whole(&done[0]);
        assert_true(done[0].at[STAGE_ARRIVED] < done[0].at[STAGE_HEAD]);
        assert_true(done[0].at[STAGE_OUT] < done[0].at[STAGE_DONE]);
        flows_end(&flows);
        assert_int_equal(flows.counts.seen, 1);
        assert_int_equal(flows.counts.lost, 0);
    }
}

static void test_pipelined(void **state)
{
    char heads[8 * sizeof(HEAD_TEXT)] = "", answers[8 * sizeof(ANSWER)] = "";
    size_t n = 0, m = 0;

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        memcpy(heads + n, HEAD_TEXT, strlen(HEAD_TEXT));
        memcpy(answers + m, ANSWER, strlen(ANSWER));
        n += strlen(HEAD_TEXT);
        m += strlen(ANSWER);
    }
    open_flow();
    come(heads, n);
    taken();
    leave(answers, m / 2 + 3);
    leave(answers + m / 2 + 3, m - m / 2 - 3);
    sent();
    acked();
    assert_int_equal(dones, 8);
    for (unsigned i = 0; i < 8; i++) {
        is_whole(&done[i]);
        assert_int_equal(done[i].ordinal, i + 1);
    }
    assert_true(done[0].at[STAGE_DONE] < done[7].at[STAGE_DONE]);
    flows_end(&flows);
}

/* Bytes that were not kept: a body is skipped, a head is not guessed. */
static void test_bytes_not_kept(void **state)
{
    static const char large[] = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n";
    const uint32_t whole = (uint32_t)strlen(large) + 100000;

    (void)state;
    open_flow();
    come(HEAD_TEXT, strlen(HEAD_TEXT));
    say_event(EVENT_OUT, (struct event){.seq = out_seq, .len = 60000,
                                        .kept = (uint16_t)strlen(large)}, large);
    assert_int_equal(flow_asking(*place_of(&flows, 7))->at[STAGE_DONE], 0);
    say_event(EVENT_OUT, (struct event){.seq = out_seq + 60000, .len = whole - 60000}, NULL);
    out_seq += whole;
    sent();
    acked();
    assert_int_equal(dones, 1);
    assert_int_equal(done[0].answer_bytes, whole);
    assert_int_equal(flows.counts.lost, 0);
    flows_end(&flows);
}

/* Two were requested, and the beginning of an answer was not seen: none is taken for another. */
static void test_merged(void **state)
{
    (void)state;
    open_flow();
    come(HEAD_TEXT HEAD_TEXT, 2 * strlen(HEAD_TEXT));
    out_seq += 10; /* a packet that was lost on the way here */
    leave(ANSWER, strlen(ANSWER));
    come(HEAD_TEXT, strlen(HEAD_TEXT));
    leave(ANSWER, strlen(ANSWER));
    flows_end(&flows);
    assert_int_equal(flows.counts.seen, 3);
    for (unsigned i = 0; i < dones; i++)
        assert_int_equal(done[i].status, 0);
    assert_true(flows.counts.lost > 0);
}

/* Pipelined requests, and the place in the answers is lost: one answer more is out than was
 * seen. */
static void lose_the_place(void)
{
    open_flow();
    come(HEAD_TEXT HEAD_TEXT, 2 * strlen(HEAD_TEXT));
    taken();
    out_seq += 10;
    leave(ANSWER, strlen(ANSWER));
    sent();
    acked();
    assert_int_equal(flows.counts.lost, 1);
}

static void one_more(void)
{
    come(HEAD_TEXT, strlen(HEAD_TEXT));
    taken();
    leave(ANSWER, strlen(ANSWER));
    sent();
    acked();
}

/* When nothing has moved for QUIET_MS, nothing is owed.  A nanosecond earlier that is unknown. */
static void test_found_again_after_silence(void **state)
{
    for (unsigned late = 0; late < 2; late++) {
        begin(state);
        lose_the_place();
        clock_ns = (*place_of(&flows, 7))->out_ns + QUIET_MS * 1000000ull - 11 + late;
        one_more();
        assert_int_equal(flows.counts.merged, late ? 2 : 0);
        assert_int_equal(dones, late ? 3 : 0);
        if (late)
            is_whole(&done[2]);
        flows_end(&flows);
        assert_int_equal(dones, 3);
        assert_int_equal(done[2].ending, late ? ENDED_ANSWERED : ENDED_OPEN);
        assert_int_equal(done[1].status, 0);
    }
}

/* The server has reported that it decided the last answer, and bytes have left since. */
static void test_found_again_by_what_the_server_says(void **state)
{
    for (unsigned told = 0; told < 3; told++) {
        begin(state);
        lose_the_place();
        for (uint32_t i = 1; i <= told; i++)
            decided(i, 0);
        one_more(); /* no byte has left since, so this answer may belong to another */
        assert_int_equal(dones, 0);
        if (told == 2)
            decided(3, 0);
        leave(ANSWER, strlen(ANSWER));
        acked();
        one_more();
        assert_int_equal(dones, told == 2 ? 4 : 0);
        if (told == 2)
            is_whole(&done[3]);
        flows_end(&flows);
        assert_int_equal(dones, 4);
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(done[i].status, 0);
    }
}

/* A connection whose start was not seen: the middle of an answer, then a request. */
static void test_in_the_middle(void **state)
{
    (void)state;
    leave("rest of a body", 14);
    acked();
    come(HEAD_TEXT, strlen(HEAD_TEXT));
    taken();
    leave(ANSWER, strlen(ANSWER));
    sent();
    acked();
    assert_int_equal(dones, 1);
    is_whole(&done[0]);
    assert_int_equal(flows.counts.late, 1);
    flows_end(&flows);
}

static void test_sent_again(void **state)
{
    (void)state;
    open_flow();
    come(HEAD_TEXT, strlen(HEAD_TEXT));
    in_seq -= (uint32_t)strlen(HEAD_TEXT);
    come(HEAD_TEXT, strlen(HEAD_TEXT));
    taken();
    leave(ANSWER, strlen(ANSWER));
    out_seq -= (uint32_t)strlen(ANSWER);
    leave(ANSWER, strlen(ANSWER));
    sent();
    acked();
    assert_int_equal(dones, 1);
    is_whole(&done[0]);
    assert_int_equal(flows.counts.seen, 1);
    flows_end(&flows);
}

static void test_closed_before_the_answer(void **state)
{
    (void)state;
    open_flow();
    come(HEAD_TEXT, strlen(HEAD_TEXT));
    say_event(EVENT_CLOSE, (struct event){0}, NULL);
    assert_int_equal(dones, 1);
    assert_int_equal(done[0].ending, ENDED_CUT);
    assert_int_equal(done[0].at[STAGE_OUT], 0);
    flows_end(&flows);
    assert_int_equal(flows.count, 0);
}

/* Bytes with the packet that ends the handshake, seen at the listener, which has another cookie. */
static void test_early_bytes(void **state)
{
    struct event e = {.kind = EVENT_IN, .flags = EVENT_EARLY, .cookie = 1, .peer_port = 9,
                      .seq = in_seq, .ack = out_seq, .len = sizeof(HEAD_TEXT) - 1,
                      .kept = sizeof(HEAD_TEXT) - 1, .ns = 5};

    (void)state;
    flows_event(&flows, &e, HEAD_TEXT);
    in_seq += e.len;
    open_flow();
    taken();
    leave(ANSWER, strlen(ANSWER));
    sent();
    acked();
    assert_int_equal(dones, 1);
    is_whole(&done[0]);
    assert_int_equal(done[0].cookie, 7);
    assert_int_equal(flows.counts.late, 0);
    flows_end(&flows);
}

/* The server's reports are matched by the request's ordinal; an unreported time is unknown. */
static void test_what_the_server_says(void **state)
{
    char heads[3 * sizeof(HEAD_TEXT)];

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        memcpy(heads + i * strlen(HEAD_TEXT), HEAD_TEXT, strlen(HEAD_TEXT));
    open_flow();
    say_event(EVENT_ACCEPT, (struct event){0}, NULL);
    come(heads, 3 * strlen(HEAD_TEXT));
    taken();
    decided(1, 0);
    decided(3, clock_ns + 4); /* an event was lost before */
    decided(4, 0);            /* there was no such request */
    for (unsigned i = 0; i < 3; i++)
        leave(ANSWER, strlen(ANSWER));
    sent();
    acked();
    assert_int_equal(dones, 3);
    for (unsigned i = 0; i < 3; i++) {
        is_whole(&done[i]);
        assert_int_equal(done[i].at[STAGE_PARSED] != 0, i != 1);
        assert_int_equal(done[i].at[STAGE_FOUND] != 0, i != 1);
        assert_int_equal(done[i].at[STAGE_COMPRESSED] != 0, i == 2);
        assert_int_equal(done[i].opened != 0, i == 0);
        assert_int_equal(done[i].at[STAGE_ACCEPTED] != 0, i == 0);
    }
    assert_true(done[0].at[STAGE_ACCEPTED] > done[0].opened);
    flows_end(&flows);
}

/* On a connection that was open before, the first answer is that to the oldest request. */
static void test_ordinals_of_a_late_connection(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        come(HEAD_TEXT, strlen(HEAD_TEXT));
        taken();
        decided(100 + i, 0);
        leave(ANSWER, strlen(ANSWER));
        sent();
        acked();
        assert_int_equal(dones, i + 1);
        is_whole(&done[i]);
        assert_true(done[i].at[STAGE_PARSED] > done[i].at[STAGE_READ]);
        assert_int_equal(done[i].opened, 0);
    }
    flows_end(&flows);
}

/* Packets with requests were not seen: the ordinals are found again. */
static void test_ordinals_after_a_gap(void **state)
{
    (void)state;
    open_flow();
    for (uint32_t i = 0; i < 2; i++) {
        come(HEAD_TEXT, strlen(HEAD_TEXT));
        taken();
        decided(1 + 5 * i, 0);
        leave(ANSWER, strlen(ANSWER));
        sent();
        acked();
        assert_int_equal(dones, i + 1);
        is_whole(&done[i]);
        assert_true(done[i].at[STAGE_PARSED] != 0);
        in_seq += 4000;
        out_seq += 4000;
    }
    flows_end(&flows);
}

/* The connection is accepted long after the head has arrived. */
static void test_accepted_late(void **state)
{
    (void)state;
    open_flow();
    come(HEAD_TEXT, strlen(HEAD_TEXT));
    say_event(EVENT_ACCEPT, (struct event){0}, NULL);
    say_event(EVENT_ACCEPT, (struct event){0}, NULL); /* the first of two counts */
    taken();
    leave(ANSWER, strlen(ANSWER));
    sent();
    acked();
    assert_int_equal(dones, 1);
    is_whole(&done[0]);
    assert_int_equal(done[0].at[STAGE_ACCEPTED], done[0].at[STAGE_HEAD] + 10);
    flows_end(&flows);
}

/* REQUESTS_MAX on a connection are kept, and one more is counted. */
static void test_too_many(void **state)
{
    (void)state;
    open_flow();
    for (unsigned i = 0; i < REQUESTS_MAX; i++)
        come(HEAD_TEXT, strlen(HEAD_TEXT));
    assert_int_equal(flows.counts.crowded, 0);
    come(HEAD_TEXT, strlen(HEAD_TEXT));
    assert_int_equal(flows.counts.crowded, 1);
    flows.finish = NULL; /* a thousand are not checked one by one */
    (*place_of(&flows, 7))->first->head_whole = true;
    for (struct request *r = (*place_of(&flows, 7))->first; r; r = r->next)
        r->head_whole = false;
    flows_end(&flows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_cut_anywhere, begin),
        cmocka_unit_test_setup(test_pipelined, begin),
        cmocka_unit_test_setup(test_bytes_not_kept, begin),
        cmocka_unit_test_setup(test_merged, begin),
        cmocka_unit_test_setup(test_found_again_after_silence, begin),
        cmocka_unit_test_setup(test_found_again_by_what_the_server_says, begin),
        cmocka_unit_test_setup(test_in_the_middle, begin),
        cmocka_unit_test_setup(test_sent_again, begin),
        cmocka_unit_test_setup(test_closed_before_the_answer, begin),
        cmocka_unit_test_setup(test_early_bytes, begin),
        cmocka_unit_test_setup(test_what_the_server_says, begin),
        cmocka_unit_test_setup(test_ordinals_of_a_late_connection, begin),
        cmocka_unit_test_setup(test_ordinals_after_a_gap, begin),
        cmocka_unit_test_setup(test_accepted_late, begin),
        cmocka_unit_test_setup(test_too_many, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
