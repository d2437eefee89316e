/* SPDX-License-Identifier: MIT */
/* compare.c - rung trace compare: its options, and two ports traced at once or in turn. */
#include <errno.h>
#include "compare.h"

/* --- Options ---------------------------------------------------------------------------------- */

#define X(kind, field_, ...) \
    {.offset = offsetof(struct compare_options, field_), .type = OPTION_##kind, __VA_ARGS__},
static const struct option_row own[] = {
#include "compare.def"
};
#undef X
enum { OWN = sizeof(own) / sizeof(own[0]), SHARED = 9 };

/* Rows of options.def that mean the same here; struct trace_options comes first. */
static const char *const shared[SHARED] = {"path", "peer", "status", "slower", "duration", "json",
                                           "sample", "ring", "without"};

static const char *const examples[] = {
    "rung trace compare 8080 8081", "until Ctrl-C; then a table",
    "rung trace compare -d 10s 8080=epoll 8081=nginx", "ten seconds, with names",
    "rung trace compare -d 10s --svg x.svg 8080 8081", "and a picture",
    NULL};

static const char *const man_notes[] = {
    "EXIT STATUS",
    "As of rung trace; 1 as well if no answer was seen at one of the ports.",
    NULL};

const struct option_table *compare_table(void)
{
    static struct option_row rows[SHARED + OWN];
    static struct option_table table = {
        .command = "rung trace compare",
        .page = "rung-trace-compare",
        .variables = "RUNG_TRACE_",
        .nutshell = "compare where the time of requests goes at two ports",
        .purpose = "Compare two servers, stage by stage, while both are asked the same.",
        .usage = "rung trace compare [OPTION]... PORT[=NAME] PORT[=NAME]",
        .operand = "PORT",
        .examples = examples,
        .row = rows,
        .operands_max = SIDES,
        .notes = "It needs root, or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN.\n"
                 "Exit codes: 0 all well, 1 failure, 2 usage, 4 kernel or build cannot.",
        .man_notes = man_notes,
    };
    unsigned count;
    const struct option_row *of = trace_rows(&count);

    table.rows = 0;
    for (unsigned i = 0; i < count; i++)
        for (unsigned k = 0; k < SHARED; k++)
            if (strcmp(of[i].name, shared[k]) == 0)
                rows[table.rows++] = of[i];
    for (unsigned i = 0; i < OWN; i++)
        rows[table.rows++] = own[i];
    return &table;
}

/* --- Two ports -------------------------------------------------------------------------------- */

/* PORT or PORT=NAME. */
static int side_of(struct side *side, const char *text)
{
    size_t len = strcspn(text, "=");
    char port[SIDE_TEXT];
    int code;

    snprintf(port, sizeof(port), "%.*s", (int)len, text);
    code = port_listened(port, &side->port);
    if (code)
        return code;
    if (text[len] && (!text[len + 1] || strlen(text + len + 1) >= SIDE_TEXT)) {
        say_error("'%s': a name has 1 to %d characters, as in %u=epoll", text, SIDE_TEXT - 1,
                  side->port);
        return EXIT_USAGE;
    }
    if (text[len])
        snprintf(side->name, sizeof(side->name), "%s", text + len + 1);
    else
        snprintf(side->name, sizeof(side->name), "port %u", side->port);
    return EXIT_DONE;
}

static int sides_of(struct compared *c, const struct option_found *found)
{
    int code;

    if (found->operands != SIDES) {
        say_error("which ports? rung trace compare 8080 8081");
        return EXIT_USAGE;
    }
    for (unsigned i = 0; i < SIDES; i++) {
        code = side_of(&c->side[i], found->operand[i]);
        if (code)
            return code;
    }
    if (c->side[0].port != c->side[1].port)
        return EXIT_DONE;
    say_error("port %u twice: two servers have two ports", c->side[0].port);
    return EXIT_USAGE;
}

static int watch_both(struct compared *c, const struct compare_options *opt)
{
    struct run *run[SIDES];
    int code = EXIT_DONE;

    for (unsigned i = 0; i < SIDES && !code; i++) {
        code = run_begin(&c->side[i].run, &opt->trace, c->side[i].port);
        run[i] = c->side[i].run;
    }
    if (code)
        return code;
    say("tracing ports %u and %u; Ctrl-C ends it", c->side[0].port, c->side[1].port);
    return run_watch(run, SIDES) ? EXIT_DONE : EXIT_FAILED;
}

static int watch_in_turn(struct compared *c, const struct compare_options *opt)
{
    int code = EXIT_DONE;

    for (unsigned i = 0; i < SIDES && !code; i++) {
        code = run_begin(&c->side[i].run, &opt->trace, c->side[i].port);
        if (code)
            break;
        say("tracing port %u; Ctrl-C ends it", c->side[i].port);
        code = run_watch(&c->side[i].run, 1) ? EXIT_DONE : EXIT_FAILED;
        if (i + 1 < SIDES) { /* its programs would cost the other port time */
            attach_end(c->side[i].run->attached);
            c->side[i].run->attached = NULL;
        }
    }
    return code;
}

/* --- The comparison --------------------------------------------------------------------------- */

/* The stage that differs most, in the same direction as the whole; -1: none. */
static int explains(const struct compared *c, enum compare_by by)
{
    double whole = c->ns[by][1][STAGES] - c->ns[by][0][STAGES], most = 0;
    int found = -1;

    for (int k = 0; k < STAGES; k++) {
        double more = c->ns[by][1][k] - c->ns[by][0][k];

        if (!compare_counts((unsigned)k) || !c->both[k])
            continue;
        if (k == STAGE_ACCEPTED && by != BY_MEAN)
            continue; /* most of that wait may lie before the head's arrival */
        more = whole < 0 ? -more : more;
        if (more > most) {
            most = more;
            found = k;
        }
    }
    return found;
}

/* Gives the time of stages that only one side knows to the next stage that both know. */
static void fold(struct compared *c)
{
    for (unsigned i = 0; i < SIDES; i++) {
        double folded = 0;

        for (unsigned k = 0; k <= STAGE_DONE; k++) {
            if (!compare_counts(k))
                continue;
            folded += c->ns[BY_MEAN][i][k];
            c->ns[BY_MEAN][i][k] = c->both[k] ? folded : 0;
            folded = c->both[k] ? 0 : folded;
        }
    }
}

void compare_reckon(struct compared *c)
{
    const struct tally *one = &c->side[0].run->tally, *other = &c->side[1].run->tally;

    for (unsigned i = 0; i < SIDES; i++) {
        const struct tally *t = &c->side[i].run->tally;

        for (unsigned k = 0; k <= STAGES; k++) {
            const struct hist *h = k < STAGES ? &t->took[k] : &t->server;
            uint64_t sum = k < STAGES ? t->answer_ns[k] : t->server.sum;

            c->ns[BY_MEAN][i][k] = (double)sum / (double)t->server.total;
            c->ns[BY_P50][i][k] = (double)hist_quantile(h, 50, 100);
            c->ns[BY_P99][i][k] = (double)hist_quantile(h, 99, 100);
        }
    }
    for (unsigned k = 0; k < STAGES; k++)
        c->both[k] = one->took[k].total && other->took[k].total;
    fold(c);
    for (unsigned by = 0; by < COMPARE_BYS; by++)
        c->explains[by] = explains(c, (enum compare_by)by);
}

static int report(struct compared *c, const struct compare_options *opt)
{
    int err;

    for (unsigned i = 0; i < SIDES; i++)
        if (!c->side[i].run->tally.server.total) {
            say_error("no answer was seen at port %u: both ports are to be asked the same while "
                      "they are traced", c->side[i].port);
            return EXIT_FAILED;
        }
    compare_reckon(c);
    (opt->trace.json ? compare_print_json : compare_print)(c);
    err = opt->svg ? compare_draw(c, opt->svg) : 0;
    if (err)
        say_error("--svg %s: cannot write this file: %s", opt->svg, say_why(err));
    return err ? EXIT_FAILED : EXIT_DONE;
}

static int run(const void *options, const struct option_found *found)
{
    const struct compare_options *opt = options;
    struct compared c = {0};
    int code = keep_check(&opt->trace);

    if (!code && opt->in_turn && !opt->trace.duration) {
        say_error("--in-turn: for how long? add --duration 10s");
        code = EXIT_USAGE;
    }
    code = code ? code : sides_of(&c, found);
    code = code ? code : (opt->in_turn ? watch_in_turn : watch_both)(&c, opt);
    code = code ? code : report(&c, opt);
    for (unsigned i = 0; i < SIDES; i++)
        run_end(c.side[i].run);
    return code;
}

int compare_main(char **argv)
{
    struct compare_options opt = {0};

    return option_main(compare_table(), &opt, argv, run);
}
