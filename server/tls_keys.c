/* SPDX-License-Identifier: MIT */
/* tls_keys.c - OpenSSL reports the secrets of a connection as a line of text, meant for a file that
 * a packet analyser reads (SSL_CTX_set_keylog_callback(3)).  The secret for the server's answers is
 * kept; key and IV are derived from it as RFC 8446 7.3 says.  OpenSSL can give keys to the kernel
 * by itself, but only with functions and structures that its headers do not have.
 *
 * OpenSSL reports each record, too.  Two records with the same number would both lose their
 * secrecy, so each is counted when it is made, and the count begins with the secret.
 */
#include "tls_keys.h"
#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <string.h>

/* RFC 8446 B.4 */
enum { AES_128_GCM_SHA256 = 0x1301, AES_256_GCM_SHA384, CHACHA20_POLY1305_SHA256 };

static int slot = -1; /* of SSL_get_ex_data(): its struct tls_secret */

static int nibble(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Bytes, or 0: it is not hexadecimal, or too long. */
static size_t read_hex(const char *text, unsigned char *out, size_t cap)
{
    size_t n = 0;

    for (; text[0] && text[1]; text += 2) {
        int high = nibble(text[0]), low = nibble(text[1]);

        if (high < 0 || low < 0 || n == cap)
            return 0;
        out[n++] = (unsigned char)(high << 4 | low);
    }
    return *text ? 0 : n;
}

/* LABEL RANDOM SECRET, as NSS writes them. */
static void seen(const SSL *ssl, const char *line)
{
    static const char label[] = "SERVER_TRAFFIC_SECRET_0 ";
    struct tls_secret *secret = SSL_get_ex_data(ssl, slot);
    const char *hex = strrchr(line, ' ');

    if (!secret || strncmp(line, label, sizeof(label) - 1) != 0)
        return;
    secret->len = read_hex(hex + 1, secret->bytes, sizeof(secret->bytes));
    secret->record = 0;
}

static void said(int is_ours, int version, int type, const void *bytes, size_t n, SSL *ssl,
                 void *arg)
{
    struct tls_secret *secret = arg;

    (void)version;
    (void)bytes;
    (void)n;
    (void)ssl;
    secret->record += is_ours && type == SSL3_RT_HEADER;
}

void tls_keys_log(SSL_CTX *ctx)
{
    if (slot < 0)
        slot = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
    if (slot >= 0)
        SSL_CTX_set_keylog_callback(ctx, seen);
}

void tls_keys_follow(SSL *ssl, struct tls_secret *secret)
{
    if (slot < 0 || !SSL_set_ex_data(ssl, slot, secret))
        return;
    SSL_set_msg_callback(ssl, said);
    SSL_set_msg_callback_arg(ssl, secret);
}

void tls_keys_forget(struct tls_secret *secret)
{
    OPENSSL_cleanse(secret, sizeof(*secret));
}

/* --- Deriving --------------------------------------------------------------------------------- */

static OSSL_PARAM octets(const char *name, const void *bytes, size_t n)
{
    return OSSL_PARAM_construct_octet_string(name, (void *)(uintptr_t)bytes, n);
}

/* HKDF-Expand-Label(secret, label, "", n). */
static bool expand(EVP_KDF_CTX *kdf, const char *label, unsigned char *out, size_t n)
{
    OSSL_PARAM params[] = {octets(OSSL_KDF_PARAM_LABEL, label, strlen(label)),
                           OSSL_PARAM_construct_end()};

    return EVP_KDF_derive(kdf, out, n, params) == 1;
}

static bool set_secret(EVP_KDF_CTX *kdf, const struct tls_secret *secret, bool is_384)
{
    char *digest = (char[]){"SHA256"}, *longer = (char[]){"SHA384"};
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_MODE, (char[]){"EXPAND_ONLY"}, 0),
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, is_384 ? longer : digest, 0),
        octets(OSSL_KDF_PARAM_KEY, secret->bytes, secret->len),
        octets(OSSL_KDF_PARAM_PREFIX, "tls13 ", 6),
        OSSL_PARAM_construct_end()};

    return EVP_KDF_CTX_set_params(kdf, params) == 1;
}

bool tls_keys_of(const SSL *ssl, const struct tls_secret *secret, struct tls_keys *keys)
{
    const SSL_CIPHER *cipher = SSL_get_current_cipher(ssl);
    uint16_t suite = cipher ? SSL_CIPHER_get_protocol_id(cipher) : 0;
    EVP_KDF *algorithm;
    EVP_KDF_CTX *kdf;
    bool fine;

    if (!secret->len || suite < AES_128_GCM_SHA256 || suite > CHACHA20_POLY1305_SHA256)
        return false;
    algorithm = EVP_KDF_fetch(NULL, OSSL_KDF_NAME_TLS1_3_KDF, NULL);
    kdf = EVP_KDF_CTX_new(algorithm);
    EVP_KDF_free(algorithm);
    *keys = (struct tls_keys){.suite = suite, .record = secret->record};
    fine = kdf && set_secret(kdf, secret, suite == AES_256_GCM_SHA384) &&
           expand(kdf, "key", keys->key, suite == AES_128_GCM_SHA256 ? 16 : sizeof(keys->key)) &&
           expand(kdf, "iv", keys->iv, sizeof(keys->iv));
    EVP_KDF_CTX_free(kdf);
    return fine;
}
