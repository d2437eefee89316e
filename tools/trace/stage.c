/* SPDX-License-Identifier: MIT */
/* stage.c - turns moments into times that add up. */
#include <string.h>
#include "stage.h"

/* When the connection was accepted; 0: not known, or it does not apply. */
static uint64_t accepted_at(const struct request *r)
{
    return r->opened && r->at[STAGE_ACCEPTED] >= r->opened ? r->at[STAGE_ACCEPTED] : 0;
}

/* Whether a request has that stage, known or not.  A server that reports when it parsed the head
 * also reports when it compressed: without that, it did not compress. */
static bool applies(const struct request *r, enum stage i)
{
    if (i == STAGE_ACCEPTED)
        return r->opened != 0;
    return i != STAGE_COMPRESSED || r->at[i] || !r->at[STAGE_PARSED];
}

/* A head that came before the connection was accepted could be read only after that.  A stage
 * that was reached after `out` is not known: a server inside the kernel answers before it takes the
 * bytes, and a refusal does not wait for the rest of them. */
static uint64_t moment(const struct request *r, enum stage i)
{
    uint64_t at = r->at[i], accepted = accepted_at(r);

    if (i > STAGE_HEAD && i < STAGE_OUT && r->at[STAGE_OUT] && at > r->at[STAGE_OUT])
        return 0;
    return i <= STAGE_HEAD && at && at < accepted ? accepted : at;
}

static void set(struct stages *s, enum stage i, uint64_t from_ns, uint64_t to_ns)
{
    s->state[i] = STAGE_KNOWN;
    s->took_ns[i] = to_ns - from_ns;
    s->end_ns[i] = to_ns;
    s->total_ns += to_ns - from_ns;
}

/* The time between the head's arrival and the answer's last byte.  A head may come with the packet
 * that ends the handshake, so it may have waited to be accepted since before that. */
static void set_answer(const struct request *r, struct stages *s)
{
    uint64_t head = r->at[STAGE_HEAD];

    s->server_ns = r->at[STAGE_DONE] - head;
    for (unsigned i = 0; i <= STAGE_DONE; i++) {
        uint64_t past = s->end_ns[i] > head ? s->end_ns[i] - head : 0;

        s->answer_ns[i] = past < s->took_ns[i] || i == STAGE_ACCEPTED ? past : s->took_ns[i];
    }
}

void stages_of(const struct request *r, struct stages *s)
{
    uint64_t last = 0, accepted = accepted_at(r);

    memset(s, 0, sizeof(*s));
    for (unsigned i = 0; i < STAGES; i++) {
        uint64_t at = moment(r, (enum stage)i);

        if (!applies(r, (enum stage)i)) {
            s->state[i] = STAGE_NONE;
        } else if (i == STAGE_ACCEPTED) {
            if (accepted)
                set(s, STAGE_ACCEPTED, r->opened, accepted);
        } else if (at && at >= last) {
            set(s, (enum stage)i, last ? last : at, at);
            last = at;
        }
    }
    for (unsigned i = STAGE_WOKEN; i <= STAGE_RUNNING; i++)
        if ((r->busy || (r->at[i] && r->at[i] < accepted)) && s->state[i] == STAGE_MISSING)
            s->state[i] = STAGE_BUSY;
    s->server_known = s->state[STAGE_HEAD] == STAGE_KNOWN && s->state[STAGE_DONE] == STAGE_KNOWN;
    if (s->server_known)
        set_answer(r, s);
}

int stages_slowest(const struct stages *s)
{
    uint64_t most = 0;
    int slowest = -1;

    for (int i = STAGE_SHOWN; i <= STAGE_DONE; i++) {
        if (s->took_ns[i] <= most)
            continue;
        most = s->took_ns[i];
        slowest = i;
    }
    return slowest;
}

const char *stage_name(enum stage stage)
{
    static const char *const name[] = {
#define STAGE(id, name_, meaning) name_,
#include "stage.def"
#undef STAGE
    };

    return name[stage];
}
