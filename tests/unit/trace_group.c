/* SPDX-License-Identifier: MIT */
/* Groups of requests: to which one a request belongs, how many there are, and which comes first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "../../tools/trace/group.c"
#include "../../tools/trace/stage.c"

void report_peer(const struct request *r, char text[PEER_TEXT])
{
    snprintf(text, PEER_TEXT, "10.0.0.%u:%u", r->peer[15], r->peer_port);
}

void report_address(const struct request *r, char text[PEER_TEXT])
{
    snprintf(text, PEER_TEXT, "10.0.0.%u", r->peer[15]);
}

/* Add a request for that target, whose answer took `read` and then `out`; 0: no answer. */
static void answered(struct groups *g, const char *target, uint64_t read, uint64_t out)
{
    struct request r = {.at = {[STAGE_ARRIVED] = 1000, [STAGE_HEAD] = 1000}, .cookie = 0xabc,
                        .peer = {[15] = 7}, .peer_port = 80};
    struct stages s;

    snprintf(r.target, sizeof(r.target), "%s", target);
    if (out) {
        r.status = 200;
        r.at[STAGE_READ] = 1000 + read;
        r.at[STAGE_OUT] = r.at[STAGE_DONE] = 1000 + read + out;
        r.at[STAGE_ACKED] = 999999;
    }
    stages_of(&r, &s);
    groups_add(g, &r, &s);
}

static int setup(void **state)
{
    static struct groups g;

    *state = &g;
    return groups_init(&g);
}

static int teardown(void **state)
{
    groups_free(*state);
    return 0;
}

static void test_by(void **state)
{
    static const char *const name[GROUP_BYS] = {"/a", "abc 10.0.0.7:80", "10.0.0.7", "200"};
    struct groups *g = *state;

    for (unsigned by = 0; by < GROUP_BYS; by++) {
        g->by = (enum group_by)by;
        answered(g, "/a?x=1", 5, 5);
        answered(g, "/a", 5, 5);
        assert_int_equal(g->count, 1);
        assert_string_equal(g->group[0]->name, name[by]);
        assert_int_equal(g->group[0]->requests, 2);
        groups_clear(g);
    }
}

/* The stages of a group add up to its answers' time; one without an answer is only counted. */
static void test_sums(void **state)
{
    struct groups *g = *state;
    uint64_t sum = 0;

    answered(g, "/a", 10, 30);
    answered(g, "/a", 100, 20);
    answered(g, "/a", 0, 0);
    for (unsigned i = 0; i < STAGES; i++)
        sum += g->group[0]->stage_ns[i];
    assert_int_equal(sum, 160);
    assert_int_equal(g->group[0]->answer_ns, 160);
    assert_int_equal(g->group[0]->took.total, 2);
    assert_int_equal(g->all->requests, 3);
    assert_int_equal(group_slowest(g->group[0]), STAGE_READ);
    answered(g, "/none", 0, 0);
    assert_int_equal(group_slowest(g->group[1]), -1);
}

static void test_sorted(void **state)
{
    /* the three quick ones together take less than the slow one: each order differs */
    static const char first[GROUP_SORTS] = {'s', 'q', 's', 's', 'a'};
    struct groups *g = *state;

    answered(g, "slow", 50, 50);
    for (unsigned i = 0; i < 3; i++)
        answered(g, "quick", 5, 5);
    answered(g, "also", 5, 6);
    for (unsigned sort = 0; sort < GROUP_SORTS; sort++) {
        assert_int_equal(groups_sorted(g, (enum group_sort)sort), 3);
        assert_int_equal(g->sorted[0]->name[0], first[sort]);
    }
    groups_sorted(g, SORT_P50);
    assert_string_equal(g->sorted[1]->name, "also");
    groups_sorted(g, SORT_TIME);
    assert_string_equal(g->sorted[1]->name, "quick");
}

/* As many groups as there may be have a row each; all later ones share one. */
static void test_limit(void **state)
{
    struct groups *g = *state;
    char name[32];

    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < GROUPS_MAX; i++) {
            snprintf(name, sizeof(name), "/%u", i);
            answered(g, name, 1, 1);
        }
        assert_int_equal(groups_sorted(g, SORT_NAME), GROUPS_MAX);
        assert_int_equal(g->others->requests, 0);
        answered(g, "/more", 1, 1);
        answered(g, "/and more", 1, 1);
        answered(g, "/0", 1, 1);
        assert_int_equal(groups_sorted(g, SORT_REQUESTS), GROUPS_MAX + 1);
        assert_int_equal(g->others->requests, 2);
        assert_string_equal(g->sorted[0]->name, "/0");
        assert_string_equal(g->sorted[1]->name, "others");
        groups_clear(g);
        assert_int_equal(groups_sorted(g, SORT_TIME), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_by, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sums, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sorted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limit, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
