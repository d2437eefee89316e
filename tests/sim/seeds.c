/* SPDX-License-Identifier: MIT */
/* seeds.c - one seed, one crowd of clients, every readiness engine: each client gets the same
 * bytes from all engines.
 *
 * The engines, all the code that serves below them, and the files are real; sockets, readiness,
 * sleeping and the clock are simulated (seeds_net.h, seeds_calls.h, seeds_wait.h), so that a run
 * with a minute of time-outs takes milliseconds and can be repeated from its seed.  The seed draws
 * the clients (seeds_script.h); for each engine another seed draws how the network treats them.
 * The bytes that each client must get are computed without an engine.  The rules:
 *
 *   ends its stream, or waits for the server   exactly that, then the end of the stream; if it
 *   to lose patience                           waited, when its deadline had come
 *   lets a head drip                           what it asked for before; cut off in time
 *   stops reading at some byte                 exactly that many bytes; its connection is closed
 *   resets the connection                      the beginning of the answers
 *   is connected when the server must stop     whole answers, of which the last may say that the
 *                                              connection ends; if it stays, not a part of one
 *
 * In the end every connection is closed and counted, and no descriptor is left, virtual or real.
 * A pool of threads is left out: no seed decides how the kernel schedules them.  Engines that block
 * and completion engines wait in other ways and are left out too (tests/unit/engines.c has all).
 *
 * SEEDS=n tries more; `seeds SEED [ENGINE]` repeats one, `seeds 0 1/3` runs a third of the engines.
 */
#include "seeds_wait.h"
#include "../serving.h"
#include "../../base/say.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/stat.h>
#include <cmocka.h>

enum { PEERS_MAX = 24, SEEDS_DEFAULT = 200, LONG_BYTES = 150000 };

static const struct engine *riders[SERVING_ENGINES]; /* the engines that are simulated */
static unsigned riders_count;

static char folder[] = "/tmp/rung-seeds-XXXXXX";
static struct server srv;
static int listener[1][LISTENERS_MAX];
static struct script scripts[PEERS_MAX];
static struct peer peers[PEERS_MAX];
static const char *only;

/* State that the clients of a seed share. */
static struct {
    struct worker worker;
    struct loop *loop;   /* computes the bytes that they must get */
    unsigned count;
    uint64_t stop_us;    /* when the server must stop; NEVER: once they all have ended */
} crowd;

/* --- The server ------------------------------------------------------------------------------- */

static void riders_find(void)
{
    for (unsigned i = 0; i < SERVING_ENGINES; i++)
        if (serving_engines[i]->model == ENGINE_READINESS && !serving_engines[i]->thread_pool)
            riders[riders_count++] = serving_engines[i];
}

static void server_fill(const struct engine *e)
{
    struct site *site = srv.site;

    memset(&srv, 0, sizeof(srv));
    srv.site = site;
    srv.engine = e;
    srv.proto = &http_proto;
    srv.head_ms = HEAD_MS;
    srv.idle_ms = IDLE_MS;
    srv.send_ms = SEND_MS;
    srv.drain_ms = DRAIN_MS;
    srv.progress_bytes = PROGRESS;
    srv.body_bytes_max = BODY_BYTES_MAX;
    srv.connections_max = PEERS_MAX;
    srv.listener = listener;
    srv.arrangement.workers = 1;
    srv.arrangement.tuning = (struct tuning){.threads = 4, .queue_length = 8, .nap_ms = 20};
    must(stats_open(&srv.stats, 2) == 0);
}

static void stop(void)
{
    server_stop(&srv);
}

/* --- A run ------------------------------------------------------------------------------------ */

static void sim_begin(uint64_t seed)
{
    static const uint32_t ticks_us[] = {1000, 4000, 10000}, late_us[] = {500, 5000, 30000};

    memset(&sim, 0, sizeof(sim));
    sim.rng = seed;
    sim.tick_us = ticks_us[sim_random(3)];
    sim.short_in = 1u << sim_random(5);
    sim.drowsy_in = 1u << sim_random(6);
    sim.drowsy_us = late_us[sim_random(3)];
    sim.peer = peers;
    sim.peers = crowd.count;
    sim.job_us = sim.stop_us = NEVER;
    sim.early = crowd.stop_us != NEVER;
    if (sim.early)
        sim.stop_us = soon(crowd.stop_us);
    sim.stop = stop;
    sim.job_done = helper_pass;
    sim.on = true;
    helper_open();
    for (unsigned i = 0; i < crowd.count; i++) {
        struct peer *p = &peers[i];

        text_free(&p->out);
        *p = (struct peer){.number = i, .script = &scripts[i], .read_us = NEVER};
        p->step_us = soon(scripts[i].step[0].pause_us);
    }
    listener[0][0] = sim_open(KIND_LISTENER);
    srv.listeners = 1;
    srv.stop_fd = sim_open(KIND_EVENT);
}

static unsigned descriptors(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < FD_FIRST; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static const char *counters_wrong(void)
{
    uint64_t count[STATS];

    for (unsigned i = 0; i < STATS; i++)
        count[i] = stats_sum(srv.stats, (enum stat_id)i);
    if (count[STAT_ACCEPTED] != count[STAT_CLOSED] ||
        (count[STAT_ACCEPTED] != sim.peers && !sim.early))
        return "not every connection was accepted and closed";
    if (count[STAT_LOST] || count[STAT_REFUSED] || count[STAT_EVICTED])
        return "a connection was lost, refused or evicted";
    if (count[STAT_ANSWERS] != count[STAT_COMPLETE] + count[STAT_BROKEN])
        return "answers begun are neither complete nor broken";
    return NULL;
}

static const char *left_open(void)
{
    for (unsigned i = 0; i < FDS; i++)
        if (sim.thing[i].kind != KIND_NONE && (int)i + FD_FIRST != listener[0][0] &&
            (int)i + FD_FIRST != srv.stop_fd)
            return "a descriptor is left open";
    return NULL;
}

/* The clients read the bytes that are still on their way. */
static void sim_end(void)
{
    while (sim.ended < sim.peers && sim_next_us() < NEVER - 1) {
        sim.now_us = sim_next_us();
        sim_happen();
    }
    sim.on = false;
}

/* --- Verdicts --------------------------------------------------------------------------------- */

static bool same(const struct peer *p, size_t n)
{
    const struct text *want = &p->script->want;

    return n <= want->len && (!n || memcmp(p->out.bytes, want->bytes, n) == 0);
}

/* A client that waits for a deadline of the server is neither cut off early nor kept too long.  The
 * server began to wait no earlier than the client's last byte, less the pauses of a message, and no
 * later than the client's last read. */
static const char *late_or_early(const struct peer *p)
{
    const struct script *s = p->script;
    uint64_t since_us = s->manner == MANNER_DRIP ? p->begun_us : p->last_us;
    uint64_t most_ms = s->wait_ms == SEND_MS ? 2 * SEND_MS : s->wait_ms;
    uint64_t early_ms = (p->end_us - p->last_us + PAUSES_US) / 1000 + SLACK_MS;

    since_us = since_us > p->heard_us ? since_us : p->heard_us;
    if (s->manner == MANNER_DRIP)
        most_ms = HEAD_MS + DRIP_US / 1000;
    else if (s->manner != MANNER_IDLE && s->manner != MANNER_SILENT)
        return NULL;
    else if (s->wait_ms != LINGER_MS && early_ms < s->wait_ms)
        return "it is cut off before its deadline";
    most_ms += s->read_us / 1000 + SLACK_MS;
    return (p->end_us - since_us) / 1000 > most_ms ? "it is kept beyond its deadline" : NULL;
}

/* Whether the client got the bytes of a server that stopped before that message: a part of them if
 * the client did not stay until the end; otherwise all of them, or whole answers. */
static bool stopped_before(const struct peer *p, unsigned message)
{
    bool to_the_end = p->end == END_FIN && p->end_us < sim.stopped_us + DRAIN_MS * 1000u;
    bool whole = !to_the_end, begins;
    struct wanted w;

    script_want(p->script, crowd.loop, message, &w);
    begins = p->taken <= w.text.len && !(p->taken && memcmp(p->out.bytes, w.text.bytes, p->taken));
    whole = whole || p->taken == w.text.len;
    for (unsigned i = 0; i <= w.parts; i++)
        whole = whole || p->taken == w.at[i];
    text_free(&w.text);
    return begins && whole;
}

/* A message that ends after the stop is answered by a server that knows of the stop, or not at all;
 * an idle client is not kept. */
static const char *stopped_wrong(const struct peer *p)
{
    const struct script *s = p->script;
    uint64_t since_us = p->last_us > p->heard_us ? p->last_us : p->heard_us;
    unsigned known = 0, i = 0;

    while (known < s->messages && s->message_end[known] <= p->heeded)
        known++;
    while (i <= known && !stopped_before(p, i))
        i++;
    if (i > known)
        return "it got neither all nor whole answers of a server that stopped";
    if (p->end == END_NOT && !p->queued)
        return "it is left alone by a server that stopped";
    since_us = since_us > sim.stopped_us ? since_us : sim.stopped_us;
    if (s->manner == MANNER_IDLE && p->end == END_FIN &&
        p->end_us > since_us + s->read_us + SLACK_MS * 1000u)
        return "it is kept by a server that stopped, and does nothing";
    return NULL;
}

static const char *peer_wrong(const struct peer *p)
{
    const struct script *s = p->script;
    size_t stall = s->stall_at < s->want.len ? s->stall_at : s->want.len;

    if (sim.early)
        return stopped_wrong(p);
    if (!same(p, p->taken))
        return "it got other bytes";
    if (p->end == END_OWN)
        return NULL;
    if (p->end == END_NOT)
        return "it is left alone";
    if (p->end == END_STALLED)
        return p->taken == stall ? NULL : "it got too little before it stopped reading";
    if (p->taken != s->want.len)
        return "it did not get everything";
    if (p->end != END_FIN && s->manner != MANNER_DRIP)
        return "it was reset";
    return late_or_early(p);
}

/* Show everything known about a client that got the wrong answer. */
static void peer_show(const struct peer *p)
{
    const struct script *s = p->script;
    size_t at = 0, end;

    while (at < p->taken && at < s->want.len && p->out.bytes[at] == s->want.bytes[at])
        at++;
    end = at + 60 < p->out.len ? at + 60 : p->out.len;
    printf("client %u, manner %u, end %u: sent %zu of %zu bytes, got %zu of %zu, "
           "the same up to %zu\n"
           "last act %llu us, end %llu us, should wait %llu ms; there:\n%.*s\ninput:\n%.*s\n",
           p->number, s->manner, p->end, p->arrived, s->in.len, p->taken, s->want.len, at,
           (unsigned long long)p->last_us, (unsigned long long)p->end_us,
           (unsigned long long)s->wait_ms, (int)(end - at), p->out.bytes ? p->out.bytes + at : "",
           (int)(s->in.len < 400 ? s->in.len : 400), s->in.bytes ? s->in.bytes : "");
}

/* Run one engine; return what is wrong, or NULL. */
static const char *ride(unsigned rider, uint64_t seed, unsigned flip)
{
    const struct engine *e = riders[rider];
    static char text[256];
    unsigned open = descriptors();
    const char *wrong;
    int err;

    server_fill(e);
    sim_begin(seed * 1000003 + rider + 1);
    sim.flip = flip;
    snprintf(sim.name, sizeof(sim.name), "seed %llu, engine %s; to repeat: seeds %llu '%s'",
             (unsigned long long)seed, e->name, (unsigned long long)seed, e->name);
    err = worker_run(&srv, 0);
    wrong = err ? "the engine failed" : counters_wrong();
    if (!wrong && sim.now_us > sim.stopped_us + (DRAIN_MS + SLACK_MS) * 1000u)
        wrong = "stopping took longer than it may";
    wrong = wrong ? wrong : left_open();
    sim_end();
    wrong = wrong || descriptors() == open ? wrong : "a file is left open";
    snprintf(text, sizeof(text), "%s: %s", sim.name, wrong ? wrong : "");
    for (unsigned i = 0; i < crowd.count && !wrong; i++) {
        wrong = peer_wrong(&peers[i]);
        snprintf(text, sizeof(text), "%s: client %u: %s", sim.name, i, wrong ? wrong : "");
        if (wrong && !flip)
            peer_show(&peers[i]);
    }
    stats_close(srv.stats);
    return wrong ? text : NULL;
}

/* --- Seeds ------------------------------------------------------------------------------------ */

/* One crowd in four sees the server stop. */
static void crowd_open(uint64_t seed)
{
    uint64_t rng = seed * 0x9e3779b97f4a7c15u + 1;

    crowd.count = 1 + (unsigned)script_random(&rng, PEERS_MAX);
    crowd.stop_us = script_random(&rng, 4) ? NEVER : script_random(&rng, 1500000);
    crowd.worker = (struct worker){.server = &srv};
    server_fill(riders[0]);
    sim = (struct sim){.on = true, .tick_us = 1000}; /* for the date */
    must(loop_open_blocking(&crowd.worker, &crowd.loop) == 0);
    for (unsigned i = 0; i < crowd.count; i++)
        script_open(&scripts[i], script_random(&rng, UINT64_MAX) | 1, crowd.loop);
    sim.on = false;
    stats_close(srv.stats);
}

static void crowd_close(void)
{
    loop_close(crowd.loop);
    for (unsigned i = 0; i < crowd.count; i++) {
        script_close(&scripts[i]);
        text_free(&peers[i].out);
    }
}

static void try_seed(uint64_t seed)
{
    crowd_open(seed);
    for (unsigned i = 0; i < riders_count; i++) {
        const char *wrong = NULL;

        if (!serving_left_out(riders[i]) && serving_in_share(only, riders[i]->name, i))
            wrong = ride(i, seed, 0);
        if (wrong)
            fail_msg("%s", wrong);
    }
    crowd_close();
}

/* shows N08, S04 */
static void every_engine_sends_the_same(void **state)
{
    const char *asked = getenv("SEEDS");
    unsigned long n = asked ? strtoul(asked, NULL, 10) : SEEDS_DEFAULT;

    (void)state;
    for (uint64_t seed = 1; seed <= (serving_under_valgrind() ? n / 20 + 1 : n); seed++)
        try_seed(seed);
}

/* A flipped bit is noticed in whichever transfer it occurs. */
static void a_wrong_byte_is_noticed(void **state)
{
    (void)state;
    for (unsigned flip = 1; flip < 40; flip += 3) {
        crowd_open(7);
        assert_non_null(ride(flip % riders_count, 7, flip));
        crowd_close();
    }
}

/* --- The folder ------------------------------------------------------------------------------- */

/* Several ticks of any clock: tags of younger files are weak, and the first tags seen would differ
 * from later ones. */
enum { GROW_OLD_NS = 100000000 };

static const struct {
    const char *name;
    size_t bytes;
} files[] = {
    {"index.html", 700}, {"small", 300},     {"page.html", 5000}, {"page.html.gz", 1200},
    {"empty", 0},        {"edge", 16384},    {"beyond", 16385},   {"long", LONG_BYTES},
    {"list/a", 1},       {"list/b", 20},     {"list/c d", 300},
};
enum { FILES = sizeof(files) / sizeof(*files) };

static int folder_make(void **state)
{
    struct site_options opt = {.root = folder, .rules.listing = true, .rules.precompressed = true};
    const char *why;
    char path[64];

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/list", folder);
    assert_int_equal(mkdir(path, 0755), 0);
    for (unsigned i = 0; i < FILES; i++) {
        FILE *f;

        snprintf(path, sizeof(path), "%s/%s", folder, files[i].name);
        f = fopen(path, "w");
        assert_non_null(f);
        assert_int_equal(fwrite(fake_bytes() + i, 1, files[i].bytes, f), files[i].bytes);
        assert_int_equal(fclose(f), 0);
    }
    nanosleep(&(struct timespec){.tv_nsec = GROW_OLD_NS}, NULL);
    return site_open(&srv.site, &opt, &why);
}

static int folder_remove(void **state)
{
    char path[64];

    (void)state;
    site_close(srv.site);
    for (unsigned i = 0; i < FILES; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, files[i].name);
        remove(path);
    }
    snprintf(path, sizeof(path), "%s/list", folder);
    rmdir(path);
    return rmdir(folder);
}

static void one_seed(void **state)
{
    try_seed(*(const uint64_t *)*state);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_engine_sends_the_same),
        cmocka_unit_test(a_wrong_byte_is_noticed),
    };
    const struct CMUnitTest one[] = {cmocka_unit_test_prestate(one_seed, &seed)};

    only = argc > 2 ? argv[2] : NULL;
    say_quiet(true);
    riders_find();
    return seed ? cmocka_run_group_tests(one, folder_make, folder_remove)
                : cmocka_run_group_tests(tests, folder_make, folder_remove);
}
