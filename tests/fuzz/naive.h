/* SPDX-License-Identifier: MIT */
/* naive.h - a second parser of request heads, written to be compared with the RFCs: slow, no
 * tables, one rule after another over whole lines.  It shares nothing with core/ except the
 * limits. */
#ifndef TESTS_FUZZ_NAIVE_H
#define TESTS_FUZZ_NAIVE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum naive_framing { NAIVE_NONE, NAIVE_LENGTH, NAIVE_CHUNKED };

struct naive {
    long length;       /* > 0: length of the head; 0: it has no end yet; < 0: refused */
    size_t target_at, target_len;
    size_t path_len;   /* of the target's path; the query is behind the '?' that follows it */
    bool query;
    bool keep_alive, expects;
    unsigned minor, fields;
    enum naive_framing framing;
    uint64_t content_length;
};

void naive_parse(const char *bytes, size_t n, struct naive *head);

#endif
