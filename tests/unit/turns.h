/* SPDX-License-Identifier: MIT */
/* turns.h - a loop without an engine: the test takes the turns. */
#ifndef TESTS_TURNS_H
#define TESTS_TURNS_H
#include "../serving.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

struct fixture {
    struct serving s;
    struct worker w;
    struct loop *l;
};

static inline void begin(struct fixture *f)
{
    f->w = (struct worker){
        .server = &f->s.srv,
        .listeners = 1,
        .siblings = 1,
        .stop_fd = f->s.srv.stop_fd,
        .stopping = &f->s.srv.stopping,
        .conn_max = (unsigned)f->s.srv.connections_max};
    f->w.listener[0] = f->s.srv.listener[0][0];
    assert_int_equal(loop_open(&f->w, &f->l), 0);
}

static inline void end(struct fixture *f)
{
    loop_close(f->l);
    assert_int_equal(stats_live(f->s.srv.stats), 0);
    serving_empty(&f->s);
}

/* A client whose connection is in the accept queue. */
static inline int knock(struct fixture *f)
{
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;
    int fd = client_open(f->s.port);

    assert_true(fd >= 0);
    while (!worker_awaited(&f->w) && serving_ms() < until_ms)
        serving_nap(1);
    assert_true(worker_awaited(&f->w));
    return fd;
}

static inline struct session *let_in(struct fixture *f, int *client)
{
    struct session *s;

    *client = knock(f);
    loop_tick(f->l);
    s = loop_accept(f->l, 0);
    assert_non_null(s);
    return s;
}

/* The session's client sends bytes; once they have arrived, the session is pumped. */
static inline enum conn_want talk(struct fixture *f, struct session *s, int client,
                                  const char *text)
{
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;

    assert_true(client_send(client, text, strlen(text)));
    while (net_unread(s->fd) < (long)strlen(text) && serving_ms() < until_ms)
        serving_nap(1);
    loop_tick(f->l);
    return session_pump(f->l, s);
}

#endif
