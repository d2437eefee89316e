/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* limits.h - every limit of the core, with its reason.  Names say the unit.
 *
 * A limit belongs to the message, never to the buffer: the same bytes cut differently are judged
 * alike.
 */
#ifndef CORE_LIMITS_H
#define CORE_LIMITS_H

enum {
    /* One receive.  Fits what a loopback or LAN peer sends in one go; the scratch buffer of a
     * loop. */
    RECV_BYTES_MAX = 16384,

    /* Request line and fields with their line ends, up to and with the empty line.  RFC 9110 2.3
     * asks for no number; common servers take 8 KiB per line, so a head of cookies still fits in
     * 16 KiB.  A longer head gets 431. */
    HEAD_BYTES_MAX = 16384,

    /* A head that is kept with what it means (http_recent.c): browsers and load generators without
     * cookies send fewer bytes. */
    RECENT_BYTES_MAX = 1024,

    /* How many heads are kept, as a power of two: those of a few clients that alternate. */
    RECENT_LOG = 4,

    /* The request target; a longer one gets 414.  RFC 9110 4.1 recommends at least 8000 octets. */
    TARGET_BYTES_MAX = 8192,

    /* A method's name; a longer one gets 501.  The longest registered one has 17 letters
     * (UPDATEREDIRECTREF). */
    METHOD_BYTES_MAX = 32,

    /* Fields in a head; more get 431.  Browsers send about twenty. */
    HEAD_FIELDS_MAX = 100,

    /* A path after decoding; Linux's PATH_MAX with its NUL. */
    PATH_BYTES_MAX = 4096,

    /* A name in a directory: Linux's NAME_MAX. */
    NAME_BYTES_MAX = 255,

    /* A request body is read only to find the next request.  This is what hosts allow by default:
     * max_body in options.def.  A longer one gets 413. */
    BODY_BYTES_MAX = 1 << 20,

    /* Chunk-size line with its extensions, and all trailer fields together (Go CVE-2023-39326:
     * bound both). */
    CHUNK_LINE_BYTES_MAX = 256,
    TRAILER_BYTES_MAX = 8192,

    /* All chunk lines of a body together, beyond what its bytes justify: 16 a chunk plus this. */
    CHUNK_OVERHEAD_BYTES_MAX = 16384,

    /* Ranges answered in one response.  More is a 200 with everything (RFC 9110 14.2: a server
     * may ignore). */
    RANGES_MAX = 16,

    /* A Content-Type, which is from our own table. */
    TYPE_BYTES_MAX = 256,

    /* The smallest file that is compressed on the fly: a smaller one leaves in one packet with its
     * head either way.  The coded body is kept if it saves one eighth of the file: below that,
     * decoding costs the client more than the bytes that are saved.  The values are the same for
     * the module and user space. */
    COMPRESS_BYTES_MIN = 512,
    COMPRESS_SAVES_PART = 8,

    /* Fields of an answer's head that the host writes (host->fields): those of its options, of
     * which a security policy is the longest, and Server-Timing. */
    HOST_FIELDS_BYTES_MAX = 1280,

    /* What one answer's head may need: a Location whose path is PATH_BYTES_MAX, each byte as
     * %XX, and the rest. */
    REPLY_HEAD_BYTES_MAX = 3 * PATH_BYTES_MAX + 2048,

    /* Heads and short bodies that wait to be sent.  Another answer is queued while there is room
     * for a head of REPLY_HEAD_BYTES_MAX: two at least, and sixteen with bodies of 1 KiB, as many
     * as clients that pipeline like to ask for.  The send queue fits in 64 KiB. */
    OUTQ_BYTES = 35840,

    /* A partial head and one receive: both fit, so nothing is ever cut. */
    INQ_BYTES = HEAD_BYTES_MAX + RECV_BYTES_MAX,

    /* A body in memory that is copied behind its head, so that both leave as one piece and the
     * source is given back at once.  Measured: a page is copied in less time than a second piece
     * and a reference held meanwhile cost; a larger body is better left where it is. */
    JOINED_BYTES_MAX = 4096,

    /* Segments of a send queue: thirty short answers, or half as many whose bodies lie
     * elsewhere. */
    OUT_SEGMENTS_MAX = 32,

    /* One chunk of a generated body: its payload. */
    CHUNK_BYTES_MAX = 8192,

    /* Bytes moved by one conn_pump() before others get their turn. */
    PUMP_BYTES_MAX = 1 << 20,

    /* ... and transfers moved by it: small answers are many transfers of a few bytes.  A hundred
     * pipelined requests need fewer. */
    PUMP_CALLS_MAX = 16,

    /* One transfer of a file range, so that a deadline is seen between two of them. */
    TRANSFER_BYTES_MAX = 256 * 1024,

    /* After the last answer (RFC 9112 9.6): input that is discarded before the connection is
     * closed, and how long that may take. */
    LINGER_BYTES_MAX = 1 << 20,
    LINGER_MS = 2000,
};

#endif
