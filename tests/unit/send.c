/* SPDX-License-Identifier: MIT */
/* send.c - base/send.c over real sockets: each way to send a file sends its bytes, all of them and
 * no others, however much the socket takes at once and whatever happens to the file.
 */
#include "pair.h"
#include <signal.h>
#include <sys/resource.h>
#include "../../base/send.h"

#define BY_FD(file) ((struct send_file){.fd = (file)})
#define OUT(segments, n) (&(struct conn_out){.seg = (segments), .count = (n)})

enum {
    SMALL = 4096,   /* SMALL_FILE_BYTES_MAX of send.c */
    COPIED = 65536, /* COPY_BYTES */
    WAYS = SEND_SPLICE + 1
};

static struct sender *sender_of(enum send_method way, bool apart)
{
    struct sender *s;

    assert_int_equal(sender_open(&s, &(struct send_how){.way = way, .apart = apart}), 0);
    return s;
}

static long send_one(struct sender *s, int fd, const struct segment *seg, int file)
{
    return sender_send(s, fd, OUT(seg, 1), BY_FD(file));
}

/* Send head and range until everything is out, as a connection would; returns the calls made. */
static unsigned send_all(struct sender *s, int fd, struct segment seg[2], int file)
{
    unsigned first = 0, calls = 0;

    while (first < 2) {
        long n = sender_send(s, fd, OUT(seg + first, 2 - first), BY_FD(file));

        calls++;
        assert_true(n > 0);
        while (n > 0) {
            long part = (long)seg[first].len < n ? (long)seg[first].len : n;

            if (seg[first].bytes)
                seg[first].bytes += part;
            seg[first].off += (uint64_t)part;
            seg[first].len -= (uint64_t)part;
            n -= part;
            first += seg[first].len == 0;
        }
        first += first < 2 && seg[first].len == 0; /* an empty range needs no call */
    }
    return calls;
}

/* --- What one call sends ---------------------------------------------------------------------- */

static void memory_leaves_in_one_gather(void **state)
{
    struct segment seg[3] = {
        {.bytes = "ab", .len = 2}, {.bytes = "", .len = 0}, {.bytes = "cde", .len = 3}};
    struct pair p = tcp_pair(false);

    (void)state;
    for (unsigned way = 0; way < WAYS; way++) {
        struct sender *s = sender_of(way, false);

        assert_int_equal(sender_send(s, p.server, OUT(seg, 3), BY_FD(-1)), 5);
        expect_bytes(p.client, "abcde", 5);
        sender_close(s);
        s = sender_of(way, true); /* separate sends: only the first one */
        assert_int_equal(sender_send(s, p.server, OUT(seg, 3), BY_FD(-1)), 2);
        expect_bytes(p.client, "ab", 2);
        sender_close(s);
    }
    pair_close(p);
}

/* How many bytes of a range of `size` behind a head are sent with the head. */
static size_t joined(enum send_method way, size_t size)
{
    switch (way) {
    case SEND_AUTO:
        return size <= SMALL ? size : 0;
    case SEND_COPY:
        return size < COPIED ? size : COPIED;
    case SEND_MMAP:
        return size < TRANSFER_BYTES_MAX - 2 ? size : TRANSFER_BYTES_MAX - 2;
    default:
        return 0;
    }
}

static void what_goes_with_the_head(void **state)
{
    static const size_t sizes[] = {0, 1, SMALL - 1, SMALL, SMALL + 1, COPIED, COPIED + 1};

    (void)state;
    for (unsigned way = 0; way < WAYS; way++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct segment seg[2] = {{.bytes = "HH", .len = 2}, {.off = 0, .len = sizes[i]}};
            struct segment rest = {.off = joined(way, sizes[i])};
            struct pair p = tcp_pair(true);
            int file = file_of(sizes[i]);
            struct sender *s = sender_of(way, false);

            rest.len = sizes[i] - rest.off;
            assert_int_equal(sender_send(s, p.server, OUT(seg, 2), BY_FD(file)),
                             2 + rest.off);
            if (rest.len)
                assert_int_equal(send_one(s, p.server, &rest, file), rest.len);
            expect_bytes(p.client, "HH", 2);
            expect_file(p.client, 0, sizes[i]);
            sender_close(s);
            s = sender_of(way, true);
            assert_int_equal(sender_send(s, p.server, OUT(seg, 2), BY_FD(file)), 2);
            expect_bytes(p.client, "HH", 2);
            sender_close(s);
            close(file);
            pair_close(p);
        }
    }
}

/* --- Ranges ----------------------------------------------------------------------------------- */

static void range_begins_where_it_is_told(void **state)
{
    static const uint64_t offs[] = {0, 1, 4095, 4096, 4097, 70000};

    (void)state;
    for (unsigned way = 0; way < WAYS; way++) {
        struct sender *s = sender_of(way, false);
        struct pair p = tcp_pair(true);
        int file = file_of(80000);

        for (size_t i = 0; i < sizeof(offs) / sizeof(offs[0]); i++) {
            struct segment seg[2] = {{.bytes = "HH", .len = 2}, {.off = offs[i], .len = 5000}};

            assert_int_equal(send_one(s, p.server, &seg[1], file), 5000);
            expect_file(p.client, offs[i], 5000);
            send_all(s, p.server, seg, file);
            expect_bytes(p.client, "HH", 2);
            expect_file(p.client, offs[i], 5000);
        }
        close(file);
        pair_close(p);
        sender_close(s);
    }
}

/* A range beyond 32 bits: a sparse file whose last bytes are not zero. */
static void range_beyond_4_gib(void **state)
{
    const uint64_t end = (5ull << 30) + 12345;
    int file = file_of(0);

    (void)state;
    if (ftruncate(file, (off_t)end) < 0)
        skip();
    assert_int_equal(pwrite(file, "the end", 7, (off_t)end - 7), 7);
    for (unsigned way = 0; way < WAYS; way++) {
        struct segment seg[2] = {{.bytes = "HH", .len = 2}, {.off = end - 7, .len = 7}};
        struct segment whole = {.off = 1, .len = end - 1};
        struct sender *s = sender_of(way, false);
        struct pair p = tcp_pair(false);

        send_all(s, p.server, seg, file);
        expect_bytes(p.client, "HHthe end", 9);
        assert_in_range(send_one(s, p.server, &whole, file), 1, TRANSFER_BYTES_MAX);
        pair_close(p);
        sender_close(s);
    }
    close(file);
}

struct reader {
    int fd, cut; /* a file to be cut at first; -1: none */
    size_t n;
};

static void *read_all(void *arg)
{
    struct reader *r = arg;
    static char buf[65536];
    long n;

    if (r->cut >= 0) {
        serving_nap(50); /* the sender is in its call by now, otherwise it finds the file short */
        if (ftruncate(r->cut, 4096) < 0)
            return NULL;
    }
    while ((n = client_recv(r->fd, buf, sizeof(buf))) > 0)
        r->n += (size_t)n;
    return NULL;
}

/* One transfer is bounded, so that a blocked thread returns between two. */
static void one_transfer_is_bounded(void **state)
{
    static char bytes[TRANSFER_BYTES_MAX + 1];
    struct segment memory[2] = {{.bytes = bytes, .len = sizeof(bytes) - 10},
                                {.bytes = bytes, .len = 11}};
    struct segment range = {.len = sizeof(bytes)};
    int file = file_of(sizeof(bytes));

    (void)state;
    for (unsigned way = 0; way < WAYS; way++) {
        struct sender *s = sender_of(way, false);
        struct pair p = tcp_pair(true);
        struct reader r = {p.client, -1, 0};
        pthread_t thread;
        long n;

        assert_int_equal(pthread_create(&thread, NULL, read_all, &r), 0);
        assert_int_equal(sender_send(s, p.server, OUT(memory, 2), BY_FD(-1)),
                         TRANSFER_BYTES_MAX);
        n = send_one(s, p.server, &range, file);
        assert_in_range(n, 1, TRANSFER_BYTES_MAX);
        if (way != SEND_COPY && way != SEND_SPLICE) /* these send a buffer or a pipe at a time */
            assert_int_equal(n, TRANSFER_BYTES_MAX);
        net_shut(p.server);
        pthread_join(thread, NULL);
        assert_int_equal(r.n, TRANSFER_BYTES_MAX + n);
        pair_close(p);
        sender_close(s);
    }
    close(file);
}

/* --- Sockets that take less ------------------------------------------------------------------- */

/* Two connections share a sender and are full again and again: no bytes of one get into the other,
 * nothing is lost, nothing waits, and no descriptor is kept. */
/* shows N14 */
static void full_sockets_take_turns(void **state)
{
    enum { BYTES = 1500000 };
    int file = file_of(BYTES), small = 4096;

    (void)state;
    for (unsigned way = 0; way < WAYS; way++) {
        struct segment seg[2] = {{.len = BYTES - 3}, {.off = 3, .len = BYTES - 3}};
        struct pair p[2] = {tcp_pair(false), tcp_pair(false)};
        uint64_t seen[2] = {0, 3};
        struct sender *s = sender_of(way, false);
        unsigned before = descriptors();
        bool parted = false;

        for (unsigned i = 0; i < 2; i++)
            setsockopt(p[i].server, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
        for (unsigned turn = 0; seg[0].len || seg[1].len; turn++) {
            struct segment *mine = &seg[turn % 2];
            long n = mine->len ? send_one(s, p[turn % 2].server, mine, file) : -EAGAIN;

            assert_true(n > 0 || n == -EAGAIN);
            parted = parted || (n > 0 && n < COPIED && (uint64_t)n < mine->len);
            n = n > 0 ? n : 0;
            mine->off += (uint64_t)n;
            mine->len -= (uint64_t)n;
            if (turn % 2) /* then the other end reads all available bytes of both */
                for (unsigned i = 0; i < 2; i++) {
                    expect_file(p[i].client, seen[i], seg[i].off - seen[i]);
                    seen[i] = seg[i].off;
                }
        }
        sender_rest(s);
        assert_int_equal(descriptors(), before);
        sender_close(s);
        pair_close(p[0]);
        pair_close(p[1]);
        assert_true(parted);
    }
    close(file);
}

/* The client does not read: the socket is full, and the call returns at once. */
static void full_socket_is_told(void **state)
{
    int file = file_of(TRANSFER_BYTES_MAX);

    (void)state;
    for (unsigned way = 0; way < WAYS; way++) {
        struct segment seg = {.len = TRANSFER_BYTES_MAX};
        struct sender *s = sender_of(way, false);
        struct pair p = tcp_pair(false);
        size_t sent = 0;
        long n;

        while ((n = send_one(s, p.server, &seg, file)) > 0)
            sent += (size_t)n;
        assert_int_equal(n, -EAGAIN);
        assert_true(sent > 0);
        pair_close(p);
        sender_close(s);
    }
    close(file);
}

static void unix_sockets_are_sockets(void **state)
{
    int file = file_of(100000);

    (void)state;
    for (unsigned way = 0; way < WAYS; way++) {
        struct segment seg[2] = {{.bytes = "HH", .len = 2}, {.off = 7, .len = 90000}};
        struct sender *s = sender_of(way, false);
        struct pair p;
        int fd[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
        p = (struct pair){fd[0], fd[1]};
        send_all(s, p.server, seg, file);
        expect_bytes(p.client, "HH", 2);
        expect_file(p.client, 7, 90000);
        pair_close(p);
        sender_close(s);
    }
    close(file);
}

static void peer_that_has_gone_is_an_error(void **state)
{
    struct segment seg[2] = {{.bytes = "x", .len = 1}, {.len = 1000}};
    struct linger reset = {.l_onoff = 1};
    int file = file_of(1000);

    (void)state;
    for (unsigned way = 0; way < WAYS; way++) {
        struct sender *s = sender_of(way, false);
        struct pair p = tcp_pair(true);
        char buf[8];

        assert_int_equal(setsockopt(p.client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
        close(p.client);
        assert_int_equal(net_recv(p.server, buf, sizeof(buf)), -ECONNRESET);
        assert_int_equal(sender_send(s, p.server, OUT(seg, 1), BY_FD(-1)), -EPIPE);
        assert_int_equal(send_one(s, p.server, &seg[1], file), -EPIPE);
        close(p.server);
        sender_close(s);
    }
    close(file);
}

/* --- Files that become shorter ---------------------------------------------------------------- */

/* The head promises ten bytes; the file has four by now, then none. */
/* shows N13 */
static void shorter_file_gives_what_is_there_then_0(void **state)
{
    (void)state;
    for (unsigned way = 0; way < WAYS; way++) {
        struct segment head[2] = {{.bytes = "HH", .len = 2}, {.off = 0, .len = 10}};
        struct segment seg = {.off = 0, .len = 10};
        struct sender *s = sender_of(way, false);
        struct pair p = tcp_pair(true);
        int file = file_of(4);
        long with = way == SEND_SENDFILE || way == SEND_SPLICE ? 0 : 4;

        assert_int_equal(sender_send(s, p.server, OUT(head, 2), BY_FD(file)), 2 + with);
        expect_bytes(p.client, "HH", with ? 2 : 0); /* otherwise they wait for the next bytes */
        expect_file(p.client, 0, (size_t)with);
        assert_int_equal(send_one(s, p.server, &seg, file), 4);
        if (!with)
            expect_bytes(p.client, "HH", 2);
        expect_file(p.client, 0, 4);
        seg = (struct segment){.off = 4, .len = 6};
        assert_int_equal(send_one(s, p.server, &seg, file), 0);
        assert_int_equal(ftruncate(file, 0), 0);
        assert_int_equal(sender_send(s, p.server, OUT(head, 2), BY_FD(file)), 2);
        seg = (struct segment){.off = 0, .len = 10};
        assert_int_equal(send_one(s, p.server, &seg, file), 0);
        close(file);
        net_shut(p.server);
        expect_bytes(p.client, "HH", 2);
        pair_close(p);
        sender_close(s);
    }
}

/* The file is cut in the middle of a page, whose rest a mapping would show as zeros. */
static void nothing_beyond_the_new_end(void **state)
{
    enum { PROMISED = 20000, END = 9001 };

    (void)state;
    for (unsigned way = 0; way < WAYS; way++) {
        struct segment seg[2] = {{.bytes = "HH", .len = 2}, {.off = 100, .len = PROMISED - 100}};
        struct sender *s = sender_of(way, false);
        struct pair p = tcp_pair(true);
        int file = file_of(PROMISED);
        uint64_t sent = 0;
        long n;

        assert_int_equal(ftruncate(file, END), 0);
        n = sender_send(s, p.server, OUT(seg, 2), BY_FD(file));
        assert_true(n >= 2);
        for (n -= 2; n > 0 || sent == 0; n = send_one(s, p.server, &seg[1], file)) {
            sent += (uint64_t)n;
            seg[1].off += (uint64_t)n;
            seg[1].len -= (uint64_t)n;
        }
        assert_int_equal(n, 0);
        assert_int_equal(sent, END - 100);
        net_shut(p.server);
        expect_bytes(p.client, "HH", 2);
        expect_file(p.client, 100, END - 100);
        close(file);
        pair_close(p);
        sender_close(s);
    }
}

/* The file is cut behind a blocking call that sends it: no signal, and an end. */
static void cut_during_a_blocking_call(void **state)
{
    enum { BYTES = 64 << 20 };

    (void)state;
    for (unsigned way = 0; way < WAYS; way++) {
        struct segment seg = {.len = BYTES};
        struct sender *s = sender_of(way, false);
        struct pair p = tcp_pair(true);
        struct reader r = {p.client, file_of(0), 0};
        pthread_t thread;
        uint64_t sent = 0;
        long n = 0;

        assert_int_equal(ftruncate(r.cut, BYTES), 0);
        assert_int_equal(pthread_create(&thread, NULL, read_all, &r), 0);
        while (seg.len && (n = send_one(s, p.server, &seg, r.cut)) > 0) {
            sent += (uint64_t)n;
            seg.off += (uint64_t)n;
            seg.len -= (uint64_t)n;
        }
        assert_true(n == 0 || n == -EFAULT);
        assert_in_range(sent, 1, BYTES - 1);
        net_shut(p.server);
        pthread_join(thread, NULL);
        close(r.cut);
        pair_close(p);
        sender_close(s);
    }
}

/* --- Resources -------------------------------------------------------------------------------- */

/* No descriptor for a pipe: sendfile() sends instead, and later a pipe may be available. */
static void splice_without_a_pipe(void **state)
{
    struct segment seg = {.len = 5000};
    struct sender *s = sender_of(SEND_SPLICE, false);
    struct pair p = tcp_pair(true);
    int file = file_of(5000);
    struct rlimit limit, none;
    unsigned before = descriptors();

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(send_one(s, p.server, &seg, file), 5000);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(descriptors(), before);
    expect_file(p.client, 0, 5000);
    assert_int_equal(send_one(s, p.server, &seg, file), 5000);
    assert_int_equal(descriptors(), before + 2);
    expect_file(p.client, 0, 5000);
    sender_rest(s);
    sender_rest(s);
    assert_int_equal(descriptors(), before);
    close(file);
    pair_close(p);
    sender_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_leaves_in_one_gather),
        cmocka_unit_test(what_goes_with_the_head),
        cmocka_unit_test(range_begins_where_it_is_told),
        cmocka_unit_test(range_beyond_4_gib),
        cmocka_unit_test(one_transfer_is_bounded),
        cmocka_unit_test(full_sockets_take_turns),
        cmocka_unit_test(full_socket_is_told),
        cmocka_unit_test(unix_sockets_are_sockets),
        cmocka_unit_test(peer_that_has_gone_is_an_error),
        cmocka_unit_test(shorter_file_gives_what_is_there_then_0),
        cmocka_unit_test(nothing_beyond_the_new_end),
        cmocka_unit_test(cut_during_a_blocking_call),
        cmocka_unit_test(splice_without_a_pipe),
    };

    signal(SIGPIPE, SIG_IGN); /* as the server does */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
