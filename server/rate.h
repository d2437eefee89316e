/* SPDX-License-Identifier: MIT */
/* rate.h - a limit of requests a second, and of requests at once: a bucket of tokens as one number.
 *
 * A bucket holds `burst` tokens, and gets one every `each_ns`; a request takes one, and is refused
 * if there is none.  Instead of tokens, the bucket has the time at which it will be full again:
 * each request moves that time on by each_ns, and there is a token as long as it is less than burst
 * tokens away (GCRA, the "virtual scheduling" of ITU-T I.371).  So nothing has to be filled, a
 * bucket that was not used for a while is like a new one, and all threads and processes share it by
 * one atomic exchange.
 */
#ifndef SERVER_RATE_H
#define SERVER_RATE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { RATE_MAX = 1000000 /* requests in the unit of time, and at once */ };

struct rate {
    uint64_t each_ns;  /* between two tokens; 0: no limit */
    uint64_t ahead_ns; /* how far ahead the bucket may be when a request comes: burst - 1 tokens */
};

/* "N", "N/s", "N/m" or "N/h", and perhaps ":BURST", which is N otherwise; nginx's "Nr/s" too.
 * False: it is none, or a number is 0 or beyond RATE_MAX. */
bool rate_parse(struct rate *r, const char *text);

/* Take a token from the bucket that is full at *full_ns.  False: there is none. */
bool rate_take(const struct rate *r, _Atomic uint64_t *full_ns, uint64_t now_ns);

/* Whole seconds in which a client that was refused surely has a token. */
uint32_t rate_retry_s(const struct rate *r);

#endif
