/* SPDX-License-Identifier: MIT */
/* world.h - a scripted peer, socket and clock around one connection; a seed makes every run the
 * same again.
 *
 * The peer sends its input in pieces, takes the output in pieces, and may be silent, stall or
 * vanish.  The n-th call of the transport can be made to go wrong.  world_run() is the engine: it
 * pumps, waits, resumes, looks at the deadline, and ends with the connection closed and everything
 * given back.
 */
#ifndef TESTS_WORLD_H
#define TESTS_WORLD_H
#include "lines.h"

/* What the n-th call of the transport does instead of what it would. */
enum wrong { WRONG_NOT, WRONG_AGAIN, WRONG_SHORT, WRONG_RESET, WRONG_END, WRONGS };

enum { WORLD_TURNS_MAX = 2000000 };

struct world {
    struct fake *fake;
    struct conn c;
    struct pump pump;
    const char *in;      /* what the peer sends, then the end of the stream */
    size_t in_len, in_at;
    struct text out;     /* what it got */
    uint64_t rng, now, step_ms;
    size_t recv_max, send_max; /* of one call; 0: whatever fits */
    unsigned again_percent;
    bool silent;         /* never ends its stream */
    size_t stall_at;     /* takes no more bytes than this; SIZE_MAX: all */
    uint32_t drip_ms;    /* a pause before each receive */
    unsigned calls, wrong_at;
    enum wrong wrong;
    bool ended, broken;  /* the pump has seen the end; an error */
    unsigned shuts, recvs, sends;
    char scratch[RECV_BYTES_MAX];
};

static inline uint64_t world_random(struct world *w)
{
    w->rng ^= w->rng << 13; /* xorshift64 (Marsaglia 2003) */
    w->rng ^= w->rng >> 7;
    w->rng ^= w->rng << 17;
    return w->rng;
}

static inline size_t world_part(struct world *w, size_t most, size_t max)
{
    if (!max)
        return most;
    max = 1 + world_random(w) % max;
    return most < max ? most : max;
}

/* True: this call goes wrong, with *result; a short one goes on with *max of one byte. */
static inline bool world_wrong(struct world *w, size_t *max, long *result)
{
    enum wrong wrong = ++w->calls == w->wrong_at ? w->wrong : WRONG_NOT;

    if (wrong == WRONG_NOT && w->again_percent && world_random(w) % 100 < w->again_percent)
        wrong = WRONG_AGAIN;
    if (wrong == WRONG_SHORT)
        *max = 1;
    if (wrong == WRONG_NOT || wrong == WRONG_SHORT)
        return false;
    *result = wrong == WRONG_AGAIN ? -EAGAIN : wrong == WRONG_RESET ? -ECONNRESET : 0;
    if (wrong == WRONG_RESET)
        w->broken = true;
    return true;
}

static inline long world_recv(void *io, char *buf, size_t cap)
{
    struct world *w = io;
    size_t n = w->in_len - w->in_at, max = w->recv_max;
    long result;

    must(cap == RECV_BYTES_MAX && !w->ended && !w->broken);
    must(w->c.want == CONN_RECV || w->c.want == CONN_LINGER || conn_glances(&w->c));
    w->recvs++;
    if (world_wrong(w, &max, &result)) {
        w->ended = result == 0;
        return result;
    }
    if (!n && w->silent)
        return -EAGAIN;
    w->now += w->drip_ms;
    n = world_part(w, n < cap ? n : cap, max);
    if (n)
        memcpy(buf, w->in + w->in_at, n);
    w->in_at += n;
    w->ended = !n;
    return (long)n;
}

static inline long world_send(void *io, const struct conn_out *out)
{
    struct world *w = io;
    size_t total = 0, room, part, max = w->send_max;
    long result;

    must(w->c.want == CONN_SEND && out->count > 0 && out->count <= OUT_SEGMENTS_MAX && !w->broken);
    must(!w->shuts);
    w->sends++;
    if (w->out.len >= w->stall_at)
        return -EAGAIN;
    if (world_wrong(w, &max, &result)) {
        w->broken = w->broken || result == 0;
        return result;
    }
    room = world_part(w, w->stall_at - w->out.len, max);
    for (unsigned i = 0; i < out->count && room; i++) {
        const struct segment *s = &out->seg[i];
        struct fake_source *file = s->bytes ? NULL : s->source->file;
        uint64_t there = s->len;

        if (file)
            there = s->off < file->there ? file->there - s->off : 0;
        part = there < s->len ? (size_t)there : (size_t)s->len;
        part = part < room ? part : room;
        if (part) {
            must(s->bytes || s->off + part <= FAKE_BYTES_MAX);
            text_add(&w->out, s->bytes ? s->bytes : fake_bytes() + s->off, part);
        }
        total += part;
        room -= part;
    }
    if (!total)
        w->broken = true; /* a file that has become shorter */
    return (long)total;
}

static inline void world_shut(void *io)
{
    struct world *w = io;

    must(w->c.want == CONN_LINGER);
    w->shuts++;
}

static const struct transport world_transport = {world_recv, world_send, world_shut};

/* What must hold between any two calls. */
static inline void world_check(const struct world *w)
{
    const struct conn *c = &w->c;

    must((c->want == CONN_SEND) == (conn_out(c).count > 0));
    must(c->want == CONN_CLOSE || c->deadline_ms > 0);
    must(!conn_idle(c) || (!c->out && !c->in && c->want == CONN_RECV));
    must(c->sent == w->out.len);
    must(w->fake->n.answered <= w->fake->n.answers);
    must(w->shuts <= 1);
    must(c->want != CONN_LINGER || (!c->out && !c->in));
    must(!w->broken || c->want == CONN_CLOSE);
}

static inline void world_open(struct world *w, const struct conn_proto *proto, uint64_t seed)
{
    *w = (struct world){.fake = fake_open(), .rng = seed * 2654435761u + 88172645463325252u};
    w->now = 1000;
    w->stall_at = SIZE_MAX;
    w->pump = (struct pump){.transport = &world_transport, .io = w, .scratch = w->scratch,
                            .recv_bytes = RECV_BYTES_MAX};
    conn_init(&w->c, proto, &w->fake->host.conn, w->now);
}

static inline void world_host_is_ready(struct world *w)
{
    w->fake->job_done = true;
    conn_resume(&w->c, w->now);
}

/* Nothing will happen any more by itself: only time passes. */
static inline bool world_stuck(const struct world *w)
{
    if (w->c.want == CONN_SEND)
        return w->out.len >= w->stall_at;
    return w->silent && w->in_at == w->in_len && !w->pump.more;
}

/* One turn of an engine. */
static inline void world_turn(struct world *w)
{
    enum conn_want want = conn_pump(&w->c, &w->pump, w->now);

    must(want == w->c.want);
    world_check(w);
    w->now += w->step_ms ? world_random(w) % w->step_ms : 0;
    if (w->fake->job && !w->fake->job_done && (want == CONN_WAIT || world_random(w) % 2))
        world_host_is_ready(w);
    else if (want != CONN_CLOSE && world_stuck(w))
        w->now = w->c.deadline_ms > w->now ? w->c.deadline_ms : w->now;
    if (w->c.want != CONN_CLOSE && w->now >= w->c.deadline_ms &&
        conn_overdue(&w->c, w->c.sent, w->now))
        conn_abort(&w->c);
}

/* Until it is closed.  The connection's own end, too: what is left is the output. */
static inline void world_run(struct world *w)
{
    for (unsigned turns = 0; w->c.want != CONN_CLOSE; turns++) {
        must(turns < WORLD_TURNS_MAX);
        world_turn(w);
    }
    conn_fini(&w->c);
    http_recent_drop(&w->fake->host);
    fake_balance(w->fake);
}

static inline void world_close(struct world *w)
{
    fake_close(w->fake);
    text_free(&w->out);
}

#endif
