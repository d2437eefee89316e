/* SPDX-License-Identifier: MIT */
/* sniff.c - rung trace sniff: options, the loop that reads packets, and the output: a line for each
 * first line on standard output, and the packets that were left out on standard error. */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include "../../base/escape.h"
#include "../../base/version.h"
#include "interrupt.h"
#include "sniff.h"

enum {
    WAIT_MS = 50,
    JSON_FORM = 1, /* raised when a key changes its meaning or is removed */
    LINE_TEXT = 6 * HEAD_BYTES_MAX + 8 /* each byte as \u00HH */
};

struct run {
    const struct sniff_options *opt;
    struct tap *tap;
    struct lines lines;
    uint64_t packets, fragments, broken, dropped;
    uint64_t begun_ns;
    bool done; /* the limit is reached */
};

/* --- Printing --------------------------------------------------------------------------------- */

static void put_json(const struct line *line, const char *from, const char *to)
{
    static char text[LINE_TEXT];

    escape_json(text, sizeof(text), line->text);
    printf("{\"time_ns\": %llu, \"from\": \"%s\", \"to\": \"%s\", \"line\": \"%s\"}\n",
           (unsigned long long)line->ns, from, to, text);
}

/* Prints bytes that a terminal might obey, and the backslash that announces them, as \xHH. */
static void put_harmless(struct slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];

        if (c < 0x20 || c > 0x7e || c == '\\')
            printf("\\x%02x", c);
        else
            putchar(c);
    }
}

static void put_text(const struct line *line, const char *from, const char *to)
{
    time_t seconds = (time_t)(line->ns / 1000000000u);
    struct tm broken_down;
    char time[16];

    localtime_r(&seconds, &broken_down);
    strftime(time, sizeof(time), "%H:%M:%S", &broken_down);
    printf("%s.%06u %s -> %s ", time, (unsigned)(line->ns % 1000000000u / 1000u), from, to);
    put_harmless(line->text);
    putchar('\n');
}

static void say_line(void *arg, const struct line *line)
{
    struct run *run = arg;
    char from[ENDPOINT_TEXT], to[ENDPOINT_TEXT];

    if (run->done)
        return;
    endpoint_text(line->from, from);
    endpoint_text(line->to, to);
    (run->opt->json ? put_json : put_text)(line, from, to);
    run->done = run->opt->count && run->lines.counts.lines >= run->opt->count;
}

static void summarize_json(const struct run *run)
{
    const struct lines_counts *c = &run->lines.counts;
    char name[64];

    escape_json(name, sizeof(name),
                (struct slice){run->opt->interface, strlen(run->opt->interface)});
    printf("{\"summary\": {\"form\": %d, \"version\": \"%s\", \"interface\": \"%s\", "
           "\"seconds\": %.3f, \"lines\": %llu, \"packets\": %llu, \"dropped\": %llu, "
           "\"gaps\": %llu, \"crowded\": %llu, \"longer\": %llu, \"fragments\": %llu, "
           "\"broken\": %llu}}\n",
           JSON_FORM, RUNG_VERSION, name,
           (double)(now_ns(CLOCK_MONOTONIC) - run->begun_ns) / 1e9, (unsigned long long)c->lines,
           (unsigned long long)run->packets, (unsigned long long)run->dropped,
           (unsigned long long)c->gaps, (unsigned long long)c->crowded,
           (unsigned long long)c->longer, (unsigned long long)run->fragments,
           (unsigned long long)run->broken);
}

static void say_count(uint64_t n, const char *what)
{
    if (n)
        say_error("left out: %llu %s", (unsigned long long)n, what);
}

static void summarize(const struct run *run)
{
    const struct lines_counts *c = &run->lines.counts;

    say("%llu lines in %llu packets of %s", (unsigned long long)c->lines,
        (unsigned long long)run->packets, run->opt->interface);
    say_count(run->dropped, "packets that did not fit the buffer; --buffer makes it larger, "
                            "--port chooses fewer");
    say_count(c->gaps, "places where bytes were not seen and a head may have been");
    say_count(c->crowded, "connections or heads beyond what is followed at a time; --port "
                          "chooses fewer");
    say_count(c->longer, "first lines longer than 16 KiB");
    say_count(run->fragments, "fragments of IP packets, which are not put together");
    say_count(run->broken, "packets whose lengths contradict each other");
}

/* --- The loop --------------------------------------------------------------------------------- */

static void take(void *arg, const struct frame *f)
{
    struct run *run = arg;
    struct tcp_segment seg;

    if (run->done)
        return;
    run->packets++;
    switch (packet_read(f, &seg)) {
    case PACKET_TCP:
        lines_segment(&run->lines, &seg, f->ns);
        break;
    case PACKET_FRAGMENT:
        run->fragments++;
        break;
    case PACKET_BROKEN:
        run->broken++;
        break;
    case PACKET_OTHER:
        break;
    }
}

/* Reads packets until it is interrupted, or a limit is reached: 0 or -errno. */
static int watch(struct run *run)
{
    uint64_t until = run->opt->duration ? run->begun_ns + run->opt->duration * 1000000u : 0;
    int n = 0;

    while (n >= 0 && !interrupted() && !run->done && (!until || now_ns(CLOCK_MONOTONIC) < until)) {
        n = tap_read(run->tap, WAIT_MS, take, run);
        lines_tick(&run->lines, now_ns(CLOCK_REALTIME));
        if (fflush(stdout) != 0)
            n = -errno;
    }
    while (n >= 0 && !run->done && (n = tap_read(run->tap, 0, take, run)) > 0 &&
           (!until || now_ns(CLOCK_MONOTONIC) < until + 1000000000u))
        ; /* packets that passed before the end */
    run->dropped = tap_dropped(run->tap);
    return n < 0 ? n : 0;
}

static int run_on(struct run *run)
{
    uint64_t seed = 0;
    int err;

    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) < 0)
        seed = now_ns(CLOCK_REALTIME);
    err = lines_init(&run->lines, seed, say_line, run);
    run->begun_ns = now_ns(CLOCK_MONOTONIC);
    if (!err) {
        say("sniffing on %s; Ctrl-C ends it", run->opt->interface);
        err = watch(run);
        lines_end(&run->lines);
    }
    if (err == -ENETDOWN)
        say_error("%s went down, so nothing passes it any more", run->opt->interface);
    else if (err)
        say_error("cannot go on sniffing: %s", say_why(err));
    (run->opt->json ? summarize_json : summarize)(run);
    return err ? EXIT_FAILED : EXIT_DONE;
}

static int run(const void *options, const struct option_found *found)
{
    struct run run = {.opt = options};
    int code;

    (void)found;
    if (!run.opt->interface) {
        say_error("which interface? rung trace sniff -i lo; ip -brief link lists them");
        return EXIT_USAGE;
    }
    code = tap_open(&run.tap, run.opt);
    if (!code) {
        interrupt_catch();
        code = run_on(&run);
    }
    tap_close(run.tap);
    return code;
}

int sniff_main(char **argv)
{
    struct sniff_options opt = {0};

    return option_main(sniff_table(), &opt, argv, run);
}
