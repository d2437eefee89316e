/* SPDX-License-Identifier: MIT */
/* load.h - what the files of rung load share: the options, the plan made of them, and what a
 * thread has counted.
 *
 *   table.c    rows of options.def -> help, parser      plan*.c    options -> plan: all that is
 *   url.c      URLs and addresses                                  read-only while it runs
 *   worker.c   a thread: its loop and its schedule      client*.c  a connection of it; connect.c
 *   turns.c    which URL is next                        count.c    what a thread counts
 *   answer*.c  bytes -> an answer, checked              run.c     all threads: start, wait, stop
 *   result.c   sums of all threads; what was the limit  report*.c  for people, programs, plots
 *   limit.c    limits of --fail-if                      knee.c     runs at rising rates
 *   wire.c     TLS and HTTP/2, see wire.h               tls.c h2*.c  ... and the libraries for it
 *   random.c   what a thread draws                      output.c   where results go
 *   keep.c     bytes that stay with the plan            digest.h   64 bits of a body
 *   show.c     --show: requests and answers as text
 *   trial*.c   hostile clients: see trial.h
 *
 * workload.h has what is requested: folders, logs, popularity, kinds of requests, pauses.
 *
 * A thread owns its clients, its histograms and its counters; while requests run, only the plan is
 * shared, and no thread writes to it.
 */
#ifndef LOAD_H
#define LOAD_H
#include <netinet/in.h>
#include <sys/socket.h>
#include "../../base/clock.h"
#include "../../base/option.h"
#include "../../core/hist.h"
#include "../../core/http.h"

#define X(id, key, words) FAULT_##id,
enum fault {
    FAULT_NONE,
#include "faults.def"
    FAULTS
};
#undef X

#define X(id, word, due) KIND_##id,
enum kind {
#include "kinds.def"
    KINDS
};
#undef X

/* Exit codes in addition to 0, 1 and 2 of base/say.h. */
enum load_exit {
    EXIT_CONNECT = 3, /* no server answered there */
    EXIT_FAULTS = 5,  /* it ran, and some request failed */
    EXIT_LIMIT = 6    /* it ran, and a limit of --fail-if is broken */
};

enum {
    PIPELINE_MAX = 64,
    STREAMS_MAX = 1000,
    SOURCES_MAX = 16,
    MESSAGE_MAX = 1 << 20,     /* bytes of an echo:// message */
    TARGETS_MAX = 2000000,     /* URLs: a site of a million files, and some */
    SCRATCH_BYTES = 64 * 1024, /* one receive */
    HIST_BITS = 11,            /* latencies to one part in 1024 */
    SERIES_BITS = 5,           /* ... to one in 16, for each second */
    ERRNOS_MAX = 8,            /* kinds of failed connects that are distinguished */
    STATUSES = 1000,           /* three digits */
    UNIX_PATH_MAX_BYTES = 107  /* of struct sockaddr_un, without the NUL */
};
#define HIST_MAX_NS ((uint64_t)1 << 42) /* 73 minutes */
#define SECOND_NS 1000000000ull

#define X(kind, field, ...) OPTION_FIELD_##kind field;
struct load_options {
#include "options.def"
};
#undef X
const struct option_table *load_table(void);

enum { METHOD_GET, METHOD_HEAD, METHOD_OPTIONS }; /* --method */
enum { CLOSE_FIN, CLOSE_RESET };         /* --close */
enum { ARRIVALS_CONSTANT, ARRIVALS_POISSON }; /* --arrivals */
enum { THINKING_EXPONENTIAL, THINKING_CONSTANT }; /* --thinking */

/* --- The plan --------------------------------------------------------------------------------- */

/* Where to connect to. */
struct peer {
    struct sockaddr_storage sa;
    socklen_t len;
    char authority[272];  /* host and port as in the URL, for messages */
    char host[256];       /* without port, brackets and zone */
    unsigned *target;     /* the URLs that are requested from it */
    unsigned targets;
    struct popular *popular; /* --zipf: how often each */
};

struct target {
    char *url;
    unsigned peer;
    uint16_t also;           /* a status that is right too; 0: none */
    uint8_t method;          /* enum http_method */
    bool has_body;           /* the expected bytes are known: body or file */
    struct slice request[2]; /* the second says Connection: close, if any does */
    struct slice body;       /* --check; ptr NULL: the bytes are not in memory */
    struct reference *file;  /* ... but the digest is */
    uint64_t mark;           /* ... and of the file's state: files_blame() */
};

struct plan {
    const struct load_options *opt;
    struct peer *peer;
    struct target *target;
    unsigned peers, targets;
    struct sockaddr_storage source[SOURCES_MAX];
    unsigned sources;
    bool echo, unix_socket;
    bool secure, h2;         /* https; HTTP/2 */
    bool wired;              /* one of them: connections have a wire */
    struct tls_context *tls;
    enum http_method method;
    unsigned threads, connections, idle;
    unsigned depth, ring;    /* requests in flight on a connection; that as a power of two */
    uint32_t per_connection; /* requests; 0: no limit */
    uint64_t requests;       /* in all; 0: no limit except duration_ns */
    bool open;               /* requests have intended times: of --rate, or of a log */
    bool fixed;              /* a request is that of its target, byte for byte: no echo, no mix */
    double zipf;             /* its exponent, when there is --zipf */
    struct replay *replay;
    struct mix *mix;
    struct block *kept;      /* see plan_keep() */
    size_t held_bytes;       /* --check: of small files in memory; number of mapped ones */
    unsigned mapped;
    bool digests;            /* some files have a digest */
    uint64_t duration_ns;    /* 0: until all requests are answered */
    uint64_t timeout_ns;
    char *pool;              /* echo: random bytes that messages are cut from */
};
enum { POOL_BYTES = 2 * MESSAGE_MAX }; /* so that the longest message has many places */

/* Returns 0, or an exit code after a message. */
int plan_make(struct plan *p, const struct load_options *opt, const struct option_found *found);
void plan_free(struct plan *p);

/* keep.c: memory that stays as long as the plan; NULL: out of memory. */
void *plan_keep(struct plan *p, size_t wanted);
char *plan_keep_copy(struct plan *p, const char *bytes, size_t n);
void plan_keep_free(struct plan *p);

/* Takes a line from the front of *text, without its end, which is LF or CR LF. */
static inline struct slice take_line(struct slice *text)
{
    const char *end = memchr(text->ptr, '\n', text->len);
    struct slice line = {text->ptr, end ? (size_t)(end - text->ptr) : text->len};
    size_t n = line.len + (end != NULL);

    text->ptr += n;
    text->len -= n;
    if (line.len && line.ptr[line.len - 1] == '\r')
        line.len--;
    return line;
}

struct url {
    bool echo, secure;
    struct slice host, port, path; /* path with the query, never empty for HTTP */
    struct slice authority;        /* for Host */
};
/* Returns NULL, or what is wrong with the text. */
const char *url_parse(struct url *u, const char *text);
/* Writes the Host line; without a zone, which has a meaning on this machine only. */
void url_put_host(const struct url *u, FILE *out);
/* Finds the address that answers; 0 or -errno, or a positive code of getaddrinfo(). */
int url_resolve(const struct url *u, const struct load_options *opt, struct peer *peer);

/* workload.c: first the URLs, before anything else is known; then what needs all of them. */
int workload_read(struct plan *p, const struct option_found *found);
int workload_make(struct plan *p);
void workload_free(struct plan *p);

/* --- What a thread counts --------------------------------------------------------------------- */

/* One second of the time series. */
struct second {
    uint64_t answers, faults, bytes;
    struct hist latency;
};

/* --mix: as_meant counts answers that are as meant (304, 206, coded, 404), but not those that are
 * only allowed (a changed file, no coding). */
struct kind_tally {
    uint64_t sent, answered, as_meant, wrong;
    uint64_t uncompared; /* coded, and --check has no file of that coding */
};

/* The outcome of a request.  Status 0: no answer; fault 0: nothing is wrong. */
struct outcome {
    uint16_t status;
    uint8_t fault; /* enum fault */
};

/* --samples: a request that has ended. */
struct sample {
    uint64_t intended_ns, sent_ns, took_ns; /* took: since it was sent */
    uint32_t connection;
    struct outcome outcome;
};
enum { SAMPLES_MAX = 50000000 };

struct tally {
    struct sample *sample; /* in the order in which they ended, or NULL */
    uint64_t samples, samples_most, samples_written; /* how many; how many there is room for */
    uint64_t sent, answers, lost, unanswered; /* sent = answers + lost + unanswered */
    uint64_t bytes_in, bytes_out;
    uint64_t connects, closed_idle; /* made; ended by the server between two requests */
    uint64_t status[STATUSES];      /* answers by status */
    uint64_t fault[FAULTS];
    struct {
        int error;
        uint64_t count;
    } connect_errno[ERRNOS_MAX];
    struct {
        uint32_t target;
        uint8_t kind;
        uint64_t at; /* byte of the body */
    } example[FAULTS]; /* the first of its kind */
    struct hist service, latency, connect; /* ns; latency is from the intended time */
    struct hist handshake;                 /* of TLS, since the connection was made */
    struct {
        uint64_t full, resumed, others; /* others: than the first, by version or cipher */
        const char *version, *cipher;   /* of the first; the library's, they stay */
    } tls;
    struct {
        uint64_t goaways, resets; /* GOAWAY and RST_STREAM of the server */
        const char *goaway_error; /* the last one that is an error; the library's, it stays */
    } h2;
    struct {
        enum fault fault;
        char why[160]; /* a sentence about the server */
    } greeting;        /* the first that failed */
    /* Open loop.  Late by more than LATE_NS: late_busy without a free connection, late_own by our
     * own fault.  latest_own_ns: the largest part of a single request's delay that was ours. */
    uint64_t due, unsent, late_busy, late_own, latest_own_ns;
    uint64_t ready_ns, first_send_ns; /* the barrier: no thread sends before all are ready */
    uint64_t cpu_ns, wait_ns, wall_ns; /* of the thread: running, runnable but not running, all */
    struct kind_tally kind[KINDS];
    struct second *second;
    unsigned seconds;
};
enum { LATE_NS = 1000000 };

extern const char *const fault_keys[FAULTS], *const fault_words[FAULTS];
extern const char *const kind_words[KINDS], *const kind_due[KINDS];

/* --- The run and its result ------------------------------------------------------------------- */

struct result {
    const struct plan *plan;
    struct tally sum;
    struct tally *thread; /* plan->threads of them */
    uint64_t start_ns, elapsed_ns, start_unix_ms;
    bool interrupted, connected; /* connected: a connection was made at the start */
    unsigned first_port, last_port; /* ports that the system gives to connections; 0: unknown */
    uint64_t time_wait;             /* TCP connections of this machine in TIME-WAIT at the end */
    bool limit;                  /* the generator was the limit */
    char verdict[256];
    uint64_t faults;             /* of all kinds */
};

/* Run the plan: 0, or an exit code after a message.  The result's memory lives until
 * result_free(). */
int load_run(const struct plan *p, struct result *r);
/* Adds up what all threads counted, and finds the verdict. */
int result_make(struct result *r);
void result_free(struct result *r);

/* --find-knee: runs at rising rates; their table, and an exit code. */
int knee_run(struct plan *p, struct load_options *opt);

void report_text(const struct result *r, FILE *out);
void report_json(const struct result *r, FILE *out);
/* report_workload.c: parts of the two above. */
void report_workload(const struct result *r, FILE *out);
void report_mix(const struct result *r, FILE *out);
void report_workload_json(const struct result *r, FILE *out);
void report_csv(const struct result *r, FILE *out);
void report_hgrm(const struct hist *h, FILE *out);
void report_samples(const struct result *r, FILE *out);

/* output.c.  Before the run: check that the named files can be written; an exit code. */
int output_check(const struct load_options *o);
bool output_is_std(const char *path); /* "-"; NULL is not */
bool output_has_report(const struct load_options *o); /* the report goes to standard output */
FILE *output_open(const char *path); /* NULL: failed, after a message */
/* 0 if all is written, or an exit code after a message.  Standard output stays open. */
int output_close(FILE *out, const char *path);
void output_string(FILE *out, const char *text); /* whole and quoted, as JSON has it */

/* --fail-if and the time series read the histogram sum.latency: it counts from the intended times
 * when the loop is open, otherwise from the real ones. */
enum { PERCENTILES = 8 };
extern const struct percentile {
    const char *key, *words;
    uint64_t num, den;
} percentiles[PERCENTILES];

/* --fail-if: an expression such as p99>5ms.  -EINVAL: it is not one.  Otherwise 0 and *found, if
 * there is a result. */
struct limit_found {
    double value, bound;
    const char *unit; /* of both: "us", "per second", "per cent" or "" */
    bool broken;
};
int limit_judge(const char *expression, const struct result *r, struct limit_found *found);

#endif
