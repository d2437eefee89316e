/* SPDX-License-Identifier: MIT */
/* log.c - the access log: a line for each answer, in NCSA combined format, the same with the time
 * that it took, or as one JSON object.
 *
 * The client's bytes are hostile: everything outside 0x20-0x7e, quotes and backslashes are escaped,
 * and long values are cut visibly.  A whole line stays below PIPE_BUF, so that it is one write that
 * no other line can cut in two, be it to a file (O_APPEND), a pipe or a terminal.  The first half
 * is made when the answer begins, because the request's bytes do not live longer; the second when
 * the answer's last byte is sent.  Threads share the descriptor; processes have one each.
 * Processes share whether a failure was reported and how often the log was reopened: each checks
 * that before it writes a line, and reopens the log, too.  The server does not wait for a log whose
 * reader sleeps: stdout, which is shared and stays blocking, is polled first, with some patience
 * once and none while lines are being lost.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "../base/net.h"
#include "../base/say.h"
#include "../base/escape.h"
#include "client.h"

enum {
    LOG_TARGET_BYTES = 2000, /* escaped; these three and the rest stay below PIPE_BUF (4096) */
    LOG_REFERER_BYTES = 1000,
    LOG_AGENT_BYTES = 500,
    LOG_METHOD_BYTES = 64,
    LOG_REST_BYTES = 500
};
_Static_assert(LOG_TARGET_BYTES + LOG_REFERER_BYTES + LOG_AGENT_BYTES + LOG_METHOD_BYTES +
                       LOG_REST_BYTES <= PIPE_BUF,
               "a line must be one atomic write");

/* What all processes of the server share. */
struct log_state {
    atomic_bool failed; /* said once; a line that is written clears it */
    atomic_bool torn;   /* half a line was written: the next begins on its own line */
    atomic_uint opened; /* how often by log_reopen() */
};

struct log {
    enum log_format format; /* combined or JSON */
    bool stages, timed;     /* ... with the stages, with the time behind the line */
    const struct clients *clients;
    const char *path; /* NULL: stdout, which is not reopened */
    int fd;
    atomic_uint opened; /* as often as state->opened: fd is the newest */
    struct log_state *state;
};

/* The line in two halves; what is known only at the end goes between them. */
struct log_note {
    size_t head, tail;
    struct probe_stamps stamps; /* parsed 0: no times */
    char text[];
};

/* Non-blocking, for the sake of named pipes: without a reader they refuse (ENXIO) instead of
 * waiting for one, and full ones lose lines instead of holding up the server.  Files are
 * not affected. */
static int open_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0640);

    return fd < 0 ? -errno : fd;
}

int log_open(struct log **log, enum log_format format, const char *path)
{
    bool file = strcmp(path, "-") != 0;
    struct log *l = calloc(1, sizeof(*l));
    int err;

    if (!l)
        return -ENOMEM;
    l->stages = format == LOG_STAGES;
    l->timed = format == LOG_TIMED;
    l->format = l->stages ? LOG_JSON : l->timed ? LOG_COMBINED : format;
    l->path = file ? path : NULL;
    l->fd = file ? open_file(path) : STDOUT_FILENO;
    if (l->fd < 0) {
        err = l->fd;
        goto no_file;
    }
    l->state = mmap(NULL, sizeof(*l->state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                    -1, 0);
    if (l->state == MAP_FAILED) {
        err = -errno;
        goto no_state;
    }
    if (format != LOG_COMBINED)
        probe_watch();
    *log = l;
    return 0;

no_state:
    if (file)
        close(l->fd);
no_file:
    free(l);
    return err;
}

void log_clients(struct log *l, const struct clients *clients)
{
    l->clients = clients;
}

/* The number of the descriptor stays: a thread that is about to write needs no lock, and two that
 * do this at once do no harm. */
static int open_anew(struct log *l)
{
    int err, fd = open_file(l->path);

    if (fd < 0)
        return fd;
    err = dup3(fd, l->fd, O_CLOEXEC) < 0 ? -errno : 0;
    close(fd);
    return err;
}

int log_reopen(struct log *l)
{
    int err = l->path ? open_anew(l) : 0;

    if (err || !l->path)
        return err;
    atomic_store(&l->state->torn, false);
    atomic_store(&l->opened, atomic_fetch_add(&l->state->opened, 1) + 1);
    return 0;
}

/* If another process has reopened the log, so does this one.  If that fails the next line tries
 * again. */
static void follow(struct log *l)
{
    unsigned opened = atomic_load(&l->state->opened);

    if (atomic_load(&l->opened) != opened && open_anew(l) == 0)
        atomic_store(&l->opened, opened);
}

void log_close(struct log *l)
{
    if (l->format == LOG_JSON || l->timed)
        probe_watch_no_more();
    if (l->path)
        close(l->fd);
    munmap(l->state, sizeof(*l->state));
    free(l);
}

/* --- Lines ------------------------------------------------------------------------------------ */

/* 10/Oct/2000:13:55:36 +0000 or 2000-10-10T13:55:36.123Z: always UTC, so that logs of two
 * machines compare. */
static void time_text(enum log_format format, char *buf, size_t cap)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct timespec now;
    struct tm t;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &t);
    if (format == LOG_COMBINED)
        snprintf(buf, cap, "%02d/%.3s/%04d:%02d:%02d:%02d +0000", t.tm_mday, months + 3 * t.tm_mon,
                 t.tm_year + 1900,
                 t.tm_hour, t.tm_min, t.tm_sec);
    else
        snprintf(buf, cap, "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ", t.tm_year + 1900, t.tm_mon + 1,
                 t.tm_mday, t.tm_hour,
                 t.tm_min, t.tm_sec, now.tv_nsec / 1000000);
}

struct log_words {
    char time[96], peer[NET_ADDRESS_TEXT];
    char method[LOG_METHOD_BYTES], target[LOG_TARGET_BYTES], referer[LOG_REFERER_BYTES],
        agent[LOG_AGENT_BYTES];
};

static void word(enum log_format format, struct slice s, char *buf, size_t cap)
{
    if (!s.ptr)
        s.len = 0;
    if (format == LOG_JSON)
        escape_json(buf, cap, s);
    else
        escape_quoted(buf, cap, s);
    if (format == LOG_COMBINED && !*buf)
        snprintf(buf, cap, "-");
}

static void words(const struct log *l, int fd, const struct http_head *head, struct log_words *w)
{
    enum log_format format = l->format;

    time_text(format, w->time, sizeof(w->time));
    client_text(l->clients, fd, head, w->peer);
    word(format, head->method_text, w->method, sizeof(w->method));
    word(format, head->target, w->target, sizeof(w->target));
    word(format, http_field(head, FIELD_REFERER), w->referer, sizeof(w->referer));
    word(format, http_field(head, FIELD_USER_AGENT), w->agent, sizeof(w->agent));
}

static struct log_note *note_make(const char *head, const char *tail)
{
    size_t m = strlen(head), n = strlen(tail);
    struct log_note *note = malloc(sizeof(*note) + m + n);

    if (!note)
        return NULL;
    note->head = m;
    note->tail = n;
    note->stamps = (struct probe_stamps){0};
    memcpy(note->text, head, m);
    memcpy(note->text + m, tail, n);
    return note;
}

static void json_halves(const struct log_words *w, unsigned status, char *head, char *tail)
{
    static const char start[] =
        "{\"time\":\"%s\",\"peer\":\"%s\",\"method\":\"%s\",\"target\":\"%s\",\"status\":%u,";

    snprintf(head, PIPE_BUF, start, w->time, w->peer, w->method, w->target, status);
    snprintf(tail, PIPE_BUF, "\"referer\":\"%s\",\"agent\":\"%s\"}", w->referer, w->agent);
}

/* A request that was not understood has no target, and shows what there is. */
static void combined_halves(const struct log_words *w, const struct http_receipt *r, char *head,
                            char *tail)
{
    if (r->head->target.ptr && r->head->target.len)
        snprintf(head, PIPE_BUF, "%s - - [%s] \"%s %s HTTP/%c.%u\" %u ", w->peer, w->time,
                 w->method, w->target, r->h2 ? '2' : '1', r->h2 ? 0 : r->head->minor, r->status);
    else
        snprintf(head, PIPE_BUF, "%s - - [%s] \"%s\" %u ", w->peer, w->time, w->method, r->status);
    snprintf(tail, PIPE_BUF, "\"%s\" \"%s\"", w->referer, w->agent);
}

void *log_begin(struct log *l, int fd, const struct http_receipt *r,
                const struct probe_stamps *stamps)
{
    char head[PIPE_BUF], tail[PIPE_BUF];
    struct log_note *note;
    struct log_words w;

    if (!l)
        return NULL;
    words(l, fd, r->head, &w);
    if (l->format == LOG_JSON)
        json_halves(&w, r->status, head, tail);
    else
        combined_halves(&w, r, head, tail);
    note = note_make(head, tail);
    if (note && stamps)
        note->stamps = *stamps;
    return note;
}

static int write_all(struct log *l, const char *line, size_t len)
{
    size_t off = 0;
    int patience_ms = atomic_load(&l->state->failed) ? 0 : SAY_PATIENCE_MS;

    if (!l->path && !say_may_write(l->fd, patience_ms))
        return -EAGAIN;
    while (off < len) {
        ssize_t n = write(l->fd, line + off, len - off);

        if (n < 0 && errno == EINTR)
            continue;
        if (n > 0)
            off += (size_t)n;
        if (n > 0)
            continue;
        if (off)
            atomic_store(&l->state->torn, true);
        return n < 0 ? -errno : -EIO;
    }
    return 0;
}

static void write_line(struct log *l, char *line, size_t len)
{
    bool torn;
    int err;

    follow(l);
    /* line[0] is kept free for the end of a torn line */
    torn = atomic_exchange(&l->state->torn, false);
    err = write_all(l, torn ? line : line + 1, torn ? len : len - 1);
    if (!err) {
        if (atomic_load(&l->state->failed) && atomic_exchange(&l->state->failed, false))
            say_error("the log can be written again");
        return;
    }
    if (torn)
        atomic_store(&l->state->torn, true);
    if (!atomic_exchange(&l->state->failed, true))
        say_error("cannot write the log: %s; serving goes on without it, lines are lost until it "
                  "works again", say_why(err));
}

enum { TIMES_TEXT = 200, NUMBER_TEXT = 24 }; /* four numbers of up to 20 digits, their names */

/* The time since the previous stage; null if the stage was not reached. */
static void since(uint64_t ns, uint64_t before_ns, char text[NUMBER_TEXT])
{
    if (ns)
        snprintf(text, NUMBER_TEXT, "%llu", (unsigned long long)(ns - before_ns));
    else
        memcpy(text, "null", sizeof("null"));
}

static void stages_text(const struct probe_stamps *s, uint64_t now_ns, char text[TIMES_TEXT])
{
    char found[NUMBER_TEXT], compressed[NUMBER_TEXT];
    uint64_t last = s->compressed ? s->compressed : s->found ? s->found : s->parsed;

    since(s->found, s->parsed, found);
    since(s->compressed, s->found, compressed);
    snprintf(text, TIMES_TEXT, "\"parsed_ns\":%llu,\"took_ns\":{\"found\":%s,\"compressed\":%s,"
             "\"done\":%llu},", (unsigned long long)s->parsed, found, compressed,
             (unsigned long long)(now_ns - last));
}

/* What a line says of times; "" if they are not known. */
static void times_text(const struct log *l, const struct probe_stamps *s, char text[TIMES_TEXT])
{
    uint64_t now_ns = s->parsed ? clock_ns() : 0;
    unsigned long long us = (now_ns - s->parsed) / 1000;

    text[0] = 0;
    if (!s->parsed)
        return;
    if (l->stages)
        stages_text(s, now_ns, text);
    else if (l->format == LOG_JSON)
        snprintf(text, TIMES_TEXT, "\"took_us\":%llu,", us);
    else if (l->timed)
        snprintf(text, TIMES_TEXT, " %llu.%06llu", us / 1000000, us % 1000000);
}

void log_end(struct log *l, void *begun, uint64_t body_bytes, bool complete)
{
    char line[PIPE_BUF + 64], times[TIMES_TEXT];
    struct log_note *note = begun;
    int n;

    if (!l || !note)
        return;
    times_text(l, &note->stamps, times);
    if (l->format == LOG_JSON)
        n = snprintf(line, sizeof(line), "\n%.*s\"bytes\":%llu,\"complete\":%s,%s%.*s\n",
                     (int)note->head, note->text, (unsigned long long)body_bytes,
                     complete ? "true" : "false", times, (int)note->tail,
                     note->text + note->head);
    else
        n = snprintf(line, sizeof(line), "\n%.*s%llu %.*s%s\n", (int)note->head, note->text,
                     (unsigned long long)body_bytes,
                     (int)note->tail, note->text + note->head, times);
    if (n > 0 && (size_t)n < sizeof(line))
        write_line(l, line, (size_t)n);
    free(note);
}
