/* SPDX-License-Identifier: MIT */
/* tls_ocsp.c - OCSP stapling: an authority's statement about a certificate, sent with the
 * handshake.
 *
 * The response is a file next to the certificate, CERT.ocsp, which another program renews; rung
 * asks no responder.  A response that a client would not accept does more harm than none, so it is
 * checked as a client would check it: signature, certificate, status and times (RFC 6960 3.2).  One
 * that becomes stale later is not sent any more.
 *
 * A response is attached to the SSL_CTX of its certificate, and is freed with it.
 */
#include <errno.h>
#include <openssl/ocsp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "../base/say.h"
#include "tls_memory.h"
#include "tls_set.h"

enum { PATH_TEXT = 4096, SKEW_S = 300 /* between the responder's clock and ours */ };

struct staple {
    time_t until;
    atomic_bool stale; /* which was said */
    int len;
    unsigned char *response;
    char path[];
};

/* --- The response is sent --------------------------------------------------------------------- */

static int send_staple(SSL *ssl, void *arg)
{
    struct staple *st = arg;
    unsigned char *copy;

    if (time(NULL) >= st->until) {
        if (!atomic_exchange(&st->stale, true))
            say_error("--tls: %s has become stale and is not sent any more; renew it, then send "
                      "SIGHUP", st->path);
        return SSL_TLSEXT_ERR_NOACK;
    }
    copy = OPENSSL_memdup(st->response, (size_t)st->len);
    if (!copy)
        return SSL_TLSEXT_ERR_NOACK;
    SSL_set_tlsext_status_ocsp_resp(ssl, copy, st->len); /* which frees it */
    return SSL_TLSEXT_ERR_OK;
}

static void free_staple(void *parent, void *ptr, CRYPTO_EX_DATA *data, int index, long n, void *p)
{
    struct staple *st = ptr;

    (void)parent;
    (void)data;
    (void)index;
    (void)n;
    (void)p;
    if (st)
        OPENSSL_free(st->response);
    free(st);
}

/* --- The response is judged ------------------------------------------------------------------- */

/* Among the certificates of the file, or the certificate itself; NULL: it is not there. */
static X509 *issuer_of(SSL_CTX *ctx, X509 *cert)
{
    STACK_OF(X509) *chain = NULL;

    SSL_CTX_get0_chain_certs(ctx, &chain);
    for (int i = 0; i < sk_X509_num(chain); i++)
        if (X509_check_issued(sk_X509_value(chain, i), cert) == X509_V_OK)
            return sk_X509_value(chain, i);
    return X509_check_issued(cert, cert) == X509_V_OK ? cert : NULL;
}

/* By the issuer, or by a responder whose certificate the issuer has made and the response has. */
static bool is_signed(OCSP_BASICRESP *basic, X509 *issuer)
{
    STACK_OF(X509) *signers = sk_X509_new_null();
    X509_STORE *trusted = X509_STORE_new();
    bool good = trusted && signers && sk_X509_push(signers, issuer) &&
                X509_STORE_add_cert(trusted, issuer) &&
                X509_STORE_set_flags(trusted, X509_V_FLAG_PARTIAL_CHAIN) &&
                OCSP_basic_verify(basic, signers, trusted, 0) == 1;

    sk_X509_free(signers);
    X509_STORE_free(trusted);
    return good;
}

/* Whether an entry is about that certificate, by the digest algorithm that the entry uses. */
static bool is_about(OCSP_SINGLERESP *entry, X509 *cert, X509 *issuer)
{
    const OCSP_CERTID *id = OCSP_SINGLERESP_get0_id(entry);
    ASN1_OBJECT *digest = NULL;
    OCSP_CERTID *own;
    bool same;

    OCSP_id_get0_info(NULL, &digest, NULL, NULL, (OCSP_CERTID *)(uintptr_t)id);
    own = OCSP_cert_to_id(EVP_get_digestbyobj(digest), cert, issuer);
    same = own && OCSP_id_cmp(id, own) == 0;
    OCSP_CERTID_free(own);
    return same;
}

/* Why the entry is of no use, or NULL. */
static const char *entry_fault(OCSP_SINGLERESP *entry, time_t *until)
{
    ASN1_GENERALIZEDTIME *from, *to;
    struct tm tm;

    if (OCSP_single_get0_status(entry, NULL, NULL, &from, &to) != V_OCSP_CERTSTATUS_GOOD)
        return "it does not say that the certificate is good";
    if (!to || !ASN1_TIME_to_tm(to, &tm))
        return "it does not say how long it holds";
    *until = timegm(&tm);
    if (!OCSP_check_validity(from, to, SKEW_S, -1) || time(NULL) >= *until)
        return "it is stale, or not valid yet";
    return NULL;
}

static const char *basic_fault(OCSP_BASICRESP *basic, SSL_CTX *ctx, time_t *until)
{
    X509 *cert = SSL_CTX_get0_certificate(ctx), *issuer = issuer_of(ctx, cert);

    if (!issuer)
        return "the certificate's file lacks the certificate of its issuer";
    for (int i = 0; i < OCSP_resp_count(basic); i++) {
        OCSP_SINGLERESP *entry = OCSP_resp_get0(basic, i);

        if (!is_about(entry, cert, issuer))
            continue;
        return is_signed(basic, issuer) ? entry_fault(entry, until)
                                        : "the certificate's issuer has not signed it";
    }
    return "it is about another certificate";
}

static const char *fault(OCSP_RESPONSE *response, SSL_CTX *ctx, time_t *until)
{
    OCSP_BASICRESP *basic;
    const char *why;

    if (!response)
        return "it is no OCSP response in DER";
    if (OCSP_response_status(response) != OCSP_RESPONSE_STATUS_SUCCESSFUL)
        return "the responder has answered with an error";
    basic = OCSP_response_get1_basic(response);
    if (!basic)
        return "it is a response of an unknown kind";
    why = basic_fault(basic, ctx, until);
    OCSP_BASICRESP_free(basic);
    return why;
}

/* --- The file --------------------------------------------------------------------------------- */

/* Keeps the response for the handshakes of that context.  False: no memory. */
static bool keep(SSL_CTX *ctx, OCSP_RESPONSE *response, const char *path, time_t until)
{
    static int index = -1; /* certificates are read by one thread at a time */
    struct staple *st = calloc(1, sizeof(*st) + strlen(path) + 1);

    if (index < 0)
        index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, free_staple);
    if (!st || index < 0) {
        free(st);
        return false;
    }
    memcpy(st->path, path, strlen(path) + 1);
    st->until = until;
    st->len = i2d_OCSP_RESPONSE(response, &st->response);
    if (st->len <= 0 || !SSL_CTX_set_ex_data(ctx, index, st)) {
        free_staple(NULL, st, NULL, 0, 0, NULL);
        return false;
    }
    SSL_CTX_set_tlsext_status_cb(ctx, send_staple);
    SSL_CTX_set_tlsext_status_arg(ctx, st);
    return true;
}

void ocsp_load(SSL_CTX *ctx, const char *cert)
{
    OCSP_RESPONSE *response;
    char path[PATH_TEXT];
    time_t until = 0;
    const char *why;
    FILE *file;
    int n = snprintf(path, sizeof(path), "%s.ocsp", cert);

    if (n < 0 || (size_t)n >= sizeof(path))
        return;
    file = fopen(path, "rbe");
    if (!file) {
        if (errno != ENOENT)
            say_error("--tls: %s is not sent to clients: %s", path, say_why(errno));
        return;
    }
    response = ASN1_item_d2i_fp(ASN1_ITEM_rptr(OCSP_RESPONSE), file, NULL);
    why = fault(response, ctx, &until);
    if (!why && !keep(ctx, response, path, until))
        why = "no memory";
    if (why && !tls_memory_lacked()) /* which tls_store.c reports */
        say_error("--tls: %s is not sent to clients: %s", path, why);
    OCSP_RESPONSE_free(response);
    fclose(file);
}
