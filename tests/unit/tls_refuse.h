/* SPDX-License-Identifier: MIT */
/* tls_refuse.h - a server that speaks TLS by OpenSSL, whose allocations are refused in turn: the
 * library's, and those of rung around it.
 *
 * Nothing may crash or leak; what fails says so, or ends the connection; and the next one works.
 *
 * The program is linked as refuse_host.h asks, and with --wrap=say,--wrap=say_error.  Its argument,
 * STEP, says that every STEP-th allocation is refused; without it they are fewer and fewer.
 */
#ifndef TESTS_UNIT_TLS_REFUSE_H
#define TESTS_UNIT_TLS_REFUSE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include "../../base/say.h"
#include "../../server/tls_memory.h"
#include "tls_client.h"
#include "tls_files.h"

/* --- What is put in place --------------------------------------------------------------------- */

void __wrap_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void __wrap_say_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

static char said[4096]; /* errors of this run */

void __wrap_say(const char *format, ...)
{
    (void)format;
}

void __wrap_say_error(const char *format, ...)
{
    size_t len = strlen(said);
    va_list ap;

    va_start(ap, format);
    len += (size_t)vsnprintf(said + len, sizeof(said) - len, format, ap);
    va_end(ap);
    must(len + 1 < sizeof(said));
    memcpy(said + len, "\n", 2);
}

/* --- Turns ------------------------------------------------------------------------------------ */

static unsigned step;

/* What is refused after the n-th. */
static inline unsigned next(unsigned n)
{
    return n + (step ? step : 1 + n / 8);
}

/* Frees what OpenSSL keeps for a thread: errors and random numbers. */
static inline void begin(unsigned n, bool after)
{
    OPENSSL_thread_stop();
    refuse_begin(n, after);
    *said = '\0';
}

/* Refuses nothing from now on; blocks that were allocated before are still listed. */
static inline void calm(void)
{
    refuse.at = 0;
}

/* Blocks that a run leaves are leaks if each run leaves as many: OpenSSL keeps the results of some
 * look-ups, which one run may replace or add. */
enum { LEAKS_MIN = 3, MORE = 20 };

/* One run in which the n-th is refused, and what must work afterwards. */
struct turn {
    const char *name;
    void (*refused)(void *arg, bool must_work);
    void (*works_again)(void *arg, bool was_refused);
    void *arg;
    bool after;
    unsigned each; /* of the first ones none is left out */
};

/* How many allocations there were. */
static inline unsigned turn(const struct turn *t, unsigned n)
{
    unsigned count;
    long live;

    for (unsigned leaks = 0; leaks < LEAKS_MIN; leaks++) {
        begin(n, t->after);
        refuse.stacks = leaks + 1 == LEAKS_MIN;
        live = refuse.live;
        t->refused(t->arg, !n);
        count = refuse.count;
        calm();
        t->works_again(t->arg, n);
        OPENSSL_thread_stop();
        if (refuse.live <= live)
            return count;
    }
    print_error("%s, allocation %u: %ld blocks left\n%s", t->name, n, refuse.live - live, said);
    refuse_print();
    fail();
    return count;
}

/* The count may differ a little from run to run. */
static inline void in_turn(const struct turn *t)
{
    unsigned count = turn(t, 0), refused = 0;

    for (unsigned n = 1; n <= count + MORE; n = n < t->each ? n + 1 : next(n))
        refused += turn(t, n) >= n;
    print_message("%s: %u allocations, %u of them refused%s\n", t->name, count, refused,
                  t->after ? ", with all after it" : "");
    assert_true(count > MORE && refused > (step ? count / step / 2 : MORE));
}

/* --- Connections ------------------------------------------------------------------------------ */

static const char *const items[] = {"now/a.pem,now/a.key", "now/b.pem,now/b.key"};
static const struct tls_pairs pairs = {.item = items, .count = 2};

static inline struct tls_setup *open_setup(void)
{
    struct tls_setup *setup = NULL;

    must(tls_open(&setup, &pairs, (struct tls_offer){.h2 = false}) == 0);
    must(!*said);
    setup->inner = &http_proto;
    return setup;
}

/* The names of the certificate that the server has shown. */
static inline bool shows(const struct client *k, const char *name)
{
    X509 *cert = SSL_get0_peer_certificate(k->ssl);

    return cert && X509_check_host(cert, name, 0, 0, NULL) == 1;
}

static inline long staple_bytes(const struct client *k)
{
    const unsigned char *bytes;

    return SSL_get_tlsext_status_ocsp_resp(k->ssl, &bytes);
}

static inline void assert_whole(const struct client *k)
{
    assert_true(client_has_all(k));
    assert_int_equal(k->h.fake->n.complete, ASKS);
    assert_int_equal(SSL_session_reused(k->ssl), k->plan->resumes);
    if (k->plan->staple)
        assert_true(staple_bytes(k) > 0);
}

struct talk {
    const struct plan *plan;
    struct tls_setup *setup;
};

/* One connection; its allocations may be refused. */
static inline void converse(void *arg, bool must_work)
{
    const struct talk *t = arg;
    struct client *k = client_open(t->plan, t->setup);

    client_run(k);
    client_judge(k);
    if (SSL_is_init_finished(k->ssl))
        must(shows(k, t->plan->host));
    if (must_work)
        assert_whole(k);
    client_close(k);
}

enum { BLINDINGS = 32 };

/* A connection works.  If BN_BLINDING_create_param() gets no memory while it renews the two numbers
 * that blind an RSA key, OpenSSL 3.0 uses a new one together with an old one, and signatures are
 * wrong until it renews them again, 32 signatures later.  Only that may fail, and only for that
 * many signatures. */
static inline void works_again(void *arg, bool was_refused)
{
    const struct talk *t = arg;
    unsigned wrong = 0;
    bool whole = false;

    while (!whole) {
        struct client *k = client_open(t->plan, t->setup);

        client_run(k);
        client_judge(k);
        whole = client_has_all(k);
        if (whole)
            assert_whole(k);
        else
            assert_true(k->bad_signature && was_refused && wrong++ < BLINDINGS);
        client_close(k);
    }
}

/* --- Life ------------------------------------------------------------------------------------- */

/* Folders with the same names: what is read, and what may take its place. */
static char folder[256];
static long now_number, next_number; /* of their first certificates */

static inline long make_folder(const char *name)
{
    long number;

    must(mkdir(name, 0700) == 0 && chdir(name) == 0);
    number = files_make();
    must(chdir("..") == 0);
    return number;
}

static inline int drop(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline void folder_open(void)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(folder, sizeof(folder), "%s/rung-tls-XXXXXX", tmp ? tmp : "/tmp");
    must(mkdtemp(folder) && chdir(folder) == 0);
}

static inline int folder_close(void **state)
{
    (void)state;
    return nftw(folder, drop, 8, FTW_DEPTH | FTW_PHYS);
}

static inline int set_up(void **state)
{
    (void)state;
    folder_open();
    now_number = make_folder("now");
    next_number = make_folder("next");
    client_prepare();
    return 0;
}

static inline int tear_down(void **state)
{
    client_forget();
    return folder_close(state);
}

/* Before anything else is done with the library. */
static inline void take_arguments(int argc, char **argv)
{
    void *frame[2];

    must(tls_memory_open());
    if (argc > 1)
        must(sscanf(argv[1], "%u", &step) == 1 && step);
    (void)backtrace(frame, 2); /* loads what it needs */
}

#endif
