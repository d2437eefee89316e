/* SPDX-License-Identifier: MIT */
/* tls_set.c - certificates and keys: read from files, chosen by name.
 *
 * Versions and ciphers are the same for every certificate, and no option weakens them: TLS 1.3, and
 * 1.2 with forward secrecy and authenticated encryption; no renegotiation, no compression, no early
 * data.  Without a name, or with an unknown one, a client gets the first certificate.
 */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include "../base/say.h"
#include "tls_keys.h"
#include "tls_memory.h"
#include "tls_set.h"

enum { PATH_TEXT = 4096 };

/* --- What is offered -------------------------------------------------------------------------- */

/* RFC 7301 3.2: a client that names protocols, but not ours, is refused.  One that names none is
 * served. */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *in, unsigned in_len, void *arg)
{
    const unsigned char *ours = arg;
    unsigned char *chosen;

    (void)ssl;
    if (SSL_select_next_proto(&chosen, out_len, ours, (unsigned)strlen(arg), in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* An encrypted key would be asked for on the terminal, which may not be there. */
static int no_password(char *buf, int size, int rwflag, void *arg)
{
    (void)buf;
    (void)size;
    (void)rwflag;
    *(bool *)arg = true;
    return -1;
}

static bool set_up(SSL_CTX *ctx, struct tls_offer offer)
{
    static char both[] = "\x02h2\x08http/1.1"; /* the first that the client names, too, is chosen */
    static const char suites[] = "ECDHE+AESGCM:ECDHE+CHACHA20";

    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ctx, 1);
    SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, offer.h2 ? both : both + 3);
    if (offer.kernel)
        tls_keys_log(ctx);
    return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) &&
           SSL_CTX_set_cipher_list(ctx, suites) &&
           SSL_CTX_set1_groups_list(ctx, "X25519:P-256:P-384") &&
           SSL_CTX_set_session_id_context(ctx, (const unsigned char *)"rung", 4);
}

/* --- Files ------------------------------------------------------------------------------------ */

/* Why OpenSSL failed, of its error queue: a file's reason, or its own words. */
static const char *why_not(void)
{
    unsigned long err = ERR_peek_error();
    const char *reason = ERR_reason_error_string(err);

    if (tls_memory_lacked())
        return "no memory";
    if (ERR_SYSTEM_ERROR(err))
        return say_why(ERR_GET_REASON(err));
    if (ERR_GET_LIB(err) == ERR_LIB_PEM || ERR_GET_LIB(err) == ERR_LIB_OSSL_DECODER)
        return "no PEM in it";
    return reason ? reason : "unknown reason";
}

static int load_pair(SSL_CTX *ctx, const char *cert, const char *key)
{
    bool encrypted = false;

    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1) {
        say_error("--tls: cannot use the certificate %s: %s", cert, why_not());
        return EXIT_FAILED;
    }
    SSL_CTX_set_default_passwd_cb(ctx, no_password);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, &encrypted);
    ERR_clear_error();
    if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) == 1) {
        ocsp_load(ctx, cert);
        return EXIT_DONE;
    }
    if (encrypted)
        say_error("--tls: the key %s is encrypted; decrypt it: openssl pkey -in %s -out FILE", key,
                  key);
    else if (ERR_GET_REASON(ERR_peek_error()) == X509_R_KEY_VALUES_MISMATCH)
        say_error("--tls: the key %s does not belong to the certificate %s", key, cert);
    else
        say_error("--tls: cannot use the key %s: %s", key, why_not());
    return EXIT_FAILED;
}

static bool is_path(const char *item)
{
    return !strchr(item, ',') && strcmp(item, "self") != 0;
}

/* CERT,KEY of one item, or of two: the environment separates items by commas. */
static int read_pair(SSL_CTX *ctx, const struct tls_pairs *pairs, unsigned *i, SSL_CTX *before)
{
    const char *item = pairs->item[(*i)++], *comma = strchr(item, ',');
    char cert[PATH_TEXT];

    if (strcmp(item, "self") == 0) {
        if (before ? self_again(ctx, before) : self_make(ctx))
            return EXIT_DONE;
        say_error("--tls self: cannot make a certificate: %s", why_not());
        return EXIT_FAILED;
    }
    if (comma && comma > item && comma[1] && (size_t)(comma - item) < sizeof(cert)) {
        memcpy(cert, item, (size_t)(comma - item));
        cert[comma - item] = '\0';
        return load_pair(ctx, cert, comma + 1);
    }
    if (!comma && *i < pairs->count && is_path(pairs->item[*i]))
        return load_pair(ctx, item, pairs->item[(*i)++]);
    say_error("--tls %s: name a certificate and its key: --tls cert.pem,key.pem, or self", item);
    return EXIT_USAGE;
}

/* --- Names ------------------------------------------------------------------------------------ */

static int choose_certificate(SSL *ssl, int *alert, void *arg)
{
    const struct set *s = arg;
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);

    (void)alert;
    for (unsigned i = 0; name && i < s->count; i++) {
        if (X509_check_host(SSL_CTX_get0_certificate(s->ctx[i]), name, 0, 0, NULL) != 1)
            continue;
        SSL_set_SSL_CTX(ssl, s->ctx[i]);
        break;
    }
    return name ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

/* --- Clients ---------------------------------------------------------------------------------- */

static int require_clients(struct set *s, const char *path)
{
    int bad = verify_clients(s, path);

    if (bad > 0)
        say_error("--tls-client-ca: cannot use %s: certificate %d in it cannot be read", path, bad);
    else if (bad == CLIENT_CA_NAMES)
        say_error("--tls-client-ca: cannot use %s: the names of its authorities have more than %d "
                  "bytes; each handshake has to carry them", path, CLIENT_NAMES_BYTES_MAX);
    else if (bad)
        say_error("--tls-client-ca: cannot use %s: %s", path, why_not());
    return bad ? EXIT_FAILED : EXIT_DONE;
}

/* --- The whole -------------------------------------------------------------------------------- */

void set_free(struct set *s)
{
    for (unsigned i = 0; s && i < s->count; i++)
        SSL_CTX_free(s->ctx[i]);
    free(s);
}

static int fill(struct set *s, const struct tls_pairs *pairs, const struct set *before,
                struct tls_offer offer)
{
    for (unsigned i = 0; i < pairs->count;) {
        SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
        int code;

        if (ctx)
            s->ctx[s->count++] = ctx;
        if (!ctx || !set_up(ctx, offer)) {
            say_error("--tls: cannot prepare OpenSSL: %s", why_not());
            return EXIT_FAILED;
        }
        code = read_pair(ctx, pairs, &i, before ? before->ctx[s->count - 1] : NULL);
        if (code)
            return code;
    }
    if (s->count > 1) {
        SSL_CTX_set_tlsext_servername_callback(s->ctx[0], choose_certificate);
        SSL_CTX_set_tlsext_servername_arg(s->ctx[0], s);
    }
    return pairs->client_ca ? require_clients(s, pairs->client_ca) : EXIT_DONE;
}

int set_read(struct set **set, const struct tls_pairs *pairs, const struct set *before,
             struct tls_offer offer)
{
    struct set *s = calloc(1, sizeof(*s) + pairs->count * sizeof(s->ctx[0]));
    int code = EXIT_FAILED;

    if (s)
        code = fill(s, pairs, before, offer);
    else
        say_error("--tls: no memory");
    if (code)
        set_free(s);
    else
        *set = s;
    return code;
}
