/* SPDX-License-Identifier: MIT */
/* log_file.c - where lines of the access log go: a file, a pipe or stdout.
 *
 * A line is one write that no other line can cut in two, because it is shorter than PIPE_BUF, be it
 * to a file (O_APPEND), a pipe or a terminal.  Threads share the descriptor; processes have one
 * each.  Processes share whether a failure was reported and how often the file was reopened: each
 * checks that before it writes a line, and reopens the file, too.  The server does not wait for a
 * log whose reader sleeps: stdout, which is shared and stays blocking, is polled first, with some
 * patience once and none while lines are being lost.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "../base/say.h"
#include "log.h"

/* What all processes of the server share. */
struct log_state {
    atomic_bool failed; /* said once; a line that is written clears it */
    atomic_bool torn;   /* half a line was written: the next begins on its own line */
    atomic_uint opened; /* how often by log_file_reopen() */
};

struct log_file {
    const char *path; /* NULL: stdout, which is not reopened */
    int fd;
    atomic_uint opened; /* as often as state->opened: fd is the newest */
    struct log_state *state;
};

/* --- Opening ---------------------------------------------------------------------------------- */

/* Non-blocking, for the sake of named pipes: without a reader they refuse (ENXIO) instead of
 * waiting for one, and full ones lose lines instead of holding up the server.  Files are
 * not affected. */
static int open_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0640);

    return fd < 0 ? -errno : fd;
}

int log_file_open(struct log_file **file, const char *path)
{
    bool named = strcmp(path, "-") != 0;
    struct log_file *f = calloc(1, sizeof(*f));
    int err;

    if (!f)
        return -ENOMEM;
    f->path = named ? path : NULL;
    f->fd = named ? open_file(path) : STDOUT_FILENO;
    if (f->fd < 0) {
        err = f->fd;
        goto no_file;
    }
    f->state = mmap(NULL, sizeof(*f->state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                    -1, 0);
    if (f->state == MAP_FAILED) {
        err = -errno;
        goto no_state;
    }
    *file = f;
    return 0;

no_state:
    if (named)
        close(f->fd);
no_file:
    free(f);
    return err;
}

/* The number of the descriptor stays: a thread that is about to write needs no lock, and two that
 * do this at once do no harm. */
static int open_anew(struct log_file *f)
{
    int err, fd = open_file(f->path);

    if (fd < 0)
        return fd;
    err = dup3(fd, f->fd, O_CLOEXEC) < 0 ? -errno : 0;
    close(fd);
    return err;
}

int log_file_reopen(struct log_file *f)
{
    int err = f->path ? open_anew(f) : 0;

    if (err || !f->path)
        return err;
    atomic_store(&f->state->torn, false);
    atomic_store(&f->opened, atomic_fetch_add(&f->state->opened, 1) + 1);
    return 0;
}

/* If another process has reopened the log, so does this one.  If that fails the next line tries
 * again. */
static void follow(struct log_file *f)
{
    unsigned opened = atomic_load(&f->state->opened);

    if (atomic_load(&f->opened) != opened && open_anew(f) == 0)
        atomic_store(&f->opened, opened);
}

void log_file_close(struct log_file *f)
{
    if (f->path)
        close(f->fd);
    munmap(f->state, sizeof(*f->state));
    free(f);
}

/* --- Writing ---------------------------------------------------------------------------------- */

static int write_all(struct log_file *f, const char *line, size_t len)
{
    size_t off = 0;
    int patience_ms = atomic_load(&f->state->failed) ? 0 : SAY_PATIENCE_MS;

    if (!f->path && !say_may_write(f->fd, patience_ms))
        return -EAGAIN;
    while (off < len) {
        ssize_t n = write(f->fd, line + off, len - off);

        if (n < 0 && errno == EINTR)
            continue;
        if (n > 0)
            off += (size_t)n;
        if (n > 0)
            continue;
        if (off)
            atomic_store(&f->state->torn, true);
        return n < 0 ? -errno : -EIO;
    }
    return 0;
}

void log_file_write(struct log_file *f, const char *line, size_t len)
{
    bool torn;
    int err;

    follow(f);
    torn = atomic_exchange(&f->state->torn, false);
    err = write_all(f, torn ? line : line + 1, torn ? len : len - 1);
    if (!err) {
        if (atomic_load(&f->state->failed) && atomic_exchange(&f->state->failed, false))
            say_error("the log can be written again");
        return;
    }
    if (torn)
        atomic_store(&f->state->torn, true);
    if (!atomic_exchange(&f->state->failed, true))
        say_error("cannot write the log: %s; serving goes on without it, lines are lost until it "
                  "works again", say_why(err));
}
