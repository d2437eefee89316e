/* SPDX-License-Identifier: MIT */
/* sniff_lines.h - between sniff_lines.c, which puts the bytes of a direction in order, and
 * sniff_heads.c, which finds the messages in them. */
#ifndef TOOLS_SNIFF_LINES_H
#define TOOLS_SNIFF_LINES_H
#include "sniff.h"

enum stream_state {
    STREAM_LOST,   /* a message may begin with any packet */
    STREAM_HEAD,   /* in a head, or one comes next */
    STREAM_BODY,
    STREAM_TUNNEL  /* no HTTP will come */
};

/* A packet that came before one that is missing. */
struct held {
    struct held *next;
    uint32_t seq, len, kept;
    uint64_t ns;
    const char *ptr; /* to bytes, once it is held */
    char bytes[];
};

/* A direction of a connection. */
struct stream {
    uint32_t next;          /* sequence number of the next byte to read */
    uint32_t first, end;    /* that of its first byte; of its last one, where `ended` */
    bool begun, synced;     /* first is known; next is */
    bool ended;
    bool line_said;         /* the first line of the current head was reported */
    bool guessed;           /* the head is a guess: it began with a packet, not behind a message */
    uint8_t state, framing; /* STREAM_, enum http_framing of the body */
    uint64_t left;          /* FRAMING_LENGTH: bytes of the body that are to come */
    struct http_body body;  /* FRAMING_CHUNKED */
    char *partial;            /* a head that is not complete */
    uint32_t partial_len, room;
    struct held *held;      /* by sequence number */
    unsigned held_count;
    uint64_t hole_ns;       /* when the first of them came */
};

enum asked { ASKED_OTHER, ASKED_HEAD, ASKED_CONNECT };

struct talk {
    struct talk *chain, *before, *after;
    struct talk_list *list;
    struct endpoint end[2]; /* in order; stream[0] is what end[0] sends */
    uint64_t vlan;
    struct stream stream[2];
    uint8_t asked[ASKED_MAX]; /* requests that have not been answered, a ring */
    uint32_t asks, answers;   /* in all */
};

/* Bytes of a stream that come next: len, of which kept can be read. */
struct piece {
    const char *ptr;
    uint32_t len, kept;
    uint64_t ns;
};

/* --- sniff_heads.c ---------------------------------------------------------------------------- */

/* Read the piece, and move stream[side].next behind it. */
void heads_take(struct lines *l, struct talk *t, unsigned side, struct piece p);
/* Notes that the next `bytes` bytes were not seen. */
void heads_miss(struct lines *l, struct talk *t, unsigned side, uint32_t bytes);
/* Whether it matters if the next `bytes` bytes are not seen. */
bool heads_mind(const struct stream *s, uint32_t bytes);
void heads_forget(struct lines *l, struct stream *s); /* frees the partial head */

#endif
