/* SPDX-License-Identifier: MIT */
/* engines.c - every engine that serves, under the echo protocol: it answers, keeps its deadlines,
 * evicts idle connections, stops.
 *
 * A new engine is tested by appearing in ENGINES.  The protocol is echo, so that a failure here is
 * one of the waiting only.  An argument says which engines: serving_asked().
 */
#include "../serving.h"
#include <linux/sockios.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <cmocka.h>

static const char *running; /* the engine under test, named with a failure */
static const char *only;    /* the program's argument */

static void stop(struct serving *s)
{
    server_stop(&s->srv);
    assert_true(serving_left(s));
    assert_int_equal(s->result, 0);
    assert_int_equal(stats_live(s->srv.stats), 0);
    assert_int_equal(stats_sum(s->srv.stats, STAT_ACCEPTED), stats_sum(s->srv.stats, STAT_CLOSED));
    serving_empty(s);
}

/* shows E23 */
static void answers_one_after_another(const struct engine *e)
{
    struct serving s;

    serving_fill(&s, e, &echo_proto);
    serving_start(&s);
    for (unsigned i = 0; i < 50; i++) {
        int fd = client_open(s.port);

        assert_true(client_echo(fd, "one", 3));
        assert_true(client_echo(fd, "two", 3));
        close(fd);
    }
    stop(&s);
}

/* Send more than the sockets' buffers hold, and read only when nothing more can be sent: the
 * server must wait for its reader, and go on where it stopped. */
static void waits_for_a_slow_reader(const struct engine *e)
{
    enum { BYTES = 16 << 20 };
    static char bytes[65536], buf[65536];
    struct serving s;
    size_t sent = 0, got = 0;
    bool blocked = false;
    int fd;

    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 7 + i / 251);
    serving_fill(&s, e, &echo_proto);
    serving_start(&s);
    fd = client_open(s.port);
    while (got < BYTES) {
        size_t at = sent % sizeof(bytes), cap = sizeof(bytes) - at;
        ssize_t n = sent < BYTES ? send(fd, bytes + at, cap, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;

        if (n > 0) {
            sent += (size_t)n;
            continue;
        }
        blocked |= n < 0;
        at = got % sizeof(bytes);
        n = client_recv(fd, buf, sizeof(bytes) - at);
        assert_true(n > 0);
        assert_memory_equal(buf, bytes + at, (size_t)n);
        got += (size_t)n;
    }
    assert_true(blocked); /* otherwise the test sends too little */
    close(fd);
    stop(&s);
}

/* More has come before the first turn than one turn may move: the rest causes no event. */
/* shows S04 */
static void comes_again_without_an_event(const struct engine *e)
{
    enum { BYTES = (PUMP_CALLS_MAX / 2 + 2) * RECV_BYTES_MAX };
    static char bytes[BYTES], buf[BYTES];
    const int room = 2 * BYTES;
    struct serving s;
    int fd, queued = 1;
    long n;

    serving_fill(&s, e, &echo_proto);
    assert_int_equal(
        setsockopt(s.srv.listener[0][0], SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)), 0);
    fd = client_open(s.port);
    assert_true(client_send(fd, bytes, BYTES));
    for (unsigned ms = 0; queued > 0 && ms < SERVING_PATIENCE_MS; ms++) {
        serving_nap(1);
        assert_int_equal(ioctl(fd, SIOCOUTQ, &queued), 0);
    }
    assert_int_equal(queued, 0); /* all bytes are in the server's socket */
    serving_start(&s);
    for (size_t got = 0; got < BYTES; got += (size_t)n) {
        n = client_recv(fd, buf, sizeof(buf));
        assert_true(n > 0);
    }
    close(fd);
    stop(&s);
}

/* A client of the next test: how much it has sent and received of PATTERN_BYTES. */
struct talker {
    int fd;
    size_t sent, got;
};

enum { TALKERS = 8, PATTERN_BYTES = 300000 };
static char pattern[PATTERN_BYTES];

/* Send or receive a random piece, as far as that is possible now. */
static void talk(struct talker *t, unsigned *seed)
{
    static char buf[65536];
    size_t piece = 1 + (size_t)rand_r(seed) % (rand_r(seed) % 4 ? 600 : sizeof(buf));
    ssize_t n;

    if (rand_r(seed) % 2 && t->sent < PATTERN_BYTES) {
        piece = piece < PATTERN_BYTES - t->sent ? piece : PATTERN_BYTES - t->sent;
        n = send(t->fd, pattern + t->sent, piece, MSG_NOSIGNAL | MSG_DONTWAIT);
        t->sent += n > 0 ? (size_t)n : 0;
        if (t->sent == PATTERN_BYTES)
            shutdown(t->fd, SHUT_WR); /* the end comes with the last bytes, or right after */
        return;
    }
    n = recv(t->fd, buf, piece, MSG_DONTWAIT);
    assert_true(n > 0 || (n < 0 && errno == EAGAIN));
    if (n > 0) {
        assert_memory_equal(buf, pattern + t->got, (size_t)n);
        t->got += (size_t)n;
    }
}

/* Bytes come and are taken in any pattern, by several clients at once: all are returned, and then
 * the end, although no client ever sends twice to get an answer. */
/* shows N08, S04 */
static void loses_no_wake_up(const struct engine *e)
{
    unsigned seed = 1, count = e->capacity && e->capacity < TALKERS ? e->capacity : TALKERS;
    uint64_t moved_ms = serving_ms();
    struct talker t[TALKERS] = {0};
    struct serving s;
    unsigned left = count;

    for (unsigned i = 0; i < PATTERN_BYTES; i++)
        pattern[i] = (char)(i * 7 + i / 251);
    serving_fill(&s, e, &echo_proto);
    s.srv.arrangement.tuning.threads = TALKERS;
    serving_start(&s);
    for (unsigned i = 0; i < count; i++)
        t[i].fd = client_open(s.port);
    while (left > 0) {
        struct talker *one = &t[(unsigned)rand_r(&seed) % count];
        size_t before = one->sent + one->got;

        if (one->got == PATTERN_BYTES)
            continue;
        talk(one, &seed);
        left -= one->got == PATTERN_BYTES;
        if (one->sent + one->got > before)
            moved_ms = serving_ms();
        else
            serving_nap(rand_r(&seed) % 16 == 0); /* sometimes let the server fall asleep */
        assert_true(serving_ms() - moved_ms < SERVING_PATIENCE_MS);
    }
    for (unsigned i = 0; i < count; i++) {
        assert_true(client_ended(t[i].fd)); /* long before its deadline */
        close(t[i].fd);
    }
    stop(&s);
}

static void head_deadline_ends_a_silent_one(const struct engine *e)
{
    struct serving s;
    int fd;

    serving_fill(&s, e, &echo_proto);
    s.srv.head_ms = 100;
    serving_start(&s);
    fd = client_open(s.port);
    assert_true(client_ended(fd));
    close(fd);
    assert_int_equal(stats_sum(s.srv.stats, STAT_EXPIRED), 1);
    stop(&s);
}

static void idle_deadline_ends_an_idle_one(const struct engine *e)
{
    struct serving s;
    int fd;

    serving_fill(&s, e, &echo_proto);
    s.srv.idle_ms = 100;
    serving_start(&s);
    fd = client_open(s.port);
    assert_true(client_echo(fd, "x", 1));
    assert_true(client_ended(fd));
    close(fd);
    assert_int_equal(stats_sum(s.srv.stats, STAT_EXPIRED), 1);
    stop(&s);
}

/* The client sends for ever and reads nothing. */
static void progress_rule_ends_a_stuck_reader(const struct engine *e)
{
    static const char bytes[65536];
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;
    struct serving s;
    int fd;

    serving_fill(&s, e, &echo_proto);
    s.srv.send_ms = 100;
    serving_start(&s);
    fd = client_open(s.port);
    while (serving_ms() < until_ms && !stats_sum(s.srv.stats, STAT_EXPIRED))
        if (send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            serving_nap(1);
    assert_int_equal(stats_sum(s.srv.stats, STAT_EXPIRED), 1);
    close(fd);
    stop(&s);
}

/* At its capacity an engine gives the slot of the longest-idle client to a waiting one. */
/* shows D32 */
static void makes_room(const struct engine *e)
{
    enum { SLOTS = 3 };
    unsigned slots = e->capacity && e->capacity < SLOTS ? e->capacity : SLOTS;
    struct serving s;
    int fd[SLOTS + 1];

    serving_fill(&s, e, &echo_proto);
    s.srv.connections_max = SLOTS;
    serving_start(&s);
    for (unsigned i = 0; i < slots; i++) {
        fd[i] = client_open(s.port);
        assert_true(client_echo(fd[i], "slot", 4));
        serving_nap(20); /* so that the first is the longest idle */
    }
    fd[slots] = client_open(s.port);
    assert_true(client_echo(fd[slots], "more", 4));
    assert_true(client_ended(fd[0]));
    assert_int_equal(stats_sum(s.srv.stats, STAT_EVICTED), 1);
    for (unsigned i = 1; i <= slots; i++)
        assert_true(client_echo(fd[i], "stay", 4));
    for (unsigned i = 0; i <= slots; i++)
        close(fd[i]);
    stop(&s);
}

/* The thread that looks after blocking engines is asleep by then. */
static void makes_room_in_a_quiet_house(const struct engine *e)
{
    struct serving s;
    int first, second;

    serving_fill(&s, e, &echo_proto);
    s.srv.connections_max = 1;
    serving_start(&s);
    first = client_open(s.port);
    assert_true(client_echo(first, "slot", 4));
    for (unsigned i = 0; i < 3; i++)
        serving_nap(500);
    second = client_open(s.port);
    assert_true(client_echo(second, "more", 4));
    assert_true(client_ended(first));
    close(first);
    close(second);
    stop(&s);
}

static void stop_ends_idle_ones_at_once(const struct engine *e)
{
    struct serving s;
    int fd;

    serving_fill(&s, e, &echo_proto);
    serving_start(&s);
    fd = client_open(s.port);
    assert_true(client_echo(fd, "x", 1));
    stop(&s); /* well within the minute to drain */
    assert_true(client_ended(fd));
    close(fd);
}

/* A sender that is stuck holds up the drain; its deadline, or a second signal, does not wait for
 * it. */
static void stuck_sender(struct serving *s, int *fd)
{
    static const char bytes[65536];
    uint64_t quiet_ms = serving_ms() + 300;

    *fd = client_open(s->port);
    while (serving_ms() < quiet_ms)
        if (send(*fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
            quiet_ms = serving_ms() + 300;
        else
            serving_nap(5);
}

static void drain_has_an_end(const struct engine *e)
{
    struct serving s;
    uint64_t began_ms;
    int fd;

    serving_fill(&s, e, &echo_proto);
    s.srv.drain_ms = 200;
    serving_start(&s);
    stuck_sender(&s, &fd);
    began_ms = serving_ms();
    stop(&s);
    assert_true(serving_ms() - began_ms >= 150); /* the drain time; the clock may lag a tick */
    close(fd);
}

static void second_signal_cuts_off(const struct engine *e)
{
    struct serving s;
    int fd;

    serving_fill(&s, e, &echo_proto);
    serving_start(&s);
    stuck_sender(&s, &fd);
    server_stop(&s.srv);
    serving_nap(50);
    assert_false(atomic_load(&s.left));
    stop(&s);
    close(fd);
}

/* A client in the accept queue when the signal comes, with its request sent, is served. */
static void stop_serves_the_queue(const struct engine *e)
{
    struct serving s;
    char buf[8];
    int fd[5];

    serving_fill(&s, e, &echo_proto);
    for (unsigned i = 0; i < 5; i++) {
        fd[i] = client_open(s.port);
        assert_true(client_send(fd[i], "queued", 6));
    }
    server_stop(&s.srv);
    serving_start(&s);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(client_recv(fd[i], buf, sizeof(buf)), 6);
        assert_true(client_ended(fd[i]));
        close(fd[i]);
    }
    assert_true(serving_left(&s));
    assert_int_equal(stats_sum(s.srv.stats, STAT_CLOSED), 5);
    serving_empty(&s);
}

#define EACH(check) \
    static void test_##check(void **state) \
    { \
        (void)state; \
        for (unsigned i = 0; i < SERVING_ENGINES; i++) { \
            if (serving_left_out(serving_engines[i]) || !serving_asked(serving_engines[i], only)) \
                continue; \
            running = serving_engines[i]->name; \
            check(serving_engines[i]); \
        } \
        running = NULL; \
    }
EACH(answers_one_after_another)
EACH(waits_for_a_slow_reader)
EACH(comes_again_without_an_event)
EACH(loses_no_wake_up)
EACH(head_deadline_ends_a_silent_one)
EACH(idle_deadline_ends_an_idle_one)
EACH(progress_rule_ends_a_stuck_reader)
EACH(makes_room)
EACH(makes_room_in_a_quiet_house)
EACH(stop_ends_idle_ones_at_once)
EACH(drain_has_an_end)
EACH(second_signal_cuts_off)
EACH(stop_serves_the_queue)

static int tell(void **state)
{
    (void)state;
    if (running)
        print_message("under engine %s\n", running);
    running = NULL;
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_answers_one_after_another, tell),
        cmocka_unit_test_teardown(test_waits_for_a_slow_reader, tell),
        cmocka_unit_test_teardown(test_comes_again_without_an_event, tell),
        cmocka_unit_test_teardown(test_loses_no_wake_up, tell),
        cmocka_unit_test_teardown(test_head_deadline_ends_a_silent_one, tell),
        cmocka_unit_test_teardown(test_idle_deadline_ends_an_idle_one, tell),
        cmocka_unit_test_teardown(test_progress_rule_ends_a_stuck_reader, tell),
        cmocka_unit_test_teardown(test_makes_room, tell),
        cmocka_unit_test_teardown(test_makes_room_in_a_quiet_house, tell),
        cmocka_unit_test_teardown(test_stop_ends_idle_ones_at_once, tell),
        cmocka_unit_test_teardown(test_drain_has_an_end, tell),
        cmocka_unit_test_teardown(test_second_signal_cuts_off, tell),
        cmocka_unit_test_teardown(test_stop_serves_the_queue, tell),
    };

    only = argc > 1 ? argv[1] : NULL;
    for (unsigned i = 0; i < SERVING_ENGINES; i++)
        if (serving_left_out(serving_engines[i]))
            print_message("without engine %s: %s\n", serving_engines[i]->name,
                          serving_left_out(serving_engines[i]));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
