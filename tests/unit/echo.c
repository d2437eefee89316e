/* SPDX-License-Identifier: MIT */
/* echo.c - the echo protocol: bytes are returned as they came, in order, and nothing is kept. */
#include "../rig.h"

/* shows D24 */
static void what_comes_goes_back(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, &echo_proto);
    feed(&r, "no line end needed");
    assert_null(r.c.in);
    drain(&r);
    assert_out(&r, "no line end needed");
    assert_true(conn_idle(&r.c));
    assert_int_equal(r.fake->n.answers, 0);
    assert_string_equal(echo_proto.name, "echo");
    rig_close(&r);
}

/* shows D01, E07 */
static void every_size_of_a_receive(void **state)
{
    static const size_t sizes[] = {1, 2, 4095, 4096, RECV_BYTES_MAX - 1, RECV_BYTES_MAX};
    struct rig r;
    size_t total = 0;

    (void)state;
    rig_open(&r, &echo_proto);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        conn_feed(&r.c, fake_bytes() + total, sizes[i], r.now);
        assert_int_equal(r.c.want, CONN_SEND);
        while (r.c.want == CONN_SEND)
            take(&r, 1 + sizes[i] / 3);
        total += sizes[i];
    }
    assert_int_equal(r.out.len, total);
    assert_memory_equal(r.out.bytes, fake_bytes(), total);
    assert_int_equal(r.fake->n.allocs, sizeof(sizes) / sizeof(*sizes)); /* send queues alone */
    rig_close(&r);
}

static void no_memory_no_echo(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, &echo_proto);
    r.fake->fail_alloc = 2;
    feed(&r, "one");
    drain(&r);
    feed(&r, "two");
    assert_int_equal(r.c.want, CONN_LINGER); /* "one" may not have been read yet */
    assert_out(&r, "one");
    rig_close(&r);
}

static void the_peer_ends(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, &echo_proto);
    feed(&r, "last words");
    drain(&r);
    conn_feed(&r.c, NULL, 0, r.now);
    assert_int_equal(r.c.want, CONN_CLOSE);
    assert_out(&r, "last words");
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_goes_back),
        cmocka_unit_test(every_size_of_a_receive),
        cmocka_unit_test(no_memory_no_echo),
        cmocka_unit_test(the_peer_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
