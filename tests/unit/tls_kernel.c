/* SPDX-License-Identifier: MIT */
/* tls_kernel.c - the protocol TLS where the kernel makes the records: when it begins, that the same
 * plaintext is sent wherever it is cut, and how connections end.  The kernel is this program.
 */
#include "tls_one.h"
#include "drive.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

static struct one *o;
static struct {
    int refuses;            /* take() returns this */
    bool late;              /* end() returns false */
    unsigned takes, ends;
    struct tls_keys keys;
    struct tls_last last;
} kernel;

static int take(int fd, const struct tls_keys *keys, struct tls_given *given)
{
    must(fd == o->h.session.fd && !o->by_kernel);
    must(!o->have); /* the client has whole records */
    kernel.takes++;
    kernel.keys = *keys;
    *given = (struct tls_given){.suite = keys->suite, .record = keys->record, .before = 5};
    o->by_kernel = !kernel.refuses;
    return kernel.refuses;
}

static bool end(struct tls_last *last)
{
    kernel.ends++;
    kernel.last = *last;
    return !kernel.late;
}

static const struct tls_kernel kernel_here = {take, end};

static void begin(bool always)
{
    memset(&kernel, 0, sizeof(kernel));
    o = one_open();
    must(stats_open(&o->h.server.stats, 1) == 0);
    o->store.has_keys = true;
    o->setup.kernel = &kernel_here;
    o->setup.kernel_always = always;
}

static unsigned counted(enum stat_id stat)
{
    return (unsigned)stats_sum(o->h.server.stats, stat);
}

static void finish(void)
{
    struct stats *stats = o->h.server.stats;

    one_close(o);
    stats_close(stats);
}

/* --- Plaintext -------------------------------------------------------------------------------- */

static const char *const talks[] = {
    GET("/p10"), GET("/f10"), GET("/f0"), GET("/f65536") GET("/w7") GET("/m9") GET("/f1"),
    "HEAD /f100000 HTTP/1.1\r\nHost: a\r\n\r\n" GET("/p70000"),
    "GET /f100000 HTTP/1.1\r\nHost: a\r\nRange: bytes=0-4,50-99,20000-70000\r\n\r\n" GET("/none"),
    "POST /f5 HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789GET /f5 HTTP/1.0\r\n\r\n",
    NULL};

static void compare(const char *talk, size_t cut, size_t sip)
{
    size_t len;
    char *text = drive_talk(talk, &len);

    begin(true);
    o->cut = cut;
    o->sip = sip;
    one_handshake(o);
    one_asks(o, talk, 50);
    one_says(o, FAKE_ALERT, (char[]){FAKE_SAYS_END}, 1);
    assert_int_equal(o->len, len);
    assert_memory_equal(o->plain, text, len);
    assert_int_equal(kernel.takes, 1);
    assert_int_equal(kernel.ends, 1);
    assert_true(kernel.last.says_end);
    assert_int_equal(kernel.last.given.plain, len); /* none was spoken before */
    assert_int_equal(kernel.last.given.before, 5);
    assert_int_equal(o->h.fake->n.complete, o->h.fake->n.answers);
    assert_int_equal(o->h.c->want, CONN_LINGER);
    assert_true(conn_shuts(o->h.c));
    finish();
    free(text);
}

static void the_same_wherever_it_is_cut(void **state)
{
    (void)state;
    for (unsigned i = 0; talks[i]; i++)
        for (size_t cut = 0; cut < 200; cut += cut < 20 ? 1 : 37) {
            compare(talks[i], cut, 0);
            compare(talks[i], cut, 1 + cut * 97);
        }
}

/* Records that were encrypted before are sent before, and count for the numbers of records. */
static void from_a_large_file_on(void **state)
{
    (void)state;
    begin(false);
    one_handshake(o);
    one_asks(o, GET("/p10") GET("/p200000") GET("/m3"), 100);
    assert_int_equal(kernel.takes, 0); /* no file */
    o->len = 0;
    one_asks(o, GET("/f131072"), 100);
    assert_int_equal(kernel.takes, 1);
    assert_int_equal(kernel.keys.record, o->store.spoken);
    assert_int_equal(counted(STAT_TLS_KERNEL), 1);
    assert_true(o->len > 131072);
    for (size_t i = 0; i < 131072; i++)
        assert_int_equal(o->plain[o->len - 131072 + i], fake_byte(i));
    o->len = 0;
    one_asks(o, GET("/p10"), 100); /* the kernel still makes the records */
    assert_int_equal(kernel.takes, 1);
    assert_memory_equal(o->plain + o->len - 10, fake_bytes(), 10);
    assert_true(conn_idle(o->h.c));
    assert_null(o->h.c->out);
    finish();
    assert_int_equal(kernel.ends, 1); /* bytes of it may not be TCP's yet */
    assert_false(kernel.last.says_end);
}

/* Records that wait to be sent are the layer's, and go first. */
static void not_behind_records_that_wait(void **state)
{
    static const char both[] = GET("/p10") GET("/p200000");
    char rec[200];
    size_t n;

    (void)state;
    begin(true);
    o->store.ticket = 500;
    one_says(o, FAKE_HANDSHAKE, "hello", 5);
    n = fake_record(rec, FAKE_HANDSHAKE, "finished", 8);
    n += fake_record(rec + n, FAKE_DATA, both, strlen(both));
    conn_feed(o->h.c, rec, n, START); /* a ticket waits when the answers are made */
    assert_int_equal(o->h.c->want, CONN_SEND);
    assert_int_equal(kernel.takes, 0);
    one_take(o);
    assert_int_equal(o->handshake, 1500 + 500);
    one_run(o);
    assert_int_equal(kernel.takes, 1);
    assert_int_equal(kernel.keys.record, o->store.spoken);
    assert_true(o->store.spoken > 1); /* the kernel goes on inside an answer */
    assert_memory_equal(o->plain + o->len - 200000, fake_bytes(), 200000);
    assert_int_equal(o->h.fake->n.complete, 2);
    finish();
}

/* --- Refusals --------------------------------------------------------------------------------- */

static void the_kernel_refuses(void **state)
{
    (void)state;
    begin(true);
    kernel.refuses = -ENOENT;
    o->store.may_speak = true;
    one_handshake(o);
    one_asks(o, GET("/p10") GET("/p70000"), 100);
    assert_int_equal(kernel.takes, 1); /* it is asked once */
    assert_int_equal(counted(STAT_TLS_KERNEL), 0);
    assert_int_equal(counted(STAT_TLS_KERNEL_REFUSED), 1);
    assert_int_equal(o->h.fake->n.complete, 2);
    one_says(o, FAKE_ALERT, (char[]){FAKE_SAYS_END}, 1);
    assert_true(o->said_end); /* the layer's */
    finish();
    assert_int_equal(kernel.ends, 0);
}

static void there_is_no_key(void **state)
{
    (void)state;
    begin(true);
    o->store.has_keys = false;
    one_handshake(o);
    one_asks(o, GET("/p10") GET("/p20"), 100);
    assert_int_equal(kernel.takes, 0);
    assert_int_equal(counted(STAT_TLS_KERNEL) + counted(STAT_TLS_KERNEL_REFUSED), 0);
    assert_int_equal(o->h.fake->n.complete, 2);
    finish();
}

/* --- Ends ------------------------------------------------------------------------------------- */

static void the_peer_asks_for_keys(void **state)
{
    (void)state;
    for (unsigned with = 0; with < 2; with++) {
        char rec[200];
        size_t n = fake_record(rec, FAKE_KEYS, (char[]){FAKE_ASKS}, 1);

        begin(true);
        one_handshake(o);
        one_asks(o, GET("/f10"), 100);
        o->len = 0;
        if (with) /* a request behind it is not answered with the old keys */
            n += fake_record(rec + n, FAKE_DATA, GET("/f10"), strlen(GET("/f10")));
        one_feed(o, rec, n);
        assert_int_equal(o->len, 0);
        assert_int_equal(kernel.ends, 1);
        assert_true(kernel.last.says_end);
        assert_int_equal(o->h.c->want, CONN_LINGER);
        finish();
        assert_int_equal(kernel.ends, 1);
    }
}

/* Before the kernel has the key the layer can change it, and then keeps it. */
static void the_peer_asks_early(void **state)
{
    (void)state;
    begin(true);
    one_handshake(o);
    one_says(o, FAKE_KEYS, (char[]){FAKE_ASKS}, 1);
    one_asks(o, GET("/p10"), 100);
    assert_int_equal(kernel.takes, 0);
    assert_int_equal(o->h.fake->n.complete, 1);
    finish();
}

/* The layer's alert would be encrypted with a number that the kernel has used. */
static void a_forged_record(void **state)
{
    char rec[64];
    size_t n = fake_record(rec, FAKE_DATA, "GET", 3);

    (void)state;
    begin(true);
    rec[FAKE_HEAD] ^= 1;
    one_handshake(o);
    one_asks(o, GET("/f10"), 100);
    o->len = 0;
    one_feed(o, rec, n);
    assert_int_equal(o->len, 0);
    assert_int_equal(kernel.ends, 1);
    assert_false(kernel.last.says_end);
    assert_int_equal(o->h.c->want, CONN_LINGER);
    finish();
}

static void what_was_sent_of_a_file_is_counted(void **state)
{
    char rec[100];
    size_t n = fake_record(rec, FAKE_DATA, GET("/f200000"), strlen(GET("/f200000")));
    struct conn_out out;
    uint64_t head;

    (void)state;
    begin(false);
    one_handshake(o);
    conn_feed(o->h.c, rec, n, START);
    out = conn_out(o->h.c);
    assert_int_equal(out.count, 2);
    assert_null(out.seg[1].bytes);
    head = out.seg[0].len;
    o->sip = head + 150000;
    one_take(o);
    assert_int_equal(o->h.c->want, CONN_SEND);
    conn_abort(o->h.c);
    finish();
    assert_int_equal(kernel.ends, 0); /* the connection is reset */
}

static void the_socket_is_full(void **state)
{
    (void)state;
    for (unsigned late = 0; late < 2; late++) {
        begin(true);
        kernel.late = late;
        one_handshake(o);
        one_asks(o, "GET /f10 HTTP/1.0\r\n\r\n", 100);
        assert_int_equal(o->h.c->want, CONN_LINGER);
        assert_true(kernel.last.says_end);
        assert_int_equal(kernel.last.send_ms, 10000);
        assert_int_equal(conn_shuts(o->h.c), !late); /* a thread does it */
        assert_false(conn_shuts(o->h.c));
        one_end(o);
        assert_int_equal(o->h.c->want, CONN_CLOSE);
        finish();
        assert_int_equal(kernel.ends, 1);
    }
}

static void a_client_that_only_ends(void **state)
{
    (void)state;
    begin(true);
    one_handshake(o);
    one_asks(o, GET("/f10"), 100);
    one_end(o);
    assert_int_equal(kernel.ends, 1);
    assert_true(kernel.last.says_end);
    assert_int_equal(o->h.c->want, CONN_CLOSE);
    finish();
}

static void memory_fails_in_turn(void **state)
{
    unsigned most = 1;

    (void)state;
    for (unsigned n = 0; n <= most; n++) { /* at first none fails */
        begin(true);
        o->h.fake->fail_alloc = n;
        one_handshake(o);
        one_asks(o, GET("/f10") GET("/m9"), 11);
        one_end(o);
        most = n ? most : o->h.fake->n.allocs;
        finish();
    }
    assert_true(most > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_wherever_it_is_cut),
        cmocka_unit_test(from_a_large_file_on),
        cmocka_unit_test(not_behind_records_that_wait),
        cmocka_unit_test(the_kernel_refuses),
        cmocka_unit_test(there_is_no_key),
        cmocka_unit_test(the_peer_asks_for_keys),
        cmocka_unit_test(the_peer_asks_early),
        cmocka_unit_test(a_forged_record),
        cmocka_unit_test(what_was_sent_of_a_file_is_counted),
        cmocka_unit_test(the_socket_is_full),
        cmocka_unit_test(a_client_that_only_ends),
        cmocka_unit_test(memory_fails_in_turn),
    };

    return cmocka_run_group_tests_name("tls_kernel", tests, NULL, NULL);
}
