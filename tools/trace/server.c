/* SPDX-License-Identifier: MIT */
/* server.c - which processes are the server: those that listen at the port or receive there, and
 * all that they start.  Forks have the same mappings, which are read once for all of them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include "stacks.h"
#include "trace.h"

enum {
    PROCESS_CHAINS = 1024,
    GONE = 256,      /* processes that had ended when they were looked for */
    MAPPED_TEXT = 160,
    FIRST_PID_NAMESPACE = 0xeffffffc /* PROC_PID_INIT_INO of linux/proc_ns.h */
};

struct shared {
    struct shared *next;
    struct space *space; /* NULL: no sample has needed it, or it could not be opened */
    pid_t first;         /* the process that it was made for */
    time_t tried;        /* to open it, in seconds */
    unsigned users;
    char mapped[MAPPED_TEXT]; /* first line of its mappings: where its program is */
};

struct process {
    struct process *chain;
    uint32_t pid;
    unsigned threads;
    struct shared *shared; /* NULL: out of memory */
    char name[PROCESS_TEXT];
};

struct server {
    struct process *chain[PROCESS_CHAINS];
    struct shared *shared;
    uint32_t gone[GONE];
    bool other_numbers; /* the kernel numbers processes differently from /proc here */
    int err;            /* why a space could not be opened */
};

static struct process **place_of(struct server *s, uint32_t pid)
{
    struct process **at = &s->chain[pid % PROCESS_CHAINS];

    while (*at && (*at)->pid != pid)
        at = &(*at)->chain;
    return at;
}

/* --- What processes have mapped --------------------------------------------------------------- */

static void leave(struct server *s, struct shared *shared)
{
    struct shared **at = &s->shared;

    if (!shared || --shared->users)
        return;
    while (*at != shared)
        at = &(*at)->next;
    *at = shared->next;
    space_close(shared->space);
    free(shared);
}

/* Reads the first line of a file of a process; false: the process has ended, or may not be looked
 * at. */
static bool read_line(uint32_t pid, const char *what, char *text, size_t size)
{
    char path[64];
    FILE *file;
    bool read;

    snprintf(path, sizeof(path), "/proc/%u/%s", pid, what);
    file = fopen(path, "re");
    read = file && fgets(text, (int)size, file);
    if (file)
        fclose(file);
    if (read)
        text[strcspn(text, "\n")] = 0;
    return read;
}

/* Executing a program draws new addresses: processes whose program is at the same place are forks
 * of each other. */
static struct shared *join(struct server *s, uint32_t pid)
{
    char mapped[MAPPED_TEXT] = "";
    struct shared *shared = NULL;

    if (read_line(pid, "maps", mapped, sizeof(mapped)))
        for (shared = s->shared; shared && strcmp(shared->mapped, mapped) != 0;)
            shared = shared->next;
    if (!shared) {
        shared = calloc(1, sizeof(*shared));
        if (!shared)
            return NULL;
        *shared = (struct shared){.next = s->shared, .first = (pid_t)pid};
        memcpy(shared->mapped, mapped, sizeof(mapped));
        s->shared = shared;
    }
    shared->users++;
    return shared;
}

/* Opening is tried again once a second: the first process may have ended, and another be alive. */
static struct space *space_of(struct server *s, struct shared *shared, pid_t pid)
{
    time_t now = time(NULL);
    int err;

    if (!shared || shared->space || shared->tried == now)
        return shared ? shared->space : NULL;
    shared->tried = now;
    err = space_open(&shared->space, shared->first);
    if (err)
        err = space_open(&shared->space, pid);
    if (err && err != -ESRCH)
        s->err = err;
    return shared->space;
}

/* --- Processes -------------------------------------------------------------------------------- */

/* The name of a kernel worker has its processor and its work behind a slash, and both change.
 * Blanks and semicolons would be taken for the end of a name. */
static void name_it(struct process *p, const char *name)
{
    snprintf(p->name, sizeof(p->name), "%.*s", (int)strcspn(name, "/"), name);
    for (char *c = p->name; *c; c++)
        if (*c == ';' || *c == ' ')
            *c = '_';
}

static struct process *add(struct server *s, uint32_t pid, const char *name)
{
    struct process **at = place_of(s, pid);
    struct process *p = calloc(1, sizeof(*p));

    if (!p)
        return NULL;
    p->pid = pid;
    p->threads = 1;
    name_it(p, name);
    *at = p;
    return p;
}

static void drop(struct server *s, struct process **at)
{
    struct process *p = *at;

    *at = p->chain;
    leave(s, p->shared);
    free(p);
}

bool server_knows(struct server *s, uint32_t pid)
{
    return *place_of(s, pid) || s->other_numbers || s->gone[pid % GONE] == pid;
}

void server_add(struct server *s, uint32_t pid)
{
    char name[PROCESS_TEXT], path[64];
    struct process *p;
    struct stat tasks;

    if (server_knows(s, pid))
        return;
    snprintf(path, sizeof(path), "/proc/%u/task", pid);
    if (!read_line(pid, "comm", name, sizeof(name)) || stat(path, &tasks) != 0) {
        s->gone[pid % GONE] = pid;
        return;
    }
    p = add(s, pid, name);
    if (!p)
        return;
    p->threads = tasks.st_nlink > 2 ? (unsigned)tasks.st_nlink - 2 : 1; /* a folder for each */
    p->shared = join(s, pid);
}

/* A child's number that is still in use belonged to a process whose end was not reported. */
void server_forked(struct server *s, uint32_t parent, uint32_t child)
{
    const struct process *of = *place_of(s, parent);
    struct process *p, **at = place_of(s, child);

    if (parent == child) {
        if (*at)
            (*at)->threads++;
        return;
    }
    if (*at)
        drop(s, at);
    p = of ? add(s, child, of->name) : NULL;
    if (!p)
        return;
    p->shared = of->shared;
    if (p->shared)
        p->shared->users++;
}

void server_executes(struct server *s, uint32_t pid, const char *name)
{
    struct process *p = *place_of(s, pid);

    if (!p)
        return;
    leave(s, p->shared);
    name_it(p, name);
    p->shared = join(s, pid);
}

void server_ended(struct server *s, uint32_t pid)
{
    struct process **at = place_of(s, pid);

    if (*at && --(*at)->threads == 0)
        drop(s, at);
}

/* --- Samples ---------------------------------------------------------------------------------- */

const char *server_unwind(struct server *s, const struct sample *sample,
                          const char *name[UNWIND_FRAMES_MAX], unsigned *frames)
{
    struct process *p = *place_of(s, sample->pid);
    struct space *space;

    if (!p)
        return NULL;
    space = sample->in_program ? space_of(s, p->shared, (pid_t)sample->pid) : NULL;
    *frames = space ? space_unwind(space, sample, name) : 0;
    return p->name;
}

const char *server_lacks(const struct server *s)
{
    if (s->err == -ENOSYS)
        return "functions of programs, because this rung was built without libdw: apt-get install "
               "libdw-dev, then make all";
    if (s->err == -EACCES || s->err == -EPERM)
        return "functions of programs, because the server's mappings may not be read: root may, or "
               "CAP_SYS_PTRACE with CAP_DAC_READ_SEARCH";
    return s->err ? "functions of programs that could not be read" : NULL;
}

/* --- From begin to end ------------------------------------------------------------------------ */

struct server *server_begin(unsigned port)
{
    struct server *s = calloc(1, sizeof(*s));
    struct listen_owners *owners = calloc(1, sizeof(*owners));
    struct stat st;

    s = s && owners ? s : (free(s), NULL);
    if (s) {
        listen_owners(port, owners);
        for (unsigned i = 0; i < owners->processes; i++)
            server_add(s, owners->process[i]);
        /* The numbers above are those of /proc; the tracer's programs report the kernel's. */
        s->other_numbers = stat("/proc/self/ns/pid", &st) != 0 || st.st_ino != FIRST_PID_NAMESPACE;
    }
    free(owners);
    return s;
}

void server_end(struct server *s)
{
    for (unsigned i = 0; s && i < PROCESS_CHAINS; i++)
        while (s->chain[i])
            drop(s, &s->chain[i]);
    free(s);
}
