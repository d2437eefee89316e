/* SPDX-License-Identifier: MIT */
/* fake_tls.h - a record layer for tests: records of TLS's shape, without secrets or chance.
 *
 * A record is TYPE 3 3 LENGTH, its bytes xored with FAKE_KEY, and one byte that is their sum.  The
 * client's handshake is two records: "hello", which brings a flight of any size, and "finished",
 * which may bring a ticket.  Records of keys are requests for new ones and carry nothing; one that
 * says FAKE_ASKS asks the server for new ones, too.  Once the layer's key was given away, it must
 * make no more records.
 */
#ifndef TESTS_FAKE_TLS_H
#define TESTS_FAKE_TLS_H
#include "../server/tls.h"
#include "fake.h"

enum { FAKE_KEY = 0x5a, FAKE_HEAD = 5, FAKE_EXTRA = FAKE_HEAD + 1 };
enum { FAKE_ALERT = 0x15, FAKE_HANDSHAKE, FAKE_DATA, FAKE_KEYS }; /* types of records */
enum { FAKE_SAYS_END = 'e', FAKE_SAYS_BAD = 'b', FAKE_ASKS = 'a' }; /* bodies */

struct fake_store {
    size_t flight, ticket; /* bytes of handshake that the server says after each record */
    unsigned begun, ended, fail_begin;
    size_t fail_speak;     /* the n-th record of data cannot be made; 0: all can */
    size_t spoken;
    bool h2;               /* the client has chosen what is spoken inside: setup->h2 */
    bool has_keys;         /* the layer's key can be given away */
    bool may_speak;        /* ... to a kernel that refuses it, and records are made here */
};

struct fake_link {
    struct fake_store *store;
    size_t have, owed; /* of rec; of the flight under way */
    unsigned heard;    /* records of the handshake */
    bool shut, given, rekeys;
    char rec[FAKE_EXTRA + TLS_RECORD_BYTES];
};

/* Writes a record; returns its length. */
static inline size_t fake_record(char *out, unsigned type, const char *body, size_t n)
{
    unsigned char sum = 0;

    out[0] = (char)type;
    out[1] = out[2] = 3;
    out[3] = (char)((n + 1) >> 8);
    out[4] = (char)(n + 1);
    for (size_t i = 0; i < n; i++) {
        out[FAKE_HEAD + i] = (char)(body[i] ^ FAKE_KEY);
        sum = (unsigned char)(sum + (unsigned char)body[i]);
    }
    out[FAKE_HEAD + n] = (char)sum;
    return n + FAKE_EXTRA;
}

/* Bytes of the record's body, which is made readable; -1: more is needed, -2: its sum is wrong. */
static inline long fake_open_record(char *rec, size_t have)
{
    size_t n = have < FAKE_HEAD ? 0 : (size_t)(unsigned char)rec[3] << 8 | (unsigned char)rec[4];
    unsigned char sum = 0;

    if (have < FAKE_HEAD || have < FAKE_HEAD + n)
        return -1;
    if (n == 0 || n > TLS_RECORD_BYTES + 1)
        return -2;
    for (size_t i = 0; i + 1 < n; i++) {
        rec[FAKE_HEAD + i] ^= FAKE_KEY;
        sum = (unsigned char)(sum + (unsigned char)rec[FAKE_HEAD + i]);
    }
    return sum == (unsigned char)rec[FAKE_HEAD + n - 1] ? (long)n - 1 : -2;
}

static inline bool fake_say(struct tls_io *io, unsigned type, const char *body, size_t n)
{
    if (io->out_cap - io->out_len < n + FAKE_EXTRA)
        return false;
    io->out_len += fake_record(io->out + io->out_len, type, body, n);
    return true;
}

/* The flight, in records of 1000 bytes; false: there is no more room. */
static inline bool fake_flight(struct fake_link *l, struct tls_io *io)
{
    static const char zeros[1000];

    while (l->owed) {
        size_t n = l->owed < sizeof(zeros) ? l->owed : sizeof(zeros);

        if (!fake_say(io, FAKE_HANDSHAKE, zeros, n))
            return false;
        l->owed -= n;
    }
    return true;
}

static inline void *fake_begin(void *store)
{
    struct fake_store *s = store;
    struct fake_link *l;

    if (++s->begun == s->fail_begin)
        return NULL;
    l = calloc(1, sizeof(*l));
    must(l);
    l->store = s;
    return l;
}

static inline void fake_end(void *link)
{
    ((struct fake_link *)link)->store->ended++;
    free(link);
}

static inline bool fake_done(const void *link)
{
    const struct fake_link *l = link;

    return l->heard == 2 && !l->owed;
}

/* Acts on a whole record: bytes of it for the caller, enum tls_heard, or 1 << 20: nothing. */
enum { FAKE_GOES_ON = 1 << 20 };
static inline long fake_act(struct fake_link *l, struct tls_io *io, long n, char *plain)
{
    unsigned type = (unsigned char)l->rec[0];

    if (n >= 0 && type == FAKE_HANDSHAKE && l->heard < 2) {
        l->owed = l->heard++ ? l->store->ticket : l->store->flight;
        return fake_flight(l, io) ? FAKE_GOES_ON : TLS_FULL;
    }
    if (n >= 0 && l->heard == 2 && type == FAKE_KEYS) {
        l->rekeys = l->rekeys || (n == 1 && l->rec[FAKE_HEAD] == FAKE_ASKS);
        return FAKE_GOES_ON;
    }
    if (n == 1 && type == FAKE_ALERT && l->rec[FAKE_HEAD] == FAKE_SAYS_END)
        return TLS_ENDED;
    if (n < 0 || l->heard < 2 || type != FAKE_DATA) {
        (void)fake_say(io, FAKE_ALERT, (char[]){FAKE_SAYS_BAD}, 1);
        return TLS_FAILED;
    }
    memcpy(plain, l->rec + FAKE_HEAD, (size_t)n);
    return n ? n : FAKE_GOES_ON;
}

static inline long fake_hear(void *link, struct tls_io *io, char *plain)
{
    struct fake_link *l = link;
    long n, result = FAKE_GOES_ON;

    if (!fake_flight(l, io))
        return TLS_FULL;
    while (result == FAKE_GOES_ON) {
        if (!io->in_len)
            return TLS_MORE;
        l->rec[l->have++] = *io->in++;
        io->in_len--;
        n = fake_open_record(l->rec, l->have);
        if (n == -1 && l->have < sizeof(l->rec))
            continue;
        l->have = 0;
        result = fake_act(l, io, n, plain);
    }
    return result;
}

static inline bool fake_speak(void *link, struct tls_io *io, const char *plain, size_t n)
{
    struct fake_link *l = link;

    must(!l->given || l->store->may_speak);
    must(fake_done(l) && !l->shut && n && n <= TLS_RECORD_BYTES);
    must(io->out_cap - io->out_len >= n + TLS_RECORD_EXTRA);
    if (++l->store->spoken == l->store->fail_speak)
        return false;
    return fake_say(io, FAKE_DATA, plain, n);
}

static inline void fake_shut(void *link, struct tls_io *io)
{
    struct fake_link *l = link;

    must(!l->shut && (!l->given || l->store->may_speak));
    l->shut = true;
    must(fake_say(io, FAKE_ALERT, (char[]){FAKE_SAYS_END}, 1));
}

static inline bool fake_h2(const void *link)
{
    return ((const struct fake_link *)link)->store->h2;
}

static inline bool fake_keys(void *link, struct tls_keys *keys)
{
    struct fake_link *l = link;

    must(fake_done(l) && !l->given);
    l->given = l->store->has_keys && !l->rekeys;
    *keys = (struct tls_keys){.suite = 0x1301, .key = {FAKE_KEY}, .record = l->store->spoken};
    return l->given;
}

static inline bool fake_rekeys(const void *link)
{
    return ((const struct fake_link *)link)->rekeys;
}

static const struct tls_layer fake_layer = {.begin = fake_begin,
                                            .end = fake_end,
                                            .hear = fake_hear,
                                            .speak = fake_speak,
                                            .shut = fake_shut,
                                            .done = fake_done,
                                            .h2 = fake_h2,
                                            .keys = fake_keys,
                                            .rekeys = fake_rekeys};

#endif
