/* SPDX-License-Identifier: MIT */
/* address_table.c - places of addresses: the same one each time, which of them are given away, a
 * table that is full, and a process that dies with the lock. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../../server/address_table.h"
#include <cmocka.h>

static struct address_table *table;

static int setup(void **state)
{
    (void)state;
    table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return table == MAP_FAILED ? -1 : address_table_open(table);
}

static int teardown(void **state)
{
    (void)state;
    return munmap(table, sizeof(*table));
}

static struct address address_of(const char *text)
{
    struct address a;

    assert_true(address_parse_bare(&a, text, strlen(text)));
    return a;
}

static struct address ipv4(uint32_t n)
{
    n = htonl(n);
    return address_of_bytes(&n, sizeof(n));
}

/* The address's place, which stays its own until others push it out; NULL: it gets none. */
static struct address_place *place_of(const struct address *a)
{
    struct address_place *p = address_table_enter(table, a);

    if (p)
        address_table_leave(table, p);
    return p;
}

static struct address_place *place(const char *text)
{
    const struct address a = address_of(text);

    return place_of(&a);
}

static void test_who_shares_a_place(void **state)
{
    static const char *const apart[] = {
        "192.0.2.1", "192.0.2.2", "0.0.0.0", "::", "0:0:0:1::", "2001:db8::1", "2001:db8:0:1::1",
        "c000:201::", "ffff:ffff:ffff:ffff::"};

    (void)state;
    /* Two of them may be in one row, where a place whose bucket is full counts as free. */
    for (unsigned i = 0; i < sizeof(apart) / sizeof(apart[0]); i++)
        atomic_store(&place(apart[i])->full_ns, 1);
    for (unsigned i = 0; i < sizeof(apart) / sizeof(apart[0]); i++)
        for (unsigned k = 0; k < sizeof(apart) / sizeof(apart[0]); k++)
            assert_true((place(apart[i]) == place(apart[k])) == (i == k));
    assert_ptr_equal(place("2001:db8::1"), place("2001:db8::ffff:ffff:ffff:ffff"));
    assert_ptr_equal(place("::ffff:192.0.2.1"), place("192.0.2.1"));
    assert_false(address_is_counted(&(struct address){.family = ADDRESS_UNIX}));
    assert_false(address_is_counted(&(struct address){.family = ADDRESS_NONE}));
}

/* The first `count` addresses that fall into the row of `like`. */
static void neighbours(const struct address_place *like, struct address *found, unsigned count)
{
    size_t row = (size_t)(like - table->place) / TABLE_WAYS;

    for (uint32_t n = 1; count; n++) {
        const struct address a = ipv4(n);
        const struct address_place *p = place_of(&a);

        if (p && (size_t)(p - table->place) / TABLE_WAYS == row) {
            *found++ = a;
            count--;
        }
    }
}

enum { NEXT = TABLE_WAYS + 1 };

/* A row's places are set by hand: the one whose bucket is full first goes first. */
static void test_the_fullest_bucket_goes_first(void **state)
{
    struct address_place *row = &table->place[0], *p;
    struct address a[NEXT];

    (void)state;
    neighbours(row, a, NEXT);
    memset(row, 0, TABLE_WAYS * sizeof(*row));
    for (unsigned i = 0; i < TABLE_WAYS; i++) {
        p = place_of(&a[i]);
        p->full_ns = 1000 + (i + 5) % TABLE_WAYS; /* that of a[3] is full first */
    }
    for (unsigned i = 0; i < TABLE_WAYS; i++)
        assert_int_equal(place_of(&a[i])->full_ns, 1000 + (i + 5) % TABLE_WAYS);
    p = place_of(&a[3]);
    assert_ptr_equal(place_of(&a[TABLE_WAYS]), p);
    assert_int_equal(p->full_ns, 0); /* a new bucket */
    for (unsigned i = 0; i < TABLE_WAYS; i++)
        if (i != 3)
            assert_int_equal(place_of(&a[i])->full_ns, 1000 + (i + 5) % TABLE_WAYS);
}

/* Places with connections stay, whatever comes; in a row of such the next address gets none, until
 * one of them has no connection left. */
static void test_a_full_row(void **state)
{
    struct address_place *row = &table->place[TABLE_WAYS], *p;
    struct address a[NEXT];

    (void)state;
    neighbours(row, a, NEXT);
    memset(row, 0, TABLE_WAYS * sizeof(*row));
    for (unsigned i = 0; i < TABLE_WAYS; i++)
        *(i % 2 ? &place_of(&a[i])->open : &place_of(&a[i])->refused) = 1;
    assert_null(place_of(&a[TABLE_WAYS]));
    for (unsigned i = 0; i < TABLE_WAYS; i++)
        assert_non_null(place_of(&a[i]));
    address_place_less(&place_of(&a[6])->refused);
    p = place_of(&a[TABLE_WAYS]);
    assert_ptr_equal(p, &row[6]);
    p->open = 1;
    assert_null(place_of(&a[6]));
}

/* More addresses than places, none of which has a connection: each gets one. */
static void test_a_crowd(void **state)
{
    unsigned used = 0;

    (void)state;
    for (uint32_t n = 0; n < 3 * TABLE_PLACES; n++) {
        const struct address a = ipv4(0x0a000000 + n);
        struct address_place *p = place_of(&a);

        assert_non_null(p);
        p->full_ns = n + 1;
    }
    for (unsigned i = 0; i < TABLE_PLACES; i++)
        used += table->place[i].family != ADDRESS_NONE;
    assert_in_range(used, TABLE_PLACES * 99 / 100, TABLE_PLACES);
}

/* Addresses in order spread over the rows as chance would have it, and differently in each
 * server. */
static void test_spread(void **state)
{
    unsigned fill[TABLE_ROWS] = {0}, most = 0;

    (void)state;
    for (uint32_t n = 0; n < TABLE_ROWS; n++) {
        const struct address a = ipv4(0xc0a80000 + n);

        most = ++fill[(place_of(&a) - table->place) / TABLE_WAYS] > most ? most + 1 : most;
    }
    assert_in_range(most, 3, 12);
}

static void test_counts(void **state)
{
    atomic_uint n = 2;

    (void)state;
    address_place_less(&n);
    assert_int_equal(n, 1);
    address_place_less(&n);
    address_place_less(&n);
    assert_int_equal(n, 0);
}

/* A process is killed while it has the lock of each row in turn. */
static void test_a_process_that_dies_with_the_lock(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 4 * TABLE_LOCKS; n++) {
        const struct address a = ipv4(0xac100000 + n);
        pid_t pid = fork();
        int status;

        assert_true(pid >= 0);
        if (pid == 0) {
            struct address_place *p = address_table_enter(table, &a);

            p->full_ns = 4711 + n;
            kill(getpid(), SIGKILL);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(place_of(&a)->full_ns, 4711 + n);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_who_shares_a_place, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_fullest_bucket_goes_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_full_row, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_crowd, setup, teardown),
        cmocka_unit_test_setup_teardown(test_spread, setup, teardown),
        cmocka_unit_test(test_counts),
        cmocka_unit_test_setup_teardown(test_a_process_that_dies_with_the_lock, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
