/* SPDX-License-Identifier: MIT */
/* site_charge.c - counts the memory of all sorted listings and archives, for each process; and
 * gives out the places of archives.
 *
 * A single sum would stay too large for ever if a process was killed that had a part of it.  So
 * each process counts its bytes in a claim of its own, a word that also names the process, and all
 * claims are added up.  A claim is released with its last byte.  Claims of processes that have died
 * are found when the sum is too large, or when no claim is free: a dying process need not call
 * anything, and its parent need not be alive to see it.
 *
 * A place of an archive is a word that names the process that has it, and is released in the same
 * ways.
 *
 * The process that opened the site, often the only one, counts in shared->listings_bytes.
 *
 * Cost: two additions in shared memory for each step of growth, and a look at each claim that was
 * ever used.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "site_inside.h"

/* The upper half of a claim is the process id (0: the claim is free), the lower half its bytes. */
enum { OWNER_SHIFT = 32 };
_Static_assert(SITE_LISTINGS_BYTES_MAX < 1ll << (OWNER_SHIFT - 1), "a claim's bytes stay below");

int charges_open(struct site *site)
{
    struct site_shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED)
        return -1;
    site->shared = shared;
    site->archive = shared->archive;
    site->opener = getpid();
    return 0;
}

void charges_close(struct site *site)
{
    munmap(site->shared, sizeof(*site->shared));
}

static uint64_t own_word(void)
{
    return (uint64_t)getpid() << OWNER_SHIFT;
}

static bool is_own(const _Atomic uint64_t *claim)
{
    return atomic_load(claim) >> OWNER_SHIFT == own_word() >> OWNER_SHIFT;
}

static size_t sum(const struct site_shared *shared)
{
    unsigned claims = atomic_load(&shared->claims);
    size_t all = atomic_load(&shared->listings_bytes);

    for (unsigned i = 0; i < claims; i++)
        all += (uint32_t)atomic_load_explicit(&shared->claim[i], memory_order_relaxed);
    return all;
}

/* A zombie is dead too: it keeps its number until its parent waits, but has no memory any more. */
static bool is_dead(pid_t pid)
{
    static atomic_bool unknown; /* valgrind does not know the call */
    struct pollfd end = {.events = POLLIN};
    bool dead;

    if (kill(pid, 0) < 0)
        return errno == ESRCH;
    if (atomic_load(&unknown))
        return false;
    end.fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (end.fd < 0) {
        atomic_store(&unknown, errno == ENOSYS);
        return errno == ESRCH;
    }
    dead = poll(&end, 1, 0) > 0;
    close(end.fd);
    return dead;
}

/* Release the claims of processes that have died.  If another process has the same id by now, the
 * claim stays until that process ends, or makes a claim itself. */
static bool sweep(struct site_shared *shared)
{
    unsigned claims = atomic_load(&shared->claims);
    bool found = false;

    for (unsigned i = 0; i < claims; i++) {
        uint64_t word = atomic_load(&shared->claim[i]);

        if (word && is_dead((pid_t)(word >> OWNER_SHIFT)))
            found |= atomic_compare_exchange_strong(&shared->claim[i], &word, 0);
    }
    return found;
}

static _Atomic uint64_t *free_claim(struct site_shared *shared)
{
    for (unsigned i = 0; i < SITE_CLAIMS; i++) {
        unsigned claims = atomic_load(&shared->claims);
        uint64_t none = 0;

        if (!atomic_compare_exchange_strong(&shared->claim[i], &none, own_word()))
            continue;
        while (claims <= i && !atomic_compare_exchange_weak(&shared->claims, &claims, i + 1))
            ;
        return &shared->claim[i];
    }
    return NULL;
}

/* This process's claim, or NULL: none is free.  A claim inherited through fork() is another
 * process's.  Called with the lock held. */
static _Atomic uint64_t *claim(struct site *site)
{
    struct site_shared *shared = site->shared;

    if (site->claim && is_own(site->claim))
        return site->claim;
    for (unsigned i = 0; i < atomic_load(&shared->claims); i++)
        if (is_own(&shared->claim[i])) /* its process died, and we have its number */
            atomic_store(&shared->claim[i], 0);
    site->claim = free_claim(shared);
    if (!site->claim && sweep(shared))
        site->claim = free_claim(shared);
    return site->claim;
}

static bool fits(struct site *site)
{
    return sum(site->shared) <= SITE_LISTINGS_BYTES_MAX ||
           (sweep(site->shared) && sum(site->shared) <= SITE_LISTINGS_BYTES_MAX);
}

/* Called with the lock held. */
static void claim_less(struct site *site, size_t bytes)
{
    uint64_t own = own_word();

    atomic_fetch_sub(site->claim, bytes);
    (void)atomic_compare_exchange_strong(site->claim, &own, 0); /* it was the last byte */
}

bool charge(struct site *site, size_t bytes)
{
    bool done = false;

    if (getpid() == site->opener) {
        atomic_fetch_add(&site->shared->listings_bytes, bytes);
        done = fits(site);
        if (!done)
            atomic_fetch_sub(&site->shared->listings_bytes, bytes);
        return done;
    }
    pthread_mutex_lock(&site->rolls_lock);
    if (claim(site)) {
        atomic_fetch_add(site->claim, bytes);
        done = fits(site);
        if (!done)
            claim_less(site, bytes);
    }
    pthread_mutex_unlock(&site->rolls_lock);
    return done;
}

void charge_back(struct site *site, size_t bytes)
{
    if (getpid() == site->opener) {
        atomic_fetch_sub(&site->shared->listings_bytes, bytes);
        return;
    }
    pthread_mutex_lock(&site->rolls_lock);
    if (bytes && site->claim && is_own(site->claim))
        claim_less(site, bytes);
    pthread_mutex_unlock(&site->rolls_lock);
}

/* --- Places of archives ----------------------------------------------------------------------- */

static int free_place(_Atomic pid_t *archive)
{
    for (int i = 0; i < SITE_ARCHIVES_MAX; i++) {
        pid_t none = 0;

        if (atomic_compare_exchange_strong(&archive[i], &none, getpid()))
            return i;
    }
    return -EAGAIN;
}

int archive_place(struct site *site)
{
    int place = free_place(site->archive);

    if (place >= 0)
        return place;
    for (unsigned i = 0; i < SITE_ARCHIVES_MAX; i++) {
        pid_t owner = atomic_load(&site->archive[i]);

        if (owner && is_dead(owner))
            (void)atomic_compare_exchange_strong(&site->archive[i], &owner, 0);
    }
    return free_place(site->archive);
}

void archive_place_back(struct site *site, int place)
{
    if (place >= 0)
        atomic_store(&site->archive[place], 0);
}
