/* SPDX-License-Identifier: MIT */
/* sniff.c - fuzz rung trace sniff: frames of any bytes, and segments of one connection in any
 * order.  They are never read past the end, produce only first lines, and leave no memory behind.
 *
 * A record is a byte for its kind, a byte for its length, and its bytes.  Bit 0: a segment, whose
 * sequence number follows in two bytes; otherwise a frame.
 */
#include "../../tools/trace/sniff_heads.c"
#include "../../tools/trace/sniff_lines.c"
#include "../../tools/trace/sniff_packet.c"
#include "fuzz.h"

static uint64_t told;

static void tell(void *arg, const struct line *line)
{
    (void)arg;
    promise(line->text.len >= 12 && line->text.len < HEAD_BYTES_MAX + 65536);
    promise(!memchr(line->text.ptr, '\n', line->text.len));
    told++;
}

static void frame(struct lines *l, unsigned how, char *bytes, uint32_t n, uint64_t ns)
{
    struct frame f = {.bytes = (const uint8_t *)bytes, .n = n, .wire = how & 2 ? n + 100 : n,
                      .link = how & 4 ? LINK_NONE : LINK_ETHER, .tag = how >> 4};
    struct tcp_segment seg;

    if (packet_read(&f, &seg) != PACKET_TCP)
        return;
    promise(seg.kept <= seg.len && seg.payload >= bytes && seg.payload + seg.kept <= bytes + n);
    lines_segment(l, &seg, ns);
}

static void segment(struct lines *l, unsigned how, const char *bytes, uint32_t n, uint64_t ns)
{
    struct endpoint a = {.port = 1}, b = {.port = 80};
    struct tcp_segment seg = {.from = how & 2 ? a : b, .to = how & 2 ? b : a, .flags = how >> 5,
                              .payload = bytes + 2, .kept = n - 2,
                              .len = n - 2 + (how & 4 ? 7 : 0)};

    seg.seq = (uint32_t)((uint8_t)bytes[0] << 8 | (uint8_t)bytes[1]);
    if (how & 8)
        seg.seq = seg.seq << 16;
    lines_segment(l, &seg, ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct lines lines;
    uint64_t ns = 1;

    promise(lines_init(&lines, 7, tell, NULL) == 0);
    told = 0;
    while (n > 2) {
        unsigned how = bytes[0];
        uint32_t len = bytes[1];
        char *copy;

        bytes += 2;
        n -= 2;
        len = len < n ? len : (uint32_t)n;
        copy = hard_copy(bytes, len);
        if (how & 1 && len >= 2)
            segment(&lines, how, copy, len, ns);
        else
            frame(&lines, how, copy, len, ns);
        free(copy);
        bytes += len;
        n -= len;
        ns += how & 16 ? HOLE_NS : 1;
        lines_tick(&lines, ns);
        promise(lines.bytes <= LINES_BYTES_MAX);
    }
    lines_end(&lines);
    promise(lines.bytes == 0 && lines.holes == 0 && lines.counts.lines == told);
    return 0;
}
