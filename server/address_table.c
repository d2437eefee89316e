/* SPDX-License-Identifier: MIT */
/* address_table.c - places for addresses, by hash; see address_table.h. */
#include <errno.h>
#include <string.h>
#include "address_table.h"
#include "hash.h"

enum { IPV4_BYTES = 4, IPV6_BYTES = 8 };

int address_table_open(struct address_table *t)
{
    pthread_mutexattr_t how;
    int err = pthread_mutexattr_init(&how);

    if (err)
        return -err;
    pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
    for (unsigned i = 0; i < TABLE_LOCKS && !err; i++)
        err = pthread_mutex_init(&t->lock[i], &how);
    pthread_mutexattr_destroy(&how);
    if (!err && hash_key(&t->hash_key) < 0)
        err = errno;
    return -err;
}

bool address_is_counted(const struct address *a)
{
    return a->family == ADDRESS_IPV4 || a->family == ADDRESS_IPV6;
}

static pthread_mutex_t *lock_of(struct address_table *t, size_t row)
{
    return &t->lock[row % TABLE_LOCKS];
}

/* A process that died while it held the lock has left the row usable: a place becomes an address's
 * only by the last store. */
static void lock(pthread_mutex_t *lock)
{
    if (pthread_mutex_lock(lock) == EOWNERDEAD)
        pthread_mutex_consistent(lock);
}

static bool is_kept(struct address_place *p)
{
    return atomic_load_explicit(&p->open, memory_order_acquire) ||
           atomic_load_explicit(&p->refused, memory_order_acquire);
}

/* The place whose bucket is full first, among those without connections; NULL: there is none. */
static struct address_place *oldest(struct address_place *row)
{
    struct address_place *found = NULL;
    uint64_t first_ns = UINT64_MAX;

    for (unsigned i = 0; i < TABLE_WAYS; i++) {
        uint64_t full_ns = atomic_load_explicit(&row[i].full_ns, memory_order_relaxed);

        if (row[i].family == ADDRESS_NONE)
            full_ns = 0;
        if (full_ns >= first_ns || is_kept(&row[i]))
            continue;
        found = &row[i];
        first_ns = full_ns;
    }
    return found;
}

static struct address_place *find(struct address_place *row, uint8_t family, uint64_t key)
{
    struct address_place *p;

    for (unsigned i = 0; i < TABLE_WAYS; i++)
        if (row[i].key == key && row[i].family == family)
            return &row[i];
    p = oldest(row);
    if (!p)
        return NULL;
    p->family = ADDRESS_NONE;
    p->key = key;
    atomic_store_explicit(&p->full_ns, 0, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    p->family = family;
    return p;
}

struct address_place *address_table_enter(struct address_table *t, const struct address *a)
{
    char name[1 + IPV6_BYTES] = {(char)a->family};
    struct address_place *p;
    uint64_t key = 0;
    size_t row;

    memcpy(&key, a->bytes, a->family == ADDRESS_IPV4 ? IPV4_BYTES : IPV6_BYTES);
    memcpy(name + 1, &key, sizeof(key));
    row = hash_of(t->hash_key, name, sizeof(name)) % TABLE_ROWS;
    lock(lock_of(t, row));
    p = find(&t->place[row * TABLE_WAYS], a->family, key);
    if (!p)
        pthread_mutex_unlock(lock_of(t, row));
    return p;
}

void address_table_leave(struct address_table *t, const struct address_place *p)
{
    pthread_mutex_unlock(lock_of(t, (size_t)(p - t->place) / TABLE_WAYS));
}

void address_place_less(atomic_uint *count)
{
    unsigned n = atomic_load_explicit(count, memory_order_relaxed);

    while (n && !atomic_compare_exchange_weak_explicit(count, &n, n - 1, memory_order_release,
                                                       memory_order_relaxed))
        ;
}
