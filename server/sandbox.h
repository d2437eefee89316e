/* SPDX-License-Identifier: MIT */
/* sandbox.h - what the server may still do once it has started.
 *
 *   sandbox.c         the order: capabilities, files, calls
 *   sandbox_files.c   Landlock: the served folder is read, the log is written, nothing else
 *   sandbox_calls.c   seccomp: the calls of sandbox_calls.def, nothing else
 */
#ifndef SERVER_SANDBOX_H
#define SERVER_SANDBOX_H
#include <stdbool.h>
#include "../base/option.h"

enum sandbox_choice { SANDBOX_ON, SANDBOX_OFF, SANDBOX_STRICT }; /* --sandbox */

/* Whose calls are allowed in addition to those that every engine makes. */
enum sandbox_need {
    NEED_ALWAYS = 0,
    NEED_RING = 1,    /* io_uring */
    NEED_FORK = 2,    /* new processes */
    NEED_PIN = 4,     /* --pin */
    NEED_STORE = 8,   /* --upload */
};

struct sandbox_root {
    int fd;      /* of a folder that is served */
    bool listed; /* folders may be read, too, and not only files */
    int stored;  /* of a folder below it that takes new files; -1: none */
};
struct tls_pairs;
struct sandbox_files {
    const struct sandbox_root *root;
    unsigned roots;
    const char *const *log; /* files that are open already, and that may be opened again */
    unsigned logs;
    const struct tls_pairs *certificates; /* which may be read again; NULL: none */
};

/* Landlock's version here, from 1 on, or -errno. */
int  sandbox_files_version(void);
/* 0 or -errno.  For this thread, and for the threads and processes that it starts from now on. */
int  sandbox_files_enter(const struct sandbox_files *files);

/* Whether this kernel and machine have filters of calls: 0 or -errno. */
int  sandbox_calls_known(void);
/* strict: a call that is not allowed ends the process; otherwise it fails with EPERM. */
int  sandbox_calls_enter(unsigned needs, bool strict);

#endif
