/* SPDX-License-Identifier: MIT */
/* h2_frames.c - follows the heads of received frames, and counts what they cost.
 *
 * Every frame makes work, and few are worth it.  A connection has a credit: frames spend it,
 * answers earn it, and one that has spent it all is ended.  So floods of PING, SETTINGS, PRIORITY
 * or empty DATA frames, and streams that are opened only to be reset, end after a bounded number of
 * frames, however slowly they come; a client that sends requests and reads answers never comes near
 * that number.
 */
#include "h2_frames.h"

enum { END_STREAM = 0x1, END_HEADERS = 0x4 };

void h2_frames_begin(struct h2_frames *f, uint64_t now_ms)
{
    *f = (struct h2_frames){
        .preface = H2_PREFACE_BYTES, .credit = H2_CREDIT, .begun_ms = now_ms};
}

bool h2_frames_pay(struct h2_frames *f, int cost)
{
    f->credit -= cost;
    return f->credit >= 0;
}

void h2_frames_earn(struct h2_frames *f, int earned)
{
    f->credit = f->credit + earned < H2_CREDIT ? f->credit + earned : H2_CREDIT;
}

/* The cost of the frame whose head is complete. */
static int cost_of(const struct h2_frames *f)
{
    switch (f->head[3]) {
    case H2_DATA: /* bodies are bounded by themselves */
        return !f->left && !(f->head[4] & END_STREAM);
    case H2_HEADERS:
        return H2_COST_REQUEST;
    case H2_RST_STREAM:
        return H2_COST_RESET;
    default:
        return 1;
    }
}

static uint32_t stream_of(const struct h2_frames *f)
{
    return (uint32_t)(f->head[5] & 0x7f) << 24 | (uint32_t)f->head[6] << 16 |
           (uint32_t)f->head[7] << 8 | f->head[8];
}

/* The head of a frame is complete. */
static enum h2_code begin_frame(struct h2_frames *f)
{
    uint8_t type = f->head[3];

    f->left = (uint32_t)f->head[0] << 16 | (uint32_t)f->head[1] << 8 | f->head[2];
    if (type == H2_HEADERS)
        f->continued = 0;
    if (type == H2_CONTINUATION && ++f->continued > H2_CONTINUATIONS_MAX)
        return H2_CALM;
    if (type == H2_HEADERS || type == H2_CONTINUATION)
        f->block = !(f->head[4] & END_HEADERS);
    if (type == H2_DATA)
        f->data = stream_of(f);
    f->depends = 0;
    f->dependency = 0;
    if (type == H2_PRIORITY && !stream_of(f))
        return H2_PROTOCOL_ERROR;
    return h2_frames_pay(f, cost_of(f)) ? H2_FINE : H2_CALM;
}

/* RFC 7540 5.3.1: a stream cannot depend on itself.  The library does not look at PRIORITY frames,
 * because it does not act on them. */
static bool depends_on_itself(struct h2_frames *f, const char *bytes, size_t n)
{
    if (f->head[3] != H2_PRIORITY || f->depends == 4)
        return false;
    for (size_t i = 0; i < n && f->depends < 4; i++, f->depends++)
        f->dependency = f->dependency << 8 | (uint8_t)bytes[i];
    return f->depends == 4 && (f->dependency & 0x7fffffff) == stream_of(f);
}

bool h2_frames_partial(const struct h2_frames *f)
{
    if (f->preface || f->block)
        return true;
    return f->have && (f->have < H2_FRAME_HEAD_BYTES || f->head[3] != H2_DATA);
}

/* Takes some of n bytes.  Returns how many. */
static size_t take(struct h2_frames *f, const char *bytes, size_t n)
{
    if (f->preface) {
        f->preface--;
        return 1;
    }
    if (f->have < H2_FRAME_HEAD_BYTES) {
        f->head[f->have++] = (uint8_t)*bytes;
        return 1;
    }
    n = n < f->left ? n : f->left;
    f->left -= (uint32_t)n;
    return n;
}

size_t h2_frames_follow(struct h2_frames *f, const char *bytes, size_t n, uint64_t now_ms)
{
    bool whole = !h2_frames_partial(f);
    size_t at = 0;

    f->data = 0;
    while (at < n && f->code == H2_FINE && !f->data) {
        uint8_t had = f->have;
        size_t used = take(f, bytes + at, n - at);

        if (had == H2_FRAME_HEAD_BYTES && depends_on_itself(f, bytes + at, used))
            f->code = H2_PROTOCOL_ERROR;
        at += used;
        if (had < H2_FRAME_HEAD_BYTES && f->have == H2_FRAME_HEAD_BYTES)
            f->code = begin_frame(f);
        if (f->have == H2_FRAME_HEAD_BYTES && !f->left) {
            f->have = 0;
            whole = whole || !h2_frames_partial(f);
        }
    }
    if (whole && h2_frames_partial(f))
        f->begun_ms = now_ms;
    return at;
}
