/* SPDX-License-Identifier: MIT */
/* floor.c - the least that a server on epoll can do: one answer, made beforehand, for whatever
 * arrives.
 *
 * No request is parsed, no file opened, no deadline kept, and nothing is sent twice: an answer that
 * does not fit the socket's buffer ends the program, for what is measured here always fits.  So a
 * request costs epoll_wait, receive and send, and what remains is the client's and the kernel's.
 * What another server takes beyond it is what that server does.
 *
 *   floor PORT BYTES keep|close     a body of so many bytes; close: after each answer
 */
#include "../../../base/net.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { HEAD_MAX = 512, BODY_MAX = 65536, INPUT_MAX = 16384, EVENTS_MAX = 512, BACKLOG = 4096 };

struct answer {
    char bytes[HEAD_MAX + BODY_MAX];
    size_t len;
    bool close;
};

static int fail(const char *what, int err)
{
    fprintf(stderr, "floor: %s: %s\n", what, strerror(-err));
    return 1;
}

/* The fields are those that servers send with a file. */
static void compose(struct answer *a, size_t body)
{
    int head = snprintf(a->bytes, HEAD_MAX,
                        "HTTP/1.1 200 OK\r\nServer: floor\r\n"
                        "Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
                        "Content-Type: text/html\r\nContent-Length: %zu\r\n"
                        "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
                        "ETag: \"0123456789abcdef\"\r\nAccept-Ranges: bytes\r\n%s\r\n",
                        body, a->close ? "Connection: close\r\n" : "");

    memset(a->bytes + head, 'x', body);
    a->len = (size_t)head + body;
}

static void serve(int fd, const struct answer *a)
{
    char input[INPUT_MAX];
    ssize_t got = recv(fd, input, sizeof input, MSG_DONTWAIT);

    if (got > 0 && send(fd, a->bytes, a->len, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)a->len)
        exit(fail("an answer did not leave whole", -EMSGSIZE));
    if (got == 0 || (got < 0 && errno != EAGAIN) || a->close)
        close(fd);
}

static void take(int set, int listener)
{
    int fd;

    while ((fd = net_accept(listener, false)) >= 0) {
        struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

        if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev) < 0)
            close(fd);
    }
}

static int loop(int listener, const struct answer *a)
{
    struct epoll_event ev[EVENTS_MAX] = {{.events = EPOLLIN, .data.fd = listener}};
    int set = epoll_create1(EPOLL_CLOEXEC);

    if (set < 0 || epoll_ctl(set, EPOLL_CTL_ADD, listener, ev) < 0)
        return fail("epoll", -errno);
    for (;;) {
        int n = epoll_wait(set, ev, EVENTS_MAX, -1);

        for (int i = 0; i < n; i++) {
            if (ev[i].data.fd == listener)
                take(set, listener);
            else
                serve(ev[i].data.fd, a);
        }
    }
}

int main(int argc, char **argv)
{
    static struct answer a;
    const struct net_listening how = {.backlog = BACKLOG};
    struct net_address where;
    char *end[2] = {0};
    unsigned long port = argc == 4 ? strtoul(argv[1], &end[0], 10) : 0;
    unsigned long body = argc == 4 ? strtoul(argv[2], &end[1], 10) : 0;
    int fd;

    if (argc != 4 || *end[0] || *end[1] || port > UINT16_MAX || body > BODY_MAX ||
        (strcmp(argv[3], "keep") && strcmp(argv[3], "close"))) {
        fprintf(stderr, "usage: floor PORT BYTES keep|close; at most %d bytes\n", BODY_MAX);
        return 2;
    }
    a.close = !strcmp(argv[3], "close");
    compose(&a, body);
    net_address_parse(&where, "127.0.0.1", (uint16_t)port);
    fd = net_listen(&where, &how);
    return fd < 0 ? fail("cannot listen", fd) : loop(fd, &a);
}
