/* SPDX-License-Identifier: MIT */
/* stacks.c - which samples are the server's: those of the processes that listen at the port or
 * receive there, and of all that they start.  A stack is written as one line, from its root on:
 *
 *   PROCESS;FUNCTION;...;FUNCTION_[k] COUNT      _[k]: of the kernel
 *
 * This is the form that flamegraph.pl, inferno and speedscope read.
 */
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include "stacks.h"
#include "trace.h"

enum { PROCESS_CHAINS = 1024, NAME_TEXT = 32, STACK_TEXT = 16384 };

/* A process and its forks have the same mappings. */
struct shared {
    struct space *space; /* NULL: no sample has needed it, or it could not be opened */
    pid_t first;         /* the process that it was made for */
    unsigned users;
};

struct process {
    struct process *chain;
    uint32_t pid;
    struct shared *shared;
    char name[NAME_TEXT];
};

struct folded {
    uint64_t count;
    char text[];
};

struct stacks {
    const char *path;
    FILE *file;
    struct samples *samples;
    struct ksyms *ksyms;
    struct process *chain[PROCESS_CHAINS];
    void *folded; /* a tree of struct folded */
    uint64_t sampled;
    int err;
};

/* --- Processes -------------------------------------------------------------------------------- */

static struct process **place_of(struct stacks *s, uint32_t pid)
{
    struct process **at = &s->chain[pid % PROCESS_CHAINS];

    while (*at && (*at)->pid != pid)
        at = &(*at)->chain;
    return at;
}

static void leave_shared(struct shared *shared)
{
    if (!shared || --shared->users)
        return;
    space_close(shared->space);
    free(shared);
}

static struct shared *new_shared(uint32_t pid)
{
    struct shared *shared = calloc(1, sizeof(*shared));

    if (shared)
        *shared = (struct shared){.first = (pid_t)pid, .users = 1};
    return shared;
}

/* False: it has ended.  The name of a worker of the kernel's has its processor and its work behind
 * a slash, and both change. */
static bool read_name(uint32_t pid, char name[NAME_TEXT])
{
    char path[64];
    FILE *file;
    bool read;

    snprintf(path, sizeof(path), "/proc/%u/comm", pid);
    file = fopen(path, "re");
    read = file && fgets(name, NAME_TEXT, file);
    if (file)
        fclose(file);
    if (!read)
        return false;
    name[strcspn(name, "\n/")] = 0;
    for (char *c = name; *c; c++)
        if (*c == ';' || *c == ' ')
            *c = '_';
    return true;
}

static struct process *add(struct stacks *s, uint32_t pid)
{
    struct process **at = place_of(s, pid);
    struct process *p = calloc(1, sizeof(*p));

    if (!p) {
        s->err = -ENOMEM;
        return NULL;
    }
    p->pid = pid;
    *at = p;
    return p;
}

static void add_server(struct stacks *s, uint32_t pid)
{
    char name[NAME_TEXT];
    struct process *p = !*place_of(s, pid) && read_name(pid, name) ? add(s, pid) : NULL;

    if (!p)
        return;
    memcpy(p->name, name, sizeof(p->name));
    p->shared = new_shared(pid);
}

/* The process may be a child, and the record of its birth or end may not have been read yet. */
void stacks_process(struct stacks *s, uint32_t pid)
{
    if (*place_of(s, pid))
        return;
    stacks_read(s);
    add_server(s, pid);
}

static void forked(void *arg, uint32_t parent, uint32_t child)
{
    struct stacks *s = arg;
    const struct process *of = *place_of(s, parent);
    struct process *p = of && !*place_of(s, child) ? add(s, child) : NULL;

    if (!p)
        return;
    memcpy(p->name, of->name, sizeof(p->name));
    p->shared = of->shared;
    if (p->shared)
        p->shared->users++;
}

static void executes(void *arg, uint32_t pid)
{
    struct process *p = *place_of(arg, pid);

    if (!p)
        return;
    leave_shared(p->shared);
    (void)read_name(pid, p->name); /* if it has ended, its old name will do */
    p->shared = new_shared(pid);
}

static void ended(void *arg, uint32_t pid)
{
    struct process **at = place_of(arg, pid), *p = *at;

    if (!p)
        return;
    *at = p->chain;
    leave_shared(p->shared);
    free(p);
}

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
    if (!there || *there != f)
        free(f);
}

struct line {
    char text[STACK_TEXT];
    size_t len;
};

/* A library's name may have a version behind it: main@@GLIBC_2.34. */
static void put(struct line *line, const char *name, const char *end)
{
    int n = snprintf(line->text + line->len, STACK_TEXT - line->len, "%s%.*s%s",
                     line->len ? ";" : "", (int)strcspn(name, "@"), name, end);

    line->len += n > 0 && (size_t)n < STACK_TEXT - line->len ? (size_t)n : 0;
    line->text[line->len] = 0; /* no half names */
}

static void put_kernel(const struct stacks *s, struct line *line, const struct sample *sample)
{
    for (unsigned i = sample->kernels; i-- > 0;) {
        const char *name = ksyms_at(s->ksyms, sample->kernel[i]);

        put(line, name ? name : "[kernel]", name ? "_[k]" : "");
    }
}

static unsigned unwind(struct shared *shared, const struct sample *sample,
                       const char *name[UNWIND_FRAMES_MAX])
{
    if (!shared || !sample->in_program)
        return 0;
    if (!shared->space)
        shared->space = space_open(shared->first);
    if (!shared->space)
        shared->space = space_open((pid_t)sample->pid);
    return shared->space ? space_unwind(shared->space, sample, name) : 0;
}

static void sampled(void *arg, const struct sample *sample)
{
    static struct line line;
    const char *name[UNWIND_FRAMES_MAX];
    struct stacks *s = arg;
    const struct process *p = *place_of(s, sample->pid);
    unsigned frames;

    if (!p)
        return;
    frames = unwind(p->shared, sample, name);
    line.len = 0;
    put(&line, p->name, "");
    while (frames)
        put(&line, name[--frames], "");
    put_kernel(s, &line, sample);
    count(s, line.text);
    s->sampled++;
}

/* --- From begin to end ------------------------------------------------------------------------ */

static int refused(int err)
{
    if (err == -EACCES || err == -EPERM)
        say_error("--stacks: not permitted to sample what processors do: root may, or CAP_PERFMON");
    else
        say_error("--stacks: this kernel cannot sample what processors do: %s", say_why(err));
    return err == -EACCES || err == -EPERM || err == -ENOMEM ? EXIT_FAILED : EXIT_MISSING;
}

int stacks_begin(struct stacks **to, const char *path, unsigned port)
{
    struct listen_owners owners;
    struct stacks *s = calloc(1, sizeof(*s));
    int err;

    *to = s;
    if (!s) {
        say_error("--stacks: out of memory");
        return EXIT_FAILED;
    }
    s->path = path;
    s->file = fopen(path, "we");
    if (!s->file) {
        say_error("--stacks %s: cannot write this file: %s", path, say_why(-errno));
        return EXIT_FAILED;
    }
    unsetenv("DEBUGINFOD_URLS"); /* libdw would ask the network for symbols */
    err = samples_begin(&s->samples);
    if (err)
        return refused(err);
    listen_owners(port, &owners);
    for (unsigned i = 0; i < owners.processes; i++)
        add_server(s, owners.process[i]);
    return 0;
}

/* The tracer's programs are functions of the kernel's, too.  Names are read before the first
 * sample: that takes seconds on a slow machine, and the rings would be full. */
void stacks_start(struct stacks *s)
{
    int err = ksyms_begin(&s->ksyms);

    if (err == -ENOMEM)
        s->err = err;
    else if (err)
        say("missing: names of the kernel's functions, because /proc/kallsyms does not tell them: "
            "root may read it, or CAP_SYSLOG");
    samples_start(s->samples);
}

void stacks_read(struct stacks *s)
{
    const struct sample_reader reader = {forked, executes, sampled, ended, s};

    samples_read(s->samples, &reader);
}

static void write_one(const void *node, VISIT which, void *file)
{
    const struct folded *f = *(const struct folded *const *)node;

    if (which == postorder || which == leaf)
        fprintf(file, "%s %llu\n", f->text, (unsigned long long)f->count);
}

static int write_all(struct stacks *s)
{
    int err = s->err;

    if (!s->samples || !s->file)
        return 0; /* it has not begun, which was said */
    stacks_read(s);
    twalk_r(s->folded, write_one, s->file);
    if (fflush(s->file) != 0 || ferror(s->file))
        err = err ? err : -errno;
    say("%llu samples of the server, %llu lost: %s", (unsigned long long)s->sampled,
        (unsigned long long)samples_lost(s->samples), s->path);
    return err;
}

int stacks_end(struct stacks *s)
{
    int err;

    if (!s)
        return 0;
    err = write_all(s);
    if (s->file && fclose(s->file) != 0)
        err = err ? err : -errno;
    if (err)
        say_error("--stacks %s: the file is not whole: %s", s->path, say_why(err));
    for (unsigned i = 0; i < PROCESS_CHAINS; i++)
        while (s->chain[i])
            ended(s, s->chain[i]->pid);
    tdestroy(s->folded, free);
    samples_end(s->samples);
    ksyms_end(s->ksyms);
    free(s);
    return err ? EXIT_FAILED : 0;
}
