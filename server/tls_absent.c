/* SPDX-License-Identifier: MIT */
/* tls_absent.c - stands for tls_store.c and tls_openssl.c where OpenSSL's header is not
 * installed. */
#include "../base/say.h"
#include "tls.h"

int tls_open(struct tls_setup **setup, const struct tls_pairs *pairs, struct tls_offer offer)
{
    (void)offer;
    (void)setup;
    (void)pairs;
    say_error("--tls: this program was built without TLS; install libssl-dev and build it again");
    return EXIT_MISSING;
}

void tls_reload(struct tls_setup *setup)
{
    (void)setup;
}

void tls_close(struct tls_setup *setup)
{
    (void)setup;
}

const char *tls_library(void)
{
    return NULL;
}
