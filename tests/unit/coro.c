/* SPDX-License-Identifier: MIT */
/* coro.c - coroutines: they resume where they were suspended, keep the registers that a call must
 * preserve, and end at a page that faults.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "../../base/coro.h"

enum { CROWD = 200, TURNS = 50 };

struct counter {
    unsigned from, at, to;
};

static void count(struct coro *self, void *arg)
{
    struct counter *c = arg;

    for (c->at = c->from; c->at < c->to; c->at++)
        coro_suspend(self);
}

static void runs_and_ends(void **state)
{
    struct counter c = {.to = 3};
    struct coro *co = coro_open(count, &c);

    (void)state;
    assert_non_null(co);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(coro_resume(co));
        assert_int_equal(c.at, i);
    }
    assert_false(coro_resume(co));
    coro_close(co);
}

/* shows N18 */
static void many_take_turns(void **state)
{
    struct counter c[CROWD];
    struct coro *co[CROWD];

    (void)state;
    for (unsigned i = 0; i < CROWD; i++) {
        c[i] = (struct counter){.from = i, .to = i + TURNS};
        co[i] = coro_open(count, &c[i]);
        assert_non_null(co[i]);
    }
    for (unsigned turn = 0; turn < TURNS; turn++)
        for (unsigned i = 0; i < CROWD; i++) {
            assert_true(coro_resume(co[i]));
            assert_int_equal(c[i].at, i + turn);
        }
    for (unsigned i = 0; i < CROWD; i++) {
        assert_false(coro_resume(co[i]));
        coro_close(co[i]);
    }
}

/* Values that a compiler keeps in preserved registers, integer and floating point. */
static double mix(struct coro *self, unsigned n, double x)
{
    uint64_t a = n, b = n * 3, c = n * 5, d = n * 7, e = n * 11, f = n * 13;
    double y = x * 2, z = x * 3;

    for (unsigned i = 0; i < TURNS; i++) {
        if (self)
            coro_suspend(self);
        a += b;
        b ^= c;
        c += d;
        d ^= e;
        e += f;
        f ^= a;
        y += z;
        z += x;
    }
    return (double)((a ^ b ^ c ^ d ^ e ^ f) & 0xffff) + y;
}

struct mixer {
    unsigned n;
    double result;
};

static void mix_main(struct coro *self, void *arg)
{
    struct mixer *m = arg;

    m->result = mix(self, m->n, 1.5);
}

/* shows S22 */
static void registers_survive(void **state)
{
    struct mixer one = {.n = 17}, two = {.n = 23};
    struct coro *a = coro_open(mix_main, &one), *b = coro_open(mix_main, &two);
    bool more = true;

    (void)state;
    while (more) {
        more = coro_resume(a);
        assert_true(coro_resume(b) == more);
    }
    assert_true(one.result == mix(NULL, 17, 1.5));
    assert_true(two.result == mix(NULL, 23, 1.5));
    coro_close(a);
    coro_close(b);
}

static void use_stack(struct coro *self, void *arg)
{
    volatile char deep[24 * 1024];

    (void)arg;
    for (size_t i = 0; i < sizeof(deep); i += 512)
        deep[i] = 1;
    coro_suspend(self);
    deep[0] = 2;
}

static void stack_use_is_known(void **state)
{
    struct counter c = {.to = 1};
    struct coro *shallow = coro_open(count, &c), *deep = coro_open(use_stack, NULL);

    (void)state;
    coro_resume(shallow);
    coro_resume(deep);
    assert_in_range(coro_touched(shallow), 1, 20 * 1024);
    assert_in_range(coro_touched(deep), 24 * 1024, 40 * 1024);
    coro_close(shallow);
    coro_close(deep); /* in the middle: nothing is unwound */
}

static unsigned dig(unsigned depth)
{
    volatile char hole[1024];

    hole[0] = (char)depth;
    return depth ? dig(depth - 1) + (unsigned)hole[0] : 0;
}

static void overflow(struct coro *self, void *arg)
{
    (void)self;
    *(unsigned *)arg = dig(2 * CORO_STACK_BYTES / 1024);
}

/* An overflow faults at the guard page and does not overwrite the memory below. */
static void overflow_is_caught(void **state)
{
    struct rlimit none = {0, 0};
    unsigned result = 0;
    int status;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would report it and exit */
        signal(SIGBUS, SIG_DFL);
        coro_resume(coro_open(overflow, &result));
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_and_ends),     cmocka_unit_test(many_take_turns),
        cmocka_unit_test(registers_survive), cmocka_unit_test(stack_use_is_known),
        cmocka_unit_test(overflow_is_caught),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
