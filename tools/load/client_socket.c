/* SPDX-License-Identifier: MIT */
/* client_socket.c - the socket of a connection: which events are reported, and its end. */
#include <sys/epoll.h>
#include <unistd.h>
#include "worker.h"

void client_watch(struct worker *w, struct client *c, int op, uint32_t events)
{
    struct epoll_event ev = {.events = events | EPOLLET, .data.ptr = c};

    epoll_ctl(w->epoll_fd, op, c->fd, &ev);
    c->armed = (events & EPOLLOUT) != 0;
}

void client_hang_up(struct worker *w, struct client *c)
{
    struct linger reset = {.l_onoff = 1};

    if (c->fd < 0)
        return;
    if (w->plan->opt->close == CLOSE_RESET)
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(c->fd);
    c->fd = -1;
    if (c->state == CLIENT_UP && !c->idle && --w->up == 0)
        w->down_since_ns = w->now_ns;
    c->state = CLIENT_DOWN;
    c->oldest = c->unsent = c->next = 0;
    wheel_del(&w->wheel, &c->node);
}
