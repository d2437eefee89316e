/* SPDX-License-Identifier: MIT */
/* sniff_lines.c - segments of TCP become the bytes of each direction of a connection, in order and
 * each once; sniff_heads.c reads them.
 *
 * A packet that comes too early is held until the missing one is there, or for HOLE_NS; inside of a
 * body it need not be.  Bytes that were seen before are not read again.  Memory is bounded: beyond
 * TALKS_MAX connections, one that is over, or on which nothing was sent yet, gives its place to a
 * new one; if there is none, the connection that has been quiet longest does, and is counted.
 */
#include <errno.h>
#include <stdlib.h>
#include "sniff_lines.h"

enum {
    CHAINS = 16384,
    FAR_BYTES = 1 << 26 /* no window is that large: the numbers are another connection's */
};

int lines_init(struct lines *l, uint64_t seed, void (*tell)(void *, const struct line *),
               void *arg)
{
    *l = (struct lines){.tell = tell, .arg = arg, .seed = seed};
    l->talk = calloc(TALKS_MAX, sizeof(*l->talk));
    l->chain = calloc(CHAINS, sizeof(struct talk *));
    if (l->talk && l->chain)
        return 0;
    free(l->talk);
    free(l->chain);
    *l = (struct lines){0};
    return -ENOMEM;
}

/* --- Which connection ------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h ^ h >> 29;
}

static struct talk **chain_of(struct lines *l, const struct endpoint end[2], uint64_t vlan)
{
    uint64_t h = l->seed ^ 0xcbf29ce484222325u;

    for (unsigned i = 0; i < 2; i++) {
        h = mix(h, end[i].address, sizeof(end[i].address));
        h = mix(h, &end[i].port, sizeof(end[i].port));
    }
    h = mix(h, &vlan, sizeof(vlan));
    return &l->chain[h % CHAINS];
}

static int compare(const struct endpoint *a, const struct endpoint *b)
{
    int c = memcmp(a->address, b->address, sizeof(a->address));

    return c ? c : (int)a->port - (int)b->port;
}

static void unlist(struct talk *t)
{
    struct talk_list *list = t->list;

    if (!list)
        return;
    *(t->before ? &t->before->after : &list->first) = t->after;
    *(t->after ? &t->after->before : &list->last) = t->before;
    t->before = t->after = NULL;
    t->list = NULL;
}

static void enlist(struct talk *t, struct talk_list *list)
{
    unlist(t);
    t->list = list;
    t->before = list->last;
    *(list->last ? &list->last->after : &list->first) = t;
    list->last = t;
}

/* --- Streams ---------------------------------------------------------------------------------- */

static struct held *unhold(struct lines *l, struct stream *s)
{
    struct held *h = s->held;

    s->held = h->next;
    s->held_count--;
    l->bytes -= sizeof(*h) + h->kept;
    l->holes -= !s->held;
    return h;
}

static void forget(struct lines *l, struct stream *s)
{
    while (s->held)
        free(unhold(l, s));
    heads_forget(l, s);
    *s = (struct stream){0};
}

static struct talk *vacate(struct lines *l)
{
    struct talk *t = l->idle.first ? l->idle.first : l->busy.first, **at;

    l->counts.crowded += t == l->busy.first;
    for (at = chain_of(l, t->end, t->vlan); *at != t; at = &(*at)->chain)
        ;
    *at = t->chain;
    unlist(t);
    forget(l, &t->stream[0]);
    forget(l, &t->stream[1]);
    *t = (struct talk){0};
    return t;
}

static struct talk *talk_of(struct lines *l, const struct tcp_segment *seg, unsigned *side)
{
    struct endpoint end[2] = {seg->from, seg->to};
    struct talk **chain, *t;

    *side = compare(&seg->from, &seg->to) > 0;
    end[*side] = seg->from;
    end[!*side] = seg->to;
    chain = chain_of(l, end, seg->vlan);
    for (t = *chain; t; t = t->chain)
        if (t->vlan == seg->vlan && compare(&t->end[0], &end[0]) == 0 &&
            compare(&t->end[1], &end[1]) == 0)
            return t;
    t = l->used < TALKS_MAX ? &l->talk[l->used++] : vacate(l);
    t->end[0] = end[0];
    t->end[1] = end[1];
    t->vlan = seg->vlan;
    t->chain = *chain;
    *chain = t;
    enlist(t, &l->idle);
    return t;
}

/* --- In order --------------------------------------------------------------------------------- */

/* Takes bytes that begin at or before s->next; those seen already are left out. */
static void take(struct lines *l, struct talk *t, unsigned side, const struct held *h)
{
    struct stream *s = &t->stream[side];
    uint32_t seen = s->next - h->seq, readable = seen < h->kept ? seen : h->kept;

    if (seen < h->len)
        heads_take(l, t, side, (struct piece){h->ptr + readable, h->len - seen,
                                              h->kept - readable, h->ns});
}

static bool is_after(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) > 0;
}

/* Takes the held packets whose turn has come.  anyway: even if bytes before them are missing. */
static void drain(struct lines *l, struct talk *t, unsigned side, bool anyway)
{
    struct stream *s = &t->stream[side];

    while (s->held) {
        uint32_t missing = is_after(s->held->seq, s->next) ? s->held->seq - s->next : 0;
        struct held *h;

        if (missing && !anyway && heads_mind(s, missing)) {
            s->hole_ns = s->held->ns;
            return;
        }
        if (missing)
            heads_miss(l, t, side, missing);
        h = unhold(l, s);
        take(l, t, side, h);
        free(h);
    }
}

static void hold(struct lines *l, struct talk *t, unsigned side, const struct held *now)
{
    struct stream *s = &t->stream[side];
    struct held **at = &s->held, *h;
    size_t bytes = sizeof(*h) + now->kept;

    h = s->held_count < HELD_MAX && l->bytes + bytes <= LINES_BYTES_MAX ? malloc(bytes) : NULL;
    if (!h) { /* no longer wait */
        drain(l, t, side, true);
        if (is_after(now->seq, s->next))
            heads_miss(l, t, side, now->seq - s->next);
        take(l, t, side, now);
        return;
    }
    if (!s->held) {
        l->holes++;
        s->hole_ns = now->ns;
    }
    while (*at && !is_after((*at)->seq, now->seq))
        at = &(*at)->next;
    memcpy(h, now, sizeof(*h));
    memcpy(h->bytes, now->ptr, now->kept);
    h->ptr = h->bytes;
    h->next = *at;
    *at = h;
    s->held_count++;
    l->bytes += bytes;
}

static void receive(struct lines *l, struct talk *t, unsigned side, const struct held *now)
{
    struct stream *s = &t->stream[side];
    int32_t ahead = (int32_t)(now->seq - s->next);

    if (!s->synced || ahead > FAR_BYTES || ahead < -FAR_BYTES) {
        forget(l, s);
        s->synced = true;
        s->next = now->seq;
        ahead = 0;
    }
    if (ahead > 0 && heads_mind(s, (uint32_t)ahead)) {
        hold(l, t, side, now);
        return;
    }
    if (ahead > 0)
        heads_miss(l, t, side, (uint32_t)ahead);
    take(l, t, side, now);
    drain(l, t, side, false);
}

/* --- Connections ------------------------------------------------------------------------------ */

static void begin(struct lines *l, struct talk *t, unsigned side, uint32_t first)
{
    struct stream *s = &t->stream[side];

    if (s->begun && s->first == first) /* the SYN is sent again */
        return;
    forget(l, s);
    t->asks = t->answers = 0;
    s->begun = s->synced = true;
    s->first = s->next = first;
    s->state = STREAM_HEAD;
}

static bool is_over(const struct stream *s)
{
    return s->ended && !s->held && !is_after(s->end, s->next);
}

/* The place in each stream is kept, so that bytes that are sent again are not taken twice. */
static void finish(struct lines *l, struct talk *t)
{
    for (unsigned i = 0; i < 2; i++) {
        drain(l, t, i, true);
        heads_forget(l, &t->stream[i]);
        t->stream[i].state = STREAM_LOST;
    }
    enlist(t, &l->idle);
}

void lines_segment(struct lines *l, const struct tcp_segment *seg, uint64_t ns)
{
    unsigned side;
    struct talk *t = talk_of(l, seg, &side);
    struct stream *s = &t->stream[side];
    uint32_t seq = seg->seq + !!(seg->flags & SEGMENT_SYN);

    if (seg->flags & SEGMENT_SYN)
        begin(l, t, side, seq);
    if (seg->len)
        receive(l, t, side, &(struct held){.seq = seq, .len = seg->len, .kept = seg->kept,
                                           .ns = ns, .ptr = seg->payload});
    if (seg->flags & SEGMENT_FIN) {
        s->ended = true;
        s->end = seq + seg->len;
    }
    if (seg->flags & SEGMENT_RST || (is_over(&t->stream[0]) && is_over(&t->stream[1])))
        finish(l, t);
    else if (seg->len)
        enlist(t, &l->busy);
}

void lines_tick(struct lines *l, uint64_t ns)
{
    for (unsigned i = 0; l->holes && i < l->used; i++)
        for (unsigned side = 0; side < 2; side++) {
            struct stream *s = &l->talk[i].stream[side];

            if (s->held && (int64_t)(ns - s->hole_ns) >= HOLE_NS)
                drain(l, &l->talk[i], side, true);
        }
}

void lines_end(struct lines *l)
{
    for (unsigned i = 0; i < l->used; i++)
        for (unsigned side = 0; side < 2; side++) {
            drain(l, &l->talk[i], side, true);
            forget(l, &l->talk[i].stream[side]);
        }
    free(l->talk);
    free(l->chain);
    l->talk = NULL;
    l->chain = NULL;
    l->used = 0;
}
