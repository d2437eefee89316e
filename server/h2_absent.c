/* SPDX-License-Identifier: MIT */
/* h2_absent.c - takes the place of h2.c where nghttp2's header is not installed: HTTP/2 is not
 * offered. */
#include <stddef.h>
#include "h2.h"

const struct conn_proto *h2_protocol(void)
{
    return NULL;
}
