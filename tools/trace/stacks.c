/* SPDX-License-Identifier: MIT */
/* stacks.c - samples of the server as lines of text, equal ones counted:
 *
 *   PROCESS;FUNCTION;...;FUNCTION_[k] COUNT
 *
 * from the root on; _[k]: of the kernel.  flamegraph.pl, inferno and speedscope read this form.
 */
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <unistd.h>
#include "stacks.h"
#include "trace.h"

enum { STACK_TEXT = 16384, STACKS_MAX = 100000 /* different ones; others are counted together */ };

struct folded {
    uint64_t count;
    char text[];
};

struct stacks {
    const char *path;
    unsigned port;
    FILE *file;
    struct samples *samples;
    struct ksyms *ksyms;
    struct server *server; /* NULL: it has not been started */
    bool stopped;
    void *folded; /* a tree of struct folded */
    unsigned kinds;
    uint64_t sampled;
    int err;
};

/* --- Folding ---------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct folded *)a)->text, ((const struct folded *)b)->text);
}

static void count(struct stacks *s, const char *text)
{
    size_t size = strlen(text) + 1;
    struct folded *f = malloc(sizeof(*f) + size), **there;

    if (!f) {
        s->err = -ENOMEM;
        return;
    }
    f->count = 0;
    memcpy(f->text, text, size);
    there = tsearch(f, &s->folded, compare);
    if (there)
        (*there)->count++;
    else
        s->err = -ENOMEM;
    if (there && *there == f)
        s->kinds++;
    else
        free(f);
}

struct line {
    char text[STACK_TEXT];
    size_t len;
    bool full; /* a name did not fit: the functions that it calls are left out, too */
};

static void put(struct line *line, const char *name, size_t len, const char *end)
{
    size_t room = STACK_TEXT - line->len;
    int n = snprintf(line->text + line->len, room, "%s%.*s%s", line->len ? ";" : "", (int)len, name,
                     end);

    line->full = line->full || n < 0 || (size_t)n >= room;
    line->len += line->full ? 0 : (size_t)n;
    line->text[line->len] = 0;
}

/* The innermost address is that of an instruction, the others are where calls return to. */
static void put_kernel(const struct stacks *s, struct line *line, const struct sample *sample)
{
    for (unsigned i = sample->kernels; i-- > 0 && !line->full;) {
        const char *name = ksyms_at(s->ksyms, sample->kernel[i] - (i > 0));

        if (name)
            put(line, name, strlen(name), "_[k]");
        else
            put(line, "[kernel]", strlen("[kernel]"), "");
    }
}

static void sampled(void *arg, const struct sample *sample)
{
    static struct line line;
    struct stacks *s = arg;
    const char *name[UNWIND_FRAMES_MAX], *process;
    unsigned frames = 0;

    process = server_unwind(s->server, sample, name, &frames);
    if (!process)
        return;
    line.len = 0;
    line.full = false;
    put(&line, process, strlen(process), "");
    if (s->kinds >= STACKS_MAX)
        put(&line, "[others]", strlen("[others]"), "");
    else {
        for (; frames && !line.full; frames--) /* some end with a version: main@@GLIBC_2.34 */
            put(&line, name[frames - 1], strcspn(name[frames - 1], "@"), "");
        put_kernel(s, &line, sample);
    }
    count(s, line.text);
    s->sampled++;
}

/* --- While it runs ---------------------------------------------------------------------------- */

static void forked(void *arg, uint32_t parent, uint32_t child)
{
    server_forked(((struct stacks *)arg)->server, parent, child);
}

static void executes(void *arg, uint32_t pid, const char *name)
{
    server_executes(((struct stacks *)arg)->server, pid, name);
}

static void ended(void *arg, uint32_t pid)
{
    server_ended(((struct stacks *)arg)->server, pid);
}

void stacks_read(struct stacks *s)
{
    const struct sample_reader reader = {forked, executes, sampled, ended, s};

    if (s->server && !s->stopped)
        samples_read(s->samples, &reader);
}

/* The process may be a child: the records of its birth and its end are read first. */
void stacks_received(struct stacks *s, uint32_t pid)
{
    if (!s->server || s->stopped || server_knows(s->server, pid))
        return;
    stacks_read(s);
    server_add(s->server, pid);
}

/* The tracer's programs are functions of the kernel, too.  Names are read before the first sample:
 * reading takes seconds on a slow machine, and the rings would be full. */
void stacks_start(struct stacks *s)
{
    int err = ksyms_begin(&s->ksyms);

    if (err == -EACCES)
        say("missing: names of the kernel's functions, because /proc/kallsyms hides them: root "
            "may read them, or CAP_SYSLOG");
    else if (err)
        say("missing: names of the kernel's functions: /proc/kallsyms: %s", say_why(err));
    samples_start(s->samples);
    s->server = server_begin(s->port);
    if (!s->server)
        s->err = -ENOMEM;
}

void stacks_stop(struct stacks *s)
{
    if (!s || !s->server || s->stopped)
        return;
    samples_stop(s->samples);
    stacks_read(s);
    s->stopped = true;
}

/* --- From begin to end ------------------------------------------------------------------------ */

static int refused(int err)
{
    if (err == -EACCES)
        say_error("--stacks: not permitted to sample what processors do: root may, or CAP_PERFMON");
    else if (err == -EPERM)
        say_error("--stacks: not permitted to lock enough memory: root may, or CAP_IPC_LOCK; or "
                  "raise ulimit -l");
    else
        say_error("--stacks: this kernel cannot sample what processors do %u times a second: %s",
                  SAMPLES_A_SECOND, say_why(err));
    return err == -EACCES || err == -EPERM || err == -ENOMEM ? EXIT_FAILED : EXIT_MISSING;
}

/* The file keeps its old content until there is something to write. */
static FILE *open_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

    if (fd >= 0 && !file)
        close(fd);
    return file;
}

int stacks_begin(struct stacks **to, const char *path, unsigned port)
{
    struct stacks *s = calloc(1, sizeof(*s));
    int err;

    *to = s;
    if (!s) {
        say_error("--stacks: out of memory");
        return EXIT_FAILED;
    }
    s->path = path;
    s->port = port;
    s->file = open_file(path);
    if (!s->file) {
        say_error("--stacks %s: cannot write this file: %s", path, say_why(-errno));
        return EXIT_FAILED;
    }
    unsetenv("DEBUGINFOD_URLS"); /* libdw would ask the network for symbols */
    err = samples_begin(&s->samples);
    return err ? refused(err) : 0;
}

static void write_one(const void *node, VISIT which, void *file)
{
    const struct folded *f = *(const struct folded *const *)node;

    if (which == postorder || which == leaf)
        fprintf(file, "%s %llu\n", f->text, (unsigned long long)f->count);
}

static int write_all(struct stacks *s)
{
    const char *lacks = server_lacks(s->server);
    int err = s->err;

    if (ftruncate(fileno(s->file), 0) != 0 && errno != EINVAL) /* EINVAL: not a regular file */
        err = err ? err : -errno;
    twalk_r(s->folded, write_one, s->file);
    if (fflush(s->file) != 0 || ferror(s->file))
        err = err ? err : -errno;
    if (lacks)
        say("missing: %s", lacks);
    say("%llu samples of the server in %s; %llu records were lost, the server's or others'",
        (unsigned long long)s->sampled, s->path, (unsigned long long)samples_lost(s->samples));
    return err;
}

int stacks_end(struct stacks *s)
{
    int err;

    if (!s)
        return 0;
    stacks_stop(s);
    err = s->server ? write_all(s) : s->err;
    if (s->file && fclose(s->file) != 0)
        err = err ? err : -errno;
    if (err)
        say_error("--stacks %s: the file is not whole: %s", s->path, say_why(err));
    tdestroy(s->folded, free);
    server_end(s->server);
    samples_end(s->samples);
    ksyms_end(s->ksyms);
    free(s);
    return err ? EXIT_FAILED : 0;
}
