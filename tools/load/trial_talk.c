/* SPDX-License-Identifier: MIT */
/* trial_talk.c - a connection of a trial: its calls wait until a deadline, and the same answer.c
 * that judges load checks every byte that comes.
 *
 * Sockets are non-blocking and poll() does the waiting, so that a deadline holds whatever the
 * server does.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>
#include "../../base/say.h"
#include "trial.h"
#include "workload.h"

bool talk_nap(struct talk *t, uint64_t ms)
{
    return talk_await(t, sizeof(t->scratch), clock_ns() + ms * 1000000) == 0;
}

/* --- Making and ending ------------------------------------------------------------------------ */

static int try_connect(struct talk *t, uint64_t until_ns)
{
    const struct peer *peer = &t->scene->plan->peer[0];
    socklen_t len = sizeof(int);
    int err = 0;

    if (connect(t->fd, (const struct sockaddr *)&peer->sa, peer->len) == 0)
        return 0;
    if (errno == EAGAIN) { /* a Unix socket whose queue is full: there is nothing to wait for */
        poll(NULL, 0, 10);
        return clock_ns() < until_ns ? -EAGAIN : -ETIMEDOUT;
    }
    if (errno != EINPROGRESS)
        return -errno;
    if (talk_poll(t, POLLOUT, until_ns) != 0)
        return -ETIMEDOUT;
    getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &err, &len);
    return -err;
}

int talk_open(struct talk *t, int receive_bytes)
{
    const struct peer *peer = &t->scene->plan->peer[0];
    uint64_t until_ns = clock_ns() + t->scene->timeout_ns;
    int on = 1, err;

    t->asked = t->answers = 0;
    t->last = false;
    t->what = NULL;
    answer_begin(&t->answer);
    t->fd = socket(peer->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (t->fd < 0)
        return -errno;
    if (peer->sa.ss_family != AF_UNIX)
        setsockopt(t->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (receive_bytes)
        setsockopt(t->fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
    do {
        err = try_connect(t, until_ns);
    } while (err == -EAGAIN);
    if (!err && t->scene->plan->secure)
        err = talk_shake(t, until_ns);
    if (err)
        talk_close(t);
    return err;
}

static void hang_up(struct talk *t)
{
    int fd = talk_let_go(t);

    if (fd >= 0)
        close(fd);
}

void talk_close(struct talk *t)
{
    if (t->secure)
        talk_end_sending(t);
    hang_up(t);
}

void talk_reset(struct talk *t)
{
    struct linger reset = {.l_onoff = 1};

    if (t->fd >= 0)
        setsockopt(t->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    hang_up(t);
}

void talk_fini(struct talk *t)
{
    talk_close(t);
    free(t->answer.partial);
}

/* --- Sending ---------------------------------------------------------------------------------- */

int talk_send(struct talk *t, const char *bytes, size_t n, uint64_t until_ns)
{
    long sent;

    while (n || talk_waits(t)) {
        sent = talk_push(t, bytes, n);
        if (sent < 0)
            return (int)sent;
        bytes += sent;
        n -= (size_t)sent;
        if ((n || talk_waits(t)) && talk_poll(t, POLLOUT, until_ns) != 0)
            return -ETIMEDOUT;
    }
    return 0;
}

struct slice talk_request(const struct scene *s, enum trial_ask what)
{
    return s->target[what].request[0];
}

int talk_ask(struct talk *t, uint64_t until_ns)
{
    struct slice request = talk_request(t->scene, ASK_GET);

    t->asked++;
    return talk_send(t, request.ptr, request.len, until_ns);
}

/* --- Receiving -------------------------------------------------------------------------------- */

static int wrong(struct talk *t, const char *what)
{
    snprintf(t->why, sizeof(t->why), "answer %u of a connection: %s", t->answers + 1, what);
    return -EBADMSG;
}

/* The kind of the request whose answer is being read. */
static enum trial_ask what_next(const struct talk *t)
{
    return t->what ? t->what[t->answers % TRIAL_DEPTH] : ASK_GET;
}

/* Judges an answer that is complete, or wrong already. */
static int judge(struct talk *t, enum trial_ask what)
{
    const struct answer *a = &t->answer;
    unsigned wanted = t->scene->target[what].also;
    enum fault what_is_wrong = FAULT_NONE;
    char text[140];

    t->status = a->status;
    if (a->fault)
        what_is_wrong = files_blame(t->scene->plan, &t->scene->target[what], KIND_PLAIN, a->fault);
    if (a->status != wanted) {
        snprintf(text, sizeof(text), "status %u in place of %u", a->status, wanted);
        return wrong(t, text);
    }
    if (a->fault) {
        snprintf(text, sizeof(text), "%s, at byte %llu", fault_words[what_is_wrong],
                 (unsigned long long)a->wrong_at);
        return wrong(t, text);
    }
    t->last = !a->keep_alive;
    t->answers++;
    answer_begin(&t->answer);
    return 0;
}

static int check(struct talk *t, struct slice bytes)
{
    const struct scene *s = t->scene;
    int r, err = 0;

    while (bytes.len && !err) {
        enum trial_ask what = what_next(t);
        struct question q = {.plan = s->plan, .target = &s->target[what]};

        if (t->answers == t->asked)
            return wrong(t, "bytes that no request has asked for");
        r = answer_feed(&t->answer, &q, &bytes);
        if (r == ANSWER_BROKEN)
            return wrong(t, fault_words[t->answer.fault]);
        if (r == ANSWER_DONE)
            err = judge(t, what);
        else if (t->answer.fault == FAULT_WRONG_BODY || t->answer.fault == FAULT_WRONG_LENGTH)
            err = judge(t, what); /* a wrong prefix: the end need not come */
    }
    return err;
}

long talk_take(struct talk *t, size_t most, uint64_t until_ns)
{
    const struct answer *a = &t->answer;
    long n;
    int err;

    most = most < sizeof(t->scratch) ? most : sizeof(t->scratch);
    if (talk_await(t, most, until_ns) != 0)
        return -ETIMEDOUT;
    n = talk_receive(t, t->scratch, most);
    if (n < 0)
        return n == -EAGAIN ? -ETIMEDOUT : n;
    if (n == 0 && a->in_body && a->framing == FRAMING_CLOSE && !talk_was_cut(t)) {
        enum trial_ask what = what_next(t);
        struct question q = {.plan = t->scene->plan, .target = &t->scene->target[what]};

        answer_end(&t->answer, &q);
        err = judge(t, what);
        return err ? err : -ENODATA;
    }
    if (n == 0)
        return a->in_body || a->partial_len ? -ECONNABORTED : -ENODATA;
    err = check(t, (struct slice){t->scratch, (size_t)n});
    return err ? err : n;
}

int talk_answers(struct talk *t, uint64_t until_ns)
{
    while (t->answers < t->asked) {
        long n = talk_take(t, sizeof(t->scratch), until_ns);

        if (n < 0 && !(n == -ENODATA && t->answers == t->asked))
            return (int)n;
    }
    return 0;
}

/* The status of a refusal, or -EBADMSG if it is wrong; 0: its head is not complete. */
static int refusal_status(struct talk *t, size_t n)
{
    struct http_head head;
    long len = http_parse_response(t->scratch, n, HTTP_GET, &head);

    if (len == 0)
        return 0;
    if (len > 0 && head.status >= 400 && head.status <= 499)
        return (int)head.status;
    if (len > 0)
        snprintf(t->why, sizeof(t->why), "answered with %u, where a refusal of 400 to 499 is due",
                 head.status);
    else
        snprintf(t->why, sizeof(t->why), "answered with what is not HTTP/1.1");
    return -EBADMSG;
}

int talk_refusal(struct talk *t, uint64_t until_ns)
{
    size_t have = 0;
    int status = 0;
    long n;

    for (;;) {
        if (talk_await(t, sizeof(t->scratch), until_ns) != 0)
            return -ETIMEDOUT;
        if (status || have == sizeof(t->scratch))
            have = 0; /* bytes after the head are the page of the refusal */
        n = talk_receive(t, t->scratch + have, sizeof(t->scratch) - have);
        if (n == -EAGAIN || n == -EINTR)
            continue;
        if (n > 0) {
            have += (size_t)n;
            status = status ? status : refusal_status(t, have);
            if (status < 0)
                return status;
            continue;
        }
        if (!status && have) {
            snprintf(t->why, sizeof(t->why), "ended in the middle of the head of an answer");
            return -EBADMSG;
        }
        return status;
    }
}

const char *talk_words(const struct talk *t, int err)
{
    switch (err) {
    case -EBADMSG:
        return t->why;
    case -ETIMEDOUT:
        return "nothing came of it in time";
    case -ENODATA:
        return "the server closed the connection before the answer";
    case -ECONNABORTED:
        return "the server closed the connection in the middle of an answer";
    case -EPROTO:
        return "the server broke TLS, or ended it with an alert";
    case -ECONNRESET:
    case -EPIPE:
        return "the server reset the connection";
    default:
        return say_why(err);
    }
}
