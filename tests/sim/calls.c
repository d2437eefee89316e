/* SPDX-License-Identifier: MIT */
/* calls.c - the system calls that a request costs, counted: one receive and one send for a small
 * file, under every engine, and the calls of each other way to send.
 *
 * The seam of faults.c counts here and lets everything pass.  The client sends the next request
 * only when it has the answer to the last, so no call serves two requests.
 */
#include "faults_server.h"

enum { REQUESTS = 100, WARM_UP = 3 };

/* Exactly `each` calls for each request, plus at most `beyond` in all. */
static void expect(enum seam_call call, unsigned each, unsigned beyond)
{
    assert_in_range(atomic_load(&seam_made[call]), each * REQUESTS, each * REQUESTS + beyond);
}

/* A warm server that has then answered REQUESTS requests of one client. */
static struct run *answered(const struct engine *e, struct client **c)
{
    struct run *r;

    alarm(PATIENCE_S);
    r = run_start(e);
    *c = client_new(atomic_load(&r->port));
    for (unsigned i = 0; i < WARM_UP; i++) /* the second keeps the head; then uring makes a spare */
        assert_int_equal(ask(*c, "/", short_body, SHORT_BYTES, 200), RIGHT);
    seam_arm((struct fault_plan){0});
    for (unsigned i = 0; i < REQUESTS; i++)
        assert_int_equal(ask(*c, "/", short_body, SHORT_BYTES, 200), RIGHT);
    return r;
}

static void over(struct run *r, struct client *c)
{
    client_free(c);
    run_stop(r);
    assert_true(wait_left(r));
    run_join(r);
    alarm(0);
}

/* nonblock receives without being notified, so some of its receives find nothing.  Edge-triggered
 * epoll is notified once and receives until nothing is left, unless the next request comes first.
 * A blocking engine is in the next receive already, and perhaps was not yet in the first one when
 * counting began.  The others need one receive each. */
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

/* shows N15 */
static void count_small_file(const struct engine *e)
{
    struct client *c;
    struct run *r;

    snprintf(running, sizeof(running), "%s\n", e->name);
    run_how = (struct send_how){0};
    r = answered(e, &c);
    expect_receives(e);
    expect(SEAM_sendmsg, e->model != ENGINE_COMPLETION, 0);
    expect(SEAM_sendfile64, 0, 0);
    expect(SEAM_fstatat64, 1, 0); /* its kind, before it is opened */
    expect(SEAM_fstat64, 1, 0);
    expect(SEAM_preadv64v2, e->model != ENGINE_COMPLETION, 0); /* an operation, too */
    /* The answer's note or the source; a thread that sees its first request has cold memory. */
    expect(SEAM_malloc, 0, REQUESTS + (e->thread_pool ? 4 * r->srv.arrangement.tuning.threads : 0));
    /* One-shot re-arms after each answer, in a pool by the thread that pumped; otherwise once. */
    if (e == &serving_oneshot || (e->thread_pool && !e->may_block))
        assert_in_range(atomic_load(&seam_made[SEAM_epoll_ctl]), REQUESTS - 1, REQUESTS + 1);
    else if (e == &serving_edge) /* a turn prolonged by the next request may use up its budget */
        expect(SEAM_epoll_ctl, 0, REQUESTS / (PUMP_CALLS_MAX / 2) + 1);
    else /* a blocking thread fills its set (a listener and the stop) once */
        expect(SEAM_epoll_ctl, 0, e->may_block ? 2 * r->srv.arrangement.tuning.threads : 1);
    over(r, c);
}

static void small_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < SERVING_ENGINES; i++)
        if (can_run(serving_engines[i]))
            count_small_file(serving_engines[i]);
    running[0] = '\0';
}

/* --- Ways to send ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    struct send_how how;
    unsigned sendmsg, pread, maps, sendfile, splice, corks; /* of each request */
} ways[] = {
    {"copy", {.way = SEND_COPY}, 1, 1, 0, 0, 0, 0},
    {"mmap", {.way = SEND_MMAP}, 1, 0, 1, 0, 0, 0},
    {"sendfile", {.way = SEND_SENDFILE}, 1, 0, 0, 1, 0, 0},
    {"splice", {.way = SEND_SPLICE}, 1, 0, 0, 0, 2, 0},
    {"auto, apart", {.apart = true}, 2, 1, 0, 0, 0, 0},
    {"mmap, apart", {.way = SEND_MMAP, .apart = true}, 2, 0, 1, 0, 0, 0},
    {"sendfile, apart", {.way = SEND_SENDFILE, .apart = true}, 1, 0, 0, 1, 0, 0},
    {"auto, corked", {.cork = true}, 1, 1, 0, 0, 0, 2},
};

static void count_way(const struct engine *e, unsigned way)
{
    unsigned threads, after;
    struct client *c;
    struct run *r;

    snprintf(running, sizeof(running), "%s, %s\n", e->name, ways[way].name);
    run_how = ways[way].how;
    r = answered(e, &c);
    threads = e->thread_pool ? r->srv.arrangement.tuning.threads : 0;
    expect(SEAM_sendmsg, ways[way].sendmsg, 0);
    /* A loop asks whether pages that it will not read itself are in memory. */
    expect(SEAM_preadv64v2,
           ways[way].pread || e->may_block || e->thread_pool ? ways[way].pread : 1, 0);
    expect(SEAM_sendfile64, ways[way].sendfile, 0);
    expect(SEAM_splice, ways[way].splice, 0);
    /* once for each thread that meets its first request */
    expect(SEAM_pipe2, 0, run_how.way == SEND_SPLICE ? threads : 0);
    expect(SEAM_fstat64, 1 + ways[way].maps, 0);
    expect(SEAM_mmap64, ways[way].maps, 0);
    /* A call made after an answer may miss the end of the count, or precede its beginning. */
    after = atomic_load(&seam_made[SEAM_munmap]);
    assert_in_range(after + 1, ways[way].maps * REQUESTS, ways[way].maps * REQUESTS + 2);
    after = atomic_load(&seam_made[SEAM_setsockopt]);
    assert_in_range(after + 1, ways[way].corks * REQUESTS, ways[way].corks * REQUESTS + 2);
    over(r, c);
    run_how = (struct send_how){0};
}

static void small_file_by_each_way(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SERVING_ENGINES; i++)
        for (unsigned way = 0; way < sizeof(ways) / sizeof(ways[0]); way++)
            if (can_run(serving_engines[i]) && serving_engines[i]->model != ENGINE_COMPLETION)
                count_way(serving_engines[i], way);
    running[0] = '\0';
}

/* A file of several transfers, to a socket that takes each transfer whole. */
static void long_file_by_each_way(void **state)
{
    static const struct {
        enum send_method way;
        enum seam_call call;
        unsigned least, most;
    } rows[] = {
        {SEND_COPY, SEAM_preadv64v2, 5, 5},     {SEND_COPY, SEAM_sendmsg, 5, 5},
        {SEND_MMAP, SEAM_mmap64, 2, 2},         {SEND_MMAP, SEAM_sendmsg, 2, 2},
        {SEND_SENDFILE, SEAM_sendfile64, 2, 2}, {SEND_AUTO, SEAM_sendfile64, 2, 2},
        {SEND_SPLICE, SEAM_splice, 4, 20}, /* a pipe may be as small as the kernel makes it */
    };

    (void)state;
    for (size_t i = 0; can_run(&engine_naive) && i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct client *c;
        struct run *r;

        run_how = (struct send_how){.way = rows[i].way};
        r = answered(&engine_naive, &c);
        seam_arm((struct fault_plan){0});
        assert_int_equal(ask(c, "/long", long_body, LONG_BYTES, 200), RIGHT);
        assert_in_range(atomic_load(&seam_made[rows[i].call]), rows[i].least, rows[i].most);
        over(r, c);
    }
    run_how = (struct send_how){0};
}

/* The file's pages are in memory, so calls send them and nothing is read into a piece. */
/* shows S30 */
static void long_file_by_the_ring(void **state)
{
    struct client *c;
    struct run *r;

    (void)state;
    if (!can_run(&engine_uring))
        return;
    r = answered(&engine_uring, &c);
    seam_arm((struct fault_plan){0});
    assert_int_equal(ask(c, "/long", long_body, LONG_BYTES, 200), RIGHT);
    assert_int_equal(atomic_load(&seam_made[SEAM_sendmsg]), 1); /* the head */
    assert_in_range(atomic_load(&seam_made[SEAM_sendfile64]), 2, 20);
    over(r, c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(small_file, tell),
                                       cmocka_unit_test_teardown(small_file_by_each_way, tell),
                                       cmocka_unit_test_teardown(long_file_by_each_way, tell),
                                       cmocka_unit_test_teardown(long_file_by_the_ring, tell)};

    (void)argc;
    begin_program(argv);
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
