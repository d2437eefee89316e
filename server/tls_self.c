/* SPDX-License-Identifier: MIT */
/* tls_self.c - a self-signed certificate for this machine, made in memory at the start.
 *
 * The certificate names localhost, this machine and its addresses, so a client complains only that
 * it does not know the signer; a person can compare the fingerprint.  The key is ECDSA on P-256:
 * RSA would take fifty times as long to sign (docs/tls.md).
 */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "../base/say.h"
#include "tls_set.h"

enum { NAMES_TEXT = 2048, DAYS = 90, DAY_S = 86400, SERIAL_BYTES = 16 };

/* A comma list of DNS:NAME and IP:ADDRESS.  Names that do not fit are left out. */
struct names {
    char text[NAMES_TEXT];
    size_t len;
};

static void add(struct names *n, const char *kind, const char *name)
{
    char item[128];
    int len = snprintf(item, sizeof(item), "%s%s:%s", n->len ? "," : "", kind, name);

    if (len <= 0 || (size_t)len >= sizeof(item) || n->len + (size_t)len >= sizeof(n->text))
        return;
    memcpy(n->text + n->len, item, (size_t)len + 1);
    n->len += (size_t)len;
}

static void add_addresses(struct names *n)
{
    struct ifaddrs *list, *one;
    char text[INET6_ADDRSTRLEN];
    const void *address;

    if (getifaddrs(&list) < 0)
        return;
    for (one = list; one; one = one->ifa_next) {
        if (!one->ifa_addr)
            continue;
        address = NULL;
        if (one->ifa_addr->sa_family == AF_INET)
            address = &((struct sockaddr_in *)(void *)one->ifa_addr)->sin_addr;
        else if (one->ifa_addr->sa_family == AF_INET6)
            address = &((struct sockaddr_in6 *)(void *)one->ifa_addr)->sin6_addr;
        if (address && inet_ntop(one->ifa_addr->sa_family, address, text, sizeof(text)))
            add(n, "IP", text);
    }
    freeifaddrs(list);
}

/* A name that cannot be in a certificate would make all of them invalid. */
static bool is_host_name(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789-.";

    return *name && strspn(name, allowed) == strlen(name) && strcmp(name, "localhost") != 0;
}

static bool put_extension(X509 *cert, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *ext;
    bool fine;

    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, cert, cert, NULL, NULL, 0);
    ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    fine = ext && X509_add_ext(cert, ext, -1);
    X509_EXTENSION_free(ext);
    return fine;
}

static bool put_serial(X509 *cert)
{
    unsigned char bytes[SERIAL_BYTES];
    BIGNUM *number;
    bool fine;

    if (RAND_bytes(bytes, sizeof(bytes)) != 1)
        return false;
    bytes[0] &= 0x7f; /* positive: RFC 5280 4.1.2.2 */
    number = BN_bin2bn(bytes, sizeof(bytes), NULL);
    fine = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert));
    BN_free(number);
    return fine;
}

static bool fill(X509 *cert, EVP_PKEY *key, const char *common, const char *names)
{
    X509_NAME *subject = X509_get_subject_name(cert);

    return X509_set_version(cert, X509_VERSION_3) && put_serial(cert) &&
           X509_gmtime_adj(X509_getm_notBefore(cert), -3600) && /* clocks differ */
           X509_gmtime_adj(X509_getm_notAfter(cert), (long)DAYS * DAY_S) &&
           X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)common,
                                      -1, -1, 0) &&
           X509_set_issuer_name(cert, subject) && X509_set_pubkey(cert, key) &&
           put_extension(cert, NID_subject_alt_name, names) &&
           put_extension(cert, NID_basic_constraints, "critical,CA:FALSE") &&
           put_extension(cert, NID_key_usage, "critical,digitalSignature") &&
           put_extension(cert, NID_ext_key_usage, "serverAuth") &&
           X509_sign(cert, key, EVP_sha256());
}

/* As every other program prints it: openssl x509 -fingerprint -sha256, browsers. */
static void say_fingerprint(const X509 *cert, const char *common)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    char text[3 * EVP_MAX_MD_SIZE];
    unsigned n = 0;

    if (!X509_digest(cert, EVP_sha256(), digest, &n))
        return;
    for (unsigned i = 0; i < n; i++)
        snprintf(text + 3 * i, 4, "%02X%s", digest[i], i + 1 < n ? ":" : "");
    say("certificate made for %s, valid for %d days; its SHA-256 fingerprint:", common, DAYS);
    say("%s", text);
}

bool self_make(SSL_CTX *ctx)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    struct names names = {.len = 0};
    char host[65] = "";
    bool fine;

    if (gethostname(host, sizeof(host) - 1) < 0 || !is_host_name(host))
        snprintf(host, sizeof(host), "localhost");
    else
        add(&names, "DNS", host);
    add(&names, "DNS", "localhost");
    add_addresses(&names);
    fine = key && cert && fill(cert, key, host, names.text) &&
           SSL_CTX_use_certificate(ctx, cert) == 1 && SSL_CTX_use_PrivateKey(ctx, key) == 1;
    if (fine)
        say_fingerprint(cert, host);
    X509_free(cert);
    EVP_PKEY_free(key);
    return fine;
}

bool self_again(SSL_CTX *ctx, SSL_CTX *before)
{
    return SSL_CTX_use_certificate(ctx, SSL_CTX_get0_certificate(before)) == 1 &&
           SSL_CTX_use_PrivateKey(ctx, SSL_CTX_get0_privatekey(before)) == 1;
}
