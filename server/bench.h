/* SPDX-License-Identifier: MIT */
/* bench.h - the server's own protocol without sockets, whole and in parts: what the null engine
 * measures. */
#ifndef SERVER_BENCH_H
#define SERVER_BENCH_H
#include "server.h"

struct bench_case {
    const char *name, *what;
    void (*once)(struct bench *b); /* the work of one request */
    unsigned less;                 /* parts that it contains, as bits */
};

int  bench_open(struct loop *l, struct bench **b);
void bench_close(struct bench *b);
const struct bench_case *bench_cases(unsigned *count);
/* Select that script.  Returns its name, or NULL: there are no more. */
const char *bench_script(struct bench *b, unsigned number);
size_t bench_bytes(const struct bench *b);
/* Whether an exchange did not complete since the last call. */
bool bench_failed(struct bench *b);

#endif
