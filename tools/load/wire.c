/* SPDX-License-Identifier: MIT */
/* wire.c - TLS and HTTP/2 between a socket and the requests of its connection; see wire.h.
 *
 * The bytes that a thread is about to encrypt, and those it has just decrypted, are in two buffers
 * of the thread, because they are used up at once.  A connection has one of its own for what the
 * socket did not take.
 */
#include <errno.h>
#include <sys/epoll.h>
#include "wire.h"

enum { HANDSHAKE = 0x16, ALERT = 0x15 /* the only records that a server may begin with */ };

/* --- Counting --------------------------------------------------------------------------------- */

enum fault wire_note(struct worker *w, enum fault what, const char *why)
{
    struct tally *t = &w->tally;

    if (!t->greeting.fault) {
        t->greeting.fault = what;
        snprintf(t->greeting.why, sizeof(t->greeting.why), "%s", why);
    }
    return what;
}

static void count_handshake(struct worker *w, const struct client *c,
                            const struct tls_facts *facts)
{
    struct tally *t = &w->tally;

    if (facts->resumed)
        t->tls.resumed++;
    else
        t->tls.full++;
    if (!t->tls.version) {
        t->tls.version = facts->version;
        t->tls.cipher = facts->cipher;
    }
    t->tls.others += strcmp(t->tls.version, facts->version) != 0 ||
                     strcmp(t->tls.cipher, facts->cipher) != 0;
    hist_add(&t->handshake, w->now_ns - c->connect_ns, 1);
}

/* --- The socket ------------------------------------------------------------------------------- */

static int flush(struct worker *w, struct client *c)
{
    struct bytes *out = &c->wire->out;
    ssize_t n;

    while (bytes_left(out)) {
        n = send(c->fd, out->ptr + out->at, bytes_left(out), MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            if (!c->armed)
                client_watch(w, c, EPOLL_CTL_MOD, EPOLLIN | EPOLLRDHUP | EPOLLOUT);
            return 0;
        }
        if (n < 0)
            return -errno;
        out->at += (size_t)n;
    }
    if (c->armed)
        client_watch(w, c, EPOLL_CTL_MOD, EPOLLIN | EPOLLRDHUP);
    return 0;
}

int wire_send(struct worker *w, struct client *c)
{
    struct wire *wire = c->wire;
    struct bytes *clear = wire->tls ? &w->clear : &wire->out;
    size_t before = wire->tls ? 0 : bytes_left(clear);
    enum fault what = wire->h2 ? h2_make(wire->h2, clear) : FAULT_NONE;
    bool spoken = true;

    w->tally.bytes_out += bytes_left(clear) - before;
    if (wire->tls)
        spoken = tls_speak(wire->tls, (struct slice){w->clear.ptr, w->clear.len}, &wire->out);
    w->clear.len = 0;
    if (what) {
        flush(w, c); /* GOAWAY says why */
        return -EPROTO;
    }
    return spoken ? flush(w, c) : -EIO;
}

long wire_hear(struct worker *w, struct client *c, struct slice *in, struct slice *plain)
{
    long n = (long)in->len;

    if (!c->wire->tls) {
        *plain = *in;
        in->len = 0;
        return n;
    }
    n = tls_hear(c->wire->tls, in, &c->wire->out, w->plain);
    *plain = (struct slice){w->plain, n > 0 ? (size_t)n : 0};
    return n;
}

/* --- The greeting ----------------------------------------------------------------------------- */

bool wire_begin(struct worker *w, struct client *c)
{
    struct wire *wire = c->wire = calloc(1, sizeof(*wire));

    if (!wire)
        return false;
    if (w->plan->secure)
        wire->tls = tls_begin(w->tls, w->plan, c->peer);
    else
        wire->h2 = h2_begin(w, c);
    return wire->tls || wire->h2;
}

enum fault wire_note_end(struct worker *w, const struct client *c, const char *how)
{
    bool tls = c->wire->tls && !tls_done(c->wire->tls);
    char why[TLS_WHY_BYTES];

    snprintf(why, sizeof(why), "it %s %s", how,
             tls ? "during the handshake" : "before any SETTINGS; does it speak HTTP/2?");
    return wire_note(w, tls ? FAULT_TLS_CLOSED : FAULT_NOT_HTTP2, why);
}

enum fault wire_note_late(struct worker *w, const struct client *c)
{
    if (c->wire->tls && !tls_done(c->wire->tls))
        return wire_note(w, FAULT_TLS_LATE, "its handshake took too long");
    return wire_note(w, FAULT_NOT_HTTP2, "it sent no SETTINGS in time; does it speak HTTP/2?");
}

/* The handshake is complete. */
static enum fault agreed(struct worker *w, struct client *c)
{
    struct tls_facts facts;

    tls_describe(c->wire->tls, &facts);
    count_handshake(w, c, &facts);
    if (!w->plan->h2)
        return FAULT_NONE;
    if (facts.alpn != ALPN_H2)
        return wire_note(w, FAULT_NO_PROTOCOL, facts.alpn == ALPN_HTTP1
                         ? "it chose HTTP/1.1 in place of HTTP/2 (ALPN)"
                         : "it chose no protocol (ALPN); does it speak HTTP/2?");
    c->wire->h2 = h2_begin(w, c);
    return c->wire->h2 ? FAULT_NONE : wire_note(w, FAULT_CONNECT, "there is no memory for HTTP/2");
}

/* Handshakes, with the bytes at the front of *in. */
static enum fault handshake(struct worker *w, struct client *c, struct slice *in,
                            struct slice *plain)
{
    struct wire *wire = c->wire;
    char why[TLS_WHY_BYTES];
    enum fault what;
    long n;

    if (in->len && !wire->heard && in->ptr[0] != HANDSHAKE && in->ptr[0] != ALERT)
        return wire_note(w, FAULT_NOT_TLS, "it does not speak TLS; is it http://?");
    wire->heard = wire->heard || in->len;
    n = wire_hear(w, c, in, plain);
    if (n == TLS_FAILED) {
        what = tls_why(wire->tls, why);
        flush(w, c); /* an alert says why */
        return wire_note(w, what, why);
    }
    if (n == TLS_ENDED)
        return wire_note_end(w, c, "ended the connection");
    return tls_done(wire->tls) && !wire->h2 ? agreed(w, c) : FAULT_NONE;
}

/* Takes the server's SETTINGS, or bytes that follow them too early. */
static enum fault hear_greeting(struct worker *w, struct client *c, struct slice plain)
{
    enum fault what;

    if (!c->wire->h2)
        return plain.len ? FAULT_EXCESS : FAULT_NONE; /* nothing has been asked */
    what = h2_hear(c->wire->h2, plain);
    if (what == FAULT_NOT_HTTP2)
        return wire_note(w, what, plain.ptr[0] == 'H' ? "it answers with HTTP/1, not HTTP/2"
                                                      : "it does not speak HTTP/2");
    return what;
}

static bool is_greeted(const struct wire *wire, bool h2)
{
    return (!wire->tls || tls_done(wire->tls)) && (!h2 || (wire->h2 && h2_is_greeted(wire->h2)));
}

enum fault wire_greet(struct worker *w, struct client *c, struct slice *in)
{
    struct wire *wire = c->wire;
    enum fault what = FAULT_NONE;
    struct slice plain;
    int err;

    do {
        if (wire->tls)
            what = handshake(w, c, in, &plain);
        else
            wire_hear(w, c, in, &plain);
        what = what ? what : hear_greeting(w, c, plain);
        wire->greeted = !what && is_greeted(wire, w->plan->h2);
    } while (!what && in->len && !wire->greeted);
    if (what)
        return what;
    err = wire_send(w, c);
    if (err == -EPROTO)
        return wire_note(w, FAULT_NOT_HTTP2, "it does not speak HTTP/2");
    return err ? wire_note_end(w, c, "reset the connection") : FAULT_NONE;
}

void wire_end(struct worker *w, struct client *c)
{
    struct wire *wire = c->wire;

    if (!wire)
        return;
    if (c->state == CLIENT_UP && w->plan->opt->close == CLOSE_FIN) {
        if (wire->h2)
            h2_say_goaway(wire->h2);
        wire_send(w, c);
        if (wire->tls)
            tls_shut(wire->tls, &wire->out);
        flush(w, c); /* what the socket does not take is lost with it */
    }
    tls_end(wire->tls);
    h2_end(wire->h2);
    bytes_free(&wire->out);
    free(wire);
    c->wire = NULL;
}
