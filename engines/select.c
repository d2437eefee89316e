/* SPDX-License-Identifier: MIT */
/* select.c - the oldest way to wait for many sockets: two sets of bits, copied for every call.
 *
 * The idea: readiness, with a bitmap.  Bit n stands for descriptor n; select() gets the bits of
 * what each connection wants and leaves the bits of those that can move.  It overwrites the sets,
 * so they are copied before every call.
 *
 * What it costs: a turn looks at every number up to the highest descriptor there ever was, in the
 * kernel and here.  And the sets have FD_SETSIZE bits, fixed when the C library was built: setting
 * a bit beyond them writes past the end of the set.  The capacity declared below is lower, so that
 * a connection is evicted for a new one before numbers run out.  A connection whose number is still
 * too high is refused (numbers belong to the process: worker threads share them, worker processes
 * do not).  Why there is more: poll() has no such limit, and names only the descriptors that exist.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include "engine.h"

/* who[fd] is the session of that descriptor, or NULL. */
struct crowd {
    fd_set readable, writable; /* what to wait for */
    int top;                   /* no descriptor in the sets is higher */
    struct session *who[FD_SETSIZE];
};

static void ask(struct crowd *c, int fd, enum conn_want want)
{
    FD_CLR(fd, &c->readable);
    FD_CLR(fd, &c->writable);
    if (want == CONN_SEND)
        FD_SET(fd, &c->writable);
    else if (want == CONN_RECV || want == CONN_LINGER)
        FD_SET(fd, &c->readable);
    c->top = fd > c->top ? fd : c->top;
}

static void leave(struct crowd *c, struct loop *l, struct session *s)
{
    ask(c, s->fd, CONN_CLOSE);
    c->who[s->fd] = NULL;
    session_close(l, s);
}

static void pump(struct crowd *c, struct loop *l, struct session *s)
{
    enum conn_want want = session_pump(l, s);

    if (want == CONN_CLOSE)
        leave(c, l, s);
    else
        ask(c, s->fd, want);
}

static void accept_waiting(struct crowd *c, struct loop *l, unsigned listener)
{
    for (unsigned n = 0; n < ACCEPT_BUDGET; n++) {
        struct session *s = loop_accept(l, listener);

        if (!s)
            return;
        if (s->fd >= FD_SETSIZE) {
            session_refuse(l, s);
            continue;
        }
        c->who[s->fd] = s;
        ask(c, s->fd, CONN_RECV);
    }
}

/* Handle everything that select() left in the sets. */
static void handle(struct crowd *c, struct loop *l, const fd_set *readable, const fd_set *writable)
{
    const struct worker *w = loop_worker(l);
    struct session *s;

    for (int fd = c->top; fd >= 0; fd--)
        if (c->who[fd] && (FD_ISSET(fd, readable) || FD_ISSET(fd, writable)))
            pump(c, l, c->who[fd]);
    if (FD_ISSET(w->stop_fd, readable))
        FD_CLR(w->stop_fd, &c->readable); /* stays readable: seeing it once is enough */
    if (FD_ISSET(loop_wake_fd(l), readable))
        loop_woken(l);
    while ((s = loop_resumed(l)))
        pump(c, l, s);
    for (unsigned i = 0; i < w->listeners; i++)
        if (FD_ISSET(w->listener[i], readable))
            accept_waiting(c, l, i);
}

static int turns(struct crowd *c, struct loop *l)
{
    const struct worker *w = loop_worker(l);
    struct session *s;

    while (!loop_done(l)) {
        int wait_ms = loop_wait_ms(l);
        struct timeval tv = {.tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000};
        fd_set readable, writable;

        for (unsigned i = 0; i < w->listeners; i++)
            ask(c, w->listener[i], loop_listening(l) ? CONN_RECV : CONN_CLOSE);
        readable = c->readable;
        writable = c->writable;
        if (select(c->top + 1, &readable, &writable, NULL, wait_ms < 0 ? NULL : &tv) < 0) {
            if (errno != EINTR && errno != ENOMEM)
                return -errno;
            FD_ZERO(&readable); /* nothing was looked at */
            FD_ZERO(&writable);
        }
        loop_tick(l);
        handle(c, l, &readable, &writable);
        while ((s = loop_expired(l)))
            leave(c, l, s);
    }
    return 0;
}

static int start(struct crowd *c, struct loop *l)
{
    const struct worker *w = loop_worker(l);

    c->top = 0;
    for (unsigned i = 0; i < w->listeners; i++)
        if (w->listener[i] >= FD_SETSIZE)
            return -EMFILE;
    if (w->stop_fd >= FD_SETSIZE || loop_wake_fd(l) >= FD_SETSIZE)
        return -EMFILE;
    ask(c, w->stop_fd, CONN_RECV);
    ask(c, loop_wake_fd(l), CONN_RECV);
    return turns(c, l);
}

static int select_run(struct worker *w)
{
    struct crowd *c = calloc(1, sizeof(*c)); /* zero is an empty fd_set */
    struct loop *l;
    int err;

    if (!c)
        return -ENOMEM;
    err = loop_open(w, &l);
    if (!err) {
        err = start(c, l);
        loop_close(l);
    }
    free(c);
    return err;
}

const struct engine engine_select = {
    .name = "select",
    .summary = "one loop waits for all; sets of FD_SETSIZE bits, copied each time",
    .use = "you compare with the oldest call of this kind",
    .model = ENGINE_READINESS,
    .may_block = false,
    .capacity = FD_SETSIZE - 64, /* the other numbers: listeners, files being sent, the rest */
    .run = select_run,
};
