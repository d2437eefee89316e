/* SPDX-License-Identifier: MIT */
/* tls_absent.c - takes the place of tls.c where OpenSSL's header is not installed: no context is
 * ever made, and so no connection by TLS. */
#include "../../base/say.h"
#include "tls.h"

int tls_open(struct tls_context **context, const struct plan *p)
{
    (void)p;
    *context = NULL;
    say_error("https: this program was built without TLS; install libssl-dev and build it again");
    return EXIT_MISSING;
}

void tls_close(struct tls_context *context)
{
    (void)context;
}

struct tls *tls_begin(struct tls_context *context, const struct plan *p, unsigned peer)
{
    (void)context;
    (void)p;
    (void)peer;
    return NULL;
}

void tls_end(struct tls *tls)
{
    (void)tls;
}

long tls_hear(struct tls *tls, struct slice *in, struct bytes *out, char *plain)
{
    (void)tls;
    (void)in;
    (void)out;
    (void)plain;
    return TLS_FAILED;
}

bool tls_speak(struct tls *tls, struct slice plain, struct bytes *out)
{
    (void)tls;
    (void)plain;
    (void)out;
    return false;
}

void tls_shut(struct tls *tls, struct bytes *out)
{
    (void)tls;
    (void)out;
}

bool tls_done(const struct tls *tls)
{
    (void)tls;
    return false;
}

void tls_describe(const struct tls *tls, struct tls_facts *facts)
{
    (void)tls;
    *facts = (struct tls_facts){0};
}

enum fault tls_why(const struct tls *tls, char why[TLS_WHY_BYTES])
{
    (void)tls;
    why[0] = 0;
    return FAULT_TLS_FAILED;
}
