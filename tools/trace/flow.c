/* SPDX-License-Identifier: MIT */
/* flow.c - which connection an event belongs to, and which of its requests.
 *
 * A request is finished when its answer has left and was acknowledged, and the send of its last
 * byte was seen; on the loopback interface the send ends after the acknowledgement.  A stream whose
 * place was lost is found again where a packet begins with a method: everything before it, in
 * either direction, is then over, because a client sends its next request after the answer.  A
 * client that pipelines does not wait; its stream is found again when the server owes nothing: see
 * is_quiet().
 */
#include <stdlib.h>
#include "flow.h"

/* Sequence numbers wrap around: how far `to` is behind `from`; negative: before it. */
static int32_t distance(uint32_t from, uint32_t to)
{
    return (int32_t)(to - from);
}

/* --- Flows ------------------------------------------------------------------------------------ */

static struct flow **place_of(struct flows *fs, uint64_t cookie)
{
    struct flow **at = &fs->chain[cookie % FLOW_CHAINS];

    while (*at && (*at)->cookie != cookie)
        at = &(*at)->chain;
    return at;
}

static struct flow *make(struct flows *fs, const struct event *e)
{
    struct flow **at = place_of(fs, e->cookie), *f = *at;

    if (f)
        return f;
    f = fs->count < FLOWS_MAX ? calloc(1, sizeof(*f)) : NULL;
    if (!f) {
        fs->counts.crowded++;
        return NULL;
    }
    f->cookie = e->cookie;
    f->peer_port = e->peer_port;
    memcpy(f->peer, e->peer, sizeof(f->peer));
    *at = f;
    fs->count++;
    return f;
}

void flows_init(struct flows *fs, void (*finish)(void *arg, const struct request *r), void *arg)
{
    memset(fs, 0, sizeof(*fs));
    fs->finish = finish;
    fs->arg = arg;
}

/* --- Requests --------------------------------------------------------------------------------- */

static void finish(struct flows *fs, struct request *r, enum ending ending)
{
    r->ending = (uint8_t)(r->at[STAGE_DONE] ? ENDED_ANSWERED : ending);
    r->answer_bytes = r->begun && r->bounded ? (uint32_t)(r->out_end - r->out_begin) : 0;
    fs->counts.merged += r->ending == ENDED_MERGED && r->head_whole;
    if (r->head_whole)
        fs->finish(fs->arg, r);
    r->next = fs->spare;
    fs->spare = r;
}

static void finish_all(struct flows *fs, struct flow *f, enum ending ending)
{
    struct request *r = f->first;

    while (r) {
        struct request *next = r->next;

        finish(fs, r, ending);
        r = next;
    }
    f->first = f->last = NULL;
    f->held = 0;
}

static bool is_over(const struct flows *fs, const struct request *r)
{
    return r->at[STAGE_DONE] && r->at[STAGE_ACKED] && (r->queued_all || !fs->sends_known);
}

/* Finishes the requests at the front that are over.  A request that only waits for its send is over
 * when the next one is acknowledged: its send was not seen. */
static void finish_front(struct flows *fs, struct flow *f)
{
    struct request *r = f->first;

    while (r && (is_over(fs, r) || (r->at[STAGE_ACKED] && r->next && r->next->at[STAGE_ACKED]))) {
        f->first = r->next;
        if (!f->first)
            f->last = NULL;
        f->held--;
        finish(fs, r, ENDED_ANSWERED);
        r = f->first;
    }
}

/* --- What the kernel did with the bytes ------------------------------------------------------- */

/* The time of the first send that reached seq; 0: it has not ended, or is forgotten. */
static uint64_t sent_behind(const struct flow *f, uint32_t seq)
{
    uint32_t kept = f->sends < SENDS_KEPT ? f->sends : SENDS_KEPT;

    for (uint32_t i = f->sends - kept; i != f->sends; i++) {
        if (distance(seq, f->sent[i % SENDS_KEPT].seq) < 0)
            continue;
        return i == f->sends - kept && i > 0 ? 0 : f->sent[i % SENDS_KEPT].ns;
    }
    return 0;
}

static void note_sends(struct flow *f)
{
    for (struct request *r = f->first; r && r->begun; r = r->next) {
        if (!r->queued)
            r->queued = sent_behind(f, r->out_begin + 1);
        if (!r->queued_all && r->bounded)
            r->queued_all = sent_behind(f, r->out_end);
    }
}

static void on_send(struct flows *fs, struct flow *f, const struct event *e)
{
    f->sent[f->sends % SENDS_KEPT].seq = e->seq;
    f->sent[f->sends % SENDS_KEPT].ns = e->ns;
    f->sends++;
    note_sends(f);
    finish_front(fs, f);
}

static void on_recv(struct flow *f, const struct event *e)
{
    for (struct request *r = f->first; r; r = r->next) {
        if (!r->head_whole || distance(r->head_end, e->seq) < 0)
            break;
        if (r->at[STAGE_READ])
            continue;
        r->at[STAGE_READ] = e->ns;
        r->tid = e->tid;
        if (e->flags & EVENT_ASLEEP && e->woken >= r->at[STAGE_HEAD]) {
            r->at[STAGE_WOKEN] = e->woken;
            r->at[STAGE_RUNNING] = e->run;
        } else {
            r->busy = (e->flags & EVENT_KNOWN) != 0;
        }
    }
}

/* --- What the server reported ----------------------------------------------------------------- */

static void on_accept(struct flow *f, const struct event *e)
{
    if (!f->accepted)
        f->accepted = e->ns;
    if (f->first && f->first->ordinal == 1)
        f->first->at[STAGE_ACCEPTED] = f->accepted;
}

/* Answers are decided in the order of the requests.  If the connection was not seen from its
 * beginning, the first answer that is reported belongs to the oldest request. */
static void on_answer(struct flow *f, const struct event *e)
{
    struct request *r = f->first;

    f->said_ns = e->ns;
    if (!f->told) {
        while (r && r->at[STAGE_PARSED])
            r = r->next;
        if (!r)
            return;
        f->told = true;
        f->ahead = r->ordinal - e->seq;
    }
    while (r && r->ordinal != e->seq + f->ahead)
        r = r->next;
    if (!r || !r->head_whole)
        return;
    r->at[STAGE_PARSED] = e->parsed;
    r->at[STAGE_FOUND] = e->found;
    r->at[STAGE_COMPRESSED] = e->compressed;
}

static void on_ack(struct flows *fs, struct flow *f, const struct event *e)
{
    for (struct request *r = f->first; r && r->at[STAGE_DONE]; r = r->next) {
        if (distance(r->out_end, e->ack) < 0)
            break;
        if (!r->at[STAGE_ACKED])
            r->at[STAGE_ACKED] = e->ns;
    }
    finish_front(fs, f);
}

/* --- Packets ---------------------------------------------------------------------------------- */

static bool in_is_lost(const struct flow *f, const struct event *e)
{
    return f->in.state == STREAM_UNKNOWN || distance(f->in.next, e->seq) > 0;
}

/* Whether the server owes no answer when this packet comes.  Everything that has left was
 * acknowledged, and either the server has reported the last answer before the last bytes left, or
 * nothing has moved for QUIET_MS.  A body that goes on nevertheless does not look like a head. */
static bool is_quiet(const struct flow *f, const struct event *e)
{
    uint64_t last = f->out_ns > f->in_ns ? f->out_ns : f->in_ns;

    if (!f->any_out || f->out_high != e->ack)
        return false;
    if (e->ns - last >= QUIET_MS * 1000000ull)
        return true;
    return !in_is_lost(f, e) && f->last && f->last->at[STAGE_PARSED] && f->out_ns > f->said_ns;
}

/* A request begins here: resume streams that were lost, but with pipelined requests only if no
 * answer is owed.  If the client waits for each answer before it asks again, the answer that
 * was going out has ended if this packet acknowledges everything that left.  With pipelined
 * requests that need not be so, and it is not guessed which answer the next bytes belong to. */
static void find_again(struct flows *fs, struct flow *f, const struct event *e)
{
    struct request *r = flow_asking(f);
    bool lost = in_is_lost(f, e) || f->fresh, quiet = f->pipelined && is_quiet(f, e);
    int32_t beyond = f->any_out ? distance(f->out_high, e->ack) : 0;
    bool alone = !r || (!r->next && (beyond > 0 || (r->begun && beyond == 0)));

    if (r && alone && r->begun && beyond == 0) {
        r->bounded = true;
        r->out_end = e->ack;
        r->at[STAGE_DONE] = f->out_ns;
        note_sends(f);
        on_ack(fs, f, e);
    }
    if (lost) {
        f->told = f->fresh;
        f->in.state = STREAM_HEAD;
        f->in.partial_len = 0;
        f->in.next = e->seq;
    }
    if (quiet || (!f->pipelined && (alone || lost))) {
        finish_all(fs, f, ENDED_MERGED);
        f->pipelined = false;
        f->out.state = STREAM_HEAD;
        f->out.partial_len = 0;
        f->out.next = e->ack;
    } else {
        f->out.state = STREAM_UNKNOWN;
    }
}

static bool is_lost(const struct flow *f, const struct event *e)
{
    return in_is_lost(f, e) ||
           (f->out.state == STREAM_UNKNOWN && f->in.state == STREAM_HEAD && !f->in.partial_len);
}

/* If answers cannot be distinguished, requests do not wait for theirs. */
static void finish_lost(struct flows *fs, struct flow *f)
{
    while (f->out.state == STREAM_UNKNOWN && f->held > LOST_HELD) {
        struct request *r = f->first;

        f->first = r->next;
        f->held--;
        finish(fs, r, ENDED_MERGED);
    }
}

static void on_in(struct flows *fs, struct flow *f, const struct event *e, const char *payload)
{
    struct piece p = {payload, e->seq, e->len, e->kept, e->ns};
    uint32_t again;

    on_ack(fs, f, e);
    if (!e->len)
        return;
    if (f->fresh || (is_lost(f, e) && bytes_begin_request(payload, e->kept)))
        find_again(fs, f, e);
    f->fresh = false;
    f->in_ns = e->ns;
    if (f->in.state == STREAM_UNKNOWN)
        return;
    if (distance(f->in.next, e->seq) > 0) {
        flow_lose(fs, &f->in);
        return;
    }
    again = f->in.next - e->seq; /* the known bytes of a packet that was sent again */
    if (again >= e->len)
        return;
    p.ptr += again < e->kept ? again : e->kept;
    p.kept -= again < e->kept ? again : e->kept;
    p.seq += again;
    p.len -= again;
    bytes_in(fs, f, p);
    finish_lost(fs, f);
}

static void on_out(struct flows *fs, struct flow *f, const struct event *e, const char *payload)
{
    struct piece p = {payload, e->seq, e->len, e->kept, e->ns};
    struct request *r;
    uint32_t again;

    if (!f->any_out || distance(f->out_high, e->seq + e->len) > 0) {
        f->out_high = e->seq + e->len;
        f->out_ns = e->ns;
        f->any_out = true;
    }
    if (f->out.state != STREAM_UNKNOWN && distance(f->out.next, e->seq) > 0)
        flow_lose(fs, &f->out);
    again = f->out.next - e->seq;
    if (f->out.state != STREAM_UNKNOWN && again < e->len) {
        p.ptr += again < e->kept ? again : e->kept;
        p.kept -= again < e->kept ? again : e->kept;
        p.seq += again;
        p.len -= again;
        bytes_out(fs, f, p);
    }
    r = flow_asking(f);
    if (e->flags & EVENT_FIN && r && r->begun && f->out.state == STREAM_BODY &&
        f->out.framing == FRAMING_CLOSE) {
        r->bounded = true;
        r->out_end = e->seq + e->len;
        r->at[STAGE_DONE] = e->ns;
    }
    note_sends(f);
    finish_front(fs, f);
}

static void drop(struct flows *fs, struct flow **at, enum ending ending)
{
    struct flow *f = *at;

    finish_all(fs, f, ending);
    *at = f->chain;
    free(f->in.partial);
    free(f->out.partial);
    free(f);
    fs->count--;
}

/* Data that came with the handshake's last packet was seen at the listener, whose cookie says
 * nothing.  Until the connection is open, its flow is found by the client's address. */
static uint64_t early_key(const struct event *e)
{
    uint64_t key = e->peer_port;

    for (unsigned i = 0; i < sizeof(e->peer); i++)
        key = (key ^ e->peer[i]) * 0x100000001b3ull;
    return key | 1ull << 63;
}

static void on_open(struct flows *fs, const struct event *e)
{
    struct flow **at = place_of(fs, early_key(e)), *f = *at;

    if (f) {
        *at = f->chain;
        f->cookie = e->cookie;
        f->opened = e->ns;
        f->told = true;
        for (struct request *r = f->first; r; r = r->next) {
            r->cookie = e->cookie;
            r->opened = r->ordinal == 1 ? r->at[STAGE_ARRIVED] : 0; /* the handshake's end */
        }
        at = place_of(fs, e->cookie);
        f->chain = NULL;
        *at = f;
        return;
    }
    f = make(fs, e);
    if (f) {
        f->fresh = true;
        f->told = true;
        f->opened = e->ns;
    }
}

void flows_event(struct flows *fs, const struct event *e, const char *payload)
{
    struct event early = *e;
    struct flow **at, *f;

    if (e->flags & EVENT_EARLY) {
        early.cookie = early_key(e);
        e = &early;
    }
    at = place_of(fs, e->cookie);
    f = *at;
    if (e->kind == EVENT_OPEN) {
        on_open(fs, e);
        return;
    }
    if (e->kind == EVENT_CLOSE) {
        if (f)
            drop(fs, at, ENDED_CUT);
        return;
    }
    if (!f && e->kind == EVENT_IN && e->len) {
        f = make(fs, e);
        fs->counts.late += f && !(e->flags & EVENT_EARLY);
    }
    if (!f)
        return;
    if (e->kind == EVENT_IN)
        on_in(fs, f, e, payload);
    else if (e->kind == EVENT_OUT)
        on_out(fs, f, e, payload);
    else if (e->kind == EVENT_RECV)
        on_recv(f, e);
    else if (e->kind == EVENT_ACCEPT)
        on_accept(f, e);
    else if (e->kind == EVENT_ANSWER)
        on_answer(f, e);
    else
        on_send(fs, f, e);
}

void flows_end(struct flows *fs)
{
    for (unsigned i = 0; i < FLOW_CHAINS; i++)
        while (fs->chain[i])
            drop(fs, &fs->chain[i], ENDED_OPEN);
    while (fs->spare) {
        struct request *next = fs->spare->next;

        free(fs->spare);
        fs->spare = next;
    }
}
