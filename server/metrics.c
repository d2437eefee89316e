/* SPDX-License-Identifier: MIT */
/* metrics.c - the metrics listener: a few connections of the core's own HTTP, and two paths.
 *
 * The machine of core/conn.h does the work: heads, limits, keep-alive, deadlines.  This file is a
 * host for it, whose find() knows two names, and a loop that never blocks.  A client costs a
 * descriptor and at most one page of text.  There are few places: a new client takes the place of
 * the one that has been silent longest, so many clients that only hold connections cannot keep
 * another one out.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>
#include "handover.h"
#include "health.h"
#include "metrics.h"

enum {
    HEAD_MS = 2000, IDLE_MS = 5000, SEND_MS = 5000, PROGRESS_BYTES = 4096,
    BACKLOG = 128,
    EVENTS = 8,      /* in a turn; signals are looked at between two */
    SHORTAGE_MS = 100 /* no descriptor: how soon to try again */
};

struct client {
    struct conn conn; /* first: the machine's functions get it */
    struct metrics *metrics;
    int fd; /* -1: a free place */
    uint32_t events;
    bool plain;
    uint64_t moved_ms; /* when it was looked at last */
};

struct metrics {
    struct server *srv;
    int listener, wait_fd;
    bool paused, left;
    uint64_t retry_ms, now_ms;
    struct metrics_start start;
    struct sender *sender;
    struct http_host host;
    char date[HTTP_DATE_BYTES + 1];
    struct client client[METRICS_CLIENTS_MAX];
    char scratch[RECV_BYTES_MAX];
};

/* --- What is answered ------------------------------------------------------------------------- */

static void *host_alloc(void *ctx, size_t bytes)
{
    (void)ctx;
    return malloc(bytes);
}

static void host_free(void *ctx, void *mem, size_t bytes)
{
    (void)ctx;
    (void)bytes;
    free(mem);
}

static void host_release(void *ctx, struct source *source)
{
    (void)ctx;
    if (!health_owns(source))
        metrics_page_free(source);
}

static void host_answered(void *ctx, void *note, uint64_t body_bytes, bool complete)
{
    (void)ctx;
    (void)note;
    (void)body_bytes;
    (void)complete;
}

static void host_forget(void *ctx, const struct conn *conn)
{
    (void)ctx;
    (void)conn;
}

static void *host_answer(void *ctx, const struct conn *conn, const struct http_receipt *receipt)
{
    (void)ctx;
    (void)conn;
    (void)receipt;
    return NULL;
}

static int host_find(void *ctx, const struct http_ask *ask, struct source **source)
{
    struct metrics *m = ctx;
    const struct client *c = (const struct client *)ask->conn;

    if (health_is_asked(ask->path))
        return health_find(m->srv, source);
    return slice_is(ask->path, "/metrics") ? metrics_page(&m->start, c->plain, source)
                                           : -ENOENT;
}

static int host_page(void *ctx, unsigned status, struct source **source)
{
    struct metrics *m = ctx;

    return status == 503 ? health_page(m->srv, source) : -ENOENT;
}

/* The machine's HTTP does not tell the host which format the client prefers. */
static long input(struct conn *c, const char *bytes, size_t n)
{
    struct client *client = (struct client *)c;
    struct http_head head;

    if (http_parse_request(bytes, n, &head) > 0)
        client->plain = http_accept_weight(&head, "text/plain") >
                        http_accept_weight(&head, "application/openmetrics-text");
    return http_proto.input(c, bytes, n);
}

static void end(struct conn *c, size_t unused)
{
    http_proto.end(c, unused);
}

static const struct conn_proto metrics_proto = {
    .name = "http", .input = input, .more = http_reply_more, .end = end, .drop = http_reply_drop};

static void host_fill(struct metrics *m)
{
    m->host = (struct http_host){
        .conn = {.ctx = m, .alloc = host_alloc, .free = host_free, .release = host_release,
                 .answered = host_answered, .forget = host_forget, .head_ms = HEAD_MS,
                 .idle_ms = IDLE_MS, .send_ms = SEND_MS, .progress_bytes = PROGRESS_BYTES},
        .find = host_find, .page = host_page, .answer = host_answer, .date = m->date,
        .server = m->srv->server_field};
}

/* --- Clients ---------------------------------------------------------------------------------- */

static long client_recv(void *io, char *buf, size_t cap)
{
    return net_recv(((struct client *)io)->fd, buf, cap);
}

static long client_send(void *io, const struct conn_out *out)
{
    struct client *c = io;

    return sender_send(c->metrics->sender, c->fd, out, (struct send_file){.fd = -1});
}

static void client_shut(void *io)
{
    struct client *c = io;

    line_end(&c->conn, c->fd);
}

static const struct transport transport = {client_recv, client_send, client_shut};

/* Another process may hold a copy of the socket, so closing it would not take it out of the set. */
static void client_close(struct client *c)
{
    epoll_ctl(c->metrics->wait_fd, EPOLL_CTL_DEL, c->fd, NULL);
    if (conn_unfinished(&c->conn))
        net_cut(c->fd);
    conn_fini(&c->conn);
    close(c->fd);
    c->fd = -1;
}

/* The set has what the machine waits for. */
static bool client_waits(struct client *c)
{
    uint32_t events = c->conn.want == CONN_SEND ? EPOLLOUT : EPOLLIN;
    struct epoll_event ev = {.events = events, .data.ptr = c};
    int op = c->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    if (events == c->events)
        return true;
    c->events = events;
    return epoll_ctl(c->metrics->wait_fd, op, c->fd, &ev) == 0;
}

static void client_serve(struct client *c)
{
    struct metrics *m = c->metrics;
    struct pump p = {.transport = &transport, .io = c, .scratch = m->scratch,
                     .recv_bytes = sizeof(m->scratch)};

    c->moved_ms = m->now_ms;
    if (conn_pump(&c->conn, &p, m->now_ms) == CONN_CLOSE || !client_waits(c))
        client_close(c);
}

/* A free place, or that of the client that has been silent longest. */
static struct client *client_place(struct metrics *m)
{
    struct client *oldest = NULL;

    for (unsigned i = 0; i < METRICS_CLIENTS_MAX; i++) {
        struct client *c = &m->client[i];

        if (c->fd < 0)
            return c;
        if (!oldest || c->moved_ms < oldest->moved_ms)
            oldest = c;
    }
    client_close(oldest);
    return oldest;
}

/* Level-triggered: while no descriptor is left for the client, the listener would stay ready. */
static void listen_on(struct metrics *m, bool on)
{
    struct epoll_event ev = {.events = on ? EPOLLIN : 0};

    if (!m->left)
        epoll_ctl(m->wait_fd, EPOLL_CTL_MOD, m->listener, &ev);
    m->paused = !on;
    m->retry_ms = m->now_ms + SHORTAGE_MS;
}

static void client_accept(struct metrics *m)
{
    int fd = net_accept(m->listener, false);
    struct client *c;

    if (fd < 0) {
        if (fd != -EAGAIN)
            listen_on(m, false);
        return;
    }
    c = client_place(m);
    *c = (struct client){.metrics = m, .fd = fd};
    conn_init(&c->conn, &metrics_proto, &m->host.conn, m->now_ms);
    client_serve(c);
}

/* --- Turns ------------------------------------------------------------------------------------ */

static void tick(struct metrics *m)
{
    struct timespec now;

    m->now_ms = clock_ms();
    m->host.closing = atomic_load(&m->srv->stopping) > 0;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (now.tv_sec != m->host.date_s)
        http_date_write(m->date, now.tv_sec);
    m->host.date_s = now.tv_sec;
}

static void expire(struct metrics *m)
{
    for (unsigned i = 0; i < METRICS_CLIENTS_MAX; i++) {
        struct client *c = &m->client[i];

        if (c->fd >= 0 && c->conn.deadline_ms <= m->now_ms &&
            conn_overdue(&c->conn, net_acked(c->fd, c->conn.sent), m->now_ms))
            client_close(c);
    }
}

void metrics_act(struct metrics *m)
{
    struct epoll_event ev[EVENTS];
    int n;

    if (!m)
        return;
    tick(m);
    n = epoll_wait(m->wait_fd, ev, EVENTS, 0);
    for (int i = 0; i < n; i++) {
        struct client *c = ev[i].data.ptr;

        if (c && c->fd >= 0)
            client_serve(c);
    }
    for (int i = 0; i < n; i++) /* last, because a new client may take the place of one of those */
        if (!ev[i].data.ptr)
            client_accept(m);
    if (m->paused && m->now_ms >= m->retry_ms)
        listen_on(m, true);
    expire(m);
}

int metrics_wait_ms(const struct metrics *m)
{
    uint64_t next_ms = UINT64_MAX, now_ms = clock_ms();

    for (unsigned i = 0; m && i < METRICS_CLIENTS_MAX; i++)
        if (m->client[i].fd >= 0 && m->client[i].conn.deadline_ms < next_ms)
            next_ms = m->client[i].conn.deadline_ms;
    if (m && m->paused && m->retry_ms < next_ms)
        next_ms = m->retry_ms;
    if (next_ms == UINT64_MAX)
        return -1;
    return next_ms > now_ms ? (int)(next_ms - now_ms) : 0;
}

int metrics_fd(const struct metrics *m)
{
    return m ? m->wait_fd : -1;
}

int metrics_listener(const struct metrics *m)
{
    return m ? m->listener : -1;
}

/* --- Open and close --------------------------------------------------------------------------- */

/* PORT, ADDR:PORT, [ADDR]:PORT or unix:PATH.  A port alone is one of loopback. */
static int parse(struct net_address *a, const char *text)
{
    const char *colon = strrchr(text, ':');
    char host[NET_ADDRESS_TEXT] = "127.0.0.1";
    uint64_t port;

    if (strncmp(text, "unix:", 5) == 0)
        return net_address_parse(a, text, 0);
    if (option_number(colon ? colon + 1 : text, &port) != 0 || port > 65535)
        return -EINVAL;
    if (colon) {
        size_t n = (size_t)(colon - text);

        /* ::1:9100 could be an address without a port */
        if (n >= sizeof(host) || (memchr(text, ':', n) && *text != '['))
            return -EINVAL;
        memcpy(host, text, n);
        host[n] = '\0';
    }
    return net_address_parse(a, host, (uint16_t)port);
}

static int complain(const char *text, int err)
{
    if (err == -EINVAL) {
        say_error("--metrics '%s': write a port, ADDRESS:PORT, [IPv6]:PORT or unix:PATH", text);
        return EXIT_USAGE;
    }
    say_error("cannot listen on %s for --metrics: %s; choose another address", text, say_why(err));
    return EXIT_LISTEN;
}

static int open_wait(struct metrics *m)
{
    struct epoll_event ev = {.events = EPOLLIN};

    m->wait_fd = epoll_create1(EPOLL_CLOEXEC);
    if (m->wait_fd < 0 || epoll_ctl(m->wait_fd, EPOLL_CTL_ADD, m->listener, &ev) < 0)
        return -errno;
    return sender_open(&m->sender, &(struct send_how){0});
}

int metrics_open(struct server *srv)
{
    const struct net_listening how = {.backlog = BACKLOG,
                                      .mode = (unsigned)strtoul(srv->opt->socket_mode, NULL, 8)};
    struct metrics *m = calloc(1, sizeof(*m));
    struct net_address a;
    int err = m ? parse(&a, srv->opt->metrics) : -ENOMEM;

    if (err)
        goto failed;
    m->srv = srv;
    m->wait_fd = -1;
    for (unsigned i = 0; i < METRICS_CLIENTS_MAX; i++)
        m->client[i].fd = -1;
    m->listener = handover_find(srv->handover, HANDOVER_METRICS, &a, &how);
    if (m->listener == -ENOENT)
        m->listener = net_listen(&a, &how);
    err = m->listener < 0 ? m->listener : open_wait(m);
    if (err) {
        if (!handover_put_back(srv->handover, m->listener))
            net_unlisten(m->listener);
        if (m->wait_fd >= 0)
            close(m->wait_fd);
        goto failed;
    }
    metrics_start(&m->start, srv);
    host_fill(m);
    srv->metrics = m;
    return EXIT_DONE;

failed:
    free(m);
    return complain(srv->opt->metrics, err);
}

/* The two numbers that were opened first stay taken, because an engine may rely on connections'
 * being higher than those of the folder and the log (fork.c). */
void metrics_forget(struct metrics *m)
{
    if (!m)
        return;
    for (unsigned i = 0; i < METRICS_CLIENTS_MAX; i++)
        if (m->client[i].fd >= 0)
            close(m->client[i].fd);
    (void)net_close_keep(m->wait_fd, m->srv->stop_fd);
    (void)net_close_keep(m->listener, m->srv->stop_fd);
}

void metrics_leave(struct metrics *m)
{
    if (!m)
        return;
    epoll_ctl(m->wait_fd, EPOLL_CTL_DEL, m->listener, NULL);
    (void)net_close_keep(m->listener, m->srv->stop_fd);
    m->left = true;
}

void metrics_close(struct metrics *m)
{
    if (!m)
        return;
    for (unsigned i = 0; i < METRICS_CLIENTS_MAX; i++)
        if (m->client[i].fd >= 0)
            client_close(&m->client[i]);
    if (m->left)
        close(m->listener);
    else
        net_unlisten(m->listener);
    close(m->wait_fd);
    sender_close(m->sender);
    metrics_end(&m->start);
    free(m);
}

void metrics_say(const struct metrics *m)
{
    struct net_address a = {.len = sizeof(a.sa)};
    char text[NET_ADDRESS_TEXT];

    if (!m || getsockname(m->listener, (struct sockaddr *)&a.sa, &a.len) < 0)
        return;
    net_address_text(&a, text);
    if (a.sa.ss_family == AF_UNIX)
        say("metrics at %s", text);
    else
        say("metrics at http://%s/metrics", text);
}
