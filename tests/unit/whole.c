/* SPDX-License-Identifier: MIT */
/* whole.c - whole ready answers: which requests get them, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "../../core/conn_inside.h"
#include "world.h"

#define HOST " HTTP/1.1\r\nHost: h\r\n"
#define ABC "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

static struct fake *fake;
static struct drive drive;

/* Feed one connection these bytes; returns its output. */
static const char *answer(const char *request, size_t n)
{
    drive_open(&drive, fake);
    drive.out[0] = '\0';
    must(drive_feed(&drive, request, n) == n);
    return drive.out;
}

static void finish(void)
{
    drive_end(&drive);
    assert_int_equal(drive.conn.want, CONN_CLOSE);
    drive_close(&drive);
}

static bool writes(const struct source *s, char *out, size_t cap)
{
    struct whole whole = {.len = (uint32_t)cap};

    return http_whole_write(&whole, out, &fake->host, s);
}

/* A ready answer is sent as it is, to a plain GET within its second. */
static void test_whole(void **state)
{
    static const char *const others[] = {
        "HEAD /p26" HOST "\r\n", "GET /p26" HOST "Connection: close\r\n\r\n",
        "GET /p26 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        "GET /p26" HOST "Range: bytes=0-1\r\n\r\n", "GET /p26" HOST "If-None-Match: *\r\n\r\n"};
    const char get[] = "GET /p26" HOST "\r\n";
    const struct segment *seg;
    struct conn conn;
    unsigned released, i;

    (void)state;
    conn_init(&conn, &http_proto, &fake->host.conn, 0);
    conn_feed(&conn, get, sizeof(get) - 1, 0);
    released = fake->n.releases;
    seg = conn_out(&conn).seg;
    assert_int_equal(conn_out(&conn).count, 1);
    assert_ptr_equal(seg->bytes, world.ready_bytes);
    assert_int_equal(seg->len, world.ready_whole.len);
    assert_int_equal(world.body_bytes, 26);
    conn_sent(&conn, 3, 0);
    assert_int_equal(fake->n.releases, released);
    conn_sent(&conn, world.ready_whole.len - 3, 0);
    assert_int_equal(fake->n.releases, released + 1);
    assert_int_equal(fake->body_bytes, 26);
    for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        conn_feed(&conn, others[i], strlen(others[i]), 0);
        assert_ptr_not_equal(conn_out(&conn).seg->bytes, world.ready_bytes);
        while (conn.want == CONN_SEND)
            conn_sent(&conn, (size_t)conn_out(&conn).seg->len, 0);
        if (conn.want == CONN_RECV)
            continue;
        conn_fini(&conn);
        conn_init(&conn, &http_proto, &fake->host.conn, 0);
    }
    conn_fini(&conn);
}

/* When there are several at once, the first is sent as it is and the others follow one another as
 * one piece; each is counted by itself. */
static void test_several_at_once(void **state)
{
    const char get[] = "GET /p26" HOST "\r\nGET /p26" HOST "\r\nGET /p26" HOST "\r\n";
    const struct segment *seg;
    struct conn conn;
    uint32_t len;

    (void)state;
    conn_init(&conn, &http_proto, &fake->host.conn, 0);
    conn_feed(&conn, get, sizeof(get) - 1, 0);
    assert_int_equal(fake->n.sources, fake->n.releases + 1); /* the others are copied */
    seg = conn_out(&conn).seg;
    len = world.ready_whole.len;
    assert_int_equal(conn_out(&conn).count, 3);
    assert_ptr_equal(seg[0].bytes, world.ready_bytes);
    assert_ptr_not_equal(seg[1].bytes, world.ready_bytes);
    assert_ptr_equal(seg[2].bytes, seg[1].bytes + len);
    assert_memory_equal(seg[1].bytes, world.ready_bytes, len);
    assert_memory_equal(seg[2].bytes, world.ready_bytes, len);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(fake->n.complete, i);
        conn_sent(&conn, len - 1, 0);
        conn_sent(&conn, 1, 0);
        assert_int_equal(fake->body_bytes, 26 * (i + 1));
    }
    assert_int_equal(fake->n.sources, fake->n.releases);
    assert_int_equal(conn.want, CONN_RECV);
    conn_fini(&conn);
}

/* Whether the second of two answers of that many bytes, head included, is copied. */
static bool is_joined(unsigned bytes)
{
    char get[sizeof("GET /p4294967295" HOST "\r\n")];
    struct conn conn;
    bool joined;

    conn_init(&conn, &http_proto, &fake->host.conn, 0);
    for (unsigned body = bytes - 400; body < bytes; body++) {
        snprintf(get, sizeof(get), "GET /p%u" HOST "\r\n", body);
        conn_feed(&conn, get, strlen(get), 0);
        if (conn_out(&conn).seg->len == bytes)
            break;
        conn_sent(&conn, (size_t)conn_out(&conn).seg->len, 0);
    }
    assert_int_equal(conn.want, CONN_SEND);
    conn_fini(&conn);
    conn_init(&conn, &http_proto, &fake->host.conn, 0);
    for (unsigned i = 0; i < 2; i++)
        http_proto.input(&conn, get, strlen(get));
    assert_int_equal(conn.out->seg[1].len, bytes);
    joined = !conn.out->seg[1].source;
    assert_int_equal(joined, conn.out->seg[1].bytes != world.ready_bytes);
    conn_fini(&conn);
    return joined;
}

/* Longer answers stay where they are, and so do bytes that a file can supply. */
static void test_what_is_joined(void **state)
{
    (void)state;
    assert_true(is_joined(JOINED_BYTES_MAX));
    assert_false(is_joined(JOINED_BYTES_MAX + 1));
    world.whole_file = true;
    assert_false(is_joined(JOINED_BYTES_MAX));
    fake->n.complete = fake->n.answers; /* some were cut off */
}

/* In another second the answer is composed again; room for one byte less is too little. */
static void test_whole_of_another_second(void **state)
{
    char room[sizeof(world.ready_bytes)], composed[1024];
    const char *first;
    struct source *s;

    (void)state;
    world.whole = false;
    first = answer("GET /p26" HOST "\r\n", strlen("GET /p26" HOST "\r\n"));
    snprintf(composed, sizeof(composed), "%s", first);
    finish();
    world.whole = true;
    first = answer("GET /p26" HOST "\r\n", strlen("GET /p26" HOST "\r\n"));
    assert_string_equal(first, composed);
    finish();
    first = composed;
    s = fake_source(fake, 'p', 26);
    assert_false(writes(s, room, sizeof(room))); /* no fields */
    assert_int_equal(http_whole_bytes(&fake->host, s), 0);
    world_make_ready(fake, s);
    assert_int_equal(s->whole->len, strlen(first));
    assert_int_equal(http_whole_bytes(&fake->host, s), strlen(first));
    assert_false(writes(s, room, s->whole->len - 1));
    assert_true(writes(s, room, s->whole->len));
    assert_memory_equal(room, first, s->whole->len);
    fake_release(fake, s);
    world.second = 1;
    answer("GET /p26" HOST "\r\n", strlen("GET /p26" HOST "\r\n"));
    assert_ptr_not_equal(strstr(drive.out, "\r\n\r\n" ABC), NULL);
    assert_ptr_equal(strstr(drive.out, "marked"), NULL);
    finish();
}

static int setup(void **state)
{
    (void)state;
    fake = world_open();
    world.ready = world.whole = true;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(fake->n.complete, fake->n.answers);
    fake_close(fake);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_whole),
        TEST(test_several_at_once),
        TEST(test_what_is_joined),
        TEST(test_whole_of_another_second),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
