/* SPDX-License-Identifier: MIT */
/* faults.c - the n-th call fails, for every n: each kind of system call and allocation of a whole
 * server, with each error it can plausibly return, under every engine.
 *
 * A run is: a server opens everything it needs and serves a small folder on loopback; a client asks
 * for a file, a long file, a listing, a name that does not exist, then sends a few requests at
 * once.  While one call fails, each answer is right, or an error that says so, or the connection
 * ends.  Afterwards, with nothing failing any more, the same server answers a new client, stops at
 * a signal, and has given back all memory and descriptors.  When a failure keeps the server from
 * starting, it must say so and leave nothing behind.  Then the whole run is repeated with the
 * failure in the last moments, while a stopping server closes the connection of an idle client.  n
 * grows until the call is not made that often.  naive, epoll and uring meet every error number, the
 * other engines one or two of each kind: see in_full().  An argument says which engines:
 * serving_asked().
 */
#include "faults_server.h"

/* --- The conversation ------------------------------------------------------------------------- */

/* Hold the small conversation and return the worst verdict. */
static enum verdict converse(int port)
{
    static const struct {
        const char *target, *body;
        size_t n;
        unsigned status;
    } rows[] = {
        {"/", short_body, SHORT_BYTES, 200},
        {"/long", long_body, LONG_BYTES, 200},
        {"/list/", NULL, 0, 200},
        {"/none", NULL, 0, 404},
    };
    enum verdict worst = RIGHT, v;
    struct client *c = client_new(port);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        v = ask(c, rows[i].target, rows[i].body, rows[i].n, rows[i].status);
        worst = v > worst ? v : worst;
        if (v == ENDED) {
            client_free(c);
            c = client_new(port);
        }
    }
    client_free(c);
    c = client_new(port);
    v = say(c, "GET / HTTP/1.1\r\nHost: test\r\n\r\nHEAD /long HTTP/1.1\r\nHost: test\r\n\r\n"
               "GET /long HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
            ? judge(c, false, short_body, SHORT_BYTES, 200)
            : ENDED;
    worst = v > worst ? v : worst;
    if (v < ENDED)
        v = judge(c, true, long_body, LONG_BYTES, 200);
    if (v < ENDED)
        v = judge(c, false, long_body, LONG_BYTES, 200);
    worst = v > worst ? v : worst;
    client_free(c);
    return worst;
}

/* --- One run ---------------------------------------------------------------------------------- */

static unsigned descriptors(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* With nothing failing: a right answer, or an engine that could not even start. */
static bool still_serves(struct run *r)
{
    struct client *c = client_new(atomic_load(&r->port));
    enum verdict v = ask(c, "/", short_body, SHORT_BYTES, 200);

    client_free(c);
    assert_true(v == RIGHT || wait_left(r));
    return v == RIGHT;
}

/* Every thread of the server has ended and everything is given back. */
static void run_end(struct run *r)
{
    assert_true(wait_left(r));
    run_join(r);
    assert_true(r->result == 0 || atomic_load(&seam_hits) > 0);
}

/* Whether the client may notice the failure.  An interruption, a short transfer, and a call that
 * has nothing to do with the answer must be handled without a trace. */
static bool may_show(struct fault_plan plan)
{
    switch (plan.call) {
    case SEAM_accept4:
    case SEAM_epoll_wait:
    case SEAM_poll:
    case SEAM_select:
    case SEAM_read:
    case SEAM_write:
    case SEAM_close:
    case SEAM_getpeername:
        return false;
    case SEAM_preadv64v2:
        return plan.err == SEAM_NONE && run_how.way == SEND_COPY; /* it reads as an end of file */
    default:
        return plan.err != EINTR && plan.err != SEAM_SHORT;
    }
}

/* The failure comes while the server starts or serves. */
static void fail_serving(const struct engine *e, struct fault_plan plan)
{
    struct run *r;

    seam_arm(plan);
    r = run_start(e);
    if (!atomic_load(&r->left)) {
        enum verdict v = converse(atomic_load(&r->port));

        assert_int_not_equal(v, WRONG);
        assert_true(v == RIGHT || (atomic_load(&seam_hits) > 0 && may_show(plan)));
    }
    seam_disarm();
    if (!atomic_load(&r->left) && still_serves(r))
        run_stop(r);
    run_end(r);
}

/* The failure comes while the server stops, with an idle client. */
static void fail_stopping(const struct engine *e, struct fault_plan plan)
{
    struct run *r;
    struct client *c;

    seam_arm((struct fault_plan){0});
    r = run_start(e);
    c = client_new(atomic_load(&r->port));
    assert_int_equal(ask(c, "/", short_body, SHORT_BYTES, 200), RIGHT);
    seam_arm(plan);
    run_stop(r);
    run_end(r);
    seam_disarm();
    client_free(c);
}

/* True: the fault was met. */
static bool run_once(const struct engine *e, struct fault_plan plan, bool stopping)
{
    unsigned before = descriptors();
    long memory = atomic_load(&seam_memory);

    alarm(PATIENCE_S);
    if (stopping)
        fail_stopping(e, plan);
    else
        fail_serving(e, plan);
    alarm(0);
    assert_int_equal(descriptors(), before);
    assert_int_equal(atomic_load(&seam_memory), memory);
    return atomic_load(&seam_hits) > 0;
}

/* --- The cases -------------------------------------------------------------------------------- */

enum { ERRORS_MAX = 8 };

static const struct fault {
    enum seam_call call;
    const char *name;
    int err[ERRORS_MAX]; /* up to 0 */
    struct send_how how;
} faults[] = {
#define FAULT(call, ...) {SEAM_##call, #call, {__VA_ARGS__, 0}, {0}}
#define FAULT_BY(how, call, ...) {SEAM_##call, #call " by " #how, {__VA_ARGS__, 0}, {.way = how}}
    FAULT(accept4, EINTR, EAGAIN, ECONNABORTED, EMFILE, ENOBUFS, EPERM),
    FAULT(recv, EINTR, EAGAIN, ECONNRESET, ENOMEM, SEAM_SHORT),
    FAULT(sendmsg, EINTR, EAGAIN, EPIPE, ENOBUFS, SEAM_SHORT),
    FAULT(sendfile64, EINTR, EAGAIN, EIO, EPIPE, SEAM_SHORT, SEAM_NONE),
    FAULT(syscall, EINTR, EMFILE, ENFILE, ENOMEM, EIO, EAGAIN, EACCES),
    FAULT(fstat64, EIO, ENOMEM),
    FAULT(fstatat64, EIO, ENOMEM),
    FAULT(open64, EMFILE, ENOMEM),
    FAULT(preadv64v2, EINTR, EAGAIN, EIO, EOPNOTSUPP, SEAM_SHORT, SEAM_NONE),
    FAULT(getdents64, EIO, ENOENT),
    FAULT(lseek64, EIO),
    FAULT(epoll_create1, EMFILE, ENOMEM),
    FAULT(epoll_ctl, ENOMEM, ENOSPC),
    FAULT(epoll_wait, EINTR),
    FAULT(eventfd, EMFILE, ENOMEM),
    FAULT(poll, EINTR, ENOMEM),
    FAULT(select, EINTR, ENOMEM),
    FAULT(read, EINTR, EAGAIN),
    FAULT(write, ENOSPC, EIO, EINTR, SEAM_SHORT),
    FAULT(malloc, ENOMEM),
    FAULT(calloc, ENOMEM),
    FAULT(realloc, ENOMEM),
    FAULT(aligned_alloc, ENOMEM),
    FAULT(mmap64, ENOMEM),
    FAULT(pipe2, EMFILE, ENFILE),
    FAULT(pthread_create, EAGAIN),
    FAULT(ioctl, EINVAL),
    FAULT(getsockopt, EINVAL),
    {SEAM_setsockopt, "setsockopt", {ENOMEM, 0}, {.cork = true}},
    FAULT(shutdown, ENOTCONN),
    FAULT(close, EINTR, EIO),
    FAULT(getpeername, ENOTCONN),
    FAULT(socket, EMFILE, EAFNOSUPPORT),
    FAULT(bind, EADDRINUSE, EACCES),
    FAULT(listen, EADDRINUSE),
    FAULT(io_uring_queue_init_params, ENOMEM, EPERM),
    FAULT(io_uring_register_buf_ring, ENOMEM),
    FAULT(io_uring_submit_and_get_events, EBUSY, EAGAIN, EINTR, ENOMEM),
    FAULT_BY(SEND_COPY, preadv64v2, EINTR, EAGAIN, EIO, EOPNOTSUPP, SEAM_SHORT, SEAM_NONE),
    FAULT_BY(SEND_MMAP, mmap64, ENOMEM, ENODEV),
    FAULT_BY(SEND_MMAP, fstat64, EIO),
    FAULT_BY(SEND_MMAP, sendmsg, EFAULT, EINTR, EAGAIN, SEAM_SHORT),
    FAULT_BY(SEND_SENDFILE, sendfile64, EINTR, EAGAIN, SEAM_SHORT, SEAM_NONE),
    FAULT_BY(SEND_SPLICE, splice, EINTR, EAGAIN, EIO, SEAM_SHORT, SEAM_NONE),
    FAULT_BY(SEND_SPLICE, pipe2, EMFILE),
    FAULT_BY(SEND_SENDFILE, preadv64v2, EAGAIN, EOPNOTSUPP),
    FAULT_BY(SEND_SPLICE, preadv64v2, EAGAIN, EOPNOTSUPP),
    FAULT_BY(SEND_MMAP, preadv64v2, EAGAIN, EOPNOTSUPP),
};

enum { FAULTS = sizeof(faults) / sizeof(faults[0]) };

/* The part of the server that is the same under every engine is failed in full under three engines.
 * The others get the first error number of each kind, for every n, because they differ only in
 * which part waits for which. */
static bool in_full(const struct engine *e, const struct fault *f, unsigned k)
{
    return e == &engine_naive || e == &engine_epoll || e == &engine_uring || k == 0 ||
           f->err[k] < 0;
}

/* An engine that polls all the time makes some calls endlessly: only ASKED_MAX of them fail. */
static bool asked_too_often(const struct engine *e, struct fault_plan plan)
{
    enum { ASKED_MAX = 60 };

    return e == &engine_nonblock && plan.n >= ASKED_MAX &&
           (plan.call == SEAM_recv || plan.call == SEAM_accept4 || plan.call == SEAM_read);
}

/* Fail every n; return how many there were. */
static unsigned every_n(const struct engine *e, const struct fault *f, int err, bool stopping)
{
    struct fault_plan plan = {.call = f->call, .err = err};

    run_how = f->how;
    do {
        plan.n++;
        snprintf(running, sizeof(running), "%s, %s: call %u of %s fails with %d (%s)\n", e->name,
                 stopping ? "stopping" : "serving", plan.n, f->name, err,
                 err > 0 ? strerror(err) : "a short transfer");
    } while (run_once(e, plan, stopping) && !asked_too_often(e, plan));
    run_how = (struct send_how){0};
    return plan.n - 1;
}

/* Calls that an engine need not make in such a short life. */
static bool rare(enum seam_call call)
{
    return call == SEAM_lseek64 || call == SEAM_realloc || call == SEAM_getsockopt;
}

/* shows D18, D33, N14, S11, S31 */
static void test_fault(void **state)
{
    const struct fault *f = *state;
    unsigned runs = 0;

    for (size_t i = 0; i < SERVING_ENGINES; i++)
        for (unsigned k = 0; can_run(serving_engines[i]) && f->err[k]; k++)
            if (in_full(serving_engines[i], f, k))
                runs += every_n(serving_engines[i], f, f->err[k], false) +
                        every_n(serving_engines[i], f, f->err[k], true);
    running[0] = '\0';
    assert_true(only || runs > 0 || rare(f->call)); /* otherwise nothing was tested */
}

/* Without a fault everything is right, so the tests that follow mean something. */
static void test_no_fault(void **state)
{
    (void)state;
    for (size_t i = 0; i < SERVING_ENGINES; i++) {
        if (!can_run(serving_engines[i]))
            continue;
        snprintf(running, sizeof(running), "%s: nothing fails\n", serving_engines[i]->name);
        assert_false(run_once(serving_engines[i], (struct fault_plan){0}, false));
        assert_false(run_once(serving_engines[i], (struct fault_plan){0}, true));
    }
    running[0] = '\0';
}

/* No descriptor for as long as the client waits: nothing is accepted, and nothing spins. */
/* shows S11 */
static void test_shortage_does_not_spin(void **state)
{
    (void)state;
    for (size_t i = 0; i < SERVING_ENGINES; i++) {
        unsigned waits, before = descriptors();
        uint64_t began_ms = serving_ms();
        struct client *c;
        struct run *r;

        if (!can_run(serving_engines[i]))
            continue;
        snprintf(running, sizeof(running), "%s: no descriptor\n", serving_engines[i]->name);
        alarm(PATIENCE_S);
        seam_arm((struct fault_plan){.call = SEAM_accept4, .n = 1, .err = EMFILE, .sticky = true});
        r = run_start(serving_engines[i]);
        c = client_new(atomic_load(&r->port));
        assert_true(say(c, "GET / HTTP/1.1\r\nHost: test\r\n\r\n"));
        serving_nap(500);
        waits = atomic_load(&seam_made[SEAM_epoll_wait]) + atomic_load(&seam_made[SEAM_accept4]) +
                atomic_load(&seam_made[SEAM_poll]) + atomic_load(&seam_made[SEAM_select]);
        assert_in_range(waits, 1, serving_ms() - began_ms); /* spinning makes thousands per ms */
        seam_disarm();
        assert_int_equal(judge(c, false, short_body, SHORT_BYTES, 200), RIGHT);
        client_free(c);
        run_stop(r);
        assert_true(wait_left(r));
        run_join(r);
        alarm(0);
        assert_int_equal(descriptors(), before);
    }
    running[0] = '\0';
}

/* No thread can be started, from the n-th on.  A pool serves with the threads that it has.  The
 * engine thread refuses a connection for which it gets no thread, and serves the next one when it
 * can.  Before that it naps RETRIES_MAX times, which takes no time here. */
/* shows N03 */
static void test_threads_run_out(void **state)
{
    static const struct engine *const with_threads[] = {&engine_thread, &engine_pool};

    (void)state;
    atomic_store(&time_no_naps, true);
    for (unsigned i = 0; i < 2; i++) {
        unsigned served = 0;

        for (unsigned n = 1; can_run(with_threads[i]) && n <= 8; n++) {
            struct run *r;

            snprintf(running, sizeof(running), "%s: no threads from the %u-th on\n",
                     with_threads[i]->name, n);
            alarm(PATIENCE_S);
            seam_arm((struct fault_plan){
                .call = SEAM_pthread_create, .n = n, .err = EAGAIN, .sticky = true});
            r = run_start(with_threads[i]);
            if (converse(atomic_load(&r->port)) == RIGHT) {
                served++;
                run_stop(r);
            } else if (with_threads[i] == &engine_thread && n > 1) {
                assert_in_range(n, 2, 3); /* after the watchdog there are two connections */
                seam_disarm();
                assert_int_equal(converse(atomic_load(&r->port)), RIGHT);
                served++;
                run_stop(r);
            } else { /* nothing runs without the watchdog, or without the first thread of a pool */
                assert_in_range(n, 1, 2);
            }
            assert_true(wait_left(r));
            run_join(r);
            seam_disarm();
            alarm(0);
        }
        assert_true(only || served >= 6);
    }
    atomic_store(&time_no_naps, false);
    running[0] = '\0';
}

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[FAULTS + 3];

    (void)argc;
    begin_program(argv);
    tests[0] = (struct CMUnitTest)cmocka_unit_test_teardown(test_no_fault, tell);
    tests[1] = (struct CMUnitTest)cmocka_unit_test_teardown(test_shortage_does_not_spin, tell);
    tests[2] = (struct CMUnitTest)cmocka_unit_test_teardown(test_threads_run_out, tell);
    for (unsigned i = 0; i < FAULTS; i++)
        tests[3 + i] = (struct CMUnitTest){faults[i].name, test_fault, NULL, tell,
                                           (void *)(uintptr_t)&faults[i]};
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
