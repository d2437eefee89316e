/* SPDX-License-Identifier: MIT */
/* choose.c - whether an engine can run here, and which one serves: the one that was asked for, or
 * the best that can.
 *
 * An engine that needs more than any kernel has is probed in a child, for two reasons.  The child
 * becomes the user that is to serve, because io_uring may be open to root and closed to that user.
 * And a filter of system calls may kill a process that asks for a ring: then only the child dies.
 *
 * --engine auto tries the engines below in their order, and takes the first that can run here and
 * fits the other options.
 */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "serve.h"

/* --- What can run here ------------------------------------------------------------------------ */

static const char *probed(const struct engine *e, unsigned workers, const char *user)
{
    const struct rlimit none = {0};
    const struct passwd *entry = user ? getpwnam(user) : NULL;

    (void)setrlimit(RLIMIT_CORE, &none); /* if it is killed, a core file is of no use */
    if (entry)
        (void)user_become(entry); /* if that is not permitted, it is reported later */
    return e->probe(workers);
}

/* The child has our constants, so an address says which of them.  A pipe carries it, not the exit
 * code: where SIGCHLD is ignored there is no code. */
const char *engine_refusal(const struct engine *e, const struct serve_options *opt)
{
    const char *why = "a process that asks the kernel for it is killed, as by a filter of system "
                      "calls";
    unsigned workers = opt ? arrange_workers(e, opt) : 1;
    int fd[2];
    pid_t pid;

    if (!e->probe)
        return NULL;
    if (pipe(fd) < 0)
        return e->probe(workers);
    (void)fflush(stdout); /* a sanitizer would write it in the child, too; main() asks ferror() */
    pid = fork();
    if (pid == 0) {
        why = probed(e, workers, opt ? opt->user : NULL);
        _exit(write(fd[1], &why, sizeof(why)) == sizeof(why) ? EXIT_DONE : EXIT_FAILED);
    }
    close(fd[1]);
    if (pid < 0)
        why = e->probe(workers);
    else if (read(fd[0], &why, sizeof(why)) < 0)
        why = "its probe cannot be read";
    close(fd[0]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return why;
}

/* --- Which one serves ------------------------------------------------------------------------- */

/* Best first: why the engine is taken; and why another one is, if it cannot run here or the options
 * are not for it.  docs/decisions/011-what-auto-chooses.md has the measurements. */
static const struct {
    const char *name, *why, *cannot, *unfit;
} preferred[] = {
    {"uring", "the least work for a request", "uring cannot run here, see rung engines",
     "the other options are not for uring"},
    {"epoll", NULL, NULL, NULL},
    {"naive", "it runs anywhere, one connection at a time", NULL, NULL},
};

/* opt may be NULL: no other options. */
static bool fits(const struct engine *e, const struct serve_options *opt)
{
    return !opt || !arrange_refusal(e, opt);
}

const struct engine *engine_auto(const struct serve_options *opt, const char **why)
{
    const struct engine *able = NULL;
    const char *passed = NULL;

    for (unsigned i = 0; i < sizeof(preferred) / sizeof(preferred[0]); i++) {
        const struct engine *e = engine_find(preferred[i].name);
        bool fit = e && fits(e, opt);
        bool can = e && !engine_refusal(e, opt);

        if (fit && can) {
            *why = preferred[i].why ? preferred[i].why : passed;
            return e;
        }
        if (!passed)
            passed = can ? preferred[i].unfit : preferred[i].cannot;
        if (can && !able)
            able = e;
    }
    *why = passed;
    return able; /* none fits: arrange() says why this one does not */
}

const struct engine *engine_choose(const struct serve_options *opt, const char **why)
{
    const struct engine *e;

    if (!opt->engine) {
        e = engine_auto(opt, why);
        if (!e)
            say_error("no engine can run here; rung engines says why");
        return e;
    }
    e = engine_list[opt->engine - 1]; /* choice 0 is auto */
    *why = engine_refusal(e, opt);
    if (!*why) {
        *why = "as asked";
        return e;
    }
    say_error("engine %s cannot run here: %s; rung engines lists those that can", e->name, *why);
    return NULL;
}
