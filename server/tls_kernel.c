/* SPDX-License-Identifier: MIT */
/* tls_kernel.c - a socket that makes TLS records itself, by Linux's ULP "tls".
 *
 * Receiving stays as it is: only the sending half gets a key.  The kernel numbers records, adds
 * head, type and tag, and cuts what it is given at 16 KiB.  A record that is not data needs a
 * control message with its type.
 */
#include "tls_kernel.h"
#include <errno.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "../base/net.h"

enum {
    ULP_TLS = 282, /* SOL_TLS: not in libc's headers of Debian 12 */
    AES_128_GCM = 0x1301,
    AES_256_GCM,
    CHACHA20_POLY1305,
    SALT_BYTES = 4,
    EXTRA_BYTES = 5 + 1 + 16, /* of a record: head, type, tag */
    ALERT = 21
};

union crypto {
    struct tls_crypto_info info;
    struct tls12_crypto_info_aes_gcm_128 aes_128;
    struct tls12_crypto_info_aes_gcm_256 aes_256;
    struct tls12_crypto_info_chacha20_poly1305 chacha;
};

/* Where the kernel has what in such a struct. */
struct layout {
    uint16_t type;
    size_t len, record;
};

static struct layout layout_of(uint16_t suite)
{
    switch (suite) {
    case AES_128_GCM:
        return (struct layout){TLS_CIPHER_AES_GCM_128, sizeof(((union crypto *)0)->aes_128),
                               offsetof(union crypto, aes_128.rec_seq)};
    case AES_256_GCM:
        return (struct layout){TLS_CIPHER_AES_GCM_256, sizeof(((union crypto *)0)->aes_256),
                               offsetof(union crypto, aes_256.rec_seq)};
    case CHACHA20_POLY1305:
        return (struct layout){TLS_CIPHER_CHACHA20_POLY1305, sizeof(((union crypto *)0)->chacha),
                               offsetof(union crypto, chacha.rec_seq)};
    default:
        return (struct layout){0};
    }
}

/* --- Keys ------------------------------------------------------------------------------------- */

static void fill(union crypto *c, const struct tls_keys *keys)
{
    unsigned char record[8];

    for (unsigned i = 0; i < sizeof(record); i++)
        record[i] = (unsigned char)(keys->record >> (56 - 8 * i));
    *c = (union crypto){0};
    c->info.version = TLS_1_3_VERSION;
    c->info.cipher_type = layout_of(keys->suite).type;
    if (keys->suite == CHACHA20_POLY1305) {
        memcpy(c->chacha.iv, keys->iv, sizeof(c->chacha.iv));
        memcpy(c->chacha.key, keys->key, sizeof(c->chacha.key));
    } else if (keys->suite == AES_256_GCM) {
        memcpy(c->aes_256.salt, keys->iv, SALT_BYTES);
        memcpy(c->aes_256.iv, keys->iv + SALT_BYTES, sizeof(c->aes_256.iv));
        memcpy(c->aes_256.key, keys->key, sizeof(c->aes_256.key));
    } else {
        memcpy(c->aes_128.salt, keys->iv, SALT_BYTES);
        memcpy(c->aes_128.iv, keys->iv + SALT_BYTES, sizeof(c->aes_128.iv));
        memcpy(c->aes_128.key, keys->key, sizeof(c->aes_128.key));
    }
    memcpy((char *)c + layout_of(keys->suite).record, record, sizeof(record));
}

int tls_kernel_refusal(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), err;

    if (fd < 0)
        return -errno;
    err = setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls")) < 0 ? errno : 0;
    close(fd);
    return err == ENOTCONN ? 0 : -err; /* it is there, and wants a connection */
}

int tls_kernel_take(int fd, const struct tls_keys *keys, struct tls_given *given)
{
    struct layout layout = layout_of(keys->suite);
    union crypto crypto;
    int64_t before;
    int err = 0;

    if (!layout.len)
        return -EOPNOTSUPP;
    before = net_written(fd);
    if (before < 0)
        return (int)before;
    /* EEXIST: it was set before, and the kernel has refused the key; it may take this one. */
    if (setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls")) < 0 && errno != EEXIST)
        return -errno;
    fill(&crypto, keys);
    if (setsockopt(fd, ULP_TLS, TLS_TX, &crypto, (socklen_t)layout.len) < 0)
        err = -errno;
    explicit_bzero(&crypto, sizeof(crypto));
    *given = (struct tls_given){
        .suite = keys->suite, .record = keys->record, .before = (uint64_t)before};
    return err;
}

/* --- The end ---------------------------------------------------------------------------------- */

/* The number of the next record, or -errno. */
static int64_t next_record(int fd, uint16_t suite)
{
    struct layout layout = layout_of(suite);
    union crypto crypto;
    socklen_t len = (socklen_t)layout.len;
    int64_t n = 0;

    if (getsockopt(fd, ULP_TLS, TLS_TX, &crypto, &len) < 0)
        return -errno;
    for (unsigned i = 0; i < 8; i++)
        n = n << 8 | ((unsigned char *)&crypto)[layout.record + i];
    explicit_bzero(&crypto, sizeof(crypto));
    return n;
}

static int say_close_notify(int fd)
{
    static const unsigned char warning[] = {1, 0}; /* RFC 8446 6.1 */
    union {
        char bytes[CMSG_SPACE(1)];
        struct cmsghdr head;
    } control = {{0}};
    struct iovec iov = {(void *)(uintptr_t)warning, sizeof(warning)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};

    control.head.cmsg_level = ULP_TLS;
    control.head.cmsg_type = TLS_SET_RECORD_TYPE;
    control.head.cmsg_len = CMSG_LEN(1);
    *CMSG_DATA(&control.head) = ALERT;
    return sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : (int)sizeof(warning);
}

/* The number is not known: before Linux 5.16 getsockopt() has no answer for ChaCha20-Poly1305.  The
 * rest of a record goes to TCP as soon as there is room, so TCP has had all if two looks find that
 * the peer has everything that TCP had, and that this is the same both times. */
static bool is_quiet(struct tls_last *last, uint64_t written)
{
    uint64_t before = last->quiet;

    last->quiet = net_acked(last->fd, 0) == written ? written : 0;
    return last->quiet && last->quiet == before;
}

bool tls_kernel_says(struct tls_last *last)
{
    const struct tls_given *given = &last->given;
    int64_t records, written;

    if (last->says_end) {
        int n = say_close_notify(last->fd);

        if (n == -EAGAIN)
            return false;
        last->given.plain += n > 0 ? (uint64_t)n : 0;
        last->says_end = false;
    }
    written = net_written(last->fd);
    if (written < 0)
        return written != -EAGAIN;
    records = next_record(last->fd, given->suite);
    if (records < 0)
        return is_quiet(last, (uint64_t)written);
    return (uint64_t)written - given->before ==
           given->plain + ((uint64_t)records - given->record) * EXTRA_BYTES;
}
