/* SPDX-License-Identifier: MIT */
/* nth.c - the n-th call goes wrong, for every n: each time the connection ends and everything is
 * given back. */
#include "talk.h"

enum { TALKS = 6, MESSAGES = 10 };

static struct world w;

/* One run of a few dozen calls; afterwards the counts of w can be read until world_close(). */
static void run(const struct talk *t, bool edge)
{
    w.pump.edge = edge;
    w.recv_max = 1 + t->in.len / 12;
    w.send_max = 1 + t->want.len / 12;
    world_run(&w);
}

/* The output must follow from the bytes that the peer sent before it went wrong. */
static void judge(const struct talk *t, enum wrong wrong, unsigned n)
{
    struct text want;

    if (wrong == WRONG_AGAIN || wrong == WRONG_SHORT || w.calls < n) {
        check(text_same(&t->want, &w.out), t, n);
    } else if (wrong == WRONG_END && !w.broken) {
        talk_reference(t->proto, t->in.bytes, w.in_at, &want);
        check(text_same(&want, &w.out), t, n);
        text_free(&want);
    } else {
        check(text_begins(&t->want, &w.out), t, n);
    }
}

static unsigned every_call(const struct talk *t, enum wrong wrong, bool edge)
{
    unsigned calls, n = 0;

    do {
        talk_world(t, &w, 1);
        w.wrong = wrong;
        w.wrong_at = ++n;
        run(t, edge);
        judge(t, wrong, n);
        calls = w.calls;
        world_close(&w);
    } while (n <= calls);
    return n;
}

static void transport_of(const struct conn_proto *proto)
{
    struct talk t;
    unsigned runs = 0;

    for (uint64_t seed = 100; seed < 100 + TALKS; seed++) {
        talk_open(&t, proto, seed, MESSAGES);
        for (enum wrong wrong = WRONG_AGAIN; wrong < WRONGS; wrong++) {
            runs += every_call(&t, wrong, false);
            runs += every_call(&t, wrong, true);
        }
        talk_close(&t);
    }
    print_message("%s: %u calls of the transport went wrong, one at a time\n", proto->name, runs);
    assert_true(runs > TALKS * 8 * 4);
}

/* shows S11 */
static void transport(void **state)
{
    (void)state;
    transport_of(&echo_proto);
    transport_of(&lines_proto);
    transport_of(&http_proto);
}

/* No memory: everything answered before comes out whole, and nothing after. */
static void memory_of(const struct conn_proto *proto)
{
    struct talk t;
    unsigned allocs, n, runs = 0;

    for (uint64_t seed = 200; seed < 200 + TALKS; seed++) {
        talk_open(&t, proto, seed, MESSAGES);
        n = 0;
        do {
            talk_world(&t, &w, 1);
            w.fake->fail_alloc = ++n;
            run(&t, n % 2);
            check(text_begins(&t.want, &w.out), &t, n);
            check(w.fake->n.allocs >= n || text_same(&t.want, &w.out), &t, n);
            allocs = w.fake->n.allocs;
            world_close(&w);
            runs++;
        } while (n <= allocs);
        talk_close(&t);
    }
    print_message("%s: %u allocations refused, one at a time\n", proto->name, runs);
    assert_true(runs > TALKS * 2);
}

static void memory(void **state)
{
    (void)state;
    memory_of(&echo_proto);
    memory_of(&lines_proto);
    memory_of(&http_proto);
}

/* The host cannot find the resource: an answer says so, and the conversation goes on. */
static void finding_of(const struct conn_proto *proto)
{
    struct talk t;
    unsigned finds, n, runs = 0;

    for (uint64_t seed = 300; seed < 300 + TALKS; seed++) {
        talk_open(&t, proto, seed, MESSAGES);
        n = 0;
        do {
            talk_world(&t, &w, 1);
            w.fake->fail_find = ++n;
            run(&t, n % 2);
            finds = w.fake->n.finds;
            check(n <= finds || text_same(&t.want, &w.out), &t, n);
            check(w.out.len > 0, &t, n);
            world_close(&w);
            runs++;
        } while (n <= finds);
        talk_close(&t);
    }
    print_message("%s: %u finds refused, one at a time\n", proto->name, runs);
    assert_true(runs > TALKS * 2);
}

static void finding(void **state)
{
    (void)state;
    finding_of(&lines_proto);
    finding_of(&http_proto);
}

/* The connection is aborted after any turn: nothing is leaked. */
static void abort_of(const struct conn_proto *proto)
{
    struct talk t;
    unsigned turns, n, runs = 0;

    for (uint64_t seed = 400; seed < 400 + TALKS; seed++) {
        talk_open(&t, proto, seed, MESSAGES);
        n = 0;
        do {
            talk_world(&t, &w, 1);
            w.recv_max = w.send_max = 2000;
            w.again_percent = 30; /* many turns */
            for (turns = 0; turns < n && w.c.want != CONN_CLOSE; turns++)
                world_turn(&w);
            conn_fini(&w.c);
            fake_balance(w.fake);
            check(text_begins(&t.want, &w.out), &t, n);
            world_close(&w);
            runs++;
        } while (turns == n++);
        talk_close(&t);
    }
    print_message("%s: given up after %u turns, one at a time\n", proto->name, runs);
    assert_true(runs > TALKS * 2);
}

static void giving_up(void **state)
{
    (void)state;
    abort_of(&echo_proto);
    abort_of(&lines_proto);
    abort_of(&http_proto);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transport),
        cmocka_unit_test(memory),
        cmocka_unit_test(finding),
        cmocka_unit_test(giving_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
