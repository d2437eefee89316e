/* SPDX-License-Identifier: MIT */
/* congestion.c - tests of base/congestion.c: which peers are near, which algorithms pace. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>
#include "../../base/congestion.h"
#include "../../base/net.h"

static struct sockaddr_storage address(const char *text)
{
    struct net_address a;

    assert_int_equal(net_address_parse(&a, text, 80), 0);
    return a.sa;
}

/* Addresses on both sides of each border. */
static void near_and_far(void **state)
{
    static const char *const near[] = {
        "127.0.0.0", "127.255.255.255", "10.0.0.0", "10.255.255.255", "172.16.0.0",
        "172.31.255.255", "192.168.0.0", "192.168.255.255", "169.254.0.0", "169.254.255.255",
        "::1", "fc00::", "fdff:ffff::1", "fe80::", "febf:ffff::1"};
    static const char *const far[] = {
        "126.255.255.255", "128.0.0.0", "9.255.255.255", "11.0.0.0", "172.15.255.255",
        "172.32.0.0", "192.167.255.255", "192.169.0.0", "169.253.255.255", "169.255.0.0",
        "100.64.0.1", "0.0.0.0", "::", "::2", "fbff::1", "fe00::1", "fe7f::1", "fec0::1",
        "2001:db8::1"};

    (void)state;
    for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++) {
        struct sockaddr_storage sa = address(near[i]);

        assert_true(congestion_near(&sa));
        assert_int_equal(congestion_loopback(&sa),
                         strncmp(near[i], "127", 3) == 0 || strcmp(near[i], "::1") == 0);
    }
    for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++) {
        struct sockaddr_storage sa = address(far[i]);

        assert_false(congestion_near(&sa));
        assert_false(congestion_loopback(&sa));
    }
}

static void unix_is_no_address(void **state)
{
    struct sockaddr_storage sa = address("unix:/tmp/x");

    (void)state;
    assert_false(congestion_near(&sa));
    assert_false(congestion_loopback(&sa));
}

static void which_pace(void **state)
{
    (void)state;
    assert_true(congestion_paces("bbr"));
    assert_true(congestion_paces("bbr3"));
    assert_false(congestion_paces("cubic"));
    assert_false(congestion_paces("reno"));
    assert_false(congestion_paces("bb"));
    assert_false(congestion_paces(""));
    assert_false(congestion_paces(congestion_prompt()));
}

static void what_the_kernel_has(void **state)
{
    char name[CONGESTION_NAME], offered[256];

    (void)state;
    assert_int_equal(congestion_default(name), 0);
    assert_int_equal(congestion_try(name), 0);
    assert_int_equal(congestion_try("reno"), 0);
    assert_int_equal(congestion_try(congestion_prompt()), 0);
    assert_int_equal(congestion_try("nosuch"), -ENOENT);
    assert_int_equal(congestion_try(""), -EINVAL);
    congestion_offered(offered, sizeof(offered));
    assert_non_null(strstr(offered, "reno"));
    assert_null(strchr(offered, '\n'));
}

/* The peer of a loopback pair is near; a unix socket has no peer address. */
static void only_far_peers_are_told(void **state)
{
    struct net_address a;
    char was[CONGESTION_NAME] = "", is[CONGESTION_NAME] = "";
    socklen_t len = sizeof(was) - 1;
    int pair[2], fd, client, server;

    (void)state;
    net_address_parse(&a, "127.0.0.1", 0);
    fd = net_listen(&a, &(struct net_listening){.backlog = 8, .congestion = "reno"});
    assert_true(fd >= 0);
    net_address_parse(&a, "127.0.0.1", (uint16_t)net_port(fd));
    client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(client, (struct sockaddr *)&a.sa, a.len), 0);
    server = net_accept(fd, false);
    assert_true(server >= 0);
    assert_int_equal(getsockopt(server, IPPROTO_TCP, TCP_CONGESTION, was, &len), 0);
    assert_string_equal(was, "reno"); /* inherited */
    congestion_far(server, "nosuch");
    len = sizeof(is) - 1;
    assert_int_equal(getsockopt(server, IPPROTO_TCP, TCP_CONGESTION, is, &len), 0);
    assert_string_equal(is, "reno");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    congestion_far(pair[0], "reno");
    close(pair[0]);
    close(pair[1]);
    close(client);
    close(server);
    close(fd);
}

static void no_listener_with_what_is_not_there(void **state)
{
    struct net_address a;

    (void)state;
    net_address_parse(&a, "127.0.0.1", 0);
    assert_int_equal(net_listen(&a, &(struct net_listening){.backlog = 8, .congestion = "nosuch"}),
                     -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_and_far),
        cmocka_unit_test(unix_is_no_address),
        cmocka_unit_test(which_pace),
        cmocka_unit_test(what_the_kernel_has),
        cmocka_unit_test(only_far_peers_are_told),
        cmocka_unit_test(no_listener_with_what_is_not_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
