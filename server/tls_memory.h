/* SPDX-License-Identifier: MIT */
/* tls_memory.h - whether OpenSSL has got the memory that it asked for.
 *
 * OpenSSL does not always report that it had no memory: it leaves out algorithms that it could not
 * look up, or says that a certificate is not for a name.  So it allocates by functions of this
 * file.
 */
#ifndef SERVER_TLS_MEMORY_H
#define SERVER_TLS_MEMORY_H
#include <stdbool.h>

/* Call it before OpenSSL allocates anything.  False: it was too late. */
bool tls_memory_open(void);
/* Watches this thread's allocations from now on. */
void tls_memory_watch(void);
/* Whether an allocation has failed since then. */
bool tls_memory_lacked(void);

#endif
