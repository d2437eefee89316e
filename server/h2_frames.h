/* SPDX-License-Identifier: MIT */
/* h2_frames.h - what a peer's frames cost, and how far that is allowed: bounds of HTTP/2, without
 * any library. */
#ifndef SERVER_H2_FRAMES_H
#define SERVER_H2_FRAMES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum h2_frame_type {
    H2_DATA, H2_HEADERS, H2_PRIORITY, H2_RST_STREAM, H2_SETTINGS, H2_PUSH_PROMISE, H2_PING,
    H2_GOAWAY, H2_WINDOW_UPDATE, H2_CONTINUATION
};

enum {
    H2_PREFACE_BYTES = 24,
    H2_FRAME_HEAD_BYTES = 9,
    /* Frames in a row that bring nothing: PING, SETTINGS, PRIORITY, empty DATA, and what a peer may
     * send for each answer, such as WINDOW_UPDATE.  A frame costs 1, a request 2, and a reset 4,
     * because it wastes work that was done; an answer earns 16 and each of its frames 4. */
    H2_CREDIT = 1000,
    H2_COST_REQUEST = 2,
    H2_COST_RESET = 4,
    H2_EARN_ANSWER = 16,
    H2_EARN_FRAME = 4,
    /* A frame of HEADERS may be 16 KiB long, as long as a whole head may be: those that need more
     * than a few CONTINUATION frames send tiny ones. */
    H2_CONTINUATIONS_MAX = 8
};

/* Errors: too much of what brings nothing, or a PRIORITY frame that means nothing. */
enum h2_code { H2_FINE = 0, H2_PROTOCOL_ERROR = 1, H2_CALM = 11 };

struct h2_frames {
    uint32_t left;      /* bytes of the frame whose head has been seen */
    uint8_t preface;    /* bytes of the preface that have not come */
    uint8_t have;       /* bytes of a head seen so far */
    uint8_t head[H2_FRAME_HEAD_BYTES];
    uint8_t depends;    /* bytes of a PRIORITY frame's dependency seen so far */
    uint32_t dependency;
    uint8_t continued;  /* CONTINUATION frames of the header block */
    bool block;         /* a header block has begun, and its end has not come */
    int credit;
    enum h2_code code;  /* of the error that ends the connection */
    uint32_t data;      /* the stream whose DATA frame has just begun; 0: none */
    uint64_t begun_ms;  /* when the part that is under way began */
};

void h2_frames_begin(struct h2_frames *f, uint64_t now_ms);
/* Follows received bytes; how many: it stops behind the head of a DATA frame (f->data), and at an
 * error (f->code). */
size_t h2_frames_follow(struct h2_frames *f, const char *bytes, size_t n, uint64_t now_ms);
/* Whether a part of something has come that must be complete in a head's time: a frame except DATA,
 * or a header block. */
bool h2_frames_partial(const struct h2_frames *f);
/* A reset of ours, which the peer provoked, costs as much as one of its own.  False: as above. */
bool h2_frames_pay(struct h2_frames *f, int cost);
void h2_frames_earn(struct h2_frames *f, int earned);

#endif
