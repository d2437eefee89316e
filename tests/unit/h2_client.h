/* SPDX-License-Identifier: MIT */
/* h2_client.h - the library's own client, and a connection that it talks to (h2_world.h). */
#ifndef TESTS_UNIT_H2_CLIENT_H
#define TESTS_UNIT_H2_CLIENT_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <nghttp2/nghttp2.h>
#include "../h2_world.h"

enum { STREAMS_MAX = 128, START = HOSTED_START };

/* What the client knows of a stream, by its number: 1, 3, 5. */
struct asked {
    unsigned status, closed;
    uint32_t code;
    size_t len;     /* of the body */
    bool wrong;     /* a byte of it is not fake_byte() */
    bool announced; /* X-Made, as a trailer */
    char trailer[24]; /* its value */
    int32_t goes;   /* bytes of a request's body that are still to be sent; -1: they stay away */
};

static struct client {
    nghttp2_session *session;
    struct asked asked[STREAMS_MAX];
    unsigned goaways;
    int32_t last;  /* of the last GOAWAY */
    uint32_t code;
    bool made;     /* bodies are not fake_byte()'s */
    bool te;       /* trailers are accepted */
} client;

static struct h2_world *w;
static size_t cut; /* bytes of a receive; 0: all */

/* --- The client ------------------------------------------------------------------------------- */

static inline struct asked *of(int32_t id)
{
    must(id > 0 && id / 2 < STREAMS_MAX);
    return &client.asked[id / 2];
}

static inline int on_field(nghttp2_session *session, const nghttp2_frame *frame,
                           const uint8_t *name, size_t name_len, const uint8_t *value,
                           size_t value_len, uint8_t flags, void *user)
{
    (void)session;
    (void)flags;
    (void)user;
    if (name_len == 7 && memcmp(name, ":status", 7) == 0 && value_len == 3)
        of(frame->hd.stream_id)->status = (unsigned)(value[0] * 100 + value[1] * 10 + value[2] -
                                                     111 * '0');
    if (name_len == 7 && memcmp(name, "trailer", 7) == 0)
        of(frame->hd.stream_id)->announced = true;
    if (name_len == 6 && memcmp(name, "x-made", 6) == 0) {
        must(frame->headers.cat == NGHTTP2_HCAT_HEADERS && value_len < 24);
        must(frame->hd.flags & NGHTTP2_FLAG_END_STREAM);
        memcpy(of(frame->hd.stream_id)->trailer, value, value_len);
    }
    return 0;
}

static inline int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                          size_t n, void *user)
{
    struct asked *a = of(id);

    (void)session;
    (void)flags;
    (void)user;
    for (size_t i = 0; i < n; i++)
        a->wrong = a->wrong || (char)bytes[i] != fake_byte(a->len + i);
    a->len += n;
    return 0;
}

static inline int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    (void)session;
    (void)user;
    of(id)->closed++;
    of(id)->code = code;
    return 0;
}

static inline int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    (void)session;
    (void)user;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        client.goaways++;
        client.last = frame->goaway.last_stream_id;
        client.code = frame->goaway.error_code;
    }
    return 0;
}

static inline void hears(struct h2_world *world, const char *bytes, size_t n)
{
    (void)world;
    must(nghttp2_session_mem_recv(client.session, (const uint8_t *)bytes, n) == (ssize_t)n);
}

static inline void client_open(uint32_t window, bool reads)
{
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window}};
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;

    client = (struct client){0};
    must(!nghttp2_session_callbacks_new(&callbacks) && !nghttp2_option_new(&option));
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_field);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_option_set_no_auto_window_update(option, !reads);
    must(!nghttp2_session_client_new2(&client.session, callbacks, NULL, option));
    must(!nghttp2_submit_settings(client.session, 0, settings, 1));
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
}

static inline ssize_t more_body(nghttp2_session *session, int32_t id, uint8_t *buf, size_t n,
                                uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct asked *a = of(id);

    (void)session;
    (void)source;
    (void)user;
    if (a->goes < 0)
        return NGHTTP2_ERR_DEFERRED;
    n = n < (size_t)a->goes ? n : (size_t)a->goes;
    memset(buf, 'b', n);
    a->goes -= (int32_t)n;
    if (!a->goes)
        *flags = NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

/* body: bytes of one, -1: none comes, 0: the request has none. */
static inline int32_t ask(const char *method, const char *path, int32_t body)
{
#define FIELD(name, value) {(uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), \
                            strlen(name), strlen(value), 0}
    const nghttp2_nv fields[] = {FIELD(":method", method), FIELD(":scheme", "http"),
                                 FIELD(":path", path), FIELD(":authority", "a"),
                                 FIELD("te", "trailers")};
    nghttp2_data_provider from = {.read_callback = more_body};
    int32_t id = nghttp2_submit_request(client.session, NULL, fields, client.te ? 5 : 4,
                                        body ? &from : NULL, NULL);

    of(id)->goes = body;
    return id;
}

/* Lets both sides do what they can without time, and without the host's jobs. */
static inline void run(void)
{
    const uint8_t *bytes;
    ssize_t n;

    for (;;) {
        n = h2_world_listens(w) ? nghttp2_session_mem_send(client.session, &bytes) : 0;
        must(n >= 0);
        for (size_t at = 0, part; at < (size_t)n && h2_world_listens(w); at += part) {
            part = cut && cut < (size_t)n - at ? cut : (size_t)n - at;
            part = part < RECV_BYTES_MAX ? part : RECV_BYTES_MAX;
            conn_feed(w->h.c, (const char *)bytes + at, part, w->h.loop.now_ms);
            while (w->h.c->want == CONN_SEND && !conn_glances(w->h.c))
                h2_world_take(w);
        }
        if (w->h.c->want == CONN_SEND)
            h2_world_take(w);
        else if (!n)
            return;
    }
}

static inline void begin(uint32_t window, bool reads)
{
    w = h2_world_open();
    w->hears = hears;
    client_open(window, reads);
    cut = 0;
}

static inline void end(void)
{
    nghttp2_session_del(client.session);
    h2_world_close(w);
}

static inline void assert_got(int32_t id, unsigned status, size_t len)
{
    struct asked *a = of(id);

    assert_int_equal(a->status, status);
    assert_int_equal(a->closed, 1);
    assert_int_equal(a->code, NGHTTP2_NO_ERROR);
    assert_int_equal(a->len, len);
    assert_true(client.made || !a->wrong);
}

#endif
