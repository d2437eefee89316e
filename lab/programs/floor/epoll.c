/* SPDX-License-Identifier: MIT */
/* epoll.c - the floor on epoll: three system calls a request, fewer where several are ready.
 *
 * A body in a file that is larger than COPIED_MAX is sent from there, because sendfile() does not
 * copy it.  Bytes that do not fit into the socket's buffer are sent when it has room.
 */
#include "floor.h"
#include "../../../base/net.h"
#include <errno.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <unistd.h>

enum { EVENTS_MAX = 512 };

struct place {
    size_t done, all; /* bytes sent, and to send; equal: nothing is being sent */
    bool armed;       /* waits for room in the socket's buffer */
};

static struct place places[DESCRIPTORS_MAX];

static void await(int set, int fd, bool room)
{
    struct epoll_event ev = {.events = room ? EPOLLOUT : EPOLLIN, .data.fd = fd};

    if (places[fd].armed != room && epoll_ctl(set, EPOLL_CTL_MOD, fd, &ev) == 0)
        places[fd].armed = room;
}

static ssize_t some(int fd, const struct place *p, const struct answer *a)
{
    bool large = a->file >= 0 && a->len - a->head > COPIED_MAX;
    off_t at = (off_t)(p->done - a->head);

    if (!large)
        return send(fd, a->bytes + p->done, p->all - p->done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (p->done < a->head)
        return send(fd, a->bytes + p->done, a->head - p->done,
                    MSG_NOSIGNAL | MSG_DONTWAIT | MSG_MORE);
    return sendfile(fd, a->file, &at, p->all - p->done);
}

/* False: the connection is closed. */
static bool push(int set, int fd, const struct answer *a)
{
    struct place *p = &places[fd];

    while (p->done < p->all) {
        ssize_t n = some(fd, p, a);

        if (n < 0 && errno == EAGAIN) {
            await(set, fd, true);
            return true;
        }
        if (n <= 0) {
            close(fd);
            return false;
        }
        p->done += (size_t)n;
    }
    if (a->close) {
        close(fd);
        return false;
    }
    await(set, fd, false);
    return true;
}

static bool serve(int set, int fd, const struct answer *a)
{
    char input[INPUT_MAX];
    struct place *p = &places[fd];
    ssize_t got;

    if (p->done < p->all)
        return push(set, fd, a);
    got = recv(fd, input, sizeof input, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return true;
    if (got <= 0) {
        close(fd);
        return false;
    }
    p->done = 0;
    p->all = a->len * floor_wanted(a, input, (size_t)got);
    return push(set, fd, a);
}

static void take(int set, int listener, const struct answer *a)
{
    int fd;

    while ((fd = net_accept(listener, false)) >= 0) {
        struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

        if (fd >= DESCRIPTORS_MAX) {
            close(fd);
            continue;
        }
        places[fd] = (struct place){0};
        if (a->close && !serve(set, fd, a)) /* the request has come with the connection */
            continue;
        ev.events = places[fd].armed ? EPOLLOUT : EPOLLIN;
        if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev) < 0)
            close(fd);
    }
}

int floor_epoll(int listener, const struct answer *a)
{
    struct epoll_event ev[EVENTS_MAX] = {{.events = EPOLLIN, .data.fd = listener}};
    int set = epoll_create1(EPOLL_CLOEXEC);

    if (set < 0 || epoll_ctl(set, EPOLL_CTL_ADD, listener, ev) < 0)
        return floor_fail("epoll", -errno);
    while (!floor_stopped) {
        int n = epoll_wait(set, ev, EVENTS_MAX, -1);

        for (int i = 0; i < n; i++) {
            if (ev[i].data.fd == listener)
                take(set, listener, a);
            else
                serve(set, ev[i].data.fd, a);
        }
    }
    return 0;
}
