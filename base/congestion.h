/* SPDX-License-Identifier: MIT */
/* congestion.h - which algorithm decides how fast a TCP connection sends, and for which peers.
 *
 * Owns nothing.  Names are those of the kernel: net.ipv4.tcp_available_congestion_control.
 */
#ifndef BASE_CONGESTION_H
#define BASE_CONGESTION_H
#include <sys/socket.h>
#include "../core/env.h"

enum { CONGESTION_NAME = 16 }; /* TCP_CA_NAME_MAX: the longest name, with its NUL */

/* The algorithm that a new connection gets, unless an option says otherwise.  0 or -errno. */
int congestion_default(char name[CONGESTION_NAME]);
/* Sets the algorithm; a listener's connections inherit it.  0; -ENOENT: the kernel has no such
 * algorithm; -EPERM: only root may set it; or -errno. */
int congestion_set(int fd, const char *name);
/* Sets the algorithm on a socket that is then closed, to learn whether it can be set.  0 or
 * -errno. */
int congestion_try(const char *name);
/* The algorithms that this kernel offers to every user: "reno cubic".  "reno" if it does not
 * say. */
void congestion_offered(char *buf, size_t cap);

/* Whether the algorithm spreads packets over time by a timer, as BBR does. */
bool congestion_paces(const char *name);
/* An algorithm that does not: cubic if it is offered, otherwise reno, which every kernel has. */
const char *congestion_prompt(void);

/* Whether the address is loopback; and whether it is near: loopback, private or link-local. */
bool congestion_loopback(const struct sockaddr_storage *sa);
bool congestion_near(const struct sockaddr_storage *sa);
/* A connection whose peer is not near gets that algorithm; others are left as they are. */
void congestion_far(int fd, const char *name);

#endif
