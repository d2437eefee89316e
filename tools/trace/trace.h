/* SPDX-License-Identifier: MIT */
/* trace.h - what the files of rung trace share; start reading here.
 *
 * Programs in the kernel (trace.bpf.c) put an event for each packet, receive and send of one port
 * into a ring.  run.c reads the ring every few milliseconds; flow.c makes requests of the events,
 * stage.c makes times of a request, and the requests that the filter keeps are printed and counted.
 *
 *   event.h    what the kernel's side says          attach.c   loads and attaches the programs
 *   flow.h     events become requests               listen.c   which process listens where
 *   stage.h    a request becomes times              keep.c     the filter
 *   tally.c    histograms, the slowest requests     report.c, report_json.c  the summary
 *   draw.h     bars of text                         report_line.c, waterfall.c  a request
 *   views.c    where each request is shown          histogram.c  how often each time
 *   top.c      a live table                         perfetto.c  requests in a file
 *   calls.c    system calls of the server           stacks.h   its call stacks
 *   run.c      one port from begin to end           compare.h  two of them
 *   interrupt.h  when it ends                       group.h    the rows of the live table
 *   table.c, rows.c  the options
 *
 * attach_absent.c takes the place of attach.c where the build has no clang or no libbpf.
 */
#ifndef TOOLS_TRACE_H
#define TOOLS_TRACE_H
#include <stdio.h>
#include "../../base/option.h"
#include "../../base/say.h"
#include "../../core/hist.h"
#include "flow.h"

struct trace_options {
#define X(kind, field, ...) OPTION_FIELD_##kind field;
#include "options.def"
#undef X
};

const struct option_table *trace_table(void);
const struct option_row *trace_rows(unsigned *count); /* rows.c */

/* --- listen.c --------------------------------------------------------------------------------- */

enum { PORTS_FOUND_MAX = 16 };

/* Whether a TCP socket listens at the port, in this network namespace. */
bool listen_is_at(unsigned port);
/* A port of the command line, at which a server must listen: 0, or an exit code after a message. */
int port_listened(const char *text, unsigned *port);
/* Finds the ports at which the process listens; returns how many, or -errno (-ESRCH: no such
 * process). */
int listen_ports(unsigned pid, unsigned port[PORTS_FOUND_MAX]);
enum { OWNERS_MAX = 4, OWNER_TEXT = 32, PROCESSES_MAX = 1024 };
struct listen_owners {
    unsigned paths, processes;
    char path[OWNERS_MAX][OWNER_TEXT]; /* of programs, each once, as /proc/PID/exe */
    uint32_t process[PROCESSES_MAX];
};
/* Finds the processes that listen at the port, and their programs. */
void listen_owners(unsigned port, struct listen_owners *found);

/* --- attach.c --------------------------------------------------------------------------------- */

struct attached;

/* The cost of a program on the kernel's side; in addition, each trace point of the server costs the
 * server about a microsecond. */
struct attach_cost {
    const char *name;
    uint64_t runs, ns;
};
enum { ATTACH_PROGRAMS = 19 };

/* 0, or an exit code after a message that says what is missing. */
int attach_begin(struct attached **to, const struct trace_options *opt, unsigned port);
/* Gives each event that is there to see(), until it returns false or there is no more.  0 or
 * -errno. */
int attach_read(struct attached *a, bool (*see)(void *arg, const struct event *e), void *arg);
uint64_t attach_events(const struct attached *a); /* given so far */
void attach_counts(const struct attached *a, struct trace_counts *counts);
/* Why stages are missing: the next sentence, *at is 0 at first; NULL: no more. */
const char *attach_lacks(const struct attached *a, unsigned *at);
/* If calls are counted: counts them until ns (CLOCK_MONOTONIC; 0: without end). */
void attach_calls_until(const struct attached *a, uint64_t ns);
/* Gets the counts so far.  False: calls are not counted, or memory was short. */
bool attach_calls(const struct attached *a, struct call_count count[COUNTS]);
/* With --histogram, too: counts of each call by its duration. */
void attach_call_times(const struct attached *a, uint64_t times[COUNT_CALLS][CALL_STEPS]);
bool attach_sees_retransmits(const struct attached *a);
bool attach_sees_sends(const struct attached *a);
/* With --cost: the cost of each program; returns how many. */
unsigned attach_costs(const struct attached *a, struct attach_cost cost[ATTACH_PROGRAMS]);
void attach_end(struct attached *a);

/* --- rights.c --------------------------------------------------------------------------------- */

enum { RIGHTS_TEXT = 64 };

/* "CAP_BPF, CAP_PERFMON"; "": none is missing, or that is not known. */
void rights_missing(char text[RIGHTS_TEXT]);

/* --- keep.c ----------------------------------------------------------------------------------- */

int keep_check(const struct trace_options *opt); /* 0, or an exit code after a message */
bool keep(const struct trace_options *opt, const struct request *r, const struct stages *s);

/* --- tally.c ---------------------------------------------------------------------------------- */

enum { SLOWEST_MAX = 100 };

struct slow {
    struct request request;
    struct stages stages;
};

struct tally {
    uint64_t shown;            /* requests that the filter kept */
    uint64_t ended[ENDED_MERGED + 1];
    struct hist took[STAGES];  /* of each stage where it is known */
    uint64_t busy[STAGES], missing[STAGES];
    struct hist server, total;
    uint64_t answer_ns[STAGES]; /* time of each stage in all answers: together server.sum */
    struct slow *slow;         /* sorted, the slowest first */
    unsigned slows, slow_most;
};

int tally_init(struct tally *t, unsigned slow_most); /* 0 or -ENOMEM */
void tally_add(struct tally *t, const struct request *r, const struct stages *s);
void tally_free(struct tally *t);

/* --- report.c, report_json.c ------------------------------------------------------------------ */

struct report {
    const struct trace_options *opt;
    const struct attached *attached;
    const struct flow_counts *flows;
    const struct tally *tally;
    struct trace_counts counts;
    const struct call_count *calls; /* with --calls, or NULL */
    const uint64_t (*call_times)[CALL_STEPS]; /* with --histogram, too, or NULL */
    unsigned port;
    double seconds;
};

void report_request(const struct trace_options *opt, const struct request *r,
                    const struct stages *s);
void report_summary(const struct report *r);
void report_json_request(const struct request *r, const struct stages *s);
void report_json_summary(const struct report *r);

/* --- report_line.c ---------------------------------------------------------------------------- */

/* "127.0.0.1:40000", "[::1]:40000"; the address alone: "::1" */
enum { PEER_TEXT = 64 };
void report_peer(const struct request *r, char text[PEER_TEXT]);
void report_address(const struct request *r, char text[PEER_TEXT]);
const char *report_ending(enum ending ending);
/* Connection, status, request and time; how it ended and the line's end. */
void report_begin(const struct request *r, const struct stages *s);
void report_end(const struct request *r);
void report_line(const struct request *r, const struct stages *s);

/* --- waterfall.c ------------------------------------------------------------------------------ */

void waterfall_request(const struct request *r, const struct stages *s);

/* --- histogram.c ------------------------------------------------------------------------------ */

/* As many steps as a tally's range needs. */
struct step {
    uint64_t from_ns, to_ns; /* to_ns belongs to the next step */
    uint64_t count;
};

/* Gives the steps from the first that is not empty to the last; returns how many. */
unsigned histogram_of(const struct hist *h, struct step step[CALL_STEPS]);
unsigned histogram_steps(const uint64_t count[CALL_STEPS], struct step step[CALL_STEPS]);
void histogram_json(const struct step *step, unsigned n); /* , "histogram": [...] */
/* Prints the steps with bars; of: what is counted. */
void histogram_put(const char *name, const char *of, const struct step *step, unsigned n);
void histogram_print(const struct tally *t);

/* --- calls.c ---------------------------------------------------------------------------------- */

/* Prints the server's system calls, the costliest first; count is NULL if they are not known.
 * requests: the number seen; 0: not known, because some were lost. */
void calls_print(const struct call_count *count, uint64_t requests);
/* times: counts of each call, by its number and duration; or NULL. */
void calls_print_times(const struct call_count *count, const uint64_t (*times)[CALL_STEPS]);
void calls_print_json(const struct call_count *count, const uint64_t (*times)[CALL_STEPS]);

/* --- perfetto.c ------------------------------------------------------------------------------- */

struct perfetto;

/* 0 or -errno; perfetto_end() in any case.  Some 40 bytes are kept for each connection. */
int perfetto_begin(struct perfetto **to, const char *path, unsigned port);
void perfetto_request(struct perfetto *p, const struct request *r, const struct stages *s);
int perfetto_end(struct perfetto *p); /* 0, or -errno: the file is not complete */

/* --- top.c ------------------------------------------------------------------------------------ */

struct top;

int top_begin(struct top **to, const struct trace_options *opt, unsigned port); /* 0 or -errno */
void top_request(struct top *t, const struct request *r, const struct stages *s);
/* Call it once at the beginning, and then every few milliseconds.  False: the user wants it to
 * end. */
bool top_tick(struct top *t, uint64_t now_ns);
void top_end(struct top *t, uint64_t now_ns); /* restores the terminal */

/* --- views.c ---------------------------------------------------------------------------------- */

struct views {
    const struct trace_options *opt;
    struct perfetto *perfetto; /* NULL: not requested */
    struct top *top;           /* likewise */
    struct stacks *stacks;     /* likewise */
};

/* 0, or an exit code after a message. */
int views_begin(struct views *v, const struct trace_options *opt, unsigned port);
void views_start(struct views *v); /* the kernel's side is there */
bool views_tick(struct views *v, uint64_t now_ns); /* false: the user wants it to end */
void views_received(struct views *v, uint32_t pid); /* a process of the server's */
void views_request(struct views *v, const struct request *r, const struct stages *s);
void views_leave(struct views *v, uint64_t now_ns); /* ... the final output may come now */
int views_end(struct views *v); /* after views_leave(), if there was a request */

/* --- run.c ------------------------------------------------------------------------------------ */

enum { LACKS_TEXT = 2048 };

struct run {
    const struct trace_options *opt;
    struct views *views; /* or NULL: requests are only counted */
    struct attached *attached;
    struct flows flows;
    struct tally tally;
    unsigned port;
    uint64_t start_ns;
    uint64_t until_ns;   /* 0: no limit */
    double seconds;      /* that it took, at the end */
    struct trace_counts counts; /* likewise, */
    char lacks[LACKS_TEXT];     /* ... and a line for each reason why stages are missing */
    struct call_count calls[COUNTS]; /* likewise, with --calls, */
    bool calls_known;                /* ... if this says so */
    uint64_t call_times[COUNT_CALLS][CALL_STEPS]; /* likewise, with --histogram, too */
    bool done;           /* the limit is reached */
    unsigned events;     /* of this look */
};

/* 0, or an exit code after a message; run_end() in any case. */
int run_begin(struct run **run, const struct trace_options *opt, unsigned port);
/* Traces until a signal, or until the limits of the first run are reached.  False: failed, after a
 * message. */
bool run_watch(struct run *const run[], unsigned runs);
void run_end(struct run *run);

#endif
