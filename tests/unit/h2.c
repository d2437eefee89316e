/* SPDX-License-Identifier: MIT */
/* h2.c - answers by HTTP/2 on a connection without a socket: any cuts, a host that is late or has
 * no memory. */
#include "h2_client.h"

/* --- Answers ---------------------------------------------------------------------------------- */

static void ask_some(void)
{
    unsigned before = w->h.fake->n.complete;
    int32_t id[6];

    id[0] = ask("GET", "/p13", 0);
    id[1] = ask("GET", "/p0", 0);
    id[2] = ask("HEAD", "/p100", 0);
    id[3] = ask("GET", "/p200000", 0);
    id[4] = ask("POST", "/p1", 70000);
    id[5] = ask("GET", "/p5000", 1);
    run();
    assert_got(id[0], 200, 13);
    assert_got(id[1], 200, 0);
    assert_got(id[2], 200, 0);
    assert_got(id[3], 200, 200000);
    assert_int_equal(of(id[4])->status, 405);
    assert_got(id[5], 200, 5000);
    assert_int_equal(w->h.fake->n.complete - before, 6);
    assert_int_equal(w->h.c->want, CONN_RECV);
    assert_true(conn_idle(w->h.c));
    assert_null(w->h.c->out);
    assert_null(w->h.c->in);
}

static void cut_and_sipped(void **state)
{
    static const size_t sizes[] = {0, 1, 2, 3, 7, 9, 10, 100, 1000, 16393};

    (void)state;
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        for (unsigned k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
            begin(65535, true);
            cut = sizes[i];
            w->sip = sizes[k];
            ask_some();
            ask_some();
            end();
        }
    }
}

static void made_bodies(void **state)
{
    int32_t id, other;

    (void)state;
    begin(65535, true);
    client.made = true;
    id = ask("GET", "/m3", 0);
    other = ask("GET", "/m0", 0);
    run();
    assert_got(id, 200, strlen("piece 3\npiece 2\npiece 1\n"));
    assert_got(other, 200, 0);
    end();
}

static void ask_made(bool te)
{
    int32_t id[4];

    client.made = true;
    client.te = te;
    id[0] = ask("GET", "/m3/", 0);
    id[1] = ask("GET", "/m0/", 0);
    id[2] = ask("HEAD", "/m9/", 0);
    id[3] = ask("GET", "/m64/", te ? 3000 : 0);
    run();
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(of(id[i])->announced, te);
    assert_got(id[0], 200, strlen("piece 3\n") * 3);
    assert_string_equal(of(id[0])->trailer, te ? "3 pieces" : "");
    assert_got(id[1], 200, 0);
    assert_string_equal(of(id[1])->trailer, te ? "0 pieces" : "");
    assert_got(id[2], 200, 0);
    assert_string_equal(of(id[2])->trailer, "");
    assert_got(id[3], 200, 9 * strlen("piece 3\n") + 55 * strlen("piece 33\n"));
    assert_string_equal(of(id[3])->trailer, te ? "64 pieces" : "");
}

/* The trailer of a made body, whatever the cuts and windows are: a frame of a few bytes ends in
 * each place of the last chunk. */
static void trailers(void **state)
{
    static const uint32_t windows[] = {1, 2, 3, 7, 8, 9, 23, 24, 25, 100, 65535};
    static const size_t sizes[] = {0, 1, 9, 100};

    (void)state;
    for (unsigned i = 0; i < sizeof(windows) / sizeof(*windows); i++) {
        for (unsigned k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
            begin(windows[i], true);
            cut = w->sip = sizes[k];
            ask_made(true);
            ask_made(false);
            assert_true(conn_idle(w->h.c));
            end();
        }
    }
}

/* More than are worked on at a time, and each larger than its window. */
static void a_hundred_at_a_time(void **state)
{
    int32_t id[100];

    (void)state;
    begin(1000, true);
    w->sip = 5000;
    for (unsigned i = 0; i < 100; i++)
        id[i] = ask("GET", "/p10000", 0);
    run();
    for (unsigned i = 0; i < 100; i++)
        assert_got(id[i], 200, 10000);
    end();
}

static void windows_that_stay_shut_hold_bounded_memory(void **state)
{
    unsigned held;

    (void)state;
    begin(0, true);
    for (unsigned i = 0; i < 100; i++)
        ask("GET", "/p10000", 0);
    run();
    held = w->h.fake->n.allocs - w->h.fake->n.frees;
    assert_int_equal(held, 32); /* send queues of streams at work; the connection's is freed */
    assert_int_equal(w->h.c->want, CONN_RECV);
    end();
}

/* --- A host that is late ---------------------------------------------------------------------- */

static void others_go_on(void **state)
{
    int32_t late, other;

    (void)state;
    begin(65535, true);
    late = ask("GET", "/w10", 0);
    run();
    assert_non_null(w->h.fake->job);
    assert_int_equal(w->h.c->want, CONN_RECV);
    other = ask("GET", "/p5000", 0);
    run();
    assert_got(other, 200, 5000);
    assert_int_equal(of(late)->closed, 0);
    /* The delay is the host's. */
    assert_false(conn_overdue(w->h.c, w->h.c->sent, w->h.loop.now_ms + 1000000));
    h2_world_job_done(w);
    run();
    if (w->h.fake->job) /* asked for twice, as fake.h has it */
        h2_world_job_done(w);
    run();
    assert_got(late, 200, 10);
    end();
}

static void woken_while_sending(void **state)
{
    int32_t large, late;

    (void)state;
    begin(1 << 20, true);
    late = ask("GET", "/w10", 0);
    large = ask("GET", "/p65000", 0);
    w->sip = 100;
    nghttp2_session_set_local_window_size(client.session, 0, 0, 1 << 20);
    for (unsigned i = 0; i < 20; i++) {
        const uint8_t *bytes;
        ssize_t n = nghttp2_session_mem_send(client.session, &bytes);

        if (n > 0)
            conn_feed(w->h.c, (const char *)bytes, (size_t)n, w->h.loop.now_ms);
        if (w->h.c->want == CONN_SEND)
            h2_world_take(w);
    }
    assert_int_equal(w->h.c->want, CONN_SEND);
    assert_non_null(w->h.fake->job);
    h2_world_job_done(w);
    assert_int_equal(w->h.c->want, CONN_SEND);
    run();
    if (w->h.fake->job) /* asked for twice, as fake.h has it */
        h2_world_job_done(w);
    run();
    assert_got(large, 200, 65000);
    assert_got(late, 200, 10);
    end();
}

static void reset_while_it_waits(void **state)
{
    int32_t late;

    (void)state;
    begin(65535, true);
    late = ask("GET", "/w10", 0);
    run();
    must(!nghttp2_submit_rst_stream(client.session, 0, late, NGHTTP2_CANCEL));
    run();
    assert_null(w->h.fake->job);
    assert_int_equal(w->h.fake->n.forgets, 1);
    assert_true(conn_idle(w->h.c));
    end();
}

/* --- Bodies that the host keeps --------------------------------------------------------------- */

static unsigned dropped;

static int begin_body(void *ctx, const struct http_ask *ask, void **into)
{
    (void)ctx;
    (void)ask;
    *into = &dropped;
    return 0;
}

/* A host whose disk is busy for ever. */
static long put_body(void *ctx, const struct conn *c, void *into, struct slice bytes)
{
    struct fake *fake = hosted_of(ctx)->fake;

    must(into == &dropped && bytes.len && (!fake->job || fake->job == c));
    fake->n.jobs += !fake->job;
    fake->job = c;
    return -EINPROGRESS;
}

static void drop_body(void *ctx, const struct conn *c, void *into)
{
    (void)ctx;
    (void)c;
    must(into == &dropped);
    dropped++;
}

/* A client sends as many bytes as its window allows, and this many more.  The first is taken by the
 * connection, and all others wait. */
static void send_beyond_window(int32_t id, size_t more)
{
    enum { PIECE = 1000 };
    char frame[9 + PIECE] = {0};
    size_t left = NGHTTP2_INITIAL_WINDOW_SIZE + more;
    bool sent = false;

    for (size_t n; left && h2_world_listens(w); left -= n, sent = true) {
        n = left < PIECE ? left : PIECE;
        n = sent ? n : 1;
        frame[1] = (char)(n >> 8);
        frame[2] = (char)n;
        frame[8] = (char)id;
        conn_feed(w->h.c, frame, 9 + n, w->h.loop.now_ms);
    }
    must(!left);
}

/* The library hands over what is beyond the window, too. */
static void bodies_up_to_their_window(void **state)
{
    static const struct http_store store = {.begin = begin_body, .put = put_body,
                                            .drop = drop_body};
    static const size_t more[] = {0, 1, 1000, 65535};
    int32_t id, other;

    (void)state;
    for (unsigned i = 0; i < sizeof(more) / sizeof(*more); i++) {
        begin(65535, true);
        w->h.loop.host.store = &store;
        dropped = 0;
        id = ask("PUT", "/new", -1);
        run();
        send_beyond_window(id, more[i]);
        other = ask("GET", "/p13", 0);
        run();
        assert_got(other, 200, 13);
        assert_int_equal(dropped, more[i] ? 1 : 0);
        assert_int_equal(of(id)->closed, more[i] ? 1 : 0);
        assert_int_equal(of(id)->code, more[i] ? NGHTTP2_FLOW_CONTROL_ERROR : 0);
        end();
        assert_int_equal(dropped, 1);
    }
}

/* --- No memory -------------------------------------------------------------------------------- */

static void no_memory(void **state)
{
    unsigned n = 1;
    bool refused;

    (void)state;
    do {
        begin(65535, true);
        w->h.fake->fail_alloc = n++;
        ask("GET", "/p13", 0);
        ask("GET", "/p100000", 0);
        ask("GET", "/w10", 0);
        run();
        if (w->h.fake->job)
            h2_world_job_done(w);
        run();
        refused = w->h.fake->n.allocs >= w->h.fake->fail_alloc;
        end();
    } while (refused);
    assert_true(n > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_and_sipped),
        cmocka_unit_test(made_bodies),
        cmocka_unit_test(trailers),
        cmocka_unit_test(a_hundred_at_a_time),
        cmocka_unit_test(windows_that_stay_shut_hold_bounded_memory),
        cmocka_unit_test(others_go_on),
        cmocka_unit_test(woken_while_sending),
        cmocka_unit_test(reset_while_it_waits),
        cmocka_unit_test(bodies_up_to_their_window),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
