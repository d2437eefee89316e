/* SPDX-License-Identifier: MIT */
/* tls_verify.c - clients must have a certificate from one of certain authorities.
 *
 * The file's certificates are what a client's chain has to lead to: a root, or an authority below
 * one.  They are used for that alone; a server's own chain is not completed by them.
 *
 * A client that resumes a session is not verified again, and could resume for ever.  So a session
 * belongs to the authorities that it was made under, and ends when the first certificate of the
 * client's chain expires.  Otherwise it is not resumed, and the client has to show a certificate
 * again.
 */
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "../base/escape.h"
#include "tls_set.h"

enum { NAME_TEXT = 200 }; /* of a certificate's owner, in a message */

/* --- Authorities ------------------------------------------------------------------------------ */

struct authorities {
    int count;
    size_t names_bytes;
    X509_STORE *store;
    STACK_OF(X509_NAME) *names; /* sent to clients, which choose a certificate by them */
    EVP_MD_CTX *digest;
};

static bool open_all(struct authorities *a)
{
    *a = (struct authorities){.store = X509_STORE_new(), .names = sk_X509_NAME_new_null(),
                              .digest = EVP_MD_CTX_new()};
    return a->store && a->names && a->digest &&
           EVP_DigestInit_ex(a->digest, EVP_sha256(), NULL) == 1 &&
           X509_STORE_set_flags(a->store, X509_V_FLAG_PARTIAL_CHAIN) == 1;
}

static void close_all(struct authorities *a)
{
    X509_STORE_free(a->store);
    sk_X509_NAME_pop_free(a->names, X509_NAME_free);
    EVP_MD_CTX_free(a->digest);
}

static bool add(struct authorities *a, X509 *cert)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    X509_NAME *name = X509_NAME_dup(X509_get_subject_name(cert));
    unsigned n;

    if (!name || !sk_X509_NAME_push(a->names, name)) {
        X509_NAME_free(name);
        return false;
    }
    a->count++;
    a->names_bytes += 2 + (size_t)i2d_X509_NAME(name, NULL);
    return X509_digest(cert, EVP_sha256(), digest, &n) == 1 &&
           EVP_DigestUpdate(a->digest, digest, n) == 1 && X509_STORE_add_cert(a->store, cert) == 1;
}

/* Whether reading has ended because there is nothing more. */
static bool is_end(void)
{
    unsigned long err = ERR_peek_last_error();

    return ERR_GET_LIB(err) == ERR_LIB_PEM && ERR_GET_REASON(err) == PEM_R_NO_START_LINE;
}

/* As verify_clients(). */
static int load(struct authorities *a, const char *path)
{
    BIO *file = BIO_new_file(path, "r");
    bool fine = file != NULL;
    X509 *cert;
    int bad = 0;

    while (fine && (cert = PEM_read_bio_X509(file, NULL, NULL, NULL)) != NULL) {
        fine = add(a, cert);
        X509_free(cert);
    }
    if (fine && !is_end())
        bad = a->count + 1;
    fine = fine && a->count > 0;
    BIO_free(file);
    if (bad)
        return bad;
    if (!fine)
        return CLIENT_CA_UNUSABLE;
    return a->names_bytes > CLIENT_NAMES_BYTES_MAX ? CLIENT_CA_NAMES : 0;
}

/* --- Sessions --------------------------------------------------------------------------------- */

/* When the first certificate of the chain expires; 0: it is not known. */
static int64_t first_end(const STACK_OF(X509) *chain)
{
    int64_t first = INT64_MAX;
    struct tm tm;

    for (int i = 0; i < sk_X509_num(chain); i++) {
        const ASN1_TIME *end = X509_get0_notAfter(sk_X509_value(chain, i));
        int64_t until = ASN1_TIME_to_tm(end, &tm) == 1 ? timegm(&tm) : 0;

        first = until < first ? until : first;
    }
    return sk_X509_num(chain) > 0 ? first : 0;
}

/* A session goes into a ticket with its end.  One that was resumed has it already, and there is no
 * chain then. */
static int keep_end(SSL *ssl, void *arg)
{
    int64_t until;

    (void)arg;
    if (SSL_session_reused(ssl))
        return 1;
    until = first_end(SSL_get0_verified_chain(ssl));
    return SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), &until, sizeof(until));
}

static bool has_ended(SSL_SESSION *session)
{
    int64_t until;
    void *data;
    size_t n;

    if (SSL_SESSION_get0_ticket_appdata(session, &data, &n) != 1 || n != sizeof(until))
        return true;
    memcpy(&until, data, sizeof(until));
    return time(NULL) >= until;
}

/* Whether a session that a ticket holds is resumed. */
static SSL_TICKET_RETURN judge(SSL *ssl, SSL_SESSION *session, const unsigned char *key_name,
                               size_t key_name_len, SSL_TICKET_STATUS status, void *arg)
{
    bool fine = status == SSL_TICKET_SUCCESS || status == SSL_TICKET_SUCCESS_RENEW;

    (void)ssl;
    (void)key_name;
    (void)key_name_len;
    (void)arg;
    if (status == SSL_TICKET_FATAL_ERR_MALLOC || status == SSL_TICKET_FATAL_ERR_OTHER)
        return SSL_TICKET_RETURN_ABORT;
    if (!fine || !SSL_SESSION_get0_peer(session) || has_ended(session))
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
}

/* --- Clients that are refused ----------------------------------------------------------------- */

/* What the certificate says of its owner, which is the client's word. */
static void owner_text(X509 *cert, char text[NAME_TEXT])
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *bytes = NULL;
    long n = 0;

    if (bio && X509_NAME_print_ex(bio, X509_get_subject_name(cert), 0, XN_FLAG_RFC2253) >= 0)
        n = BIO_get_mem_data(bio, &bytes);
    escape_quoted(text, NAME_TEXT, (struct slice){bytes, n > 0 ? (size_t)n : 0});
    BIO_free(bio);
}

bool client_fault(SSL *ssl, char text[TLS_FAULT_TEXT])
{
    STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl); /* as far as it was found */
    long why = SSL_get_verify_result(ssl);
    bool none = ERR_GET_REASON(ERR_peek_error()) == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE;
    char owner[NAME_TEXT] = "";

    if (!none && why == X509_V_OK)
        return false;
    if (!none && sk_X509_num(chain) > 0)
        owner_text(sk_X509_value(chain, 0), owner);
    snprintf(text, TLS_FAULT_TEXT, "%s%s%s%s",
             none ? "no certificate" : X509_verify_cert_error_string(why), *owner ? " (" : "",
             owner, *owner ? ")" : "");
    return true;
}

/* --- The whole -------------------------------------------------------------------------------- */

static bool require(SSL_CTX *ctx, const struct authorities *a,
                    const unsigned char digest[EVP_MAX_MD_SIZE], unsigned n)
{
    STACK_OF(X509_NAME) *names = SSL_dup_CA_list(a->names);

    if (!names)
        return false;
    SSL_CTX_set_client_CA_list(ctx, names);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return SSL_CTX_set_session_ticket_cb(ctx, keep_end, judge, NULL) == 1 &&
           SSL_CTX_set1_verify_cert_store(ctx, a->store) == 1 &&
           SSL_CTX_set_session_id_context(ctx, digest, n) == 1;
}

int verify_clients(struct set *s, const char *path)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    struct authorities a;
    unsigned n = 0;
    int err;

    ERR_clear_error();
    err = open_all(&a) ? load(&a, path) : CLIENT_CA_UNUSABLE;
    if (!err && EVP_DigestFinal_ex(a.digest, digest, &n) != 1)
        err = CLIENT_CA_UNUSABLE;
    for (unsigned i = 0; i < s->count && !err; i++)
        err = require(s->ctx[i], &a, digest, n) ? 0 : CLIENT_CA_UNUSABLE;
    close_all(&a);
    if (!err)
        ERR_clear_error(); /* the end of the file is one */
    return err;
}
