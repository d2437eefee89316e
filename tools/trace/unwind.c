/* SPDX-License-Identifier: MIT */
/* unwind.c - a sample's frames in a program, by libdw: the tables that every program of Debian's
 * carries for exceptions (.eh_frame) say where a function's caller is, so that programs need no
 * frame pointers and no information for debuggers.
 */
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "stacks.h"

struct space {
    Dwfl *dwfl;
    pid_t pid;
    time_t looked;            /* at its mappings, in seconds */
    const struct sample *now; /* that is being unwound */
    void *made;               /* names that are not in a program's file: a tree of strings */
    const char **name;
    unsigned frames;
};

static const struct space *asking; /* the space whose files libdw looks for */

/* --- What libdw asks -------------------------------------------------------------------------- */

/* One thread is known at a time: the sample's. */
static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread)
{
    struct space *space = arg;

    (void)dwfl;
    if (*thread)
        return 0;
    *thread = space;
    return (pid_t)space->now->tid;
}

/* Only the stack was copied. */
static bool read_memory(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *word, void *arg)
{
    const struct sample *s = ((struct space *)arg)->now;
    uint64_t from = address - s->reg[UNWIND_SP];

    (void)dwfl;
    if (address < s->reg[UNWIND_SP] || from + sizeof(*word) > s->stack_len)
        return false;
    memcpy(word, s->stack + from, sizeof(*word));
    return true;
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
    const struct sample *s = ((struct space *)arg)->now;
    Dwarf_Word word[UNWIND_REGISTERS];

    for (unsigned i = 0; i < UNWIND_REGISTERS; i++)
        word[i] = s->reg[i];
#if defined(__aarch64__)
    dwfl_thread_state_register_pc(thread, word[UNWIND_PC]);
    return dwfl_thread_state_registers(thread, 0, UNWIND_PC, word);
#else
    return dwfl_thread_state_registers(thread, 0, UNWIND_REGISTERS, word);
#endif
}

static const Dwfl_Thread_Callbacks thread_calls = {
    .next_thread = next_thread,
    .memory_read = read_memory,
    .set_initial_registers = set_registers,
};

/* Opens the file of a mapping, which need not be what its path leads to here: the process may be in
 * a container (so /proc/PID/root), or its program may have been replaced (so /proc/PID/exe). */
static int find_file(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
                     char **path, Elf **elf)
{
    char text[PATH_MAX + 32], link[PATH_MAX];
    ssize_t n;
    int fd = -1;

    snprintf(text, sizeof(text), "/proc/%d/exe", (int)asking->pid);
    n = readlink(text, link, sizeof(link) - 1);
    link[n > 0 ? n : 0] = 0;
    if (n <= 0 || strcmp(link, name) != 0)
        snprintf(text, sizeof(text), "/proc/%d/root%s", (int)asking->pid, name);
    if (name[0] == '/')
        fd = open(text, O_RDONLY | O_CLOEXEC);
    if (fd < 0) /* the process has ended, or it is the part that the kernel maps */
        return dwfl_linux_proc_find_elf(module, data, name, base, path, elf);
    *path = strdup(name);
    return fd;
}

static char *debuginfo_path; /* libdw's default */
static const Dwfl_Callbacks file_calls = {
    .find_elf = find_file,
    .find_debuginfo = dwfl_standard_find_debuginfo,
    .debuginfo_path = &debuginfo_path,
};

/* --- Spaces ----------------------------------------------------------------------------------- */

/* Finds the process's mappings; those that were found before are kept.  0 or an error of libdw. */
static int look(struct space *space)
{
    int err;

    asking = space;
    space->looked = time(NULL);
    dwfl_report_begin_add(space->dwfl);
    err = dwfl_linux_proc_report(space->dwfl, space->pid);
    return dwfl_report_end(space->dwfl, NULL, NULL) == 0 ? err : -1;
}

int space_open(struct space **to, pid_t pid)
{
    struct space *space = calloc(1, sizeof(*space));
    int err;

    *to = NULL;
    if (!space)
        return -ENOMEM;
    space->pid = pid;
    space->dwfl = dwfl_begin(&file_calls);
    err = space->dwfl ? look(space) : -1;
    if (!err && dwfl_attach_state(space->dwfl, NULL, pid, &thread_calls, space)) {
        *to = space;
        return 0;
    }
    space_close(space);
    return err > 0 ? err == ENOENT ? -ESRCH : -err : -ENOEXEC; /* libdw's errors are negative */
}

void space_close(struct space *space)
{
    if (!space)
        return;
    if (space->dwfl)
        dwfl_end(space->dwfl);
    tdestroy(space->made, free);
    free(space);
}

/* --- Frames ----------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* "[libc.so.6]": of a file that does not name the function. */
static const char *made_of(struct space *space, const char *file)
{
    const char *slash = file ? strrchr(file, '/') : NULL;
    const char *base = !file || !*file ? "unknown" : slash ? slash + 1 : file;
    char text[128], *made;
    void *there;

    snprintf(text, sizeof(text), "[%.*s]", (int)strcspn(base, " ;"), base); /* "x (deleted)" */
    there = tfind(text, &space->made, compare);
    made = there ? NULL : strdup(text);
    there = made ? tsearch(made, &space->made, compare) : there;
    return there ? *(const char *const *)there : "[unknown]";
}

static const char *name_at(struct space *space, uint64_t address)
{
    Dwfl_Module *module = dwfl_addrmodule(space->dwfl, address);
    const char *name;

    if (!module && time(NULL) != space->looked && look(space) == 0) /* a library was loaded */
        module = dwfl_addrmodule(space->dwfl, address);
    if (!module)
        return made_of(space, NULL);
    name = dwfl_module_addrname(module, address);
    if (name)
        return name;
    return made_of(space, dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
}

static int see_frame(Dwfl_Frame *frame, void *arg)
{
    struct space *space = arg;
    bool active; /* the address is that of the next instruction, not where a call returns to */
    Dwarf_Addr pc;

    if (!dwfl_frame_pc(frame, &pc, &active))
        return DWARF_CB_ABORT;
    space->name[space->frames++] = name_at(space, active ? pc : pc - 1);
    return space->frames < UNWIND_FRAMES_MAX ? DWARF_CB_OK : DWARF_CB_ABORT;
}

unsigned space_unwind(struct space *space, const struct sample *s,
                      const char *name[UNWIND_FRAMES_MAX])
{
    asking = space;
    space->now = s;
    space->name = name;
    space->frames = 0;
    dwfl_getthread_frames(space->dwfl, (pid_t)s->tid, see_frame, space);
    return space->frames;
}
