/* SPDX-License-Identifier: MIT */
/* forks.c - the engine fork when processes fail: the n-th cannot be started, none can, or a child
 * is killed in the middle of a connection.
 *
 * The linker sends fork() through here.  The parent never serves by itself: it tries again, an idle
 * child is ended to free its slot, and a connection that gets no process at all is refused.  A
 * killed child costs its own connection, which is counted as lost, and leaves no zombie.
 */
#include "../serving.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <cmocka.h>

enum { FROM_NOW_ON = 1000, CHILDREN_MAX = 64 };

static atomic_uint forks;                /* made so far */
static atomic_uint fails_from, fails_to; /* the forks that fail; 0: none */
static _Atomic pid_t child[CHILDREN_MAX];

pid_t __real_fork(void);
pid_t __wrap_fork(void);
pid_t __wrap_fork(void)
{
    unsigned n = atomic_fetch_add(&forks, 1) + 1;
    pid_t pid;

    if (n >= atomic_load(&fails_from) && n <= atomic_load(&fails_to)) {
        errno = EAGAIN;
        return -1;
    }
    pid = __real_fork();
    if (pid > 0)
        atomic_store(&child[n % CHILDREN_MAX], pid);
    return pid;
}

static void fill(struct serving *s, unsigned from, unsigned to)
{
    for (unsigned i = 0; i < CHILDREN_MAX; i++)
        atomic_store(&child[i], 0);
    atomic_store(&forks, 0);
    atomic_store(&fails_from, from);
    atomic_store(&fails_to, to);
    serving_fill(s, &engine_fork, &echo_proto);
}

static void begin(struct serving *s, unsigned from, unsigned to)
{
    fill(s, from, to);
    serving_start(s);
}

/* A child may have answered before its parent has recorded its process id. */
static pid_t nth_child(unsigned n)
{
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;

    while (!atomic_load(&child[n]) && serving_ms() < until_ms)
        serving_nap(1);
    assert_true(atomic_load(&child[n]) > 0);
    return atomic_load(&child[n]);
}

/* The server has stopped, everything is counted, and no child is left, neither running nor dead. */
static void end(struct serving *s, unsigned accepted, unsigned lost)
{
    server_stop(&s->srv);
    assert_true(serving_left(s));
    assert_int_equal(s->result, 0);
    assert_int_equal(stats_sum(s->srv.stats, STAT_ACCEPTED), accepted);
    assert_int_equal(stats_sum(s->srv.stats, STAT_LOST), lost);
    assert_int_equal(stats_sum(s->srv.stats, STAT_CLOSED), accepted - lost);
    assert_int_equal(stats_live(s->srv.stats), 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    serving_empty(s);
}

static void test_the_nth_fork_fails(void **state)
{
    enum { CLIENTS = 6 };

    (void)state;
    for (unsigned n = 1; n <= CLIENTS; n++) {
        struct serving s;

        begin(&s, n, n);
        for (unsigned i = 0; i < CLIENTS; i++) {
            int fd = client_open(s.port);

            assert_true(client_echo(fd, "one", 3));
            assert_true(client_echo(fd, "two", 3));
            close(fd);
        }
        end(&s, CLIENTS, 0);
        assert_int_equal(atomic_load(&forks), CLIENTS + 1);
    }
}

/* No process can be started while a child serves an idle client: that child gives up its slot. */
/* shows D10 */
static void test_idle_child_makes_room(void **state)
{
    struct serving s;
    char buf[8];
    int idle, late;

    (void)state;
    begin(&s, 2, FROM_NOW_ON);
    idle = client_open(s.port);
    assert_true(client_echo(idle, "child", 5));
    late = client_open(s.port);
    assert_true(client_send(late, "late", 4));
    assert_true(client_ended(idle));
    atomic_store(&fails_to, 0); /* its process has ended, and its place can be taken */
    assert_int_equal(client_recv(late, buf, sizeof(buf)), 4);
    assert_int_equal(stats_sum(s.srv.stats, STAT_EVICTED), 1);
    close(idle);
    close(late);
    end(&s, 2, 0);
}

/* A client that is served keeps its process, and one that gets none is refused; the parent waits
 * for neither. */
static void test_no_fork_at_all(void **state)
{
    enum { CLIENTS = 2 };
    struct serving s;
    char buf[8];

    (void)state;
    begin(&s, 1, FROM_NOW_ON);
    for (unsigned i = 0; i < CLIENTS; i++) {
        int fd = client_open(s.port);

        assert_true(client_recv(fd, buf, sizeof(buf)) <= 0);
        close(fd);
    }
    assert_int_equal(stats_sum(s.srv.stats, STAT_REFUSED), CLIENTS);
    end(&s, CLIENTS, 0);
}

/* The child is counted as lost and has been reaped: a zombie would still have its number. */
static bool is_buried(const struct serving *s, pid_t pid, uint64_t lost)
{
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;

    while (stats_sum(s->srv.stats, STAT_LOST) < lost && serving_ms() < until_ms)
        serving_nap(1);
    return stats_sum(s->srv.stats, STAT_LOST) == lost && kill(pid, 0) < 0 && errno == ESRCH;
}

static void test_killed_child_is_counted(void **state)
{
    static const int signals[] = {SIGKILL, SIGABRT, SIGTERM}; /* SIGSEGV is cmocka's */
    struct serving s;
    int other, fd;

    (void)state;
    begin(&s, 0, 0);
    other = client_open(s.port);
    assert_true(client_echo(other, "unharmed", 8));
    for (unsigned i = 0; i < 3; i++) {
        pid_t pid;

        fd = client_open(s.port);
        assert_true(client_echo(fd, "victim", 6));
        pid = nth_child(i + 2);
        assert_int_equal(kill(pid, signals[i]), 0);
        assert_true(client_ended(fd));
        close(fd);
        assert_true(is_buried(&s, pid, i + 1));
        assert_int_equal(stats_live(s.srv.stats), 1);
        assert_true(client_echo(other, "unharmed", 8));
    }
    close(other);
    fd = client_open(s.port);
    assert_true(client_echo(fd, "next", 4));
    close(fd);
    end(&s, 5, 3);
}

/* A killed child's slot is free again: one child after another takes a slot, and each is killed. */
/* shows N02 */
static void test_killed_children_leave_their_seats(void **state)
{
    struct serving s;

    (void)state;
    fill(&s, 0, 0);
    s.srv.connections_max = 2;
    serving_start(&s);
    for (unsigned i = 0; i < 10; i++) {
        int fd = client_open(s.port);

        assert_true(client_echo(fd, "victim", 6));
        assert_int_equal(kill(nth_child(i + 1), SIGKILL), 0);
        assert_true(client_ended(fd));
        close(fd);
    }
    end(&s, 10, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_nth_fork_fails),
        cmocka_unit_test(test_idle_child_makes_room),
        cmocka_unit_test(test_no_fork_at_all),
        cmocka_unit_test(test_killed_child_is_counted),
        cmocka_unit_test(test_killed_children_leave_their_seats),
    };

    alarm(200); /* a test that hangs fails */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
