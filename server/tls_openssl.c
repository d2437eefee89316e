/* SPDX-License-Identifier: MIT */
/* tls_openssl.c - records and handshakes by OpenSSL, without a socket.
 *
 * A BIO is OpenSSL's idea of a transport.  Ours reads from the received bytes of the current call
 * and writes into its room, so nothing lies in between: OpenSSL keeps at most a part of a record,
 * until the rest arrives (SSL_MODE_RELEASE_BUFFERS).  It does not read ahead, so one read takes one
 * record, and nothing that was decrypted ever waits in it.
 *
 * OpenSSL queues errors for each thread.  A queue that is not empty makes the next failure look
 * like an older one, of another connection: it is cleared before each call.
 */
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include "../base/say.h"
#include "tls_keys.h"
#include "tls_memory.h"
#include "tls_set.h"
#include "tls_store.h"

struct link {
    struct store *store;
    SSL *ssl;
    struct tls_io *io; /* of the current call */
    struct tls_secret secret;
};

/* One for the process, which has one server. */
static BIO_METHOD *method;

/* --- The transport ---------------------------------------------------------------------------- */

static int bio_read(BIO *bio, char *buf, int cap)
{
    struct tls_io *io = ((struct link *)BIO_get_data(bio))->io;
    size_t n = io->in_len < (size_t)cap ? io->in_len : (size_t)cap;

    BIO_clear_retry_flags(bio);
    if (!n) {
        BIO_set_retry_read(bio);
        return -1;
    }
    memcpy(buf, io->in, n);
    io->in += n;
    io->in_len -= n;
    return (int)n;
}

static int bio_write(BIO *bio, const char *buf, int len)
{
    struct tls_io *io = ((struct link *)BIO_get_data(bio))->io;
    size_t room = io->out_cap - io->out_len, n = room < (size_t)len ? room : (size_t)len;

    BIO_clear_retry_flags(bio);
    if (!n) {
        BIO_set_retry_write(bio);
        return -1;
    }
    memcpy(io->out + io->out_len, buf, n);
    io->out_len += n;
    return (int)n;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH; /* nothing is buffered; of the rest we know nothing */
}

/* OpenSSL looks up all algorithms of a kind when the first of them is needed.  Algorithms for which
 * it has no memory then are missing until the process ends, so they are looked up here, before any
 * handshake.  SSL_CTX_new() looks up the other kinds.  Without its context OpenSSL 3.0 crashes. */
static bool look_up(void)
{
    OSSL_LIB_CTX *all_of_it = OSSL_LIB_CTX_get0_global_default();
    EVP_KDF *kdf = all_of_it ? EVP_KDF_fetch(NULL, "TLS13-KDF", NULL) : NULL;
    EVP_MAC *mac = kdf ? EVP_MAC_fetch(NULL, "HMAC", NULL) : NULL;
    EVP_RAND *random = mac ? EVP_RAND_fetch(NULL, "CTR-DRBG", NULL) : NULL;
    EVP_KEYEXCH *exchange = random ? EVP_KEYEXCH_fetch(NULL, "X25519", NULL) : NULL;
    EVP_SIGNATURE *signature = exchange ? EVP_SIGNATURE_fetch(NULL, "ECDSA", NULL) : NULL;

    EVP_KDF_free(kdf);
    EVP_MAC_free(mac);
    EVP_RAND_free(random);
    EVP_KEYEXCH_free(exchange);
    EVP_SIGNATURE_free(signature);
    return signature;
}

/* False: no memory. */
static bool prepare(void)
{
    if (!tls_memory_open())
        return false;
    tls_memory_watch();
    if (!look_up() || tls_memory_lacked())
        return false;
    if (!method)
        method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "rung");
    return method && BIO_meth_set_read(method, bio_read) && BIO_meth_set_write(method, bio_write) &&
           BIO_meth_set_ctrl(method, bio_ctrl);
}

/* --- A connection ----------------------------------------------------------------------------- */

static void *begin(void *store)
{
    struct link *link = malloc(sizeof(*link));
    BIO *bio = BIO_new(method);

    ERR_clear_error();
    if (link)
        *link = (struct link){.store = store, .ssl = store_ssl_new(store)};
    if (!link || !link->ssl || !bio) {
        if (link && link->ssl)
            store_ssl_free(store, link->ssl);
        BIO_free(bio);
        free(link);
        return NULL;
    }
    BIO_set_data(bio, link);
    BIO_set_init(bio, 1);
    SSL_set_bio(link->ssl, bio, bio);
    SSL_set_accept_state(link->ssl);
    tls_keys_follow(link->ssl, &link->secret);
    return link;
}

static void end(void *p)
{
    struct link *link = p;

    store_ssl_free(link->store, link->ssl); /* and the BIO */
    tls_keys_forget(&link->secret);
    free(link);
}

static long hear(void *p, struct tls_io *io, char *plain)
{
    struct link *link = p;
    int n;

    link->io = io;
    ERR_clear_error();
    n = SSL_read(link->ssl, plain, RECV_BYTES_MAX);
    if (n > 0)
        return n;
    switch (SSL_get_error(link->ssl, n)) {
    case SSL_ERROR_WANT_READ:
        return TLS_MORE;
    case SSL_ERROR_WANT_WRITE:
        return TLS_FULL;
    case SSL_ERROR_ZERO_RETURN:
        return TLS_ENDED;
    default:
        return TLS_FAILED;
    }
}

static bool rekeys(const void *p)
{
    return SSL_get_key_update_type(((const struct link *)p)->ssl) != SSL_KEY_UPDATE_NONE;
}

static bool speak(void *p, struct tls_io *io, const char *plain, size_t n)
{
    struct link *link = p;

    if (link->secret.len && rekeys(p))
        tls_keys_forget(&link->secret); /* from now on the key is one that is not known here */
    link->io = io;
    ERR_clear_error();
    return SSL_write(link->ssl, plain, (int)n) == (int)n;
}

static void shut(void *p, struct tls_io *io)
{
    struct link *link = p;

    link->io = io;
    ERR_clear_error();
    (void)SSL_shutdown(link->ssl);
}

static bool done(const void *p)
{
    return SSL_is_init_finished(((const struct link *)p)->ssl);
}

static bool h2(const void *p)
{
    const unsigned char *name;
    unsigned len;

    SSL_get0_alpn_selected(((const struct link *)p)->ssl, &name, &len);
    return len == 2 && memcmp(name, "h2", 2) == 0;
}

static const char *name(const void *p)
{
    return SSL_get_servername(((const struct link *)p)->ssl, TLSEXT_NAMETYPE_host_name);
}

static bool covers(const void *p, const char *host)
{
    X509 *cert = SSL_get_certificate(((const struct link *)p)->ssl);
    size_t n = strlen(host);
    char address[64] = "";

    if (cert && X509_check_host(cert, host, n, 0, NULL) == 1)
        return true;
    if (*host == '[' && n < sizeof(address)) { /* an IPv6 address has no brackets there */
        memcpy(address, host + 1, n - 2);
        host = address;
    }
    return cert && X509_check_ip_asc(cert, host, 0) == 1;
}

static bool fault(void *p, char text[TLS_FAULT_TEXT], unsigned long long *more)
{
    struct link *link = p;

    return client_fault(link->ssl, text) && store_refused(link->store, more);
}

/* Whether the client takes no whole records (RFC 6066 4).  The kernel makes no others. */
static bool wants_fragments(const SSL *ssl)
{
    const SSL_SESSION *session = SSL_get_session(ssl);

    return session && SSL_SESSION_get_max_fragment_length(session) != 0;
}

/* Forgets the secret: a record made here would have a number that the kernel uses, too. */
static bool keys(void *p, struct tls_keys *keys)
{
    struct link *link = p;
    bool fine = !rekeys(p) && !wants_fragments(link->ssl) &&
                tls_keys_of(link->ssl, &link->secret, keys);

    tls_keys_forget(&link->secret);
    return fine;
}

static const struct tls_layer layer = {
    .begin = begin,
    .end = end,
    .hear = hear,
    .speak = speak,
    .shut = shut,
    .done = done,
    .h2 = h2,
    .name = name,
    .covers = covers,
    .fault = fault,
    .keys = keys,
    .rekeys = rekeys,
};

/* --- Life ------------------------------------------------------------------------------------- */

int tls_open(struct tls_setup **setup, const struct tls_pairs *pairs, struct tls_offer offer)
{
    struct tls_setup *new = calloc(1, sizeof(*new));
    struct store *store = NULL;
    int code = EXIT_FAILED;

    if (new && prepare())
        code = store_open(&store, pairs, offer);
    else
        say_error("--tls: no memory");
    if (code) {
        free(new);
        return code;
    }
    *new = (struct tls_setup){.layer = &layer, .store = store};
    *setup = new;
    return EXIT_DONE;
}

void tls_reload(struct tls_setup *setup)
{
    store_reload(setup->store);
}

void tls_close(struct tls_setup *setup)
{
    if (!setup)
        return;
    store_close(setup->store);
    free(setup);
    BIO_meth_free(method);
    method = NULL;
}

const char *tls_library(void)
{
    return OpenSSL_version(OPENSSL_VERSION);
}
