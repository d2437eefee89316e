/* SPDX-License-Identifier: MIT */
/* calls.c - what a request costs in system calls, counted: one receive and one send for a small
 * file, under every engine.
 *
 * The seam of faults.c counts here and lets everything pass.  The client sends the next request
 * only when it has the answer to the last, so nothing is shared between two.
 */
#include "faults_server.h"

enum { REQUESTS = 100 };

/* Exactly so many for each request, or at most so many for all of them. */
static void expect(enum seam_call call, unsigned each, unsigned beyond)
{
    assert_in_range(atomic_load(&seam_made[call]), each * REQUESTS, each * REQUESTS + beyond);
}

/* Who asks without being told pays for it, and who is told once asks until nothing is left, which
 * the next request may forestall; a blocking one is at the next already, and perhaps was
 * not yet when counting began; others need one each. */
static void expect_receives(const struct engine *e)
{
    unsigned made = atomic_load(&seam_made[SEAM_recv]);

    if (e == &serving_edge)
        assert_in_range(made, REQUESTS, 2 * REQUESTS + 1);
    else if (e == &engine_nonblock)
        assert_true(made >= REQUESTS);
    else if (e->may_block)
        assert_in_range(made, REQUESTS - 1, REQUESTS + 1);
    else
        expect(SEAM_recv, e->model != ENGINE_COMPLETION, 0);
}

static void count_small_file(const struct engine *e)
{
    struct run *r;
    struct client *c;

    snprintf(running, sizeof(running), "%s\n", e->name);
    alarm(PATIENCE_S);
    r = run_start(e);
    c = client_new(atomic_load(&r->port));
    assert_int_equal(ask(c, "/", short_body, SHORT_BYTES, 200), RIGHT); /* memory is warm now */
    seam_arm((struct fault_plan){0});
    for (unsigned i = 0; i < REQUESTS; i++)
        assert_int_equal(ask(c, "/", short_body, SHORT_BYTES, 200), RIGHT);
    expect_receives(e);
    expect(SEAM_sendmsg, e->model != ENGINE_COMPLETION, 0);
    expect(SEAM_sendfile64, 0, 0);
    expect(SEAM_fstat64, 1, 0);
    expect(SEAM_pread64, 1, 0);
    /* The answer's note or the source; a thread that sees its first request has cold memory. */
    expect(SEAM_malloc, 0, REQUESTS + (e->crew ? 4 * r->srv.arrangement.tuning.threads : 0));
    /* One-shot is armed anew after the answer is out, of a crew by whoever pumped it; else once. */
    if (e == &serving_oneshot || (e->crew && !e->may_block))
        assert_in_range(atomic_load(&seam_made[SEAM_epoll_ctl]), REQUESTS - 1, REQUESTS + 1);
    else if (e == &serving_edge) /* a turn that the next request prolongs may spend its budget */
        expect(SEAM_epoll_ctl, 0, REQUESTS / (PUMP_CALLS_MAX / 2) + 1);
    else /* a blocking thread makes the set it sleeps on, of a listener and the stop, once */
        expect(SEAM_epoll_ctl, 0, e->may_block ? 2 * r->srv.arrangement.tuning.threads : 1);
    client_free(c);
    server_stop(&r->srv);
    assert_true(wait_left(r));
    run_join(r);
    alarm(0);
}

static void small_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < SERVING_ENGINES; i++)
        if (can_run(serving_engines[i]))
            count_small_file(serving_engines[i]);
    running[0] = '\0';
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(small_file, tell)};

    (void)argc;
    begin_program(argv);
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
