/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* http_store.c - bodies that the host keeps: PUT, and forms by POST (RFC 9110 9.3.3, 9.3.4).
 *
 *   head -> begin() -> [100 Continue] -> body: put(), put() ... -> done() -> 201 or 303
 *              `-> refused: at once, or behind the body that is read and thrown away
 *
 * The host is asked with the head, so that a body that cannot be kept is refused before it comes.
 * The host takes bytes as they arrive, and nothing here keeps them.  While it waits for a disk it
 * takes no more; the bytes stay in the input queue and in the socket, and the sender waits.
 *
 * Bytes that the host has taken must not be shown to it again, so the state is saved after each
 * run.  The last bytes are reported as used only when the answer is there (state->ahead), because
 * the machine shows a protocol nothing where nothing is left.
 */
#include "http_inside.h"

static const struct http_store *store_of(const struct conn *c)
{
    return http_host_of(c)->store;
}

bool http_store_is_asked(const struct conn *c, const struct http_head *head)
{
    return store_of(c) && head->method == HTTP_KNOWN &&
           (slice_is(head->method_text, "PUT") || slice_is(head->method_text, "POST"));
}

/* A host's result; below 0 it becomes -status, except -EINPROGRESS. */
static long refusal(long result)
{
    if (result >= 0 || result == -EINPROGRESS || result <= -400)
        return result;
    return -(long)http_status_of_error((int)result);
}

long http_store_begin(struct conn *c, const struct http_head *head, void **into)
{
    struct http_work *work = conn_work(c);
    struct http_ask ask;
    unsigned status = http_ask_set(&ask, work->path, head);

    if (status)
        return -(long)answer_admit(c, head, status);
    ask.conn = c;
    return refusal(store_of(c)->begin(c->host->ctx, &ask, into));
}

void http_store_drop(struct conn *c)
{
    struct http_state *state = conn_state(c);

    if (state->into)
        store_of(c)->drop(c->host->ctx, c, state->into);
    state->into = NULL;
}

/* The next run of the body.  How many bytes are used, at least one; or -EINPROGRESS or -status, and
 * none are. */
static long next(struct conn *c, struct http_state *state, struct slice bytes)
{
    struct http_body body = state->body;
    struct slice data;
    long used = http_body_next(&body, bytes.ptr, bytes.len, &data), taken;

    if (used < 0 || !data.len) {
        if (used > 0)
            state->body = body;
        return used;
    }
    taken = refusal(store_of(c)->put(c->host->ctx, c, state->into, data));
    if (taken <= 0)
        return taken;
    core_assert((size_t)taken <= data.len);
    if ((size_t)taken == data.len) {
        state->body = body;
        return used;
    }
    used -= (long)data.len - taken;
    taken = http_body_next(&state->body, bytes.ptr, (size_t)used, &data); /* as far as that */
    core_assert(taken == used);
    return used;
}

long http_store_input(struct conn *c, const char *bytes, size_t n)
{
    struct http_state *state = conn_state(c);
    size_t at = state->ahead;
    long used = 1;

    while (at < n && used > 0 && !http_body_done(&state->body)) {
        used = next(c, state, (struct slice){bytes + at, n - at});
        at += used > 0 ? (size_t)used : 0;
    }
    if (used > 0)
        return (long)at;
    if (used == -EINPROGRESS)
        return at ? (long)at : used;
    state->refused = (uint16_t)-used;
    return (long)at;
}

long http_store_done(struct conn *c, const struct http_head *head, bool keep_alive)
{
    struct http_state *state = conn_state(c);
    struct answer a = {.c = c, .head = head, .keep_alive = keep_alive};
    struct http_stored stored = {0};
    int result;

    (void)answer_aim(c, head); /* others may have been answered meanwhile */
    result = store_of(c)->done(c->host->ctx, c, state->into, &stored);
    if (result < 0)
        return refusal(result);
    http_status_stored(&a, &stored);
    return 0;
}
