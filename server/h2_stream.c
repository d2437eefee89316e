/* SPDX-License-Identifier: MIT */
/* h2_stream.c - how streams end, and the connection with them.
 *
 * A stream that is over holds nothing any more; the library forgets it when both sides have ended
 * it.  Frames that still come for it are judged here: they may have been on their way when we
 * reset the stream; otherwise the client is wrong (RFC 9113 5.1).
 */
#include <stdlib.h>
#include "address_limits.h"
#include "h2_inside.h"

/* --- Ends ------------------------------------------------------------------------------------- */

/* The range that comes next may be read by a helper, and its file is released now. */
static void forget_read(const struct h2 *h, const struct conn *c)
{
    struct session *s = (struct session *)(uintptr_t)session_of_conn(h->c);
    const struct segment *seg = conn_out(c).seg;

    if (s->fetch && seg && !seg->bytes && fetch_is_of(s, seg))
        fetch_forget(h2_loop(h)->fetch, s);
}

void h2_stream_fed(struct h2 *h, struct stream *st)
{
    if (!st->in)
        return;
    h->receiving -= st->open;
    h->taking--;
    free(st->in);
    st->in = NULL;
}

void h2_stream_over(struct h2 *h, struct stream *st)
{
    switch (st->state) {
    case RECEIVES:
        h->receiving--;
        break;
    case TAKES:
    case WORKS:
    case ANSWERS:
        h2_stream_fed(h, st);
        h->working--;
        h->making -= st->state == WORKS;
        forget_read(h, stream_conn(h, st));
        conn_fini(stream_conn(h, st));
        break;
    default:
        break;
    }
    if (st->state == RECEIVES || st->state == WAITS) {
        h->text_bytes -= st->text_len;
        limits_spend(h2_loop(h), h->c);
    }
    h->deferred -= st->deferred;
    st->deferred = false;
    st->state = OVER;
}

void h2_stream_reset(struct h2 *h, struct stream *st, uint32_t code)
{
    h2_stream_over(h, st);
    h2_reset(h, st->id, code);
}

void h2_stream_free(struct h2 *h, struct stream *st)
{
    h2_stream_over(h, st);
    *(st->prev ? &st->prev->next : &h->first) = st->next;
    *(st->next ? &st->next->prev : &h->last) = st->prev;
    if (--h->streams == 0)
        h->quiet_ms = h2_loop(h)->now_ms;
    free(st);
}

/* --- Streams that are closed ------------------------------------------------------------------ */

void h2_closed_add(struct closed *closed, int32_t id)
{
    closed->reset[closed->resets++ % H2_RESETS_KEPT] = id;
}

void h2_opened(struct closed *closed, int32_t id)
{
    if (id > closed->last + 2) {
        closed->gap = closed->last;
        closed->gap_end = id;
    }
    closed->last = id;
}

/* Whether frames for a closed stream may have been on their way when we reset it. */
static bool is_excused(const struct closed *closed, int32_t id)
{
    if (closed->resets > H2_RESETS_KEPT && id < closed->reset[closed->resets % H2_RESETS_KEPT])
        return true; /* not known any more */
    for (unsigned i = 0; i < H2_RESETS_KEPT; i++)
        if (closed->reset[i] == id)
            return true;
    return false;
}

uint32_t h2_judge(const struct h2 *h, int32_t id)
{
    const struct closed *closed = &h->closed;

    if (id % 2 == 0 || id > closed->last || h->goaway || is_excused(closed, id) ||
        nghttp2_session_get_stream_remote_close(h->session, id) >= 0)
        return NGHTTP2_NO_ERROR;
    return id > closed->gap && id < closed->gap_end ? NGHTTP2_PROTOCOL_ERROR
                                                    : NGHTTP2_STREAM_CLOSED;
}

/* --- The connection --------------------------------------------------------------------------- */

void h2_give_up(struct h2 *h)
{
    h->terminated = true;
    conn_abort(h->c);
}

void h2_reset(struct h2 *h, int32_t id, uint32_t code)
{
    if (nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, id, code))
        h2_give_up(h);
}

void h2_terminate(struct h2 *h, uint32_t code)
{
    if (h->terminated)
        return;
    h->terminated = true;
    if (nghttp2_session_terminate_session(h->session, code))
        h2_give_up(h);
}
