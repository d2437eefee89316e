/* SPDX-License-Identifier: MIT */
/* trial_truth.c - what a right answer is: the file of --check, or the first answer that the server
 * gave, before any client was hostile.
 *
 * A path that hardly exists is requested too.  Its status, which is rarely 200, distinguishes the
 * answers of a pipeline.
 */
#include <errno.h>
#include <stdlib.h>
#include "../../base/say.h"
#include "trial.h"

enum { TRUTH_BYTES_MAX = 64 << 20 };

struct fetched {
    struct http_head head;
    struct http_body body;
    FILE *out;
    char *bytes;
    size_t len;
    bool in_body;
};

/* Takes n bytes, from the beginning of a head or in the body: 1 all is there, 0 more is needed, or
 * -errno. */
static int take(struct fetched *f, const char *bytes, size_t n)
{
    struct slice data;
    long len;

    while (!f->in_body) {
        len = http_parse_response(bytes, n, HTTP_GET, &f->head);
        if (len <= 0)
            return len ? -EBADMSG : 0;
        /* Interim answers may come before the final one (RFC 9110 15.2). */
        f->in_body = f->head.status >= 200 || f->head.status == 101;
        http_body_init(&f->body, f->head.framing, f->head.content_length);
        bytes += len;
        n -= (size_t)len;
    }
    while (n && !http_body_done(&f->body)) {
        len = http_body_next(&f->body, bytes, n, &data);
        if (len < 0)
            return -EBADMSG;
        fwrite(data.ptr, 1, data.len, f->out);
        bytes += len;
        n -= (size_t)len;
    }
    fflush(f->out);
    if (f->len > TRUTH_BYTES_MAX)
        return -EFBIG;
    return n ? -EBADMSG : http_body_done(&f->body);
}

static int receive(struct talk *t, struct fetched *f)
{
    uint64_t until_ns = clock_ns() + t->scene->timeout_ns;
    size_t have = 0; /* of the head */
    long n;
    int done;

    do {
        uint64_t now = clock_ns();

        if (now >= until_ns || !talk_nap(t, (until_ns - now) / 1000000 + 1))
            return -ETIMEDOUT;
        n = talk_receive(t, t->scratch + have, sizeof(t->scratch) - have);
        if (n < 0)
            return (int)n;
        if (n == 0 && f->in_body && f->head.framing == FRAMING_CLOSE && !talk_was_cut(t))
            return 0;
        if (n == 0)
            return have || f->in_body ? -ECONNABORTED : -ENODATA;
        done = take(f, t->scratch, have + (size_t)n);
        have = f->in_body ? 0 : have + (size_t)n;
    } while (done == 0 && have < sizeof(t->scratch));
    return done < 0 ? done : done ? 0 : -EBADMSG;
}

/* Returns an exit code; the caller frees the body. */
static int fetch(const struct scene *s, enum trial_ask what, struct fetched *f)
{
    struct slice request = talk_request(s, what);
    struct talk *t = calloc(1, sizeof(*t));
    const struct peer *peer = s->plan->peer;
    int err;

    memset(f, 0, sizeof(*f));
    f->out = open_memstream(&f->bytes, &f->len);
    if (!t || !f->out) {
        free(t);
        return EXIT_FAILED;
    }
    t->scene = s;
    err = talk_open(t, 0);
    if (err) {
        say_error("cannot connect to %s: %s",
                  s->plan->unix_socket ? s->plan->opt->unix_path : peer->authority,
                  talk_words(t, err));
    } else {
        snprintf(t->why, sizeof(t->why), "it is not HTTP/1.1");
        err = talk_send(t, request.ptr, request.len, clock_ns() + s->timeout_ns);
        err = err ? err : receive(t, f);
        if (err)
            say_error("--trial: %s has no answer to compare with: %s", s->plan->target[0].url,
                      err == -EFBIG ? "it has more than 64 MiB; choose a smaller one, or --check"
                                    : talk_words(t, err));
        err = err ? -EPROTO : 0;
    }
    talk_fini(t);
    free(t);
    fclose(f->out);
    return err == -EPROTO ? EXIT_FAULTS : err ? EXIT_CONNECT : 0;
}

/* A copy of the request with another beginning in place of its first `cut` bytes. */
static struct slice changed(struct slice request, const char *beginning, size_t cut)
{
    struct slice s = {NULL, 0};
    char *text = malloc(strlen(beginning) + request.len - cut);

    if (!text)
        return s;
    s.ptr = text;
    s.len = strlen(beginning) + request.len - cut;
    memcpy(text, beginning, strlen(beginning));
    memcpy(text + strlen(beginning), request.ptr + cut, request.len - cut);
    return s;
}

static bool write_requests(struct scene *s)
{
    struct target *get = &s->target[ASK_GET], *head = &s->target[ASK_HEAD];
    struct target *missing = &s->target[ASK_MISSING];
    struct slice text = get->request[0];
    const char *version = memchr(text.ptr + 4, ' ', text.len - 4);
    char path[64];

    snprintf(path, sizeof(path), "GET /rung-load-%llu-is-not-here",
             (unsigned long long)s->plan->opt->seed);
    head->method = HTTP_HEAD;
    head->request[0] = changed(text, "HEAD", 3);
    missing->has_body = false;
    missing->request[0] = changed(text, path, (size_t)(version - text.ptr));
    return head->request[0].ptr && missing->request[0].ptr;
}

static int judge(const struct scene *s, const struct fetched *f)
{
    const struct target *t = &s->target[ASK_GET];

    if (f->head.status != 200) {
        say_error("--trial: %s answers with %u; a URL that answers with 200 is needed", t->url,
                  f->head.status);
        return EXIT_FAULTS;
    }
    if (t->body.ptr && (f->len != t->body.len || memcmp(f->bytes, t->body.ptr, f->len) != 0)) {
        say_error("--trial: %s answers with other bytes than its file below --check has", t->url);
        return EXIT_FAULTS;
    }
    return 0;
}

int truth_learn(struct scene *s)
{
    struct target *get = &s->target[ASK_GET], *head = &s->target[ASK_HEAD];
    struct fetched f;
    int code;

    for (unsigned i = 0; i < ASKS; i++) {
        s->target[i] = s->plan->target[0];
        s->target[i].also = 200;
        s->target[i].request[0].ptr = i == ASK_GET ? s->target[i].request[0].ptr : NULL;
    }
    if (!write_requests(s))
        return EXIT_FAILED;
    code = fetch(s, ASK_GET, &f);
    code = code ? code : judge(s, &f);
    s->body = f.bytes;
    if (code)
        return code;
    if (!get->has_body) {
        get->has_body = head->has_body = true;
        get->body = head->body = (struct slice){f.bytes, f.len};
    }
    code = fetch(s, ASK_MISSING, &f);
    free(f.bytes);
    s->target[ASK_MISSING].also = (uint16_t)f.head.status;
    return code;
}

void truth_forget(struct scene *s)
{
    free((char *)s->target[ASK_HEAD].request[0].ptr);
    free((char *)s->target[ASK_MISSING].request[0].ptr);
    free(s->body);
}
