/* SPDX-License-Identifier: MIT */
/* connect.c - makes a connection: without waiting, from one of our addresses, and again when it
 * fails; and ends it.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "wire.h"

enum { RETRY_MS_MAX = 1000 };

void client_hang_up(struct worker *w, struct client *c)
{
    struct linger reset = {.l_onoff = 1};

    if (c->fd < 0)
        return;
    wire_end(w, c);
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

/* Failed connects are tried again at growing intervals, so that a server that is gone is not
 * flooded. */
void connect_refused(struct worker *w, struct client *c, enum fault what)
{
    count_fault(w, what, 1);
    client_hang_up(w, c);
    c->state = CLIENT_DOWN; /* there may have been no socket */
    c->tries += c->tries < 10;
    client_time(w, c, w->now_ns / 1000000 + ((uint64_t)RETRY_MS_MAX >> (10 - c->tries)));
}

void connect_failed(struct worker *w, struct client *c, int error)
{
    static const struct {
        int error;
        enum fault fault;
    } known[] = {{ECONNREFUSED, FAULT_REFUSED}, {ETIMEDOUT, FAULT_CONNECT_LATE},
                 {EADDRNOTAVAIL, FAULT_NO_PORT}, {EMFILE, FAULT_NO_DESCRIPTOR},
                 {ENFILE, FAULT_NO_DESCRIPTOR}};
    enum fault what = FAULT_CONNECT;
    unsigned i;

    for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].error == error)
            what = known[i].fault;
    for (i = 0; i < ERRNOS_MAX - 1; i++) /* the last entry takes all other errors */
        if (w->tally.connect_errno[i].error == error || !w->tally.connect_errno[i].count)
            break;
    w->tally.connect_errno[i].error = error;
    w->tally.connect_errno[i].count++;
    connect_refused(w, c, what);
}

/* Requests may be sent. */
static void ready(struct worker *w, struct client *c)
{
    c->state = CLIENT_UP;
    c->tries = 0;
    w->up += !c->idle;
    client_time(w, c, (w->now_ns + w->plan->timeout_ns) / 1000000);
    w->on_free(w, c);
}

static void connected(struct worker *w, struct client *c)
{
    struct slice none = {NULL, 0};

    w->tally.connects++;
    hist_add(&w->tally.connect, w->now_ns - c->connect_ns, 1);
    client_watch(w, c, EPOLL_CTL_MOD, EPOLLIN | EPOLLRDHUP);
    if (!w->plan->wired) {
        ready(w, c);
        return;
    }
    c->state = CLIENT_GREETING;
    c->connect_ns = w->now_ns;
    client_time(w, c, (w->now_ns + w->plan->timeout_ns) / 1000000);
    if (wire_begin(w, c))
        connect_greet(w, c, &none);
    else
        connect_refused(w, c, wire_note(w, FAULT_CONNECT, "there is no memory for it"));
}

void connect_greet(struct worker *w, struct client *c, struct slice *in)
{
    enum fault what = wire_greet(w, c, in);

    if (what)
        connect_refused(w, c, what);
    else if (c->wire->greeted)
        ready(w, c);
}

static int open_socket(const struct worker *w, const struct client *c)
{
    const struct plan *p = w->plan;
    const struct peer *peer = &p->peer[c->peer];
    int fd = socket(peer->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;

    if (fd < 0)
        return -errno;
    if (peer->sa.ss_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (p->sources) {
        const struct sockaddr_storage *sa = &p->source[(c - w->client) % p->sources];

        /* The port is chosen at connect(), when the peer is known: the same one may serve for
         * several peers. */
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
        if (bind(fd, (const struct sockaddr *)sa, sizeof(*sa)) != 0) {
            int error = errno;

            close(fd);
            return -error;
        }
    }
    return fd;
}

/* The queue of the Unix socket is full.  connect() does not wait there, as it would with TCP, but
 * this is no failure yet. */
static void stand_in_line(struct worker *w, struct client *c)
{
    close(c->fd);
    c->fd = -1;
    c->state = CLIENT_CONNECTING;
    client_time(w, c, w->now_ns / 1000000 + 1);
}

void connect_try(struct worker *w, struct client *c)
{
    const struct peer *peer = &w->plan->peer[c->peer];
    int fd = open_socket(w, c);

    if (fd < 0) {
        connect_failed(w, c, -fd);
        return;
    }
    c->fd = fd;
    if (connect(fd, (const struct sockaddr *)&peer->sa, peer->len) == 0) {
        w->now_ns = clock_ns();
        client_watch(w, c, EPOLL_CTL_ADD, EPOLLIN | EPOLLRDHUP);
        connected(w, c);
        return;
    }
    if (errno == EAGAIN && w->plan->unix_socket) {
        stand_in_line(w, c);
        return;
    }
    if (errno != EINPROGRESS) {
        connect_failed(w, c, errno);
        return;
    }
    c->state = CLIENT_CONNECTING;
    client_watch(w, c, EPOLL_CTL_ADD, EPOLLOUT);
    client_time(w, c, (w->now_ns + w->plan->timeout_ns) / 1000000);
}

void connect_begin(struct worker *w, struct client *c)
{
    c->connect_ns = w->now_ns;
    c->begun = c->oldest = c->unsent = c->next = c->unsent_at = 0;
    c->depth = w->plan->depth;
    c->leaving = false;
    answer_begin(&c->answer);
    connect_try(w, c);
}

void connect_finish(struct worker *w, struct client *c)
{
    socklen_t len = sizeof(int);
    int error = 0;

    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    if (error)
        connect_failed(w, c, error);
    else
        connected(w, c);
}
