/* SPDX-License-Identifier: MIT */
/* h2.h - HTTP/2 as a protocol of the waist.
 *
 *   engine, pump          see the session's connection; none of them knows what is spoken
 *        |                (with TLS, whose inner connection is the next)
 *   connection            its protocol is h2: frames
 *        |   h2.c
 *   a connection for      its protocol is http_proto, which knows nothing of this: it is fed the
 *   each stream           request as text, and its answer becomes frames
 *
 *   h2.c           the protocol: receiving, making and sending; deadlines; the end
 *   h2_request.c   fields become a request's text; bodies are counted and thrown away
 *   h2_body.c      bodies that are kept: --upload
 *   h2_answer.c    the answer's text becomes fields, its body DATA frames
 *   h2_stream.c    how streams end, and what may still come for them
 *   h2_frames.c    bounds: frames that bring nothing, header blocks that do not end
 *   h2_absent.c    takes the place of the first five where the library's header is not installed
 *
 * The library (nghttp2) does frames, HPACK, windows and priorities; it never sees a socket.
 */
#ifndef SERVER_H2_H
#define SERVER_H2_H
#include "../core/conn.h"

/* RFC 9113 3.4: the first bytes of a client. */
#define H2_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

/* NULL: this program was built without the library. */
const struct conn_proto *h2_protocol(void);

#endif
