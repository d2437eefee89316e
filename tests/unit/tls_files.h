/* SPDX-License-Identifier: MIT */
/* tls_files.h - certificates for tests, in files: an authority, what it has signed, and what it
 * says of that by OCSP.
 */
#ifndef TESTS_UNIT_TLS_FILES_H
#define TESTS_UNIT_TLS_FILES_H
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include "../fake.h"

enum { FILES_HOUR_S = 3600 };

struct signer {
    X509 *cert;
    EVP_PKEY *key;
};

static inline void signer_free(struct signer *s)
{
    X509_free(s->cert);
    EVP_PKEY_free(s->key);
}

static inline void cert_extend(X509 *cert, int nid, const char *value)
{
    X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

    must(ext && X509_add_ext(cert, ext, -1));
    X509_EXTENSION_free(ext);
}

/* The name is not in the subject, where clients of long ago looked for it.  by: NULL: it signs
 * itself, and may sign others. */
static inline struct signer cert_make(const char *name, EVP_PKEY *key, const struct signer *by)
{
    struct signer s = {X509_new(), key};
    X509_NAME *subject = X509_get_subject_name(s.cert);
    static long serial;
    char names[64];

    must(key && X509_set_version(s.cert, X509_VERSION_3));
    must(ASN1_INTEGER_set(X509_get_serialNumber(s.cert), ++serial));
    must(X509_gmtime_adj(X509_getm_notBefore(s.cert), -FILES_HOUR_S));
    must(X509_gmtime_adj(X509_getm_notAfter(s.cert), FILES_HOUR_S));
    must(X509_NAME_add_entry_by_txt(subject, "O", MBSTRING_ASC,
                                    (const unsigned char *)(by ? "leaf" : "root"), -1, -1, 0));
    must(X509_set_issuer_name(s.cert, by ? X509_get_subject_name(by->cert) : subject));
    must(X509_set_pubkey(s.cert, key));
    snprintf(names, sizeof(names), "DNS:%s", name);
    cert_extend(s.cert, NID_basic_constraints, by ? "critical,CA:FALSE" : "critical,CA:TRUE");
    cert_extend(s.cert, NID_subject_alt_name, names);
    must(X509_sign(s.cert, by ? by->key : key, EVP_sha256()));
    return s;
}

/* NAME.pem with the signer's after its own, and NAME.key, in the current folder. */
static inline void cert_write(const char *name, const struct signer *s, const struct signer *by)
{
    char path[64];
    FILE *file;

    snprintf(path, sizeof(path), "%s.pem", name);
    file = fopen(path, "w");
    must(file && PEM_write_X509(file, s->cert) && PEM_write_X509(file, by->cert));
    must(fclose(file) == 0);
    snprintf(path, sizeof(path), "%s.key", name);
    file = fopen(path, "w");
    must(file && PEM_write_PrivateKey(file, s->key, NULL, NULL, 0, NULL, NULL));
    must(fclose(file) == 0);
}

/* NAME.pem.ocsp: the certificate is good for an hour. */
static inline void cert_write_ocsp(const char *name, const struct signer *s,
                                   const struct signer *by)
{
    OCSP_BASICRESP *basic = OCSP_BASICRESP_new();
    OCSP_CERTID *id = OCSP_cert_to_id(EVP_sha1(), s->cert, by->cert);
    ASN1_TIME *from = X509_gmtime_adj(NULL, -FILES_HOUR_S);
    ASN1_TIME *to = X509_gmtime_adj(NULL, FILES_HOUR_S);
    OCSP_RESPONSE *response;
    char path[64];
    FILE *file;

    must(OCSP_basic_add1_status(basic, id, V_OCSP_CERTSTATUS_GOOD, 0, NULL, from, to));
    must(OCSP_basic_sign(basic, by->cert, by->key, EVP_sha256(), NULL, 0));
    response = OCSP_response_create(OCSP_RESPONSE_STATUS_SUCCESSFUL, basic);
    snprintf(path, sizeof(path), "%s.pem.ocsp", name);
    file = fopen(path, "w");
    must(response && file);
    must(ASN1_item_i2d_fp(ASN1_ITEM_rptr(OCSP_RESPONSE), file, response));
    must(fclose(file) == 0);
    OCSP_RESPONSE_free(response);
    OCSP_BASICRESP_free(basic);
    OCSP_CERTID_free(id);
    ASN1_TIME_free(from);
    ASN1_TIME_free(to);
}

/* a.pem with its staple and b.pem, an RSA one, by an authority of their own.  The number of a. */
static inline long files_make(void)
{
    struct signer root = cert_make("root", EVP_EC_gen("P-256"), NULL);
    struct signer a = cert_make("a.example", EVP_EC_gen("P-256"), &root);
    struct signer b = cert_make("b.example", EVP_RSA_gen(2048), &root);
    long number;

    cert_write("a", &a, &root);
    cert_write_ocsp("a", &a, &root);
    cert_write("b", &b, &root);
    number = ASN1_INTEGER_get(X509_get0_serialNumber(a.cert));
    signer_free(&a);
    signer_free(&b);
    signer_free(&root);
    return number;
}

#endif
