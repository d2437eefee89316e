/* SPDX-License-Identifier: MIT */
/* client_socket.c - the socket of a connection: which events are reported. */
#include <sys/epoll.h>
#include "worker.h"

void client_watch(struct worker *w, struct client *c, int op, uint32_t events)
{
    struct epoll_event ev = {.events = events | EPOLLET, .data.ptr = c};

    epoll_ctl(w->epoll_fd, op, c->fd, &ev);
    c->armed = (events & EPOLLOUT) != 0;
}
