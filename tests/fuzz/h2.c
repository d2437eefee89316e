/* SPDX-License-Identifier: MIT */
/* A connection that speaks HTTP/2: any frames, cut anywhere, short sends, no memory, waits, time
 * jumps.
 *
 * The first 8 bytes say how the world behaves, the rest is what the peer sends behind the preface
 * and its SETTINGS.  Checked: input is used in full while the connection listens, output is memory
 * and bounded, memory held is bounded, nothing is kept, and the connection ends.
 */
#include "../h2_world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    CONTROL = 8,
    INPUT_MAX = 60000,
    SENDS_MAX = 100000,
    HELD_MAX = 2 + 2 * 32 /* queues: the connection's, and two for each answer at work */
};

static const char opening[] = H2_PREFACE "\0\0\0\4\0\0\0\0";

static void check(const struct h2_world *w)
{
    struct conn_out out = conn_out(w->h.c);
    uint64_t bytes = 0;

    for (unsigned i = 0; i < out.count; i++) {
        must(out.seg[i].bytes);
        bytes += out.seg[i].len;
    }
    must(bytes <= OUTQ_BYTES);
    must(w->h.fake->n.allocs - w->h.fake->n.frees <= HELD_MAX);
}

/* Lets out what there is, as far as the world likes. */
static void drain(struct h2_world *w, unsigned sends)
{
    for (; w->h.c->want == CONN_SEND && sends; sends--) {
        h2_world_take(w);
        check(w);
    }
}

static void feed(struct h2_world *w, const char *bytes, size_t n, const uint8_t *control)
{
    size_t most = control[1] ? control[1] : RECV_BYTES_MAX;

    for (size_t at = 0, part; at < n; at += part) {
        if (!h2_world_listens(w))
            drain(w, SENDS_MAX);
        if (!h2_world_listens(w))
            return;
        part = n - at < most ? n - at : most;
        part = part < RECV_BYTES_MAX ? part : RECV_BYTES_MAX;
        conn_feed(w->h.c, bytes + at, part, w->h.loop.now_ms);
        must(!w->h.c->in);
        check(w);
        drain(w, control[3] % 4);
        w->h.loop.now_ms += control[4] > 200 ? control[4] * 10u : 0;
        if (w->h.fake->job && control[5] & 1)
            h2_world_job_done(w);
        w->h.loop.host.closing = control[5] & 2 && at > n / 2;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct h2_world *w;

    if (size < CONTROL || size > INPUT_MAX)
        return 0;
    w = h2_world_open();
    w->sip = data[2] ? data[2] * 4u : 0;
    w->h.fake->fail_alloc = data[6] > 200 ? data[6] - 200u : 0;
    w->h.fake->fail_find = data[7] > 200 ? data[7] - 200u : 0;
    feed(w, opening, sizeof(opening), data); /* with its NUL: the last byte of a stream's number */
    feed(w, (const char *)data + CONTROL, size - CONTROL, data);
    drain(w, SENDS_MAX);
    if (w->h.fake->job)
        h2_world_job_done(w);
    drain(w, SENDS_MAX);
    if (w->h.c->want == CONN_RECV && data[5] & 4)
        (void)conn_leave(w->h.c, w->h.loop.now_ms);
    else if (w->h.c->want == CONN_RECV)
        conn_feed(w->h.c, NULL, 0, w->h.loop.now_ms);
    drain(w, SENDS_MAX);
    must(w->h.c->want != CONN_SEND);
    h2_world_close(w);
    return 0;
}
