/* SPDX-License-Identifier: MIT */
/* seeds_script.h - what a client does, drawn from a seed, and what it must get for it.
 *
 * A script is the client's bytes, the moments at which they leave, how it reads, and how it ends.
 * Pauses are either far shorter than every deadline or longer than all, so that no answer depends
 * on a race with the clock.  The expected output is computed by the core's machine and the real
 * site alone: fed message by message, no short transfers, no socket, no engine.
 */
#ifndef TESTS_SEEDS_SCRIPT_H
#define TESTS_SEEDS_SCRIPT_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../../server/inside.h"
#include "../lines.h"

enum {
    HEAD_MS = 4000,
    IDLE_MS = 12000,
    SEND_MS = 5000,
    DRAIN_MS = 7000,      /* enough for the slowest reader */
    PROGRESS = 1000,
    SLACK_MS = 400,       /* deadlines are this exact: ticks of wheel and clock */
    PAUSES_US = 800000,   /* all pauses of a script but those of a drip */
    DRIP_US = 400000,     /* between two bytes of a drip */
    LONG_US = 4600000,    /* one pause between messages: over HEAD_MS, under IDLE_MS */
    STEPS_MAX = 64,
    MESSAGES_MAX = 16,    /* of a script, twice what is drawn: some come in pairs */
    READS_MAX = 80,       /* a client needs about this many reads at most: each may be late */
    SLOW_US = 2500000     /* a slow reader takes this long at most: what it reads is short, too */
};

enum step_kind { STEP_CONNECT, STEP_SEND, STEP_DRIP, STEP_FIN, STEP_RESET };

/* A step, taken after a pause. */
struct step {
    enum step_kind kind;
    uint32_t bytes, pause_us;
};

/* How the client ends: by itself, in one way or another, or by a deadline of the server. */
enum manner { MANNER_FIN, MANNER_IDLE, MANNER_CUT, MANNER_SILENT, MANNER_RESET, MANNER_DRIP };

struct script {
    struct text in;
    enum manner manner;
    struct step step[STEPS_MAX];
    unsigned steps;
    size_t message_end[MESSAGES_MAX];
    unsigned messages;
    size_t drip_at;       /* MANNER_DRIP: where the drip begins; otherwise in.len */
    size_t room;          /* of the server's send queue */
    size_t read_max, stall_at;
    uint32_t read_us;
    bool idled;           /* it waited long between two messages */
    struct text want;     /* the bytes that must come */
    uint64_t wait_ms;     /* the deadline that a silent client runs into */
};

static inline uint64_t script_random(uint64_t *rng, uint64_t below)
{
    *rng ^= *rng << 13; /* xorshift64 (Marsaglia 2003) */
    *rng ^= *rng >> 7;
    *rng ^= *rng << 17;
    return below ? (*rng >> 11) % below : 0;
}

/* --- Messages --------------------------------------------------------------------------------- */

static const char *const script_formats[] = {
    "GET / HTTP/1.1\r\nHost: a\r\nX-N: %u\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: a\r\nUser-Agent: %u\r\n\r\n",
    "GET /page.html HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip;q=0.%u\r\n\r\n",
    "GET /empty HTTP/1.1\r\nHost: a\r\nX-N: %u\r\n\r\n",
    "GET /edge HTTP/1.1\r\nHost: a\r\nX-N: %u\r\n\r\n",
    "GET /beyond HTTP/1.1\r\nHost: a\r\nX-N: %u\r\n\r\n",
    "GET /list/ HTTP/1.1\r\nHost: a\r\nX-N: %u\r\n\r\n",
    "GET /list/?n=%u HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n",
    "HEAD /list/ HTTP/1.1\r\nHost: a\r\nX-N: %u\r\n\r\n",
    "HEAD /long HTTP/1.1\r\nHost: a\r\nX-N: %u\r\n\r\n",
    "GET /list HTTP/1.1\r\nHost: a\r\nX-N: %u\r\n\r\n",
    "GET /none%u HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /long HTTP/1.1\r\nHost: a\r\nRange: bytes=7-%u\r\n\r\n",
    "GET /long HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1,7-%u,-3\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: a\r\nRange: bytes=99999-%u\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nX-N: %u\r\n"
    "If-Modified-Since: Mon, 01 Jan 2035 00:00:00 GMT\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a\r\nX-N: %u\r\n\r\n",
    "DELETE /%u HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /small HTTP/1.1\r\nHost: a\r\nX-N: %u\r\nContent-Length: 5\r\n\r\nhello",
    "GET /list/ HTTP/1.1\r\nHost: a\r\nX-N: %u\r\nContent-Length: 4\r\n\r\nbody",
    "GET /small?%u HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    "3;x=y\r\nabc\r\n0\r\nT: 1\r\n\r\n",
    "GET /%u HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    "GET /small?%u HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
};

/* The server answers nothing after one of these.  With the first PROMISES the client promises to
 * send nothing more (RFC 9112 9.3, 9.6), and keeps the promise: a client that breaks it may be
 * reset, see tests/wire/test_close.py. */
enum { PROMISES = 3 };
static const char *const script_last[] = {
    "GET /small?%u HTTP/1.0\r\n\r\n",
    "GET /long?%u HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET /list/?%u HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET /%u HTTP/1.1\r\n\r\n",
    "nonsense %u\r\n\r\n",
    "POST /%u HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\nabc",
    "GET /%u HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
};

static const char script_dripped[] = "GET /dripped HTTP/1.1\r\nHost: a\r\n\r\n";

static inline void script_format(struct text *in, const char *format, uint64_t *rng)
{
    char text[512];
    unsigned n = (unsigned)script_random(rng, script_random(rng, 4) ? 100 : 60000);

    text_add(in, text, (size_t)snprintf(text, sizeof(text), format, n));
}

/* Add a message; return whether another may follow. */
static inline bool script_message(struct script *s, uint64_t *rng)
{
    enum { FORMATS = sizeof(script_formats) / sizeof(*script_formats) };
    enum { LAST = sizeof(script_last) / sizeof(*script_last) };
    unsigned n, last = LAST;
    char text[128];

    if (!script_random(rng, 15)) {
        last = (unsigned)script_random(rng, LAST);
        script_format(&s->in, script_last[last], rng);
    } else if (!script_random(rng, 15)) { /* a body of some size */
        n = (unsigned)script_random(rng, 60000);
        text_add(&s->in, text,
                 (size_t)snprintf(text, sizeof(text), "POST /small HTTP/1.1\r\nHost: a\r\n"
                                                      "Content-Length: %u\r\n\r\n", n));
        text_add(&s->in, fake_bytes(), n);
    } else if (!script_random(rng, 12)) { /* a long answer; often a listing is made meanwhile */
        script_format(&s->in, "GET /long HTTP/1.1\r\nHost: a\r\nX-N: %u\r\n\r\n", rng);
        s->message_end[s->messages++] = s->in.len;
        if (script_random(rng, 4))
            script_format(&s->in, "GET /list/ HTTP/1.1\r\nHost: a\r\nX-N: %u\r\n\r\n", rng);
    } else {
        script_format(&s->in, script_formats[script_random(rng, FORMATS)], rng);
    }
    s->message_end[s->messages++] = s->in.len;
    return last >= PROMISES;
}

/* Ask for a long answer, then for one that is made meanwhile; perhaps reset before it is made. */
static inline void script_hasty(struct script *s, uint64_t *rng)
{
    script_format(&s->in, "GET /long HTTP/1.1\r\nHost: a\r\nX-N: %u\r\n\r\n", rng);
    s->message_end[s->messages++] = s->in.len;
    script_format(&s->in, "GET /list/ HTTP/1.1\r\nHost: a\r\nX-N: %u\r\n\r\n", rng);
    s->message_end[s->messages++] = s->in.len;
    if (script_random(rng, 4))
        s->manner = MANNER_RESET;
}

/* --- Expected output -------------------------------------------------------------------------- */

static inline void want_segment(struct text *want, const struct segment *seg)
{
    size_t at = want->len;
    char part[4096];
    ssize_t n;

    if (seg->bytes) {
        text_add(want, seg->bytes, (size_t)seg->len);
        return;
    }
    while (want->len - at < seg->len) {
        size_t left = (size_t)seg->len - (want->len - at);

        n = pread(site_source_fd(seg->source), part, left < sizeof(part) ? left : sizeof(part),
                  (off_t)(seg->off + (want->len - at)));
        must(n > 0);
        text_add(want, part, (size_t)n);
    }
}

static inline void want_drain(struct conn *c, struct text *want)
{
    while (c->want == CONN_SEND) {
        struct conn_out out = conn_out(c);
        size_t before = want->len;

        for (unsigned i = 0; i < out.count; i++)
            want_segment(want, &out.seg[i]);
        conn_sent(c, want->len - before, 0);
    }
}

static inline void want_feed(struct conn *c, struct text *want, const char *bytes, size_t n)
{
    while (n && c->want == CONN_RECV) {
        size_t part = n < RECV_BYTES_MAX ? n : RECV_BYTES_MAX;

        conn_feed(c, bytes, part, 0);
        want_drain(c, want);
        bytes += part;
        n -= part;
    }
}

/* How many bytes of the input count: the head of a drip is never complete. */
static inline size_t script_counts(const struct script *s)
{
    return s->manner == MANNER_DRIP ? s->drip_at : s->in.len;
}

/* The output if the server must stop before it reads that message: from there on answers say that
 * the connection ends.  The host of the loop may block: listings are made at once. */
struct wanted {
    struct text text;
    size_t at[MESSAGES_MAX + 2]; /* offsets in the text: before each message and after the last */
    unsigned parts;
    uint64_t wait_ms;
};

static inline void script_want(const struct script *s, struct loop *loop, unsigned stop_before,
                               struct wanted *w)
{
    struct session session = {.fd = -1}; /* the host looks for a session here */
    struct conn *c = &session.conn;
    size_t at = 0;

    *w = (struct wanted){.parts = 0};
    loop->host.closing = false;
    conn_init(c, loop->worker->server->proto, &loop->host.conn, 0);
    for (unsigned i = 0; i <= s->messages && at < script_counts(s); i++) {
        size_t end = i < s->messages ? s->message_end[i] : s->in.len;

        loop->host.closing = i >= stop_before;
        w->at[w->parts++] = w->text.len;
        end = end < script_counts(s) ? end : script_counts(s);
        want_feed(c, &w->text, s->in.bytes + at, end - at);
        at = end;
    }
    w->wait_ms = c->want == CONN_RECV ? c->deadline_ms : LINGER_MS;
    w->at[w->parts] = w->text.len;
    if ((s->manner == MANNER_FIN || s->manner == MANNER_CUT) && c->want == CONN_RECV) {
        conn_feed(c, NULL, 0, 0);
        want_drain(c, &w->text);
    }
    conn_fini(c);
}

/* --- Timing ----------------------------------------------------------------------------------- */

static inline void script_step(struct script *s, enum step_kind kind, size_t n, uint64_t pause_us)
{
    must(s->steps < STEPS_MAX);
    s->step[s->steps++] =
        (struct step){.kind = kind, .bytes = (uint32_t)n, .pause_us = (uint32_t)pause_us};
}

static inline uint64_t script_pause(uint64_t *rng, uint64_t *budget_us)
{
    static const uint64_t most_us[] = {1, 1, 100, 2000, 300000};
    uint64_t us = script_random(rng, most_us[script_random(rng, 5)]);

    us = us < *budget_us ? us : *budget_us;
    *budget_us -= us;
    return us;
}

/* A piece's length: up to the end, up to the end of a message, or to any byte. */
static inline size_t script_piece(const struct script *s, size_t at, size_t end, uint64_t *rng)
{
    size_t n = end - at;
    unsigned i = 0;

    switch (script_random(rng, 4)) {
    case 0:
        return n;
    case 1:
        while (i < s->messages && s->message_end[i] <= at)
            i++;
        return i < s->messages && s->message_end[i] < end ? s->message_end[i] - at : n;
    case 2:
        return 1 + script_random(rng, n < 20 ? n : 20);
    default:
        return 1 + script_random(rng, n < 3000 ? n : 3000);
    }
}

static inline bool script_between(const struct script *s, size_t at)
{
    for (unsigned i = 0; i < s->messages; i++)
        if (s->message_end[i] == at)
            return true;
    return false;
}

/* Send everything up to `end` in pieces. */
static inline void script_cut_up(struct script *s, size_t end, uint64_t *rng)
{
    uint64_t budget_us = PAUSES_US;
    size_t at = 0;

    script_step(s, STEP_CONNECT, 0, script_random(rng, 300000));
    while (at < end && s->steps < STEPS_MAX - 3) {
        size_t n = script_piece(s, at, end, rng);
        bool idles = script_between(s, at) && !s->idled && !script_random(rng, 6);

        script_step(s, STEP_SEND, n, idles ? LONG_US : script_pause(rng, &budget_us));
        s->idled = s->idled || idles;
        at += n;
    }
    if (at < end)
        script_step(s, STEP_SEND, end - at, 0);
}

/* How the client reads: as bytes come, in small pieces, slowly, or not beyond some byte. */
static inline void script_reading(struct script *s, uint64_t *rng)
{
    static const size_t rooms[] = {1, 100, 2000, 16384, 100000, 4 << 20};
    size_t least = s->want.len / READS_MAX + 1, part;

    s->read_us = (uint32_t)script_random(rng, 3000);
    s->read_max = 1 + script_random(rng, rooms[script_random(rng, 6)]);
    s->room = 1 + script_random(rng, rooms[script_random(rng, 6)]);
    s->read_max = s->read_max < least ? least : s->read_max;
    s->room = s->room < least ? least : s->room;
    part = s->read_max < s->room ? s->read_max : s->room;
    s->stall_at = SIZE_MAX;
    if (s->manner == MANNER_DRIP) { /* it must have read everything when it is cut off */
        s->read_max = s->room = s->want.len + 1;
        return;
    }
    if (s->idled)
        return; /* late input must not meet a connection closed for being slow */
    if (!script_random(rng, 12))
        s->read_us = (uint32_t)(SLOW_US / (6 * (s->want.len / part + 1)));
    if (!script_random(rng, 20))
        s->stall_at = script_random(rng, s->want.len + 1);
}

static inline enum manner script_manner(uint64_t *rng)
{
    static const enum manner often[] = {
        MANNER_FIN,    MANNER_FIN,   MANNER_FIN,   MANNER_FIN, MANNER_IDLE, MANNER_IDLE, MANNER_CUT,
        MANNER_SILENT, MANNER_RESET, MANNER_RESET, MANNER_DRIP};

    return often[script_random(rng, sizeof(often) / sizeof(*often))];
}

static inline void script_open(struct script *s, uint64_t seed, struct loop *loop)
{
    uint64_t rng = seed;
    struct wanted w;
    bool goes_on = true;
    size_t dripped;

    memset(s, 0, sizeof(*s));
    s->manner = script_manner(&rng);
    if (!script_random(&rng, 6)) /* one answer is made while another is sent */
        script_hasty(s, &rng);
    for (uint64_t n = s->messages ? 0 : script_random(&rng, MESSAGES_MAX / 2); n && goes_on; n--)
        goes_on = script_message(s, &rng);
    if (s->manner == MANNER_DRIP && !goes_on)
        s->manner = MANNER_IDLE;
    if (s->in.len && (s->manner == MANNER_CUT || s->manner == MANNER_SILENT ||
                      (s->manner == MANNER_RESET && !script_random(&rng, 3))))
        s->in.len = 1 + script_random(&rng, s->in.len);
    s->drip_at = s->in.len;
    if (s->manner == MANNER_DRIP) /* it is cut off after at least one deadline's worth of bytes */
        text_add(&s->in, script_dripped, sizeof(script_dripped) - 1);
    dripped = s->in.len - s->drip_at;
    script_want(s, loop, UINT32_MAX, &w);
    s->want = w.text;
    s->wait_ms = w.wait_ms;
    script_cut_up(s, s->drip_at, &rng);
    if (dripped)
        script_step(s, STEP_DRIP, dripped, DRIP_US);
    if (s->manner == MANNER_FIN || s->manner == MANNER_CUT)
        script_step(s, STEP_FIN, 0, script_random(&rng, 3) ? 0 : script_random(&rng, 200000));
    if (s->manner == MANNER_RESET)
        script_step(s, STEP_RESET, 0, script_random(&rng, script_random(&rng, 2) ? 3000 : 500000));
    script_reading(s, &rng);
}

static inline void script_close(struct script *s)
{
    text_free(&s->in);
    text_free(&s->want);
}

#endif
