/* SPDX-License-Identifier: MIT */
/* stops.c - a server that must stop at the worst moment stops.
 *
 * A loop checks once a turn whether to stop, and then looks at the events that woke it.  The linker
 * sends clock_gettime() through here: the loop calls it right after that check, and server_stop()
 * is called here.  A loop that now took the notice for handled would sleep for ever.
 */
#include "../serving.h"
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>
#include <cmocka.h>

enum { ROUNDS = 10, ARRIVES_MS = 2 };

static struct server *_Atomic armed; /* stopped when it next reads the clock */
static pthread_t tests;
static pid_t process;

int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
    struct server *srv = NULL;

    if (!pthread_equal(pthread_self(), tests) && getpid() == process)
        srv = atomic_exchange(&armed, NULL);
    if (srv) {
        server_stop(srv);
        serving_nap(ARRIVES_MS); /* until the notice is in the set that the loop checks next */
    }
    return __real_clock_gettime(clock, ts);
}

static void stop_in_the_middle_of_a_turn(const struct engine *e)
{
    struct serving s;
    int fd;

    serving_fill(&s, e, &echo_proto);
    serving_start(&s);
    fd = client_open(s.port);
    assert_true(client_echo(fd, "x", 1));
    atomic_store(&armed, &s.srv);
    close(fd); /* with no session left, no deadline wakes the loop again */
    serving_nap(5 * ARRIVES_MS);
    if (atomic_exchange(&armed, NULL)) /* it read no clock, so nothing is tested */
        server_stop(&s.srv);
    if (!serving_left(&s))
        fail_msg("engine %s does not stop", e->name);
    assert_int_equal(s.result, 0);
    serving_empty(&s);
}

static void test_stop_in_the_middle_of_a_turn(void **state)
{
    (void)state;
    tests = pthread_self();
    process = getpid();
    for (unsigned i = 0; i < SERVING_ENGINES; i++)
        for (unsigned n = 0; n < ROUNDS && !serving_left_out(serving_engines[i]); n++)
            stop_in_the_middle_of_a_turn(serving_engines[i]);
}

int main(void)
{
    const struct CMUnitTest tests_of_stops[] = {
        cmocka_unit_test(test_stop_in_the_middle_of_a_turn),
    };

    return cmocka_run_group_tests(tests_of_stops, NULL, NULL);
}
