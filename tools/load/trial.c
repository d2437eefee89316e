/* SPDX-License-Identifier: MIT */
/* trial.c - trials: which ones run, the threads of one trial, its verdict.
 *
 * A trial is passed when its hostile clients were treated as they should be, when ordinary clients
 * got right answers in time meanwhile, and when the server answers new connections afterwards.  A
 * thread that only waits for time to pass sleeps in poll().
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include "../../base/say.h"
#include "trial.h"

enum {
    ACT_MS = 2000,              /* unless -d says otherwise */
    REST_MS = 5,                /* of an ordinary client between two requests */
    AFTER = 3,                  /* new connections after a trial */
    FILES_SPARE = 64 /* descriptors other than those of hostile clients */
};

static const struct {
    const char *name, *words;
    void (*script)(struct actor *);
} trials[] = {
#define X(id, name, words) {name, words, trial_##id},
#include "trials.def"
#undef X
};
enum { TRIALS = sizeof(trials) / sizeof(trials[0]) };

static void list(FILE *out)
{
    for (unsigned i = 0; i < TRIALS; i++)
        fprintf(out, "  %-13s %s\n", trials[i].name, trials[i].words);
}

/* --- Ordinary clients ------------------------------------------------------------------------- */

static int ask_on(struct talk *t, uint64_t until_ns)
{
    int err = t->fd < 0 ? talk_open(t, 0) : 0;

    err = err ? err : talk_ask(t, until_ns);
    return err ? err : talk_answers(t, until_ns);
}

/* Asks once.  A server may close an idle connection (RFC 9112 9.5); the client then asks again on a
 * new one, within the same time. */
static void ask_once(struct actor *a)
{
    struct talk *t = &a->talk;
    uint64_t began = clock_ns(), until_ns = began + a->scene->timeout_ns, took;
    bool rested = t->fd >= 0;
    int err = ask_on(t, until_ns);

    if (rested && !t->answer.in_body && !t->answer.partial_len &&
        (err == -ENODATA || err == -EPIPE || err == -ECONNRESET)) {
        talk_close(t);
        err = ask_on(t, until_ns);
    }
    took = clock_ns() - began;
    if (a->acts.worst_ns < took)
        a->acts.worst_ns = took;
    if (err)
        actor_wrong(a, "an ordinary request", err);
    else
        actor_answered(a);
    if (err || t->last)
        talk_close(t);
}

static void be_ordinary(struct actor *a)
{
    while (acting(a)) {
        ask_once(a);
        if (a->index == TRIAL_BESIDE - 1)
            talk_close(&a->talk);
        poll(NULL, 0, REST_MS);
    }
}

static void be_after(struct actor *a)
{
    for (unsigned i = 0; i < AFTER; i++) {
        ask_once(a);
        talk_close(&a->talk);
    }
}

/* --- Threads ---------------------------------------------------------------------------------- */

static void *actor_main(void *arg)
{
    struct actor *a = arg;

    a->script(a);
    talk_fini(&a->talk);
    return NULL;
}

static int start(struct actor *a, unsigned n, void (*script)(struct actor *))
{
    for (unsigned i = 0; i < n; i++) {
        int err;

        a[i].script = script;
        a[i].talk.scene = a[i].scene;
        a[i].talk.fd = -1;
        err = pthread_create(&a[i].thread, NULL, actor_main, &a[i]);
        if (err) {
            say_error("cannot start %u threads, one for each client: %s", n, say_why(err));
            return EXIT_FAILED;
        }
        a[i].started = true;
    }
    return 0;
}

static void add(struct acts *sum, const struct acts *one)
{
    sum->done += one->done;
    sum->answered += one->answered;
    sum->closed += one->closed;
    if (one->wrong && !sum->wrong)
        memcpy(sum->why, one->why, sizeof(sum->why));
    sum->wrong += one->wrong;
    if (sum->worst_ns < one->worst_ns)
        sum->worst_ns = one->worst_ns;
    if (sum->close_ns < one->close_ns)
        sum->close_ns = one->close_ns;
}

static void gather(struct actor *a, unsigned n, struct acts *sum)
{
    for (unsigned i = 0; i < n && a[i].started; i++) {
        pthread_join(a[i].thread, NULL);
        add(sum, &a[i].acts);
    }
}

/* --- The verdict ------------------------------------------------------------------------------ */

__attribute__((format(printf, 2, 3)))
static void because(struct trial_result *r, const char *format, ...)
{
    size_t at = strlen(r->why);
    va_list list;

    if (at + 3 > sizeof(r->why))
        return;
    if (at)
        memcpy(r->why + at, "; ", 3);
    at = strlen(r->why);
    va_start(list, format);
    vsnprintf(r->why + at, sizeof(r->why) - at, format, list);
    va_end(list);
}

static unsigned long long ull(uint64_t n)
{
    return n;
}

static void judge(const struct scene *s, struct trial_result *r)
{
    char took[24], allowed[24];

    if (r->hostile.wrong)
        because(r, "hostile: %llu of %llu wrong: %s", ull(r->hostile.wrong), ull(r->hostile.done),
                r->hostile.why);
    if (r->beside.wrong)
        because(r, "beside: %llu of %llu wrong: %s", ull(r->beside.wrong), ull(r->beside.done),
                r->beside.why);
    if (!r->beside.done)
        because(r, "beside: no client could ask");
    if (r->beside.worst_ns > s->worst_ns)
        because(r, "beside: an answer took %s, %s are allowed",
                trial_time(took, r->beside.worst_ns), trial_time(allowed, s->worst_ns));
    if (r->after.wrong)
        because(r, "afterwards: %llu of %llu wrong: %s", ull(r->after.wrong), ull(r->after.done),
                r->after.why);
    r->passed = !r->why[0];
    if (!r->passed)
        return;
    if (r->hostile.done)
        because(r, "hostile: %llu", ull(r->hostile.done));
    if (r->hostile.answered)
        because(r, "%llu answered", ull(r->hostile.answered));
    if (r->hostile.closed)
        because(r, "%llu closed within %s", ull(r->hostile.closed),
                trial_time(took, r->hostile.close_ns));
    because(r, "beside: %llu, worst %s", ull(r->beside.done), trial_time(took, r->beside.worst_ns));
}

static int run_one(const struct scene *s, unsigned which, struct trial_result *r)
{
    unsigned hostile = (unsigned)s->plan->opt->connections, n = hostile + TRIAL_BESIDE + 1;
    struct actor *all = calloc(n, sizeof(*all));
    struct actor *beside = all + hostile, *after = beside + TRIAL_BESIDE;
    uint64_t began = clock_ns();
    atomic_bool stop = false;
    int code = all ? 0 : EXIT_FAILED;

    r->name = trials[which].name;
    r->words = trials[which].words;
    r->clients = hostile;
    for (unsigned i = 0; i < n && all; i++) {
        all[i].scene = s;
        all[i].index = i < hostile ? i : i - hostile;
        all[i].end_ns = began + s->act_ns;
        all[i].stop = i < hostile ? NULL : &stop;
        all[i].random = (s->plan->opt->seed * TRIALS + which) * 0x9e3779b97f4a7c15ull + i + 1;
        for (unsigned turn = 0; turn < 20; turn++)
            actor_random(&all[i], 1); /* neighbours' seeds are alike, later numbers are not */
    }
    code = code ? code : start(beside, TRIAL_BESIDE, be_ordinary);
    code = code ? code : start(all, hostile, trials[which].script);
    if (!all)
        return code;
    gather(all, hostile, &r->hostile); /* started threads use all of this until they end */
    atomic_store(&stop, true);
    gather(beside, TRIAL_BESIDE, &r->beside);
    code = code ? code : start(after, 1, be_after);
    gather(after, 1, &r->after);
    free(all);
    r->took_ns = clock_ns() - began;
    judge(s, r);
    return code;
}

/* --- The command line ------------------------------------------------------------------------- */

/* Marks the trials that the text names, with commas between; an exit code. */
static int choose(const char *text, bool chosen[TRIALS])
{
    const char *words[TRIALS + 3] = {"all", "list"};
    char copy[1024], *save = NULL;
    bool any = strcmp(text, "list") == 0;
    unsigned found;

    for (unsigned i = 0; i < TRIALS; i++)
        words[i + 2] = trials[i].name;
    if (strlen(text) >= sizeof(copy)) {
        say_error("--trial: it is longer than all names together; rung load --trial list has them");
        return EXIT_USAGE;
    }
    memcpy(copy, text, strlen(text) + 1);
    for (char *name = strtok_r(copy, ", ", &save); name; name = strtok_r(NULL, ", ", &save)) {
        const char *near = option_nearest(name, words);

        for (found = 0; found < TRIALS + 2 && strcmp(words[found], name) != 0;)
            found++;
        if (found == TRIALS + 2) {
            say_error("--trial: there is no %s%s%s; rung load --trial list names all", name,
                      near ? "; did you mean " : "", near ? near : "");
            return EXIT_USAGE;
        }
        for (unsigned i = 0; i < TRIALS; i++)
            chosen[i] = chosen[i] || found == 0 || found == i + 2;
        any = any || found != 1;
    }
    if (!any)
        say_error("--trial: '%s' names none; rung load --trial list names all", text);
    return any ? 0 : EXIT_USAGE;
}

/* Options that are refused rather than ignored. */
static int check_sense(const struct plan *p)
{
    const struct load_options *o = p->opt;
    const struct {
        bool given;
        const char *name;
    } none[] = {{o->rate, "--rate"}, {o->requests, "--requests"}, {o->find_knee, "--find-knee"},
                {o->threads, "--threads"}, {o->idle, "--idle"}, {o->pipeline > 1, "--pipeline"},
                {!o->keep_alive, "--keep-alive"}, {o->close, "--close"},
                {o->per_connection, "--requests-per-connection"}, {o->method, "--method"},
                {o->http2, "--http2"}, {o->resume, "--resume"},
                {o->walk, "--walk"}, {o->zipf, "--zipf"}, {o->mix, "--mix"},
                {o->replay, "--replay"}, {o->think, "--think"}, {o->source, "--source"},
                {o->body_check, "--body-check"}, {o->status, "--status"},
                {o->fail_if.count, "--fail-if"}, {o->csv, "--csv"}, {o->hgrm, "--hgrm"},
                {o->samples, "--samples"}, {o->show, "--show"}};

    for (unsigned i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        if (none[i].given) {
            say_error("--trial: %s means nothing to trials; leave it out", none[i].name);
            return EXIT_USAGE;
        }
    if (p->echo || p->targets != 1) {
        say_error("--trial: give one URL of http:// or https://, whose answer is large and the "
                  "same each time");
        return EXIT_USAGE;
    }
    if (o->connections > TRIAL_CLIENTS_MAX) {
        say_error("--trial: at most %d hostile clients (-c)", TRIAL_CLIENTS_MAX);
        return EXIT_USAGE;
    }
    return 0;
}

/* The plan has raised the limit. */
static int check_descriptors(const struct plan *p, const bool chosen[TRIALS])
{
    uint64_t each = 1, needed;
    struct rlimit limit;

    for (unsigned i = 0; i < TRIALS; i++)
        if (chosen[i] && trials[i].script == trial_idle_crowd)
            each = TRIAL_CROWD + 1;
    needed = each * p->opt->connections + FILES_SPARE;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
        return 0;
    say_error("--trial: %llu hostile clients need %llu descriptors, and this process may have "
              "%llu; choose fewer with -c, or raise the hard limit (ulimit -Hn)",
              ull(p->opt->connections), ull(needed), ull(limit.rlim_cur));
    return EXIT_USAGE;
}

static int run_chosen(const struct scene *s, const bool chosen[TRIALS])
{
    struct trial_result result[TRIALS] = {0};
    const struct load_options *o = s->plan->opt;
    FILE *out = output_has_report(o) ? stdout : NULL;
    bool fine = true;
    unsigned n = 0;
    int code;

    if (out)
        trial_head(s, out);
    for (unsigned i = 0; i < TRIALS; i++) {
        if (!chosen[i])
            continue;
        code = run_one(s, i, &result[n]);
        if (code)
            return code;
        fine = fine && result[n].passed;
        if (out)
            trial_row(&result[n], out);
        n++;
    }
    if (out)
        trial_end(result, n, out);
    code = o->json ? trial_write_json(s, result, n, o->json) : 0;
    return code ? code : fine ? EXIT_DONE : EXIT_FAULTS;
}

int trial_run(struct load_options *opt, const struct option_found *found)
{
    bool chosen[TRIALS] = {false};
    struct plan p = {0};
    struct scene s = {.plan = &p,
                      .act_ns = (opt->duration ? opt->duration : ACT_MS) * 1000000,
                      .close_ns = opt->trial_close * 1000000,
                      .worst_ns = opt->trial_worst * 1000000,
                      .timeout_ns = opt->timeout * 1000000};
    int code = choose(opt->trial, chosen);

    if (!code && strcmp(opt->trial, "list") == 0) {
        list(stdout);
        return EXIT_DONE;
    }
    code = code ? code : plan_make(&p, opt, found);
    code = code ? code : check_sense(&p);
    code = code ? code : check_descriptors(&p, chosen);
    code = code ? code : truth_learn(&s);
    code = code ? code : run_chosen(&s, chosen);
    truth_forget(&s);
    plan_free(&p);
    return code;
}
