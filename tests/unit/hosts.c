/* SPDX-License-Identifier: MIT */
/* hosts.c - unit tests of server/hosts.c: which name is in a request, and which site has it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "../../server/hosts.h"

enum { NAMES = 1000 };

static struct host_name table[NAMES];
static struct hosts hosts;

static void begin(void)
{
    memset(table, 0, sizeof(table));
    hosts = (struct hosts){.count = 9, .name = table};
}

static void test_found(void **state)
{
    static const struct {
        const char *name;
        unsigned number;
    } cases[] = {
        {"example.org", 1}, {"www.example.org", 2}, {"a.example.org", 3}, {"b.a.example.org", 3},
        {"x.www.example.org", 3}, {"deep.example.org", 3}, {"x.deep.example.org", 4},
        {"y.x.deep.example.org", 4}, {"xexample.org", 0}, {"example.com", 0}, {"org", 0},
        {"", 0}, {".", 0}, {".example.org", 0}, {"..example.org", 3}, {"[::1]", 5},
        {"192.0.2.7", 6}, {"localhost", 7}, {"example.org.x", 0}, {"test", 0}, {"a.test", 8},
    };

    (void)state;
    begin();
    assert_int_equal(hosts_name(&hosts, "*.example.org", 3), 0);
    assert_int_equal(hosts_name(&hosts, "Example.ORG", 1), 0);
    assert_int_equal(hosts_name(&hosts, "*.Deep.example.org", 4), 0);
    assert_int_equal(hosts_name(&hosts, "www.example.org.", 2), 0);
    assert_int_equal(hosts_name(&hosts, "[::1]", 5), 0);
    assert_int_equal(hosts_name(&hosts, "192.0.2.7", 6), 0);
    assert_int_equal(hosts_name(&hosts, "localhost", 7), 0);
    assert_int_equal(hosts_name(&hosts, "*.test", 8), 0);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (hosts_find(&hosts, cases[i].name) != cases[i].number)
            fail_msg("%s: %u", cases[i].name, hosts_find(&hosts, cases[i].name));
}

static void test_no_names(void **state)
{
    (void)state;
    begin();
    assert_int_equal(hosts_find(&hosts, "example.org"), 0);
    assert_int_equal(hosts_find(&hosts, ""), 0);
}

static void test_refused(void **state)
{
    static const char *const wrong[] = {"", "*", "*.", "*..org", "*x.org", "a.*", "*.*.org", "a b",
                                        "example.org:80", "*.example.org:80", "http://a", "a/b",
                                        "::1", "[::1", "[::1]:80", ".", ".org", "a@b",
                                        "\xc3\xa9.org"};
    char name[HOST_TEXT + 8];

    (void)state;
    begin();
    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (hosts_name(&hosts, wrong[i], 1) != -EINVAL)
            fail_msg("'%s' is a name", wrong[i]);
    assert_int_equal(hosts.names, 0);
    assert_int_equal(hosts_name(&hosts, "a.org", 1), 0);
    assert_int_equal(hosts_name(&hosts, "A.org.", 2), -EEXIST);
    assert_int_equal(hosts_name(&hosts, "*.a.org", 2), 0); /* not the same */
    assert_int_equal(hosts_name(&hosts, "*.A.org", 1), -EEXIST);
    assert_int_equal(hosts.names, 2);
    memset(name, 'x', sizeof(name));
    name[HOST_TEXT] = '\0';
    assert_int_equal(hosts_name(&hosts, name, 1), -EINVAL);
    name[HOST_TEXT - 1] = '\0';
    assert_int_equal(hosts_name(&hosts, name, 1), 0);
    assert_int_equal(hosts_find(&hosts, name), 1);
}

/* The table stays sorted, in whatever order names come. */
static void test_many(void **state)
{
    char name[32];

    (void)state;
    begin();
    for (unsigned i = 0; i < NAMES; i++) {
        snprintf(name, sizeof(name), "%sn%u.example", i % 2 ? "*." : "", i * 7919 % NAMES);
        assert_int_equal(hosts_name(&hosts, name, 1 + i), 0);
    }
    for (unsigned i = 1; i < NAMES; i++)
        assert_true(strcmp(table[i - 1].text, table[i].text) < 0);
    for (unsigned i = 0; i < NAMES; i++) {
        snprintf(name, sizeof(name), "%sn%u.example", i % 2 ? "a." : "", i * 7919 % NAMES);
        assert_int_equal(hosts_find(&hosts, name), 1 + i);
    }
}

static void test_read(void **state)
{
    static const struct {
        const char *authority, *name;
    } cases[] = {
        {"", ""}, {"Example.ORG", "example.org"}, {"example.org:8080", "example.org"},
        {"example.org:", "example.org"}, {"example.org.", "example.org"},
        {"example.org.:80", "example.org"}, {"[::1]", "[::1]"},
        {"[2001:DB8::7]:443", "[2001:db8::7]"},
        {".", "."}, {"a..", "a."}, {":80", ""}, {"[::1", "[::1"},
    };
    char name[HOST_TEXT], text[HOST_TEXT + 8];

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hosts_read((struct slice){cases[i].authority, strlen(cases[i].authority)}, name);
        assert_string_equal(name, cases[i].name);
    }
    hosts_read((struct slice){NULL, 0}, name);
    assert_string_equal(name, "");
    memset(text, 'x', sizeof(text));
    hosts_read((struct slice){text, HOST_TEXT - 1}, name);
    assert_int_equal(strlen(name), HOST_TEXT - 1);
    hosts_read((struct slice){text, HOST_TEXT}, name);
    assert_string_equal(name, "");
}

static void test_authority(void **state)
{
    static const struct {
        const char *request, *authority;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHost: a.org:80\r\n\r\n", "a.org:80"},
        {"GET / HTTP/1.0\r\n\r\n", ""},
        {"GET / HTTP/1.1\r\nHost:\r\n\r\n", ""},
        {"GET http://b.org/x HTTP/1.1\r\nHost: a.org\r\n\r\n", "b.org"},
        {"GET HTTP://b.org:81?x HTTP/1.1\r\nHost: a.org\r\n\r\n", "b.org:81"},
        {"GET http://b.org HTTP/1.0\r\n\r\n", "b.org"},
        {"POST http://b.org/ HTTP/1.1\r\nHost: a.org\r\n\r\n", "b.org"},
        {"OPTIONS * HTTP/1.1\r\nHost: a.org\r\n\r\n", "a.org"},
        {"CONNECT b.org:443 HTTP/1.1\r\nHost: a.org\r\n\r\n", "a.org"},
        {"GET /http://b.org/ HTTP/1.1\r\nHost: a.org\r\n\r\n", "a.org"},
    };
    struct http_head head;

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t n = strlen(cases[i].request);
        struct slice got;

        assert_int_equal(http_parse_request(cases[i].request, n, &head), n);
        got = hosts_authority(&head);
        if (!slice_is(got, cases[i].authority))
            fail_msg("%s: '%.*s'", cases[i].request, (int)got.len, got.ptr);
    }
    memset(&head, 0, sizeof(head)); /* of a head that was refused */
    assert_int_equal(hosts_authority(&head).len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),   cmocka_unit_test(test_no_names),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_many),
        cmocka_unit_test(test_read),    cmocka_unit_test(test_authority),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
