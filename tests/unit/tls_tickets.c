/* SPDX-License-Identifier: MIT */
/* tls_tickets.c - keys of session tickets: how long each is valid, and that processes share them,
 * whichever of them dies.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../../server/tls_tickets.h"

static const uint64_t period = (uint64_t)TICKET_PERIOD_S * 1000, start = 5000;
static struct tickets *tickets;

static int open_them(void **state)
{
    (void)state;
    return tickets_open(&tickets);
}

static int close_them(void **state)
{
    (void)state;
    tickets_close(tickets);
    return 0;
}

static struct ticket_key newest(uint64_t now_ms)
{
    struct ticket_key key;

    assert_true(tickets_newest(tickets, now_ms, &key));
    return key;
}

/* Whether the key that made a ticket is known, and is the newest (1) or older (2); 0: it is not. */
static unsigned known(const struct ticket_key *made, uint64_t now_ms)
{
    struct ticket_key key = {.cipher = {0}};
    bool renew;

    memcpy(key.name, made->name, sizeof(key.name));
    if (!tickets_find(tickets, now_ms, &key, &renew))
        return 0;
    assert_memory_equal(&key, made, sizeof(key));
    return renew ? 2 : 1;
}

static void a_key_serves_two_periods(void **state)
{
    struct ticket_key first = newest(start), second;

    (void)state;
    assert_int_equal(known(&first, start), 1);
    assert_int_equal(known(&first, start + period - 1), 1);
    second = newest(start + period);
    assert_memory_not_equal(&first, &second, sizeof(first));
    assert_int_equal(known(&second, start + period), 1);
    assert_int_equal(known(&first, start + 2 * period - 1), 2);
    assert_int_equal(known(&first, start + 2 * period), 0);
    assert_int_equal(known(&second, start + 2 * period), 2);
}

static void after_a_long_silence_none_is_known(void **state)
{
    struct ticket_key first = newest(start);

    (void)state;
    assert_int_equal(known(&first, start + 2 * period), 0);
}

static void no_two_are_alike(void **state)
{
    struct ticket_key a = newest(start), unknown = {.name = {1}};

    (void)state;
    assert_memory_not_equal(a.cipher, a.mac, sizeof(a.mac));
    assert_int_equal(known(&unknown, start), 0);
}

static void processes_share_them(void **state)
{
    struct ticket_key mine;
    int pipes[2], status;

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    if (fork() == 0) {
        struct ticket_key key;

        _exit(tickets_newest(tickets, start, &key) &&
              write(pipes[1], &key, sizeof(key)) == sizeof(key) ? 0 : 1);
    }
    assert_true(wait(&status) > 0 && status == 0);
    assert_int_equal(read(pipes[0], &mine, sizeof(mine)), sizeof(mine));
    assert_int_equal(known(&mine, start), 1);
    close(pipes[0]);
    close(pipes[1]);
}

/* Killed at any moment, it may hold the lock; the others go on. */
static void a_process_dies(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 50; i++) {
        int pipes[2];
        pid_t child;
        char byte;

        assert_int_equal(pipe(pipes), 0);
        child = fork();
        if (child == 0)
            for (uint64_t n = 0;; n++) {
                (void)newest(start + n * period);
                if (n == i && write(pipes[1], "", 1) != 1)
                    _exit(1);
            }
        assert_int_equal(read(pipes[0], &byte, 1), 1);
        kill(child, SIGKILL);
        close(pipes[0]);
        close(pipes[1]);
        assert_int_equal(waitpid(child, NULL, 0), child);
        (void)newest(start + 1000000 * period);
    }
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, open_them, close_them)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(a_key_serves_two_periods),
        FRESH(after_a_long_silence_none_is_known),
        FRESH(no_two_are_alike),
        FRESH(processes_share_them),
        FRESH(a_process_dies),
    };

    return cmocka_run_group_tests_name("tls_tickets", tests, NULL, NULL);
}
