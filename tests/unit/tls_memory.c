/* SPDX-License-Identifier: MIT */
/* tls_memory.c - every allocation is refused in turn in handshakes, and while both sides speak. */
#include "tls_refuse.h"

static void connections(const struct plan *plan, bool after)
{
    struct plan first = *plan;
    struct talk t = {plan, NULL};

    begin(0, false);
    t.setup = open_setup();
    answers_make(&answers, plan);
    first.resumes = false;
    converse(&(struct talk){&first, t.setup}, true); /* keeps a session */
    converse(&t, true);
    in_turn(&(struct turn){plan->name, converse, works_again, &t, after, 0});
    tls_close(t.setup);
    client_forget();
    client_prepare();
}

static const struct plan plans[] = {
    {.name = "tls13", .version = TLS1_3_VERSION, .host = "a.example", .staple = true, .keys = 1},
    {.name = "tls13_resumed", .version = TLS1_3_VERSION, .host = "a.example", .resumes = true},
    {.name = "tls13_retried", .version = TLS1_3_VERSION, .host = "b.example",
     .groups = "P-521:X25519", .server_ends = true},
    {.name = "tls13_named", .version = TLS1_3_VERSION, .host = "b.example"},
    {.name = "tls12", .version = TLS1_2_VERSION, .host = "b.example", .server_ends = true},
    {.name = "tls12_stapled", .version = TLS1_2_VERSION, .host = "a.example", .staple = true},
    {.name = "tls12_resumed", .version = TLS1_2_VERSION, .host = "a.example", .resumes = true},
};

static void one_is_refused(void **state)
{
    connections(*state, false);
}

static void all_after_it_too(void **state)
{
    connections(*state, true);
}

int main(int argc, char **argv)
{
    enum { PLANS = sizeof(plans) / sizeof(*plans) };
    struct CMUnitTest tests[2 * PLANS];
    char names[2 * PLANS][64];

    take_arguments(argc, argv);
    for (unsigned i = 0; i < 2 * PLANS; i++) {
        snprintf(names[i], sizeof(names[i]), "%s%s", plans[i / 2].name, i % 2 ? "_all_after" : "");
        tests[i] = (struct CMUnitTest){names[i], i % 2 ? all_after_it_too : one_is_refused, NULL,
                                       NULL, (void *)(uintptr_t)&plans[i / 2]};
    }
    return cmocka_run_group_tests_name("tls_memory", tests, set_up, tear_down);
}
