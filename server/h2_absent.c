/* SPDX-License-Identifier: MIT */
/* h2_absent.c - stands for HTTP/2 where nghttp2's header is not installed: it is not offered. */
#include <stddef.h>
#include "h2.h"

const struct conn_proto *h2_protocol(void)
{
    return NULL;
}
