/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* http_recent.c - heads seen before, with what they mean.
 *
 * Clients repeat themselves: the same browser, script or proxy asks for the same file with the same
 * fields, byte for byte.  The meaning of a head depends on its bytes alone, and nothing behind its
 * empty line changes it.  So the bytes of such a head are kept with their meaning, and when they
 * come again, one comparison is enough: no grammar, no decoding of the path, no weights.
 *
 * Only requests for a representation without a body are kept: GET and HEAD.  A place is found by a
 * hash of the first bytes, and belongs to one head.  Another head that falls on it gets it when it
 * comes for the second time in a row, so that a head that never comes again costs only a hash.
 */
#include "http_inside.h"

enum {
    HEAD_BYTES_MIN = 18, /* "GET / HTTP/1.0" and two line ends */
    HASHED_BYTES = 64    /* the target and the start of the fields */
};

struct http_kept {
    uint32_t len; /* of bytes; 0: nothing is kept */
    char bytes[RECENT_BYTES_MAX];
    char path[RECENT_BYTES_MAX];
    struct http_known known; /* points into bytes and path */
};

/* Multiplication by an odd constant carries every bit to the highest ones, which choose the
 * place. */
static uint64_t hash_of(const char *bytes, size_t n)
{
    uint64_t hash = 0, word;
    size_t i;

    for (i = 0; i + sizeof(word) <= n && i < HASHED_BYTES; i += sizeof(word)) {
        memcpy(&word, bytes + i, sizeof(word));
        hash = ((hash ^ word) * 0x9e3779b97f4a7c15ull);
        hash ^= hash >> 32;
    }
    return hash * 0x9e3779b97f4a7c15ull;
}

static bool is_that(const struct http_kept *kept, const char *bytes, size_t n)
{
    return kept && kept->len && kept->len <= n && memcmp(bytes, kept->bytes, kept->len) == 0;
}

/* A client that repeats a head mostly does so in a row: then nothing is hashed. */
struct http_known *http_recent_find(struct http_recent *recent, const char *bytes, size_t n,
                                    size_t *used)
{
    struct http_kept *kept = recent->last;

    if (!is_that(kept, bytes, n)) {
        recent->hash = n < HEAD_BYTES_MIN ? 0 : hash_of(bytes, n);
        kept = recent->place[recent->hash >> (64 - RECENT_LOG)].kept;
        if (!is_that(kept, bytes, n))
            return NULL;
        recent->last = kept;
    }
    *used = kept->len;
    return &kept->known;
}

static bool is_kept(const struct http_head *head)
{
    return (head->method == HTTP_GET || head->method == HTTP_HEAD) &&
           head->framing == FRAMING_NONE && !head->expect_continue;
}

void http_recent_keep(const struct http_host *host, const char *bytes, size_t used,
                      const struct http_head *head)
{
    struct http_recent *recent = host->recent;
    struct http_recent_place *place = &recent->place[recent->hash >> (64 - RECENT_LOG)];
    struct http_kept *kept = place->kept;
    uint64_t number = (uint64_t)(place - recent->place);
    long read;

    if (!recent->hash || used > RECENT_BYTES_MAX || !is_kept(head))
        return;
    if (place->next != recent->hash) {
        place->next = recent->hash;
        return;
    }
    place->next = 0;
    if (!kept)
        place->kept = kept = host->conn.alloc(host->conn.ctx, sizeof(*kept));
    if (!kept)
        return;
    memcpy(kept->bytes, bytes, used);
    read = http_parse_request(kept->bytes, used, &kept->known.head); /* its slices are ours */
    core_assert(read == (long)used);                                 /* it was a head before */
    kept->len = http_ask_set(&kept->known.ask, kept->path, &kept->known.head) ? 0 : (uint32_t)used;
    kept->known.ask.again = ++recent->kept_ever << RECENT_LOG | number;
}

void http_recent_drop(const struct http_host *host)
{
    struct http_recent *recent = host->recent;
    unsigned i;

    if (recent)
        recent->last = NULL;
    for (i = 0; recent && i < 1 << RECENT_LOG; i++) {
        if (recent->place[i].kept)
            host->conn.free(host->conn.ctx, recent->place[i].kept, sizeof(struct http_kept));
        recent->place[i].kept = NULL;
    }
}
