/* SPDX-License-Identifier: MIT */
/* say.c - one line to stderr in one write; error numbers in plain words.
 *
 * A line that cannot be written is lost: there is no other place to report it.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "say.h"

static atomic_bool silent; /* --quiet; read by any thread */

void say_quiet(bool quiet)
{
    atomic_store(&silent, quiet);
}

bool say_may_write(int fd, int patience_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};

    return poll(&p, 1, patience_ms) != 0; /* an error, too: the write will report it */
}

/* How many bytes the control character at c has, or 0: it is none.  The second set counts, too (C2
 * 80 to C2 9F in UTF-8), because some terminals take U+009B for ESC [. */
static size_t control_bytes(const unsigned char *c)
{
    if (*c < ' ' || *c == 127)
        return 1;
    return *c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0 ? 2 : 0;
}

static void say_line(const char *format, va_list ap)
{
    char line[SAY_LINE_BYTES] = "rung: ";
    size_t len = strlen(line);
    int saved = errno, n = vsnprintf(line + len, sizeof(line) - len - 1, format, ap);

    if (n < 0)
        return;
    len = strlen(line);
    for (size_t i = 0, bytes; i < len; i += bytes ? bytes : 1) {
        bytes = control_bytes((const unsigned char *)line + i);
        memset(line + i, '?', bytes);
    }
    line[len++] = '\n';
    for (size_t off = 0; off < len && say_may_write(STDERR_FILENO, SAY_PATIENCE_MS);) {
        ssize_t done = write(STDERR_FILENO, line + off, len - off);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            break;
        off += (size_t)done;
    }
    errno = saved;
}

void say(const char *format, ...)
{
    va_list ap;

    if (atomic_load(&silent))
        return;
    va_start(ap, format);
    say_line(format, ap);
    va_end(ap);
}

void say_error(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    say_line(format, ap);
    va_end(ap);
}

const char *say_why(int error)
{
    switch (abs(error)) {
    case 0:
        return "no error";
    case EACCES:
        return "permission denied";
    case EADDRINUSE:
        return "it is already in use";
    case EADDRNOTAVAIL:
        return "this machine has no such address";
    case EAFNOSUPPORT:
        return "this machine has no such address family";
    case EMFILE:
        return "this process has no descriptor left (ulimit -n)";
    case ENFILE:
        return "this machine has no descriptor left (fs.file-max)";
    case ENOENT:
        return "it does not exist";
    case ENOMEM:
        return "out of memory";
    case ENOSPC:
        return "the disk is full";
    case ENOSYS:
        return "this kernel does not have it";
    case ENOTDIR:
        return "it is not a folder";
    case ENXIO:
        return "no process reads it"; /* open(2) of a named pipe */
    case EAGAIN:
        return "it takes no more for now";
    case EPERM:
        return "not permitted";
    case EPIPE:
        return "the reader has gone";
    default: {
        /* glibc's table of constant strings: unlike strerror() safe in every thread */
        const char *text = strerrordesc_np(abs(error));

        return text ? text : "unknown error";
    }
    }
}
