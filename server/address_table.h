/* SPDX-License-Identifier: MIT */
/* address_table.h - what is known of clients by their address: a table of fixed size in memory that
 * processes share.
 *
 * A client is an IPv4 address, or the first 64 bits of an IPv6 address: they are the prefix of a
 * network (RFC 4291 2.5.4), in which a host takes as many addresses as it likes (RFC 8981).
 *
 * A place is found by a hash that no client can foresee (hash.h), among the few of its row.  A
 * place with open connections stays.  An address that needs a place gets the one, among the others,
 * whose bucket is full first: usually that bucket has long been full, and nothing is lost.  If all
 * places of a row have open connections, the address gets none, and is not limited.
 *
 * A lock guards the rows that share it, and is held for some ten instructions.  It is robust: if a
 * process is killed while it has the lock, the next one gets it.  Buckets and counters are changed
 * without it: a place may be given away only if nothing is counted there, so a connection that is
 * counted keeps its place without a lock.
 */
#ifndef SERVER_ADDRESS_TABLE_H
#define SERVER_ADDRESS_TABLE_H
#include <pthread.h>
#include "../base/address.h"
#include "rate.h"

enum {
    TABLE_WAYS = 8, /* places of a row */
    TABLE_ROWS = 8192,
    TABLE_PLACES = TABLE_ROWS * TABLE_WAYS, /* 65,536 addresses, 2 MiB */
    TABLE_LOCKS = 64
};

struct address_place {
    uint64_t key;             /* IPv4: the address; IPv6: its first 64 bits */
    _Atomic uint64_t full_ns; /* the bucket: see rate_take() */
    atomic_uint open;         /* connections that are served */
    atomic_uint refused;      /* connections that get one answer: that they are too many */
    uint8_t family;           /* enum address_family; ADDRESS_NONE: the place is free */
};
_Static_assert(sizeof(struct address_place) == 32, "two MiB for all");

struct address_table {
    uint64_t hash_key;
    pthread_mutex_t lock[TABLE_LOCKS];
    struct address_place place[TABLE_PLACES];
};

/* The memory is zero and shared.  0 or -errno. */
int address_table_open(struct address_table *t);

/* Whether addresses of this kind have places: clients of Unix sockets all look the same. */
bool address_is_counted(const struct address *a);

/* The place of an address, with its row locked until address_table_leave(); NULL: there is none,
 * and nothing is locked. */
struct address_place *address_table_enter(struct address_table *t, const struct address *a);
void address_table_leave(struct address_table *t, const struct address_place *p);

/* Subtracts one connection from that count (open or refused), unless it is 0. */
void address_place_less(atomic_uint *count);

#endif
