/* SPDX-License-Identifier: MIT */
/* stacks.h - the server's call stacks, sampled while it runs and written in the folded form that
 * flame graphs are made of: --stacks.
 *
 *   samples.c   what each processor does, some hundred times a second (perf_event_open())
 *   unwind.c    a sample's frames in a program, by its unwind tables (libdw)
 *   ksyms.c     a sample's frames in the kernel
 *   server.c    which processes are the server, and what they have mapped
 *   stacks.c    equal stacks are counted; the file
 *
 * unwind_absent.c takes the place of unwind.c where the build has no libdw.
 */
#ifndef TRACE_STACKS_H
#define TRACE_STACKS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* --- samples.c -------------------------------------------------------------------------------- */

enum {
    SAMPLES_A_SECOND = 499,     /* on each processor; odd, so as not to fall in step with timers */
    SAMPLE_STACK_BYTES = 32768, /* copied of a program's stack; rung's own needs 22 KiB */
    SAMPLE_FRAMES_MAX = 127,    /* of the kernel: its own limit */
    PROCESS_TEXT = 32
};

/* Registers of a program, in the order in which unwind tables number them. */
#if defined(__x86_64__)
enum { UNWIND_REGISTERS = 17, UNWIND_SP = 7, UNWIND_PC = 16 };
#elif defined(__aarch64__)
enum { UNWIND_REGISTERS = 33, UNWIND_SP = 31, UNWIND_PC = 32 /* is none of them */ };
#endif

/* Pointers are good until the reader returns. */
struct sample {
    uint32_t pid, tid;
    const uint64_t *kernel;     /* addresses, the innermost first */
    unsigned kernels;
    bool in_program;            /* there is a program behind: the next two are known */
    uint64_t reg[UNWIND_REGISTERS];
    const char *stack;          /* the bytes from the stack pointer on */
    size_t stack_len;
};

/* Functions that are called for records, in the order of their times. */
struct sample_reader {
    /* A new process, or a new thread of the process: child and parent are the same then. */
    void (*forked)(void *arg, uint32_t parent, uint32_t child);
    void (*executes)(void *arg, uint32_t pid, const char *name); /* another program, from now on */
    void (*sampled)(void *arg, const struct sample *s);
    void (*ended)(void *arg, uint32_t pid); /* one of the process's threads */
    void *arg;
};

struct samples;

/* 0; -EACCES: CAP_PERFMON is needed; -EPERM: more memory has to be locked than this user may;
 * another -errno: this kernel cannot. */
int samples_begin(struct samples **to);
void samples_start(struct samples *s); /* nothing is sampled before */
void samples_stop(struct samples *s);  /* nothing is sampled after */
void samples_read(struct samples *s, const struct sample_reader *reader); /* the records so far */
uint64_t samples_lost(const struct samples *s); /* records of any process, read too late */
void samples_end(struct samples *s);

/* --- ksyms.c ---------------------------------------------------------------------------------- */

struct ksyms;

/* 0 or -errno; -EACCES: the kernel hides where its functions are. */
int ksyms_begin(struct ksyms **to);
/* The function that the address is in; NULL: none. */
const char *ksyms_at(const struct ksyms *k, uint64_t address);
void ksyms_end(struct ksyms *k);

/* --- unwind.c --------------------------------------------------------------------------------- */

enum { UNWIND_FRAMES_MAX = 128 }; /* a deeper stack loses its root */

/* The mappings of a process. */
struct space;

/* 0 or -errno: -ESRCH: the process has ended; -EACCES: it may not be looked at; -ENOSYS: no
 * libdw. */
int space_open(struct space **to, pid_t pid);
/* Gets the names of the sample's frames, the innermost first; returns how many.  They are valid
 * until the space is closed. */
unsigned space_unwind(struct space *space, const struct sample *s,
                      const char *name[UNWIND_FRAMES_MAX]);
void space_close(struct space *space);

/* --- server.c --------------------------------------------------------------------------------- */

struct server;

/* The processes that listen at the port now; NULL: out of memory.  Call it after samples_start():
 * the records then show the processes that they start. */
struct server *server_begin(unsigned port);
/* A process that has received at the port, as the tracer's programs in the kernel number it. */
bool server_knows(struct server *s, uint32_t pid);
void server_add(struct server *s, uint32_t pid);
/* For a reader of samples. */
void server_forked(struct server *s, uint32_t parent, uint32_t child);
void server_executes(struct server *s, uint32_t pid, const char *name);
void server_ended(struct server *s, uint32_t pid);
/* The name of the sample's process, and its frames; NULL: the process is not the server's. */
const char *server_unwind(struct server *s, const struct sample *sample,
                          const char *name[UNWIND_FRAMES_MAX], unsigned *frames);
/* Why frames of programs are missing, a sentence; NULL: they are not. */
const char *server_lacks(const struct server *s);
void server_end(struct server *s);

/* --- stacks.c --------------------------------------------------------------------------------- */

struct stacks;

/* 0, or an exit code after a message; stacks_end() in any case. */
int stacks_begin(struct stacks **to, const char *path, unsigned port);
void stacks_start(struct stacks *s); /* when the programs of the tracer are in the kernel */
void stacks_received(struct stacks *s, uint32_t pid); /* the process has received at the port */
void stacks_read(struct stacks *s);                   /* every few milliseconds */
void stacks_stop(struct stacks *s);
int stacks_end(struct stacks *s); /* writes the file: 0, or an exit code after a message */

#endif
