/* SPDX-License-Identifier: MIT */
/* handover.c - the first server: sends its listeners to the next one, and stops when that serves.
 *
 * Once the listeners are sent they are not ours alone (srv->handed), so a stop gives them no filter
 * and removes no name.  While the next server starts, neither server watches the control socket: a
 * third one that waits there would keep both busy.
 */
#include "handover.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "metrics.h"

enum { CONTROL_QUEUE = 4 /* servers that wait to be answered */ };

static const char serving[8] = "serving"; /* what the next server says */

static void forget(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static int watch(const struct handover *h, int fd)
{
    struct epoll_event ev = {.events = EPOLLIN};

    return epoll_ctl(h->wait_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static void watch_no_more(const struct handover *h, int fd)
{
    (void)epoll_ctl(h->wait_fd, EPOLL_CTL_DEL, fd, NULL);
}

/* --- To the next server ----------------------------------------------------------------------- */

static int send_parcel(int to, struct parcel *parcel, const int *fds)
{
    union handover_fds control = {{0}};
    struct iovec iov = {.iov_base = parcel, .iov_len = sizeof(*parcel)};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
                       .msg_controllen = CMSG_SPACE(parcel->here * sizeof(int))};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
                          .cmsg_len = CMSG_LEN(parcel->here * sizeof(int))};
    memcpy(CMSG_DATA(c), fds, parcel->here * sizeof(int));
    return sendmsg(to, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int send_listeners(const struct handover *h)
{
    static int fds[FDS_MAX];
    const struct server *srv = h->srv;
    struct parcel parcel = {.magic = HANDOVER_MAGIC, .sets = handover_sets(srv),
                            .metrics = srv->metrics != NULL};
    int err = 0;

    fds[parcel.all++] = h->control;
    for (unsigned set = 0; set < parcel.sets; set++)
        for (unsigned i = 0; i < srv->listeners; i++)
            if (!set || srv->listener[set][i] != srv->listener[0][i])
                fds[parcel.all++] = srv->listener[set][i];
    if (srv->metrics)
        fds[parcel.all++] = metrics_listener(srv->metrics);
    for (unsigned n = 0; n < parcel.all && !err; n += parcel.here) {
        parcel.here = parcel.all - n < FDS_EACH ? parcel.all - n : FDS_EACH;
        err = send_parcel(h->next, &parcel, fds + n);
    }
    return err;
}

/* From now on the listeners are not ours alone.  Others wait until this is decided. */
static void set_handed(struct handover *h, bool handed)
{
    atomic_store(&h->srv->handed, handed);
    sweep_removes(h->srv->sweep, !handed);
    if (handed)
        watch_no_more(h, h->control);
    else
        (void)watch(h, h->control);
}

static void answer(struct handover *h)
{
    int err;

    h->next = net_accept(h->control, false);
    if (h->next < 0) {
        h->next = -1;
        return;
    }
    if (!handover_trusts(h->next, &h->next_pid)) {
        forget(&h->next);
        return;
    }
    err = watch(h, h->next);
    if (!err) { /* before they are sent, because from then on the next server may accept */
        set_handed(h, true);
        err = send_listeners(h);
    }
    if (!err)
        return;
    say_error("cannot hand the listeners over: %s; serving goes on", say_why(err));
    forget(&h->next);
    set_handed(h, false);
}

/* Whether the next server serves.  If it has ended instead, another one may come. */
static bool is_succeeded(struct handover *h)
{
    char word[sizeof(serving)];
    long n = net_recv(h->next, word, sizeof(word));

    if (n == -EAGAIN)
        return false;
    watch_no_more(h, h->next); /* a child that was just forked may hold a copy */
    forget(&h->next);
    if (n == sizeof(word) && memcmp(word, serving, sizeof(word)) == 0)
        return true;
    say("process %d took the listeners and ended%s", (int)h->next_pid,
        atomic_load(&h->srv->stopping) ? "" : "; serving goes on");
    set_handed(h, false);
    return false;
}

/* --- From the server before ------------------------------------------------------------------- */

static bool all_begun(const struct server *srv)
{
    for (unsigned i = 0; i < srv->arrangement.workers; i++)
        if (!atomic_load(&srv->begun[i]))
            return false;
    return true;
}

/* The number of the connection stays taken: fork.c. */
static void take_over(struct handover *h)
{
    set_handed(h, false);
    (void)!send(h->before, serving, sizeof(serving), MSG_NOSIGNAL);
    (void)shutdown(h->before, SHUT_RDWR);
    (void)net_close_keep(h->before, h->begun_fd);
    h->before = -1;
}

/* --- Turns ------------------------------------------------------------------------------------ */

bool handover_act(struct handover *h)
{
    bool stopping;
    uint64_t count;

    if (!h || h->over)
        return false;
    stopping = atomic_load(&h->srv->stopping) > 0;
    (void)!read(h->begun_fd, &count, sizeof(count)); /* whatever woke us */
    if (h->before >= 0 && !stopping && all_begun(h->srv))
        take_over(h);
    if (h->before >= 0)
        return false; /* one change at a time */
    if (h->next < 0 && !stopping)
        answer(h);
    if (h->next < 0 || !is_succeeded(h)) {
        if (stopping)
            handover_leave(h);
        return false;
    }
    say("process %d serves now", (int)h->next_pid);
    h->over = true;
    return true;
}

/* The control socket is watched no more: once shut down, it would be reported for ever. */
void handover_leave(struct handover *h)
{
    if (!h || atomic_load(&h->srv->handed))
        return;
    watch_no_more(h, h->control);
    (void)shutdown(h->control, SHUT_RDWR);
}

int handover_fd(const struct handover *h)
{
    return h ? h->wait_fd : -1;
}

/* --- Open and close --------------------------------------------------------------------------- */

static int wait_open(struct handover *h)
{
    int err;

    h->wait_fd = epoll_create1(EPOLL_CLOEXEC);
    h->begun_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->wait_fd < 0 || h->begun_fd < 0)
        return -errno;
    err = watch(h, h->begun_fd);
    if (!err && h->before < 0) /* otherwise the server before answers until we serve */
        err = watch(h, h->control);
    h->srv->begun_fd = h->begun_fd;
    return err;
}

static int control_address(const char *path, struct net_address *a)
{
    char text[NET_ADDRESS_TEXT];
    int n = snprintf(text, sizeof(text), "unix:%s", path);

    return n < (int)sizeof(text) ? net_address_parse(a, text, 0) : -ENAMETOOLONG;
}

int handover_open(struct server *srv, const char *path)
{
    const struct net_listening control = {.backlog = CONTROL_QUEUE, .mode = 0600};
    struct handover *h = calloc(1, sizeof(*h));
    struct net_address a;
    int err = h ? control_address(path, &a) : -ENOMEM, code;

    if (h) {
        h->srv = srv;
        h->control = h->next = h->before = h->wait_fd = h->begun_fd = -1;
        srv->handover = h;
    }
    if (!err) {
        code = handover_take(h, &a);
        if (code)
            return code;
        if (h->before < 0)
            h->control = net_listen(&a, &control);
        err = h->control < 0 ? h->control : wait_open(h);
    }
    if (!err)
        return EXIT_DONE;
    say_error("cannot use --handover %s: %s; it is the path of a Unix socket that rung may make",
              path, say_why(err));
    return EXIT_LISTEN;
}

/* Numbers stay taken: see metrics_forget(). */
void handover_forget(const struct handover *h)
{
    if (!h)
        return;
    (void)net_close_keep(h->control, h->begun_fd);
    (void)net_close_keep(h->wait_fd, h->begun_fd);
    if (h->before >= 0)
        (void)net_close_keep(h->before, h->begun_fd);
    if (h->next >= 0)
        (void)net_close_keep(h->next, h->begun_fd);
}

void handover_close(struct handover *h)
{
    if (!h)
        return;
    for (unsigned i = 0; i < h->taken; i++)
        if (!h->used[i])
            forget(&h->fd[i]);
    if (!atomic_load(&h->srv->handed) && !h->srv->swept) {
        net_unlisten(h->control);
        h->control = -1;
    }
    forget(&h->control);
    forget(&h->next);
    forget(&h->before);
    forget(&h->wait_fd);
    forget(&h->begun_fd);
    h->srv->handover = NULL;
    free(h);
}
