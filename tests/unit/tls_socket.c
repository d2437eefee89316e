/* SPDX-License-Identifier: MIT */
/* tls_socket.c - what a socket is told so that it makes records, and whether TCP has all of them.
 * The kernel is this test, so that it can refuse, and be older than those that the tests boot.
 */
#include <errno.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <cmocka.h>
#include "../../base/net.h"
#include "../../server/tls_kernel.h"

enum {
    SOCKET = 77,
    LEVEL_TLS = 282,
    AES_128 = 0x1301,
    AES_256,
    CHACHA,
    AES_128_CCM,
    FIRST = 5,     /* the record that the kernel begins with */
    BEFORE = 1000, /* bytes of the stream before that */
    EXTRA = 22
};

static struct {
    int ulp, tx, number; /* what the calls return: 0 or errno */
    char crypto[128];
    unsigned len, sets;
    uint64_t records; /* made */
    int64_t written;
    uint64_t acked;
    int says;        /* what sendmsg() fails with, or 0 */
    unsigned alerts;
} kernel;

static int fails(int err)
{
    errno = err;
    return err ? -1 : 0;
}

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t len);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
    assert_int_equal(fd, SOCKET);
    if (level == IPPROTO_TCP) {
        assert_int_equal(option, TCP_ULP);
        assert_string_equal(value, "tls");
        return fails(kernel.ulp);
    }
    assert_int_equal(level, LEVEL_TLS);
    assert_int_equal(option, TLS_TX);
    assert_true(len <= sizeof(kernel.crypto));
    memcpy(kernel.crypto, value, len);
    kernel.len = len;
    kernel.sets++;
    return fails(kernel.tx);
}

/* All these structs end with the number. */
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *len);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *len)
{
    char *number = (char *)value + *len - 8;

    assert_int_equal(fd, SOCKET);
    assert_int_equal(level, LEVEL_TLS);
    assert_int_equal(option, TLS_TX);
    memset(value, 0, *len);
    for (unsigned i = 0; i < 8; i++)
        number[i] = (char)((FIRST + kernel.records) >> (56 - 8 * i));
    return fails(kernel.number);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    const struct cmsghdr *head = CMSG_FIRSTHDR(msg);

    assert_int_equal(fd, SOCKET);
    assert_int_equal(flags, MSG_NOSIGNAL | MSG_DONTWAIT);
    assert_int_equal(head->cmsg_level, LEVEL_TLS);
    assert_int_equal(head->cmsg_type, TLS_SET_RECORD_TYPE);
    assert_int_equal(*CMSG_DATA(head), 21);
    assert_int_equal(msg->msg_iov->iov_len, 2);
    assert_memory_equal(msg->msg_iov->iov_base, "\1\0", 2);
    kernel.alerts += !kernel.says;
    kernel.records += !kernel.says;
    return kernel.says ? fails(kernel.says) : 2;
}

int64_t __wrap_net_written(int fd);
int64_t __wrap_net_written(int fd)
{
    assert_int_equal(fd, SOCKET);
    return kernel.written;
}

uint64_t __wrap_net_acked(int fd, uint64_t sent);
uint64_t __wrap_net_acked(int fd, uint64_t sent)
{
    assert_int_equal(fd, SOCKET);
    assert_int_equal(sent, 0);
    return kernel.acked;
}

static struct tls_keys keys_of(uint16_t suite)
{
    struct tls_keys keys = {.suite = suite, .record = 0x0102030405060708};

    for (unsigned i = 0; i < sizeof(keys.key); i++)
        keys.key[i] = (unsigned char)(100 + i);
    for (unsigned i = 0; i < sizeof(keys.iv); i++)
        keys.iv[i] = (unsigned char)(200 + i);
    return keys;
}

/* --- Keys ------------------------------------------------------------------------------------- */

static int take(uint16_t suite, struct tls_given *given)
{
    struct tls_keys keys = keys_of(suite);

    return tls_kernel_take(SOCKET, &keys, given);
}

static const unsigned char number[] = {1, 2, 3, 4, 5, 6, 7, 8};

static const struct {
    uint16_t suite, type;
    size_t len, salt_len, salt, iv_len, iv, key_len, key, record; /* where each is, in bytes */
} layouts[] = {
#define AT(type, part) offsetof(struct type, part)
    {AES_128, TLS_CIPHER_AES_GCM_128, sizeof(struct tls12_crypto_info_aes_gcm_128), 4,
     AT(tls12_crypto_info_aes_gcm_128, salt), 8, AT(tls12_crypto_info_aes_gcm_128, iv), 16,
     AT(tls12_crypto_info_aes_gcm_128, key), AT(tls12_crypto_info_aes_gcm_128, rec_seq)},
    {AES_256, TLS_CIPHER_AES_GCM_256, sizeof(struct tls12_crypto_info_aes_gcm_256), 4,
     AT(tls12_crypto_info_aes_gcm_256, salt), 8, AT(tls12_crypto_info_aes_gcm_256, iv), 32,
     AT(tls12_crypto_info_aes_gcm_256, key), AT(tls12_crypto_info_aes_gcm_256, rec_seq)},
    {CHACHA, TLS_CIPHER_CHACHA20_POLY1305, sizeof(struct tls12_crypto_info_chacha20_poly1305), 0, 0,
     12, AT(tls12_crypto_info_chacha20_poly1305, iv), 32,
     AT(tls12_crypto_info_chacha20_poly1305, key),
     AT(tls12_crypto_info_chacha20_poly1305, rec_seq)},
#undef AT
};

static void each_suite_has_its_layout(void **state)
{
    struct tls_crypto_info info;
    struct tls_given given;

    (void)state;
    memset(&kernel, 0, sizeof(kernel));
    kernel.written = BEFORE;
    for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
        const struct tls_keys keys = keys_of(layouts[i].suite);

        assert_int_equal(take(layouts[i].suite, &given), 0);
        assert_int_equal(kernel.len, layouts[i].len);
        memcpy(&info, kernel.crypto, sizeof(info));
        assert_int_equal(info.version, TLS_1_3_VERSION);
        assert_int_equal(info.cipher_type, layouts[i].type);
        assert_memory_equal(kernel.crypto + layouts[i].salt, keys.iv, layouts[i].salt_len);
        assert_memory_equal(kernel.crypto + layouts[i].iv, keys.iv + layouts[i].salt_len,
                            layouts[i].iv_len);
        assert_memory_equal(kernel.crypto + layouts[i].key, keys.key, layouts[i].key_len);
        assert_memory_equal(kernel.crypto + layouts[i].record, number, sizeof(number));
        assert_int_equal(given.suite, layouts[i].suite);
        assert_int_equal(given.record, keys.record);
        assert_int_equal(given.before, BEFORE);
        assert_int_equal(given.plain, 0);
    }
}

static void what_the_kernel_refuses(void **state)
{
    struct tls_given given;

    (void)state;
    memset(&kernel, 0, sizeof(kernel));
    assert_int_equal(take(AES_128_CCM, &given), -EOPNOTSUPP); /* OpenSSL has it, rung does not */
    assert_int_equal(take(AES_128 - 1, &given), -EOPNOTSUPP);
    kernel.ulp = ENOENT; /* there is no module */
    assert_int_equal(take(AES_128, &given), -ENOENT);
    kernel.ulp = ENOTCONN; /* the client has ended its side */
    assert_int_equal(take(AES_128, &given), -ENOTCONN);
    kernel.written = -EAGAIN;
    kernel.ulp = 0;
    assert_int_equal(take(AES_128, &given), -EAGAIN);
    assert_int_equal(kernel.sets, 0);
    kernel.written = BEFORE;
    kernel.tx = EINVAL;
    assert_int_equal(take(AES_128, &given), -EINVAL);
    kernel.ulp = EEXIST; /* ... and the socket remains one that could */
    kernel.tx = 0;
    assert_int_equal(take(AES_256, &given), 0);
}

/* --- The end ---------------------------------------------------------------------------------- */

/* The kernel was given 20,000 bytes, and made two records. */
static struct tls_last begin(bool says_end)
{
    memset(&kernel, 0, sizeof(kernel));
    kernel.records = 2;
    kernel.written = BEFORE + 20000 + 2 * EXTRA;
    return (struct tls_last){
        .fd = SOCKET,
        .says_end = says_end,
        .given = {.suite = CHACHA, .record = FIRST, .before = BEFORE, .plain = 20000}};
}

static void tcp_has_all_or_a_byte_less(void **state)
{
    struct tls_last last = begin(false);

    (void)state;
    kernel.written--;
    assert_false(tls_kernel_says(&last));
    kernel.written = -EAGAIN; /* it changes at the moment */
    assert_false(tls_kernel_says(&last));
    kernel.written = BEFORE + 20000 + 2 * EXTRA;
    assert_true(tls_kernel_says(&last));
    kernel.written = -ENOTCONN; /* there is nobody to send it to */
    assert_true(tls_kernel_says(&last));
    assert_int_equal(kernel.alerts, 0);
}

static void close_notify_is_said_once(void **state)
{
    struct tls_last last = begin(true);

    (void)state;
    kernel.says = EAGAIN;
    assert_false(tls_kernel_says(&last)); /* although TCP has the rest */
    assert_true(last.says_end);
    kernel.says = 0;
    assert_false(tls_kernel_says(&last));
    assert_int_equal(last.given.plain, 20002);
    kernel.written += 2 + EXTRA - 1;
    assert_false(tls_kernel_says(&last));
    kernel.written++;
    assert_true(tls_kernel_says(&last));
    assert_int_equal(kernel.alerts, 1);
}

static void a_client_that_has_gone_hears_nothing(void **state)
{
    struct tls_last last = begin(true);

    (void)state;
    kernel.says = EPIPE;
    kernel.written = -ENOTCONN;
    assert_true(tls_kernel_says(&last));
    assert_false(last.says_end);
    assert_int_equal(last.given.plain, 20000);
}

/* Linux 5.15 has no answer for ChaCha20. */
static void the_number_is_not_known(void **state)
{
    struct tls_last last = begin(false);

    (void)state;
    kernel.number = EINVAL;
    kernel.written -= 100; /* a part of a record is still TLS's */
    kernel.acked = (uint64_t)kernel.written - 1;
    for (unsigned i = 0; i < 3; i++)
        assert_false(tls_kernel_says(&last));
    kernel.acked++;
    assert_false(tls_kernel_says(&last)); /* it may be on its way to TCP */
    kernel.written += 100;
    assert_false(tls_kernel_says(&last));
    kernel.acked = (uint64_t)kernel.written;
    assert_false(tls_kernel_says(&last));
    assert_true(tls_kernel_says(&last));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_suite_has_its_layout),
        cmocka_unit_test(what_the_kernel_refuses),
        cmocka_unit_test(tcp_has_all_or_a_byte_less),
        cmocka_unit_test(close_notify_is_said_once),
        cmocka_unit_test(a_client_that_has_gone_hears_nothing),
        cmocka_unit_test(the_number_is_not_known),
    };

    return cmocka_run_group_tests_name("tls_socket", tests, NULL, NULL);
}
