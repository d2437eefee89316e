/* SPDX-License-Identifier: MIT */
/* tls_given.c - OpenSSL's key is given away, and a client by OpenSSL understands the records that
 * are made with it: the key and the number of the first record are right, for each suite, and
 * whatever memory is refused.  The kernel is this program.
 */
#include "tls_refuse.h"
#include <openssl/evp.h>

enum { SEQUENCE = 4, TAG_BYTES = 16, ALERT = 21, DATA = 23 };

static struct {
    struct client *client;
    bool has_key;
    struct tls_keys keys;
    uint64_t plain;
    unsigned takes;
} kernel;

static const EVP_CIPHER *cipher(void)
{
    return kernel.keys.suite == 0x1301   ? EVP_aes_128_gcm()
           : kernel.keys.suite == 0x1302 ? EVP_aes_256_gcm()
                                         : EVP_chacha20_poly1305();
}

/* RFC 8446 5.2 and 5.3 */
static void seal(char type, const void *bytes, size_t n)
{
    static unsigned char rec[TLS_RECORD_BYTES + 1 + TAG_BYTES];
    size_t all = n + 1 + TAG_BYTES;
    unsigned char head[] = {DATA, 3, 3, (unsigned char)(all >> 8), (unsigned char)all}, nonce[12];
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int len;

    memcpy(nonce, kernel.keys.iv, sizeof(nonce));
    for (unsigned i = 0; i < 8; i++)
        nonce[SEQUENCE + i] ^= (unsigned char)(kernel.keys.record >> (56 - 8 * i));
    kernel.keys.record++;
    kernel.plain += n;
    must(EVP_EncryptInit_ex(ctx, cipher(), NULL, kernel.keys.key, nonce) == 1);
    must(EVP_EncryptUpdate(ctx, NULL, &len, head, sizeof(head)) == 1);
    must(EVP_EncryptUpdate(ctx, rec, &len, bytes, (int)n) == 1 && len == (int)n);
    must(EVP_EncryptUpdate(ctx, rec + n, &len, (unsigned char *)&type, 1) == 1 && len == 1);
    must(EVP_EncryptFinal_ex(ctx, rec + n + 1, &len) == 1);
    must(EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, TAG_BYTES, rec + n + 1) == 1);
    EVP_CIPHER_CTX_free(ctx);
    must(BIO_write(kernel.client->in, head, sizeof(head)) == sizeof(head));
    must(BIO_write(kernel.client->in, rec, (int)all) == (int)all);
}

static void says(struct client *k, const char *bytes, size_t n)
{
    must(k == kernel.client);
    if (!kernel.has_key)
        must(BIO_write(k->in, bytes, (int)n) == (int)n);
    for (size_t part; kernel.has_key && n; bytes += part, n -= part) {
        part = n < TLS_RECORD_BYTES ? n : TLS_RECORD_BYTES;
        seal(DATA, bytes, part);
    }
}

static int take(int fd, const struct tls_keys *keys, struct tls_given *given)
{
    must(fd == kernel.client->h.session.fd && !kernel.has_key);
    kernel.has_key = true;
    kernel.keys = *keys;
    kernel.takes++;
    *given = (struct tls_given){.suite = keys->suite, .record = keys->record};
    return 0;
}

static bool end(struct tls_last *last)
{
    bool on = refuse.on;

    refuse_off(); /* what the kernel needs is its own */
    must(last->given.plain == kernel.plain);
    if (last->says_end)
        seal(ALERT, "\1", 2);
    refuse.on = on;
    return true;
}

static const struct tls_kernel here = {take, end};

static void opened(struct client *k)
{
    memset(&kernel, 0, sizeof(kernel));
    kernel.client = k;
    k->says = says;
    must(stats_open(&k->h.server.stats, 1) == 0);
}

static struct tls_setup *open_giving(void)
{
    struct tls_setup *setup = NULL;

    must(tls_open(&setup, &pairs, (struct tls_offer){.kernel = true}) == 0);
    must(!*said);
    setup->inner = &http_proto;
    setup->kernel = &here;
    setup->kernel_always = true;
    client_opened = opened;
    return setup;
}

/* --- Clients ---------------------------------------------------------------------------------- */

/* A client of this plan has come and gone. */
static struct client *serve(const struct plan *plan, struct tls_setup *setup)
{
    struct client *k;

    answers_make(&answers, plan);
    k = client_open(plan, setup);
    client_run(k);
    client_judge(k);
    return k;
}

static void whole(const struct plan *plan, struct tls_setup *setup, unsigned takes)
{
    struct client *k = serve(plan, setup);

    assert_whole(k);
    assert_int_equal(kernel.takes, takes);
    assert_int_equal(stats_sum(k->h.server.stats, STAT_TLS_KERNEL), takes);
    client_close(k);
}

static const struct plan by_kernel[] = {
    {.version = TLS1_3_VERSION, .host = "a.example"},
    {.version = TLS1_3_VERSION, .host = "b.example", .suite = "TLS_AES_128_GCM_SHA256"},
    {.version = TLS1_3_VERSION, .host = "a.example", .suite = "TLS_AES_256_GCM_SHA384"},
    {.version = TLS1_3_VERSION, .host = "b.example", .suite = "TLS_CHACHA20_POLY1305_SHA256"},
    {.version = TLS1_3_VERSION, .host = "a.example", .server_ends = true},
    {.version = TLS1_3_VERSION, .host = "b.example", .groups = "P-521:X25519"}, /* two hellos */
};

/* Each client twice: the second time it resumes the session. */
static void each_suite(void **state)
{
    struct tls_setup *setup = open_giving();

    (void)state;
    for (unsigned i = 0; i < sizeof(by_kernel) / sizeof(by_kernel[0]); i++) {
        struct plan again = by_kernel[i];

        whole(&by_kernel[i], setup, 1);
        again.resumes = true;
        whole(&again, setup, 1);
    }
    tls_close(setup);
}

static const struct plan by_openssl[] = {
    {.version = TLS1_2_VERSION, .host = "a.example"},
    {.version = TLS1_3_VERSION, .host = "a.example", .fragment = TLSEXT_max_fragment_length_512},
    {.version = TLS1_3_VERSION, .host = "b.example", .fragment = TLSEXT_max_fragment_length_4096},
    {.version = TLS1_3_VERSION, .host = "b.example", .keys = 1}, /* the kernel has none yet */
};

static void those_that_the_kernel_cannot_serve(void **state)
{
    struct tls_setup *setup = open_giving();

    (void)state;
    for (unsigned i = 0; i < sizeof(by_openssl) / sizeof(by_openssl[0]); i++)
        whole(&by_openssl[i], setup, 0);
    tls_close(setup);
}

/* Its last request comes with the wish for new keys, and is answered by close_notify. */
static void new_keys(void **state)
{
    static const struct plan plan = {.version = TLS1_3_VERSION, .host = "a.example", .keys = 2};
    struct tls_setup *setup = open_giving();
    struct client *k = serve(&plan, setup);

    (void)state;
    assert_true(k->ended);
    assert_int_equal(k->len, answers.end[2]);
    assert_int_equal(kernel.takes, 1);
    client_close(k);
    tls_close(setup);
}

static void memory_is_refused(void **state)
{
    static const struct plan plan = {.name = "given", .version = TLS1_3_VERSION,
                                     .host = "a.example"};
    struct talk t = {&plan, NULL};

    (void)state;
    begin(0, false);
    t.setup = open_giving();
    answers_make(&answers, &plan);
    converse(&t, true);
    for (unsigned after = 0; after < 2; after++)
        in_turn(&(struct turn){plan.name, converse, works_again, &t, after, 0});
    tls_close(t.setup);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_suite),
        cmocka_unit_test(those_that_the_kernel_cannot_serve),
        cmocka_unit_test(new_keys),
        cmocka_unit_test(memory_is_refused),
    };

    take_arguments(argc, argv);
    return cmocka_run_group_tests_name("tls_given", tests, set_up, tear_down);
}
