/* SPDX-License-Identifier: MIT */
/* kernel.h - what the files of rung trace kernel share: time inside of the functions of a module of
 * rung's, by the kernel's function_graph tracer.
 *
 *   tracefs.c   the tracer's files and settings    guard.c          restores them, whatever happens
 *   module.c    which module, how many answers     graph.h          lines become calls
 *   kernel.c    options, load, loop                kernel_report.c  what is printed
 */
#ifndef TOOLS_TRACE_KERNEL_H
#define TOOLS_TRACE_KERNEL_H
#include <sys/types.h>
#include "../../base/option.h"
#include "../../base/say.h"
#include "../../core/http.h"
#include "graph.h"

struct kernel_options {
#define X(kind, field, ...) OPTION_FIELD_##kind field;
#include "kernel.def"
#undef X
};

const struct option_table *kernel_table(void);
/* rung trace kernel: argv[0] is that word.  An exit code. */
int kernel_main(char **argv);
/* The functions of a model, with blanks between; NULL: there is no such model. */
const char *kernel_hot(const char *model);
void kernel_list(void); /* print them all */

/* --- tracefs.c -------------------------------------------------------------------------------- */

/* A file of the tracer, and its saved text. */
struct setting {
    char *name, *text;
};

struct tracefs {
    int at; /* the folder */
    struct setting *saved;
    unsigned saved_count;
};

/* Finds the tracer, mounted or not, and checks that no other process uses it: 0, or an exit code
 * after a message. */
int tracefs_open(struct tracefs *fs);
void tracefs_close(struct tracefs *fs);
/* Reads all of a file and adds a NUL; NULL: errno.  The caller frees it. */
char *tracefs_read(int at, const char *name);
/* 0 or -errno.  append: keep what is there. */
int tracefs_write(int at, const char *name, const char *text, bool append);
/* Saves all settings that tracefs_set_up() and tracefs_choose() change.  0 or -errno. */
int tracefs_save(struct tracefs *fs);
/* Returns how many settings could not be restored. */
unsigned tracefs_restore(struct tracefs *fs);
/* Sets up calls as graph.c reads them, of no function yet, and not yet started.  0 or -errno, and
 * the setting that was refused. */
int tracefs_set_up(struct tracefs *fs, const struct kernel_options *opt, const char **refused);
/* Adds a function, or a pattern.  -EINVAL: there is no such function. */
int tracefs_choose(struct tracefs *fs, const char *name);
/* tracefs_take() has function_graph trace them, which fails while there is a reader;
 * tracefs_start() then lets it begin. */
int tracefs_take(struct tracefs *fs);
int tracefs_start(struct tracefs *fs);
/* Stops the recording of calls.  Those that are there can still be read. */
void tracefs_stop(struct tracefs *fs);

/* --- guard.c ---------------------------------------------------------------------------------- */

struct guard {
    pid_t pid;
    int alive; /* the guard has the other end, and ends when this one closes */
};

/* Starts a process that restores the settings as soon as this one has ended.  0 or -errno. */
int guard_begin(struct guard *g, struct tracefs *fs);
/* The guard restores now; if it was killed, this process does.  0, or an exit code after a
 * message. */
int guard_end(struct guard *g, struct tracefs *fs);

/* --- module.c --------------------------------------------------------------------------------- */

enum { MODULE_TEXT = 64, MODEL_TEXT = 16 };

struct module {
    char name[MODULE_TEXT], model[MODEL_TEXT];
};

/* Finds the module of that name, or the only one; 0, or an exit code after a message. */
int module_find(struct module *m, const char *name);
/* The number of answers that the module has begun; false: the counters cannot be read. */
bool module_answers(const struct module *m, uint64_t *n);

/* --- kernel_report.c -------------------------------------------------------------------------- */

#define THREAD_START "kblock_thread_start" /* it contains kthread_run() */

struct kernel_report {
    const struct kernel_options *opt;
    const struct module *module;
    const struct graph *graph;
    bool answers_known;
    uint64_t answers;
    double seconds;
    char *const *absent; /* functions that are not there */
    unsigned absent_count;
};

void kernel_report(const struct kernel_report *r);
void kernel_report_json(const struct kernel_report *r);

#endif
