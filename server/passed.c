/* SPDX-License-Identifier: MIT */
/* passed.c - listeners that systemd opened for us, as sd_listen_fds(3) describes them.
 *
 * LISTEN_FDS says how many descriptors were passed, from 3 on; LISTEN_PID, to which process.  They
 * take the place of --bind and --port.  The process that passed a listener keeps it: a client that
 * connects while this server is restarted waits in the listener's queue.  So its name is not
 * removed when the server stops, and it goes on accepting handshakes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "../base/net.h"
#include "serve.h"

enum { FIRST_FD = 3 };

static int refuse(int fd, const char *why)
{
    say_error("cannot listen on descriptor %d, which LISTEN_FDS passes: %s", fd, why);
    return EXIT_LISTEN;
}

/* An integer option of a socket, or -1. */
static int option_of(int fd, int option)
{
    socklen_t len = sizeof(int);
    int value;

    return getsockopt(fd, SOL_SOCKET, option, &value, &len) < 0 ? -1 : value;
}

static int take(int fd, const struct net_listening *how)
{
    int flags = fcntl(fd, F_GETFL), type = option_of(fd, SO_TYPE), err;

    if (flags < 0)
        return refuse(fd, "it is not open; check what starts rung");
    if (type != SOCK_STREAM)
        return refuse(fd, "it is no stream socket; use ListenStream= in the .socket unit");
    if (option_of(fd, SO_ACCEPTCONN) != 1)
        return refuse(fd, "it is no listener; use Accept=no in the .socket unit");
    err = fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0
              ? -errno
              : net_listener_set(fd, how);
    return err ? refuse(fd, say_why(err)) : EXIT_DONE;
}

unsigned passed_count(void)
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    uint64_t n;

    if (!pid || !count || option_number(pid, &n) != 0 || n != (uint64_t)getpid())
        return 0;
    return option_number(count, &n) == 0 && n < UINT32_MAX ? (unsigned)n : UINT32_MAX;
}

int passed_take(struct server *srv, const struct net_listening *how)
{
    unsigned count = passed_count();
    int code = EXIT_DONE;

    if (count > LISTENERS_MAX) {
        say_error("LISTEN_FDS=%s: it is how many listeners are passed, from 1 to %d",
                  getenv("LISTEN_FDS"), LISTENERS_MAX);
        return EXIT_LISTEN;
    }
    if (srv->arrangement.reuseport) {
        say_error("--accept opens a listener for each worker, and LISTEN_FDS passes one for all; "
                  "leave --accept out");
        return EXIT_USAGE;
    }
    srv->listener = calloc(1, sizeof(*srv->listener));
    if (!srv->listener)
        return refuse(FIRST_FD, say_why(ENOMEM));
    srv->passed = true;
    for (unsigned i = 0; i < count && !code; i++) {
        code = take(FIRST_FD + (int)i, how);
        if (!code)
            srv->listener[0][srv->listeners++] = FIRST_FD + (int)i;
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return code;
}
