/* SPDX-License-Identifier: MIT */
/* net.c - addresses, listeners and queries of base/net.c over real sockets of this machine. */
#include "pair.h"
#include <sys/un.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

static const struct net_listening plain = {.backlog = 8};

static void waited(bool reached)
{
    assert_true(reached);
}

/* --- Addresses -------------------------------------------------------------------------------- */

static void addresses_there_and_back(void **state)
{
    static const char *const rows[][2] = {
        {"127.0.0.1", "127.0.0.1:80"},   {"localhost", "127.0.0.1:80"}, {"*", "0.0.0.0:80"},
        {"::1", "[::1]:80"},             {"[::1]", "[::1]:80"},         {"::", "[::]:80"},
        {"[2001:db8::7]", "[2001:db8::7]:80"}, {"unix:/tmp/s", "unix:/tmp/s"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct net_address a;
        char text[NET_ADDRESS_TEXT];

        assert_int_equal(net_address_parse(&a, rows[i][0], 80), 0);
        net_address_text(&a, text);
        assert_string_equal(text, rows[i][1]);
    }
}

static void addresses_refused(void **state)
{
    static const char *const rows[] = {
        "", "example", "1.2.3", "1.2.3.4.5", "256.1.1.1", "[::1", "::1]", "[", "[]", ":::",
        "unix:", "127.0.0.1:80", "::1%lo",
        "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc",
    };
    struct net_address a;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(net_address_parse(&a, rows[i], 80), -EINVAL);
}

static void unix_path_has_a_limit(void **state)
{
    struct net_address a;
    char text[200] = "unix:", out[NET_ADDRESS_TEXT];
    size_t max = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;

    (void)state;
    memset(text + 5, 'p', max);
    assert_int_equal(net_address_parse(&a, text, 0), 0);
    net_address_text(&a, out);
    assert_string_equal(out, text);
    text[5 + max] = 'p';
    assert_int_equal(net_address_parse(&a, text, 0), -EINVAL);
}

/* --- Listeners -------------------------------------------------------------------------------- */

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof(value);

    assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

static void listener_on_a_free_port(void **state)
{
    struct net_address a;
    char text[NET_ADDRESS_TEXT];
    int fd, client, server;

    (void)state;
    net_address_parse(&a, "127.0.0.1", 0);
    fd = net_listen(&a, &plain);
    assert_true(fd >= 0);
    assert_true(net_port(fd) > 0);
    assert_int_equal(net_accept(fd, false), -EAGAIN);
    client = client_open(net_port(fd));
    server = net_accept(fd, false);
    assert_true(server >= 0);
    assert_true(fcntl(server, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(server, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(option(server, IPPROTO_TCP, TCP_NODELAY), 1); /* from its listener */
    assert_int_equal(net_peer(server, text), 0);
    assert_string_equal(text, "127.0.0.1");
    close(client);
    close(server);
    client = client_open(net_port(fd));
    server = net_accept(fd, true);
    assert_false(fcntl(server, F_GETFL) & O_NONBLOCK);
    close(client);
    close(server);
    net_address_parse(&a, "127.0.0.1", (uint16_t)net_port(fd));
    assert_int_equal(net_listen(&a, &plain), -EADDRINUSE);
    close(fd);
}

/* Nagle's algorithm, SO_REUSEPORT, and waiting for the client's first bytes. */
static void listener_is_told_how(void **state)
{
    const struct net_listening how = {.backlog = 8, .reuseport = true, .delay = true, .defer_s = 3};
    struct net_address a;
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;
    int fd, other, client, server = -EAGAIN;

    (void)state;
    net_address_parse(&a, "127.0.0.1", 0);
    fd = net_listen(&a, &how);
    assert_true(fd >= 0);
    net_address_parse(&a, "127.0.0.1", (uint16_t)net_port(fd));
    other = net_listen(&a, &how);
    assert_true(other >= 0);
    close(other);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT), 3);
    client = client_open(net_port(fd));
    assert_int_equal(net_accept(fd, false), -EAGAIN); /* the client has sent nothing */
    assert_true(client_send(client, "x", 1));
    while (server == -EAGAIN && serving_ms() < until_ms)
        server = net_accept(fd, false);
    assert_true(server >= 0);
    assert_int_equal(option(server, IPPROTO_TCP, TCP_NODELAY), 0);
    net_cork(server, true);
    assert_int_equal(option(server, IPPROTO_TCP, TCP_CORK), 1);
    net_cork(server, false);
    assert_int_equal(option(server, IPPROTO_TCP, TCP_CORK), 0);
    close(client);
    close(server);
    close(fd);
}

/* A machine may lack IPv6; then there is nothing to test. */
/* On any processor, modulo 1 selects the listener opened first; by hash each would get some. */
static void steered_by_processor(void **state)
{
    const struct net_listening how = {.backlog = 64, .reuseport = true};
    struct net_address a;
    int fd[2], client[32], sole;

    (void)state;
    net_address_parse(&a, "127.0.0.1", 0);
    fd[0] = net_listen(&a, &how);
    net_address_parse(&a, "127.0.0.1", (uint16_t)net_port(fd[0]));
    fd[1] = net_listen(&a, &how);
    assert_true(fd[0] >= 0 && fd[1] >= 0);
    assert_int_equal(net_steer(fd[0], 1), 0);
    for (unsigned i = 0; i < 32; i++)
        client[i] = client_open(net_port(fd[0]));
    assert_int_equal(net_accept(fd[1], false), -EAGAIN);
    for (unsigned i = 0; i < 32; i++) {
        int accepted = net_accept(fd[0], false);

        assert_true(accepted >= 0);
        close(accepted);
        close(client[i]);
    }
    close(fd[0]);
    close(fd[1]);
    net_address_parse(&a, "127.0.0.1", 0);
    sole = net_listen(&a, &plain);
    assert_int_equal(net_steer(sole, 1), -EINVAL); /* not in a group */
    close(sole);
}

static void ipv6_is_ipv6_only(void **state)
{
    struct net_address a;
    int six, four = -1;

    (void)state;
    /* Another process may hold the port on IPv4: then the next one is tried. */
    for (unsigned i = 0; i < 100 && four < 0; i++) {
        net_address_parse(&a, "::", 0);
        six = net_listen(&a, &plain);
        if (six < 0)
            skip();
        net_address_parse(&a, "*", (uint16_t)net_port(six));
        four = net_listen(&a, &plain); /* the same port, at the same time */
        close(six);
    }
    assert_true(four >= 0);
    close(four);
}

static void unix_path(char path[64], struct net_address *a)
{
    char text[80] = "unix:";

    snprintf(path, 64, "/tmp/rung-net-%d", (int)getpid());
    memcpy(text + 5, path, strlen(path) + 1);
    assert_int_equal(net_address_parse(a, text, 0), 0);
}

static void unix_socket_left_over_is_replaced(void **state)
{
    struct net_address a;
    char path[64], text[NET_ADDRESS_TEXT];
    int first, second, client, server;

    (void)state;
    unix_path(path, &a);
    first = net_listen(&a, &plain);
    assert_true(first >= 0);
    assert_int_equal(net_listen(&a, &plain), -EADDRINUSE); /* the first one listens */
    assert_int_equal(access(path, F_OK), 0);
    close(first);
    second = net_listen(&a, &plain); /* no socket listens */
    assert_true(second >= 0);
    assert_true(net_port(second) < 0);
    client = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(client, (struct sockaddr *)&a.sa, a.len), 0);
    server = net_accept(second, true);
    assert_true(server >= 0);
    assert_int_equal(net_peer(server, text), 0);
    assert_string_equal(text, "unix");
    close(client);
    close(server);
    close(second);
    unlink(path);
}

static void unix_socket_takes_its_own_name_along(void **state)
{
    struct net_address a;
    char path[64];
    int first, second;

    (void)state;
    unix_path(path, &a);
    /* options of TCP or of the network only are not set on a unix socket */
    first = net_listen(&a, &(struct net_listening){.backlog = 8, .reuseport = true, .defer_s = 1});
    assert_true(first >= 0);
    net_cork(first, true);
    net_unlisten(first);
    assert_int_equal(access(path, F_OK), -1);
    first = net_listen(&a, &plain);
    assert_true(first >= 0);
    assert_int_equal(unlink(path), 0); /* another process removes it for the next server */
    second = net_listen(&a, &plain);
    assert_true(second >= 0);
    net_unlisten(first);
    assert_int_equal(access(path, F_OK), 0);
    net_unlisten(second);
    assert_int_equal(access(path, F_OK), -1);
    net_unlisten(-1);
}

static void unix_path_of_a_file_is_left_alone(void **state)
{
    struct net_address a;
    char path[64];
    int fd;

    (void)state;
    unix_path(path, &a);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(net_listen(&a, &plain), -EADDRINUSE);
    assert_int_equal(access(path, F_OK), 0);
    unlink(path);
}

/* --- Transfers -------------------------------------------------------------------------------- */

static void end_and_reset_are_told_apart(void **state)
{
    struct linger reset = {.l_onoff = 1};
    struct pair p = tcp_pair(true);
    char buf[8];

    (void)state;
    assert_int_equal(shutdown(p.client, SHUT_WR), 0);
    assert_int_equal(net_recv(p.server, buf, sizeof(buf)), 0);
    pair_close(p);
    p = tcp_pair(true);
    assert_int_equal(setsockopt(p.client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
    close(p.client);
    assert_int_equal(net_recv(p.server, buf, sizeof(buf)), -ECONNRESET);
    close(p.server);
}

/* --- Queries ---------------------------------------------------------------------------------- */

static bool unread_becomes(int fd, long n)
{
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;

    while (net_unread(fd) != n && serving_ms() < until_ms)
        serving_nap(1);
    return net_unread(fd) == n;
}

static void unread_is_counted(void **state)
{
    struct pair p = tcp_pair(false);
    char buf[8];

    (void)state;
    assert_int_equal(net_unread(p.server), 0);
    assert_int_equal(net_recv(p.server, buf, sizeof(buf)), -EAGAIN);
    assert_true(client_send(p.client, "hello", 5));
    waited(unread_becomes(p.server, 5));
    assert_int_equal(net_recv(p.server, buf, 2), 2);
    waited(unread_becomes(p.server, 3));
    pair_close(p);
}

/* The peer's kernel acknowledges bytes that fit its buffer, whether or not the peer reads. */
static void acknowledged_is_counted(void **state)
{
    static char bytes[1000];
    struct pair p = tcp_pair(false);
    uint64_t before = net_acked(p.server, 0), until_ms = serving_ms() + SERVING_PATIENCE_MS;

    (void)state;
    assert_true(client_send(p.server, bytes, sizeof(bytes)));
    while (net_acked(p.server, 1000) - before != 1000 && serving_ms() < until_ms)
        serving_nap(1);
    assert_int_equal(net_acked(p.server, 1000) - before, 1000);
    pair_close(p);
}

static void acknowledged_on_a_unix_socket_is_what_was_read(void **state)
{
    char buf[8];
    int fd[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    assert_int_equal(net_acked(fd[0], 5), 5);
    assert_true(client_send(fd[0], "12345", 5));
    assert_true(net_acked(fd[0], 100000) < 100000); /* the kernel includes its own overhead */
    assert_int_equal(net_recv(fd[1], buf, sizeof(buf)), 5);
    assert_int_equal(net_acked(fd[0], 5), 5);
    close(fd[0]);
    close(fd[1]);
}

/* Up to a queue that is full, acknowledged or not, and until the peer has reset the connection. */
static void written_is_counted(void **state)
{
    static char bytes[1000];
    struct pair p = tcp_pair(false);
    int64_t before = net_written(p.server), all = 0;
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;
    long n;

    (void)state;
    assert_true(before >= 0);
    while ((n = send(p.server, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL)) > 0)
        all += n;
    while (net_written(p.server) == -EAGAIN && serving_ms() < until_ms)
        serving_nap(1);
    assert_int_equal(net_written(p.server), before + all);
    close(p.client); /* with bytes that were not read */
    while (net_written(p.server) != -ENOTCONN && serving_ms() < until_ms)
        serving_nap(1);
    assert_int_equal(net_written(p.server), -ENOTCONN);
    close(p.server);
}

static void written_is_unknown_on_a_unix_socket(void **state)
{
    int fd[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    assert_true(net_written(fd[0]) < 0);
    close(fd[0]);
    close(fd[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_there_and_back),
        cmocka_unit_test(addresses_refused),
        cmocka_unit_test(unix_path_has_a_limit),
        cmocka_unit_test(listener_on_a_free_port),
        cmocka_unit_test(listener_is_told_how),
        cmocka_unit_test(steered_by_processor),
        cmocka_unit_test(ipv6_is_ipv6_only),
        cmocka_unit_test(unix_socket_left_over_is_replaced),
        cmocka_unit_test(unix_socket_takes_its_own_name_along),
        cmocka_unit_test(unix_path_of_a_file_is_left_alone),
        cmocka_unit_test(end_and_reset_are_told_apart),
        cmocka_unit_test(unread_is_counted),
        cmocka_unit_test(acknowledged_is_counted),
        cmocka_unit_test(acknowledged_on_a_unix_socket_is_what_was_read),
        cmocka_unit_test(written_is_counted),
        cmocka_unit_test(written_is_unknown_on_a_unix_socket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
