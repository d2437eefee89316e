/* SPDX-License-Identifier: MIT */
/* tls_read_memory.c - every allocation is refused in turn while certificates are read, at the start
 * and again.  A file that cannot be read is reported, and after a failed reload the certificates
 * read before are shown.
 */
#include "tls_refuse.h"

static const struct plan by_file = {.version = TLS1_3_VERSION, .host = "a.example"};
static const struct plan by_self = {.version = TLS1_3_VERSION, .host = "localhost"};

enum { CONTEXT = 300 }; /* allocations until a context is made: OpenSSL hides that some failed */

/* The files that are read, and the clients that can connect then. */
struct reading {
    const struct tls_pairs *pairs;
    const struct plan *plan;
    struct tls_setup *setup; /* to be read again */
    long number;             /* of its certificate; 0: not known */
};

static void connects(const struct reading *r, struct tls_setup *setup)
{
    setup->inner = &http_proto;
    calm();
    converse(&(struct talk){r->plan, setup}, true);
}

static void opens(void *arg, bool must_work)
{
    const struct reading *r = arg;
    struct tls_setup *setup = NULL;
    int code;

    refuse_on();
    code = tls_open(&setup, r->pairs, (struct tls_offer){.h2 = false});
    refuse_off();
    must(!must_work || (!code && !*said));
    must(!code || strstr(said, "no memory"));
    if (code)
        return;
    must(!*said || strstr(said, ".ocsp is not sent to clients: no memory"));
    connects(r, setup);
    tls_close(setup);
}

static void opens_again(void *arg, bool was_refused)
{
    (void)was_refused;
    *said = '\0';
    opens(arg, true);
}

/* The certificate that is now shown. */
static long number_shown(const struct reading *r)
{
    struct client *k = client_open(r->plan, r->setup);
    long number;

    client_run(k);
    assert_whole(k);
    number = ASN1_INTEGER_get(X509_get0_serialNumber(SSL_get0_peer_certificate(k->ssl)));
    client_close(k);
    return number;
}

/* Other files take the place of those that were read last. */
static void exchange(struct reading *r)
{
    long number = r->number;

    if (!number)
        return;
    must(renameat2(AT_FDCWD, "now", AT_FDCWD, "next", RENAME_EXCHANGE) == 0);
    r->number = next_number;
    next_number = number;
}

static void reloads(void *arg, bool must_work)
{
    struct reading *r = arg;
    bool failed;

    exchange(r);
    refuse_on();
    tls_reload(r->setup);
    refuse_off();
    calm();
    failed = strstr(said, "the certificates read before stay in use");
    must(!must_work || !*said);
    must(!*said || strstr(said, "no memory"));
    if (r->number)
        assert_int_equal(number_shown(r), failed ? next_number : r->number);
    else
        (void)number_shown(r);
}

static void reloads_again(void *arg, bool was_refused)
{
    struct reading *r = arg;

    (void)was_refused;
    *said = '\0';
    tls_reload(r->setup);
    must(!*said);
    if (r->number)
        assert_int_equal(number_shown(r), r->number);
}

static const char *const self_item[] = {"self"};
static const struct tls_pairs self_pairs = {.item = self_item, .count = 1};

static void reading(bool self, bool again, bool after)
{
    struct reading r = {.pairs = self ? &self_pairs : &pairs, .plan = self ? &by_self : &by_file};
    struct turn t = {self ? "self" : "files", opens, opens_again, &r, after,
                     self || after ? 0 : CONTEXT};

    begin(0, false);
    answers_make(&answers, r.plan);
    opens(&r, true);
    if (again) {
        must(tls_open(&r.setup, r.pairs, (struct tls_offer){.h2 = false}) == 0);
        r.setup->inner = &http_proto;
        r.number = self ? 0 : now_number;
        t = (struct turn){self ? "self again" : "files again", reloads, reloads_again, &r, after,
                          0};
        reloads(&r, true);
    }
    in_turn(&t);
    tls_close(r.setup);
    now_number = r.number ? r.number : now_number;
}

static void files(void **state)
{
    (void)state;
    reading(false, false, false);
}

static void files_all_after(void **state)
{
    (void)state;
    reading(false, false, true);
}

static void files_again(void **state)
{
    (void)state;
    reading(false, true, false);
}

static void files_again_all_after(void **state)
{
    (void)state;
    reading(false, true, true);
}

static void self(void **state)
{
    (void)state;
    reading(true, false, false);
}

static void self_all_after(void **state)
{
    (void)state;
    reading(true, false, true);
}

static void self_again(void **state)
{
    (void)state;
    reading(true, true, false);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files),       cmocka_unit_test(files_all_after),
        cmocka_unit_test(files_again), cmocka_unit_test(files_again_all_after),
        cmocka_unit_test(self),        cmocka_unit_test(self_all_after),
        cmocka_unit_test(self_again),
    };

    take_arguments(argc, argv);
    return cmocka_run_group_tests_name("tls_read_memory", tests, set_up, tear_down);
}
