/* SPDX-License-Identifier: MIT */
/* h2_memory.c - every allocation of nghttp2, and of rung around it, is refused in turn.
 *
 * Nothing may crash or leak.  Each stream is answered, or ended with a reason that is the server's,
 * or the connection ends; no client waits for nothing.  The next connection works.
 *
 * The server's sessions allocate through server/heap.c; what opens one is refused by a wrap.
 * Functions of the waist are wrapped, too, so that what they allocate counts, and what the client
 * allocates does not.
 */
#include "h2_client.h"
#include "../refuse_host.h"

/* --- What is put in place --------------------------------------------------------------------- */

int __wrap_nghttp2_session_callbacks_new(nghttp2_session_callbacks **callbacks);
int __real_nghttp2_session_callbacks_new(nghttp2_session_callbacks **callbacks);
int __wrap_nghttp2_option_new(nghttp2_option **option);
int __real_nghttp2_option_new(nghttp2_option **option);

int __wrap_nghttp2_session_callbacks_new(nghttp2_session_callbacks **callbacks)
{
    return refuse_this() ? NGHTTP2_ERR_NOMEM : __real_nghttp2_session_callbacks_new(callbacks);
}

int __wrap_nghttp2_option_new(nghttp2_option **option)
{
    return refuse_this() ? NGHTTP2_ERR_NOMEM : __real_nghttp2_option_new(option);
}

void __real_conn_feed(struct conn *c, const char *bytes, size_t n, uint64_t now_ms);
void __wrap_conn_feed(struct conn *c, const char *bytes, size_t n, uint64_t now_ms);
void __real_conn_sent(struct conn *c, size_t n, uint64_t now_ms);
void __wrap_conn_sent(struct conn *c, size_t n, uint64_t now_ms);
void __real_conn_resume(struct conn *c, uint64_t now_ms);
void __wrap_conn_resume(struct conn *c, uint64_t now_ms);
void __real_conn_kick(struct conn *c, uint64_t now_ms);
void __wrap_conn_kick(struct conn *c, uint64_t now_ms);
bool __real_conn_leave(struct conn *c, uint64_t now_ms);
bool __wrap_conn_leave(struct conn *c, uint64_t now_ms);

/* The functions below may call each other: each restores the state that it found. */
static bool enter(void)
{
    bool on = refuse.on;

    refuse_on();
    return on;
}

void __wrap_conn_feed(struct conn *c, const char *bytes, size_t n, uint64_t now_ms)
{
    bool on = enter();

    __real_conn_feed(c, bytes, n, now_ms);
    refuse.on = on;
}

void __wrap_conn_sent(struct conn *c, size_t n, uint64_t now_ms)
{
    bool on = enter();

    __real_conn_sent(c, n, now_ms);
    refuse.on = on;
}

void __wrap_conn_resume(struct conn *c, uint64_t now_ms)
{
    bool on = enter();

    __real_conn_resume(c, now_ms);
    refuse.on = on;
}

void __wrap_conn_kick(struct conn *c, uint64_t now_ms)
{
    bool on = enter();

    __real_conn_kick(c, now_ms);
    refuse.on = on;
}

bool __wrap_conn_leave(struct conn *c, uint64_t now_ms)
{
    bool on = enter(), left = __real_conn_leave(c, now_ms);

    refuse.on = on;
    return left;
}

/* --- What a client does ----------------------------------------------------------------------- */

enum { LONG_BYTES = 6000, RESETS = 30 };

enum { ANY_LENGTH = -1 }; /* the server's own text */

/* A stream, and what it must get if nothing is refused; status 0: it was reset by the client. */
struct wanted {
    int32_t id;
    unsigned status;
    long len;
};

static struct wanted wanted[STREAMS_MAX];
static unsigned wanted_count;

static void want(int32_t id, unsigned status, long len)
{
    must(id > 0 && wanted_count < STREAMS_MAX);
    wanted[wanted_count++] = (struct wanted){id, status, len};
}

static void requests(void)
{
    want(ask("GET", "/p13", 0), 200, 13);
    want(ask("GET", "/p0", 0), 200, 0);
    want(ask("HEAD", "/p100", 0), 200, 0);
    want(ask("GET", "/none", 0), 404, ANY_LENGTH);
    run();
    want(ask("GET", "/p5000", 0), 200, 5000);
    run();
}

static void large_answers(void)
{
    for (unsigned i = 0; i < 5; i++)
        want(ask("GET", "/p200000", 0), 200, 200000);
    want(ask("GET", "/p1", 0), 200, 1);
    run();
}

/* Wants that reach the limits of HPACK's table, fields in several frames, and urgencies. */
static void long_fields(void)
{
#define NAMED(name, value) {(uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), \
                            strlen(name), strlen(value), 0}
    static char cookie[LONG_BYTES + 1];

    for (unsigned i = 0; i < 4; i++) {
        memset(cookie, 'a' + (int)i, i % 2 ? LONG_BYTES : 900);
        cookie[i % 2 ? LONG_BYTES : 900] = '\0';
        {
            const nghttp2_nv fields[] = {
                NAMED(":method", "GET"), NAMED(":scheme", "http"), NAMED(":path", "/p10"),
                NAMED(":authority", "a"), NAMED("priority", "u=1, i"), NAMED("cookie", cookie),
                NAMED("x-more", cookie)};
            nghttp2_priority_spec none;

            nghttp2_priority_spec_default_init(&none);
            want(nghttp2_submit_request(client.session, &none, fields, 7, NULL, NULL), 200, 10);
        }
        run();
    }
#undef NAMED
}

static ssize_t body_with_trailers(nghttp2_session *session, int32_t id, uint8_t *buf, size_t n,
                                  uint32_t *flags, nghttp2_data_source *source, void *user)
{
    static const nghttp2_nv trailer = {(uint8_t *)(uintptr_t)"x-sum", (uint8_t *)(uintptr_t)"1234",
                                       5, 4, 0};
    ssize_t done = more_body(session, id, buf, n, flags, source, user);

    if (done < 0 || *flags != NGHTTP2_DATA_FLAG_EOF)
        return done;
    *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    must(!nghttp2_submit_trailer(session, id, &trailer, 1));
    return done;
}

static void bodies_and_trailers(void)
{
    const nghttp2_nv fields[] = {FIELD(":method", "GET"), FIELD(":scheme", "http"),
                                 FIELD(":path", "/p10"), FIELD(":authority", "a"),
                                 FIELD("expect", "100-continue")};
    nghttp2_data_provider from = {.read_callback = body_with_trailers};

    for (unsigned i = 0; i < 3; i++) {
        int32_t id = nghttp2_submit_request(client.session, NULL, fields, 4 + i / 2, &from, NULL);

        of(id)->goes = 30000;
        want(id, 200, 10);
    }
    run();
    want(ask("POST", "/p1", 70000), 405, ANY_LENGTH);
    run();
}

static void rapid_resets(void)
{
    for (unsigned i = 0; i < RESETS; i++) {
        int32_t id = ask("GET", i % 2 ? "/p50000" : "/p10", 0);

        want(id, 0, 0);
        if (i % 3 == 0)
            run();
        must(!nghttp2_submit_rst_stream(client.session, 0, id, NGHTTP2_CANCEL));
        if (i % 5 == 0)
            run();
    }
    run();
    want(ask("GET", "/p10", 0), 200, 10);
    run();
}

static void jobs_done(void)
{
    run();
    while (w->h.fake->job) {
        h2_world_job_done(w);
        run();
    }
}

static void late_ones(void)
{
    int32_t late = ask("GET", "/w10", 0), other;

    want(late, 200, 10);
    run();
    want(ask("GET", "/p40000", 0), 200, 40000);
    jobs_done();
    other = ask("GET", "/w20", 0);
    want(other, 0, 0);
    run();
    must(!nghttp2_submit_rst_stream(client.session, 0, other, NGHTTP2_CANCEL));
    jobs_done();
}

static void other_frames(void)
{
    const nghttp2_settings_entry table = {NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 65536};
    int32_t id = ask("GET", "/p60000", 0);

    want(id, 200, 60000);
    must(!nghttp2_submit_ping(client.session, 0, NULL));
    must(!nghttp2_submit_settings(client.session, 0, &table, 1));
    must(!nghttp2_submit_priority_update(client.session, 0, id, (const uint8_t *)"u=0", 3));
    run();
    want(ask("GET", "/p2", 0), 200, 2);
    run();
}

/* The server stops: a notice, a request that was under way, and the end. */
static void the_end(void)
{
    want(ask("GET", "/p70000", 0), 200, 70000);
    run();
    w->h.loop.host.closing = true;
    want(ask("GET", "/p10", 0), 200, 10);
    run();
    w->h.loop.now_ms += 1000;
    if (w->h.c->want == CONN_RECV)
        conn_kick(w->h.c, w->h.loop.now_ms);
    run();
    if (w->h.c->want == CONN_RECV && conn_leave(w->h.c, w->h.loop.now_ms))
        run();
}

/* --- What must hold --------------------------------------------------------------------------- */

/* A reason that is the server's. */
static bool is_ours(uint32_t code)
{
    return code == NGHTTP2_INTERNAL_ERROR || code == NGHTTP2_REFUSED_STREAM ||
           code == NGHTTP2_NO_ERROR;
}

static void judge_stream(const struct wanted *want)
{
    const struct asked *a = of(want->id);

    if (!want->status)
        return;
    must(want->len < 0 || (!a->wrong && a->len <= (size_t)want->len));
    must(a->closed || w->h.c->want == CONN_CLOSE);
    must(!a->closed || is_ours(a->code));
    if (a->closed && a->code == NGHTTP2_NO_ERROR)
        must(a->status == want->status && (want->len < 0 || a->len == (size_t)want->len));
}

static void judge(bool whole)
{
    must(w->h.c->want == CONN_CLOSE || w->h.c->want == CONN_RECV);
    must(is_ours(client.code));
    for (unsigned i = 0; i < wanted_count; i++) {
        judge_stream(&wanted[i]);
        if (whole && wanted[i].status)
            assert_int_equal(of(wanted[i].id)->status, wanted[i].status);
        if (whole && wanted[i].status)
            assert_int_equal(of(wanted[i].id)->code, NGHTTP2_NO_ERROR);
    }
}

/* --- Turns ------------------------------------------------------------------------------------ */

static void connection(void (*script)(void), bool whole)
{
    begin(65535, true);
    refuse_host(&w->h);
    wanted_count = 0;
    script();
    if (w->h.c->want == CONN_LINGER)
        conn_feed(w->h.c, "", 0, w->h.loop.now_ms);
    judge(whole);
    end();
}

static void refused_in_turn(void (*script)(void), const char *name, bool after)
{
    unsigned n, count = 0;

    for (n = 0; n <= count + 1; n++) {
        refuse_begin(n, after);
        connection(script, n == 0);
        count = n ? count : refuse.count;
        refuse.at = 0;
        connection(requests, true);
        if (refuse.left)
            print_error("%s, allocation %u: %u blocks left\n", name, n, refuse.left);
        assert_int_equal(refuse.left, 0);
    }
    print_message("%s: %u allocations were refused%s\n", name, count,
                  after ? ", with all after it" : "");
    assert_true(count > 20);
}

#define EACH(X) X(requests) X(large_answers) X(long_fields) X(bodies_and_trailers) \
    X(rapid_resets) X(late_ones) X(other_frames) X(the_end)

#define X(script) \
static void script##_one(void **state) \
{ \
    (void)state; \
    refused_in_turn(script, #script, false); \
} \
static void script##_all_after(void **state) \
{ \
    (void)state; \
    refused_in_turn(script, #script, true); \
}
EACH(X)
#undef X

int main(void)
{
    const struct CMUnitTest tests[] = {
#define X(script) cmocka_unit_test(script##_one), cmocka_unit_test(script##_all_after),
        EACH(X)
#undef X
    };

    return cmocka_run_group_tests_name("h2_memory", tests, NULL, NULL);
}
