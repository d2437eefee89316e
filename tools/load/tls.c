/* SPDX-License-Identifier: MIT */
/* tls.c - TLS on the client's side by OpenSSL.
 *
 * A BIO is OpenSSL's idea of a transport.  Ours reads from the received bytes of the current call
 * and appends to what waits for the socket.  It does not read ahead, so one read takes one record,
 * and nothing that was decrypted ever waits in the library.
 *
 * OpenSSL queues errors for each thread.  A queue that is not empty makes the next failure look
 * like an older one, of another connection: it is cleared before each call.
 */
#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include "../../base/say.h"
#include "tls.h"

enum { ALERTS = SSL_AD_REASON_OFFSET /* reasons from here on are alerts that were received */ };

struct tls_context {
    SSL_CTX *ctx;
    BIO_METHOD *method;
    bool resumes;
    unsigned peers;
    SSL_SESSION *newest[]; /* of each peer, or NULL */
};

struct tls {
    struct tls_context *context;
    SSL *ssl;
    unsigned peer;
    struct slice *in; /* of the current call */
    struct bytes *out;
    int error;        /* of SSL_get_error() */
    unsigned long reason;
};

/* --- The transport ---------------------------------------------------------------------------- */

static int bio_read(BIO *bio, char *buf, int cap)
{
    struct slice *in = ((struct tls *)BIO_get_data(bio))->in;
    size_t n = !in ? 0 : in->len < (size_t)cap ? in->len : (size_t)cap;

    BIO_clear_retry_flags(bio);
    if (!n) {
        BIO_set_retry_read(bio);
        return -1;
    }
    memcpy(buf, in->ptr, n);
    in->ptr += n;
    in->len -= n;
    return (int)n;
}

static int bio_write(BIO *bio, const char *buf, int len)
{
    struct tls *tls = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    return bytes_add(tls->out, buf, (size_t)len) ? len : -1;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH; /* nothing is buffered; of the rest we know nothing */
}

/* --- What connections share ------------------------------------------------------------------- */

/* The server has sent a ticket; 1: the session is ours now. */
static int keep_session(SSL *ssl, SSL_SESSION *session)
{
    struct tls *tls = SSL_get_app_data(ssl);
    SSL_SESSION **newest = &tls->context->newest[tls->peer];

    SSL_SESSION_free(*newest);
    *newest = session;
    return 1;
}

static void set_up(struct tls_context *c, bool h2)
{
    static const unsigned char names[] = "\2h2\10http/1.1";
    const unsigned without = h2 ? 0 : 3;

    SSL_CTX_set_min_proto_version(c->ctx, TLS1_2_VERSION);
    SSL_CTX_set_mode(c->ctx, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(c->ctx, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_alpn_protos(c->ctx, names + without, sizeof(names) - 1 - without);
    SSL_CTX_set_session_cache_mode(c->ctx, c->resumes
                                   ? SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL
                                   : SSL_SESS_CACHE_OFF);
    if (c->resumes)
        SSL_CTX_sess_set_new_cb(c->ctx, keep_session);
}

int tls_open(struct tls_context **context, const struct plan *p)
{
    struct tls_context *c = calloc(1, sizeof(*c) + p->peers * sizeof(c->newest[0]));
    const char *file = p->opt->cacert;

    *context = c;
    if (!c)
        return EXIT_FAILED;
    c->resumes = p->opt->resume;
    c->peers = p->peers;
    c->ctx = SSL_CTX_new(TLS_client_method());
    c->method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "rung load");
    if (!c->ctx || !c->method || !BIO_meth_set_read(c->method, bio_read) ||
        !BIO_meth_set_write(c->method, bio_write) || !BIO_meth_set_ctrl(c->method, bio_ctrl))
        return EXIT_FAILED;
    set_up(c, p->opt->http2);
    if (!file)
        return 0;
    ERR_clear_error();
    SSL_CTX_set_verify(c->ctx, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_load_verify_file(c->ctx, file) == 1)
        return 0;
    say_error("--cacert: cannot read certificates in PEM from %s: %s", file,
              ERR_reason_error_string(ERR_peek_last_error()));
    return EXIT_USAGE;
}

void tls_close(struct tls_context *c)
{
    if (!c)
        return;
    for (unsigned i = 0; i < c->peers; i++)
        SSL_SESSION_free(c->newest[i]);
    SSL_CTX_free(c->ctx);
    BIO_meth_free(c->method);
    free(c);
}

/* --- A connection ----------------------------------------------------------------------------- */

/* Names the server: in the hello unless the name is an address (RFC 6066 3), and for what its
 * certificate must say. */
static bool name_peer(SSL *ssl, const char *host)
{
    unsigned char address[16];
    bool numeric = inet_pton(AF_INET, host, address) == 1 ||
                   inet_pton(AF_INET6, host, address) == 1;

    if (numeric)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    return SSL_set_tlsext_host_name(ssl, host) == 1 && SSL_set1_host(ssl, host) == 1;
}

/* Resumes with the newest ticket.  It uses a copy, because the library uses a ticket of TLS 1.3
 * only once, and some servers send no other one after that. */
static void resume(SSL *ssl, SSL_SESSION *newest)
{
    SSL_SESSION *copy = newest ? SSL_SESSION_dup(newest) : NULL;

    if (copy)
        SSL_set_session(ssl, copy);
    SSL_SESSION_free(copy);
}

struct tls *tls_begin(struct tls_context *context, const struct plan *p, unsigned peer)
{
    struct tls *tls = calloc(1, sizeof(*tls));
    BIO *bio = BIO_new(context->method);

    ERR_clear_error();
    if (tls)
        *tls = (struct tls){.context = context, .peer = peer, .ssl = SSL_new(context->ctx)};
    if (!tls || !tls->ssl || !bio || !name_peer(tls->ssl, p->peer[peer].host)) {
        BIO_free(bio);
        tls_end(tls);
        return NULL;
    }
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls->ssl, bio, bio);
    SSL_set_app_data(tls->ssl, tls);
    SSL_set_connect_state(tls->ssl);
    resume(tls->ssl, context->newest[peer]);
    return tls;
}

void tls_end(struct tls *tls)
{
    if (!tls)
        return;
    SSL_free(tls->ssl); /* and the BIO */
    free(tls);
}

long tls_hear(struct tls *tls, struct slice *in, struct bytes *out, char *plain)
{
    int n;

    tls->in = in;
    tls->out = out;
    ERR_clear_error();
    n = SSL_read(tls->ssl, plain, TLS_PLAIN_BYTES);
    if (n > 0)
        return n;
    tls->error = SSL_get_error(tls->ssl, n);
    if (tls->error == SSL_ERROR_WANT_READ)
        return TLS_MORE;
    if (tls->error == SSL_ERROR_ZERO_RETURN)
        return TLS_ENDED;
    tls->reason = ERR_peek_error();
    return TLS_FAILED;
}

bool tls_speak(struct tls *tls, struct slice plain, struct bytes *out)
{
    tls->in = NULL;
    tls->out = out;
    ERR_clear_error();
    return !plain.len || SSL_write(tls->ssl, plain.ptr, (int)plain.len) == (int)plain.len;
}

void tls_shut(struct tls *tls, struct bytes *out)
{
    tls->in = NULL;
    tls->out = out;
    ERR_clear_error();
    (void)SSL_shutdown(tls->ssl); /* otherwise the session could not be resumed */
}

bool tls_done(const struct tls *tls)
{
    return SSL_is_init_finished(tls->ssl);
}

void tls_describe(const struct tls *tls, struct tls_facts *facts)
{
    const unsigned char *name;
    unsigned len;

    SSL_get0_alpn_selected(tls->ssl, &name, &len);
    *facts = (struct tls_facts){
        .version = SSL_get_version(tls->ssl),
        .cipher = SSL_CIPHER_get_name(SSL_get_current_cipher(tls->ssl)),
        .resumed = SSL_session_reused(tls->ssl),
        .alpn = len == 2 && memcmp(name, "h2", 2) == 0 ? ALPN_H2 : len ? ALPN_HTTP1 : ALPN_NONE,
    };
}

enum fault tls_why(const struct tls *tls, char why[TLS_WHY_BYTES])
{
    int reason = ERR_GET_REASON(tls->reason);
    const char *text = ERR_reason_error_string(tls->reason);

    if (tls->error != SSL_ERROR_SSL || ERR_GET_LIB(tls->reason) != ERR_LIB_SSL) {
        snprintf(why, TLS_WHY_BYTES, "the handshake failed: %s", text ? text : "no memory");
        return FAULT_TLS_FAILED;
    }
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
        snprintf(why, TLS_WHY_BYTES, "its certificate is not trusted: %s",
                 X509_verify_cert_error_string(SSL_get_verify_result(tls->ssl)));
        return FAULT_TLS_UNTRUSTED;
    }
    if (reason == ALERTS + SSL_AD_NO_APPLICATION_PROTOCOL) {
        snprintf(why, TLS_WHY_BYTES, "it speaks none of the offered protocols (ALPN)");
        return FAULT_NO_PROTOCOL;
    }
    if (reason >= ALERTS) {
        snprintf(why, TLS_WHY_BYTES, "it refused the handshake: %s",
                 SSL_alert_desc_string_long(reason - ALERTS));
        return FAULT_TLS_REFUSED;
    }
    snprintf(why, TLS_WHY_BYTES, "the handshake failed: %s", text ? text : "for no known reason");
    return FAULT_TLS_FAILED;
}
