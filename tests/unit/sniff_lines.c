/* SPDX-License-Identifier: MIT */
/* Segments become first lines: wherever they are cut, whatever comes twice, late or never, however
 * many connections there are; and nothing that only looks like a first line is reported as one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include "../../tools/trace/sniff_heads.c"
#include "../../tools/trace/sniff_lines.c"

#define ASK "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
#define HEAD_ASK "HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n"
#define ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
enum { CLIENT, SERVER, SIDES };
enum { MS = 1000000 };

static struct lines lines;
static char said[65536]; /* "> request\n", "< response\n" */
static uint32_t seq[SIDES];
static uint64_t clock_ns;
static uint32_t client; /* the number of the connection */

static void tell(void *arg, const struct line *line)
{
    size_t used = strlen(said);

    assert_ptr_equal(arg, &lines);
    snprintf(said + used, sizeof(said) - used, "%c %.*s\n", line->to->port == 80 ? '>' : '<',
             (int)line->text.len, line->text.ptr);
}

static int begin_test(void **state)
{
    (void)state;
    said[0] = 0;
    client = 1;
    clock_ns = 1000;
    seq[CLIENT] = 0xfffffff0u; /* wraps in the first head */
    seq[SERVER] = 5000;
    return lines_init(&lines, 42, tell, &lines);
}

static int end_test(void **state)
{
    (void)state;
    lines_end(&lines);
    assert_int_equal(lines.bytes, 0);
    assert_int_equal(lines.holes, 0);
    return 0;
}

static void at(unsigned side, uint32_t where, const char *bytes, size_t n, uint8_t flags)
{
    struct endpoint end[SIDES] = {{.port = (uint16_t)(client & 0x7fff) + 1024}, {.port = 80}};
    struct tcp_segment seg = {.from = end[side], .to = end[!side], .seq = where, .flags = flags,
                              .len = (uint32_t)n, .kept = (uint32_t)n};
    char *copy = malloc(n ? n : 1); /* so that the sanitizer sees a read past the end */

    assert_non_null(copy);
    memcpy(copy, bytes, n);
    memcpy(end[CLIENT].address, &client, sizeof(client));
    seg.from = end[side];
    seg.to = end[!side];
    seg.payload = copy;
    lines_segment(&lines, &seg, clock_ns += 1000);
    free(copy);
}

static void open_both(void)
{
    at(CLIENT, seq[CLIENT]++, "", 0, SEGMENT_SYN);
    at(SERVER, seq[SERVER]++, "", 0, SEGMENT_SYN);
}

static void bytes(unsigned side, const char *text, size_t n)
{
    at(side, seq[side], text, n, 0);
    seq[side] += (uint32_t)n;
}

static void text(unsigned side, const char *words)
{
    bytes(side, words, strlen(words));
}

static void close_both(void)
{
    at(CLIENT, seq[CLIENT]++, "", 0, SEGMENT_FIN);
    at(SERVER, seq[SERVER]++, "", 0, SEGMENT_FIN);
}

/* Require that text, reported since the last call. */
static void expect(const char *what)
{
    assert_string_equal(said, what);
    said[0] = 0;
}

static void test_one(void **state)
{
    (void)state;
    open_both();
    text(CLIENT, ASK);
    expect("> GET /a HTTP/1.1\n");
    text(SERVER, ANSWER);
    expect("< HTTP/1.1 200 OK\n");
    text(CLIENT, "\r\n" HEAD_ASK);
    text(SERVER, "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\n");
    text(CLIENT, ASK);
    text(SERVER, ANSWER);
    expect("> HEAD /a HTTP/1.1\n< HTTP/1.1 200\n> GET /a HTTP/1.1\n< HTTP/1.1 200 OK\n");
}

static void test_byte_by_byte(void **state)
{
    (void)state;
    open_both();
    for (const char *c = ASK ASK; *c; c++)
        bytes(CLIENT, c, 1);
    for (const char *c = ANSWER ANSWER; *c; c++)
        bytes(SERVER, c, 1);
    expect("> GET /a HTTP/1.1\n> GET /a HTTP/1.1\n< HTTP/1.1 200 OK\n< HTTP/1.1 200 OK\n");
}

/* A request cut in two anywhere, the parts in either order, each part once or twice. */
static void test_cut_swapped_and_repeated(void **state)
{
    static const char all[] = "POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nGET " ASK;
    size_t n = sizeof(all) - 1;

    (void)state;
    for (size_t cut = 1; cut < n; cut++)
        for (unsigned how = 0; how < 4; how++) {
            uint32_t from;

            client++;
            open_both();
            from = seq[CLIENT];
            for (unsigned i = 0; i < 2 + (how & 1) * 2; i++) {
                bool second = (i & 1) == !(how & 2);

                at(CLIENT, from + (second ? (uint32_t)cut : 0), second ? all + cut : all,
                   second ? n - cut : cut, 0);
            }
            seq[CLIENT] += (uint32_t)n;
            expect("> POST /b HTTP/1.1\n> GET /a HTTP/1.1\n");
        }
    assert_int_equal(lines.holes, 0);
    assert_int_equal(lines.counts.gaps, 0);
}

/* Retransmissions that overlap known bytes, and unknown ones. */
static void test_overlaps(void **state)
{
    size_t n = strlen(ASK);

    (void)state;
    open_both();
    at(CLIENT, seq[CLIENT], ASK, 10, 0);
    at(CLIENT, seq[CLIENT] + 5, &ASK[5], n - 5, 0);
    at(CLIENT, seq[CLIENT], ASK, n, 0);
    at(CLIENT, seq[CLIENT] - 1, "", 0, SEGMENT_SYN);
    at(CLIENT, seq[CLIENT], ASK, n, 0);
    expect("> GET /a HTTP/1.1\n");
    seq[CLIENT] += (uint32_t)n;
    close_both();
    at(CLIENT, seq[CLIENT] - (uint32_t)n - 1, ASK, n, 0); /* again, after the end */
    expect("");
}

/* Bodies are skipped by their framing, so nothing in them is a first line. */
static void test_bodies(void **state)
{
    (void)state;
    open_both();
    text(CLIENT, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 56\r\n\r\n");
    text(CLIENT, ASK ASK);
    text(CLIENT, "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1c\r\n");
    text(CLIENT, ASK "\r\n0\r\n\r\n" ASK);
    expect("> PUT / HTTP/1.1\n> PUT / HTTP/1.1\n> GET /a HTTP/1.1\n");
}

static void test_answers(void **state)
{
    (void)state;
    open_both();
    text(CLIENT, ASK ASK);
    text(SERVER, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n");
    text(SERVER, "HTTP/1.0 200 OK\r\n\r\n");
    text(SERVER, ANSWER); /* until it closes */
    expect("> GET /a HTTP/1.1\n> GET /a HTTP/1.1\n< HTTP/1.1 100 Continue\n"
           "< HTTP/1.1 204 No Content\n< HTTP/1.0 200 OK\n");
}

/* Bytes that are not HTTP are never shown. */
static void test_others(void **state)
{
    static const char *const other[] = {
        "\x16\x03\x01\x02", "SSH-2.0-OpenSSH_9.2\r\n", "GET /a\r\n", "GET /a HTTP/1.1x\r\n",
        "HTTP/1.1 20 OK\r\n", "HTTP/1.1 2000\r\n", "HTTP/11 200 OK\r\n", "EHLO a\r\n", "\r\n\r\n",
        " GET / HTTP/1.1\r\n", "GET HTTP/1.1\r\n", "G(T / HTTP/1.1\r\n", "HTTP/1.1x200 OK\r\n"};

    (void)state;
    for (unsigned i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
        client++;
        open_both();
        text(CLIENT, other[i]);
        expect("");
    }
    client++;
    open_both();
    text(CLIENT, "M-SEARCH * HTTP/1.1\r\n");
    text(SERVER, "HTTP/1.0 404 ");
    text(SERVER, "\r\n");
    expect("> M-SEARCH * HTTP/1.1\n< HTTP/1.0 404 \n");
}

static void test_tunnels(void **state)
{
    (void)state;
    open_both();
    text(CLIENT, "CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n");
    text(SERVER, "HTTP/1.1 200 OK\r\n\r\n");
    text(CLIENT, ASK);
    text(SERVER, ANSWER);
    expect("> CONNECT h:80 HTTP/1.1\n< HTTP/1.1 200 OK\n");
    client++;
    open_both();
    text(CLIENT, ASK);
    text(SERVER, "HTTP/1.1 101 Switching Protocols\r\n\r\n" ANSWER);
    text(CLIENT, ASK);
    expect("> GET /a HTTP/1.1\n< HTTP/1.1 101 Switching Protocols\n");
}

/* A connection that was open before: a first line at a packet's start is found, even byte by
 * byte. */
static void test_late(void **state)
{
    (void)state;
    text(CLIENT, "tail of a body");
    text(CLIENT, ASK);
    text(SERVER, "/1.1 200 OK\r\n");
    text(SERVER, ANSWER);
    expect("> GET /a HTTP/1.1\n< HTTP/1.1 200 OK\n");
    client++;
    for (const char *c = "x y" ASK; *c; c++)
        bytes(CLIENT, c, 1);
    expect("> GET /a HTTP/1.1\n");
}

/* Bytes that never come: in a body of a known length nothing is lost; in a head, the held bytes are
 * read after a second. */
static void test_gaps(void **state)
{
    (void)state;
    open_both();
    text(CLIENT, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n");
    seq[CLIENT] += 100;
    text(CLIENT, ASK);
    expect("> PUT / HTTP/1.1\n> GET /a HTTP/1.1\n");
    assert_int_equal(lines.counts.gaps, 0);
    seq[CLIENT] += 20;
    text(CLIENT, ASK);
    expect("");
    assert_int_equal(lines.holes, 1);
    lines_tick(&lines, clock_ns + 999 * (uint64_t)MS);
    expect("");
    lines_tick(&lines, clock_ns + 1000 * (uint64_t)MS);
    expect("> GET /a HTTP/1.1\n");
    assert_int_equal(lines.counts.gaps, 1);
    assert_int_equal(lines.holes, 0);
}

static void test_held_most(void **state)
{
    (void)state;
    open_both();
    seq[CLIENT] += 20;
    for (unsigned i = 0; i < HELD_MAX; i++)
        text(CLIENT, ASK);
    expect("");
    text(CLIENT, ASK); /* one too many: no longer wait */
    assert_int_equal(lines.counts.lines, HELD_MAX + 1);
    assert_int_equal(lines.counts.gaps, 1);
    assert_int_equal(lines.bytes, 0);
}

/* A line as long as a head may be, and one that is longer. */
static void test_long_lines(void **state)
{
    static char head[2 * HEAD_BYTES_MAX];

    (void)state;
    open_both();
    memset(head, 'x', sizeof(head));
    memcpy(head, "GET /", 5);
    memcpy(head + HEAD_BYTES_MAX - 12, " HTTP/1.1\r\n", 11);
    bytes(CLIENT, head, HEAD_BYTES_MAX - 100);
    bytes(CLIENT, head + HEAD_BYTES_MAX - 100, 99);
    assert_int_equal(lines.counts.lines, 1);
    client++;
    said[0] = 0;
    open_both();
    memset(head, 'x', sizeof(head));
    memcpy(head, "GET /", 5);
    bytes(CLIENT, head, HEAD_BYTES_MAX - 1);
    assert_int_equal(lines.counts.longer, 0);
    bytes(CLIENT, head, 1);
    assert_int_equal(lines.counts.longer, 1);
    assert_int_equal(lines.bytes, 0);
    text(CLIENT, ASK); /* it goes on */
    expect("> GET /a HTTP/1.1\n");
}

/* Heads that never end take no more memory than allowed. */
static void test_memory(void **state)
{
    static char half[HEAD_BYTES_MAX / 2 + 1] = "GET / HTTP/1.1\r\nA: ";

    (void)state;
    memset(half + strlen(half), 'x', sizeof(half) - strlen(half));
    for (unsigned i = 0; i < LINES_BYTES_MAX / HEAD_BYTES_MAX; i++, client++) {
        open_both();
        bytes(CLIENT, half, sizeof(half));
    }
    assert_int_equal(lines.counts.crowded, 0);
    assert_int_equal(lines.bytes, LINES_BYTES_MAX);
    open_both();
    bytes(CLIENT, half, sizeof(half));
    assert_int_equal(lines.counts.crowded, 1);
    assert_int_equal(lines.bytes, LINES_BYTES_MAX);
    assert_int_equal(lines.counts.lines, LINES_BYTES_MAX / HEAD_BYTES_MAX + 1);
}

/* Ended or silent connections are evicted for new ones; busy ones only when there are no others. */
static void test_crowd(void **state)
{
    (void)state;
    for (; client <= TALKS_MAX; client++) {
        open_both();
        text(CLIENT, ASK);
    }
    assert_int_equal(lines.counts.crowded, 0);
    close_both();
    client = TALKS_MAX;
    close_both();
    client = TALKS_MAX + 1;
    open_both();
    text(CLIENT, ASK);
    assert_int_equal(lines.counts.crowded, 1); /* by the first close_both() */
    for (unsigned i = 0; i < 1000; i++) {
        client++;
        at(CLIENT, 1, "", 0, SEGMENT_SYN); /* a flood of SYNs: one place is enough */
    }
    assert_int_equal(lines.counts.crowded, 2);
    client++;
    open_both();
    text(CLIENT, ASK);
    assert_int_equal(lines.counts.lines, TALKS_MAX + 2);
    assert_int_equal(lines.counts.crowded, 2);
}

/* Addresses and ports that come again are another connection. */
static void test_ports_again(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        seq[CLIENT] += 7 << 24;
        open_both();
        text(CLIENT, ASK);
        if (i == 0)
            close_both();
        else
            at(SERVER, seq[SERVER], "", 0, SEGMENT_RST);
    }
    expect("> GET /a HTTP/1.1\n> GET /a HTTP/1.1\n> GET /a HTTP/1.1\n");
}

/* A packet of which only the beginning could be read. */
static void test_cut_short(void **state)
{
    struct tcp_segment seg = {.from = {.port = 1}, .to = {.port = 80}, .seq = 1,
                              .payload = ASK, .len = 5000, .kept = (uint32_t)strlen(ASK)};

    (void)state;
    lines_segment(&lines, &seg, 1);
    expect("> GET /a HTTP/1.1\n");
    seg.seq += seg.len;
    lines_segment(&lines, &seg, 2);
    expect("> GET /a HTTP/1.1\n");
    assert_int_equal(lines.counts.gaps, 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_test, end_test)
    const struct CMUnitTest tests[] = {
        TEST(test_one), TEST(test_byte_by_byte), TEST(test_cut_swapped_and_repeated),
        TEST(test_overlaps), TEST(test_bodies), TEST(test_answers), TEST(test_others),
        TEST(test_tunnels), TEST(test_late), TEST(test_gaps), TEST(test_held_most),
        TEST(test_long_lines), TEST(test_memory), TEST(test_crowd), TEST(test_ports_again),
        TEST(test_cut_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
