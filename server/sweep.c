/* SPDX-License-Identifier: MIT */
/* sweep.c - removes the names of Unix sockets when a server that became another user has ended.
 *
 * A socket is usually in a folder that only root may change, such as /run, and --user gives up that
 * right for good.  So a process stays behind that may remove names, and nothing else.  It waits for
 * the end of a pipe that every process of the server holds, and notices however they end, even by
 * SIGKILL.  It takes no signals and no input.  It removes a name only if the name still means the
 * socket that was bound: a later server that has taken the name keeps it.  The process is not a
 * child of the server, so that no engine waits for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "serve.h"

enum { SWEEP_MS = 2000 /* how long the server waits for that process at the end */ };

/* A socket's name, in a folder that is held open: later changes of the path above it do not
 * matter. */
struct name {
    int folder;
    char base[sizeof(((struct sockaddr_un *)NULL)->sun_path) + 1];
    struct stat st;
};

struct sweep {
    int alive; /* ours and all our children's: its end starts the work */
    int done;  /* ends when that is over */
};

static int name_set(struct name *n, const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[sizeof(n->base)] = ".";

    if (slash) {
        size_t len = slash == path ? 1 : (size_t)(slash - path);

        memcpy(folder, path, len);
        folder[len] = '\0';
    }
    memcpy(n->base, slash ? slash + 1 : path, strlen(slash ? slash + 1 : path) + 1);
    n->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (n->folder < 0)
        return -errno;
    return fstatat(n->folder, n->base, &n->st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* A new socket may get the same inode number, but not the same time of last change. */
static void remove_name(const struct name *n)
{
    struct stat st;

    if (fstatat(n->folder, n->base, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode) &&
        st.st_dev == n->st.st_dev && st.st_ino == n->st.st_ino &&
        st.st_ctim.tv_sec == n->st.st_ctim.tv_sec && st.st_ctim.tv_nsec == n->st.st_ctim.tv_nsec)
        (void)unlinkat(n->folder, n->base, 0);
}

/* Close every other descriptor, above all the listeners: their queues would go on taking
 * clients. */
static void close_others(const int *keep, unsigned count)
{
    for (int low = 0;;) {
        int next = -1;

        for (unsigned i = 0; i < count; i++)
            if (keep[i] >= low && (next < 0 || keep[i] < next))
                next = keep[i];
        if (next < 0) {
            syscall(SYS_close_range, low, ~0u, 0);
            return;
        }
        if (next > low)
            syscall(SYS_close_range, low, next - 1, 0);
        low = next + 1;
    }
}

/* Keep the right to remove names from any folder, a sticky one too; give up all others. */
static void drop_rights(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};

    data[0].effective = 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER;
    data[0].permitted = data[0].effective;
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)syscall(SYS_capset, &head, data);
}

static void sweep_main(const struct name *names, unsigned count, int alive, int done)
{
    int keep[LISTENERS_MAX + 4];
    sigset_t all;
    bool removes = true;
    ssize_t n;
    char byte;

    keep[0] = alive;
    keep[1] = done;
    for (unsigned i = 0; i < count; i++)
        keep[2 + i] = names[i].folder;
    close_others(keep, 2 + count);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    setsid();
    drop_rights();
    (void)prctl(PR_SET_NAME, "rung-sweep", 0, 0, 0);
    do {
        n = read(alive, &byte, 1);
        removes = n == 1 ? byte != 0 : removes; /* sweep_removes() */
    } while (n == 1 || (n < 0 && errno == EINTR));
    for (unsigned i = 0; i < count && removes; i++)
        remove_name(&names[i]);
    _exit(0);
}

/* Start the process as a child's child. */
static int start(const struct name *names, unsigned count, const int alive[2], const int done[2])
{
    pid_t pid = fork();
    int status;

    if (pid < 0)
        return -errno;
    if (pid > 0) {
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            continue;
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EAGAIN;
    }
    pid = fork();
    if (pid == 0) {
        close(alive[1]);
        close(done[0]);
        sweep_main(names, count, alive[0], done[1]);
    }
    _exit(pid < 0);
}

static int begin(const struct name *names, unsigned count, struct sweep *s)
{
    int alive[2], done[2], err;

    if (pipe2(alive, O_CLOEXEC) < 0)
        return -errno;
    if (pipe2(done, O_CLOEXEC) < 0) {
        err = -errno;
        close(alive[0]);
        close(alive[1]);
        return err;
    }
    err = start(names, count, alive, done);
    close(alive[0]);
    close(done[1]);
    s->alive = alive[1];
    s->done = done[0];
    return err;
}

void sweep_removes(struct sweep *s, bool removes)
{
    if (s && write(s->alive, removes ? "\1" : "", 1) < 0)
        say_error("cannot say whether names of Unix sockets are removed: %s", say_why(errno));
}

int sweep_begin(struct sweep **sweep, const struct server *srv)
{
    struct name names[LISTENERS_MAX + 2];
    int fd[LISTENERS_MAX + 2], err = 0;
    unsigned count = 0, own = listen_own(srv, fd);

    for (unsigned i = 0; i < own && !err; i++) {
        struct sockaddr_un un;
        socklen_t len = sizeof(un);

        memset(&un, 0, sizeof(un));
        if (getsockname(fd[i], (struct sockaddr *)&un, &len) == 0 &&
            un.sun_family == AF_UNIX)
            err = name_set(&names[count++], un.sun_path);
    }
    *sweep = count && !err ? calloc(1, sizeof(**sweep)) : NULL;
    if (count && !err)
        err = *sweep ? begin(names, count, *sweep) : -ENOMEM;
    if (*sweep && !err && srv->handed)
        sweep_removes(*sweep, false);
    for (unsigned i = 0; i < count; i++)
        if (names[i].folder >= 0)
            close(names[i].folder);
    return err;
}

void sweep_end(struct sweep *s)
{
    struct pollfd p;

    if (!s)
        return;
    close(s->alive);
    p = (struct pollfd){.fd = s->done, .events = POLLIN};
    (void)poll(&p, 1, SWEEP_MS);
    close(s->done);
    free(s);
}
