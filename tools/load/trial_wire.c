/* SPDX-License-Identifier: MIT */
/* trial_wire.c - a trial's bytes on their way: as they are, or inside TLS.
 *
 * A script counts bytes at the socket: a client that reads ten of them reads ten of a record, and
 * what it decrypts then waits for its next calls.  Records that carry nothing for HTTP, such as
 * tickets, are no bytes that came.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>
#include "tls.h"
#include "trial.h"

enum { RAW_BYTES = 16384 };

/* TLS of a talk. */
struct secret {
    struct tls *tls;
    struct bytes out;       /* for the socket */
    struct slice raw, left; /* received, and decrypted; neither is taken yet */
    bool ended;             /* by close_notify */
    int error;              /* -errno; 0: none yet */
    char raw_bytes[RAW_BYTES], plain[TLS_PLAIN_BYTES];
};

int talk_poll(const struct talk *t, short events, uint64_t until_ns)
{
    struct pollfd p = {.fd = t->fd, .events = events};

    for (;;) {
        uint64_t now = clock_ns();

        if (poll(&p, 1, now < until_ns ? (int)((until_ns - now) / 1000000 + 1) : 0) > 0)
            return 0;
        if (clock_ns() >= until_ns)
            return -ETIMEDOUT;
    }
}

/* --- TLS -------------------------------------------------------------------------------------- */

/* Sends the waiting bytes.  0, even if some has to wait; or -errno. */
static int flush(const struct talk *t)
{
    struct bytes *out = &t->secret->out;
    ssize_t n;

    while (bytes_left(out)) {
        n = send(t->fd, out->ptr + out->at, bytes_left(out), MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        out->at += (size_t)n;
    }
    return 0;
}

/* Takes what there is, up to `most` bytes of the socket.  0: there are bytes, the end or an error
 * (s->error) for the caller; -EAGAIN: nothing yet. */
static int decrypt(struct talk *t, size_t most)
{
    struct secret *s = t->secret;
    ssize_t n;
    long plain;

    while (!s->left.len && !s->ended && !s->error) {
        if (!s->raw.len) {
            n = recv(t->fd, s->raw_bytes, most < RAW_BYTES ? most : RAW_BYTES, 0);
            if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
                s->error = flush(t);
                return s->error ? 0 : -EAGAIN;
            }
            s->error = n < 0 ? -errno : n == 0 ? -ENODATA : 0;
            s->raw = (struct slice){s->raw_bytes, n > 0 ? (size_t)n : 0};
            continue;
        }
        plain = tls_hear(s->tls, &s->raw, &s->out, s->plain);
        s->ended = plain == TLS_ENDED;
        s->error = plain == TLS_FAILED ? -EPROTO : 0;
        if (plain > 0)
            s->left = (struct slice){s->plain, (size_t)plain};
    }
    return 0;
}

int talk_shake(struct talk *t, uint64_t until_ns)
{
    const struct plan *p = t->scene->plan;
    struct secret *s = t->secret = calloc(1, sizeof(*s));
    int err = -EAGAIN;

    if (s)
        s->tls = tls_begin(p->tls, p, 0);
    if (!s || !s->tls)
        return -ENOMEM;
    tls_hear(s->tls, &s->raw, &s->out, s->plain);
    while (!s->error && !s->ended && !tls_done(s->tls)) {
        err = flush(t);
        err = err ? err : talk_poll(t, POLLIN, until_ns);
        if (err)
            return err;
        (void)decrypt(t, RAW_BYTES);
    }
    if (s->error == -EPROTO) {
        tls_why(s->tls, t->why);
        flush(t);
        return -EBADMSG;
    }
    t->secure = true;
    return s->error ? s->error : s->ended ? -ENODATA : flush(t);
}

/* --- Both ways -------------------------------------------------------------------------------- */

int talk_await(struct talk *t, size_t most, uint64_t until_ns)
{
    int err;

    if (!t->secret)
        return talk_poll(t, POLLIN | POLLRDHUP, until_ns);
    while (decrypt(t, most) == -EAGAIN) {
        err = talk_poll(t, bytes_left(&t->secret->out) ? POLLIN | POLLOUT : POLLIN, until_ns);
        if (err)
            return err;
    }
    return 0;
}

long talk_receive(struct talk *t, char *to, size_t most)
{
    struct secret *s = t->secret;
    ssize_t n;

    if (!s) {
        n = recv(t->fd, to, most, 0);
        return n >= 0 ? n : -errno;
    }
    if (decrypt(t, most) == -EAGAIN)
        return -EAGAIN;
    if (!s->left.len)
        return s->ended || s->error == -ENODATA ? 0 : s->error;
    n = (ssize_t)(s->left.len < most ? s->left.len : most);
    memcpy(to, s->left.ptr, (size_t)n);
    s->left.ptr += n;
    s->left.len -= (size_t)n;
    return n;
}

bool talk_was_cut(const struct talk *t)
{
    return t->secret && !t->secret->ended;
}

long talk_push(struct talk *t, const char *bytes, size_t n)
{
    struct secret *s = t->secret;
    ssize_t sent;
    int err;

    if (!s) {
        sent = send(t->fd, bytes, n, MSG_NOSIGNAL);
        return sent >= 0 ? sent : errno == EAGAIN || errno == EINTR ? 0 : -errno;
    }
    err = flush(t);
    if (err || bytes_left(&s->out))
        return err;
    n = n < TLS_PLAIN_BYTES ? n : TLS_PLAIN_BYTES;
    if (!tls_speak(s->tls, (struct slice){bytes, n}, &s->out))
        return -EPIPE;
    err = flush(t);
    return err ? err : (long)n;
}

bool talk_waits(const struct talk *t)
{
    return t->secret && bytes_left(&t->secret->out);
}

void talk_end_sending(struct talk *t)
{
    if (t->secret) {
        tls_shut(t->secret->tls, &t->secret->out);
        flush(t);
    }
    shutdown(t->fd, SHUT_WR);
}

int talk_let_go(struct talk *t)
{
    int fd = t->fd;

    if (t->secret) {
        tls_end(t->secret->tls);
        bytes_free(&t->secret->out);
        free(t->secret);
    }
    t->secret = NULL;
    t->secure = false;
    t->fd = -1;
    return fd;
}
