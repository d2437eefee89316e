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
    /* A blocking engine may be at the next one already, here and when the counting began. */
    assert_in_range(atomic_load(&seam_made[SEAM_recv]), REQUESTS - 1, REQUESTS + 1);
    expect(SEAM_sendmsg, 1, 0);
    expect(SEAM_sendfile64, 0, 0);
    expect(SEAM_fstat64, 1, 0);
    expect(SEAM_pread64, 1, 0);
    expect(SEAM_malloc, 0, REQUESTS); /* the answer's note or the source */
    if (e->model == ENGINE_READINESS)
        expect(SEAM_epoll_ctl, 0, 0);
    client_free(c);
    server_stop(&r->srv);
    assert_true(wait_left(r));
    run_join(r);
    alarm(0);
}

static void small_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
        if (can_run(engines[i]))
            count_small_file(engines[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_file)};

    begin_program();
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
