/* SPDX-License-Identifier: MIT */
/* bench.c - the server's own protocol without sockets, whole and in parts: what the null engine
 * measures.
 *
 * Each part does the work of one request, as often as it is called.  Some contain others; `less`
 * says which, so that subtraction gives the cost of what cannot be run alone.  The memory part asks
 * a host that always has the same short body at hand; the file part asks the real host.  The
 * bench owns everything, on one thread.
 */
#include <errno.h>
#include <stdlib.h>
#include "bench.h"
#include "inside.h"

enum { PART_PARSE, PART_MACHINE, PART_MEMORY, PART_FILE, PARTS };

struct bench {
    struct loop *loop;
    struct http_host memory_host;
    struct source body;
    const char *bytes; /* the request */
    size_t n;
    bool failed;       /* an exchange did not complete: its time says nothing */
    struct session echo, memory, file;
};

/* What a person types, and what a browser sends. */
static const char *const requests[][2] = {
    {"curl",
     "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n"},
    {"browser",
     "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nConnection: keep-alive\r\n"
     "sec-ch-ua: \"Chromium\";v=\"130\", \"Not?A_Brand\";v=\"99\"\r\nsec-ch-ua-mobile: ?0\r\n"
     "sec-ch-ua-platform: \"Linux\"\r\nUpgrade-Insecure-Requests: 1\r\n"
     "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
     "Chrome/130.0.0.0 Safari/537.36\r\n"
     "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,"
     "*/*;q=0.8\r\nSec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-User: ?1\r\n"
     "Sec-Fetch-Dest: document\r\n"
     "Accept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-US,en;q=0.9\r\n\r\n"},
};

/* --- The parts -------------------------------------------------------------------------------- */

static void once_parse(struct bench *b)
{
    struct http_head head;

    b->failed |= http_parse_request(b->bytes, b->n, &head) != (long)b->n;
}

/* One request in, all of the answer out; nothing is sent anywhere. */
static void exchange(struct bench *b, struct session *s)
{
    struct conn *c = &s->conn;

    if (c->want == CONN_RECV)
        conn_feed(c, b->bytes, b->n, b->loop->now_ms);
    while (c->want == CONN_SEND) {
        struct conn_out out = conn_out(c);
        size_t n = 0;

        for (unsigned i = 0; i < out.count; i++)
            n += (size_t)out.seg[i].len;
        conn_sent(c, n, b->loop->now_ms);
    }
    b->failed |= c->want != CONN_RECV;
}

static void once_machine(struct bench *b)
{
    exchange(b, &b->echo);
}

static void once_memory(struct bench *b)
{
    exchange(b, &b->memory);
}

static void once_file(struct bench *b)
{
    if (b->loop->site)
        exchange(b, &b->file);
    else
        b->failed = true;
}

static const struct bench_case parts[PARTS] = {
    [PART_PARSE] = {"parse", "the head's bytes to slices", once_parse, 0},
    [PART_MACHINE] = {"machine", "the connection, echoing", once_machine, 0},
    [PART_MEMORY] = {"reply", "validators, choice of coding, the answer's head", once_memory,
                     1u << PART_PARSE | 1u << PART_MACHINE},
    [PART_FILE] = {"file", "the folder's own page: open, look, close", once_file,
                   1u << PART_MEMORY},
};

const struct bench_case *bench_cases(unsigned *count)
{
    *count = PARTS;
    return parts;
}

/* --- A host with one page --------------------------------------------------------------------- */

static int memory_find(void *site, const struct http_ask *ask, struct source **source)
{
    struct loop *l = site;

    (void)ask;
    *source = &l->bench->body;
    return 0;
}

static void memory_release(void *site, struct source *source)
{
    (void)site;
    (void)source;
}

/* --- Open and close --------------------------------------------------------------------------- */

static void session_of(struct bench *b, struct session *s,
                       const struct conn_proto *proto, const struct conn_host *host)
{
    *s = (struct session){.fd = -1};
    conn_init(&s->conn, proto, host, b->loop->now_ms);
}

int bench_open(struct loop *l, struct bench **bench)
{
    static const char page[] = "<!doctype html><title>rung</title><p>A short page.\n";
    struct bench *b = calloc(1, sizeof(*b));

    if (!b)
        return -ENOMEM;
    b->loop = l;
    b->body = (struct source){.bytes = page, .size = sizeof(page) - 1, .type = "text/html",
                              .inode = 1, .mtime_s = 1000000000};
    b->memory_host = l->host;
    b->memory_host.find = memory_find;
    b->memory_host.conn.release = memory_release;
    session_of(b, &b->echo, &echo_proto, &l->host.conn);
    session_of(b, &b->memory, l->worker->server->proto, &b->memory_host.conn);
    session_of(b, &b->file, l->worker->server->proto, &l->host.conn);
    l->bench = b;
    *bench = b;
    return 0;
}

const char *bench_script(struct bench *b, unsigned number)
{
    if (number >= sizeof(requests) / sizeof(requests[0]))
        return NULL;
    b->bytes = requests[number][1];
    b->n = strlen(b->bytes);
    return requests[number][0];
}

size_t bench_bytes(const struct bench *b)
{
    return b->n;
}

bool bench_failed(struct bench *b)
{
    bool failed = b->failed;

    b->failed = false;
    return failed;
}

void bench_close(struct bench *b)
{
    conn_fini(&b->echo.conn);
    conn_fini(&b->memory.conn);
    conn_fini(&b->file.conn);
    b->loop->bench = NULL;
    free(b);
}
