/* SPDX-License-Identifier: MIT */
/* workload.h - what is requested, where it is more than a few URLs in turn.
 *
 *   walk.c      files of a folder -> URLs          popular.c   which URL, by Zipf's law
 *   log_line.c  a line of an access log            replay.c    a whole one: what, and when
 *   mix.c       requests of several kinds          mix_judge.c their answers
 *   think.c     pauses between requests            files.c     what bodies are compared with
 *   turns.c     which URL is next                  blame.c     ... and whether that has changed
 *   lines.c     logs and lists, a line at a time   workload.c  all of it: what fits together
 *
 * Like the plan it belongs to, all of this is read-only while requests run; what threads learn and
 * draw is in their struct worker.
 */
#ifndef LOAD_WORKLOAD_H
#define LOAD_WORKLOAD_H
#include "worker.h"

/* --- Which URL: popular.c --------------------------------------------------------------------- */

/* Walker's alias method: a column is drawn, then it or its other one; any law costs the same. */
struct popular {
    uint32_t n;
    struct column {
        uint32_t keep;  /* of 2^32: how likely it is the column itself */
        uint32_t other;
    } column[];
};

/* Place i of n has a share in proportion to 1 / (i + 1)^s.  NULL: no memory. */
struct popular *popular_make(uint32_t n, double s);
uint32_t popular_draw(const struct popular *p, struct worker *w);

/* --- Lines of a file: lines.c ----------------------------------------------------------------- */

/* A log's longest line: request, referrer and agent of 8 KiB each, which is what servers take of a
 * field, every byte of them as \xHH, and a third of that for the rest. */
enum { LINE_BYTES_MAX = 128 * 1024 };

struct lines {
    int fd;
    uint64_t number; /* of the last line, from 1 */
    size_t from, to; /* the part of the buffer that has not been given */
    char buf[LINE_BYTES_MAX + 2]; /* with the line's end; and a NUL, should the file lack it */
};

/* - is standard input.  0 or -errno. */
int lines_open(struct lines *l, const char *path);
void lines_close(struct lines *l);
/* Returns 1 and the next line without its end, NUL-terminated, the caller's until the next call; 0:
 * there is none; or -errno.  -EMSGSIZE: the line has more than LINE_BYTES_MAX bytes. */
int lines_next(struct lines *l, char **text, size_t *bytes);
/* Reports an error of these two; returns an exit code. */
int lines_refuse(const struct lines *l, const char *option, const char *path, int err);

/* --- Logs: log_line.c, replay.c --------------------------------------------------------------- */

/* Why a line cannot be replayed. */
#define LEFTS(X)                                                   \
    X(METHOD, "other_method", "of a method that is not GET or HEAD") \
    X(TARGET, "no_path", "whose target is no path")                \
    X(CUT, "cut", "cut off by the log")                            \
    X(MALFORMED, "malformed", "not of the form of an access log")
#define X(id, key, words) LEFT_##id,
enum left { LEFTS(X) LEFT_KINDS };
#undef X
extern const char *const left_keys[LEFT_KINDS], *const left_words[LEFT_KINDS];

struct log_line {
    int64_t unix_s;
    enum http_method method; /* GET or HEAD */
    struct slice target;     /* origin-form; bytes that no URL has are escaped */
    unsigned status;
};
/* Reads a line, which is changed; target points into buf, of at least three times the line's bytes.
 * Returns -1, or why it cannot be replayed: enum left. */
int log_line_read(struct log_line *l, char *line, char *buf);

struct replay {
    uint32_t *target;   /* of each line, in the log's order or, with times, in order of time */
    uint64_t *at_ns;    /* --replay-speed: from the first; NULL: not by the log's times */
    uint32_t lines;
    uint64_t left[LEFT_KINDS];
    double speed;       /* 0: not by the log's times */
};

int replay_read(struct plan *p, const char *base);
/* How many requests to send; 0: until --duration is over. */
uint64_t replay_requests(const struct plan *p);
void replay_free(struct replay *r);

/* A file of --check. */
struct file {
    struct slice bytes;       /* ptr NULL: there is none, or: */
    struct reference *digest; /* ... as in struct target, like mark */
    uint64_t mark;
};

/* --- Kinds of requests: mix.c, mix_judge.c ---------------------------------------------------- */

enum {
    CODED = KIND_ZSTD - KIND_GZIP + 1, /* kinds with a content coding */
    VALIDATOR_BYTES_MAX = 192,         /* a whole field line; one that is longer is not used */
    RANGE_BYTES_MOST = 1 << 20         /* asked at once, as a player would */
};

struct mix {
    double percent[KINDS];
    uint64_t below[KINDS];           /* of 2^32: the shares, added up from the last to this */
    struct file (*sibling)[CODED];   /* --check: of each target; NULL: nothing to compare with */
    uint32_t asked_bytes;            /* of the longest struct asked */
};

/* The suffix of a file's name for a coding, with its NUL. */
enum { SUFFIX_BYTES = 5 };
const char *mix_suffix(enum kind kind);
/* The sibling that an answer of this kind is compared with; NULL: none. */
const struct file *mix_sibling(const struct plan *p, const struct target *t, enum kind kind);

/* What a thread knows of a target from its answers. */
struct learnt {
    uint64_t size;   /* 0: not known, or empty */
    uint32_t turn;   /* how often it was learnt; 0: nothing was */
    uint16_t bytes;  /* of the line; 0: it has no validator */
    uint16_t value, value_bytes; /* where in the line the validator stands */
    char line[VALIDATOR_BYTES_MAX]; /* to be sent */
};

/* A request of a mix, for as long as it is under way. */
struct asked {
    struct learnt *learnt; /* of its target */
    uint64_t first;        /* of a range; and how many bytes */
    uint32_t count;
    uint32_t target, turn; /* turn: that of learnt when it was sent */
    uint32_t bytes;        /* of the text, when it is not plain */
    uint8_t kind;
    char text[];
};

int mix_read(struct plan *p);   /* the option */
int mix_make(struct plan *p);   /* when the targets are known */
void mix_free(struct plan *p);
/* Decides the kind of this shot, and writes its bytes. */
void mix_load(struct worker *w, struct shot *s);
struct asked *mix_asked(const struct worker *w, const struct shot *s);
/* False: the request was plain, and so the answer is judged as plain. */
bool mix_judge(struct answer *a, const struct question *q, const struct http_head *head);
void mix_count(struct worker *w, const struct answer *a, const struct shot *s);

/* --- The rest --------------------------------------------------------------------------------- */

int walk_read(struct plan *p, const char *base);

/* --- plan_target.c ---------------------------------------------------------------------------- */

/* Adds a URL.  0, or an exit code after a message. */
struct wish {
    enum http_method method;
    unsigned also;     /* a status that is right too; 0: none */
    bool may_lack_file; /* if --check has no file for it, it is not compared */
};
int plan_add(struct plan *p, const char *url, const struct wish *wish);
/* Whether the header is that field. */
bool plan_names(const char *header, const char *field);
/* --header: 0, or an exit code after a message. */
int plan_check_headers(const struct load_options *o);

/* --- files.c ---------------------------------------------------------------------------------- */

/* The file that --check compares a URL with: 0, or -EINVAL: it can have none. */
enum { FILE_PATH_BYTES = PATH_BYTES_MAX + 4096 };
int files_path(const struct plan *p, const char *url, char path[FILE_PATH_BYTES]);
/* Loads a file's bytes, the plan's until it ends: 0 or -errno; -EISDIR: it is no file. */
int files_load(struct plan *p, const char *path, struct file *f);
/* Finds a target's body: 0, or an exit code after a message. */
int files_target(struct plan *p, struct target *t, bool may_lack);
struct stat;
/* A number that changes when the file does. */
uint64_t files_mark(const struct stat *st);

/* --- blame.c ---------------------------------------------------------------------------------- */

/* The fault of an answer that differs from the file: `what`, or FAULT_FILE_CHANGED if the file has
 * changed since the run began. */
enum fault files_blame(const struct plan *p, const struct target *t, enum kind kind,
                       enum fault what);

#endif
