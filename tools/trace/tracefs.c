/* SPDX-License-Identifier: MIT */
/* tracefs.c - the settings of the kernel's tracer, of which a machine has one set: saved, changed,
 * restored.
 *
 * Everything is done through one descriptor of the folder, so that it works where tracefs is
 * mounted nowhere, and after the mount is gone.  Commands among the filters (NAME:traceoff) are
 * not changed by writing names, and are left alone.  A buffer that was never used has no size yet;
 * it keeps the kernel's first size then.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <unistd.h>
#include "kernel.h"

#define EVENT "events/sched/sched_migrate_task"

/* How a file's text is written back. */
enum kind {
    PLAIN,    /* as it is; "none" of an event's filter is 0 */
    CHOSEN,   /* the word in brackets */
    NAMES,    /* functions, a line each: NAME or NAME [module] */
    BARE,     /* ... and the module cannot be written */
    NUMBERS,  /* a line each, or words that say there are none */
    EXPANDED  /* "7 (expanded: 1408)" */
};

/* In the order in which they are changed; they are restored the other way round. */
static const struct {
    const char *name, *value; /* NULL: set elsewhere */
    enum kind kind;
} settings[] = {
    {"tracing_on", "0", PLAIN},
    {"trace_clock", "mono", CHOSEN},
    {"tracing_thresh", "0", PLAIN},
    {"max_graph_depth", NULL, PLAIN},
    {"set_ftrace_pid", "", NUMBERS},
    {"set_ftrace_notrace_pid", "", NUMBERS},
    {"set_event_pid", "", NUMBERS},
    {"set_event_notrace_pid", "", NUMBERS},
    {"set_ftrace_notrace", "", NAMES},
    {"set_graph_function", "", BARE},
    {"set_graph_notrace", "", BARE},
    {"set_ftrace_filter", "", NAMES},
    {"options/overwrite", "1", PLAIN},
    {"options/latency-format", "0", PLAIN},
    {"options/raw", "0", PLAIN},
    {"options/hex", "0", PLAIN},
    {"options/bin", "0", PLAIN},
    {"options/context-info", "1", PLAIN},
    {"options/pause-on-trace", "0", PLAIN},
    {"options/event-fork", "0", PLAIN},
    {"options/function-fork", "0", PLAIN},
    {"options/sleep-time", NULL, PLAIN},
    {"options/funcgraph-abstime", "1", PLAIN},
    {"options/funcgraph-cpu", "1", PLAIN},
    {"options/funcgraph-duration", "1", PLAIN},
    {"options/funcgraph-irqs", "1", PLAIN},
    {"options/funcgraph-overhead", "0", PLAIN},
    {"options/funcgraph-overrun", "0", PLAIN},
    {"options/funcgraph-proc", "1", PLAIN},
    {"options/funcgraph-tail", "1", PLAIN},
    {"options/funcgraph-retval", "0", PLAIN},
    {"options/funcgraph-retaddr", "0", PLAIN},
    {"options/funcgraph-args", "0", PLAIN},
    {EVENT "/filter", "0", PLAIN},
    {EVENT "/enable", "1", PLAIN},
    {"buffer_size_kb", NULL, EXPANDED},
    {"current_tracer", "function_graph", PLAIN},
};
enum {
    SETTINGS = sizeof(settings) / sizeof(settings[0]),
    /* How often to try to restore a setting while the tracer is busy, and how long to wait between
     * two tries.  The tracer cannot be changed while it is read, and a process that is killed
     * closes its files one after the other. */
    BUSY_LOOKS = 500,
    BUSY_MS = 10
};

/* --- Files ------------------------------------------------------------------------------------ */

char *tracefs_read(int at, const char *name)
{
    size_t used = 0, room = 4096;
    char *text = malloc(room), *more;
    int fd = openat(at, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : 1;

    while (text && n > 0) {
        if (used + 1 == room) {
            more = realloc(text, room *= 2);
            if (!more)
                break;
            text = more;
        }
        n = read(fd, text + used, room - used - 1);
        used += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0)
        close(fd);
    if (n != 0) {
        free(text);
        return NULL;
    }
    if (text)
        text[used] = 0;
    return text;
}

int tracefs_write(int at, const char *name, const char *text, bool append)
{
    int fd = openat(at, name, O_WRONLY | O_CLOEXEC | (append ? O_APPEND : O_TRUNC));
    int err = fd < 0 ? -errno : 0;

    if (!err && *text && write(fd, text, strlen(text)) < 0)
        err = -errno;
    if (fd >= 0 && close(fd) != 0 && !err)
        err = -errno;
    return err;
}

/* --- Opening ---------------------------------------------------------------------------------- */

/* A mount without a folder will do; it ends with the descriptor. */
static int mount_unseen(void)
{
    int context = fsopen("tracefs", FSOPEN_CLOEXEC), mount = -1, fd = -1, err;

    if (context < 0)
        return -errno;
    if (fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        mount = fsmount(context, FSMOUNT_CLOEXEC, 0);
    if (mount >= 0) /* mount is a path only, and cannot be locked */
        fd = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    err = errno;
    close(context);
    if (mount >= 0)
        close(mount);
    return fd < 0 ? -err : fd;
}

static int find(void)
{
    static const char *const places[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
    int fd = -ENOENT;

    for (unsigned i = 0; i < 2; i++) {
        int at = open(places[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (at >= 0 && faccessat(at, "available_tracers", F_OK, 0) == 0)
            return at;
        fd = at < 0 && (errno == EACCES || errno == EPERM) ? -errno : fd;
        if (at >= 0)
            close(at);
    }
    return fd == -ENOENT ? mount_unseen() : fd;
}

static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = text; (at = strstr(at, word)) != NULL; at += n)
        if ((at == text || at[-1] == ' ') && (!at[n] || at[n] == ' ' || at[n] == '\n'))
            return true;
    return false;
}

static int cannot(int err)
{
    if (err == -EPERM || err == -EACCES) {
        say_error("not permitted to use the kernel's tracer: rung trace kernel needs root");
        return EXIT_FAILED;
    }
    say_error("this kernel has no tracer (tracefs): %s; one with CONFIG_FUNCTION_GRAPH_TRACER is "
              "needed, as Debian's is", say_why(err));
    return EXIT_MISSING;
}

/* Checks that the tracer has function_graph, and that no other process uses it. */
static int check(struct tracefs *fs)
{
    char *tracers = tracefs_read(fs->at, "available_tracers"), *now;
    int code = 0;

    if (!tracers)
        return cannot(-errno);
    if (!has_word(tracers, "function_graph")) {
        say_error("this kernel has no function_graph tracer, only: %.*s; one with "
                  "CONFIG_FUNCTION_GRAPH_TRACER is needed, as Debian's is",
                  (int)strcspn(tracers, "\n"), tracers);
        code = EXIT_MISSING;
    }
    free(tracers);
    now = code ? NULL : tracefs_read(fs->at, "current_tracer");
    if (!code && !now)
        return cannot(-errno);
    if (!code && (strcmp(now, "nop\n") != 0 || flock(fs->at, LOCK_EX | LOCK_NB) != 0)) {
        say_error("the kernel's tracer is in use (%.*s), and there is only one: end that first, "
                  "or echo nop >/sys/kernel/tracing/current_tracer", (int)strcspn(now, "\n"), now);
        code = EXIT_FAILED;
    }
    free(now);
    return code;
}

int tracefs_open(struct tracefs *fs)
{
    *fs = (struct tracefs){.at = find()};
    return fs->at < 0 ? cannot(fs->at) : check(fs);
}

void tracefs_close(struct tracefs *fs)
{
    for (unsigned i = 0; i < fs->saved_count; i++) {
        free(fs->saved[i].name);
        free(fs->saved[i].text);
    }
    free(fs->saved);
    if (fs->at >= 0)
        close(fs->at);
    *fs = (struct tracefs){.at = -1};
}

/* --- Saving ----------------------------------------------------------------------------------- */

int tracefs_save(struct tracefs *fs)
{
    fs->saved = calloc(SETTINGS, sizeof(*fs->saved));
    if (!fs->saved)
        return -ENOMEM;
    for (unsigned i = 0; i < SETTINGS; i++) {
        struct setting *s = &fs->saved[fs->saved_count];

        s->text = tracefs_read(fs->at, settings[i].name);
        if (!s->text && errno == ENOENT) /* this kernel does not have it */
            continue;
        if (settings[i].kind == EXPANDED && s->text && *s->text == 'X') {
            free(s->text); /* the processors' sizes differ, so they stay as they are */
            continue;
        }
        s->name = strdup(settings[i].name);
        fs->saved_count++;
        if (!s->text || !s->name)
            return -errno;
    }
    return 0;
}

/* --- Restoring -------------------------------------------------------------------------------- */

static enum kind kind_of(const char *name)
{
    for (unsigned i = 0; i < SETTINGS; i++)
        if (strcmp(settings[i].name, name) == 0)
            return settings[i].kind;
    return PLAIN;
}

/* A line of a filter: "#### all functions enabled ####", "NAME", "NAME [module]", or a command. */
static int restore_line(const struct tracefs *fs, const struct setting *s, struct slice line)
{
    char text[256];
    const char *bracket = memchr(line.ptr, '[', line.len);
    int name = (int)strcspn(line.ptr, " \n"), module = 0;
    enum kind kind = kind_of(s->name);

    if (!line.len || *line.ptr == '#' || memchr(line.ptr, ':', line.len) ||
        (kind == NUMBERS && (*line.ptr < '0' || *line.ptr > '9')))
        return 0;
    if (line.len > sizeof(text) - 8)
        return -EINVAL;
    if (bracket && kind == NAMES)
        module = (int)strcspn(bracket + 1, "]\n");
    snprintf(text, sizeof(text), "%.*s%s%.*s\n", name, line.ptr, module ? ":mod:" : "", module,
             module ? bracket + 1 : "");
    return tracefs_write(fs->at, s->name, text, true);
}

static int restore_lines(const struct tracefs *fs, const struct setting *s)
{
    int err = tracefs_write(fs->at, s->name, "", false), one;

    for (const char *p = s->text; *p;) {
        size_t n = strcspn(p, "\n");

        one = restore_line(fs, s, (struct slice){p, n});
        err = err ? err : one;
        p += n + (p[n] == '\n');
    }
    return err;
}

static int restore(const struct tracefs *fs, const struct setting *s)
{
    char text[128];
    const char *from = s->text;
    size_t n = strcspn(s->text, "\n");

    switch (kind_of(s->name)) {
    case NAMES:
    case BARE:
    case NUMBERS:
        return restore_lines(fs, s);
    case CHOSEN:
        from = strchr(s->text, '[');
        from = from ? from + 1 : s->text;
        n = strcspn(from, "]\n");
        break;
    case EXPANDED:
        from = strstr(s->text, "expanded: ");
        from = from ? from + strlen("expanded: ") : s->text;
        n = strcspn(from, ")\n");
        break;
    case PLAIN:
        break;
    }
    if (n == 4 && memcmp(from, "none", 4) == 0) {
        from = "0";
        n = 1;
    }
    if (n >= sizeof(text))
        return -EINVAL;
    snprintf(text, sizeof(text), "%.*s\n", (int)n, from);
    return tracefs_write(fs->at, s->name, text, false);
}

unsigned tracefs_restore(struct tracefs *fs)
{
    unsigned failed = 0;

    tracefs_write(fs->at, "tracing_on", "0", false);
    for (unsigned i = fs->saved_count; i-- > 0;) {
        int err = restore(fs, &fs->saved[i]);

        for (unsigned n = 0; err == -EBUSY && n < BUSY_LOOKS; n++) {
            poll(NULL, 0, BUSY_MS);
            err = restore(fs, &fs->saved[i]);
        }
        if (err) {
            say_error("cannot restore the tracer's %s: %s; it was: %.*s", fs->saved[i].name,
                      say_why(err), (int)strcspn(fs->saved[i].text, "\n"), fs->saved[i].text);
            failed++;
        }
    }
    tracefs_write(fs->at, "trace", "", false);
    return failed;
}

/* --- Changing --------------------------------------------------------------------------------- */

static bool is_saved(const struct tracefs *fs, const char *name)
{
    for (unsigned i = 0; i < fs->saved_count; i++)
        if (strcmp(fs->saved[i].name, name) == 0)
            return true;
    return false;
}

/* The value that the options give to a setting without a value of its own. */
static const char *value_of(const char *name, const struct kernel_options *opt, char text[24])
{
    if (strcmp(name, "max_graph_depth") == 0)
        snprintf(text, 24, "%llu", (unsigned long long)opt->depth);
    else if (strcmp(name, "buffer_size_kb") == 0)
        snprintf(text, 24, "%llu", (unsigned long long)opt->buffer / 1024);
    else
        snprintf(text, 24, "%d", opt->awake ? 0 : 1); /* options/sleep-time */
    return text;
}

int tracefs_set_up(struct tracefs *fs, const struct kernel_options *opt, const char **refused)
{
    char text[24];
    int err = 0;

    for (unsigned i = 0; i < SETTINGS && !err; i++) {
        const char *value = settings[i].value;

        *refused = settings[i].name;
        if (!is_saved(fs, settings[i].name) || strcmp(settings[i].name, "current_tracer") == 0)
            continue;
        value = value ? value : value_of(settings[i].name, opt, text);
        err = tracefs_write(fs->at, settings[i].name, value, false);
    }
    return err;
}

int tracefs_choose(struct tracefs *fs, const char *name)
{
    char text[2 * FUNCTION_TEXT];
    int err;

    if (strlen(name) >= FUNCTION_TEXT)
        return -EINVAL;
    snprintf(text, sizeof(text), "%s:mod:rung_core\n", name);
    err = tracefs_write(fs->at, "set_ftrace_filter", text, true);
    if (err != -EINVAL)
        return err;
    snprintf(text, sizeof(text), "%s\n", name);
    return tracefs_write(fs->at, "set_ftrace_filter", text, true);
}

int tracefs_take(struct tracefs *fs)
{
    int err = tracefs_write(fs->at, "current_tracer", "function_graph", false);

    return err ? err : tracefs_write(fs->at, "trace", "", false);
}

int tracefs_start(struct tracefs *fs)
{
    return tracefs_write(fs->at, "tracing_on", "1", false);
}

void tracefs_stop(struct tracefs *fs)
{
    tracefs_write(fs->at, "tracing_on", "0", false);
}
