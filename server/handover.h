/* SPDX-License-Identifier: MIT */
/* handover.h - a server gives its listeners to the next one: an upgrade that loses no request.
 *
 *   handover.c       the first server: answers the next one, and stops when it serves
 *   handover_take.c  the next server: takes the listeners that its own options ask for
 *
 * The next server is started with the same --handover.  It connects to the Unix socket of that
 * name, and is sent that socket and all listeners (SCM_RIGHTS).  When all its workers wait for
 * clients it says so, and only then does the first server stop accepting, and finish what it has.
 * Until then both accept.  If the next server fails before that, nothing has changed.
 *
 * An administrator or a service manager starts the next server: the first one cannot, because its
 * sandbox runs no program.
 * The socket's permissions let only its owner connect, and each of the two asks the kernel for the
 * other's user: it is root or the same.  All of it is done where signals are waited for; workers
 * and children have none of these descriptors.
 */
#ifndef SERVER_HANDOVER_H
#define SERVER_HANDOVER_H
#include "../base/net.h"
#include "serve.h"

struct handover;
enum handover_kind { HANDOVER_SERVED, HANDOVER_METRICS };

/* Prepare to hand the listeners over at that path.  If a server is there already, get all its
 * listeners; then srv->handed is set until we serve.  An exit code. */
int handover_open(struct server *srv, const char *path);
/* From here on NULL is fine.  Find a listener at that address (port 0: any port) among those of
 * the previous server, and prepare it like a new one.  The descriptor; -ENOENT: there is none; or
 * another -errno. */
int handover_find(struct handover *h, enum handover_kind kind, const struct net_address *a,
                  const struct net_listening *how);
/* Whether fd came from the previous server; if so, it can be found again. */
bool handover_put_back(struct handover *h, int fd);
/* Close the listeners that were not asked for.  Call it before the folder and the log are opened,
 * so that these get the numbers: connections must have higher ones (fork.c). */
void handover_rest(struct handover *h);
int  handover_control(const struct handover *h); /* the socket of that path; -1: none */

/* Readable: handover_act() has something to do; -1: never. */
int  handover_fd(const struct handover *h);
/* True, once: the next server serves, and this one must stop. */
bool handover_act(struct handover *h);
/* This server stops: a next one that comes only now opens listeners itself. */
void handover_leave(struct handover *h);
/* In a process that was just forked: close its copies of these descriptors. */
void handover_forget(const struct handover *h);
void handover_close(struct handover *h);

/* --- Between the two files -------------------------------------------------------------------- */
enum {
    FDS_MAX = 2 + WORKERS_MAX * LISTENERS_MAX,
    FDS_EACH = 64 /* descriptors in a message; the kernel's limit is 253 */
};

/* Comes with each group of descriptors: the control socket, the sets of listeners one after the
 * other (of a Unix socket, which all sets share, only one), and the listener of the metrics. */
struct parcel {
    char magic[8];
    uint32_t all; /* descriptors in all messages */
    uint32_t sets, metrics; /* sets of listeners, listeners of the metrics */
    uint32_t here;          /* descriptors in this message */
};
#define HANDOVER_MAGIC "rung-1\n" /* 8 bytes with its NUL */

union handover_fds {
    char bytes[CMSG_SPACE(FDS_EACH * sizeof(int))];
    struct cmsghdr align;
};

struct handover {
    struct server *srv;
    int control;  /* where the next server asks */
    int next;     /* ... its connection; -1: none */
    int before;   /* a connection to the server before; -1: none, or it knows that we serve */
    int wait_fd;  /* epoll: one of these has something new, or our workers have begun */
    int begun_fd;
    pid_t next_pid;
    bool over;    /* the next server serves */
    unsigned taken;        /* descriptors from the server before */
    unsigned taken_served; /* ... before that of its metrics */
    int fd[FDS_MAX];       /* -1: closed */
    bool used[FDS_MAX];    /* it was found */
};

unsigned handover_sets(const struct server *srv);
/* Whether the process at the other end is root's or of our own user.  *pid: it; NULL is fine. */
bool handover_trusts(int fd, pid_t *pid);
/* Ask the server that has the socket for its listeners.  EXIT_DONE with h->before < 0: there is
 * none. */
int handover_take(struct handover *h, const struct net_address *a);

#endif
