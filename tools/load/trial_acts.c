/* SPDX-License-Identifier: MIT */
/* trial_acts.c - what hostile clients do: one function for each row of trials.def, read from top
 * to bottom.
 *
 * Each function notes the outcome of every act.  A script that repeats does so until the time of
 * acting is over, and stops at the first act that is against the rules.  A client that waits for
 * the server to close its connection waits as long as --trial-close and no longer.  Chance comes
 * from the actor's seed alone.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>
#include "trial.h"

enum {
    MUCH_BYTES = 8 << 20,       /* of answers: more than sockets hold */
    MUCH_REQUESTS = 4096,
    SMALL_BUFFER = 4096,        /* of a slow reader */
    SLOW_BYTES = 10, SLOW_MS = 100,
    HEAD_MUCH_BYTES = 16 << 20, /* of a head: far beyond what shows that it is too long */
    RANDOM_BYTES = 300
};

static uint64_t now(void)
{
    return clock_ns();
}

static uint64_t patience(const struct actor *a)
{
    return now() + a->scene->timeout_ns;
}

static bool opened(struct actor *a, int receive_bytes)
{
    int err = talk_open(&a->talk, receive_bytes);

    if (err)
        actor_wrong(a, "connecting", err);
    return !err;
}

/* The server must end this connection, which began at since_ns. */
static void rid_of(struct actor *a, uint64_t since_ns)
{
    int status = talk_refusal(&a->talk, since_ns + a->scene->close_ns);

    if (status == -ETIMEDOUT)
        actor_wrong(a, "the server still holds the connection", 0);
    else if (status < 0 && status != -ECONNRESET)
        actor_wrong(a, "being refused", status);
    else
        actor_closed(a, since_ns);
    talk_close(&a->talk);
}

/* A pipeline of requests of random kinds, which are put into what; what NULL: all GET.  The caller
 * frees it. */
static char *make_pipeline(struct actor *a, uint8_t *what, size_t *len)
{
    uint64_t bytes = 0;
    char *text = NULL;
    FILE *out = open_memstream(&text, len);

    for (unsigned i = 0; i < TRIAL_DEPTH && out; i++) {
        enum trial_ask one = what ? (enum trial_ask)actor_random(a, ASKS) : ASK_GET;
        struct slice s;

        if (one == ASK_GET && what && bytes > MUCH_BYTES)
            one = ASK_HEAD;
        bytes += one == ASK_GET ? a->scene->target[ASK_GET].body.len : 0;
        if (what)
            what[i] = (uint8_t)one;
        s = talk_request(a->scene, one);
        fwrite(s.ptr, 1, s.len, out);
    }
    if (!out || fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* Sends, without waiting, as many requests as make an answer that no buffer holds.  Requests that
 * the socket does not take count as asked too, because no client reads that far. */
static void ask_much(struct actor *a)
{
    uint64_t bytes = 0, each = a->scene->target[ASK_GET].body.len + 100;
    size_t len = 0;
    char *text = make_pipeline(a, NULL, &len);
    long n = text ? (long)len : 0;

    while (n == (long)len && bytes < MUCH_BYTES && a->talk.asked < MUCH_REQUESTS) {
        bytes += TRIAL_DEPTH * each;
        a->talk.asked += TRIAL_DEPTH;
        n = talk_push(&a->talk, text, len);
    }
    free(text);
}

void trial_calm(struct actor *a)
{
    while (acting(a))
        poll(NULL, 0, SLOW_MS);
}

void trial_slow_reader(struct actor *a)
{
    uint64_t since_ns = now();
    long n;

    if (!opened(a, SMALL_BUFFER))
        return;
    ask_much(a);
    n = talk_take(&a->talk, SLOW_BYTES, patience(a));
    while (n > 0 && acting(a)) {
        poll(NULL, 0, SLOW_MS);
        n = talk_take(&a->talk, SLOW_BYTES, patience(a));
    }
    if (n == -EBADMSG || n == -ETIMEDOUT)
        actor_wrong(a, "reading slowly", (int)n);
    else if (n < 0)
        actor_closed(a, since_ns);
    else
        actor_answered(a);
    talk_reset(&a->talk);
}

/* True: all bytes were sent, and the server has sent nothing before the last one. */
static bool send_slowly(struct actor *a, struct slice bytes, uint64_t ms)
{
    for (size_t i = 0; i < bytes.len; i++)
        if (talk_push(&a->talk, bytes.ptr + i, 1) < 0 || talk_nap(&a->talk, ms))
            return i + 1 == bytes.len; /* bytes that come then may be the answer */
    return true;
}

/* Sends a whole request in half the time of acting. */
static void write_to_the_end(struct actor *a)
{
    struct slice request = talk_request(a->scene, ASK_GET);
    uint64_t since_ns = now();
    int err;

    if (!send_slowly(a, request, a->scene->act_ns / 2000000 / request.len + 1)) {
        rid_of(a, since_ns); /* too slow for this server */
        return;
    }
    a->talk.asked = 1;
    err = talk_answers(&a->talk, patience(a));
    if (err == -EBADMSG && a->talk.status == 408)
        actor_closed(a, since_ns);
    else if (err)
        actor_wrong(a, "the request was slow, and whole", err);
    else
        actor_answered(a);
    talk_close(&a->talk);
}

void trial_slow_writer(struct actor *a)
{
    struct slice request = talk_request(a->scene, ASK_GET);
    uint64_t since_ns = now();
    struct slice byte = {"x", 1};
    bool quiet;

    if (!opened(a, 0))
        return;
    if (a->index % 2 == 0) {
        write_to_the_end(a);
        return;
    }
    request.len -= 2; /* without its empty line */
    quiet = talk_push(&a->talk, request.ptr, request.len) > 0;
    quiet = quiet && talk_push(&a->talk, "X-Slow: ", 8) > 0;
    while (quiet && now() < since_ns + a->scene->close_ns)
        quiet = send_slowly(a, byte, SLOW_MS) && !talk_nap(&a->talk, 0);
    rid_of(a, since_ns);
}

void trial_half_open(struct actor *a)
{
    uint64_t since_ns = now();

    if (opened(a, 0))
        rid_of(a, since_ns);
}

void trial_half_request(struct actor *a)
{
    struct slice request = talk_request(a->scene, ASK_GET);
    uint64_t since_ns = now();

    if (!opened(a, 0))
        return;
    talk_push(&a->talk, request.ptr, 1 + actor_random(a, request.len - 2));
    rid_of(a, since_ns);
}

/* Whether the server answers and then ends the connection. */
static bool answered_and_ended(struct actor *a, const char *doing)
{
    int err = talk_answers(&a->talk, patience(a));

    if (err) {
        actor_wrong(a, doing, err);
    } else {
        err = (int)talk_take(&a->talk, 1, now() + a->scene->close_ns);
        if (err == -ENODATA || err == -ECONNRESET)
            actor_answered(a);
        else
            actor_wrong(a, err == -ETIMEDOUT ? "answered, but not closed" : doing,
                        err == -ETIMEDOUT ? 0 : err);
    }
    talk_close(&a->talk);
    return !a->acts.wrong;
}

void trial_half_close(struct actor *a)
{
    do {
        if (!opened(a, 0))
            return;
        talk_ask(&a->talk, patience(a));
        talk_end_sending(&a->talk);
    } while (answered_and_ended(a, "after our end of the stream") && acting(a));
}

void trial_reset(struct actor *a)
{
    long left, n = 0;

    do {
        if (!opened(a, 0))
            return;
        ask_much(a);
        for (left = (long)(1 + actor_random(a, 65536)); left > 0 && n >= 0; left -= n)
            n = talk_take(&a->talk, (size_t)left, patience(a));
        talk_reset(&a->talk);
        /* A server that has said that it closes may leave further requests unread, and its end is
         * then a reset (RFC 9112 9.6): we caused it. */
        if (n < 0 && n != -ENODATA && !(n == -ECONNRESET && a->talk.last)) {
            actor_wrong(a, "reading before our reset", (int)n);
            return;
        }
        n = 0;
        actor_answered(a);
    } while (acting(a));
}

void trial_reset_early(struct actor *a)
{
    struct slice request = talk_request(a->scene, ASK_GET);

    do {
        if (!opened(a, 0))
            return;
        talk_push(&a->talk, request.ptr, request.len);
        if (actor_random(a, 2)) /* both: before the server has read, and after */
            poll(NULL, 0, 1);
        talk_reset(&a->talk);
        a->acts.done++;
    } while (acting(a));
}

void trial_churn(struct actor *a)
{
    struct slice request = a->scene->target[ASK_GET].request[1]; /* says Connection: close */

    do {
        if (!opened(a, 0))
            return;
        a->talk.asked = 1;
        talk_send(&a->talk, request.ptr, request.len, patience(a));
    } while (answered_and_ended(a, "one request on a connection") && acting(a));
}

/* --- Pipelines -------------------------------------------------------------------------------- */

/* Sends all requests before it reads the first answer, as far as the sockets take them. */
static int exchange(struct talk *t, const char *bytes, size_t len, uint64_t until_ns)
{
    long n;

    while (t->answers < t->asked) {
        n = len || talk_waits(t) ? talk_push(t, bytes, len) : 0;
        if (n > 0) {
            bytes += n;
            len -= (size_t)n;
            continue;
        }
        n = talk_take(t, sizeof(t->scratch), until_ns);
        if (n < 0 && t->last && n != -EBADMSG)
            return 0; /* the server had said that it would close (RFC 9112 9.6) */
        if (n < 0)
            return (int)n;
    }
    return 0;
}

void trial_pipeline(struct actor *a)
{
    uint8_t what[TRIAL_DEPTH];
    size_t len;
    char *bytes;
    int err;

    do {
        bytes = make_pipeline(a, what, &len);
        if (!bytes || !opened(a, 0)) {
            free(bytes);
            return;
        }
        a->talk.asked = TRIAL_DEPTH;
        a->talk.what = what;
        err = exchange(&a->talk, bytes, len, patience(a) + a->scene->act_ns);
        free(bytes);
        talk_close(&a->talk);
        if (err)
            actor_wrong(a, "pipelining", err);
        else
            actor_answered(a);
    } while (!err && acting(a));
}

void trial_pipeline_cut(struct actor *a)
{
    size_t len;
    char *bytes = make_pipeline(a, NULL, &len);

    do {
        if (!bytes || !opened(a, 0))
            break;
        talk_push(&a->talk, bytes, len);
        poll(NULL, 0, (int)actor_random(a, 4)); /* some close while they are being answered */
        talk_close(&a->talk);
        a->acts.done++;
    } while (acting(a));
    free(bytes);
}

/* --- Invalid requests ------------------------------------------------------------------------- */

static size_t make_nonsense(struct actor *a, char *out)
{
    static const struct slice known[] = {
#define TEXT(text) {text, sizeof(text) - 1}
        TEXT("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n"),
        TEXT("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
        TEXT("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        TEXT("GET / HTTP/1.1\r\n\r\n"),
        TEXT("GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n"),
        TEXT("GET / HTTP/1.1 and more\r\nHost: a\r\n\r\n"),
        TEXT("GET relative HTTP/1.1\r\nHost: a\r\n\r\n"),
        TEXT("G\x01T / HTTP/1.1\r\nHost: a\r\n\r\n"),
        TEXT("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS\r\n\r\n"), /* as if for https */
        TEXT("\0\0\0\0\0\0\0\0\r\n\r\n"),
#undef TEXT
    };
    const unsigned n = sizeof(known) / sizeof(known[0]);
    unsigned which = (unsigned)actor_random(a, 2 * n);
    size_t len = 1 + actor_random(a, RANDOM_BYTES);

    if (which < n) {
        memcpy(out, known[which].ptr, known[which].len);
        return known[which].len;
    }
    out[0] = (char)(128 + actor_random(a, 128)); /* no method and no empty line begins so */
    for (size_t i = 1; i < len; i++)
        out[i] = (char)actor_random(a, 256);
    memcpy(out + len, "\r\n\r\n", 4);
    return len + 4;
}

void trial_nonsense(struct actor *a)
{
    char text[RANDOM_BYTES + 8];

    do {
        uint64_t since_ns = now();
        size_t len = make_nonsense(a, text);

        if (!opened(a, 0))
            return;
        talk_push(&a->talk, text, len);
        rid_of(a, since_ns);
    } while (!a->acts.wrong && acting(a));
}

/* Sends lines of a head until the server objects. */
static void send_head(struct actor *a, uint64_t until_ns)
{
    struct slice request = talk_request(a->scene, ASK_GET);
    char line[4096];
    int err;

    memset(line, 'x', sizeof(line));
    memcpy(line, "X-Huge: ", 8);
    memcpy(line + sizeof(line) - 2, "\r\n", 2);
    err = talk_send(&a->talk, request.ptr, request.len - 2, until_ns);
    for (size_t sent = 0; !err && !talk_nap(&a->talk, 0); sent += sizeof(line)) {
        if (sent >= HEAD_MUCH_BYTES) {
            actor_wrong(a, "the server took 16 MiB of one head, and wants more", 0);
            return;
        }
        err = talk_send(&a->talk, line, sizeof(line), until_ns);
    }
}

void trial_huge_head(struct actor *a)
{
    do {
        uint64_t since_ns = now();

        if (!opened(a, 0))
            return;
        send_head(a, since_ns + a->scene->close_ns);
        if (!a->acts.wrong)
            rid_of(a, since_ns);
    } while (!a->acts.wrong && acting(a));
}

void trial_idle_crowd(struct actor *a)
{
    int fd[TRIAL_CROWD], n = 0;

    for (; n < TRIAL_CROWD && opened(a, 0); n++) {
        fd[n] = talk_let_go(&a->talk);
        a->acts.done++;
    }
    while (!a->acts.wrong && acting(a))
        poll(NULL, 0, SLOW_MS);
    while (n)
        close(fd[--n]);
}
