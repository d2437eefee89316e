/* SPDX-License-Identifier: MIT */
/* drive.h - a whole HTTP connection without a socket: request bytes in, answer bytes out.
 *
 * Input is fed in cuts, output taken in sips; the output must not depend on either.  A range
 * of a file that is too long to show is a line "[LEN bytes from OFF]" in the output.
 */
#ifndef TESTS_DRIVE_H
#define TESTS_DRIVE_H
#include "../fake.h"

enum { DRIVE_OUT_MAX = 1 << 19, DRIVE_SHOWN_MAX = 1 << 16 };

struct drive {
    struct fake *fake;
    struct conn conn;
    char *out;
    size_t len;
    size_t cut, sip;    /* bytes per feed, bytes per send; 0: as much as there is */
    unsigned sends;     /* gathers taken */
    uint64_t now_ms;
};

static inline void drive_open(struct drive *d, struct fake *fake)
{
    *d = (struct drive){.fake = fake, .now_ms = 1000};
    d->out = malloc(DRIVE_OUT_MAX);
    must(d->out);
    conn_init(&d->conn, &http_proto, &fake->host.conn, d->now_ms);
}

static inline void drive_close(struct drive *d)
{
    conn_fini(&d->conn);
    free(d->out);
}

static inline void drive_show(struct drive *d, const void *bytes, size_t n)
{
    must(d->len + n < DRIVE_OUT_MAX);
    if (n)
        memcpy(d->out + d->len, bytes, n);
    d->len += n;
    d->out[d->len] = '\0';
}

/* Take the first n bytes of a segment. */
static inline void drive_take(struct drive *d, const struct segment *s, size_t n)
{
    char line[64];

    if (s->bytes) {
        drive_show(d, s->bytes, n);
    } else if (n > DRIVE_SHOWN_MAX) {
        drive_show(d, line, (size_t)snprintf(line, sizeof(line), "[%llu bytes from %llu]",
                                             (unsigned long long)n, (unsigned long long)s->off));
    } else {
        for (size_t i = 0; i < n; i++) {
            char c = fake_byte(s->off + i);

            drive_show(d, &c, 1);
        }
    }
}

static inline void drive_send(struct drive *d)
{
    struct conn_out o = conn_out(&d->conn);
    size_t room = d->sip ? d->sip : SIZE_MAX, taken = 0;

    must(o.count > 0 && o.count <= OUT_SEGMENTS_MAX);
    for (unsigned i = 0; i < o.count && room; i++) {
        size_t n = o.seg[i].len < room ? (size_t)o.seg[i].len : room;

        drive_take(d, &o.seg[i], n);
        taken += n;
        room -= n;
    }
    d->sends++;
    conn_sent(&d->conn, taken, d->now_ms);
}

/* Run until the connection wants input or is done. */
static inline void drive_run(struct drive *d)
{
    while (d->conn.want == CONN_SEND || d->conn.want == CONN_WAIT) {
        d->now_ms++;
        if (d->conn.want == CONN_SEND) {
            drive_send(d);
        } else {
            must(d->fake->job == &d->conn);
            d->fake->job_done = true;
            conn_resume(&d->conn, d->now_ms);
        }
    }
}

/* Feed bytes; returns how many were taken before the connection wanted no more. */
static inline size_t drive_feed(struct drive *d, const char *bytes, size_t n)
{
    size_t at = 0, part;

    while (at < n && d->conn.want == CONN_RECV) {
        part = d->cut && d->cut < n - at ? d->cut : n - at;
        if (part > RECV_BYTES_MAX)
            part = RECV_BYTES_MAX;
        d->now_ms++;
        conn_feed(&d->conn, bytes + at, part, d->now_ms);
        at += part;
        drive_run(d);
    }
    return at;
}

static inline void drive_text(struct drive *d, const char *text)
{
    drive_feed(d, text, strlen(text));
}

/* Feed the end of the stream. */
static inline void drive_end(struct drive *d)
{
    if (d->conn.want == CONN_RECV || d->conn.want == CONN_LINGER)
        conn_feed(&d->conn, "", 0, d->now_ms);
    drive_run(d);
}

/* What plain HTTP answers to a talk and its end, of len bytes; for the caller to free. */
static inline char *drive_talk(const char *talk, size_t *len)
{
    struct fake *fake = fake_open();
    struct drive d;
    char *text;

    drive_open(&d, fake);
    drive_text(&d, talk);
    drive_end(&d);
    *len = d.len;
    text = d.out;
    conn_fini(&d.conn);
    fake_close(fake);
    return text;
}

#endif
