/* SPDX-License-Identifier: MIT */
/* session.c - a connection in user space: the machine, its socket, its timer.
 *
 * One owner, one close path.  Non-blocking engines call session_pump() when the socket is ready.
 * Blocking engines have the same conversation in blocking.c, where the socket does the waiting.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "../base/net.h"
#include "address_limits.h"

/* Between two sends of a connection that is duplex: what its peer has said meanwhile. */
void session_glance(struct loop *l, struct session *s)
{
    long n = net_recv_now(s->fd, l->scratch, sizeof(l->scratch));

    l->received++;
    if (n >= 0)
        conn_feed(&s->conn, l->scratch, (size_t)n, l->now_ms);
    else if (n != -EAGAIN)
        conn_abort(&s->conn);
}

/* A connection is closed and has last bytes to send: they are lost if the socket does not take them
 * now. */
void session_say_last(struct loop *l, struct session *s)
{
    struct conn_out out;

    if (!conn_leave(&s->conn, l->now_ms))
        return;
    out = conn_out(&s->conn);
    (void)net_send_now(s->fd, out.seg[0].bytes, (size_t)out.seg[0].len);
    conn_abort(&s->conn);
}

static enum conn_want pump_line(struct loop *l, struct session *s)
{
    struct line line = line_of(l, s);
    struct pump p = {.transport = &line_transport, .io = &line, .scratch = l->scratch,
                     .recv_bytes = sizeof(l->scratch), .edge = l->edge};
    enum conn_want want;

    line.fetch = l->fetch;
    want = conn_pump(&s->conn, &p, l->now_ms);
    l->ahead = NULL;
    l->more = p.more;
    if (want != CONN_SEND)
        line_uncork(&line);
    return want;
}

/* --- The loop's list -------------------------------------------------------------------------- */

void session_list_add(struct loop *l, struct session *s)
{
    s->next = NULL;
    s->prev = l->last;
    if (l->last)
        l->last->next = s;
    else
        l->first = s;
    l->last = s;
}

void session_list_del(struct loop *l, struct session *s)
{
    if (s->prev)
        s->prev->next = s->next;
    else
        l->first = s->next;
    if (s->next)
        s->next->prev = s->prev;
    else
        l->last = s->prev;
}

/* --- Life ------------------------------------------------------------------------------------- */

void session_init(struct loop *l, struct session *s, int fd)
{
    const struct server *srv = l->worker->server;
    const char *far = srv->arrangement.congestion_far;

    if (*far)
        congestion_far(fd, far);
    *s = (struct session){.fd = fd};
    conn_init(&s->conn, srv->limits ? limits_protocol(srv->limits, fd, srv->proto) : srv->proto,
              &l->host.conn, l->now_ms);
    s->generation = ++l->generation;
    stats_add(srv->stats, STAT_ACCEPTED, 1);
}

void session_fini(struct loop *l, struct session *s)
{
    struct server *srv = l->worker->server;
    struct stats *stats = srv->stats;

    stats_add(stats, STAT_BYTES, s->conn.sent);
    if (conn_unfinished(&s->conn))
        net_cut(s->fd);
    conn_fini(&s->conn);
    if (s->conn.stays_open && l->set_fd >= 0)
        (void)epoll_ctl(l->set_fd, EPOLL_CTL_DEL, s->fd, NULL);
    connection_close(srv, s->fd);
    stats_add(stats, STAT_CLOSED, 1);
}

struct session *session_open(struct loop *l, int fd)
{
    struct session *s = malloc(sizeof(*s));

    if (!s) {
        stats_add(l->worker->server->stats, STAT_REFUSED, 1);
        connection_close(l->worker->server, fd);
        return NULL;
    }
    session_init(l, s, fd);
    session_list_add(l, s);
    wheel_add(&l->wheel, &s->timer, s->conn.deadline_ms);
    l->live++;
    return s;
}

void session_close(struct loop *l, struct session *s)
{
    if (l->victims)
        victims_forget(l->victims, s);
    fetch_forget(l->fetch, s);
    s->conn.host = &l->host.conn; /* it may have been pumped with another thread's loop */
    wheel_del(&l->wheel, &s->timer);
    session_list_del(l, s);
    session_say_last(l, s);
    session_fini(l, s);
    free(s);
    l->live--;
    l->paused = false; /* there is room, and a descriptor */
}

void session_refuse(struct loop *l, struct session *s)
{
    stats_add(l->worker->server->stats, STAT_REFUSED, 1);
    session_close(l, s);
}

static void retime(struct loop *l, struct session *s)
{
    wheel_del(&l->wheel, &s->timer);
    wheel_add(&l->wheel, &s->timer, s->conn.deadline_ms);
}

/* A deadline that moves later costs nothing: the timer fires early and is added again.  Only one
 * that moves earlier (the first byte of a head, after idling) has to change the wheel. */
enum conn_want session_pump(struct loop *l, struct session *s)
{
    uint64_t before_ms = s->conn.deadline_ms;
    enum conn_want want;

    if (fetch_waits(s)) { /* an event or a sweep called it all the same */
        l->more = false;
        return CONN_WAIT;
    }
    want = pump_line(l, s);
    if (s->conn.deadline_ms < before_ms)
        retime(l, s);
    return fetch_waits(s) ? CONN_WAIT : want;
}

/* --- The kernel moved the bytes: completion --------------------------------------------------- */

/* Do what follows a pump, after the kernel has moved bytes. */
static enum conn_want moved(struct loop *l, struct session *s, uint64_t before_ms)
{
    if (conn_shuts(&s->conn))
        line_end(&s->conn, s->fd);
    if (s->conn.deadline_ms < before_ms)
        retime(l, s);
    return (enum conn_want)s->conn.want;
}

void loop_received(struct loop *l)
{
    l->received++;
}

enum conn_want session_fed(struct loop *l, struct session *s, const char *bytes, long n)
{
    uint64_t before_ms = s->conn.deadline_ms;

    if (n < 0)
        conn_abort(&s->conn);
    else
        conn_feed(&s->conn, bytes, (size_t)n, l->now_ms);
    return moved(l, s, before_ms);
}

enum conn_want session_sent(struct loop *l, struct session *s, long n)
{
    uint64_t before_ms = s->conn.deadline_ms;

    if (n <= 0)
        conn_abort(&s->conn); /* gone, or the file has become shorter: nothing may follow */
    else
        conn_sent(&s->conn, (size_t)n, l->now_ms);
    if (conn_glances(&s->conn))
        session_glance(l, s);
    return moved(l, s, before_ms);
}

static bool at_hand(const struct session *s)
{
    struct conn_out out;
    const struct segment *last;

    if (s->conn.want != CONN_SEND)
        return false;
    out = conn_out(&s->conn);
    last = &out.seg[out.count - 1];
    return !last->bytes && sender_at_hand(&out, session_file(last));
}

/* The ring waits only for sockets that may block; during these calls this one may not. */
enum conn_want session_hand_over(struct loop *l, struct session *s, bool *polls)
{
    struct line line = line_of(l, s);
    long budget = PUMP_BYTES_MAX, n = 0;

    *polls = false;
    if (!at_hand(s))
        return (enum conn_want)s->conn.want;
    net_may_block(s->fd, false);
    do {
        struct conn_out out = conn_out(&s->conn);

        n = line_send(&line, &out);
        *polls = n == -EAGAIN;
        if (*polls)
            break;
        session_sent(l, s, n);
        budget -= n;
        *polls = budget <= 0 && s->conn.want == CONN_SEND;
    } while (!*polls && at_hand(s));
    net_may_block(s->fd, true);
    return (enum conn_want)s->conn.want;
}

enum conn_want session_woken(struct loop *l, struct session *s)
{
    return moved(l, s, UINT64_MAX); /* the deadline before loop_resumed() is not known */
}

int session_file(const struct segment *seg)
{
    return site_source_fd(seg->source);
}

void session_cancel_begin(struct session *s)
{
    __atomic_store_n(&s->owner, OWNER_THREAD, __ATOMIC_RELAXED);
}

void session_cancel_undo(struct loop *l, struct session *s)
{
    __atomic_store_n(&s->owner, OWNER_LOOP, __ATOMIC_RELAXED);
    retime(l, s);
}

/* --- Lent to another thread: session.owner says whose it is ----------------------------------- */

bool session_schedule(struct loop *l, struct session *s)
{
    const struct conn_host *h = &l->host.conn;
    uint64_t nearest_ms = h->head_ms < LINGER_MS ? h->head_ms : LINGER_MS;
    uint8_t state = __atomic_load_n(&s->owner, __ATOMIC_ACQUIRE);

    while (state != OWNER_LOOP)
        if (__atomic_compare_exchange_n(&s->owner, &state, OWNER_MISSED, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return false;
    /* Any deadline that the other thread sets is at least this far away. */
    nearest_ms = h->idle_ms < nearest_ms ? h->idle_ms : nearest_ms;
    nearest_ms = h->send_ms < nearest_ms ? h->send_ms : nearest_ms;
    if (s->conn.deadline_ms > l->now_ms + nearest_ms) { /* a drip must not delay it for ever */
        wheel_del(&l->wheel, &s->timer);
        wheel_add(&l->wheel, &s->timer, l->now_ms + nearest_ms);
    }
    __atomic_store_n(&s->owner, OWNER_THREAD, __ATOMIC_RELEASE);
    return true;
}

enum conn_want session_pump_scheduled(struct loop *own, struct session *s)
{
    __atomic_store_n(&s->owner, OWNER_THREAD, __ATOMIC_RELEASE);
    s->conn.host = &own->host.conn;
    own->received++; /* another loop may have left a request in the input queue */
    return pump_line(own, s);
}

bool session_complete(struct session *s)
{
    uint8_t state = OWNER_THREAD;

    return __atomic_compare_exchange_n(&s->owner, &state, OWNER_LOOP, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

bool session_is_local(const struct session *s)
{
    return __atomic_load_n(&s->owner, __ATOMIC_ACQUIRE) == OWNER_LOOP;
}

/* --- Questions -------------------------------------------------------------------------------- */

struct session *session_of_timer(struct wheel_node *n)
{
    return (struct session *)(void *)((char *)n - offsetof(struct session, timer));
}

bool session_idle(const struct session *s)
{
    return conn_idle(&s->conn) && net_unread(s->fd) <= 0;
}

bool session_may_leave(const struct worker *w, const struct session *s, uint64_t now_ms)
{
    const struct server *srv = w->server;
    bool patient = srv->handed || (srv->passed && s->conn.requests == 0);
    unsigned idle_ms = patient ? HANDED_IDLE_MS : ROOM_IDLE_MS;

    return session_idle(s) && room_idle_since_ms(&s->conn) + idle_ms <= now_ms;
}

bool session_overdue(struct session *s, uint64_t now_ms)
{
    uint64_t acked = s->conn.want == CONN_SEND ? net_acked(s->fd, s->conn.sent) : s->conn.sent;

    if (s->conn.want == CONN_WAIT && fetch_waits(s)) /* TLS: a disk that hangs, not a listing */
        return true;
    if (conn_idle(&s->conn) && net_unread(s->fd) > 0)
        return !conn_spoken(&s->conn, now_ms);
    return conn_overdue(&s->conn, acked, now_ms);
}
