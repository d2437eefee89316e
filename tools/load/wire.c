/* SPDX-License-Identifier: MIT */
/* wire.c - TLS between a socket and the requests of its connection; see wire.h.
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

/* The handshake is complete. */
static void count_handshake(struct worker *w, const struct client *c)
{
    struct tally *t = &w->tally;
    struct tls_facts facts;

    tls_describe(c->wire->tls, &facts);
    if (facts.resumed)
        t->tls.resumed++;
    else
        t->tls.full++;
    if (!t->tls.version) {
        t->tls.version = facts.version;
        t->tls.cipher = facts.cipher;
    }
    t->tls.others += strcmp(t->tls.version, facts.version) != 0 ||
                     strcmp(t->tls.cipher, facts.cipher) != 0;
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
    struct slice clear = {w->clear.ptr, w->clear.len};
    bool spoken = tls_speak(c->wire->tls, clear, &c->wire->out);

    w->tally.bytes_out += clear.len;
    w->clear.len = 0;
    return spoken ? flush(w, c) : -EPROTO;
}

long wire_hear(struct worker *w, struct client *c, struct slice *in, struct slice *plain)
{
    long n = tls_hear(c->wire->tls, in, &c->wire->out, w->plain);

    *plain = (struct slice){w->plain, n > 0 ? (size_t)n : 0};
    return n;
}

/* --- The greeting ----------------------------------------------------------------------------- */

bool wire_begin(struct worker *w, struct client *c)
{
    c->wire = calloc(1, sizeof(*c->wire));
    if (c->wire)
        c->wire->tls = tls_begin(w->tls, w->plan, c->peer);
    return c->wire && c->wire->tls;
}

static enum fault handshake(struct worker *w, struct client *c, struct slice *in)
{
    struct wire *wire = c->wire;
    char why[TLS_WHY_BYTES];
    struct slice plain;
    enum fault what;
    long n;

    if (in->len && !wire->heard && in->ptr[0] != HANDSHAKE && in->ptr[0] != ALERT)
        return wire_note(w, FAULT_NOT_TLS, "it does not speak TLS; is it http://?");
    wire->heard = wire->heard || in->len;
    n = wire_hear(w, c, in, &plain);
    if (n == TLS_FAILED) {
        what = tls_why(wire->tls, why);
        flush(w, c); /* an alert says why */
        return wire_note(w, what, why);
    }
    if (n == TLS_ENDED)
        return wire_note(w, FAULT_TLS_CLOSED, "it ended the connection during the handshake");
    wire->greeted = tls_done(wire->tls);
    if (wire->greeted)
        count_handshake(w, c);
    return n > 0 ? FAULT_EXCESS : 0;
}

enum fault wire_greet(struct worker *w, struct client *c, struct slice *in)
{
    enum fault what;

    do {
        what = handshake(w, c, in);
    } while (!what && in->len && !c->wire->greeted);
    if (!what && flush(w, c) != 0)
        what = wire_note(w, FAULT_TLS_CLOSED, "it reset the connection during the handshake");
    return what;
}

void wire_end(struct worker *w, struct client *c)
{
    struct wire *wire = c->wire;

    if (!wire)
        return;
    if (wire->tls && c->state == CLIENT_UP && w->plan->opt->close == CLOSE_FIN) {
        tls_shut(wire->tls, &wire->out);
        flush(w, c); /* what the socket does not take is lost with it */
    }
    tls_end(wire->tls);
    bytes_free(&wire->out);
    free(wire);
    c->wire = NULL;
}
