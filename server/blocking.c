/* SPDX-License-Identifier: MIT */
/* blocking.c - a thread serves one connection from accept to close, and the socket does the
 * waiting.
 *
 * The clock is read after each transfer, because a blocking receive may have taken seconds; and the
 * watchdog may look at the machine only while the thread is inside a transfer.
 */
#include <unistd.h>
#include "../base/net.h"
#include "address_limits.h"
#include "tls.h"

static void serve_input(struct loop *l, struct session *s, struct line *line)
{
    struct watchdog *wd = l->worker->watchdog;
    long n;

    watchdog_leave(wd, s);
    n = line_recv(line, l->scratch, sizeof(l->scratch));
    watchdog_enter(wd, s);
    loop_tick(l);
    if (n == 0 && watchdog_has_shut(s)) /* ended by the watchdog, not by the client */
        session_say_last(l, s);
    if (n < 0 || (n == 0 && watchdog_has_shut(s)))
        conn_abort(&s->conn);
    else
        conn_feed(&s->conn, l->scratch, (size_t)n, l->now_ms);
}

static void serve_output(struct loop *l, struct session *s, struct line *line)
{
    struct watchdog *wd = l->worker->watchdog;
    struct conn_out out = conn_out(&s->conn);
    long n;

    watchdog_leave(wd, s);
    n = line_send(line, &out);
    watchdog_enter(wd, s);
    loop_tick(l);
    if (n <= 0)
        conn_abort(&s->conn); /* gone, or the file has become shorter: nothing may follow */
    else
        conn_sent(&s->conn, (size_t)n, l->now_ms);
    if (conn_glances(&s->conn))
        session_glance(l, s);
}

void session_begin(struct loop *l, struct session *s, int fd)
{
    loop_tick(l);
    session_init(l, s, fd);
    watchdog_add(l->worker->watchdog, s); /* as after watchdog_enter() */
}

bool session_turned_away(struct loop *l, struct session *s)
{
    if (!watchdog_turns_away(l->worker->watchdog, s))
        return false;
    stats_add(l->worker->server->stats, STAT_EVICTED, 1);
    return true;
}

void session_run(struct loop *l, struct session *s)
{
    struct line line = line_of(l, s);

    while (s->conn.want != CONN_CLOSE) {
        if (conn_shuts(&s->conn))
            line_shut(&line);
        if (s->conn.want == CONN_SEND)
            serve_output(l, s, &line);
        else if (s->conn.want != CONN_CLOSE)
            serve_input(l, s, &line);
    }
}

/* Another process may hold the socket too, so closing it would send nothing to the peer: it is shut
 * down instead, unless the last close must reset it.  And a later child must not inherit the
 * descriptors that this process sent with. */
void session_leave(struct loop *l, struct session *s)
{
    const struct server *srv = l->worker->server;
    bool failed = conn_unfinished(&s->conn);

    stats_add(srv->stats, STAT_BYTES, s->conn.sent);
    conn_fini(&s->conn);
    if (srv->tls && srv->tls->kernel)
        tls_last_wait(srv);
    sender_rest(l->sender);
    if (failed)
        net_cut(s->fd);
    else
        net_end(s->fd);
}

void session_gone(struct loop *l, struct session *s, bool lost)
{
    watchdog_del(l->worker->watchdog, s);
    connection_close(l->worker->server, s->fd);
    stats_add(l->worker->server->stats, lost ? STAT_LOST : STAT_CLOSED, 1);
}

void session_serve(struct loop *l, int fd)
{
    struct session s;

    session_begin(l, &s, fd);
    if (!session_turned_away(l, &s))
        session_run(l, &s);
    watchdog_del(l->worker->watchdog, &s);
    session_fini(l, &s);
    sender_rest(l->sender); /* a thread without a connection holds no descriptor */
}
