/* SPDX-License-Identifier: MIT */
/* log.c - lines of the access log, one for each answer: NCSA combined format, the same with the
 * time that it took or the name of the site, or one JSON object.
 *
 * The client's bytes are hostile: everything outside 0x20-0x7e, quotes and backslashes are escaped,
 * and long values are cut visibly.  A whole line stays below PIPE_BUF.  The first half is made when
 * the answer begins, because the request's bytes do not live longer; the second when the answer's
 * last byte is sent.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "../base/net.h"
#include "../base/escape.h"
#include "client.h"

enum {
    LOG_TARGET_BYTES = 2000, /* escaped; these three and the rest stay below PIPE_BUF (4096) */
    LOG_REFERER_BYTES = 1000,
    LOG_AGENT_BYTES = 500,
    LOG_METHOD_BYTES = 64,
    LOG_SITE_BYTES = 96,
    LOG_REST_BYTES = 436 /* names of fields, numbers, times, the peer */
};
_Static_assert(LOG_TARGET_BYTES + LOG_REFERER_BYTES + LOG_AGENT_BYTES + LOG_METHOD_BYTES +
                       LOG_SITE_BYTES + LOG_REST_BYTES <= PIPE_BUF,
               "a line must be one atomic write");

struct log {
    enum log_format format; /* combined or JSON */
    bool stages, timed;     /* ... with the stages, with the time behind the line */
    bool vhost;             /* ... with the site and the port before it */
    const char *site;       /* NULL: the server has one, without a name */
    const struct clients *clients;
    struct log_file *file;
    bool shares;            /* another log closes the file */
};

/* The line in two halves; what is known only at the end goes between them. */
struct log_note {
    struct log *log;
    size_t head, tail;
    struct probe_stamps stamps; /* parsed 0: no times */
    char text[];
};

static bool has_times(const struct log *l)
{
    return l->format == LOG_JSON || l->timed;
}

static struct log *log_new(enum log_format format)
{
    struct log *l = calloc(1, sizeof(*l));

    if (!l)
        return NULL;
    l->stages = format == LOG_STAGES;
    l->timed = format == LOG_TIMED;
    l->vhost = format == LOG_VHOST;
    l->format = l->stages || format == LOG_JSON ? LOG_JSON : LOG_COMBINED;
    return l;
}

static void begin(struct log *l)
{
    if (has_times(l))
        probe_watch();
}

int log_open(struct log **log, enum log_format format, const char *path)
{
    struct log *l = log_new(format);
    int err = l ? log_file_open(&l->file, path) : -ENOMEM;

    if (err) {
        free(l);
        return err;
    }
    begin(l);
    *log = l;
    return 0;
}

int log_open_with(struct log **log, enum log_format format, struct log *other)
{
    struct log *l = log_new(format);

    if (!l)
        return -ENOMEM;
    l->file = other->file;
    l->shares = true;
    begin(l);
    *log = l;
    return 0;
}

void log_site(struct log *l, const char *name)
{
    l->site = name;
}

void log_clients(struct log *l, const struct clients *clients)
{
    l->clients = clients;
}

int log_reopen(struct log *l)
{
    return log_file_reopen(l->file);
}

void log_close(struct log *l)
{
    if (has_times(l))
        probe_watch_no_more();
    if (!l->shares)
        log_file_close(l->file);
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
    char time[96], peer[NET_ADDRESS_TEXT], site[LOG_SITE_BYTES + 16];
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

/* What goes before the peer: "example.org:443 " or "host":"example.org"; or nothing.  A site has no
 * port of its own, so it is that of the connection; 0: a Unix socket's. */
static void site_word(const struct log *l, int fd, struct log_words *w)
{
    const char *name = l->site ? l->site : "default";
    char text[LOG_SITE_BYTES];
    int port;

    w->site[0] = '\0';
    if (!l->vhost && (l->format != LOG_JSON || !l->site))
        return;
    word(l->format, (struct slice){name, strlen(name)}, text, sizeof(text));
    port = l->vhost ? net_port(fd) : 0;
    if (l->vhost)
        snprintf(w->site, sizeof(w->site), "%s:%d ", text, port > 0 ? port : 0);
    else
        snprintf(w->site, sizeof(w->site), "\"host\":\"%s\",", text);
}

static void words(const struct log *l, int fd, const struct http_head *head, struct log_words *w)
{
    enum log_format format = l->format;

    time_text(format, w->time, sizeof(w->time));
    site_word(l, fd, w);
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
        "{\"time\":\"%s\",%s\"peer\":\"%s\",\"method\":\"%s\",\"target\":\"%s\",\"status\":%u,";

    snprintf(head, PIPE_BUF, start, w->time, w->site, w->peer, w->method, w->target, status);
    snprintf(tail, PIPE_BUF, "\"referer\":\"%s\",\"agent\":\"%s\"}", w->referer, w->agent);
}

/* A request that was not understood has no target, and shows what there is. */
static void combined_halves(const struct log_words *w, const struct http_receipt *r, char *head,
                            char *tail)
{
    if (r->head->target.ptr && r->head->target.len)
        snprintf(head, PIPE_BUF, "%s%s - - [%s] \"%s %s HTTP/%c.%u\" %u ", w->site, w->peer,
                 w->time, w->method, w->target, r->h2 ? '2' : '1', r->h2 ? 0 : r->head->minor,
                 r->status);
    else
        snprintf(head, PIPE_BUF, "%s%s - - [%s] \"%s\" %u ", w->site, w->peer, w->time, w->method,
                 r->status);
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
    if (note)
        note->log = l;
    if (note && stamps)
        note->stamps = *stamps;
    return note;
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

void log_end(void *begun, uint64_t body_bytes, bool complete)
{
    char line[PIPE_BUF + 64], times[TIMES_TEXT];
    struct log_note *note = begun;
    const struct log *l;
    int n;

    if (!note)
        return;
    l = note->log;
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
        log_file_write(l->file, line, (size_t)n);
    free(note);
}
