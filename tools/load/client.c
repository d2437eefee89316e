/* SPDX-License-Identifier: MIT */
/* client.c - one connection that connect.c has made: sending, reading, giving up, replacing it.
 *
 * In the steady state a request costs one receive and one send.  Events are reported once
 * (edge-triggered), so that the kernel need not look again at each connection that was read from.
 * EPOLLOUT is requested only while connecting and while a send would block.  There is no timer for
 * each request: the connection's one node checks, a time-out at a time, whether the oldest request
 * is overdue.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include "question.h"
#include "wire.h"

enum {
    BATCH = 16,   /* requests of one send */
    IN_A_ROW = 16 /* receives before other connections have their turn */
};

static struct shot *shot_at(const struct worker *w, const struct client *c, uint32_t at)
{
    return &c->shot[at & (w->plan->ring - 1)];
}

static uint32_t in_flight(const struct client *c)
{
    return c->next - c->oldest;
}

/* --- Giving up -------------------------------------------------------------------------------- */

/* The connection is over: make another one, unless there is nothing more to send. */
static void renew(struct worker *w, struct client *c)
{
    client_hang_up(w, c);
    if (!w->stopping && w->quota)
        connect_begin(w, c);
}

/* The request in flight that has that number. */
static const struct shot *nth(const struct worker *w, const struct client *c, uint32_t number)
{
    return w->plan->h2 ? h2_shot(c->wire->h2, number) : shot_at(w, c, c->oldest + number);
}

/* All requests in flight on this connection have failed. */
static void fail(struct worker *w, struct client *c, enum fault what)
{
    uint32_t lost = in_flight(c);
    const struct shot *s = lost ? nth(w, c, 0) : NULL;
    struct tally *t = &w->tally;

    if (lost)
        what = files_blame(w->plan, &w->plan->target[s->target], s->kind, what);
    if (!t->fault[what]) {
        t->example[what].target = lost ? s->target : 0;
        t->example[what].kind = lost ? s->kind : KIND_PLAIN;
        t->example[what].at = c->answer.wrong_at;
    }
    count_fault(w, what, lost ? lost : 1);
    for (uint32_t i = 0; i < lost; i++)
        count_end(w, c, nth(w, c, i), (struct outcome){.fault = (uint8_t)what});
    t->lost += lost;
    renew(w, c);
}

/* --- Sending ---------------------------------------------------------------------------------- */

bool client_is_free(const struct client *c)
{
    return c->state == CLIENT_UP && !c->leaving && !c->idle && in_flight(c) < c->depth;
}

void client_load(struct worker *w, struct client *c, uint64_t intended_ns)
{
    const struct plan *p = w->plan;
    struct shot *s = p->h2 ? h2_place(c->wire->h2) : shot_at(w, c, c->next);
    uint64_t room;

    s->intended_ns = intended_ns;
    s->sent_ns = w->now_ns;
    c->next++;
    c->begun++;
    c->leaving = s->last = c->begun == p->per_connection;
    s->shown = 0;
    turns_next(w, c, s);
    w->quota--;
    if (w->tally.sent++ == 0)
        w->tally.first_send_ns = w->now_ns;
    if (p->echo) {
        room = p->opt->message_max - p->opt->message_min + 1;
        s->bytes = (uint32_t)(p->opt->message_min + worker_random(w) % room);
        s->at = (uint32_t)(worker_random(w) % (POOL_BYTES - s->bytes));
    } else {
        if (w->shows)
            show_request(w, s);
        if (p->h2)
            h2_ask(c->wire->h2, s);
    }
}

/* n bytes have been sent: note which shots are complete now. */
static void account(struct worker *w, struct client *c, size_t n)
{
    size_t left;

    w->tally.bytes_out += n;
    while (n) {
        left = shot_text(w, shot_at(w, c, c->unsent)).len - c->unsent_at;
        if (n < left) {
            c->unsent_at += (uint32_t)n;
            return;
        }
        n -= left;
        c->unsent++;
        c->unsent_at = 0;
    }
}

/* An answer may be there to read: a refusal sent before the connection was closed. */
static void cannot_send(struct client *c)
{
    c->unsent = c->next;
    c->leaving = true;
}

/* Requests that are in the wire count as sent. */
static void send_by_wire(struct worker *w, struct client *c)
{
    bool room = true;
    struct slice s;
    int err;

    for (; c->unsent != c->next && room && !c->wire->h2; c->unsent++) {
        s = shot_text(w, shot_at(w, c, c->unsent));
        room = bytes_add(&w->clear, s.ptr, s.len);
    }
    err = wire_send(w, c);
    if (err == -EPROTO)
        fail(w, c, FAULT_BAD_FRAMING);
    else if (err || !room)
        cannot_send(c);
}

/* As many requests as one call takes; returns what it does. */
static ssize_t send_some(const struct worker *w, const struct client *c)
{
    struct iovec iov[BATCH];
    struct msghdr msg = {.msg_iov = iov};
    struct slice s;

    for (; msg.msg_iovlen < BATCH; msg.msg_iovlen++) {
        if (c->unsent + (uint32_t)msg.msg_iovlen == c->next)
            break;
        s = shot_text(w, shot_at(w, c, c->unsent + (uint32_t)msg.msg_iovlen));
        iov[msg.msg_iovlen].iov_base = (char *)s.ptr;
        iov[msg.msg_iovlen].iov_len = s.len;
    }
    iov[0].iov_base = (char *)iov[0].iov_base + c->unsent_at;
    iov[0].iov_len -= c->unsent_at;
    return sendmsg(c->fd, &msg, MSG_NOSIGNAL);
}

void client_send(struct worker *w, struct client *c)
{
    struct slice s;
    ssize_t n;

    if (c->wire) {
        send_by_wire(w, c);
        return;
    }
    while (c->unsent != c->next) {
        if (c->unsent + 1 == c->next) { /* nearly always */
            s = shot_text(w, shot_at(w, c, c->unsent));
            n = send(c->fd, s.ptr + c->unsent_at, s.len - c->unsent_at, MSG_NOSIGNAL);
        } else {
            n = send_some(w, c);
        }
        if (n < 0 && errno == EAGAIN) {
            if (!c->armed)
                client_watch(w, c, EPOLL_CTL_MOD, EPOLLIN | EPOLLRDHUP | EPOLLOUT);
            return;
        }
        if (n < 0) {
            cannot_send(c);
            return;
        }
        account(w, c, (size_t)n);
    }
    if (c->armed)
        client_watch(w, c, EPOLL_CTL_MOD, EPOLLIN | EPOLLRDHUP);
}

void client_fill(struct worker *w, struct client *c)
{
    while (w->quota && client_is_free(c))
        client_load(w, c, w->now_ns);
    client_send(w, c);
}

/* --- Receiving -------------------------------------------------------------------------------- */

/* The answer to the oldest request is complete. */
static void take(struct worker *w, struct client *c)
{
    struct shot *s = shot_at(w, c, c->oldest);

    count_answer(w, c, s, &c->answer);
    if (!c->answer.keep_alive)
        c->leaving = true;
    if (c->oldest++ == c->unsent && !w->plan->echo) {
        c->unsent = c->oldest; /* answered before it was wholly sent: a refusal */
        c->unsent_at = 0;
        c->leaving = true;
    }
    answer_begin(&c->answer);
}

/* Read the answers in these bytes; false: the connection is gone. */
static inline __attribute__((always_inline))
bool take_all(struct worker *w, struct client *c, struct slice bytes)
{
    struct question q;
    int r;

    while (bytes.len) {
        if (c->oldest == c->next) {
            c->answer.wrong_at = bytes.len;
            fail(w, c, FAULT_EXCESS);
            return false;
        }
        q = question_of(w, shot_at(w, c, c->oldest));
        r = w->plan->echo ? answer_feed_echo(&c->answer, &q, &bytes)
                          : answer_feed(&c->answer, &q, &bytes);
        if (r == ANSWER_BROKEN) {
            fail(w, c, c->answer.fault);
            return false;
        }
        if (r == ANSWER_DONE)
            take(w, c);
    }
    return true;
}

/* The server has ended the connection. */
static void ended(struct worker *w, struct client *c)
{
    struct question q;

    if (!in_flight(c)) {
        w->tally.closed_idle += !c->leaving;
        renew(w, c);
        return;
    }
    if (w->plan->h2) {
        fail(w, c, FAULT_CLOSED_EARLY);
        return;
    }
    q = question_of(w, shot_at(w, c, c->oldest));
    if (c->wire && !c->wire->ended && c->answer.in_body)
        c->answer.fault = FAULT_SHORT_BODY; /* anyone could have cut it (RFC 9112 9.8) */
    else if (!w->plan->echo && answer_end(&c->answer, &q) == ANSWER_DONE)
        take(w, c);
    else
        answer_end(&c->answer, &q);
    if (in_flight(c))
        fail(w, c, c->answer.fault ? c->answer.fault : FAULT_CLOSED_EARLY);
    else
        renew(w, c);
}

static void count_bytes(struct worker *w, size_t n)
{
    w->tally.bytes_in += n;
    if (w->second)
        w->second->bytes += n;
}

/* Read what these bytes are when they are decrypted; false: the connection is gone. */
static bool take_by_wire(struct worker *w, struct client *c, struct slice bytes)
{
    enum fault what = FAULT_NONE;
    struct slice plain;
    long n;

    do {
        n = wire_hear(w, c, &bytes, &plain);
        if (n == TLS_FAILED) {
            fail(w, c, FAULT_TLS_BROKEN);
            return false;
        }
        if (n == TLS_ENDED) {
            c->wire->ended = true;
            ended(w, c);
            return false;
        }
        count_bytes(w, plain.len);
        if (w->plan->h2)
            what = h2_hear(c->wire->h2, plain);
        else if (!take_all(w, c, plain))
            return false;
        if (what) {
            fail(w, c, what);
            return false;
        }
    } while (bytes.len);
    /* Send what the libraries have written; a stream that is reset closes then. */
    if (bytes_left(&c->wire->out) || (w->plan->h2 && h2_has_frames(c->wire->h2)))
        client_send(w, c);
    return c->state == CLIENT_UP;
}

/* Answers may have been taken; false: the connection is gone. */
static inline bool go_on(struct worker *w, struct client *c)
{
    if (c->leaving && !in_flight(c)) {
        w->tally.closed_idle += w->plan->h2 && h2_leaves(c->wire->h2);
        renew(w, c);
        return false;
    }
    if (client_is_free(c))
        w->on_free(w, c);
    return true;
}

/* Returns the number of bytes received; 0: there are no more, or the connection is gone. */
static size_t receive(struct worker *w, struct client *c)
{
    ssize_t n = recv(c->fd, w->scratch, SCRATCH_BYTES, 0);

    if (n < 0 && errno == EAGAIN)
        return 0;
    w->now_ns = clock_ns();
    if (n < 0) {
        fail(w, c, FAULT_RESET);
        return 0;
    }
    if (n == 0) {
        ended(w, c);
        return 0;
    }
    if (c->wire) {
        if (!take_by_wire(w, c, (struct slice){w->scratch, (size_t)n}))
            return 0;
    } else {
        count_bytes(w, (size_t)n);
        if (!take_all(w, c, (struct slice){w->scratch, (size_t)n}))
            return 0;
    }
    return go_on(w, c) ? (size_t)n : 0;
}

/* Bytes left unread are not reported again.  A receive that leaves room has emptied the socket, but
 * the end of the stream, or an error, may be behind the bytes. */
static void readable(struct worker *w, struct client *c, uint32_t events)
{
    bool over = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    unsigned i = 0;
    size_t n;

    do {
        n = receive(w, c);
    } while ((n == SCRATCH_BYTES || (n && over)) && ++i < IN_A_ROW);
    if (i == IN_A_ROW)
        client_watch(w, c, EPOLL_CTL_MOD,
                     EPOLLIN | EPOLLRDHUP | (c->armed ? (uint32_t)EPOLLOUT : 0));
}

/* Something came during the greeting.  True: that is over, and the rest is read as ever. */
static bool greet(struct worker *w, struct client *c)
{
    struct slice in;
    ssize_t n;

    do {
        n = recv(c->fd, w->scratch, SCRATCH_BYTES, 0);
        if (n < 0 && errno == EAGAIN)
            return false;
        w->now_ns = clock_ns();
        if (n <= 0) {
            connect_refused(w, c, wire_note_end(w, c, n ? "reset the connection"
                                                        : "closed the connection"));
            return false;
        }
        in = (struct slice){w->scratch, (size_t)n};
        connect_greet(w, c, &in);
    } while (c->state == CLIENT_GREETING);
    return c->state == CLIENT_UP && (!in.len || (take_by_wire(w, c, in) && go_on(w, c)));
}

/* A connection that is not up has an event; true: it is up now, and has it still. */
static bool rise(struct worker *w, struct client *c, uint32_t events)
{
    if (c->state == CLIENT_CONNECTING) {
        w->now_ns = clock_ns();
        connect_finish(w, c);
        return false;
    }
    if (c->state != CLIENT_GREETING)
        return false;
    if (c->armed && (events & EPOLLOUT))
        client_send(w, c);
    return (events & ~(uint32_t)EPOLLOUT) && greet(w, c);
}

void client_event(struct worker *w, struct client *c, uint32_t events)
{
    if (c->state != CLIENT_UP && !rise(w, c, events))
        return;
    if (events & ~(uint32_t)EPOLLOUT)
        readable(w, c, events);
    if (c->state == CLIENT_UP && c->armed && (events & EPOLLOUT))
        client_send(w, c);
}

/* --- Time ------------------------------------------------------------------------------------- */

/* HTTP/2: each request has its own time.  If all on a connection are late, it is replaced. */
static void streams_due(struct worker *w, struct client *c)
{
    uint64_t timeout_ns = w->plan->timeout_ns;
    uint64_t oldest_ns = h2_give_up(c->wire->h2, w->now_ns - timeout_ns);
    bool asks = in_flight(c) > 0;

    oldest_ns = oldest_ns < w->now_ns ? oldest_ns : w->now_ns;
    client_time(w, c, (oldest_ns + timeout_ns) / 1000000 + 1);
    client_send(w, c);
    if (c->state != CLIENT_UP)
        return;
    c->leaving = c->leaving || (asks && !in_flight(c));
    go_on(w, c);
}

void client_due(struct worker *w, struct client *c)
{
    uint64_t timeout_ns = w->plan->timeout_ns, end_ns = w->now_ns + timeout_ns;

    if (c->state == CLIENT_DOWN && !w->stopping && w->quota) {
        connect_begin(w, c);
    } else if (c->state == CLIENT_CONNECTING && c->fd < 0 &&
               w->now_ns - c->connect_ns < timeout_ns) {
        if (!w->stopping && w->quota)
            connect_try(w, c);
    } else if (c->state == CLIENT_CONNECTING) {
        connect_failed(w, c, ETIMEDOUT);
    } else if (c->state == CLIENT_GREETING) {
        connect_refused(w, c, wire_note_late(w, c));
    } else if (c->state == CLIENT_UP && w->plan->h2) {
        streams_due(w, c);
    } else if (c->state == CLIENT_UP) {
        if (in_flight(c))
            end_ns = shot_at(w, c, c->oldest)->sent_ns + timeout_ns;
        if (end_ns <= w->now_ns)
            fail(w, c, FAULT_TIMED_OUT);
        else
            client_time(w, c, end_ns / 1000000 + 1);
    }
}

void client_finish(struct worker *w, struct client *c)
{
    ssize_t n;

    w->tally.unanswered += in_flight(c);
    for (uint32_t i = 0; i < in_flight(c); i++)
        if (nth(w, c, i)->shown)
            show_end(w, nth(w, c, i), &(struct outcome){0});
    if (c->state == CLIENT_UP && !in_flight(c)) {
        n = recv(c->fd, w->scratch, SCRATCH_BYTES, MSG_DONTWAIT);
        if (n > 0 && c->wire) {
            take_by_wire(w, c, (struct slice){w->scratch, (size_t)n});
        } else if (n > 0) {
            c->answer.wrong_at = (uint64_t)n;
            fail(w, c, FAULT_EXCESS);
        }
    }
    client_hang_up(w, c);
}
