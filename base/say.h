/* SPDX-License-Identifier: MIT */
/* say.h - a program's messages to its user, on stderr, a line at a time: "rung: what failed: why;
 * what to do".
 *
 * A line is one write, so lines of several threads and processes never mix.  Control characters
 * become '?': a file name must not be able to drive the terminal.  A line that stderr does not take
 * within SAY_PATIENCE_MS is dropped: a message must not hold up the work.
 */
#ifndef BASE_SAY_H
#define BASE_SAY_H
#include <stdbool.h>
#include <stddef.h>

enum {
    SAY_LINE_BYTES = 2048,
    SAY_PATIENCE_MS = 200 /* a slow terminal needs some; a stopping server must stop */
};

/* Exit codes of every program. */
enum exit_code {
    EXIT_DONE = 0,    /* did what was asked, or was asked to stop */
    EXIT_FAILED = 1,  /* something went wrong while running */
    EXIT_USAGE = 2,   /* the command line or the environment is wrong */
    EXIT_LISTEN = 3,  /* cannot listen where it was asked to */
    EXIT_MISSING = 4, /* this machine cannot do it: an engine or a feature of the kernel */
};

/* Information; not printed when quiet. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Errors and warnings; always shown. */
void say_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_quiet(bool quiet);

/* Whether a write of up to PIPE_BUF bytes to fd would not block, now or within patience_ms.  stderr
 * and stdout may be a pipe whose reader has stopped reading, or a stopped terminal, and are shared
 * with other processes, so they cannot be made non-blocking. */
bool say_may_write(int fd, int patience_ms);

/* An error number (either sign) in plain words. */
const char *say_why(int error);

#endif
