/* SPDX-License-Identifier: MIT */
/* tls_kernel.h - records that the kernel makes (kTLS): the key goes to the socket, and what is sent
 * from then on is plaintext, or a file's pages.
 *
 * A socket that may not block takes a record although it has room for a part of it only.  The rest
 * is TLS's, not TCP's: shutdown() and close() do not wait for it, and the stream would end inside a
 * record.  So a connection is ended only when all its bytes are in TCP's queue.  If they are not
 * there yet, a thread gets a copy of the descriptor and ends the stream later (tls_last.c); no
 * engine waits for that.
 */
#ifndef SERVER_TLS_KERNEL_H
#define SERVER_TLS_KERNEL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The server's half of a connection, TLS 1.3. */
struct tls_keys {
    uint16_t suite; /* RFC 8446 B.4 */
    unsigned char key[32], iv[12];
    uint64_t record; /* the number of the next one */
};

/* Counts of what the kernel was given: they show how much of it has reached TCP. */
struct tls_given {
    uint16_t suite;
    uint64_t record; /* the number of the first record */
    uint64_t before; /* bytes of the stream before it */
    uint64_t plain;  /* bytes in the records */
};

/* How a connection ends. */
struct tls_last {
    int fd;
    struct tls_given given;
    bool says_end; /* close_notify has yet to be said */
    uint64_t quiet; /* 0, or what the peer had at the last look, when that was all */
    uint32_t send_ms, progress_bytes; /* a peer that takes less in this time is given up */
};

/* The kernel's functions, or those of a test. */
struct tls_kernel {
    /* The socket encrypts from now on.  0 or -errno: nothing has changed. */
    int (*take)(int fd, const struct tls_keys *keys, struct tls_given *given);
    /* Nothing more will be sent.  True: all is in TCP's queue, and the caller may shut and close.
     * False: a thread has a copy of the descriptor, and ends the stream later. */
    bool (*end)(struct tls_last *last);
};

/* Whether this kernel has kTLS; loads the kernel's module if we may (CAP_NET_ADMIN).  0 or
 * -errno. */
int tls_kernel_refusal(void);
int tls_kernel_take(int fd, const struct tls_keys *keys, struct tls_given *given);
/* Sends close_notify if it has not been sent, without waiting.  True: TCP has all bytes, or the
 * connection is dead. */
bool tls_kernel_says(struct tls_last *last);

/* --- tls_last.c ------------------------------------------------------------------------------- */

extern const struct tls_kernel tls_kernel;
/* How many connections the thread has at most, with that many descriptors in a process.  Call it
 * before the server starts. */
unsigned tls_last_limit(uint64_t descriptors);
/* Waits until the thread has ended all that was left to it, --drain-timeout at most. */
struct server;
void tls_last_wait(const struct server *srv);

#endif
