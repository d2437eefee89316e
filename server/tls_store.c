/* SPDX-License-Identifier: MIT */
/* tls_store.c - the newest certificates, and tickets that every worker can open.
 *
 * A reload reads all files again and replaces the old set by the new one; connections keep what
 * they began with, and the last of them frees it.  If anything cannot be read, nothing changes.
 * The process that gets the signal reads first and says how it went.  Other processes see a number
 * in shared memory, and read when their next client comes.  A process that is forked has what its
 * parent had.
 */
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "../base/clock.h"
#include "../base/say.h"
#include "tls_memory.h"
#include "tls_set.h"
#include "tls_store.h"
#include "tls_tickets.h"

enum { SAY_EVERY_MS = 1000 }; /* clients that are refused must not fill the disk with messages */

/* All processes of the server. */
struct together {
    atomic_uint turns; /* reloads so far */
    atomic_ullong said_ms; /* when a client that was refused was reported; 0: none yet */
    atomic_ullong unsaid;  /* clients that were refused since then */
};

struct store {
    const struct tls_pairs *pairs; /* the server's options */
    struct tls_offer offer;
    struct tickets *tickets;
    struct together *together;
    pthread_mutex_t lock;
    struct set *set;    /* the newest; this and the users of every set are locked */
    unsigned turn;      /* reloads that this process has followed */
};

/* --- Tickets ---------------------------------------------------------------------------------- */

/* RFC 5077 4: encrypted by AES in CBC mode, and then authenticated by HMAC-SHA-256. */
static bool set_keys(const struct ticket_key *key, EVP_MAC_CTX *mac)
{
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)(uintptr_t)key->mac,
                                          sizeof(key->mac)),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char[]){"SHA256"}, 0),
        OSSL_PARAM_construct_end()};

    return EVP_MAC_CTX_set_params(mac, params) == 1;
}

/* 1: the ticket is good; 2: and the client should get a new one; 0: it is not; -1: an error. */
static int ticket_keys(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                       EVP_MAC_CTX *mac, int making)
{
    struct store *s = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    struct ticket_key key;
    bool renew = false, fine;

    if (making) {
        fine = tickets_newest(s->tickets, clock_ms(), &key) &&
               RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) == 1 &&
               EVP_EncryptInit_ex(cipher, EVP_aes_256_cbc(), NULL, key.cipher, iv) == 1;
        if (fine)
            memcpy(name, key.name, sizeof(key.name));
    } else {
        memcpy(key.name, name, sizeof(key.name));
        if (!tickets_find(s->tickets, clock_ms(), &key, &renew))
            return 0;
        fine = EVP_DecryptInit_ex(cipher, EVP_aes_256_cbc(), NULL, key.cipher, iv) == 1;
    }
    fine = fine && set_keys(&key, mac);
    explicit_bzero(&key, sizeof(key));
    return fine ? 1 + renew : -1;
}

/* --- Certificates ----------------------------------------------------------------------------- */

/* What was read without enough memory may lack some algorithms. */
static int read_set(struct store *s, struct set **set)
{
    int code;

    tls_memory_watch();
    code = set_read(set, s->pairs, s->set, s->offer);
    for (unsigned i = 0; !code && i < (*set)->count; i++) {
        SSL_CTX *ctx = (*set)->ctx[i];

        SSL_CTX_set_app_data(ctx, s);
        SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, ticket_keys);
        SSL_CTX_set_timeout(ctx, TICKET_PERIOD_S);
    }
    if (code || !tls_memory_lacked())
        return code;
    say_error("--tls: no memory");
    set_free(*set);
    return EXIT_FAILED;
}

/* Locked. */
static void leave(struct set *set)
{
    if (set && --set->users == 0)
        set_free(set);
}

/* Only one thread of a process does this at a time: the one with signals, or the first with a new
 * client, which has the lock, and does not try again for the next client. */
static int follow(struct store *s, unsigned turn, bool locked)
{
    struct set *set;
    int code = read_set(s, &set);

    if (!locked)
        pthread_mutex_lock(&s->lock);
    if (!code || locked)
        s->turn = turn;
    if (!code) {
        set->users = 1;
        leave(s->set);
        s->set = set;
    }
    if (!locked)
        pthread_mutex_unlock(&s->lock);
    return code;
}

SSL *store_ssl_new(struct store *s)
{
    unsigned turn = atomic_load(&s->together->turns);
    struct set *set;
    SSL *ssl;

    pthread_mutex_lock(&s->lock);
    if (s->turn != turn)
        (void)follow(s, turn, true);
    set = s->set;
    ssl = SSL_new(set->ctx[0]);
    if (ssl && !SSL_set_app_data(ssl, set)) {
        SSL_free(ssl);
        ssl = NULL;
    }
    set->users += ssl != NULL;
    pthread_mutex_unlock(&s->lock);
    return ssl;
}

void store_ssl_free(struct store *s, SSL *ssl)
{
    struct set *set = SSL_get_app_data(ssl);

    SSL_free(ssl);
    pthread_mutex_lock(&s->lock);
    leave(set);
    pthread_mutex_unlock(&s->lock);
}

/* --- Clients that are refused ----------------------------------------------------------------- */

/* A message that stderr does not take at once is left out, too: clients could hold the loop up. */
bool store_refused(struct store *s, unsigned long long *more)
{
    unsigned long long now = clock_ms(), said = atomic_load(&s->together->said_ms);

    if ((said && now - said < SAY_EVERY_MS) || !say_may_write(STDERR_FILENO, 0) ||
        !atomic_compare_exchange_strong(&s->together->said_ms, &said, now)) {
        atomic_fetch_add(&s->together->unsaid, 1);
        return false;
    }
    *more = atomic_exchange(&s->together->unsaid, 0);
    return true;
}

/* --- Life ------------------------------------------------------------------------------------- */

static struct store *forked; /* what a fork must find unlocked: the one store of the process */

static void before_fork(void)
{
    if (forked)
        pthread_mutex_lock(&forked->lock);
}

static void after_fork(void)
{
    if (forked)
        pthread_mutex_unlock(&forked->lock);
}

static bool prepare(struct store *s)
{
    static bool once;
    void *mem = mmap(NULL, sizeof(*s->together), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    s->together = mem == MAP_FAILED ? NULL : mem;
    if (!s->together || tickets_open(&s->tickets) || pthread_mutex_init(&s->lock, NULL))
        return false;
    if (!once && pthread_atfork(before_fork, after_fork, after_fork))
        return false;
    once = true;
    forked = s;
    return true;
}

int store_open(struct store **store, const struct tls_pairs *pairs, struct tls_offer offer)
{
    struct store *s = calloc(1, sizeof(*s));
    int code = EXIT_FAILED;

    if (!s || !prepare(s)) {
        say_error("--tls: no memory");
        if (s)
            store_close(s);
        return code;
    }
    s->pairs = pairs;
    s->offer = offer;
    code = follow(s, 0, false);
    if (code)
        store_close(s);
    else
        *store = s;
    return code;
}

void store_reload(struct store *s)
{
    unsigned turn = atomic_load(&s->together->turns) + 1;

    if (follow(s, turn, false)) {
        say_error("the certificates read before stay in use");
        return;
    }
    atomic_store(&s->together->turns, turn);
    say("certificates read again");
}

void store_close(struct store *s)
{
    forked = NULL;
    leave(s->set);
    tickets_close(s->tickets);
    if (s->together)
        munmap(s->together, sizeof(*s->together));
    free(s);
}
