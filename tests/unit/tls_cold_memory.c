/* SPDX-License-Identifier: MIT */
/* tls_cold_memory.c - allocations are refused in turn in processes that have not used OpenSSL yet:
 * it prepares much when it is first needed, and some of that only once.
 */
#include <signal.h>
#include <sys/wait.h>
#include "tls_refuse.h"

static const struct plan plan = {.name = "cold", .version = TLS1_3_VERSION, .host = "a.example"};

/* How a process ends: the certificates could not be read, which it said; the next connection works,
 * or does not; there were fewer allocations. */
enum { NOT_OPEN = 40, WORKS, DEAD, NOT_REACHED };

static void child(unsigned n, bool after)
{
    struct talk t = {&plan, NULL};
    bool reached, works;
    struct client *k;
    int code;

    refuse_begin(n, after);
    refuse_on();
    code = tls_open(&t.setup, &pairs, (struct tls_offer){.h2 = false});
    refuse_off();
    if (code)
        _exit(*said ? NOT_OPEN : DEAD);
    t.setup->inner = &http_proto;
    client_prepare();
    answers_make(&answers, &plan);
    converse(&t, false);
    reached = refuse_reached();
    calm();
    k = client_open(&plan, t.setup);
    client_run(k);
    works = client_has_all(k);
    _exit(!reached ? NOT_REACHED : works ? WORKS : DEAD);
}

static int run(unsigned n, bool after)
{
    pid_t pid = fork();
    int status;

    must(pid >= 0);
    if (!pid) {
        signal(SIGSEGV, SIG_DFL); /* cmocka's handler would go on with the tests */
        child(n, after);
    }
    must(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void in_cold_processes(bool after)
{
    unsigned count[NOT_REACHED + 1] = {0};
    int how;

    for (unsigned n = 1; count[NOT_REACHED] == 0; n = next(n)) {
        how = run(n, after);
        if (how < NOT_OPEN || how == DEAD)
            print_error("cold, allocation %u%s: %d\n", n, after ? " and all after it" : "", how);
        assert_in_range(how, NOT_OPEN, NOT_REACHED);
        count[how]++;
    }
    print_message("certificates were not read in %u processes, the next connection worked in %u, "
                  "and not in %u\n", count[NOT_OPEN], count[WORKS], count[DEAD]);
    assert_int_equal(count[DEAD], 0);
    assert_true(count[NOT_OPEN] > 20 && count[WORKS]);
}

static void cold(void **state)
{
    (void)state;
    in_cold_processes(false);
}

static void cold_all_after(void **state)
{
    (void)state;
    in_cold_processes(true);
}

/* Files are made by a process of their own. */
static int cold_set_up(void **state)
{
    pid_t pid;
    int status;

    (void)state;
    folder_open();
    pid = fork();
    must(pid >= 0);
    if (!pid) {
        make_folder("now");
        _exit(0);
    }
    must(waitpid(pid, &status, 0) == pid);
    return status;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cold),
        cmocka_unit_test(cold_all_after),
    };

    step = 199;
    take_arguments(argc, argv);
    return cmocka_run_group_tests_name("tls_cold_memory", tests, cold_set_up, folder_close);
}
