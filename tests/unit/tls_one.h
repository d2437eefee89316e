/* SPDX-License-Identifier: MIT */
/* tls_one.h - one connection that speaks TLS, by the records of fake_tls.h; its client, and a clock
 * that the test sets.  Bytes that the client receives are decoded as they come.
 */
#ifndef TESTS_UNIT_TLS_ONE_H
#define TESTS_UNIT_TLS_ONE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "../fake_tls.h"
#include "../hosted.h"

enum { START = HOSTED_START, PLAIN_MAX = 1 << 21 };

struct one {
    struct hosted h;
    struct fake_store store;
    struct tls_setup setup;
    size_t cut, sip;  /* bytes of a receive, of a send; 0: as many as there are */
    size_t most;      /* shown by conn_out() at once */
    unsigned more;    /* sends that announced that more follows */
    /* What the client received. */
    char rec[FAKE_EXTRA + TLS_RECORD_BYTES], *plain;
    size_t have, len, handshake;
    bool said_end, said_bad;
    bool by_kernel; /* what is sent is not encrypted: the test's kernel would do that */
};

static inline struct one *one_open(void)
{
    struct one *o = calloc(1, sizeof(*o));

    must(o);
    o->plain = malloc(PLAIN_MAX);
    must(o->plain);
    o->store = (struct fake_store){.flight = 1500, .ticket = 200};
    o->setup = (struct tls_setup){.layer = &fake_layer, .store = &o->store, .inner = &http_proto};
    o->h.server.tls = &o->setup;
    hosted_open(&o->h, &tls_proto);
    return o;
}

static inline void one_close(struct one *o)
{
    hosted_close(&o->h);
    if (!o->store.fail_begin)
        assert_int_equal(o->store.begun, o->store.ended);
    free(o->plain);
    free(o);
}

/* --- The client ------------------------------------------------------------------------------- */

static inline void one_decode(struct one *o)
{
    long n = fake_open_record(o->rec, o->have);

    if (n == -1)
        return;
    must(n >= 0);
    o->have = 0;
    must(!o->said_end && !o->said_bad); /* nothing follows */
    if (o->rec[0] == FAKE_HANDSHAKE) {
        o->handshake += (size_t)n;
    } else if (o->rec[0] == FAKE_ALERT) {
        o->said_end = o->rec[FAKE_HEAD] == FAKE_SAYS_END;
        o->said_bad = !o->said_end;
    } else {
        must(o->len + (size_t)n < PLAIN_MAX);
        memcpy(o->plain + o->len, o->rec + FAKE_HEAD, (size_t)n);
        o->len += (size_t)n;
    }
    o->plain[o->len] = '\0';
}

/* Plaintext, of which the client gets what the kernel would have encrypted. */
static inline size_t one_take_plain(struct one *o, const struct segment *s, size_t most)
{
    size_t n = s->len < most ? (size_t)s->len : most;

    must(o->len + n < PLAIN_MAX);
    for (size_t i = 0; i < n; i++)
        o->plain[o->len + i] = s->bytes ? s->bytes[i] : fake_byte(s->off + i);
    o->len += n;
    o->plain[o->len] = '\0';
    return n;
}

static inline void one_take(struct one *o)
{
    struct conn_out out = conn_out(o->h.c);
    size_t sip = o->sip ? o->sip : SIZE_MAX, taken = 0, shown = 0;

    for (unsigned i = 0; i < out.count; i++) {
        if (o->by_kernel) {
            taken += one_take_plain(o, &out.seg[i], sip - taken);
            continue;
        }
        must(out.seg[i].bytes);
        shown += out.seg[i].len;
        for (size_t k = 0; k < out.seg[i].len && taken < sip; k++, taken++) {
            must(o->have < sizeof(o->rec));
            o->rec[o->have++] = out.seg[i].bytes[k];
            one_decode(o);
        }
    }
    o->most = shown > o->most ? shown : o->most;
    o->more += out.more;
    conn_sent(o->h.c, taken, o->h.loop.now_ms);
    /* What was announced is there now; the kernel would hold back the last packet until then. */
    must(!out.more || taken < shown || o->h.c->want != CONN_RECV);
    must(!out.more || taken < shown || o->h.c->want != CONN_WAIT);
}

/* Sends what is to be sent, and finishes what the host put off. */
static inline void one_run(struct one *o)
{
    while (o->h.c->want == CONN_SEND || o->h.c->want == CONN_WAIT) {
        if (o->h.c->want == CONN_SEND) {
            one_take(o);
            continue;
        }
        must(o->h.fake->job && o->h.fake->job->nested);
        o->h.fake->job_done = true;
        conn_resume((struct conn *)(uintptr_t)o->h.fake->job, o->h.loop.now_ms);
        conn_resume(o->h.c, o->h.loop.now_ms);
    }
}

static inline void one_feed(struct one *o, const char *bytes, size_t n)
{
    size_t at = 0, part;

    while (at < n && o->h.c->want == CONN_RECV) {
        part = o->cut && o->cut < n - at ? o->cut : n - at;
        part = part < RECV_BYTES_MAX ? part : RECV_BYTES_MAX;
        conn_feed(o->h.c, bytes + at, part, o->h.loop.now_ms);
        at += part;
        one_run(o);
    }
}

static inline void one_end(struct one *o)
{
    if (o->h.c->want == CONN_RECV || o->h.c->want == CONN_LINGER)
        conn_feed(o->h.c, "", 0, o->h.loop.now_ms);
    one_run(o);
}

/* One record. */
static inline void one_says(struct one *o, unsigned type, const char *body, size_t n)
{
    char rec[FAKE_EXTRA + TLS_RECORD_BYTES];

    one_feed(o, rec, fake_record(rec, type, body, n));
}

static inline void one_handshake(struct one *o)
{
    one_says(o, FAKE_HANDSHAKE, "hello", 5);
    one_says(o, FAKE_HANDSHAKE, "finished", 8);
}

/* A text, in records of at most that many bytes. */
static inline void one_asks(struct one *o, const char *text, size_t most)
{
    size_t n = strlen(text), part;

    for (size_t at = 0; at < n; at += part) {
        part = n - at < most ? n - at : most;
        one_says(o, FAKE_DATA, text + at, part);
    }
}

#endif
