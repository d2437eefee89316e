/* SPDX-License-Identifier: MIT */
/* one.h - one connection of lines.h for each test, and a clock that the test sets.  The program
 * defines START, when the clock begins, before it includes this file.
 */
#ifndef TESTS_UNIT_ONE_H
#define TESTS_UNIT_ONE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "../lines.h"

static struct fake *fake;
static struct conn c;

static inline int open_lines(void **state)
{
    (void)state;
    fake = fake_open();
    conn_init(&c, &lines_proto, &fake->host.conn, START);
    return 0;
}

static inline int close_lines(void **state)
{
    (void)state;
    conn_fini(&c);
    fake_close(fake);
    return 0;
}

static inline void feed_at(uint64_t now_ms, const char *text)
{
    conn_feed(&c, text, strlen(text), now_ms);
}

#endif
