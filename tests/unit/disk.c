/* SPDX-License-Identifier: MIT */
/* disk.c - a sender whose caller must not wait for the disk reports that a range has to be read
 * first (base/send.c), and has then sent nothing of it.
 */
#include "pair.h"
#include <signal.h>
#include "../../base/send.h"

#define OUT(segment) (&(struct conn_out){.seg = (segment), .count = 1})

enum {
    SMALL = 4096,   /* SMALL_FILE_BYTES_MAX of send.c */
    COPIED = 65536, /* COPY_BYTES */
    WAYS = SEND_SPLICE + 1
};

static long ask(struct sender *s, const struct pair *p, struct segment *seg, struct send_file file)
{
    file.asks = true;
    return sender_send(s, p->server, OUT(seg), file);
}

/* Whether the file system reports which pages are in memory. */
static bool tells(int file)
{
    char byte;
    struct iovec iov = {&byte, 1};

    return preadv2(file, &iov, 1, 0, RWF_NOWAIT) >= 0 || errno != EOPNOTSUPP;
}

/* The result of a sender that asks, once the file's pages have left memory. */
static long without_pages(struct sender *s, const struct pair *p, struct segment *seg, int file)
{
    long n = 0;

    /* The kernel keeps a page that it is using at that moment. */
    for (unsigned tries = 0; tries < 100 && n != -ENODATA; tries++) {
        assert_int_equal(fsync(file), 0);
        assert_int_equal(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), 0);
        n = ask(s, p, seg, (struct send_file){.fd = file});
        if (n > 0)
            expect_file(p->client, seg->off, (size_t)n);
    }
    return n;
}

/* No way sends any of a range that is only on disk.  Once the range is in memory it is sent. */
/* shows S29 */
static void the_disk_is_not_waited_for(void **state)
{
    const uint64_t sizes[] = {10, SMALL, SMALL + 1, 3 * COPIED};

    (void)state;
    for (unsigned i = 0; i < WAYS * 4; i++) {
        struct segment seg = {.len = sizes[i / WAYS]};
        struct pair p = tcp_pair(true);
        int file = file_of(seg.len);
        struct sender *s;
        long n;

        assert_int_equal(sender_open(&s, &(struct send_how){.way = i % WAYS}), 0);
        if (tells(file)) {
            assert_int_equal(without_pages(s, &p, &seg, file), -ENODATA);
            n = sender_send(s, p.server, OUT(&seg), (struct send_file){.fd = file});
            assert_true(n > 0);
            expect_file(p.client, 0, (size_t)n);
        } else { /* only a server's file has to be read anyway */
            assert_int_equal(ask(s, &p, &seg, (struct send_file){.fd = file, .far = true}),
                             -ENODATA);
        }
        n = ask(s, &p, &seg, (struct send_file){.fd = file});
        assert_true(n > 0);
        expect_file(p.client, 0, (size_t)n);
        close(file);
        pair_close(p);
        sender_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_disk_is_not_waited_for),
    };

    signal(SIGPIPE, SIG_IGN); /* as the server does */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
