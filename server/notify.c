/* SPDX-License-Identifier: MIT */
/* notify.c - reports the server's state to systemd, as sd_notify(3) describes: a datagram to the
 * socket that NOTIFY_SOCKET names.  Without that variable nothing is sent.  The socket is connected
 * once, because a server in its sandbox makes none. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "serve.h"

enum { STATE_BYTES = 256 };

static int notify_fd = -1;

/* The address that NOTIFY_SOCKET names: a path, or an abstract name that begins with @.  Returns
 * its length, or 0. */
static socklen_t address(struct sockaddr_un *un)
{
    const char *name = getenv("NOTIFY_SOCKET");
    size_t len = name ? strlen(name) : 0;

    if (len < 2 || len >= sizeof(un->sun_path) || (*name != '/' && *name != '@'))
        return 0;
    *un = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(un->sun_path, name, len);
    if (*name == '@')
        un->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
}

void notify_open(void)
{
    struct sockaddr_un un;
    socklen_t len = address(&un);

    notify_fd = len ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    if (notify_fd >= 0 && connect(notify_fd, (const struct sockaddr *)&un, len) < 0)
        notify_close();
}

void notify_close(void)
{
    if (notify_fd >= 0)
        close(notify_fd);
    notify_fd = -1;
}

/* A manager that does not listen does no harm to the server. */
void notify(const char *state)
{
    if (notify_fd >= 0)
        (void)!send(notify_fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void notify_reloading(void)
{
    char state[STATE_BYTES];
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%llu",
             (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000);
    notify(state);
}
