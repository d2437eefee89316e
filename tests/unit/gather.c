/* SPDX-License-Identifier: MIT */
/* gather.c - the part of a send queue that leaves in one call (base/send.h): pieces of memory, and
 * a file behind them.
 */
#include "pair.h"
#include "../../base/send.h"

enum { WAYS = SEND_SPLICE + 1 };

/* Answers of one send queue follow each other without a gap; bytes elsewhere are a piece of their
 * own. */
static void neighbours_are_one_piece(void **state)
{
    static const char outq[] = "abcdefgh";
    struct segment seg[5] = {{.bytes = outq, .len = 2},
                             {.bytes = outq + 2, .len = 3},
                             {.bytes = outq + 6, .len = 1},
                             {.bytes = outq + 7, .len = 1},
                             {.len = 9}};
    struct conn_out out = {.seg = seg, .count = 5};
    struct gather g;

    (void)state;
    gather_memory(&g, &out, 5);
    assert_int_equal(g.pieces, 2);
    assert_int_equal(g.segments, 4);
    assert_int_equal(g.iov[0].iov_len, 5);
    assert_int_equal(g.iov[1].iov_len, 2);
    assert_true(gather_reaches_file(&g, &out));
    gather_memory(&g, &out, 1); /* not more than requested */
    assert_int_equal(g.segments, 1);
    assert_int_equal(g.iov[0].iov_len, 2);
    assert_false(gather_reaches_file(&g, &out));
    seg[1].len = TRANSFER_BYTES_MAX;
    gather_memory(&g, &out, 5);
    assert_int_equal(g.segments, 2);
    assert_int_equal(g.iov[0].iov_len, TRANSFER_BYTES_MAX);
    assert_false(gather_reaches_file(&g, &out));
}

/* More pieces than a call takes, and a small file behind them. */
static void many_pieces_take_turns(void **state)
{
    static const char *const apart = "a b c d e f g h i j k l m n o p ";
    enum { PIECES = OUT_SEGMENTS_MAX / 2 };
    struct segment seg[PIECES + 1] = {{0}};
    struct pair p = tcp_pair(true);
    int file = file_of(100);

    (void)state;
    for (unsigned i = 0; i < PIECES; i++)
        seg[i] = (struct segment){.bytes = apart + 2 * i, .len = 1};
    seg[PIECES].len = 100;
    for (unsigned way = 0; way < WAYS; way++) {
        unsigned first = 0;
        struct sender *s;
        long rest = 100;

        assert_int_equal(sender_open(&s, &(struct send_how){.way = way}), 0);
        while (first < PIECES || rest > 0) {
            struct conn_out out = {.seg = seg + first, .count = PIECES + 1 - first};
            long n = sender_send(s, p.server, &out, (struct send_file){.fd = file});
            unsigned part = n < PIECES - first ? (unsigned)n : PIECES - first;

            assert_true(n > 0 && part < GATHER_PIECES_MAX);
            first += part;
            rest -= n - part;
        }
        assert_int_equal(rest, 0);
        expect_bytes(p.client, "abcdefghijklmnop", PIECES);
        expect_file(p.client, 0, 100);
        sender_close(s);
    }
    close(file);
    pair_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_are_one_piece),
        cmocka_unit_test(many_pieces_take_turns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
