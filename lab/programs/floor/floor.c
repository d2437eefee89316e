/* SPDX-License-Identifier: MIT */
/* floor.c - the least that a server can do: its answer, and its command line.
 *
 *   floor PORT BODY keep|close|pipelined [epoll|uring]
 *
 * BODY is a number of bytes, or the path of a file.  keep: a receive is one request.  close: the
 * same, and the connection ends with the answer.  pipelined: the ends of heads are counted.
 */
#include "floor.h"
#include "../../../base/net.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD_MAX = 512, BODY_MAX = 16 << 20, BACKLOG = 4096 };

volatile sig_atomic_t floor_stopped;

static void stop(int number)
{
    (void)number;
    floor_stopped = 1;
}

int floor_fail(const char *what, int err)
{
    fprintf(stderr, "floor: %s: %s\n", what, strerror(-err));
    return 1;
}

unsigned floor_wanted(const struct answer *a, const char *bytes, size_t n)
{
    const char *end = bytes + n;
    unsigned found = 0;

    if (!a->pipelined)
        return 1;
    while ((bytes = memmem(bytes, (size_t)(end - bytes), "\r\n\r\n", 4))) {
        bytes += 4;
        found++;
    }
    return found < PIPELINED_MAX ? found : PIPELINED_MAX;
}

/* The size of the body, or -errno.  A file is left open in a->file. */
static long body_size(struct answer *a, const char *text)
{
    struct stat st;
    char *end;
    unsigned long size = strtoul(text, &end, 10);

    a->file = -1;
    if (end != text && !*end)
        return size <= BODY_MAX ? (long)size : -EFBIG;
    a->file = open(text, O_RDONLY | O_CLOEXEC);
    if (a->file < 0 || fstat(a->file, &st) < 0)
        return -errno;
    return st.st_size <= BODY_MAX ? (long)st.st_size : -EFBIG;
}

/* The fields are those that servers send with a file.  Returns 0 or -errno. */
static int compose(struct answer *a, size_t body)
{
    char head[HEAD_MAX];
    unsigned copies = a->pipelined ? PIPELINED_MAX : 1;

    a->head = (size_t)snprintf(head, sizeof head,
                               "HTTP/1.1 200 OK\r\nServer: floor\r\n"
                               "Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
                               "Content-Type: text/html\r\nContent-Length: %zu\r\n"
                               "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
                               "ETag: \"0123456789abcdef\"\r\nAccept-Ranges: bytes\r\n%s\r\n",
                               body, a->close ? "Connection: close\r\n" : "");
    a->len = a->head + body;
    a->bytes = malloc(a->len * copies);
    if (!a->bytes)
        return -ENOMEM;
    memcpy(a->bytes, head, a->head);
    memset(a->bytes + a->head, 'x', body);
    if (a->file >= 0 && pread(a->file, a->bytes + a->head, body, 0) != (ssize_t)body)
        return -EIO;
    for (unsigned i = 1; i < copies; i++)
        memcpy(a->bytes + i * a->len, a->bytes, a->len);
    return 0;
}

static int listener_at(unsigned long port, bool close)
{
    /* A connection with only one request is accepted when that request is there. */
    const struct net_listening how = {.backlog = BACKLOG, .defer_s = close ? 1 : 0};
    struct net_address where;

    net_address_parse(&where, "127.0.0.1", (uint16_t)port);
    return net_listen(&where, &how);
}

static int usage(void)
{
    fprintf(stderr, "usage: floor PORT BYTES|FILE keep|close|pipelined [epoll|uring]\n");
    return 2;
}

int main(int argc, char **argv)
{
    const struct sigaction act = {.sa_handler = stop};
    const struct rlimit files = {DESCRIPTORS_MAX, DESCRIPTORS_MAX};
    static struct answer a;
    char *end;
    unsigned long port;
    const char *how = argc == 5 ? argv[4] : "epoll";
    long body;
    int fd, err;

    if (argc < 4 || argc > 5 || (strcmp(how, "epoll") && strcmp(how, "uring")))
        return usage();
    port = strtoul(argv[1], &end, 10);
    a.close = !strcmp(argv[3], "close");
    a.pipelined = !strcmp(argv[3], "pipelined");
    if (*end || port > UINT16_MAX || !(a.close || a.pipelined || !strcmp(argv[3], "keep")))
        return usage();
    body = body_size(&a, argv[2]);
    err = body < 0 ? (int)body : compose(&a, (size_t)body);
    if (err)
        return floor_fail(argv[2], err);
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGINT, &act, NULL);
    setrlimit(RLIMIT_NOFILE, &files); /* if refused, the old limit remains */
    fd = listener_at(port, a.close);
    if (fd < 0)
        return floor_fail("cannot listen", fd);
    return strcmp(how, "epoll") ? floor_uring(fd, &a) : floor_epoll(fd, &a);
}
