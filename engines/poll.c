/* SPDX-License-Identifier: MIT */
/* poll.c - one thread waits for all connections: it hands the kernel the whole list, every time.
 *
 * The idea: readiness, with an array.  One pollfd per connection says what it wants; poll() marks
 * those that can move, and the loop walks the array to find them.  The array grows with use, so
 * there is no fixed limit as there is with select().
 *
 * What it costs: a turn is O(connections) twice, once in the kernel, which looks at every socket,
 * and once here.  With ten connections that is nothing, with ten thousand idle ones each request
 * pays for all of them.  Connections that are ready in the same turn share the cost of one walk, so
 * the cost is hidden when most connections are busy and visible when most are idle.  Why there is
 * more: a kernel that remembers the set does not have to be given it again: see epoll.c.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include "engine.h"

enum { STOP, WAKE, LISTENERS, ROOM_FIRST = 64 };

/* fd[i] belongs to who[i]; the first entries have no session.  session->engine_data is the
 * index.  No spare entry is ever passed: poll() refuses more of them than the process may have
 * descriptors. */
struct crowd {
    struct pollfd *fd;
    struct session **who;
    unsigned fixed, count, room;
};

/* Set what an entry waits for.  A connection that waits for its answer is left out, because a peer
 * that resets would be reported again and again. */
static void ask(struct pollfd *p, const struct session *s, enum conn_want want)
{
    p->fd = want == CONN_WAIT ? -1 : s->fd;
    p->events = want == CONN_SEND ? POLLOUT : POLLIN;
}

/* Double the room.  False: there is no memory. */
static bool grow(struct crowd *c)
{
    unsigned room = c->room ? c->room * 2 : LISTENERS + LISTENERS_MAX + ROOM_FIRST;
    struct pollfd *fd = realloc(c->fd, room * sizeof(*fd));
    struct session **who;

    if (!fd)
        return false;
    c->fd = fd;
    who = realloc(c->who, room * sizeof(struct session *));
    if (!who)
        return false;
    c->who = who;
    c->room = room;
    return true;
}

static bool join(struct crowd *c, struct session *s)
{
    if (c->count == c->room && !grow(c))
        return false;
    s->engine_data = c->count++;
    c->who[s->engine_data] = s;
    c->fd[s->engine_data] = (struct pollfd){0};
    ask(&c->fd[s->engine_data], s, CONN_RECV);
    return true;
}

/* Close a session; the last entry takes its place. */
static void leave(struct crowd *c, struct loop *l, struct session *s)
{
    unsigned hole = s->engine_data, last = --c->count;

    c->fd[hole] = c->fd[last];
    c->who[hole] = c->who[last];
    c->who[hole]->engine_data = hole;
    session_close(l, s);
}

static void pump(struct crowd *c, struct loop *l, struct session *s)
{
    enum conn_want want = session_pump(l, s);

    if (want == CONN_CLOSE)
        leave(c, l, s);
    else
        ask(&c->fd[s->engine_data], s, want);
}

static void accept_waiting(struct crowd *c, struct loop *l, unsigned listener)
{
    for (unsigned n = 0; n < ACCEPT_BUDGET; n++) {
        struct session *s = loop_accept(l, listener);

        if (!s)
            return;
        if (!join(c, s))
            session_close(l, s);
    }
}

/* Handle everything that poll() marked.  The walk starts at the end, so that an entry that takes
 * the place of a closed one was looked at already. */
static void handle(struct crowd *c, struct loop *l)
{
    const struct worker *w = loop_worker(l);
    struct session *s;

    for (unsigned i = c->count; i-- > c->fixed;)
        if (c->fd[i].fd >= 0 && c->fd[i].revents)
            pump(c, l, c->who[i]);
    if (c->fd[STOP].revents)
        c->fd[STOP].fd = -1; /* stays readable: seeing it once is enough */
    if (c->fd[WAKE].revents)
        loop_woken(l);
    while ((s = loop_resumed(l)))
        pump(c, l, s);
    for (unsigned i = 0; i < w->listeners; i++)
        if (c->fd[LISTENERS + i].fd >= 0 && c->fd[LISTENERS + i].revents)
            accept_waiting(c, l, i);
}

static int turns(struct crowd *c, struct loop *l)
{
    const struct worker *w = loop_worker(l);
    struct session *s;

    while (!loop_done(l)) {
        for (unsigned i = 0; i < w->listeners; i++)
            c->fd[LISTENERS + i].fd = loop_listening(l) ? w->listener[i] : -1;
        if (poll(c->fd, c->count, loop_wait_ms(l)) < 0) {
            if (errno != EINTR && errno != ENOMEM)
                return -errno;
            for (unsigned i = 0; i < c->count; i++)
                c->fd[i].revents = 0; /* nothing was looked at */
        }
        loop_tick(l);
        handle(c, l);
        while ((s = loop_expired(l)))
            leave(c, l, s);
    }
    return 0;
}

static int poll_run(struct worker *w)
{
    struct crowd c = {.fixed = LISTENERS + w->listeners};
    struct loop *l;
    int err = loop_open(w, &l);

    if (err)
        return err;
    err = grow(&c) ? 0 : -ENOMEM;
    if (!err) {
        for (; c.count < c.fixed; c.count++) {
            c.fd[c.count] = (struct pollfd){.fd = -1, .events = POLLIN};
            c.who[c.count] = NULL;
        }
        c.fd[STOP].fd = w->stop_fd;
        c.fd[WAKE].fd = loop_wake_fd(l);
        err = turns(&c, l);
    }
    loop_close(l);
    free(c.fd);
    free(c.who);
    return err;
}

const struct engine engine_poll = {
    .name = "poll",
    .summary = "one loop waits for all; each call walks the whole list",
    .use = "you want select without its bound, to see the walk's cost",
    .model = ENGINE_READINESS,
    .may_block = false,
    .capacity = ENGINE_DESCRIPTORS,
    .run = poll_run,
};
