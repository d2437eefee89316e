/* SPDX-License-Identifier: MIT */
/* talk.h - conversations for the simulator: drawn from a seed, with the output that must result
 * from them. */
#ifndef TESTS_SIM_TALK_H
#define TESTS_SIM_TALK_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "../world.h"

struct talk {
    const struct conn_proto *proto;
    struct text in, want; /* what the peer sends; what it gets when nothing goes wrong */
};

static inline uint64_t talk_random(uint64_t *rng, uint64_t below)
{
    *rng ^= *rng << 13;
    *rng ^= *rng >> 7;
    *rng ^= *rng << 17;
    return *rng % below;
}

static inline void talk_say(struct text *in, const char *format, unsigned a, unsigned b)
{
    char text[512];

    text_add(in, text, (size_t)snprintf(text, sizeof(text), format, a, b));
}

/* --- Messages --------------------------------------------------------------------------------- */

static inline void talk_line(struct text *in, uint64_t *rng)
{
    static const char kinds[] = "eeepppfffrrmmwwbbxyy?";
    char kind = kinds[talk_random(rng, sizeof(kinds) - 1)];
    unsigned n = (unsigned)talk_random(rng, talk_random(rng, 12) ? 100 : 40000);

    if (kind == '?') /* rarely a line that ends the conversation, or one at the limit */
        kind = "cqt?!"[talk_random(rng, 5)];
    if (kind == '!') {
        text_add(in, fake_bytes(), HEAD_BYTES_MAX + talk_random(rng, 3) - 1);
        text_add(in, "\n", 1);
        return;
    }
    if (kind == 'e') {
        text_add(in, "e", 1);
        text_add(in, fake_bytes(), talk_random(rng, 8) ? n % 100 : n % (HEAD_BYTES_MAX - 2));
        text_add(in, "\n", 1);
        return;
    }
    text_add(in, &kind, 1);
    talk_say(in, "%u\n", n, 0);
    if (kind == 'b' || kind == 'x' || kind == 'y')
        text_add(in, fake_bytes(), n);
}

static inline void talk_request(struct text *in, uint64_t *rng)
{
    static const char *const formats[] = {
        "GET /p%u HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /f%u HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n",
        "GET /w%u HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /m%u HTTP/1.1\r\nHost: a\r\n\r\n",
        "HEAD /f%u HTTP/1.1\r\nHost: a\r\n\r\n",
        "HEAD /m%u HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /d%u HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /none HTTP/1.1\r\nHost: a\r\nX-Filler: %u\r\n\r\n",
        "GET /p%u HTTP/1.1\r\nHost: a\r\nRange: bytes=5-%u\r\n\r\n",
        "GET /f%u HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1,7-%u,-3\r\n\r\n",
        "GET /p%u HTTP/1.1\r\nHost: a\r\nIf-Modified-Since: Mon, 01 Jan 2035 00:00:00 GMT\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\nX-Filler: %u\r\n\r\n",
        "POST /p%u HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        "GET /w%u HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody",
        "GET /f%u HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3;x=y\r\nabc\r\n0\r\nT: 1\r\n\r\n",
        "GET /p%u HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
        "GET /p%u HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    };
    static const char *const last[] = {
        "GET /p%u HTTP/1.0\r\n\r\n",
        "GET /f%u HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /t%u HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /p%u HTTP/1.1\r\n\r\n",
        "nonsense %u\r\n\r\n",
        "POST /p%u HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\nabc",
        "GET /p%u HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "GET /p%u HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n",
    };
    unsigned n = (unsigned)talk_random(rng, talk_random(rng, 12) ? 100 : 40000);

    if (talk_random(rng, 20))
        talk_say(in, formats[talk_random(rng, sizeof(formats) / sizeof(*formats))], n, n / 2);
    else
        talk_say(in, last[talk_random(rng, sizeof(last) / sizeof(*last))], n, 0);
}

/* --- Conversations ---------------------------------------------------------------------------- */

/* The output for n bytes and the end of the stream, when every call moves all it can.  HTTP has no
 * model here (its own tests judge its answers): its output must be the same however it is cut. */
static inline void talk_reference(const struct conn_proto *proto, const char *in, size_t n,
                                  struct text *out)
{
    static struct world w;

    *out = (struct text){0};
    if (proto == &lines_proto) {
        lines_model(out, in, n);
    } else if (proto == &echo_proto) {
        text_add(out, in, n);
    } else {
        world_open(&w, proto, 1);
        w.in = in;
        w.in_len = n;
        world_run(&w);
        text_add(out, w.out.bytes, w.out.len);
        world_close(&w);
    }
}

static inline void talk_open(struct talk *t, const struct conn_proto *proto, uint64_t seed,
                             unsigned messages)
{
    uint64_t rng = seed * 0x9e3779b97f4a7c15u + 1;

    *t = (struct talk){.proto = proto};
    for (unsigned i = 0; i < messages; i++) {
        if (proto == &http_proto)
            talk_request(&t->in, &rng);
        else
            talk_line(&t->in, &rng);
    }
    talk_reference(proto, t->in.bytes, t->in.len, &t->want);
}

static inline void talk_close(struct talk *t)
{
    text_free(&t->in);
    text_free(&t->want);
}

static inline void talk_world(const struct talk *t, struct world *w, uint64_t seed)
{
    world_open(w, t->proto, seed);
    w->in = t->in.bytes;
    w->in_len = t->in.len;
}

static inline bool text_same(const struct text *a, const struct text *b)
{
    return a->len == b->len && (!a->len || !memcmp(a->bytes, b->bytes, a->len));
}

static inline bool text_begins(const struct text *whole, const struct text *part)
{
    return part->len <= whole->len &&
           (!part->len || !memcmp(whole->bytes, part->bytes, part->len));
}

/* Failures name the seed, which reproduces the run. */
#define check(condition, t, seed) \
    do { \
        if (!(condition)) \
            fail_msg("%s, seed %llu: %s", (t)->proto->name, (unsigned long long)(seed), \
                     #condition); \
    } while (0)

#endif
