/* SPDX-License-Identifier: MIT */
/* result.c - adds up what all threads counted, and judges whether the generator itself was the
 * limit.
 *
 * The verdict is about trust: a figure that our own threads held down says nothing about a server.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "../../base/say.h"
#include "load.h"

#define X(id, key, words) [FAULT_##id] = key,
const char *const fault_keys[FAULTS] = {
#include "faults.def"
};
#undef X
#define X(id, key, words) [FAULT_##id] = words,
const char *const fault_words[FAULTS] = {
#include "faults.def"
};
#undef X

#define X(id, word, due) [KIND_##id] = word,
const char *const kind_words[KINDS] = {
#include "kinds.def"
};
#undef X
#define X(id, word, due) [KIND_##id] = due,
const char *const kind_due[KINDS] = {
#include "kinds.def"
};
#undef X

enum { BUSY_PERCENT = 90, LATE_PERCENT = 1 };

/* --- Adding up -------------------------------------------------------------------------------- */

static void add_errnos(struct tally *to, const struct tally *from)
{
    for (unsigned i = 0; i < ERRNOS_MAX && from->connect_errno[i].count; i++) {
        unsigned at = 0;

        while (at < ERRNOS_MAX - 1 && to->connect_errno[at].count &&
               to->connect_errno[at].error != from->connect_errno[i].error)
            at++;
        to->connect_errno[at].error = from->connect_errno[i].error;
        to->connect_errno[at].count += from->connect_errno[i].count;
    }
}

static void add_faults(struct tally *to, const struct tally *from)
{
    for (unsigned i = 0; i < FAULTS; i++) {
        if (!to->fault[i])
            to->example[i] = from->example[i];
        to->fault[i] += from->fault[i];
    }
}

static void add_greetings(struct tally *to, const struct tally *from)
{
    uint64_t all = from->tls.full + from->tls.resumed;

    if (!to->greeting.fault)
        to->greeting = from->greeting;
    to->h2.goaways += from->h2.goaways;
    to->h2.resets += from->h2.resets;
    if (from->h2.goaway_error)
        to->h2.goaway_error = from->h2.goaway_error;
    to->tls.full += from->tls.full;
    to->tls.resumed += from->tls.resumed;
    if (!to->tls.version) {
        to->tls.version = from->tls.version;
        to->tls.cipher = from->tls.cipher;
    }
    if (all && (to->tls.version != from->tls.version || to->tls.cipher != from->tls.cipher))
        to->tls.others += all - from->tls.others; /* what this thread's first agreed on */
    else
        to->tls.others += from->tls.others;
}

static void add_counts(struct tally *to, const struct tally *from)
{
    to->sent += from->sent;
    to->answers += from->answers;
    to->lost += from->lost;
    to->unanswered += from->unanswered;
    to->bytes_in += from->bytes_in;
    to->bytes_out += from->bytes_out;
    to->connects += from->connects;
    to->closed_idle += from->closed_idle;
    add_greetings(to, from);
    for (unsigned i = 0; i < STATUSES; i++)
        to->status[i] += from->status[i];
    for (unsigned i = 0; i < KINDS; i++) {
        to->kind[i].sent += from->kind[i].sent;
        to->kind[i].answered += from->kind[i].answered;
        to->kind[i].as_meant += from->kind[i].as_meant;
        to->kind[i].wrong += from->kind[i].wrong;
        to->kind[i].uncompared += from->kind[i].uncompared;
    }
    to->due += from->due;
    to->unsent += from->unsent;
    to->late_busy += from->late_busy;
    to->late_own += from->late_own;
    to->cpu_ns += from->cpu_ns;
    to->wait_ns += from->wait_ns;
    to->wall_ns += from->wall_ns;
    if (from->latest_own_ns > to->latest_own_ns)
        to->latest_own_ns = from->latest_own_ns;
    if (from->ready_ns > to->ready_ns)
        to->ready_ns = from->ready_ns; /* the last to be ready */
    if (from->sent && (!to->first_send_ns || from->first_send_ns < to->first_send_ns))
        to->first_send_ns = from->first_send_ns; /* the first to send */
}

/* Seconds that a thread did not reach count as empty. */
static int add_seconds(struct tally *to, const struct tally *from)
{
    uint32_t cells = hist_cells(SERIES_BITS, HIST_MAX_NS);

    while (to->seconds < from->seconds) {
        struct second *more = realloc(to->second, (to->seconds + 1) * sizeof(*more));
        uint64_t *cell = malloc(cells * sizeof(*cell));

        if (more)
            to->second = more;
        if (!more || !cell) {
            free(cell);
            return -ENOMEM;
        }
        memset(&more[to->seconds], 0, sizeof(*more));
        hist_init(&more[to->seconds++].latency, SERIES_BITS, cell, cells);
    }
    for (unsigned i = 0; i < from->seconds; i++) {
        to->second[i].answers += from->second[i].answers;
        to->second[i].faults += from->second[i].faults;
        to->second[i].bytes += from->second[i].bytes;
        hist_merge(&to->second[i].latency, &from->second[i].latency);
    }
    return 0;
}

/* --- Ports ------------------------------------------------------------------------------------ */

/* Reads from /proc what bounds the connections from one address to one server. */
static void look_at_ports(struct result *r)
{
    FILE *in = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    unsigned long long count;
    char line[256];

    if (in) {
        if (fscanf(in, "%u %u", &r->first_port, &r->last_port) != 2)
            r->first_port = r->last_port = 0;
        fclose(in);
    }
    in = fopen("/proc/net/sockstat", "re");
    while (in && fgets(line, sizeof(line), in)) {
        const char *tw = strstr(line, " tw ");

        if (strncmp(line, "TCP:", 4) == 0 && tw && sscanf(tw, " tw %llu", &count) == 1)
            r->time_wait = count;
    }
    if (in)
        fclose(in);
}

/* --- The verdict ------------------------------------------------------------------------------ */

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void judge(struct result *r)
{
    const struct tally *s = &r->sum;
    double cpu = percent(s->cpu_ns, s->wall_ns), wait = percent(s->wait_ns, s->wall_ns);
    double late = percent(s->late_own, s->due);

    r->limit = true;
    if (s->fault[FAULT_NO_PORT] || s->fault[FAULT_NO_DESCRIPTOR])
        snprintf(r->verdict, sizeof(r->verdict), "the generator was the limit: it ran out of %s",
                 s->fault[FAULT_NO_PORT] ? "local ports" : "descriptors");
    else if (late > LATE_PERCENT)
        snprintf(r->verdict, sizeof(r->verdict),
                 "the generator was the limit: %.1f %% of the requests left late by its own fault",
                 late);
    else if (cpu >= BUSY_PERCENT)
        snprintf(r->verdict, sizeof(r->verdict),
                 "the generator was the limit: its threads worked %.0f %% of the time; try more "
                 "(-t)", cpu);
    else if (cpu + wait >= BUSY_PERCENT)
        snprintf(r->verdict, sizeof(r->verdict),
                 "the generator was the limit: its threads worked %.0f %% of the time and waited "
                 "%.0f %% for a processor", cpu, wait);
    else {
        r->limit = false;
        snprintf(r->verdict, sizeof(r->verdict),
                 "the generator was not the limit: its threads worked %.0f %% of the time", cpu);
    }
}

int result_make(struct result *r)
{
    uint32_t cells = hist_cells(HIST_BITS, HIST_MAX_NS);
    struct hist *h[] = {&r->sum.service, &r->sum.latency, &r->sum.connect, &r->sum.handshake};
    int err = 0;

    for (unsigned i = 0; i < (r->plan->secure ? 4 : 3); i++) {
        uint64_t *cell = malloc(cells * sizeof(*cell));

        if (!cell)
            return EXIT_FAILED;
        hist_init(h[i], HIST_BITS, cell, cells);
    }
    for (unsigned i = 0; i < r->plan->threads && !err; i++) {
        const struct tally *t = &r->thread[i];

        hist_merge(&r->sum.service, &t->service);
        hist_merge(&r->sum.latency, r->plan->open ? &t->latency : &t->service);
        hist_merge(&r->sum.connect, &t->connect);
        if (r->plan->secure)
            hist_merge(&r->sum.handshake, &t->handshake);
        add_counts(&r->sum, t);
        add_errnos(&r->sum, t);
        add_faults(&r->sum, t);
        err = add_seconds(&r->sum, t);
    }
    if (err) {
        say_error("cannot add up the seconds: %s", say_why(err));
        return EXIT_FAILED;
    }
    for (unsigned i = 1; i < FAULTS; i++)
        r->faults += r->sum.fault[i];
    look_at_ports(r);
    judge(r);
    return 0;
}

void result_free(struct result *r)
{
    for (unsigned i = 0; r->thread && i < r->plan->threads; i++)
        free(r->thread[i].sample);
    for (unsigned i = 0; i < r->sum.seconds; i++)
        free(r->sum.second[i].latency.cell);
    free(r->sum.second);
    free(r->sum.service.cell);
    free(r->sum.latency.cell);
    free(r->sum.connect.cell);
    free(r->sum.handshake.cell);
    free(r->thread);
}
