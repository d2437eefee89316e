/* SPDX-License-Identifier: MIT */
/* floor.h - the least that a server can do: one answer, made beforehand, for whatever arrives.
 *
 * No request is parsed, no file is opened, no deadline is kept.  A request costs the wait, the
 * receive and the send; the rest of another server's cost is what that server does.  floor.c
 * makes the answer, epoll.c and uring.c send it.
 */
#ifndef LAB_FLOOR_H
#define LAB_FLOOR_H
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
    COPIED_MAX = 65536, /* a larger body in a file is sent by sendfile() (epoll.c) */
    INPUT_MAX = 16384,
    PIPELINED_MAX = 64, /* answers in one send */
    DESCRIPTORS_MAX = 32768
};

struct answer {
    char *bytes;      /* head and body, PIPELINED_MAX times if pipelined */
    size_t len, head; /* of one answer, and of its head */
    int file;         /* holds the body, or -1 */
    bool close;       /* the connection, after the answer */
    bool pipelined;   /* count the requests, and answer that many */
};

extern volatile sig_atomic_t floor_stopped;

int floor_fail(const char *what, int err); /* prints a sentence; returns 1 */
/* How many answers the received bytes ask for: 1, unless requests are counted. */
unsigned floor_wanted(const struct answer *a, const char *bytes, size_t n);
/* Serves until a signal; returns the exit status. */
int floor_epoll(int listener, const struct answer *a);
int floor_uring(int listener, const struct answer *a);

#endif
