/* SPDX-License-Identifier: MIT */
/* A frame becomes a segment of TCP: IPv4 with options, IPv6 with extension headers, VLAN tags.  A
 * frame cut at any byte, or with false lengths, is never read past its end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include "../../tools/trace/sniff_packet.c"

enum { FRAME_MAX = 512 };

/* A frame that grows at its end. */
struct made {
    uint8_t bytes[FRAME_MAX];
    uint32_t n;
};

static void put(struct made *m, const void *bytes, size_t n)
{
    assert_true(m->n + n <= FRAME_MAX);
    memcpy(m->bytes + m->n, bytes, n);
    m->n += (uint32_t)n;
}

static void put16(struct made *m, unsigned n)
{
    put(m, (uint8_t[]){(uint8_t)(n >> 8), (uint8_t)n}, 2);
}

static void put_link(struct made *m, unsigned tags, unsigned type)
{
    put(m, "\1\2\3\4\5\6\7\10\11\12\13\14", 12);
    for (unsigned i = 0; i < tags; i++) {
        put16(m, i + 1 == tags ? TYPE_VLAN : TYPE_VLAN_OUTER);
        put16(m, 0x2000 + 100 + i); /* a priority, too */
    }
    put16(m, type);
}

static void put_tcp(struct made *m, unsigned options, const char *payload)
{
    put16(m, 40000);
    put16(m, 80);
    put(m, "\1\2\3\4" "\5\6\7\10", 8);
    put(m, (uint8_t[]){(uint8_t)((5 + options) << 4), SEGMENT_FIN | 0x10}, 2);
    put(m, (uint8_t[6 + 40]){0}, 6 + options * 4);
    put(m, payload, strlen(payload));
}

/* words, options: words of IP and TCP options. */
static struct made ipv4(unsigned tags, unsigned words, unsigned options, const char *payload)
{
    struct made m = {.n = 0};
    unsigned head = 20 + words * 4;

    put_link(&m, tags, TYPE_IPV4);
    put(&m, (uint8_t[]){(uint8_t)(0x40 | head / 4), 0}, 2);
    put16(&m, head + 20 + options * 4 + (unsigned)strlen(payload));
    put(&m, "\0\0\100\0\100\6\0\0" "\12\0\0\1" "\12\0\0\2", 16);
    put(&m, (uint8_t[40]){1}, words * 4);
    put_tcp(&m, options, payload);
    return m;
}

/* With the extension headers in `extensions`; first: the kind of the first one. */
static struct made ipv6(unsigned first, const void *extensions, size_t n, const char *payload)
{
    struct made m = {.n = 0};

    put_link(&m, 0, TYPE_IPV6);
    put(&m, "\140\0\0\0", 4);
    put16(&m, (unsigned)(n + 20 + strlen(payload)));
    put(&m, (uint8_t[]){(uint8_t)first, 64}, 2);
    put(&m, (uint8_t[16]){0x20, 1, [15] = 1}, 16);
    put(&m, (uint8_t[16]){0x20, 1, [15] = 2}, 16);
    put(&m, extensions, n);
    put_tcp(&m, 0, payload);
    return m;
}

/* The frame's bytes end where memory does, so that the sanitizer sees a read past the end. */
static enum packet_kind read_cut(const struct made *m, uint32_t n, struct tcp_segment *seg)
{
    uint8_t *copy = malloc(n ? n : 1);
    enum packet_kind kind;

    assert_non_null(copy);
    memcpy(copy, m->bytes, n);
    kind = packet_read(&(struct frame){.bytes = copy, .n = n, .wire = m->n, .link = LINK_ETHER},
                       seg);
    if (kind == PACKET_TCP) {
        assert_true(seg->kept <= seg->len);
        assert_in_range(seg->payload - (const char *)copy, 0, n - seg->kept);
    }
    free(copy);
    return kind;
}

/* The frame is read, has that payload, and no cut causes a read beyond it. */
static struct tcp_segment good(const struct made *m, const char *payload)
{
    struct tcp_segment seg, part;

    assert_int_equal(packet_read(&(struct frame){.bytes = m->bytes, .n = m->n, .wire = m->n,
                                                 .link = LINK_ETHER}, &seg), PACKET_TCP);
    assert_int_equal(seg.len, strlen(payload));
    assert_int_equal(seg.kept, seg.len);
    assert_memory_equal(seg.payload, payload, seg.len);
    assert_int_equal(seg.from.port, 40000);
    assert_int_equal(seg.to.port, 80);
    assert_int_equal(seg.seq, 0x01020304);
    assert_int_equal(seg.flags, SEGMENT_FIN);
    for (uint32_t n = 0; n < m->n; n++)
        if (read_cut(m, n, &part) == PACKET_TCP)
            assert_true(part.len == seg.len && part.kept <= part.len);
    return seg;
}

static void test_ipv4(void **state)
{
    char text[ENDPOINT_TEXT];

    (void)state;
    for (unsigned words = 0; words <= 10; words++)
        for (unsigned options = 0; options <= 10; options++) {
            struct made m = ipv4(0, words, options, "GET");
            struct tcp_segment seg = good(&m, "GET");

            endpoint_text(&seg.from, text);
            assert_string_equal(text, "10.0.0.1:40000");
            endpoint_text(&seg.to, text);
            assert_string_equal(text, "10.0.0.2:80");
        }
}

/* Ethernet pads a short packet; the padding is not part of its payload. */
static void test_padding(void **state)
{
    struct made m = ipv4(0, 0, 0, "a");

    (void)state;
    put(&m, (uint8_t[5]){'x', 'x', 'x', 'x', 'x'}, 5);
    good(&m, "a");
    m = ipv4(0, 0, 0, "");
    put(&m, (uint8_t[6]){0}, 6);
    good(&m, "");
}

static void test_vlan(void **state)
{
    struct tcp_segment seg;
    struct made m = ipv4(1, 0, 0, "GET");

    (void)state;
    seg = good(&m, "GET");
    assert_true(seg.vlan == 100);
    m = ipv4(2, 1, 1, "GET");
    seg = good(&m, "GET");
    assert_true(seg.vlan == (100u << 12 | 101));
    m = ipv4(3, 0, 0, "GET"); /* more tags than are read */
    assert_int_equal(read_cut(&m, m.n, &seg), PACKET_OTHER);
    m = ipv4(1, 0, 0, "GET"); /* the outer one was taken off */
    assert_int_equal(packet_read(&(struct frame){.bytes = m.bytes, .n = m.n, .wire = m.n,
                                                 .link = LINK_ETHER, .tag = 0x3007}, &seg),
                     PACKET_TCP);
    assert_true(seg.vlan == (7u << 12 | 100));
}

static void test_ipv6(void **state)
{
    static const uint8_t all[] = {NEXT_ROUTING, 0, 5, 2, 0, 0, 0, 0, /* hop by hop */
                                  NEXT_FRAGMENT, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                  NEXT_AUTHENTICATION, 0, 0, 0, 1, 2, 3, 4, /* all in one part */
                                  NEXT_DESTINATION, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                  NEXT_TCP, 0, 0, 0, 0, 0, 0, 0};
    char text[ENDPOINT_TEXT];
    struct made m = ipv6(NEXT_TCP, "", 0, "HTTP");
    struct tcp_segment seg = good(&m, "HTTP");

    (void)state;
    endpoint_text(&seg.from, text);
    assert_string_equal(text, "[2001::1]:40000");
    m = ipv6(NEXT_HOP, all, sizeof(all), "HTTP");
    good(&m, "HTTP");
}

static void test_ipv6_many_extensions(void **state)
{
    uint8_t hops[(EXTENSIONS_MAX + 1) * 8] = {0};
    struct tcp_segment seg;
    struct made m;

    (void)state;
    for (unsigned i = 0; i <= EXTENSIONS_MAX; i++)
        hops[i * 8] = NEXT_DESTINATION;
    hops[(EXTENSIONS_MAX - 1) * 8] = NEXT_TCP;
    m = ipv6(NEXT_HOP, hops, EXTENSIONS_MAX * 8, "a");
    good(&m, "a");
    hops[(EXTENSIONS_MAX - 1) * 8] = NEXT_DESTINATION;
    hops[EXTENSIONS_MAX * 8] = NEXT_TCP;
    m = ipv6(NEXT_HOP, hops, sizeof(hops), "a");
    assert_int_equal(read_cut(&m, m.n, &seg), PACKET_OTHER);
}

static void test_fragments(void **state)
{
    struct tcp_segment seg;
    uint8_t part[8] = {NEXT_TCP, 0, 0, 1};
    struct made m = ipv4(0, 0, 0, "GET");

    (void)state;
    m.bytes[14 + 6] = 0x20; /* more fragments */
    assert_int_equal(read_cut(&m, m.n, &seg), PACKET_FRAGMENT);
    m.bytes[14 + 6] = 0;
    m.bytes[14 + 7] = 1; /* the second one */
    assert_int_equal(read_cut(&m, m.n, &seg), PACKET_FRAGMENT);
    m = ipv6(NEXT_FRAGMENT, part, sizeof(part), "GET");
    assert_int_equal(read_cut(&m, m.n, &seg), PACKET_FRAGMENT);
}

/* Lengths that contradict each other. */
/* shows D29 */
static void test_lies(void **state)
{
    struct tcp_segment seg;
    struct made m = ipv4(0, 0, 0, "GET");

    (void)state;
    m.bytes[14 + 3] = 255; /* longer than the frame */
    assert_int_equal(read_cut(&m, m.n, &seg), PACKET_BROKEN);
    m.bytes[14 + 3] = 19; /* shorter than its head */
    assert_int_equal(read_cut(&m, m.n, &seg), PACKET_BROKEN);
    m = ipv4(0, 0, 0, "GET");
    m.bytes[14] = 0x44; /* a head of 16 bytes */
    assert_int_equal(read_cut(&m, m.n, &seg), PACKET_BROKEN);
    m = ipv4(0, 0, 0, "GET");
    m.bytes[14 + 20 + 12] = 0x40; /* TCP's of 16 */
    assert_int_equal(read_cut(&m, m.n, &seg), PACKET_BROKEN);
    m.bytes[14 + 20 + 12] = 0xf0; /* of 60, more than there are */
    assert_int_equal(read_cut(&m, m.n, &seg), PACKET_BROKEN);
    m = ipv4(0, 0, 0, "GET");
    m.bytes[14 + 9] = 17; /* UDP */
    assert_int_equal(read_cut(&m, m.n, &seg), PACKET_OTHER);
    m.bytes[12] = 0x08;
    m.bytes[13] = 0x06; /* ARP */
    assert_int_equal(read_cut(&m, m.n, &seg), PACKET_OTHER);
}

/* A packet that is split later gives its length as 0, or gives none. */
static void test_longer_than_said(void **state)
{
    struct made m = ipv4(0, 0, 0, "GET");

    (void)state;
    m.bytes[14 + 2] = m.bytes[14 + 3] = 0;
    good(&m, "GET");
    m = ipv6(NEXT_TCP, "", 0, "GET");
    m.bytes[14 + 4] = m.bytes[14 + 5] = 0;
    good(&m, "GET");
}

static void test_without_link(void **state)
{
    struct made m = ipv4(0, 0, 0, "GET");
    struct tcp_segment seg;
    struct frame f = {.bytes = m.bytes + 14, .n = m.n - 14, .wire = m.n - 14, .link = LINK_NONE};

    (void)state;
    assert_int_equal(packet_read(&f, &seg), PACKET_TCP);
    assert_int_equal(seg.len, 3);
    m = ipv6(NEXT_TCP, "", 0, "GET ");
    f.n = f.wire = m.n - 14;
    assert_int_equal(packet_read(&f, &seg), PACKET_TCP);
    assert_int_equal(seg.len, 4);
    f.n = f.wire = 0;
    assert_int_equal(packet_read(&f, &seg), PACKET_BROKEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ipv4),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_vlan),
        cmocka_unit_test(test_ipv6),
        cmocka_unit_test(test_ipv6_many_extensions),
        cmocka_unit_test(test_fragments),
        cmocka_unit_test(test_lies),
        cmocka_unit_test(test_longer_than_said),
        cmocka_unit_test(test_without_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
