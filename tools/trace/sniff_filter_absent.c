/* SPDX-License-Identifier: MIT */
/* sniff_filter_absent.c - takes the place of sniff_filter.c where rung was built without clang or
 * libbpf. */
#include <errno.h>
#include "sniff.h"

int filter_load(unsigned port, unsigned link, bool loopback, int *code)
{
    (void)port;
    (void)link;
    (void)loopback;
    say_error("this rung was built without clang or libbpf, so it cannot sniff: apt-get install "
              "clang libbpf-dev, then make all");
    *code = EXIT_MISSING;
    return -EOPNOTSUPP;
}
