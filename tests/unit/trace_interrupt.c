/* SPDX-License-Identifier: MIT */
/* trace_interrupt.c - a signal that reaches a child as soon as it exists ends it.
 *
 * The linker sends fork() through here, which sends each child a signal before it does anything.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <cmocka.h>
#include "../../tools/trace/interrupt.c"

static int sent;

pid_t __real_fork(void);
pid_t __wrap_fork(void);
pid_t __wrap_fork(void)
{
    pid_t pid = __real_fork();

    if (pid == 0)
        raise(sent);
    return pid;
}

static void the_first_signal_ends_the_child(void **state)
{
    int status;

    (void)state;
    interrupt_catch();
    for (unsigned i = 0; i < SIGNALS; i++) {
        pid_t pid;

        sent = signals[i];
        pid = interrupt_fork();
        if (pid == 0)
            _exit(0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), sent);
    }
    assert_false(interrupted());
}

static void the_parent_catches_as_before(void **state)
{
    (void)state;
    interrupt_catch();
    raise(SIGTERM);
    assert_true(interrupted());
    interrupt_clear();
    assert_false(interrupted());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_signal_ends_the_child),
        cmocka_unit_test(the_parent_catches_as_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
