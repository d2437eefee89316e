/* SPDX-License-Identifier: MIT */
/* faults_client.h - a client that judges an answer: right, an error that says so, ended, or wrong.
 *
 * The client reads with the core's parser of responses, which is tested elsewhere; this file judges
 * whether the bytes are those of the file, and whether anything hangs.
 */
#ifndef TESTS_FAULTS_CLIENT_H
#define TESTS_FAULTS_CLIENT_H
#include "../../core/http.h"
#include "../serving.h"

enum { IN_BYTES_MAX = 1 << 20 };

struct client {
    int fd;
    size_t len; /* of in[], unused bytes */
    char in[IN_BYTES_MAX];
};

enum verdict { RIGHT, REFUSED, ENDED, WRONG };

static inline struct client *client_new(int port)
{
    static struct client c;

    c.fd = client_open(port);
    c.len = 0;
    return &c;
}

static inline void client_free(struct client *c)
{
    if (c->fd >= 0)
        close(c->fd);
}

/* Receive more of the answer.  1; 0: the connection has ended; -1: the server hangs. */
static inline int more(struct client *c)
{
    long n = client_recv(c->fd, c->in + c->len, sizeof(c->in) - c->len);

    if (n == -ETIMEDOUT)
        return -1;
    if (n <= 0)
        return 0;
    c->len += (size_t)n;
    return 1;
}

/* Read the body behind the head into the front of c->in, where head and framing were.  Returns its
 * length, or -1. */
static inline long body_read(struct client *c, size_t head_len, const struct http_head *head)
{
    struct http_body b;
    size_t at = head_len, len = 0;

    http_body_init(&b, head->framing, head->content_length);
    while (!http_body_done(&b)) {
        struct slice data = {0};
        long used = http_body_next(&b, c->in + at, c->len - at, &data);

        if (used < 0)
            return -1;
        memmove(c->in + len, data.ptr, data.len);
        len += data.len;
        at += (size_t)used;
        if (used == 0 && more(c) != 1)
            return -1;
    }
    memmove(c->in + len, c->in + at, c->len - at);
    c->len = len + (c->len - at);
    return (long)len;
}

/* Read one answer: body (n bytes; NULL: any) with status 200, or status 404 if nothing should be
 * found. */
static inline enum verdict judge(struct client *c, bool head_only, const char *body, size_t n,
                          unsigned status)
{
    struct http_head head;
    long len, got;
    int came;

    while ((len = http_parse_response(c->in, c->len, head_only ? HTTP_HEAD : HTTP_GET, &head)) == 0)
        if ((came = more(c)) != 1)
            return came < 0 ? WRONG : ENDED;
    if (len < 0)
        return WRONG;
    if (head.framing == FRAMING_CLOSE)
        return WRONG; /* every answer says where it ends */
    got = body_read(c, (size_t)len, &head);
    if (got < 0)
        return ENDED;
    if (head.status == status && status == 200 && body &&
        (head_only ? got != 0 : (size_t)got != n || memcmp(c->in, body, n) != 0))
        return WRONG;
    memmove(c->in, c->in + got, c->len - (size_t)got);
    c->len -= (size_t)got;
    if (head.status == status)
        return RIGHT;
    return head.status == 500 || head.status == 503 || head.status == 403 ? REFUSED : WRONG;
}

static inline bool say(struct client *c, const char *text)
{
    return c->fd >= 0 && client_send(c->fd, text, strlen(text));
}

static inline enum verdict ask(struct client *c, const char *target, const char *body, size_t n,
                        unsigned status)
{
    char text[256];

    snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: test\r\n\r\n", target);
    return say(c, text) ? judge(c, false, body, n, status) : ENDED;
}

#endif
