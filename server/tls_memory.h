/* SPDX-License-Identifier: MIT */
/* tls_memory.h - whether OpenSSL has got the memory that it asked for.
 *
 * It does not always say so: it leaves out algorithms that it could not look up, or says that a
 * certificate is not for a name.  So what it allocates comes from here.
 */
#ifndef SERVER_TLS_MEMORY_H
#define SERVER_TLS_MEMORY_H
#include <stdbool.h>

/* Before OpenSSL allocates anything.  False: it was too late. */
bool tls_memory_open(void);
/* What this thread does from now on is watched. */
void tls_memory_watch(void);
/* An allocation has failed since then. */
bool tls_memory_lacked(void);

#endif
