/* SPDX-License-Identifier: MIT */
/* proxy_header.h - the header that a proxy sends first, with the address of its client: the PROXY
 * protocol, versions 1 and 2 (https://www.haproxy.org/download/2.8/doc/proxy-protocol.txt).
 */
#ifndef BASE_PROXY_HEADER_H
#define BASE_PROXY_HEADER_H
#include "address.h"

enum {
    PROXY_V1_BYTES_MAX = 107,  /* with the CRLF: 2.1 of the specification */
    /* Addresses take 216 bytes at most; the rest are the proxy's remarks (TLVs), of which a
     * certificate's name is a long one. */
    PROXY_V2_BYTES_MAX = 4096
};

/* The header at the start of bytes[0..n).  > 0: its length, and *source is the client's address;
 * with ADDRESS_NONE the proxy speaks for itself, or the connection is not TCP over IP.  0: more is
 * needed.  -EPROTO: this is no header, whatever follows. */
long proxy_header_parse(const char *bytes, size_t n, struct address *source);

#endif
