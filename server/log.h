/* SPDX-License-Identifier: MIT */
/* log.h - the access log: a line for each answer; what the client sent is escaped.
 *
 *   log.c        lines, in several formats
 *   log_file.c   where they go: a file, a pipe or stdout; reopening, and what fails
 */
#ifndef SERVER_LOG_H
#define SERVER_LOG_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct clients;
struct http_receipt;
struct log;
struct probe_stamps;

enum log_format {
    LOG_OFF, LOG_COMBINED, LOG_JSON,
    LOG_STAGES, /* JSON with times */
    LOG_TIMED,  /* combined, and how long the answer took */
    LOG_VHOST   /* combined, after the name of the site and the port */
};

/* path "-": stdout.  With a format that has times they are taken until the log is closed, as if a
 * tracer watched; call it before any thread or child exists. */
int  log_open(struct log **log, enum log_format format, const char *path);
/* A log whose lines go where those of the other go, which is closed after it.  0 or -ENOMEM. */
int  log_open_with(struct log **log, enum log_format format, struct log *other);
/* What lines call the site that answered; NULL: they name none.  The text stays the caller's. */
void log_site(struct log *log, const char *name);
/* Notes of one answer: begin copies what it needs from the receipt and from the times, or NULL;
 * end writes one line and frees.  NULL is fine when off. */
void *log_begin(struct log *log, int fd, const struct http_receipt *receipt,
                const struct probe_stamps *stamps);
void log_end(void *note, uint64_t body_bytes, bool complete);
/* Addresses in the log are those that proxies report; NULL: those of connections. */
void log_clients(struct log *log, const struct clients *clients);
int  log_reopen(struct log *log); /* SIGHUP */
void log_close(struct log *log);

/* --- log_file.c ------------------------------------------------------------------------------- */

struct log_file;
int  log_file_open(struct log_file **file, const char *path);
int  log_file_reopen(struct log_file *f);
void log_file_close(struct log_file *f);
/* A line with its end, in one write.  line[0] is the file's: it ends a line that was cut in two. */
void log_file_write(struct log_file *f, const char *line, size_t len);

#endif
