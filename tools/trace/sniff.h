/* SPDX-License-Identifier: MIT */
/* sniff.h - what the files of rung trace sniff share: the first lines of HTTP messages that pass
 * an interface.
 *
 * A program in the kernel (sniff.bpf.c) picks TCP packets that have bytes, or begin or end a
 * connection.  sniff_packet.c reads one, sniff_lines.c puts the bytes of each direction in order
 * and finds the first line of each message, sniff.c prints it.
 *
 *   sniff_socket.c   the socket and its buffers    sniff_filter.c   loads the program
 *
 * sniff_filter_absent.c takes the place of sniff_filter.c where the build has no clang or no
 * libbpf.
 */
#ifndef TOOLS_SNIFF_H
#define TOOLS_SNIFF_H
#include "../../base/option.h"
#include "../../base/say.h"
#include "../../core/http.h"

struct sniff_options {
#define X(kind, field, ...) OPTION_FIELD_##kind field;
#include "sniff.def"
#undef X
};

const struct option_table *sniff_table(void);
/* rung trace sniff: argv[0] is that word.  An exit code. */
int sniff_main(char **argv);

/* --- sniff_packet.c: pure --------------------------------------------------------------------- */

enum {
    LINK_ETHER = 14, /* bytes before the network's header */
    LINK_NONE = 0,   /* tunnels: the packet begins with it */
    VLAN_TAGS_MAX = 2,
    EXTENSIONS_MAX = 8 /* headers of IPv6 before TCP */
};

/* IPv4 as ::ffff:1.2.3.4. */
struct endpoint {
    uint8_t address[16];
    uint16_t port;
};

enum segment_flag { SEGMENT_FIN = 1, SEGMENT_SYN = 2, SEGMENT_RST = 4 };

struct tcp_segment {
    struct endpoint from, to;
    uint64_t vlan;        /* its tags, 12 bits each, the inner one lowest; 0: none */
    uint32_t seq;
    uint8_t flags;        /* SEGMENT_ */
    const char *payload;
    uint32_t len, kept;   /* bytes of the payload, and those of them that can be read */
};

enum packet_kind {
    PACKET_TCP,
    PACKET_OTHER,
    PACKET_FRAGMENT, /* a part of an IP packet: these are not put together */
    PACKET_BROKEN    /* its lengths contradict each other */
};

struct frame {
    const uint8_t *bytes;
    uint32_t n, wire; /* bytes that can be read, and bytes on the wire */
    unsigned link;    /* LINK_ */
    unsigned tag;     /* the VLAN tag that the kernel took off the frame; 0: none */
    uint64_t ns;      /* since 1970 */
};

/* seg is filled for PACKET_TCP, and lives as long as the frame's bytes. */
enum packet_kind packet_read(const struct frame *f, struct tcp_segment *seg);
/* "127.0.0.1:80", "[::1]:80" */
enum { ENDPOINT_TEXT = 64 };
void endpoint_text(const struct endpoint *e, char text[ENDPOINT_TEXT]);

/* --- sniff_lines.c: pure ---------------------------------------------------------------------- */

enum {
    TALKS_MAX = 16384,           /* connections that are followed; some 6 MB */
    LINES_BYTES_MAX = 16 << 20,  /* heads that are not whole and packets that came too early */
    HELD_MAX = 64,               /* such packets of one stream */
    HOLE_NS = 1000000000,        /* how long to wait for a missing packet */
    ASKED_MAX = 32               /* requests of a connection whose answers have not been seen */
};

struct line {
    uint64_t ns; /* when the packet passed that completes it */
    const struct endpoint *from, *to;
    struct slice text; /* without its line end; any bytes */
};

struct lines_counts {
    uint64_t lines;
    uint64_t gaps;      /* places where bytes were not seen, and heads may have been among them */
    uint64_t crowded;   /* connections and heads beyond the limits above */
    uint64_t longer;    /* first lines of more than HEAD_BYTES_MAX */
};

struct talk; /* a connection */

struct lines {
    void (*tell)(void *arg, const struct line *line);
    void *arg;
    struct lines_counts counts;
    uint64_t seed;
    size_t bytes;       /* held, of LINES_BYTES_MAX */
    unsigned used;      /* of talk[] */
    unsigned holes;     /* streams that wait for a packet */
    struct talk *talk, **chain;
    struct talk_list { /* the one that was quiet longest first */
        struct talk *first, *last;
    } idle, busy; /* idle: over, or nothing was sent yet */
};

/* seed: any number that strangers do not know.  0 or -ENOMEM. */
int lines_init(struct lines *l, uint64_t seed, void (*tell)(void *, const struct line *),
               void *arg);
void lines_segment(struct lines *l, const struct tcp_segment *seg, uint64_t ns);
/* Time has passed: stops waiting for packets that have been missing for HOLE_NS. */
void lines_tick(struct lines *l, uint64_t ns);
/* Takes the held packets as they are, and frees all memory. */
void lines_end(struct lines *l);

/* --- sniff_filter.c --------------------------------------------------------------------------- */

/* Loads the program for a socket: its descriptor, or -errno after a message; code is the exit
 * code. */
int filter_load(unsigned port, unsigned link, bool loopback, int *code);

/* --- sniff_socket.c --------------------------------------------------------------------------- */

struct tap;

/* 0, or an exit code after a message. */
int tap_open(struct tap **to, const struct sniff_options *opt);
/* Gives the frames that are there to take(), and waits up to wait_ms for the first.  Returns how
 * many, or -errno. */
int tap_read(struct tap *t, int wait_ms, void (*take)(void *, const struct frame *), void *arg);
/* Packets that did not fit the buffer, since it was opened. */
uint64_t tap_dropped(struct tap *t);
void tap_close(struct tap *t);

#endif
