/* SPDX-License-Identifier: MIT */
/* rig.h - one connection, its host and its clock, driven by hand. */
#ifndef TESTS_RIG_H
#define TESTS_RIG_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lines.h"

struct rig {
    struct fake *fake;
    struct conn c;
    struct text out;
    uint64_t now;
};

static inline void rig_open(struct rig *r, const struct conn_proto *proto)
{
    *r = (struct rig){.fake = fake_open(), .now = 1000};
    conn_init(&r->c, proto, &r->fake->host.conn, r->now);
}

static inline void rig_close(struct rig *r)
{
    conn_fini(&r->c);
    assert_int_equal(r->c.want, CONN_CLOSE);
    fake_close(r->fake);
    text_free(&r->out);
}

static inline void feed(struct rig *r, const char *text)
{
    conn_feed(&r->c, text, strlen(text), r->now);
}

/* Take up to n bytes of what is shown. */
static inline size_t take(struct rig *r, size_t n)
{
    struct conn_out out = conn_out(&r->c);
    size_t taken = 0, part;

    for (unsigned i = 0; i < out.count && taken < n; i++) {
        const struct segment *s = &out.seg[i];

        assert_true(s->bytes || i + 1 == out.count); /* a file range only last */
        part = s->len < n - taken ? (size_t)s->len : n - taken;
        text_add(&r->out, s->bytes ? s->bytes : fake_bytes() + s->off, part);
        taken += part;
    }
    conn_sent(&r->c, taken, r->now);
    return taken;
}

/* Let everything out. */
static inline void drain(struct rig *r)
{
    while (r->c.want == CONN_SEND)
        take(r, SIZE_MAX);
}

static inline void assert_out(const struct rig *r, const char *text)
{
    assert_int_equal(r->out.len, strlen(text));
    assert_memory_equal(r->out.bytes, text, r->out.len);
}

static inline bool overdue_at(struct rig *r, uint64_t ms)
{
    r->now = ms;
    return conn_overdue(&r->c, r->c.sent, ms);
}

#endif
