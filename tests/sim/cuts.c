/* SPDX-License-Identifier: MIT */
/* cuts.c - the output is the same however the input was cut, the output was taken, and whatever
 * happened in between. */
#include "talk.h"

enum { TALKS = 60, RUNS = 8, MESSAGES = 12 };

/* How much one call moves, drawn again for each run: down to single bytes unless there are very
 * many. */
static size_t draw_max(uint64_t *rng, size_t bytes)
{
    static const size_t max[] = {0, 20000, 1000, 60, 7, 2, 1};

    return max[talk_random(rng, bytes < 3000 ? 7 : 4)];
}

static void draw_run(const struct talk *t, struct world *w, uint64_t seed)
{
    uint64_t rng = seed * 0x2545f4914f6cdd1du + 7;

    w->recv_max = draw_max(&rng, t->in.len);
    w->send_max = draw_max(&rng, t->want.len);
    w->again_percent = talk_random(&rng, 2) ? (unsigned)talk_random(&rng, 60) : 0;
    w->pump.edge = talk_random(&rng, 2);
}

static void same_output(const struct conn_proto *proto)
{
    static struct world w;
    struct talk t;
    uint64_t calls = 0, bytes = 0;

    for (uint64_t seed = 1; seed <= TALKS; seed++) {
        talk_open(&t, proto, seed, 1 + seed % MESSAGES);
        for (uint64_t run = 0; run < RUNS; run++) {
            talk_world(&t, &w, seed);
            draw_run(&t, &w, seed * RUNS + run);
            world_run(&w);
            check(text_same(&t.want, &w.out), &t, seed * RUNS + run);
            calls += w.calls;
            bytes += w.out.len;
            world_close(&w);
        }
        talk_close(&t);
    }
    print_message("%s: %d conversations, %d runs each, %llu calls, %llu bytes out\n", proto->name,
                  TALKS, RUNS, (unsigned long long)calls, (unsigned long long)bytes);
}

static void echo(void **state)
{
    (void)state;
    same_output(&echo_proto);
}

static void lines(void **state)
{
    (void)state;
    same_output(&lines_proto);
}

static void http(void **state)
{
    (void)state;
    same_output(&http_proto);
}

/* Run each seed twice: a failure that names its seed can be reproduced. */
static void a_seed_is_a_run(void **state)
{
    static struct world a, b;
    struct talk t;

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        talk_open(&t, &lines_proto, seed, 10);
        talk_world(&t, &a, seed);
        talk_world(&t, &b, seed);
        draw_run(&t, &a, seed);
        draw_run(&t, &b, seed);
        world_run(&a);
        world_run(&b);
        check(a.calls == b.calls && a.recvs == b.recvs && text_same(&a.out, &b.out), &t, seed);
        check(!memcmp(&a.fake->n, &b.fake->n, sizeof(a.fake->n)), &t, seed);
        world_close(&a);
        world_close(&b);
        talk_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(echo),
        cmocka_unit_test(lines),
        cmocka_unit_test(http),
        cmocka_unit_test(a_seed_is_a_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
