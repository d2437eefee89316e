/* SPDX-License-Identifier: MIT */
/* head.h - a request head from its fields alone, for tests of code that judges fields. */
#ifndef TESTS_HEAD_H
#define TESTS_HEAD_H
#include <stdio.h>
#include <stdlib.h>
#include "../../core/http_inside.h"

/* fields: whole lines with their ends.  The bytes live until the next call. */
static inline void head_of(struct http_head *head, const char *fields)
{
    static char bytes[HEAD_BYTES_MAX];
    int n = snprintf(bytes, sizeof(bytes), "GET / HTTP/1.1\r\nHost: h\r\n%s\r\n", fields);

    if (n < 0 || (size_t)n >= sizeof(bytes) || http_parse_request(bytes, (size_t)n, head) != n)
        abort(); /* the test itself is wrong */
}

#endif
