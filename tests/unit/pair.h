/* SPDX-License-Identifier: MIT */
/* pair.h - two ends of a connection, and files without a name, for tests of base/. */
#ifndef TESTS_UNIT_PAIR_H
#define TESTS_UNIT_PAIR_H
#include "../serving.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <cmocka.h>

struct pair {
    int client, server;
};

static inline struct pair tcp_pair(bool blocking)
{
    struct net_address a;
    struct pair p;
    int fd;

    net_address_parse(&a, "127.0.0.1", 0);
    fd = net_listen(&a, &(struct net_listening){.backlog = 8});
    p.client = client_open(net_port(fd));
    p.server = net_accept(fd, blocking);
    assert_true(p.client >= 0 && p.server >= 0);
    close(fd);
    return p;
}

static inline void pair_close(struct pair p)
{
    close(p.client);
    close(p.server);
}

/* The byte at `at` of a test's file: no two places within a page or a pipe look alike. */
static inline char file_byte(uint64_t at)
{
    return (char)(at * 31 + at / 251 * 7 + at / 65521);
}

/* Make a file of n such bytes, without a name. */
static inline int file_of(size_t n)
{
    char path[] = "/tmp/rung-file-XXXXXX", block[4096];
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    unlink(path);
    for (size_t at = 0, part; at < n; at += part) {
        part = n - at < sizeof(block) ? n - at : sizeof(block);
        for (size_t i = 0; i < part; i++)
            block[i] = file_byte(at + i);
        assert_int_equal(write(fd, block, part), part);
    }
    return fd;
}

/* Require the next n bytes to be those of such a file from off on. */
static inline void expect_file(int fd, uint64_t off, size_t n)
{
    char buf[65536];

    while (n > 0) {
        long got = client_recv(fd, buf, n < sizeof(buf) ? n : sizeof(buf));

        assert_true(got > 0);
        for (long i = 0; i < got; i++)
            if (buf[i] != file_byte(off + (uint64_t)i))
                fail_msg("byte %llu is wrong", (unsigned long long)(off + (uint64_t)i));
        off += (uint64_t)got;
        n -= (size_t)got;
    }
}

static inline void expect_bytes(int fd, const char *bytes, size_t n)
{
    char buf[256];
    size_t got = 0;

    assert_true(n <= sizeof(buf));
    while (got < n) {
        long k = client_recv(fd, buf + got, n - got);

        assert_true(k > 0);
        got += (size_t)k;
    }
    assert_memory_equal(buf, bytes, n);
}

static inline unsigned descriptors(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

#endif
